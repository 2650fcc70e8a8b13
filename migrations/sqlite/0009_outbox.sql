-- What is in the outbox is a fact: rows come and go, and are never changed. Whoever has read a row would not
-- know of it.
create trigger outbox_insert_only before update on outbox
begin select raise(abort, 'the outbox is insert-only'); end;

-- A row is an event at its place in the log without its facts, for whoever must not see personal data. A file
-- has no rights, so here it is a shape only.
create view thin_events as
select l.partition, l."offset", o.id, o.type, o.aggregatetype, o.aggregateid, o.aggregate_version,
o.traceparent, o.occurred_at_ms
from outbox_log l join outbox o on o.seq = l.seq;

-- When an operator gave an event up that can never be sent: from then on its key goes on without it.
alter table outbox_quarantine add column skipped_at_ms integer;
