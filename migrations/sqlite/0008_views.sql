-- When a process last said that it runs the group: its offsets go back only while nobody does.
alter table log_groups add column seen_at_ms integer not null default 0;

-- A row is one show as listings and search engines have it, written only by the group `search`.
create table listings (
  show text primary key,
  -- Of the show's last event that is in it. An event with a lower one changes nothing.
  version integer not null,
  -- JSON: free, held and sold by section, in the operator's order.
  sections text not null,
  as_of_ms integer not null,
  sold_out_at_ms integer
) strict;

-- A row is what happened to the orders of a show in one minute of event time, of one kind and in one
-- currency, written only by the group `analytics`. Events whose minute was closed when they came are
-- counted in the `late` columns, and only there.
create table sales (
  show text not null,
  minute_ms integer not null,
  -- `sold` or `refunded`.
  kind text not null,
  currency text not null,
  orders integer not null,
  seats integer not null,
  minor integer not null,
  late_orders integer not null,
  late_seats integer not null,
  late_minor integer not null,
  primary key (show, minute_ms, kind, currency)
) strict;

-- A row is how far a partition is in event time.
create table sales_newest (
  partition integer primary key,
  newest_ms integer not null
) strict;
