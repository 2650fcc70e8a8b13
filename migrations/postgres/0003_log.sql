-- A row is one event, written in the transaction that made it true. Insert-only: Debezium's
-- EventRouter can read this very table.
create table outbox (
  -- First, so that it is taken before `seq`: whoever has a `seq` has a transaction id by then.
  xid xid8 not null default pg_current_xact_id(),
  seq bigint generated always as identity primary key,
  id text collate "C" not null constraint outbox_id unique,
  aggregatetype text collate "C" not null,
  aggregateid text collate "C" not null,
  -- 1, 2, 3… without a gap for one aggregate.
  aggregate_version bigint not null,
  type text not null,
  payload text not null,
  partition bigint not null,
  traceparent text,
  occurred_at_ms bigint not null,
  constraint outbox_version unique (aggregatetype, aggregateid, aggregate_version)
);

-- A row is one event at its place in the log: the relay's mark, and what groups read.
create table outbox_log (
  -- The transaction of the mark. It began when the row could be seen, so once no transaction up to
  -- it is left, none can still commit a row with a lower `seq`.
  xid xid8 not null default pg_current_xact_id(),
  partition bigint not null,
  -- 0, 1, 2… without a gap for one partition.
  "offset" bigint not null,
  seq bigint not null constraint outbox_log_seq unique,
  logged_at_ms bigint not null,
  primary key (partition, "offset")
);

-- A row is one partition: who may relay it until when, and below which seq all is logged.
create table outbox_partitions (
  partition bigint primary key,
  holder text,
  token bigint not null,
  until_ms bigint not null,
  floor_seq bigint not null
) with (fillfactor = 50);

-- A row is one event that can never be sent. Its key waits; everybody else goes on.
create table outbox_quarantine (
  seq bigint primary key,
  reason text not null,
  at_ms bigint not null
);

-- A row is how far a consumer group has come in a partition.
create table log_groups (
  consumer text collate "C" not null,
  partition bigint not null,
  -- The next offset to read.
  "offset" bigint not null,
  updated_at_ms bigint not null,
  primary key (consumer, partition)
) with (fillfactor = 50);

-- A row is one event that a consumer has handled: the inbox.
create table processed_events (
  consumer text collate "C" not null,
  event_id text collate "C" not null,
  -- The event's key and version: a replay of an older one than was handled is not applied.
  key text collate "C" not null,
  version bigint not null,
  at_ms bigint not null,
  primary key (consumer, event_id)
);

-- A row is the delivery at the head of a partition that a consumer is trying again. Kept here and
-- not in the process, so that a restart grants no new attempts and anybody can ask what is stuck.
create table delivery_retries (
  consumer text collate "C" not null,
  partition bigint not null,
  "offset" bigint not null,
  event_id text collate "C" not null,
  -- Attempts that failed by the delivery's own fault.
  attempts bigint not null,
  reason text not null,
  since_ms bigint not null,
  next_at_ms bigint not null,
  primary key (consumer, partition)
);

-- A row is one delivery set aside for a human (the log's order-events-dlt).
create table dead_letters (
  id bigint generated always as identity primary key,
  consumer text collate "C" not null,
  partition bigint not null,
  "offset" bigint not null,
  event_id text collate "C" not null,
  key text collate "C" not null,
  version bigint not null,
  type text not null,
  payload text not null,
  traceparent text,
  reason text not null,
  attempts bigint not null,
  at_ms bigint not null,
  replayed_at_ms bigint,
  constraint dead_letters_once unique (consumer, event_id)
);

-- A row is one message to a person that the provider took.
create table notices (
  event_id text collate "C" primary key,
  order_id text collate "C" not null,
  kind text not null,
  locale text not null,
  -- What the provider answered: for a mailbox the file's name.
  receipt text not null,
  sent_at_ms bigint not null
);

create index notices_by_order on notices (order_id);

-- A row is what is left of a show, written only by the stock step.
create table show_stock (
  show text collate "C" primary key,
  version bigint not null,
  free bigint not null,
  held bigint not null,
  sold bigint not null,
  as_of_ms bigint not null,
  sold_out_at_ms bigint,
  -- The aggregate version of the show's last event.
  event_version bigint not null
) with (fillfactor = 50);
