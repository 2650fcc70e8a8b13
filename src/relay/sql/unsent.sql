-- $1 partition, $2 above which seq, $3 up to which, $4 at most so many. Every look-up goes by one row's own
-- index: a join might be planned to read all marks there are, more with every event. And what is looked at has two
-- bounds: of a backlog that was never analysed all might be read and sorted for the first rows.
-- A missing version counts as sent only where marks have been cleaned up: then it may have been among
-- them. Otherwise it is not there yet.
select o.seq, o.id, o.type, o.aggregatetype, o.aggregateid, o.aggregate_version, o.payload,
       o.traceparent, o.occurred_at_ms,
       case when o.aggregate_version = 1 or p.marked is not null then 'sent'
            when p.skipped_at_ms is not null then 'sent'
            when p.quarantined is not null then 'quarantined'
            when p.seq is null
             and 0 < (select f.cleaned from outbox_partitions f where f.partition = $1)
            then 'sent'
            else 'unsent' end as before
from outbox o
left join lateral (
  select p.seq, l.seq as marked, q.seq as quarantined, q.skipped_at_ms
  from outbox p
  left join lateral (select m.seq from outbox_log m where m.seq = p.seq limit 1) l on true
  left join lateral (
    select m.seq, m.skipped_at_ms from outbox_quarantine m where m.seq = p.seq limit 1
  ) q on true
  where p.aggregatetype = o.aggregatetype and p.aggregateid = o.aggregateid
    and p.aggregate_version = o.aggregate_version - 1
  limit 1
) p on true
where $2 < o.seq and o.seq <= $3 and o.partition = $1
  and (select m.seq from outbox_log m where m.seq = o.seq) is null
  and (select m.seq from outbox_quarantine m where m.seq = o.seq) is null
order by o.seq limit $4
