//! The whole crowd against a fake show: a right one is clean, and each flaw is found by its name.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

mod fake;

use std::path::Path;
use std::time::Duration;

use clap::Parser;
use loadtest::cli::{Cli, Settings, Verb};
use loadtest::crowd;
use loadtest::judge::Fault;
use loadtest::report::Report;
use tokio::task::JoinSet;

use fake::{Fake, Flaw};

const SEATS: usize = 300;

fn settings(fake: &Fake, folder: &Path, for_s: u64) -> Settings {
    let folder = folder.display();
    let line = format!(
        "loadtest crowd --url http://{} --show s --fast --fans 250 --arrive-s 1 --connections 16 \
         --think-s 0.1..0.4 --claim-ms 1500 --no-ticket 0.05 --decline 0.2 --sleep 0.1 --for-s {for_s} \
         --report {folder}/report --history {folder}/history.ndjson --mail-dir {folder} \
         --mail-wait-s 2",
        fake.address
    );
    let Verb::Crowd(arguments) = Cli::try_parse_from(line.split_whitespace()).unwrap().verb else {
        panic!("the line is a crowd's");
    };
    arguments.settings().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_show_is_clean_from_the_first_join_to_the_last_message() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::start(Flaw::None, SEATS, folder.path().to_owned()).await;
    let report = crowd::run(settings(&fake, folder.path(), 60))
        .await
        .unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.sold.seats, SEATS as u64, "{report}");
    assert_eq!(report.tally.open(), 0, "{report}");
    let messages = report.messages.as_ref().unwrap();
    assert_eq!(
        (messages.found, messages.due),
        (report.sold.orders, report.sold.orders)
    );
    let counts = &report.counts;
    for (what, seen) in [
        ("lost", counts.lost_on_purpose),
        ("again", counts.joined_again),
        ("probes", counts.probes_refused),
        ("stood by", counts.stood_by),
        ("called again", counts.called_again),
        ("declined", counts.declined_cards),
        ("rechecks", counts.rechecks),
        ("told", report.tally.told),
    ] {
        assert!(0 < seen, "nobody: {what}\n{report}");
    }
    let text = std::fs::read_to_string(folder.path().join("report/report.txt")).unwrap();
    assert!(text.contains("no faults"), "{text}");
    assert!(std::fs::read(folder.path().join("report/report.json")).is_ok());
    history_is_whole(&folder.path().join("history.ndjson"), &report);
}

/// Every line reads as JSON, and what was counted is there.
fn history_is_whole(path: &Path, report: &Report) {
    let text = std::fs::read_to_string(path).unwrap();
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let count = |op: &str, outcome: &str| {
        lines
            .iter()
            .filter(|line| line["op"] == op && line["outcome"] == outcome)
            .count() as u64
    };
    assert_eq!(count("probe", "refused"), report.counts.probes_refused);
    assert_eq!(count("hold", "ok"), report.counts.holds);
    assert_eq!(count("join", "unknown"), report.counts.lost_on_purpose);
    let admitted = lines
        .iter()
        .filter(|line| line["op"] == "status" && line["state"] == "admitted");
    assert!(
        admitted
            .clone()
            .all(|line| line["ticket_id"].is_string() && line["expires_at"].is_i64())
    );
    assert_eq!(
        admitted.count() as u64,
        report.counts.called + report.counts.rechecks
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_in_the_middle_costs_nobody_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut fake = Fake::start(Flaw::None, SEATS, folder.path().to_owned()).await;
    let running = crowd::run(settings(&fake, folder.path(), 60));
    let restarting = async {
        while fake.issued() < 150 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        fake.restart(Duration::from_millis(300)).await;
    };
    let (report, ()) = tokio::join!(running, restarting);
    let report = report.unwrap();
    assert!(report.is_clean(), "{report}");
    assert!(0 < report.counts.not_sent + report.counts.lost, "{report}");
    assert_eq!(report.sold.seats, SEATS as u64, "{report}");
}

/// Each flaw, how long it takes to show, and the only faults that may be found then.
const FLAWS: [(Flaw, u64, &[Fault]); 10] = [
    (Flaw::SharesNumbers, 4, &[Fault::NumberShared]),
    (
        Flaw::ForgetsNumbers,
        4,
        &[Fault::NumberChanged, Fault::PositionRose],
    ),
    (Flaw::PositionsRise, 4, &[Fault::PositionRose]),
    (Flaw::SlotsNeverLapse, 8, &[Fault::SleeperNotStoodBy]),
    (Flaw::OpensTheGate, 4, &[Fault::GateOpen]),
    (Flaw::ChangesTickets, 6, &[Fault::TicketChanged]),
    (Flaw::SellsTwice, 8, &[Fault::SeatSoldTwice]),
    (Flaw::LosesOrders, 8, &[Fault::OrderLost]),
    (Flaw::MailsTwice, 8, &[Fault::MessageTwice]),
    (Flaw::LimitsEverybody, 4, &[Fault::HonestFanLimited]),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_flaw_is_found_by_its_name_and_by_no_other() {
    let mut runs = JoinSet::new();
    for (flaw, for_s, allowed) in FLAWS {
        runs.spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let fake = Fake::start(flaw, SEATS, folder.path().to_owned()).await;
            let report = crowd::run(settings(&fake, folder.path(), for_s))
                .await
                .unwrap();
            let found: Vec<Fault> = report.faults.found.keys().copied().collect();
            assert!(
                found.contains(&allowed[0]),
                "{flaw:?} was not found: {found:?}"
            );
            assert!(
                found.iter().all(|fault| allowed.contains(fault)),
                "{flaw:?}: {report}"
            );
        });
    }
    while let Some(run) = runs.join_next().await {
        run.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_run_with_a_report() {
    // Each fan joins by one request and reads its answer: whoever has a number and does not know it yet
    // keeps a connection busy.
    const CONNECTIONS: u64 = 4;
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::start(Flaw::None, SEATS, folder.path().to_owned()).await;
    let report = folder.path().join("report");
    let mut crowd = std::process::Command::new(env!("CARGO_BIN_EXE_loadtest"))
        .args([
            "crowd",
            "--show",
            "s",
            "--fast",
            "--url",
            &format!("http://{}", fake.address),
            "--connections",
            &CONNECTIONS.to_string(),
            "--lose",
            "0",
            "--no-js",
            "0",
        ])
        .arg("--report")
        .arg(&report)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while fake.issued() < 20 + CONNECTIONS {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let pid = crowd.id().to_string();
    assert!(
        std::process::Command::new("kill")
            .args(["-TERM", &pid])
            .status()
            .unwrap()
            .success()
    );
    let ended = tokio::task::spawn_blocking(move || crowd.wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(ended.code(), Some(0));
    let json = std::fs::read_to_string(report.join("report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["ended"], "asked");
    let joined = json["counts"]["joined"].as_u64().unwrap();
    assert!(
        (20..=fake.issued()).contains(&joined),
        "{joined} of {} have read their number",
        fake.issued()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_show_that_is_not_there_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::start(Flaw::None, SEATS, folder.path().to_owned()).await;
    let mut settings = settings(&fake, folder.path(), 60);
    settings.show = "other".to_owned();
    let error = crowd::run(settings).await.expect_err("no such show");
    assert!(error.to_string().contains("no show `other`"), "{error}");
}
