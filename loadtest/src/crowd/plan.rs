//! What each fan is going to do: drawn from the seed before the run begins. [pure]
//!
//! A draw depends on the seed, the fan and the topic only, so a new topic does not change what the
//! others draw.

use anyhow::ensure;
use clap::Args;

/// From a number to a number, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub low: u64,
    pub high: u64,
}

/// Shares of the crowd. The first eight are of all fans and exclude one another.
#[derive(Debug, Clone, Args)]
pub struct Shares {
    /// Leave while waiting.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub leave: f64,
    /// Join again with their pass while waiting.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub refresh: f64,
    /// Repeat an answered join with the same Idempotency-Key.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05)]
    pub retry: f64,
    /// Join twice at the same moment with the same key.
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub twice: f64,
    /// Lose the answer to their first join, and ask again with the same key.
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    pub lose: f64,
    /// Try holds and orders without a ticket, with a forged one and with another fan's.
    #[arg(long, value_name = "SHARE", default_value_t = 0.01)]
    pub no_ticket: f64,
    /// Sleep through their call and come back after the slot has lapsed.
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub sleep: f64,
    /// Have no JavaScript: the waiting page's forms and cookies.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub no_js: f64,
    /// Of the called: buy.
    #[arg(long, value_name = "SHARE", default_value_t = 0.6)]
    pub buy: f64,
    /// Of the called who do not buy: go silent and do not say so.
    #[arg(long, value_name = "SHARE", default_value_t = 0.3)]
    pub silent: f64,
    /// Of the buyers: the first card is declined.
    #[arg(long, value_name = "SHARE", default_value_t = 0.02)]
    pub decline: f64,
    /// Of the buyers: the provider takes its time over the card (the sandbox's token `slow`).
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub slow: f64,
    /// Of the buyers: post the same order again.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    pub order_again: f64,
}

impl Shares {
    /// Whether every share is one and the exclusive ones fit into the crowd.
    ///
    /// # Errors
    /// One line that names the flag.
    pub fn check(&self) -> anyhow::Result<()> {
        let named = [
            ("leave", self.leave),
            ("refresh", self.refresh),
            ("retry", self.retry),
            ("twice", self.twice),
            ("lose", self.lose),
            ("no-ticket", self.no_ticket),
            ("sleep", self.sleep),
            ("no-js", self.no_js),
            ("buy", self.buy),
            ("silent", self.silent),
            ("decline", self.decline),
            ("slow", self.slow),
            ("order-again", self.order_again),
        ];
        for (name, share) in named {
            ensure!(
                (0.0..=1.0).contains(&share),
                "--{name} {share} must be 0 to 1"
            );
        }
        let exclusive: f64 = self.quirks().iter().map(|(_, share)| share).sum();
        ensure!(
            exclusive <= 1.0 + 1e-9,
            "--leave, --refresh, --retry, --twice, --lose, --no-ticket and --sleep must not exceed 1 together"
        );
        Ok(())
    }

    const fn quirks(&self) -> [(Quirk, f64); 7] {
        [
            (Quirk::Leaves, self.leave),
            (Quirk::Refreshes, self.refresh),
            (Quirk::Retries, self.retry),
            (Quirk::JoinsTwice, self.twice),
            (Quirk::LosesAnswer, self.lose),
            (Quirk::NoTicket, self.no_ticket),
            (Quirk::Sleeps, self.sleep),
        ]
    }
}

/// What is odd about a fan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    None,
    Leaves,
    Refreshes,
    Retries,
    JoinsTwice,
    LosesAnswer,
    NoTicket,
    Sleeps,
}

/// How a fan talks to the room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Door {
    /// The API and the board, as the page's script and apps do.
    Script,
    /// Pages, forms and cookies.
    Plain,
}

/// What a fan does once called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Buys,
    /// Looks, and gives the admission back.
    Looks,
    /// Goes away without a word.
    Vanishes,
}

/// The first card a buyer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Card {
    Good,
    /// Good, after a while.
    Slow,
    Declined,
}

/// The language a buyer's message must be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locale {
    PtBr,
    En,
    Es,
}

impl Locale {
    /// The tag that goes into the order.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::PtBr => "pt-BR",
            Self::En => "en",
            Self::Es => "es",
        }
    }
}

/// What one fan is going to do.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// After the start of the run.
    pub arrives_us: u64,
    pub think_ms: u32,
    /// After joining: when the quirk shows.
    pub whim_ms: u32,
    /// Seats a buyer wants: 1 to 4.
    pub seats: u8,
    /// Index of the section a buyer asks for first, to be taken modulo.
    pub section: u8,
    pub quirk: Quirk,
    pub door: Door,
    pub purpose: Purpose,
    pub card: Card,
    pub locale: Locale,
    /// Whether a buyer posts the order again.
    pub orders_again: bool,
}

/// What draws are about.
#[derive(Debug, Clone, Copy)]
enum Topic {
    Arrival = 1,
    Think,
    Whim,
    Seats,
    Section,
    Quirk,
    Door,
    Purpose,
    Silent,
    Card,
    Locale,
    OrdersAgain,
}

