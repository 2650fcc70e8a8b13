-- A live hold that becomes an order, its first payment and its event.
with
  mine as materialized (
    select $1::text is null or exists (select from idempotency_keys
      where fan = $1 and route = $2 and key = $3 and in_flight_until_ms = $4 and status is null
      for update) as yes),
  ordered as (
    update holds set state = 'ordered', version = $9
    where hold_id = $8 and state = 'live' and (select yes from mine)
    returning hold_id, show, fan, ticket_id, seats, total_minor, currency),
  placed as (
    insert into orders (order_id, hold_id, show, fan, ticket_id, seats, total_minor, currency, email,
      locale, status, placed_at_ms, payable_until_ms, updated_at_ms, version)
    select $10, ordered.*, $11, $12, 'pending', $13, $14, $13, $15 from ordered),
  asked as (
    insert into payments (order_id, attempt, state, token, at_ms)
    select $10, $16, 'asked', $17, $13 from ordered),
  told as (
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
      traceparent, occurred_at_ms)
    select $18, 'order', $10, $15, $19, $20, $21, $22, $13 from ordered),
  kept as (
    update idempotency_keys set status = $5, admission = $6, body = $7
    where fan = $1 and route = $2 and key = $3 and exists (select from ordered))
select mine.yes as is_mine, exists (select from ordered) as is_live, 0::bigint as taken,
  0::bigint as turned from mine
