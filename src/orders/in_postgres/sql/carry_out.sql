-- The writes of decisions. Seats are locked in one order, whoever takes them, so that two buyers wait
-- at most for each other's end and never for each other.
-- Each row is found by an index that leads to it alone, whatever the server believes of the tables: in what state
-- a hold is, is asked of those named, for by state alone all that are live could be read; and seats are named one
-- by one and not joined.
-- $1 holds that must be live; $2 to $5 a show, seats of it that were free, whose hold they become, and as what; $6
-- holds whose seats are not held any more, $7 whose are sold, $8 whose are sold no more.
with
  live as materialized (
    select count(*) filter (where state = 'live') = cardinality($1::text[]) as yes from (
      select state from holds where hold_id = any($1) order by hold_id for update) locked),
  chosen as materialized (
    select seat from seats where show = $2 and seat = any($3) and state = 'free'
      and (select yes from live)
    order by section, ordinal for update),
  taken as (
    update seats set state = $5, hold_id = $4
    where show = $2 and seat = any($3) and (select count(*) from chosen) = cardinality($3)),
  turned as (
    update seats set state = case when hold_id = any($7::text[]) then 'sold' else 'free' end,
      hold_id = case when hold_id = any($7) then hold_id end
    where hold_id = any($6::text[] || $7 || $8::text[]) and (select yes from live)
      and state = case when hold_id = any($8) then 'sold' else 'held' end returning 1),
  put_holds as (
    insert into holds select r.* from jsonb_populate_recordset(null::holds, $9::jsonb) r
    where (select yes from live)
    on conflict (hold_id) do update set state = excluded.state, version = excluded.version),
  put_orders as (
    insert into orders select r.* from jsonb_populate_recordset(null::orders, $10::jsonb) r
    where (select yes from live)
    on conflict (order_id) do update set status = excluded.status, reason = excluded.reason,
      updated_at_ms = excluded.updated_at_ms, version = excluded.version),
  put_payments as (
    insert into payments select r.* from jsonb_populate_recordset(null::payments, $11::jsonb) r
    where (select yes from live)
    on conflict (order_id, attempt) do update set state = excluded.state,
      provider_reference = excluded.provider_reference, at_ms = excluded.at_ms),
  put_events as (
    insert into outbox (id, aggregatetype, aggregateid, aggregate_version, type, payload, partition,
      traceparent, occurred_at_ms)
    select r.id, r.aggregatetype, r.aggregateid, r.aggregate_version, r.type, r.payload, r.partition,
      coalesce(r.traceparent, (select o.traceparent from outbox o
        where o.aggregatetype = r.aggregatetype and o.aggregateid = r.aggregateid
          and o.aggregate_version = 1)),
      r.occurred_at_ms
    from jsonb_populate_recordset(null::outbox, $12::jsonb) r where (select yes from live))
select live.yes as is_live,
  (select count(*) from chosen) as taken, (select count(*) from turned) as turned from live
