-- A row is one event, written in the transaction that made it true. Insert-only: Debezium's
-- EventRouter can read this very table.
create table outbox (
  seq integer primary key autoincrement,
  id text not null constraint outbox_id unique,
  aggregatetype text not null,
  aggregateid text not null,
  -- 1, 2, 3… without a gap for one aggregate.
  aggregate_version integer not null,
  type text not null,
  payload text not null,
  partition integer not null,
  traceparent text,
  occurred_at_ms integer not null,
  constraint outbox_version unique (aggregatetype, aggregateid, aggregate_version)
) strict;

-- A row is one event at its place in the log: the relay's mark, and what groups read.
create table outbox_log (
  partition integer not null,
  -- 0, 1, 2… without a gap for one partition.
  offset integer not null,
  seq integer not null constraint outbox_log_seq unique,
  logged_at_ms integer not null,
  primary key (partition, offset)
) strict;

-- A row is one partition: who may relay it until when, and below which seq all is logged.
create table outbox_partitions (
  partition integer primary key,
  holder text,
  token integer not null,
  until_ms integer not null,
  floor_seq integer not null
) strict;

-- A row is one event that can never be sent. Its key waits; everybody else goes on.
create table outbox_quarantine (
  seq integer primary key,
  reason text not null,
  at_ms integer not null
) strict;

-- A row is how far a consumer group has come in a partition.
create table log_groups (
  consumer text not null,
  partition integer not null,
  -- The next offset to read.
  offset integer not null,
  updated_at_ms integer not null,
  primary key (consumer, partition)
) strict;

-- A row is one event that a consumer has handled: the inbox.
create table processed_events (
  consumer text not null,
  event_id text not null,
  -- The event's key and version: a replay of an older one than was handled is not applied.
  key text not null,
  version integer not null,
  at_ms integer not null,
  primary key (consumer, event_id)
) strict;

-- A row is the delivery at the head of a partition that a consumer is trying again. Kept here and
-- not in the process, so that a restart grants no new attempts and anybody can ask what is stuck.
create table delivery_retries (
  consumer text not null,
  partition integer not null,
  offset integer not null,
  event_id text not null,
  -- Attempts that failed by the delivery's own fault.
  attempts integer not null,
  reason text not null,
  since_ms integer not null,
  next_at_ms integer not null,
  primary key (consumer, partition)
) strict;

-- A row is one delivery set aside for a human (the log's order-events-dlt).
create table dead_letters (
  id integer primary key autoincrement,
  consumer text not null,
  partition integer not null,
  offset integer not null,
  event_id text not null,
  key text not null,
  version integer not null,
  type text not null,
  payload text not null,
  traceparent text,
  reason text not null,
  attempts integer not null,
  at_ms integer not null,
  replayed_at_ms integer,
  constraint dead_letters_once unique (consumer, event_id)
) strict;

-- A row is one message to a person that the provider took.
create table notices (
  event_id text primary key,
  order_id text not null,
  kind text not null,
  locale text not null,
  -- What the provider answered: for a mailbox the file's name.
  receipt text not null,
  sent_at_ms integer not null
) strict;

create index notices_by_order on notices (order_id);

-- A row is what is left of a show, written only by the stock step.
create table show_stock (
  show text primary key,
  version integer not null,
  free integer not null,
  held integer not null,
  sold integer not null,
  as_of_ms integer not null,
  sold_out_at_ms integer,
  -- The aggregate version of the show's last event.
  event_version integer not null
) strict;
