-- $1 group, $2 partition, $3 at most so many. Each row is looked up by itself: a join might be planned to
-- read the whole outbox. And the offsets have two bounds: all above one might be read and sorted for the first.
-- Fewer than $3 need not be the last, for Kafka leaves gaps.
select l.partition, l.offset, o.id, o.aggregateid, o.aggregate_version, o.type,
       o.payload, o.traceparent, o.occurred_at_ms
from (
  select l.offset from outbox_log l
  where l.partition = $2
    and coalesce((select g.offset from log_groups g
                  where g.consumer = $1 and g.partition = $2), 0) <= l.offset
  order by l.offset limit 1
) first
cross join lateral (
  select * from outbox_log l
  where l.partition = $2 and first.offset <= l.offset and l.offset < first.offset + $3
) l
cross join lateral (select * from outbox o where o.seq = l.seq limit 1) o
order by l.offset