/// Makes the plans of a crowd.
#[derive(Debug)]
pub struct Planner<'a> {
    pub seed: u64,
    pub arrive_ms: u64,
    pub think_ms: Range,
    pub shares: &'a Shares,
}

impl Planner<'_> {
    /// The plan of one fan: the same for the same seed.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "shares of a day in microseconds"
    )]
    pub fn plan(&self, fan_no: u32) -> Plan {
        let unit = |topic: Topic| unit(mix(self.seed, fan_no, topic as u64));
        let within = |range: Range, topic| {
            range.low + (unit(topic) * (range.high - range.low) as f64) as u64
        };
        let whims = Range {
            low: 300,
            high: (self.arrive_ms / 2).clamp(1_000, 60_000),
        };
        let door = if unit(Topic::Door) < self.shares.no_js {
            Door::Plain
        } else {
            Door::Script
        };
        Plan {
            // More fans in the first second than in the last, as at every opening.
            arrives_us: (unit(Topic::Arrival).powf(1.5) * self.arrive_ms as f64 * 1_000.0) as u64,
            think_ms: within(self.think_ms, Topic::Think) as u32,
            whim_ms: within(whims, Topic::Whim) as u32,
            seats: 1 + (unit(Topic::Seats) * 4.0) as u8,
            section: (unit(Topic::Section) * 256.0) as u8,
            quirk: self.quirk(unit(Topic::Quirk), door),
            door,
            purpose: if unit(Topic::Purpose) < self.shares.buy {
                Purpose::Buys
            } else if unit(Topic::Silent) < self.shares.silent {
                Purpose::Vanishes
            } else {
                Purpose::Looks
            },
            card: match unit(Topic::Card) {
                x if x < self.shares.decline => Card::Declined,
                x if x < self.shares.decline + self.shares.slow => Card::Slow,
                _ => Card::Good,
            },
            locale: match unit(Topic::Locale) {
                x if x < 0.5 => Locale::PtBr,
                x if x < 0.8 => Locale::En,
                _ => Locale::Es,
            },
            orders_again: unit(Topic::OrdersAgain) < self.shares.order_again,
        }
    }

    fn quirk(&self, draw: f64, door: Door) -> Quirk {
        let mut reached = 0.0;
        for (quirk, share) in self.shares.quirks() {
            reached += share;
            if draw < reached {
                // A form has no key to repeat a join with: these four need the API.
                let needs_script = matches!(
                    quirk,
                    Quirk::Retries | Quirk::JoinsTwice | Quirk::LosesAnswer | Quirk::Refreshes
                );
                return if needs_script && door == Door::Plain {
                    Quirk::None
                } else {
                    quirk
                };
            }
        }
        Quirk::None
    }
}

/// 64 well-mixed bits of three numbers (splitmix64's finisher, twice).
pub fn mix(seed: u64, fan_no: u32, topic: u64) -> u64 {
    finish(finish(seed ^ topic.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(u64::from(fan_no)))
}

fn finish(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares() -> Shares {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            shares: Shares,
        }
        Only::parse_from(["x"]).shares
    }

    fn plans(seed: u64, shares: &Shares) -> Vec<Plan> {
        let think_ms = Range {
            low: 5_000,
            high: 40_000,
        };
        let planner = Planner {
            seed,
            arrive_ms: 60_000,
            think_ms,
            shares,
        };
        (0..20_000).map(|no| planner.plan(no)).collect()
    }

    #[test]
    fn a_seed_replays_and_another_differs() {
        let shares = shares();
        let arrivals = |seed| {
            plans(seed, &shares)
                .iter()
                .map(|p| p.arrives_us)
                .collect::<Vec<_>>()
        };
        assert_eq!(arrivals(1), arrivals(1));
        assert_ne!(arrivals(1), arrivals(2));
    }

    #[test]
    fn shares_come_out_as_asked() {
        let plans = plans(7, &shares());
        let share = |is: fn(&Plan) -> bool| {
            f64::from(u32::try_from(plans.iter().filter(|p| is(p)).count()).unwrap()) / 20_000.0
        };
        for (seen, asked) in [
            (share(|p| p.purpose == Purpose::Buys), 0.6),
            (share(|p| p.door == Door::Plain), 0.1),
            (share(|p| p.quirk == Quirk::Leaves), 0.05),
            (share(|p| p.quirk == Quirk::Sleeps), 0.02),
            (share(|p| p.quirk == Quirk::LosesAnswer), 0.027),
            (share(|p| p.seats == 4), 0.25),
        ] {
            assert!((seen - asked).abs() < 0.012, "{seen} for {asked}");
        }
        assert!(
            plans
                .iter()
                .all(|p| (1..=4).contains(&p.seats) && p.arrives_us < 60_000_000)
        );
        assert!(plans.iter().all(|p| (5_000..=40_000).contains(&p.think_ms)));
    }

    #[test]
    fn fans_without_a_script_have_no_key_to_repeat() {
        let plans = plans(
            7,
            &Shares {
                no_js: 1.0,
                twice: 0.5,
                ..shares()
            },
        );
        assert!(
            plans
                .iter()
                .all(|p| p.quirk != Quirk::JoinsTwice && p.quirk != Quirk::LosesAnswer)
        );
    }
}
