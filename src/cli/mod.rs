//! The command line: one file per verb family.
//!
//! Exit codes: 0 asked to stop or done, 1 a task ended by itself or a check failed, 2 usage, 69 a
//! needed server, port or folder is missing, 78 bad configuration.

pub mod admin_api;
pub mod cancel;
pub mod cdc;
pub mod check;
pub mod demo;
pub mod draw;
pub mod migrate;
pub mod offsets;
pub mod operate;
pub mod serve;
pub mod settings;
pub mod show_settings;
pub mod topics;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::app::alone::Role;
use crate::app::openapi::Api;

/// Done, or asked to stop.
pub const OK: u8 = 0;
/// A task ended by itself, or a check failed.
pub const FAILED: u8 = 1;
/// The words make no sense.
pub const USAGE: u8 = 2;
/// A needed server, port or folder is missing (`EX_UNAVAILABLE` of sysexits.h).
pub const UNAVAILABLE: u8 = 69;
/// The configuration is wrong (`EX_CONFIG` of sysexits.h).
pub const CONFIG: u8 = 78;

/// A waiting room and admission gateway for flash sales.
#[derive(Debug, Parser)]
#[command(name = "catraca", version, about, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 done or asked to stop, 1 a task ended by itself or a check \
failed, 2 usage, 69 a needed server, port or folder is missing, 78 bad configuration."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// What the program can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run everything with a sample show and a crowd, sell out, check, and keep serving.
    #[command(display_order = 1)]
    Demo(demo::DemoArgs),
    /// Run every role in one process, by the configuration.
    #[command(display_order = 2)]
    Up(ConfigArgs),
    /// Run the door in a process of its own: join, status, the gate. Needs room and secret, no SQL.
    #[command(display_order = 2)]
    Gateway(ConfigArgs),
    /// Run an admitter in a process of its own: it lets people in. Several may run.
    #[command(display_order = 2)]
    Admitter(ConfigArgs),
    /// Run the shop's back end in a process of its own: holds, orders, payments.
    #[command(display_order = 2)]
    Orders(ConfigArgs),
    /// Run a relay in a process of its own: from the outbox into the log.
    #[command(display_order = 2)]
    Relay(ConfigArgs),
    /// Run the writing of messages in a process of its own.
    #[command(display_order = 2)]
    Notify(ConfigArgs),
    /// Run the counting of seats in a process of its own: what is left, who has bought.
    #[command(display_order = 2)]
    Stock(ConfigArgs),
    /// Run the listing of what is left in a process of its own.
    #[command(display_order = 2)]
    Search(ConfigArgs),
    /// Run the counting of sales by minute in a process of its own.
    #[command(display_order = 2)]
    Analytics(ConfigArgs),
    /// Run the sending of events without their facts, for who may not see them, in a process of its own.
    #[command(display_order = 2)]
    Thin(ConfigArgs),
    /// Create shows and steer them (speaks to the admin API).
    #[command(subcommand, display_order = 3)]
    Show(operate::ShowVerb),
    /// Say of an order where it stopped (speaks to the admin API).
    #[command(display_order = 4)]
    Journey(operate::JourneyArgs),
    /// Take an order back (speaks to the admin API).
    #[command(subcommand, display_order = 4)]
    Order(cancel::OrderVerb),
    /// List deliveries that were set aside, or hand them over again (speaks to the admin API).
    #[command(subcommand, display_order = 5)]
    DeadLetters(operate::DeadLetterVerb),
    /// List events that can never be sent, let one go again, or go on without it (speaks to the admin API).
    #[command(subcommand, display_order = 5)]
    Quarantine(operate::QuarantineVerb),
    /// Verify a draw from what is public.
    #[command(subcommand, display_order = 6)]
    Draw(draw::DrawVerb),
    /// Prove the promises from what is stored, or print the first counter-example.
    #[command(display_order = 7)]
    Check(check::CheckArgs),
    /// Bring the schema of the database up to date (every start does, too).
    #[command(display_order = 7)]
    Migrate(ConfigArgs),
    /// Make the topics of the event log in Kafka.
    #[command(subcommand, display_order = 7)]
    Topics(topics::TopicsVerb),
    /// Hand the outbox over to Debezium, and remove what it is past.
    #[command(subcommand, display_order = 7)]
    Cdc(cdc::CdcVerb),
    /// Let a consumer group read the event log again.
    #[command(subcommand, display_order = 7)]
    Offsets(offsets::OffsetsVerb),
    /// Print the document of an API (OpenAPI 3.1), which its listener serves at /openapi.json.
    #[command(display_order = 8)]
    Openapi(OpenapiArgs),
    /// Check or print the configuration.
    #[command(subcommand, display_order = 8)]
    Config(settings::ConfigVerb),
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Default, Args)]
pub struct ConfigArgs {
    /// The configuration file; without it defaults and the environment (CATRACA__SECTION__KEY) count.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where SQLite files, the mailbox and generated secrets live (data_dir).
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

/// Which document.
#[derive(Debug, Clone, Copy, Args)]
pub struct OpenapiArgs {
    /// The operators' API, and not the public one.
    #[arg(long)]
    pub admin: bool,
}

/// Carries out a command line.
pub async fn run(cli: Cli) -> ExitCode {
    let code = match cli.verb {
        Verb::Demo(args) => Box::pin(demo::demo(args)).await,
        Verb::Up(args) => serve::up(&args).await,
        Verb::Gateway(args) => serve::alone(Role::Gateway, &args).await,
        Verb::Admitter(args) => serve::alone(Role::Admitter, &args).await,
        Verb::Orders(args) => serve::alone(Role::Orders, &args).await,
        Verb::Relay(args) => serve::alone(Role::Relay, &args).await,
        Verb::Notify(args) => serve::alone(Role::Notify, &args).await,
        Verb::Stock(args) => serve::alone(Role::Stock, &args).await,
        Verb::Search(args) => serve::alone(Role::Search, &args).await,
        Verb::Analytics(args) => serve::alone(Role::Analytics, &args).await,
        Verb::Thin(args) => serve::alone(Role::Thin, &args).await,
        Verb::Show(verb) => operate::show(verb).await,
        Verb::Journey(args) => operate::journey(args).await,
        Verb::Order(verb) => cancel::order(verb).await,
        Verb::DeadLetters(verb) => operate::dead_letters(verb).await,
        Verb::Quarantine(verb) => operate::quarantine(verb).await,
        Verb::Draw(verb) => draw::draw(verb).await,
        Verb::Check(args) => check::check(args).await,
        Verb::Migrate(args) => migrate::migrate(&args).await,
        Verb::Topics(verb) => topics::topics(&verb).await,
        Verb::Cdc(verb) => cdc::cdc(&verb).await,
        Verb::Offsets(verb) => offsets::offsets(&verb).await,
        Verb::Openapi(args) => {
            let api = match args.admin {
                true => Api::Operators,
                false => Api::Public,
            };
            print(&api.text());
            OK
        }
        Verb::Config(verb) => settings::config(&verb),
    };
    ExitCode::from(code)
}

/// One line for a person about what went wrong, the causes behind it included.
pub fn complain(error: &anyhow::Error) {
    tell(&format!("catraca: {error:#}"));
}

/// A line on standard error. A closed pipe is nobody's fault.
pub fn tell(line: &str) {
    use std::io::Write;
    let _closed = writeln!(std::io::stderr(), "{line}");
}

/// Text on standard output. A closed pipe (`catraca … | head`) is nobody's fault.
pub fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
}
