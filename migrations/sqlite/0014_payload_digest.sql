-- As in PostgreSQL: the first 16 bytes of the SHA-256 of the payload that was handled.
alter table processed_events add column payload_digest blob;
