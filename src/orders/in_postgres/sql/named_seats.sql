-- Seats by name: those of $2 that the show has, and the version of its settings. Each is looked up by itself: a
-- server that knows little of the seats might read all of a section instead.
select named.*, w.version as show_version
from shows w left join lateral
  (select s.seat, s.state, c.section, c.numbered, c.price_minor, c.currency
   from unnest($2::text[]) asked (seat),
     lateral (select seat, state, section from seats where show = $1 and seat = asked.seat limit 1) s,
     lateral (select * from sections where show = $1 and section = s.section limit 1) c) named on true
where w.show = $1
