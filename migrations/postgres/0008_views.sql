-- When a process last said that it runs the group: its offsets go back only while nobody does.
alter table log_groups add column seen_at_ms bigint not null default 0;

-- A row is one show as listings and search engines have it, written only by the group `search`.
create table listings (
  show text collate "C" primary key,
  -- Of the show's last event that is in it. An event with a lower one changes nothing.
  version bigint not null,
  -- JSON: free, held and sold by section, in the operator's order.
  sections text not null,
  as_of_ms bigint not null,
  sold_out_at_ms bigint
) with (fillfactor = 50);

-- A row is what happened to the orders of a show in one minute of event time, of one kind and in one
-- currency, written only by the group `analytics`. Events whose minute was closed when they came are
-- counted in the `late` columns, and only there.
create table sales (
  show text collate "C" not null,
  minute_ms bigint not null,
  -- `sold` or `refunded`.
  kind text collate "C" not null,
  currency text collate "C" not null,
  orders bigint not null,
  seats bigint not null,
  minor bigint not null,
  late_orders bigint not null,
  late_seats bigint not null,
  late_minor bigint not null,
  primary key (show, minute_ms, kind, currency)
) with (fillfactor = 50);

-- A row is how far a partition is in event time.
create table sales_newest (
  partition bigint primary key,
  newest_ms bigint not null
) with (fillfactor = 50);
