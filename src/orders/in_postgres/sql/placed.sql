-- A live hold that becomes an order, its first payment and its event. 'live' is no constant, or a server that
-- knows little of the holds might look for this one among all that are live.
with
  ordered as (
    update holds set state = 'ordered', version = $2
    where hold_id = $1 and state = (select 'live')
    returning hold_id, show, fan, ticket_id, seats, total_minor, currency),
  placed as (
    insert into orders (order_id, hold_id, show, fan, ticket_id, seats, total_minor, currency, email,
      locale, status, placed_at_ms, payable_until_ms, updated_at_ms, version)
    select $3, ordered.*, $4, $5, 'pending', $6, $7, $6, $8 from ordered),
  asked as (
    insert into payments (order_id, attempt, state, token, at_ms)
    select $3, $9, 'asked', $10, $6 from ordered),
  told as (
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
      traceparent, occurred_at_ms)
    select $11, 'order', $3, $8, $12, $13, $14, $15, $6 from ordered)
select exists (select from ordered) as is_live, 0::bigint as taken, 0::bigint as turned
