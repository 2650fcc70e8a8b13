-- The place in the log of the first record of Kafka's topic: above 0 once that was deleted and made anew.
alter table outbox_partitions add column begins integer not null default 0;
