-- The place in the log of the first record of Kafka's topic: above 0 once that was deleted and made anew.
alter table outbox_partitions add column begins bigint not null default 0;

-- Which transaction a mark is of is known to the relay that wrote it, and is read nowhere.
alter table outbox_log drop column xid;
