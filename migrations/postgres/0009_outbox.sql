-- What is in the outbox is a fact: rows come and go, and are never changed. Debezium would not see a change,
-- and whoever has read a row would not know of it.
create function outbox_refuses() returns trigger language plpgsql as
$$ begin raise exception 'the outbox is insert-only'; end $$;
create trigger outbox_insert_only before update on outbox
for each statement execute function outbox_refuses();

-- A row is an event at its place in the log without its facts, for whoever must not see personal data: a
-- right to select here is none to the tables behind.
create view thin_events as
select l.partition, l."offset", o.id, o.type, o.aggregatetype, o.aggregateid, o.aggregate_version,
o.traceparent, o.occurred_at_ms
from outbox_log l join outbox o on o.seq = l.seq;

-- When an operator gave an event up that can never be sent: from then on its key goes on without it.
alter table outbox_quarantine add column skipped_at_ms bigint;
