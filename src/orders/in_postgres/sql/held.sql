-- Seats set aside, their hold and its event: all of it, or nothing where what the hold was decided by is not
-- so any more: the ticket's holds and its order, the version $13 of the show's settings and, of the best
-- seats, their section. What that one's lock is called, $18, is waited for, since nobody takes seats of it
-- while somebody looks at all; for seats by name it is null.
-- Seats are locked in one order, whoever takes them, so that two buyers wait at most for each other's end
-- and never for each other. Two who placed a hold with one ticket at once have the same number of it.
with
  stands as materialized (
    select exists (select from shows where show = $2 and version = $13)
      and ($14::text is null or exists (select from sections
        where show = $2 and section = $14 and numbered = $15 and price_minor = $16 and currency = $17))
      and $11::bigint - 1 = (select coalesce(max(nth), 0) from holds where ticket_id = $4)
      and not exists (select from orders
        where ticket_id = $4 and status in ('pending', 'confirmed')) as yes,
      case when $18::text is not null then pg_advisory_xact_lock_shared(hashtextextended($18, 0)) end as locked),
  chosen as materialized (
    select seat from seats where show = $2 and seat = any($5) and state = 'free'
      and (select yes from stands)
    order by section, ordinal for update),
  held as (
    insert into holds (hold_id, show, fan, ticket_id, seats, total_minor, currency, state,
      expires_at_ms, created_at_ms, version, nth)
    select $1, $2, $3, $4, $6, $7, $8, 'live', $9, $10, $12, $11
    where (select count(*) from chosen) = cardinality($5)
    on conflict (ticket_id, nth) do nothing returning hold_id),
  taken as (
    update seats set state = 'held', hold_id = $1
    where show = $2 and seat = any($5) and exists (select from held)),
  told as (
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
      traceparent, occurred_at_ms)
    select $19, 'hold', held.hold_id, $12, $20, $21, $22, $23, $10 from held)
select exists (select from held) as is_live, (select count(*) from chosen) as taken,
  0::bigint as turned
