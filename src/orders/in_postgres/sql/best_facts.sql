-- What a hold of the best seats depends on, with free seats that nobody else looks at. Where neighbours
-- are wanted, a buyer has a block of 32 seats to itself: the first that has so many together, or, where
-- somebody is looking at that one, another of the 64 from there; which one differs from connection to
-- connection, so that buyers seldom ask for the same. Places without numbers need no block, for who
-- meets a locked one takes the next.
-- The locks come first: nobody else makes a hold with the ticket, and nobody looks for all seats of the
-- section. What is read was so before them: held.sql counts the holds again, and a seat that is locked
-- is still free. $8: where to begin, for the index keeps the traces of all that were sold before it.
-- Blocks are looked at one by one until one is ours, so `runs` is read no further; `found`: there was a
-- block with so many together, whoever has it.
-- Where nothing is free from the first seat on, the row also says what a refusal depends on, as
-- section_facts.sql and hold_facts.sql do: a crowd before an empty section costs one statement each.
with locks as materialized (
  select pg_advisory_xact_lock(hashtextextended($6, 0)) as ticket,
    pg_advisory_xact_lock_shared(hashtextextended($7, 0)) as section),
first as materialized (
  select (ordinal - 1) / 32 * 32 as low from seats
  where exists (select from locks)
    and show = $1 and section = $4 and state = 'free' and $8 < ordinal
  order by ordinal limit 1),
runs as materialized (
  select block.low, run.last
  from sections c cross join first cross join generate_series(0, 63) nth,
    lateral (select first.low + 32 *
      case nth when 0 then 0 else 1 + (nth + pg_backend_pid()) % 63 end as low) block,
    lateral (select ordinal as last from
      (select ordinal, ordinal - lag(ordinal, $5::integer - 1) over (order by ordinal) as width
       from seats where show = $1 and section = $4 and state = 'free'
         and block.low < ordinal and ordinal <= block.low + 32) free
      where width = $5 - 1 limit 1) run
  where c.show = $1 and c.section = $4 and c.numbered),
spot as materialized (
  select case when c.numbered then run.last - $5 else first.low end as low,
    case when c.numbered then run.last else 2147483647 end as high
  from sections c cross join first left join lateral (
    select last from runs
    where c.numbered
      and pg_try_advisory_xact_lock(hashtextextended($7 || ' ' || runs.low, 0))
    limit 1) run on true
  where c.show = $1 and c.section = $4),
next as materialized (
  select ordinal from seats
  where show = $1 and section = $4 and state = 'free'
    and (select low from spot) < ordinal and ordinal <= (select high from spot)
  order by ordinal limit $5 for update skip locked)
select s.settings, s.cancelled_at_ms is not null as is_cancelled, c.section,
  c.numbered, c.price_minor, c.currency,
  array(select ordinal from next order by ordinal) as free,
  (select low from first) as front, exists (select from runs) as found, carts.live, carts.ends,
  case when $8 = 0 and not exists (select from first) then (select ordinal from seats
    where show = $1 and section = $4 and state = 'held'
    order by ordinal limit 1) is not null end as in_carts,
  case when $8 = 0 and not exists (select from first) then exists (
    select from sections c, (values ('free'), ('held')) still (state),
      lateral (select from seats s
        where s.show = c.show and s.section = c.section and s.state = still.state
        order by s.ordinal limit 1) left_over
    where c.show = $1) end as is_left,
  exists (select from orders
    where ticket_id = $2 and status in ('pending', 'confirmed')) as ordered
from shows s left join sections c on c.show = s.show and c.section = $4,
  (select coalesce(array_agg(hold_id) filter (where $3 < expires_at_ms), '{}') as live,
     coalesce(array_agg(expires_at_ms) filter (where $3 < expires_at_ms), '{}') as ends from holds
   where ticket_id = $2 and state = 'live') carts
where s.show = $1
