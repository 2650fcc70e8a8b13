//! What a fan makes of single answers.

use crate::cli::{Cli, Verb};
use crate::crowd::clock::Clock;
use crate::crowd::fan::{Probe, Turn};
use crate::crowd::life::*;
use crate::crowd::plan::{Planner, Range};
use crate::crowd::wire::Answer;
use crate::history::History;
use crate::judge::turn::Admission;
use clap::Parser;

fn world() -> World {
    world_writing(History::nowhere())
}

fn world_writing(history: History) -> World {
    let words = "loadtest crowd --show s --report r --no-js 0 --leave 0 --refresh 0 --retry 0 \
                 --twice 0 --lose 0 --no-ticket 0 --sleep 0";
    let Verb::Crowd(arguments) = Cli::parse_from(words.split_whitespace()).verb else {
        panic!("the line is a crowd's");
    };
    World::new(
        arguments.settings().expect("words that make sense"),
        Clock::start(),
        history,
    )
}

fn fan(world: &World, stage: Stage) -> Fan {
    let think_ms = Range {
        low: 100,
        high: 200,
    };
    let shares = &world.settings.shares;
    let plan = Planner {
        seed: 1,
        arrive_ms: 1_000,
        think_ms,
        shares,
    }
    .plan(0);
    let mut fan = Fan::new(plan);
    fan.stage = stage;
    (fan.number, fan.pass) = (Some(7), Some("p".into()));
    fan.join_done = Some(world.clock.now());
    if !matches!(stage, Stage::Coming | Stage::Waiting) {
        fan.turn = Some(Box::new(Turn {
            ticket: "t".into(),
            admission: Admission {
                ticket_id: "id".into(),
                expires_ms: i64::MAX / 10_000,
            },
            asked_hold: true,
            asked_orders: 1,
            seats: 1,
            tries: 0,
            hold: None,
            charges: 0,
            order: None,
            reads: 0,
        }));
    }
    fan
}

fn hear(world: &mut World, fan: &mut Fan, step: Step, (status, body): (u16, &str)) -> Next {
    let body = bytes::Bytes::copy_from_slice(body.as_bytes());
    let answer = Answer {
        status,
        retry_after_ms: Some(3_000),
        body,
        ..Answer::default()
    };
    let (now, untroubled) = (world.clock.now(), fan.troubles == 0);
    let heard = Heard {
        step,
        sent: now,
        done: now,
        answer: &answer,
        untroubled,
    };
    answered(world, 0, fan, &heard)
}

const MISSING: Step = Step::Probe(Probe::Missing);

