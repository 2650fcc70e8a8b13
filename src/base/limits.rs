//! Every bound in the system, each with its reason, and how they must relate.

/// Longest show id: a DNS label, so that a show can be a host name.
pub const SHOW_ID_BYTES_MAX: usize = 63;
/// Largest integer that JavaScript, and so every JSON reader, holds exactly.
pub const EXACT_INTEGER_MAX: u64 = 1 << 53;
/// Fans in one room command: bounds how long others wait behind it.
pub const BATCH_MAX: usize = 512;
/// Fans that may wait for the next batches of one kind and show; beyond, they are told to ask again.
pub const BATCH_QUEUE_MAX: usize = 8 * BATCH_MAX;
/// Shows whose batches are remembered while nobody asks; beyond, the idle ones are forgotten.
pub const BATCHED_SHOWS_MAX: usize = 1_000;
/// Calls in one tick: bounds the tick's work. Ten ticks a second make 5,000 calls a second a show.
pub const TICK_CALLS_MAX: u64 = 500;
/// Fans whom a tick looks at, the absent and those who came back included: bounds its work.
pub const TICK_LOOKED_MAX: u64 = 1_000;
/// Places of a draw that a tick looks at, most of which may be empty: bounds its work.
pub const TICK_PLACES_MAX: usize = 2_000;
/// Largest draw: two tables of four bytes a fan, in gateways and in browsers. Who joins later queues
/// behind.
pub const DRAW_SIZE_MAX: u64 = 1 << 26;
/// How long leadership of a show lasts without a tick.
pub const LEASE_TTL_MS: u64 = 2_000;
/// How often a leader ticks. Two ticks may fail before the lease runs out.
pub const TICK_EVERY_MS: u64 = 100;
/// Numbers that a room may issue before SQL must raise the ceiling.
pub const NUMBER_BLOCK: u64 = 1_048_576;
/// Ledger entries that may wait for their copy in SQL; beyond, ticks call nobody.
pub const LEDGER_UNCOPIED_MAX: usize = 100_000;
/// Ledger entries copied in one transaction.
pub const LEDGER_COPY_MAX: usize = 1_000;
/// How often the leading admitter copies the ledger.
pub const LEDGER_COPY_EVERY_MS: u64 = 200;
/// Longest window for a rate: an hour.
pub const WINDOW_MS_MAX: u64 = 3_600_000;
/// Highest rate of a show: what ticks can call at most.
pub const RATE_MAX: u64 = 5_000;
/// Fans in line when the operator names no bound; beyond, joins are answered `full`.
pub const WAITING_MAX_DEFAULT: u64 = 20_000_000;
/// Largest admission capacity, and what "no capacity" means inside.
pub const CAPACITY_MAX: u64 = 1_000_000_000;
/// Longest life of a ticket that an operator may set.
pub const TICKET_TTL_MS_MAX: u64 = 86_400_000;
/// How long a gate may reuse a positive liveness answer: with the check's deadline of 400 ms a
/// revoked ticket is refused within a second.
pub const LIVENESS_REUSE_MS: u64 = 500;
/// Deadline of a liveness check.
pub const CHECK_DEADLINE_MS: u64 = 400;
/// Deadline of what a fan asks the room; later than that an answer is of no use to them.
pub const ROOM_DEADLINE_MS: u64 = 1_000;
/// Stock older than this is shown as stale; the guard keeps its last value.
pub const STOCK_STALE_MS: u64 = 30_000;
/// Highest rate and burst of a limit: microseconds count no finer.
pub const LIMIT_MAX: u32 = 1_000_000;
/// Longest time that a gateway may be told to wait for anything: a day. More is a slip of the pen, and
/// timers end somewhere.
pub const WAIT_MS_MAX: u64 = 86_400_000;
/// Most connections or requests that a gateway may be told to have at once: more than any machine
/// bears, and less than counters hold.
pub const AT_ONCE_MAX: usize = 100_000_000;
/// How long a request may wait for a place at an upstream that may have more than it has shown that it bears.
/// As long as whoever gets none is told to wait.
pub const UPSTREAM_WAIT_MS: u64 = 1_000;
/// Longest request body that a gateway may be told to forward: a terabyte.
pub const FORWARD_BODY_BYTES_MAX: u64 = 1 << 40;
/// Strangers whom a gateway may be told to count one by one: with fewer everybody would share counts
/// with everybody, and more no memory holds.
pub const STRANGERS_MAX: std::ops::RangeInclusive<usize> = 1_000..=100_000_000;
/// Shortest wait instead of an answer to a challenge: less would be none.
pub const CHALLENGE_WAIT_MS_MIN: u64 = 1_000;
/// How many times the joins that are free may pass with proofs: less would be no challenge, more would
/// be no limit.
pub const JOIN_FAR: std::ops::RangeInclusive<u32> = 2..=1_000;
/// Proofs that a process remembers as used where it counts by itself; beyond, joins are told to wait.
pub const PROOFS_SPENT_MAX: usize = 1_000_000;
/// How long an answer to a challenge may count: long enough for a slow phone, no longer than its
/// answer must be remembered.
pub const ANSWER_MS: std::ops::RangeInclusive<u64> = 10_000..=3_600_000;
/// Keys of a shop that are looked at.
pub const SELLER_KEYS_MAX: usize = 32;
/// Longest JWKS of a shop that is read.
pub const SELLER_JWKS_BYTES_MAX: usize = 65_536;
/// How long a shop may take to say its keys.
pub const SELLER_DEADLINE_MS: u64 = 2_000;
/// How often a shop is asked for its keys at most, whatever tokens name, and whatever is configured.
pub const SELLER_PAUSE_MS: u64 = 5_000;
/// Turns of one account in an edition: each that is over costs a later join one question to the room.
pub const SELLER_TURNS_MAX: std::ops::RangeInclusive<u32> = 1..=100;
/// Body of a form on our own pages.
pub const FORM_BYTES_MAX: usize = 8_192;
/// Counts of joins by network and minute that one show has at a time; what comes from further networks is
/// counted together. Some two megabytes in Redis, and more networks than a /16 has.
pub const JOINED_NETWORKS_MAX: usize = 20_000;
/// Networks that an event names of a minute: those from which most have joined.
pub const JOINS_TOLD_MAX: usize = 100;
/// Counts that are read, or let go of, with one call.
pub const JOINED_PAGE: usize = 500;
/// How often somebody looks whether a minute's joins can be told.
pub const TALLY_EVERY_MS: u64 = 5_000;
/// Windows of joins in one answer: half a day of them.
pub const JOINS_PAGE_MAX: usize = 144;
/// Networks of a window in one answer.
pub const JOINS_SHOWN_MAX: usize = 20;
/// Deadline of counting a join in Redis; later, this process counts by itself.
pub const JOIN_LIMIT_DEADLINE_MS: u64 = 400;
/// Partitions of the event log.
pub const PARTITIONS: u16 = 6;
/// Seats in one hold.
pub const SEATS_PER_HOLD_MAX: u32 = 10;
/// How long an admission outlives a hold: time to place the order that was typed until the end.
pub const HOLD_GRACE_MS: u64 = 60_000;
/// The same as the room hears of it from the log, should the shop's answer be lost on its way.
pub const HOLD_GRACE_LOGGED_MS: u64 = 30_000;
/// Sections of a show.
pub const SECTIONS_MAX: usize = 500;
/// Seats of a section.
pub const SECTION_SEATS_MAX: u32 = 1_000_000;
/// A fan's own orders in one answer: far more than one fan's tickets can lead to.
pub const FAN_ORDERS_MAX: u32 = 50;
/// Payment attempts for an order.
pub const PAYMENT_ATTEMPTS_MAX: u32 = 3;
/// How long after its time an order keeps its seats while the provider has not answered: money may
/// have been taken. Longer than providers need to find a lost answer.
pub const DOUBT_MS_MAX: u64 = 600_000;
/// Payments that are begun at once.
pub const PAYMENTS_AT_ONCE: usize = 32;
/// Payments under way: so many may wait for a slow provider before they keep others waiting.
pub const PAYMENTS_UNDER_WAY_MAX: usize = 8 * PAYMENTS_AT_ONCE;
/// Holds, orders or remembered keys that one step ends.
pub const EXPIRED_AT_ONCE: u32 = 100;
/// Holds and orders of a cancelled show that are taken back in one transaction.
pub const CANCELLED_AT_ONCE: u32 = 100;
/// `Idempotency-Key` on holds, orders and payments.
pub const KEY_BYTES_MAX: usize = 255;
/// How long a request with a key is taken for alive. A crash blocks the key no longer.
pub const KEY_IN_FLIGHT_MS: u64 = 30_000;
/// How long an answer is kept for its key.
pub const KEY_KEPT_MS: u64 = 86_400_000;
/// Nonces that an upstream remembers: 10,000 requests a second for as long as an assertion is fresh.
pub const NONCES_MAX: usize = 100_000;
/// An e-mail address (RFC 5321, with the erratum that counts the brackets).
pub const EMAIL_BYTES_MAX: usize = 254;
/// What a fan pays with, as the provider names it.
pub const PAYMENT_TOKEN_BYTES_MAX: usize = 200;
/// The name of a seat: a section of 32 bytes, a hyphen and an ordinal.
pub const SEAT_NAME_BYTES_MAX: usize = 43;
/// Delays before the second, third and fourth attempt of a delivery.
pub const DELIVERY_RETRIES_MS: [u64; 3] = [500, 1_000, 2_000];
/// How long a step waits for the log to take what is set aside, before it looks after the other partitions.
pub const SET_ASIDE_WAIT_MS: u64 = 50;
/// Deliveries of one partition that a consumer handles in one step, so that all six take turns.
pub const DELIVERY_BATCH_MAX: usize = 64;
/// Failures in a row, over all partitions, after which a provider is taken to be down. More than a
/// single delivery makes by itself, or one poisoned event would look like an outage.
pub const BREAKER_FAILURES_MAX: u32 = 6;
/// How long nobody asks a provider that is down; then one delivery tries.
pub const BREAKER_OPEN_MS: u64 = 5_000;
/// How long a mail provider may take to be reached and to greet, TLS included.
pub const SMTP_CONNECT_MS: u64 = 8_000;
/// How long a mail provider may take for a reply.
pub const SMTP_REPLY_MS: u64 = 8_000;
/// How long it may take to say that it has a mail. Longer than for other replies: whoever gives up here
/// does not know whether it was taken, and has to send it again.
pub const SMTP_TAKEN_MS: u64 = 20_000;
/// How long a mail may take in all, a connection that has to be made included.
pub const SMTP_SEND_MS: u64 = 30_000;
/// How long a connection to a mail provider is kept for the next mail. Most providers end it a little
/// later than that.
pub const SMTP_IDLE_MS: u64 = 30_000;
/// How long a mail provider is left alone that asks for patience: SMTP has no way to say how long.
pub const SMTP_PATIENCE_MS: u64 = 5_000;
/// Outbox rows of one partition that the relay sends in one step.
pub const RELAY_BATCH_MAX: usize = 500;
/// How long a relay keeps a partition without renewing. A crash stops the partition at most so long.
pub const RELAY_LEASE_TTL_MS: u64 = 3_000;
/// How long Kafka may take to acknowledge an event. A relay keeps its partitions for so much longer.
pub const ACK_DEADLINE_MS: u64 = 10_000;
/// Records of one partition that a process holds before its group is past them; then the partition is
/// paused until half of them are gone.
pub const HELD_RECORDS_MAX: usize = 16 * DELIVERY_BATCH_MAX;
/// How often the relay looks when nobody nudges it.
pub const RELAY_EVERY_MS: u64 = 100;
/// Rows that one clean-up of the outbox removes from a partition.
pub const CLEAN_BATCH_MAX: usize = 500;
/// How often a show's seats are counted at most: four times a second.
pub const STOCK_EVERY_MS: u64 = 250;
/// How often a show's stock is said again although nothing has changed.
pub const STOCK_REPEAT_MS: u64 = 5_000;
/// A group that was seen so lately counts as running: three times as long as between two signs of life.
pub const GROUP_RUNS_MS: u64 = 15_000;
/// Rows of sales in one answer: more than a show has in half a day of minutes, one currency, both kinds.
pub const SALES_PAGE_MAX: usize = 1_500;
/// Events in quarantine in one listing.
pub const QUARANTINE_PAGE_MAX: usize = 500;
/// Dead letters in one listing.
pub const DEAD_LETTERS_PAGE_MAX: usize = 500;
/// Longest reason that is kept of a failure; the rest is cut off.
pub const REASON_BYTES_MAX: usize = 500;
/// Largest token read at all; longer ones are refused before they are parsed.
pub const TOKEN_BYTES_MAX: usize = 2_048;
/// Request body of our own routes.
pub const BODY_BYTES_MAX: usize = 65_536;
/// Request target.
pub const TARGET_BYTES_MAX: usize = 8_192;
/// Headers of a request.
pub const HEADERS_MAX: usize = 64;
/// All headers of a request together.
pub const HEADER_BYTES_MAX: usize = 65_536;
/// Name, round and value of a draw's beacon: each a line that a person can compare.
pub const BEACON_BYTES_MAX: usize = 200;
/// Operator's message to the line, per language.
pub const MESSAGE_BYTES_MAX: usize = 500;

