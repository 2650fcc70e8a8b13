//! What a run comes to: one structure, written as `report.json` and, by [`text`], as `report.txt`.

pub mod text;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::crowd::clock::Moment;
use crate::crowd::conductor::{Conductor, Ended};
use crate::crowd::fan::{Fan, FanNo};
use crate::crowd::latency::Percentiles;
use crate::crowd::plan::Quirk;
use crate::crowd::progress::Tally;
use crate::crowd::world::Counts;
use crate::judge::eta::{Calibration, Promise, calibrate};
use crate::judge::line::{Join, out_of_order, shared};
use crate::judge::messages::Verdict;
use crate::judge::told::{Seatless, Summary, summarise};
use crate::judge::window::{Worst, worst};
use crate::judge::{Fault, Faults};

/// A fan in line is judged as never told only so long after the show has ended: by then every page
/// has read the board and reloaded itself.
const TELLING_MS: u64 = 60_000;
/// Share of ranges that must hold (promise 8).
const ETA_WITHIN: f64 = 0.8;
/// Fewer fans than this prove nothing about ranges.
const ETA_FANS_MIN: u64 = 100;

/// What was sold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sold {
    pub orders: u64,
    pub seats: u64,
    /// Seats the show has; none where neither the command line nor the board said so.
    pub capacity: Option<u64>,
}

/// First answers that said `admitted`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Admitted {
    pub fans: u64,
    /// The worst window of a second of first admitted *answers*: clients do not see calls.
    pub worst_second: Option<Worst>,
    /// The highest rate that the board named.
    pub rate_max: f64,
}

/// Messages, where a folder was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Messages {
    pub due: u64,
    /// Orders with exactly one message.
    pub found: u64,
    /// Events that the messages tell of.
    pub events: u64,
}

/// What a run comes to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    pub show: String,
    pub url: String,
    pub fans: u32,
    pub connections: u16,
    pub seed: u64,
    /// Microseconds since the Unix epoch.
    pub started_us: u64,
    pub seconds: f64,
    pub ended: Ended,
    /// The state that the board named last.
    pub state: String,
    pub faults: Faults,
    /// Worth a look, and no fault.
    pub remarks: Vec<String>,
    pub counts: Counts,
    pub tally: Tally,
    pub admitted: Admitted,
    pub eta: Vec<Calibration>,
    pub sold: Sold,
    pub messages: Option<Messages>,
    /// None where the show did not end.
    pub seatless: Option<Summary>,
    pub latency: BTreeMap<&'static str, Percentiles>,
    /// How late the crowd itself was.
    pub lateness: Percentiles,
}

impl Report {
    /// Lets the judges speak that need the whole run, and sums up.
    pub fn of(conductor: Conductor, ended: Ended, mail: Option<Verdict>) -> Self {
        let Conductor {
            world, fans, tally, ..
        } = conductor;
        let now = world.clock.now();
        let mut faults = world.faults;
        let joins = joins(&fans);
        faults.extend(shared(&joins));
        faults.extend(out_of_order(&joins));
        let capacity = world.settings.seats.or(world.board.seats);
        faults.extend(capacity.and_then(|capacity| world.sales.within(capacity)));
        let seatless = world.board.over.map(|over| {
            let (summary, found) = summarise(over, &seatless(&fans, now, over));
            faults.extend(found);
            summary
        });
        let messages = mail.map(|mail| {
            faults.extend(mail.faults);
            Messages {
                due: world.bought.len() as u64,
                found: mail.found,
                events: mail.events,
            }
        });
        let mut report = Self {
            show: world.settings.show,
            url: format!("http://{}", world.settings.authority),
            fans: world.settings.fans,
            connections: world.settings.connections,
            seed: world.settings.seed,
            started_us: world.clock.started().us(),
            seconds: now.seconds_since(world.clock.started()),
            ended,
            state: world.board.state().to_owned(),
            faults,
            remarks: Vec::new(),
            counts: world.counts,
            tally,
            admitted: admitted(&fans, world.board.rate_max),
            eta: calibrate(&promises(&fans)),
            sold: Sold {
                orders: world.sales.orders,
                seats: world.sales.seats,
                capacity,
            },
            messages,
            seatless,
            latency: world.latency.percentiles(),
            lateness: world.latency.lateness(),
        };
        report.remarks = remarks(&report);
        report
    }

