-- The ticket's how-manieth hold it is: 1, 2, 3… Of two that are placed at once with one ticket, and so did not
-- count each other, one has the number and the other looks again.
alter table holds add column nth bigint not null default 0;

update holds set nth = counted.nth from
  (select hold_id, row_number() over (partition by ticket_id order by created_at_ms, hold_id) as nth
   from holds) counted
where holds.hold_id = counted.hold_id;

-- All of a ticket, not those that are live: a number is given once.
drop index holds_by_ticket;
create unique index holds_by_ticket on holds (ticket_id, nth);
