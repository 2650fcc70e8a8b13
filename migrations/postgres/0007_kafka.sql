-- The row, for there is one, is the log that events of this outbox go to: `sql:` is the outbox itself,
-- `kafka:` a topic. Marks and the offsets of groups are places in it, so it never changes.
create table event_log (
  one bigint primary key,
  name text collate "C" not null
);

insert into event_log select 1, 'sql:' where exists (select 1 from outbox_partitions)
                                          or exists (select 1 from log_groups);

-- How many rows were removed because every group was past them: what is missing may be among them. In
-- Kafka offsets do not say it, for they need not begin at 0.
alter table outbox_partitions add column cleaned bigint not null default 0;

update outbox_partitions set cleaned = coalesce(
  (select min(l."offset") from outbox_log l where l.partition = outbox_partitions.partition), 0);
