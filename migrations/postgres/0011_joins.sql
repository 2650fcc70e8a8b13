-- A row is the last minute of a show whose joins were told, and the version of the event that told them.
create table joins_told (
  show text collate "C" primary key,
  event_version bigint not null,
  minute_ms bigint not null
) with (fillfactor = 50);

-- A row is how many joined a show's line from one network in five minutes of event time, written only by the
-- group `analytics`. An empty network has those of no named network.
create table joins_by_network (
  show text collate "C" not null,
  window_ms bigint not null,
  network text collate "C" not null,
  joins bigint not null,
  -- Those that were told when the window was closed, and are not in the other.
  late_joins bigint not null,
  primary key (show, window_ms, network)
) with (fillfactor = 50);

-- A row is how far a partition is in event time of joins.
create table joins_newest (
  partition bigint primary key,
  newest_ms bigint not null
) with (fillfactor = 50);
