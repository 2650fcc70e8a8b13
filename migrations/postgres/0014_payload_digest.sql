-- What the event said when it was handled: the first 16 bytes of the SHA-256 of its payload. Null where an
-- earlier build has handled it.
alter table processed_events add column payload_digest bytea;
