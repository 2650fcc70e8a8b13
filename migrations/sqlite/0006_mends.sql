-- A row is a mend that was finished: of which time before it room_ledger may lack entries. What a room
-- did until `copied_at_ms` is copied, by its own time; at `found_at_ms`, by the time of the room that
-- followed, it had been lost.
create table room_mends (
  show text not null,
  edition integer not null,
  -- The generation that it began.
  generation integer not null,
  copied_at_ms integer not null,
  found_at_ms integer not null,
  primary key (show, edition, generation)
) strict, without rowid;