    /// Whether no fault was found.
    pub fn is_clean(&self) -> bool {
        self.faults.total() == 0
    }

    /// Writes `report.json` and `report.txt` into a folder.
    ///
    /// # Errors
    /// The files cannot be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let json = serde_json::to_string_pretty(self).context("writing the report as JSON")?;
        for (name, text) in [
            ("report.json", json + "\n"),
            ("report.txt", self.to_string()),
        ] {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

fn numbered(fans: &[Fan]) -> impl Iterator<Item = (FanNo, &Fan)> {
    (0..).zip(fans)
}

fn joins(fans: &[Fan]) -> Vec<Join> {
    let join = |(fan_no, fan): (FanNo, &Fan)| {
        Some(Join {
            fan_no,
            sent: fan.join_sent?,
            done: fan.join_done?,
            number: fan.number?,
        })
    };
    numbered(fans).filter_map(join).collect()
}

fn seatless(fans: &[Fan], now: Moment, over: Moment) -> Vec<Seatless> {
    let had_time = TELLING_MS * 1_000 <= now.us_since(over);
    numbered(fans)
        .filter(|(_, fan)| {
            let waits = fan.join_done.is_some() && fan.called.is_none() && !fan.has_ended();
            fan.told.is_some() || (waits && had_time)
        })
        .map(|(fan_no, fan)| Seatless {
            fan_no,
            told: fan.told,
        })
        .collect()
}

/// Ranges shown at join and what came, but for fans who slept through their call.
fn promises(fans: &[Fan]) -> Vec<Promise> {
    let awake = fans.iter().filter(|fan| fan.plan.quirk != Quirk::Sleeps);
    let promise = |fan: &Fan| {
        let (low, high) = fan.eta?;
        let actual = fan.called?.seconds_since(fan.join_done?);
        Some(Promise {
            low: low.into(),
            high: high.into(),
            actual,
        })
    };
    awake.filter_map(promise).collect()
}

fn admitted(fans: &[Fan], rate_max: f64) -> Admitted {
    let mut moments: Vec<Moment> = fans.iter().filter_map(|fan| fan.called).collect();
    Admitted {
        fans: moments.len() as u64,
        worst_second: worst(&mut moments, 1_000_000),
        rate_max,
    }
}

fn remarks(report: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut remark = |is: bool, text: String| {
        if is {
            remarks.push(text);
        }
    };
    let text = match report.ended {
        Ended::Everybody => String::new(),
        Ended::Time => "time was up before everybody was served or told".to_owned(),
        Ended::Asked => "stopped by a signal before everybody was served or told".to_owned(),
    };
    remark(!text.is_empty(), text);
    if let Some(all) = report.eta.first().filter(|all| ETA_FANS_MIN <= all.fans) {
        let within = format!(
            "only {:.0} % were called within the range shown at join",
            100.0 * all.within
        );
        remark(all.within < ETA_WITHIN, within);
        let wide = format!(
            "{} ranges were wider than max(30 s, half their middle)",
            all.too_wide
        );
        remark(0 < all.too_wide, wide);
    }
    let missed = report.counts.missed;
    remark(
        0 < missed,
        format!("{missed} fans asked as told and missed their call: polls too rare?"),
    );
    remark(
        1_000_000 < report.lateness.p99_us,
        "the crowd itself was late: more --connections or fewer fans would measure better"
            .to_owned(),
    );
    let unsold = report
        .sold
        .capacity
        .filter(|capacity| report.sold.seats < *capacity);
    remark(
        unsold.is_some() && report.state == "sold_out",
        "sold out, and somebody else than this crowd has seats".to_owned(),
    );
    let wrong =
        report.faults.found.contains_key(&Fault::UnexpectedAnswer) && report.counts.holds == 0;
    remark(
        wrong,
        "no hold was ever given: do --section and the show's sections agree?".to_owned(),
    );
    remarks
}
