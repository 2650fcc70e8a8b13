//! Every metric: one function, one doc line, one place. Labels come from our own words, never from
//! input.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, counter, gauge, histogram};

/// As many words as a label of a [`ByWord`] has at most.
const WORDS_MAX: usize = 16;

/// Counters of what every request of the gateway does, by the word of their one label: each is looked up
/// once in the life of the process, which has its recorder before it has requests.
struct ByWord {
    name: &'static str,
    label: &'static str,
    known: [OnceLock<(&'static str, Counter)>; WORDS_MAX],
}

impl ByWord {
    const fn new(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            known: [const { OnceLock::new() }; WORDS_MAX],
        }
    }

    fn add(&self, word: &'static str, count: u64) {
        let counter = || counter!(self.name, self.label => word);
        for known in &self.known {
            let (is, known) = known.get_or_init(|| (word, counter()));
            if *is == word {
                return known.increment(count);
            }
        }
        counter().increment(count);
    }
}

/// `catraca_join_total{outcome}`: joins by answer.
pub fn join(outcome: &'static str) {
    static COUNTERS: ByWord = ByWord::new("catraca_join_total", "outcome");
    COUNTERS.add(outcome, 1);
}

/// `catraca_status_total{state}`: status polls by how the fan stood.
pub fn status(state: &'static str) {
    static COUNTERS: ByWord = ByWord::new("catraca_status_total", "state");
    COUNTERS.add(state, 1);
}

/// `catraca_claim_total{outcome}`: claims by answer.
pub fn claim(outcome: &'static str) {
    counter!("catraca_claim_total", "outcome" => outcome).increment(1);
}

/// `catraca_restore_total{outcome}`: passes shown to a room that may have lost their fans, by answer.
pub fn restore(outcome: &'static str) {
    counter!("catraca_restore_total", "outcome" => outcome).increment(1);
}

/// `catraca_leave_total{outcome}`: fans who gave up place or admission.
pub fn leave(outcome: &'static str) {
    counter!("catraca_leave_total", "outcome" => outcome).increment(1);
}

/// `catraca_consume_total{outcome}`: admissions that upstreams said were used.
pub fn consume(outcome: &'static str) {
    counter!("catraca_consume_total", "outcome" => outcome).increment(1);
}

/// `catraca_extend_total{outcome}`: admissions that upstreams prolonged.
pub fn extend(outcome: &'static str) {
    counter!("catraca_extend_total", "outcome" => outcome).increment(1);
}

/// `catraca_follow_up_total{outcome}`: what upstreams said and could not be done at once.
pub fn follow_up(outcome: &'static str) {
    counter!("catraca_follow_up_total", "outcome" => outcome).increment(1);
}

/// `catraca_gate_total{outcome}`: requests to gated routes by whether they passed.
pub fn gate(outcome: &'static str) {
    static COUNTERS: ByWord = ByWord::new("catraca_gate_total", "outcome");
    COUNTERS.add(outcome, 1);
}

/// `catraca_forward_total{outcome}`: forwarded requests by class of the answer, or why there was
/// none.
pub fn forward(outcome: &'static str) {
    static COUNTERS: ByWord = ByWord::new("catraca_forward_total", "outcome");
    COUNTERS.add(outcome, 1);
}

/// `catraca_repeat_total{outcome}`: requests that could be sent once more, because their connection
/// failed and they only look: sent, or spared for want of budget.
pub fn repeat(outcome: &'static str) {
    counter!("catraca_repeat_total", "outcome" => outcome).increment(1);
}

/// `catraca_upstream_open{upstream}`: 1 while the upstream is left alone because it does not answer.
pub fn upstream_open(upstream: &str, is: u8) {
    gauge!("catraca_upstream_open", "upstream" => upstream.to_owned()).set(f64::from(is));
}

/// `catraca_room_off{show}`: 1 while the operator has taken the waiting room away, so that nothing is
/// guarded.
pub fn room_off(show: &str, is: u8) {
    gauge!("catraca_room_off", "show" => show.to_owned()).set(f64::from(is));
}

/// `catraca_limited_total{limit}`: requests refused because somebody asked too often.
pub fn limited(limit: &'static str) {
    counter!("catraca_limited_total", "limit" => limit).increment(1);
}

/// `catraca_joins_counted_alone_total`: joins that a gateway counted by itself, because Redis did not.
pub fn joins_counted_alone() {
    counter!("catraca_joins_counted_alone_total").increment(1);
}

/// `catraca_challenge_total{outcome}`: challenges by what became of them.
pub fn challenge(outcome: &'static str) {
    counter!("catraca_challenge_total", "outcome" => outcome).increment(1);
}

/// `catraca_account_total{outcome}`: joins with accounts of the shop, by what became of those.
pub fn account(outcome: &'static str) {
    counter!("catraca_account_total", "outcome" => outcome).increment(1);
}

/// `catraca_seller_keys_total{outcome}`: how often the shop's keys were read, or could not be.
pub fn seller_keys(outcome: &'static str) {
    counter!("catraca_seller_keys_total", "outcome" => outcome).increment(1);
}

/// `catraca_eta_error_ratio`: how far the wait was from the middle of the range shown at join, as a
/// share of that middle; measured at the claim.
pub fn eta_error(ratio: f64) {
    histogram!("catraca_eta_error_ratio").record(ratio);
}

/// `catraca_board_age_seconds{show}`: how old the board is that a gateway answers from.
pub fn board_age(show: &str, age: Duration) {
    gauge!("catraca_board_age_seconds", "show" => show.to_owned()).set(age.as_secs_f64());
}

/// `catraca_connections_total{outcome}`: connections accepted, refused for their client's cap, or
/// ended because they did not shake hands for TLS.
pub fn connection(outcome: &'static str) {
    counter!("catraca_connections_total", "outcome" => outcome).increment(1);
}

/// `catraca_refused_bytes_total{reason}`: connections and streams ended because of what they sent, or
/// did not.
pub fn refused_bytes(reason: &'static str) {
    counter!("catraca_refused_bytes_total", "reason" => reason).increment(1);
}

/// `catraca_certificate_total{outcome}`: changed certificates, loaded or refused.
pub fn certificate(outcome: &'static str) {
    counter!("catraca_certificate_total", "outcome" => outcome).increment(1);
}

/// `catraca_shed_total`: requests refused because too many were being answered.
pub fn shed() {
    counter!("catraca_shed_total").increment(1);
}

/// `catraca_hold_total{outcome}`: requests for seats by answer.
pub fn hold(outcome: &'static str) {
    counter!("catraca_hold_total", "outcome" => outcome).increment(1);
}

/// `catraca_order_total{outcome}`: requests for an order by answer.
pub fn order(outcome: &'static str) {
    counter!("catraca_order_total", "outcome" => outcome).increment(1);
}

/// `catraca_share_waits_total`: units of work that found their share of the connections in use.
pub fn share_waited() {
    counter!("catraca_share_waits_total").increment(1);
}

/// `catraca_payment_total{outcome}`: answers about payments by what they led to.
pub fn payment(outcome: &'static str) {
    counter!("catraca_payment_total", "outcome" => outcome).increment(1);
}

/// `catraca_payments_in_doubt`: payments that the provider gave no answer about and that wait to be
/// asked about again; `change` is one more or one less.
pub fn payments_in_doubt(change: i8) {
    gauge!("catraca_payments_in_doubt").increment(f64::from(change));
}

/// `catraca_expired_total{kind}`: holds and unpaid orders that were ended by time.
pub fn expired(kind: &'static str, count: u32) {
    counter!("catraca_expired_total", "kind" => kind).increment(count.into());
}

/// `catraca_cancel_total{outcome}`: operators' requests to take an order back, by answer.
pub fn cancel(outcome: &'static str) {
    counter!("catraca_cancel_total", "outcome" => outcome).increment(1);
}

/// `catraca_cancelled_total{kind}`: holds and orders of cancelled shows that were taken back.
pub fn cancelled(kind: &'static str, count: u32) {
    counter!("catraca_cancelled_total", "kind" => kind).increment(count.into());
}

/// `catraca_deliveries_total{group, outcome}`: deliveries to a consumer group by what became of
/// them: handled, passed, failed, set_aside.
pub fn delivery(group: &'static str, outcome: &'static str) {
    deliveries(group, outcome, 1);
}

/// The same of so many.
pub fn deliveries(group: &'static str, outcome: &'static str, count: u64) {
    counter!("catraca_deliveries_total", "group" => group, "outcome" => outcome).increment(count);
}

/// `catraca_dead_letters_stuck{group}`: partitions that stand still because Kafka does not take what is to
/// be set aside.
pub fn dead_letters_stuck(group: &'static str, partitions: usize) {
    let partitions = f64::from(u32::try_from(partitions).unwrap_or(u32::MAX));
    gauge!("catraca_dead_letters_stuck", "group" => group).set(partitions);
}

/// `catraca_late_sales_total{kind}`: orders that came after their minute was closed: sold, refunded.
pub fn late_sale(kind: &'static str) {
    counter!("catraca_late_sales_total", "kind" => kind).increment(1);
}

/// `catraca_late_joins_total`: joins that were told after their five minutes were closed.
pub fn late_joins(joins: u64) {
    counter!("catraca_late_joins_total").increment(joins);
}

/// `catraca_joins_told_total{outcome}`: joins by what became of their minute: told in an event, or overtaken
/// by a later minute, and in none.
pub fn joins_told(outcome: &'static str, joins: u64) {
    counter!("catraca_joins_told_total", "outcome" => outcome).increment(joins);
}

/// `catraca_smtp_mails_total{outcome}`: mails handed to the SMTP provider by what came of it: taken,
/// permanent, transient, throttled, away.
pub fn smtp_mail(outcome: &'static str) {
    counter!("catraca_smtp_mails_total", "outcome" => outcome).increment(1);
}

/// `catraca_smtp_connections_total{outcome}`: connections to the SMTP provider by what became of them:
/// opened, failed, or closed by the provider while they were kept.
pub fn smtp_connection(outcome: &'static str) {
    counter!("catraca_smtp_connections_total", "outcome" => outcome).increment(1);
}

/// `catraca_kafka_faults_total{why}`: times that Kafka did not do what it was asked: away, slow, no-topic, shape,
/// gone, login-refused, tls-refused, scheme, wants-tls, wants-login, address.
pub fn kafka_fault(why: &'static str) {
    counter!("catraca_kafka_faults_total", "why" => why).increment(1);
}

/// `catraca_topic_anew_total`: partitions of the topic that were found deleted and made anew.
pub fn topic_anew() {
    counter!("catraca_topic_anew_total").increment(1);
}

/// `catraca_group_partitions{group}`: partitions of a group in Kafka that this process reads.
pub fn group_partitions(group: &str, partitions: usize) {
    let partitions = f64::from(u32::try_from(partitions).unwrap_or(u32::MAX));
    gauge!("catraca_group_partitions", "group" => group.to_owned()).set(partitions);
}

/// `catraca_lag_records{group}`, `catraca_lag_oldest_ms{group}`: how far a consumer group is behind:
/// events not yet handled in all partitions, and the age of the oldest of them.
#[expect(clippy::cast_precision_loss, reason = "gauges are for people")]
pub fn lag(group: &'static str, records: u64, oldest_ms: u64) {
    gauge!("catraca_lag_records", "group" => group).set(records as f64);
    gauge!("catraca_lag_oldest_ms", "group" => group).set(oldest_ms as f64);
}

/// `catraca_relay_total{outcome}`: outbox rows by what the relay did with them: sent, quarantined.
pub fn relayed(outcome: &'static str, rows: u64) {
    counter!("catraca_relay_total", "outcome" => outcome).increment(rows);
}

/// `catraca_relay_fenced_total`: batches refused because another relay holds the partition.
pub fn relay_fenced(batches: u64) {
    counter!("catraca_relay_fenced_total").increment(batches);
}

/// `catraca_relay_leases`: partitions that this process relays.
pub fn relay_leases(partitions: usize) {
    gauge!("catraca_relay_leases").set(f64::from(u32::try_from(partitions).unwrap_or(u32::MAX)));
}

/// `catraca_relay_waiting`: outbox rows that wait for an earlier version of their key. Should be 0
/// but for a moment.
pub fn relay_waiting(rows: u64) {
    gauge!("catraca_relay_waiting").set(f64::from(u32::try_from(rows).unwrap_or(u32::MAX)));
}

/// `catraca_outbox_held_back`: partitions whose old rows cannot go because a group is behind.
pub fn outbox_held_back(partitions: u32) {
    gauge!("catraca_outbox_held_back").set(f64::from(partitions));
}

/// `catraca_outbox_cleaned_total`: outbox rows removed because everybody is past them.
pub fn outbox_cleaned(rows: u64) {
    counter!("catraca_outbox_cleaned_total").increment(rows);
}

/// `catraca_spans_sent_total`: spans that the OpenTelemetry collector took.
pub fn spans_sent(spans: u64) {
    counter!("catraca_spans_sent_total").increment(spans);
}

/// `catraca_spans_dropped_total{why}`: spans that it did not get: queue_full, collector.
pub fn spans_dropped(why: &'static str, spans: u64) {
    counter!("catraca_spans_dropped_total", "why" => why).increment(spans);
}

/// `catraca_redis_connections_total{outcome}`: connections to Redis by what became of them: opened, or
/// the outage that refused them.
pub fn redis_connection(outcome: &'static str) {
    counter!("catraca_redis_connections_total", "outcome" => outcome).increment(1);
}

/// `catraca_redis_unanswered_total{reason}`: calls that Redis did not answer, by the outage.
pub fn redis_unanswered(reason: &'static str) {
    counter!("catraca_redis_unanswered_total", "reason" => reason).increment(1);
}

/// `catraca_redis_redirects_total`: calls that one node of a cluster sent on to another.
pub fn redis_redirect() {
    counter!("catraca_redis_redirects_total").increment(1);
}

/// `catraca_batch_calls_total{kind}`, `catraca_batch_asks_total{kind}`: calls with what many fans
/// ask at once, and what was asked with them; the second by the first is how much one call carries.
pub fn batch(kind: &'static str, asks: usize) {
    static CALLS: ByWord = ByWord::new("catraca_batch_calls_total", "kind");
    static ASKS: ByWord = ByWord::new("catraca_batch_asks_total", "kind");
    CALLS.add(kind, 1);
    ASKS.add(kind, u64::try_from(asks).unwrap_or(u64::MAX));
}

/// `catraca_batch_refused_total{kind}`: questions for which the next batch had no room.
pub fn batch_refused(kind: &'static str) {
    counter!("catraca_batch_refused_total", "kind" => kind).increment(1);
}

/// `catraca_tick_total{outcome}`: ticks by why no more fans were called.
pub fn tick(outcome: &'static str) {
    counter!("catraca_tick_total", "outcome" => outcome).increment(1);
}

/// `catraca_called_total`: fans called.
pub fn called(count: u64) {
    counter!("catraca_called_total").increment(count);
}

/// `catraca_touch_total{outcome}`: fans near their turn who showed that they are there.
pub fn touch(outcome: &'static str) {
    counter!("catraca_touch_total", "outcome" => outcome).increment(1);
}

/// `catraca_draw_total{outcome}`: steps of draws: `frozen`, `opened`, `open` (again), `refused`.
pub fn draw(outcome: &'static str) {
    counter!("catraca_draw_total", "outcome" => outcome).increment(1);
}

/// `catraca_mend_total{outcome}`: attempts to build a room from SQL.
pub fn mend(outcome: &'static str) {
    counter!("catraca_mend_total", "outcome" => outcome).increment(1);
}

/// `catraca_waiting{show}`, `catraca_live{show}`, `catraca_ledger_uncopied{show}`: the board of each
/// show that exists. Shows are made by operators, so the label is bounded by them.
#[expect(clippy::cast_precision_loss, reason = "gauges are for people")]
pub fn room(show: &str, waiting: u64, live: u64, uncopied: usize) {
    gauge!("catraca_waiting", "show" => show.to_owned()).set(waiting as f64);
    gauge!("catraca_live", "show" => show.to_owned()).set(live as f64);
    gauge!("catraca_ledger_uncopied", "show" => show.to_owned()).set(uncopied as f64);
}

/// `catraca_seats_free{show}`, `catraca_seats_sold{show}`: what each show has left. Shows are made by
/// operators, so the label is bounded by them.
#[expect(clippy::cast_precision_loss, reason = "gauges are for people")]
pub fn stock(show: &str, free: u64, sold: u64) {
    gauge!("catraca_seats_free", "show" => show.to_owned()).set(free as f64);
    gauge!("catraca_seats_sold", "show" => show.to_owned()).set(sold as f64);
}
