-- When an operator cancelled the show: from then on nothing is sold, and what was sold is taken back.
alter table shows add column cancelled_at_ms integer;
