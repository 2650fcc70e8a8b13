-- By a show alone no index of seats may lead anywhere. Where the server knows little of them yet, as in a sale's
-- first minute, it took those for few, and looked for seats by name among all of their show.
alter table seats drop constraint seats_pkey, add primary key (seat, show);
drop index seats_by_state;
create index seats_by_state on seats (section, show, state, ordinal);
