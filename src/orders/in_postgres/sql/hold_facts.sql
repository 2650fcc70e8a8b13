-- What a hold depends on, but for seats by name: what show and ticket allow, whether the show has any seat
-- left, and the section $4 of the best seats with its first free ones, $5 at most. All of one moment, so that
-- a seat which is taken meanwhile is free or in a cart.
-- Each row is found by an index that leads to it alone, whatever the server believes of the tables. A ticket's
-- holds are those of the ticket; which of them are over is asked afterwards. Of each section the first seat
-- in either state is looked up, by an order that only the index has: asked whether there is one, the server
-- might read all seats there are.
select s.version as show_version, s.settings, s.cancelled_at_ms is not null as is_cancelled,
  carts.live, carts.ends, carts.had,
  exists (select from orders
    where ticket_id = $2 and status in ('pending', 'confirmed')) as ordered,
  exists (select from sections c, (values ('free'), ('held')) still (state),
      lateral (select from seats s
        where s.show = c.show and s.section = c.section and s.state = still.state
        order by s.ordinal limit 1) first
    where c.show = $1) as is_left,
  c.section, c.numbered, c.price_minor, c.currency,
  array(select ordinal from seats
    where show = $1 and section = $4 and state = 'free'
    order by ordinal limit $5) as free,
  (select ordinal from seats
    where show = $1 and section = $4 and state = 'held'
    order by ordinal limit 1) is not null as in_carts
from shows s left join sections c on c.show = s.show and c.section = $4,
  (select coalesce(array_agg(hold_id) filter (where state = 'live' and $3 < expires_at_ms), '{}') as live,
     coalesce(array_agg(expires_at_ms) filter (where state = 'live' and $3 < expires_at_ms), '{}') as ends,
     coalesce(max(nth), 0) as had
   from holds where ticket_id = $2) carts
where s.show = $1
