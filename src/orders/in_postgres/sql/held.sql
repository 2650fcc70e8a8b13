-- Seats set aside, their hold and its event. Seats are locked in one order, whoever takes them, so
-- that two buyers wait at most for each other's end and never for each other.
with
  mine as materialized (
    select $1::text is null or exists (select from idempotency_keys
      where fan = $1 and route = $2 and key = $3 and in_flight_until_ms = $4 and status is null
      for update) as yes),
  live as materialized (
    select count(*) filter (where $10 < expires_at_ms) = $8 as yes from holds
    where ticket_id = $9 and state = 'live'),
  chosen as materialized (
    select seat from seats where show = $11 and seat = any($12) and state = 'free'
      and (select mine.yes and live.yes from mine, live)
    order by section, ordinal for update),
  taken as (
    update seats s set state = 'held', hold_id = $13 from chosen c
    where s.show = $11 and s.seat = c.seat returning 1),
  held as (
    insert into holds (hold_id, show, fan, ticket_id, seats, total_minor, currency, state,
      expires_at_ms, created_at_ms, version)
    values ($13, $11, $14, $9, $15, $16, $17, 'live', $18, $10, $19)),
  told as (
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
      traceparent, occurred_at_ms)
    values ($20, 'hold', $13, $19, $21, $22, $23, $24, $10)),
  kept as (
    update idempotency_keys set status = $5, admission = $6, body = $7
    where fan = $1 and route = $2 and key = $3 and (select yes from mine))
select mine.yes as is_mine, live.yes as is_live, (select count(*) from taken) as taken,
  0::bigint as turned from mine, live
