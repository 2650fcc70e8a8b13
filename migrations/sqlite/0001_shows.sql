-- A row is one show: what the operator decided, and what must survive the loss of its room.
create table shows (
  show text primary key,
  -- Rises with every write of an operator; If-Match and the room compare it.
  version integer not null,
  -- The settings document, JSON, as GET /admin/v1/shows/{show} prints it.
  settings text not null,
  -- The last state an operator asked for, and the version at which they did.
  verb text,
  verb_version integer,
  -- The room's state at the last checkpoint, or the verb where that is newer.
  state text not null,
  edition integer not null,
  generation integer not null,
  -- The last generation whose mend was finished; 0 before the first.
  mended integer not null,
  -- The highest number the room may issue.
  ceiling integer not null,
  -- The checkpoint, once a second.
  issued integer not null,
  serving integer not null,
  waiting integer not null,
  checkpoint_at_ms integer not null,
  created_at_ms integer not null
) strict;

-- A row is one change of a room after joining: the copied ledger.
create table room_ledger (
  show text not null,
  edition integer not null,
  generation integer not null,
  seq integer not null,
  at_ms integer not null,
  token integer not null,
  serving integer not null,
  -- called, claimed, extended, returned, ended
  kind text not null,
  -- The facts of the change, JSON.
  body text not null,
  primary key (show, edition, generation, seq)
) strict, without rowid;

-- A row is one act of an operator.
create table audit (
  id integer primary key autoincrement,
  at_ms integer not null,
  who text not null,
  role text not null,
  action text not null,
  show text,
  -- What was asked, JSON; secrets never.
  detail text not null
) strict;