/// Shortest advice for the next status poll.
pub const POLL_MS_MIN: u64 = 2_000;
/// Longest advice for the next status poll, unless the poll budget asks for more.
pub const POLL_MS_MAX: u64 = 30_000;
/// How long before their turn fans are near the front, and ask more often than a budget may allow.
pub const POLL_NEAR_MS: u64 = 60_000;
/// With presence, how long a fan who showed up counts as there, and how long before their turn fans
/// begin to show up, every quarter of it. Two minutes, for browsers let hidden pages act once in one.
pub const PRESENT_MS: u64 = 2 * POLL_NEAR_MS;
/// Polls that a fan is advised in the time their ETA shows, were it to stand still.
pub const POLLS_PER_ETA: u64 = 10;
/// Narrowest half of an ETA range, in seconds: ticks, polls and clocks are no finer.
pub const ETA_SLACK_S: u64 = 5;
/// Widest half of an ETA range, in seconds, unless a quarter of its middle is more.
pub const ETA_HALF_S_MAX: u64 = 15;

const _: () = assert!(POLL_MS_MIN < POLL_MS_MAX);
const _: () = assert!(ETA_SLACK_S <= ETA_HALF_S_MAX);
const _: () = assert!(NUMBER_BLOCK < EXACT_INTEGER_MAX);
const _: () = assert!(KEY_IN_FLIGHT_MS < KEY_KEPT_MS);
const _: () = assert!(
    HOLD_GRACE_LOGGED_MS < HOLD_GRACE_MS,
    "where the shop's answer arrived, the log changes nothing"
);
const _: () = assert!(3 * TICK_EVERY_MS <= LEASE_TTL_MS, "two ticks may fail");
const _: () = assert!(
    LIVENESS_REUSE_MS + CHECK_DEADLINE_MS < 1_000,
    "a revoked ticket: one second"
);
const _: () = assert!(TICK_CALLS_MAX < TICK_LOOKED_MAX, "the absent stop no calls");
const _: () = assert!(RATE_MAX * TICK_EVERY_MS <= TICK_CALLS_MAX * 1_000);
const _: () = assert!(2 * RELAY_EVERY_MS <= RELAY_LEASE_TTL_MS);
const _: () = assert!(
    DELIVERY_RETRIES_MS.len() + 1 < BREAKER_FAILURES_MAX as usize,
    "one poisoned delivery alone never opens the breaker"
);
const _: () = assert!(
    SMTP_CONNECT_MS + SMTP_TAKEN_MS < SMTP_SEND_MS,
    "a mail over a new connection has the time that its last reply may take"
);
const _: () = assert!(
    2 * STOCK_REPEAT_MS <= STOCK_STALE_MS,
    "a repeat may be missed before stock looks stale"
);
