-- A row is the draw of one edition of a show. Each column is written once, from left to right.
create table draws (
  show text collate "C" not null,
  edition bigint not null,
  -- 32 bytes in hexadecimal: nobody's but ours until the seed is there.
  secret text not null,
  -- What is published of the secret from the beginning, in hexadecimal.
  commitment text not null,
  -- Numbers up to this one take part; null until the line is frozen.
  size bigint,
  -- The beacon's number as an operator entered it, where the show names a beacon.
  beacon_value text,
  -- What every place follows from, in hexadecimal; null until the draw has been held.
  seed text,
  primary key (show, edition)
);
