-- What an order depends on: of the hold, its order and the ticket what is committed.
select s.settings, s.cancelled_at_ms is not null as is_cancelled, h.*,
  (select order_id from orders where hold_id = $2) as placed,
  exists (select from orders
    where ticket_id = $3 and status in ('pending', 'confirmed')) as ordered
from shows s left join holds h on h.hold_id = $2 where s.show = $1
