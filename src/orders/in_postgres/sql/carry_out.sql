-- The writes of decisions. Seats are locked in one order, whoever takes them, so that two buyers wait
-- at most for each other's end and never for each other.
with
  live as materialized (
    select count(*) = cardinality($1::text[]) as yes from (select from holds
      where hold_id = any($1) and state = 'live' order by hold_id for update) locked),
  chosen as materialized (
    select s.show, s.seat, t.hold_id, t.state from seats s
    join jsonb_to_recordset($2::jsonb) as t (show text, seat text, hold_id text, state text)
      on s.show = t.show and s.seat = t.seat
    where s.state = 'free' and (select yes from live)
    order by s.show, s.section, s.ordinal for update of s),
  taken as (
    update seats s set state = c.state, hold_id = c.hold_id from chosen c
    where s.show = c.show and s.seat = c.seat returning 1),
  turned as (
    update seats s set state = t.state, hold_id = case t.state when 'sold' then s.hold_id end
    from jsonb_to_recordset($3::jsonb) as t (hold_id text, was text, state text)
    where s.hold_id = t.hold_id and s.state = t.was and (select yes from live) returning 1),
  put_holds as (
    insert into holds select r.* from jsonb_populate_recordset(null::holds, $4::jsonb) r
    where (select yes from live)
    on conflict (hold_id) do update set state = excluded.state, version = excluded.version),
  put_orders as (
    insert into orders select r.* from jsonb_populate_recordset(null::orders, $5::jsonb) r
    where (select yes from live)
    on conflict (order_id) do update set status = excluded.status, reason = excluded.reason,
      updated_at_ms = excluded.updated_at_ms, version = excluded.version),
  put_payments as (
    insert into payments select r.* from jsonb_populate_recordset(null::payments, $6::jsonb) r
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
    from jsonb_populate_recordset(null::outbox, $7::jsonb) r where (select yes from live))
select live.yes as is_live,
  (select count(*) from taken) as taken, (select count(*) from turned) as turned from live
