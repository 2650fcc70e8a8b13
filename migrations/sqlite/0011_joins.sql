-- A row is the last minute of a show whose joins were told, and the version of the event that told them.
create table joins_told (
  show text primary key,
  event_version integer not null,
  minute_ms integer not null
) strict;

-- A row is how many joined a show's line from one network in five minutes of event time, written only by the
-- group `analytics`. An empty network has those of no named network.
create table joins_by_network (
  show text not null,
  window_ms integer not null,
  network text not null,
  joins integer not null,
  -- Those that were told when the window was closed, and are not in the other.
  late_joins integer not null,
  primary key (show, window_ms, network)
) strict;

-- A row is how far a partition is in event time of joins.
create table joins_newest (
  partition integer primary key,
  newest_ms integer not null
) strict;
