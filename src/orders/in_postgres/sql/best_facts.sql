-- What a hold of the best seats depends on, with free seats that nobody else looks at. Where neighbours
-- are wanted, a buyer has a block of 32 seats to itself, the first that has enough and that nobody else
-- is looking at; places without numbers need no block, for who meets a locked one takes the next.
-- The locks come first: nobody else makes a hold with the ticket, and nobody looks for all seats of the
-- section. What is read was so before them: held.sql counts the holds again, and a seat that is locked
-- is still free.
with locks as materialized (
  select pg_advisory_xact_lock(hashtextextended($6, 0)) as ticket,
    pg_advisory_xact_lock_shared(hashtextextended($7, 0)) as section),
first as materialized (
  select (ordinal - 1) / 32 * 32 as low from seats
  where show = $1 and section = $4 and state = 'free' order by ordinal limit 1),
spot as materialized (
  select case when c.numbered then block.low else 0 end as low,
    case when c.numbered then block.low + 32 else 2147483647 end as high,
    case when c.numbered and 1 < $5 then 4 * $5 else $5 end as looks
  from sections c left join lateral (
    select low from generate_series((select low from first), (select low + 63 * 32 from first), 32) low
    where c.numbered and case
      when $5 <= (select count(*) from seats where show = $1 and section = $4 and state = 'free'
        and low < ordinal and ordinal <= low + 32)
      then pg_try_advisory_xact_lock(hashtextextended($7 || ' ' || low, 0)) end
    limit 1) block on true
  where exists (select from locks) and c.show = $1 and c.section = $4),
next as materialized (
  select ordinal from seats
  where show = $1 and section = $4 and state = 'free'
    and (select low from spot) < ordinal and ordinal <= (select high from spot)
  order by ordinal limit (select looks from spot) for update skip locked)
select s.settings, s.cancelled_at_ms is not null as is_cancelled, c.section,
  c.numbered, c.price_minor, c.currency,
  array(select ordinal from next order by ordinal) as free,
  array(select hold_id from holds
    where ticket_id = $2 and state = 'live' and expires_at_ms > $3 order by hold_id) as live,
  array(select expires_at_ms from holds
    where ticket_id = $2 and state = 'live' and expires_at_ms > $3 order by hold_id) as ends,
  exists (select from orders
    where ticket_id = $2 and status in ('pending', 'confirmed')) as ordered
from shows s left join sections c on c.show = s.show and c.section = $4 where s.show = $1
