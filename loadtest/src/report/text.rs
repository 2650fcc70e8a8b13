//! The report as text: short, aligned, the verdict first.

use std::fmt::{self, Display, Formatter};

use crate::crowd::latency::Percentiles;
use crate::report::Report;

/// Longest example that is printed whole.
const EXAMPLE_CHARS_MAX: usize = 220;

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        self.faults(f)?;
        self.line(f)?;
        self.eta(f)?;
        self.shop(f)?;
        self.seatless(f)?;
        self.limits(f)?;
        self.latency(f)
    }
}

impl Report {
    fn head(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let faults = self.faults.total();
        let verdict = if faults == 0 {
            "no faults".to_owned()
        } else {
            format!(
                "{} faults of {} kinds",
                count(faults),
                self.faults.found.len()
            )
        };
        writeln!(f, "\nThe crowd at {}: {verdict}", self.show)?;
        writeln!(
            f,
            "{} fans · {} connections · seed {} · {:.0} s · {} · the show is {}",
            count(self.fans.into()),
            self.connections,
            self.seed,
            self.seconds,
            self.url,
            self.state.replace('_', " ")
        )
    }

    fn faults(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if !self.is_clean() {
            writeln!(f, "\nFaults")?;
        }
        for (fault, found) in &self.faults.found {
            row(f, &fault.name(), found.count, "")?;
            let example: String = found.example.chars().take(EXAMPLE_CHARS_MAX).collect();
            writeln!(f, "      e.g. {}", example.replace(['\n', '\r'], " "))?;
        }
        if !self.remarks.is_empty() {
            writeln!(f, "\nRemarks")?;
        }
        self.remarks
            .iter()
            .try_for_each(|remark| writeln!(f, "  {remark}"))
    }

    fn line(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (counts, tally) = (&self.counts, &self.tally);
        writeln!(f, "\nThe line")?;
        row(
            f,
            "joined",
            counts.joined,
            "each with one number, in the order of asking",
        )?;
        row(
            f,
            "joined again",
            counts.joined_again,
            "twins, retries, refreshes, after lost answers",
        )?;
        row(
            f,
            "called",
            self.admitted.fans,
            "first answers that said admitted",
        )?;
        if let Some(worst) = self.admitted.worst_second {
            let note = format!(
                "first admitted answers; N is {} (answers, not calls: the ledger proves N)",
                self.admitted.rate_max
            );
            row(f, "worst second", worst.count, &note)?;
        }
        row(
            f,
            "missed",
            counts.missed,
            "asked as told, and were not there when called",
        )?;
        row(
            f,
            "slept",
            counts.stood_by,
            "told to stand by after their slot had lapsed",
        )?;
        row(f, "called again", counts.called_again, "after standing by")?;
        row(f, "left", tally.left, "gave up place or admission")?;
        row(f, "went silent", tally.silent, "")?;
        row(f, "ran out", tally.ran_out, "of time, with ticket or order")?;
        row(
            f,
            "gave up",
            tally.gave_up,
            "the server made no sense to them",
        )?;
        row(f, "still open", tally.open(), "when the run ended")
    }

    fn eta(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.eta.is_empty() {
            return Ok(());
        }
        writeln!(f, "\nThe range shown at join")?;
        writeln!(
            f,
            "  {:<12} {:>9} {:>8} {:>8} {:>8} {:>11} {:>11} {:>9}",
            "shown", "fans", "within", "sooner", "later", "mean width", "mean error", "too wide"
        )?;
        self.eta.iter().try_for_each(|group| {
            writeln!(
                f,
                "  {:<12} {:>9} {:>6.1} % {:>6.1} % {:>6.1} % {:>9.1} s {:>9.1} s {:>9}",
                group.shown,
                count(group.fans),
                100.0 * group.within,
                100.0 * group.sooner,
                100.0 * group.later,
                group.mean_width_s,
                group.mean_error_s,
                count(group.too_wide)
            )
        })
    }

