-- A section, and whether any of its seats is in a cart: the first one, by the index that has them in order.
select c.*, (select s.ordinal from seats s
  where s.show = c.show and s.section = c.section and s.state = 'held'
  order by s.ordinal limit 1) is not null as in_carts
from sections c where c.show = $1 and c.section = $2
