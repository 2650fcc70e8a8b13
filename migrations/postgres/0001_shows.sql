-- The twin of the SQLite file: the same tables and columns, whole numbers as bigint, so that a row has
-- one form in code. What is searched by is `collate "C"`: it sorts as SQLite does, and no upgrade of
-- the system's locales can put an index out of order. Documents are text, for they are compared byte
-- for byte.

-- A row is one show: what the operator decided, and what must survive the loss of its room.
create table shows (
  show text collate "C" primary key,
  -- Rises with every write of an operator; If-Match and the room compare it.
  version bigint not null,
  -- The settings document, JSON, as GET /admin/v1/shows/{show} prints it.
  settings text not null,
  -- The last state an operator asked for, and the version at which they did.
  verb text,
  verb_version bigint,
  -- The room's state at the last checkpoint, or the verb where that is newer.
  state text not null,
  edition bigint not null,
  generation bigint not null,
  -- The last generation whose mend was finished; 0 before the first.
  mended bigint not null,
  -- The highest number the room may issue.
  ceiling bigint not null,
  -- The checkpoint, once a second.
  issued bigint not null,
  serving bigint not null,
  waiting bigint not null,
  checkpoint_at_ms bigint not null,
  created_at_ms bigint not null
) with (fillfactor = 50); -- written once a second: room for the next version on the same page

-- A row is one change of a room after joining: the copied ledger.
create table room_ledger (
  show text collate "C" not null,
  edition bigint not null,
  generation bigint not null,
  seq bigint not null,
  at_ms bigint not null,
  token bigint not null,
  serving bigint not null,
  -- called, claimed, extended, returned, ended
  kind text not null,
  -- The facts of the change, JSON.
  body text not null,
  primary key (show, edition, generation, seq)
);

-- A row is one act of an operator.
create table audit (
  id bigint generated always as identity primary key,
  at_ms bigint not null,
  who text not null,
  role text not null,
  action text not null,
  show text collate "C",
  -- What was asked, JSON; secrets never.
  detail text not null
);
