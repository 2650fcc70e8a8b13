-- What a hold depends on, but for the seats: what show and ticket allow, and whether the show has any
-- seat left. Each row is found by an index that leads to it alone, whatever the server believes of the
-- tables. A ticket's holds are those of the ticket; which of them are over is asked afterwards, here as in
-- best_facts.sql and held.sql. Of each section the first seat in either state is looked up, by an order
-- that only the index has: asked whether there is one, the server might read all seats there are.
select s.settings, s.cancelled_at_ms is not null as is_cancelled, carts.live, carts.ends,
  exists (select from orders
    where ticket_id = $2 and status in ('pending', 'confirmed')) as ordered,
  exists (select from sections c, (values ('free'), ('held')) still (state),
      lateral (select from seats s
        where s.show = c.show and s.section = c.section and s.state = still.state
        order by s.ordinal limit 1) first
    where c.show = $1) as is_left
from shows s,
  (select coalesce(array_agg(hold_id) filter (where $3 < expires_at_ms), '{}') as live,
     coalesce(array_agg(expires_at_ms) filter (where $3 < expires_at_ms), '{}') as ends from holds
   where ticket_id = $2 and state = 'live') carts
where s.show = $1