/// Where a fan is, what they asked, what the answer is, and which fault that is.
type Case = (Stage, Step, (u16, &'static str), Option<Fault>);

#[rustfmt::skip]
const CASES: &[Case] = &[
    (Stage::Waiting, Step::Status, (404, ""), Some(Fault::PlaceLost)),
    (Stage::Waiting, Step::Status, (200, r#"{"state":"gone"}"#), Some(Fault::PlaceLost)),
    (Stage::Waiting, Step::Status, (200, r#"{"state":"standby"}"#), None),
    (Stage::Waiting, Step::Status, (200, r#"{"state":"nonsense"}"#), Some(Fault::UnexpectedAnswer)),
    (Stage::Waiting, Step::Status, (200, r#"{"state":"early","number":8}"#), Some(Fault::NumberChanged)),
    (Stage::Waiting, Step::Status, (200, r#"{"state":"waiting"}"#), None),
    (Stage::Waiting, Step::Status, (200, r#"{"state":"sold_out"}"#), None),
    (Stage::Waiting, Step::Status, (429, ""), Some(Fault::HonestFanLimited)),
    (Stage::Waiting, Step::Status, (503, ""), None),
    (Stage::Waiting, Step::Status, (500, ""), Some(Fault::UnexpectedAnswer)),
    (Stage::Waiting, Step::Retry, (201, r#"{"number":7}"#), Some(Fault::UnexpectedAnswer)),
    (Stage::Waiting, MISSING, (409, ""), Some(Fault::GateOpen)),
    (Stage::Waiting, MISSING, (401, ""), None),
    (Stage::Inside, Step::Hold, (401, ""), Some(Fault::TicketLost)),
    (Stage::Inside, Step::Recheck, (200, r#"{"state":"waiting"}"#), Some(Fault::TicketLost)),
    (Stage::Holding, Step::Order, (401, ""), Some(Fault::TicketLost)),
    (Stage::Paying, Step::Read, (404, ""), Some(Fault::OrderLost)),
    (Stage::Paying, Step::Pay, (401, ""), None),
    (Stage::Paying, Step::Pay, (404, ""), Some(Fault::UnexpectedAnswer)),
    (Stage::Paying, Step::Read, (200, r#"{"status":"cancelled"}"#), Some(Fault::OrderStuck)),
];

#[test]
fn each_answer_that_must_not_be_is_a_fault_of_its_own() {
    for (stage, step, answer, fault) in CASES {
        let mut world = world();
        let mut fan = fan(&world, *stage);
        hear(&mut world, &mut fan, *step, *answer);
        let found: Vec<Fault> = world.faults.found.keys().copied().collect();
        assert_eq!(found, Vec::from_iter(*fault), "{step:?} {answer:?}");
    }
}

#[test]
fn a_limit_is_obeyed_with_the_same_step() {
    let mut world = world();
    let mut fan = fan(&world, Stage::Waiting);
    let before = world.clock.now();
    let next = hear(&mut world, &mut fan, Step::Status, (503, ""));
    assert_eq!(next.len(), 1);
    assert!(next[0].1 == Step::Status && before.plus_ms(3_000) <= next[0].0);
}

#[test]
fn whoever_is_put_off_is_told_until_when() {
    for (status, faults) in [(503, 1), (502, 0), (504, 0)] {
        let mut world = world();
        let mut fan = fan(&world, Stage::Waiting);
        let now = world.clock.now();
        let answer = Answer {
            status,
            ..Answer::default()
        };
        let heard = Heard {
            step: Step::Status,
            sent: now,
            done: now,
            answer: &answer,
            untroubled: true,
        };
        answered(&mut world, 0, &mut fan, &heard);
        assert_eq!(world.faults.total(), faults, "{status}");
    }
}

#[test]
fn who_finds_no_seats_is_told_and_leaves() {
    let mut world = world();
    let mut fan = fan(&world, Stage::Inside);
    let next = hear(
        &mut world,
        &mut fan,
        Step::Hold,
        (409, r#"{"type":"x/sold-out"}"#),
    );
    assert_eq!(
        next.iter().map(|next| next.1).collect::<Vec<_>>(),
        [Step::Leave]
    );
    fan.leaving = true;
    hear(
        &mut world,
        &mut fan,
        Step::Recheck,
        (200, r#"{"state":"gone"}"#),
    );
    hear(&mut world, &mut fan, Step::Leave, (204, ""));
    assert_eq!(
        (fan.stage, world.faults.total()),
        (Stage::Ended(End::NoSeats), 0)
    );
}

#[test]
fn a_form_without_a_pass_is_a_refused_join() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.ndjson");
    let mut world = world_writing(History::in_file(&path).unwrap());
    let mut fan = fan(&world, Stage::Coming);
    (fan.pass, fan.join_done) = (None, None);
    hear(&mut world, &mut fan, Step::Form, (303, ""));
    assert!(fan.join_done.is_none());
    fan.pass = Some("p".into());
    hear(&mut world, &mut fan, Step::Form, (303, ""));
    world.history.close().unwrap();
    let written = std::fs::read_to_string(&path).unwrap();
    let outcomes: Vec<_> = written
        .lines()
        .map(|line| line.contains(r#""outcome":"refused""#))
        .collect();
    assert_eq!(outcomes, [true, false]);
}
