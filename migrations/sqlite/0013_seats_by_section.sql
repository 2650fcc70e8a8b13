-- As in PostgreSQL, where by a show alone this index must lead nowhere.
drop index seats_by_state;
create index seats_by_state on seats (section, show, state, ordinal);
