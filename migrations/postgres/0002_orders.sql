-- A row is one section of a show, reconciled from the show's settings.
create table sections (
  show text collate "C" not null,
  section text collate "C" not null,
  position bigint not null,
  numbered boolean not null,
  price_minor bigint not null,
  currency text not null,
  primary key (show, section)
);

-- A row is one seat, or one place of general admission. Exactly one of: free, held, sold.
create table seats (
  show text collate "C" not null,
  section text collate "C" not null,
  -- 1, 2, 3… within the section: neighbours are next to each other.
  ordinal bigint not null,
  seat text collate "C" not null,
  state text collate "C" not null check (state in ('free', 'held', 'sold')),
  hold_id text collate "C",
  primary key (show, seat),
  constraint seats_owner check ((state = 'free') = (hold_id is null))
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02); -- three versions of a row a sale

-- The best free seats of a section; counting what is left.
create index seats_by_state on seats (show, section, state, ordinal);
-- The seats of a hold, when it ends or is ordered.
create index seats_by_hold on seats (hold_id) where hold_id is not null;

-- A row is one hold: seats set aside for a fan until a time.
create table holds (
  hold_id text collate "C" primary key,
  show text collate "C" not null,
  fan text collate "C" not null,
  ticket_id text collate "C" not null,
  -- JSON array of seat names; stays when the seats have gone.
  seats text not null,
  total_minor bigint not null,
  currency text not null,
  -- live, ordered (an order has it), expired, released
  state text not null check (state in ('live', 'ordered', 'expired', 'released')),
  expires_at_ms bigint not null,
  created_at_ms bigint not null,
  -- The aggregate version of the hold's last event.
  version bigint not null
);

-- The loop that ends holds.
create index holds_by_expiry on holds (expires_at_ms) where state = 'live';
-- At most so many live holds a ticket.
create index holds_by_ticket on holds (ticket_id) where state = 'live';

-- A row is one purchase.
create table orders (
  order_id text collate "C" primary key,
  hold_id text collate "C" not null constraint orders_hold_id unique,
  show text collate "C" not null,
  fan text collate "C" not null,
  ticket_id text collate "C" not null,
  email text not null,
  locale text not null,
  seats text not null,
  total_minor bigint not null,
  currency text not null,
  status text not null
    check (status in ('pending', 'confirmed', 'declined', 'cancelled', 'refunded')),
  -- Why it stands so: payment-declined, payment-unknown, approved-too-late.
  reason text,
  placed_at_ms bigint not null,
  -- Until when a pending order may still be paid.
  payable_until_ms bigint not null,
  updated_at_ms bigint not null,
  -- The aggregate version of the order's last event.
  version bigint not null
);

-- One ticket, one order that counts.
create unique index orders_ticket_id on orders (ticket_id) where status in ('pending', 'confirmed');
-- A fan's own orders.
create index orders_by_fan on orders (show, fan);
-- Orders that wait for their payment, oldest first.
create index orders_pending on orders (payable_until_ms) where status = 'pending';

-- A row is one attempt to charge an order. Order id and attempt are the provider's idempotency key.
create table payments (
  order_id text collate "C" not null,
  attempt bigint not null,
  -- asked (we do not know the answer), approved, declined,
  -- refunding (approved too late: the money has to go back), refunded
  state text not null
    check (state in ('asked', 'approved', 'declined', 'refunding', 'refunded')),
  token text,
  provider_reference text,
  -- When it was made, last asked about or answered.
  at_ms bigint not null,
  primary key (order_id, attempt)
);

-- The loop that settles payments, those not asked about for longest first.
create index payments_open on payments (at_ms) where state in ('asked', 'refunding');

-- A row is one Idempotency-Key of a fan on a route: in flight until a time, or with its answer.
create table idempotency_keys (
  fan text collate "C" not null,
  route text collate "C" not null,
  key text collate "C" not null,
  fingerprint text not null,
  -- The answer: its status, what Catraca-Admission said, and its body (of a refusal, the word).
  status bigint,
  admission text,
  body text,
  in_flight_until_ms bigint not null,
  at_ms bigint not null,
  primary key (fan, route, key)
) with (fillfactor = 60); -- the answer is added to its mark

-- The loop that forgets answers.
create index idempotency_keys_by_age on idempotency_keys (at_ms);
