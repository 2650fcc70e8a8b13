-- A section with its first free seats, $3 at most, and whether any of its seats is in a cart: the first one,
-- by the index that has them in order. All of one moment, so that a seat which is taken meanwhile is free or
-- in a cart.
select c.*, (select s.ordinal from seats s
  where s.show = c.show and s.section = c.section and s.state = 'held'
  order by s.ordinal limit 1) is not null as in_carts,
  array(select ordinal from seats
    where show = $1 and section = $2 and state = 'free'
    order by ordinal limit $3) as free
from sections c where c.show = $1 and c.section = $2
