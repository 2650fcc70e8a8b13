-- $1 group. What lies between the first and the last that are not read yet need not be counted: offsets are
-- contiguous, but where Kafka has a copy that was never marked, and that the group has to read as well.
select p.partition, last.offset - first.offset + 1, first.logged_at_ms
from outbox_partitions p
left join log_groups g on g.consumer = $1 and g.partition = p.partition
cross join lateral (
  select l.offset, l.logged_at_ms from outbox_log l
  where l.partition = p.partition and coalesce(g.offset, 0) <= l.offset
  order by l.offset limit 1
) first
cross join lateral (
  select l.offset from outbox_log l where l.partition = p.partition
  order by l.offset desc limit 1
) last