    fn shop(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        writeln!(f, "\nThe shop")?;
        row(f, "holds", counts.holds, "")?;
        row(
            f,
            "holds refused",
            counts.holds_refused,
            "seats taken or sold out",
        )?;
        row(f, "orders", counts.orders, "")?;
        row(
            f,
            "  posted again",
            counts.orders_again,
            "answered with the same facts",
        )?;
        row(
            f,
            "  card declined",
            counts.declined_cards,
            "and then paid with another",
        )?;
        row(f, "confirmed", self.sold.orders, "")?;
        let of = match self.sold.capacity {
            Some(capacity) => format!("of {}", count(capacity)),
            None => String::new(),
        };
        row(f, "seats sold", self.sold.seats, &of)?;
        row(
            f,
            "rechecked",
            counts.rechecks,
            "admissions told again: same ticket, same end",
        )?;
        row(
            f,
            "no ticket",
            counts.probes_refused,
            "tries without a good ticket, answered 401",
        )?;
        match &self.messages {
            Some(messages) => {
                let of = format!("of {}", count(messages.due));
                row(f, "messages", messages.found, &of)?;
                row(
                    f,
                    "events",
                    messages.events,
                    "that these messages tell of, by Message-ID",
                )
            }
            None => writeln!(f, "  {:<16} {:>11}  no --mail-dir", "messages", "–"),
        }
    }

    fn seatless(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(seatless) = &self.seatless else {
            return writeln!(f, "\nWithout a seat: the show has not ended");
        };
        writeln!(f, "\nWithout a seat")?;
        row(
            f,
            "fans",
            seatless.fans,
            "in line or inside when it was over, or came later",
        )?;
        let ways = seatless.by.iter().map(|(way, fans)| {
            format!("{} by {}", count(*fans), format!("{way:?}").to_lowercase())
        });
        let ways = ways.collect::<Vec<_>>().join(", ");
        row(f, "told", seatless.fans - seatless.never, &ways)?;
        row(f, "never told", seatless.never, "")?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of a run")]
        let s = |ms: u64| ms as f64 / 1_000.0;
        writeln!(
            f,
            "  {:<16} p50 {:.1} s · p90 {:.1} s · p99 {:.1} s · at most {:.1} s",
            "after the end",
            s(seatless.p50_ms),
            s(seatless.p90_ms),
            s(seatless.p99_ms),
            s(seatless.max_ms)
        )
    }

    fn limits(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        writeln!(f, "\nTroubles")?;
        row(f, "limited", counts.limited, "429")?;
        row(f, "unavailable", counts.unavailable, "5xx, obeyed")?;
        row(f, "not sent", counts.not_sent, "nobody listened")?;
        row(f, "answers lost", counts.lost, "")?;
        row(f, "  on purpose", counts.lost_on_purpose, "")
    }

    fn latency(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nLatency in ms, from the intended moment")?;
        writeln!(
            f,
            "  {:<12} {:>11} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "answers", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for (op, percentiles) in &self.latency {
            latency_row(f, op, percentiles)?;
        }
        latency_row(f, "sent late by", &self.lateness)
    }
}

fn row(f: &mut Formatter<'_>, name: &str, value: u64, note: &str) -> fmt::Result {
    let line = format!("  {name:<16} {:>11}  {note}", count(value));
    writeln!(f, "{}", line.trim_end())
}

fn latency_row(f: &mut Formatter<'_>, name: &str, p: &Percentiles) -> fmt::Result {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of an answer")]
    let ms = |us: u64| us as f64 / 1_000.0;
    let (p50, p90, p99) = (ms(p.p50_us), ms(p.p90_us), ms(p.p99_us));
    let (p999, max) = (ms(p.p999_us), ms(p.max_us));
    let answers = count(p.count);
    writeln!(
        f,
        "  {name:<12} {answers:>11} {p50:>9.1} {p90:>9.1} {p99:>9.1} {p999:>9.1} {max:>9.1}"
    )
}

/// Digits in groups of three.
fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if 0 < i && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups_of_three() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (20_000_000, "20,000,000"),
        ] {
            assert_eq!(count(number), text);
        }
    }
}
