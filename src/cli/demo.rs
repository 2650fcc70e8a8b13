//! `catraca demo`: the whole sale on one machine, with a crowd of real clients.
//!
//! The crowd is another program, `loadtest`, that lies beside this one and knows nothing of it but
//! the public API. What it saw and what is stored are then held against the promises.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::process::{Child, Command};

use crate::app::App;
use crate::base::ids::ShowId;
use crate::base::time::{Clock, SystemClock};
use crate::cli::check::{CheckArgs, check};
use crate::cli::serve::{asked, end, start};
use crate::cli::settings::load_with;
use crate::cli::{CONFIG, ConfigArgs, FAILED, OK, complain, print, tell};
use crate::gateway::boards::Boards;
use crate::room::model::command::RoomState;
use crate::show::settings::Settings;
use crate::show::{Change, Put};

/// The sample show.
const SHOW: &str = "stadium-show";

/// `catraca demo …`
#[derive(Debug, Args)]
#[command(
    after_help = "A demo that was killed goes on where it stopped: start it again with the \
same --data-dir."
)]
pub struct DemoArgs {
    #[command(flatten)]
    pub config: ConfigArgs,
    /// A small crowd in a hurry; ends by itself, with exit code 1 if anything was wrong.
    #[arg(long)]
    pub fast: bool,
    /// How many fans come [default: 20000; 1500 with --fast].
    #[arg(long, value_name = "N")]
    pub fans: Option<u32>,
    /// Show and gateway only, no crowd.
    #[arg(long)]
    pub no_crowd: bool,
}

/// Carries out `catraca demo`.
pub async fn demo(args: DemoArgs) -> u8 {
    // The crowd is a trusted proxy: it sends one X-Forwarded-For per fan, and all limits are on.
    let config = match load_with(&args.config, &[("gateway.trusted_proxies", loopback())]) {
        Ok(loaded) => loaded.config,
        Err(error) => {
            complain(&error);
            return CONFIG;
        }
    };
    let app = match start(&config, "warn").await {
        Ok(app) => app,
        Err(code) => return code,
    };
    let sale = match open_sale(&app, &args).await {
        Ok(show) => Sale {
            show,
            boards: Arc::clone(&app.boards),
            data_dir: config.data_dir.clone(),
            gateway: app.gateway_url.clone(),
            args,
        },
        Err(error) => {
            complain(&error);
            return FAILED;
        }
    };
    print(&app.greeting());
    print(&format!(
        "  waiting room  {}/w/{SHOW}\n",
        app.gateway_url.clone()
    ));
    let mut code = 0;
    let verdict = app
        .run(async {
            tokio::select! {
                () = asked() => {}
                sold = sale.run() => {
                    code = sold;
                    if !sale.args.fast {
                        tell("\nStill serving, so that you can look at the pages. Ctrl-C stops.");
                        asked().await;
                    }
                }
            }
        })
        .await;
    code.max(end(verdict))
}

fn loopback() -> toml::Value {
    toml::Value::Array(
        ["127.0.0.0/8", "::1/128"]
            .map(|net| net.to_owned().into())
            .to_vec(),
    )
}

/// Makes the sample show, unless an earlier start has.
async fn open_sale(app: &App, args: &DemoArgs) -> anyhow::Result<ShowId> {
    let id: ShowId = SHOW.parse().context("the sample show's id")?;
    let now = SystemClock.now();
    let opens_in_ms = if args.fast { 2_000 } else { 20_000 };
    let mut settings: Settings = serde_json::from_str(if args.fast {
        include_str!("demo_fast.json")
    } else {
        include_str!("demo.json")
    })?;
    settings.rate_max = Some(settings.rate_ceiling()); // as the admin API fixes it
    settings.early_at = Some(now);
    settings.opens_at = Some(now.plus_ms(opens_in_ms));
    settings.check().map_err(anyhow::Error::msg)?;
    let change = Change {
        who: "demo".to_owned(),
        role: "admin".to_owned(),
        action: "create".to_owned(),
        detail: serde_json::to_string(&settings)?,
        at: now,
    };
    match app.shows.put(&id, &change, &settings, None).await? {
        Put::Created(_) | Put::Changed(_) => app.changed.notify_one(),
        Put::Mismatch(_) => tell("catraca: going on with the sale of an earlier start"),
    }
    Ok(id)
}

/// What the crowd and the checker need.
struct Sale {
    show: ShowId,
    boards: Arc<Boards>,
    data_dir: PathBuf,
    gateway: String,
    args: DemoArgs,
}

impl Sale {
    /// Sends the crowd and checks what is left of it; the exit code that this comes to.
    async fn run(&self) -> u8 {
        if self.args.no_crowd {
            return std::future::pending().await;
        }
        self.gateway_shows().await;
        let seen = match self.crowd().await {
            Ok(code) => code,
            Err(error) => {
                complain(&error.context("there is no crowd"));
                return FAILED;
            }
        };
        print("");
        let checked = check(CheckArgs {
            database: None,
            data_dir: self.data_dir.clone(),
            history: self.histories(),
            json: false,
            strict: false,
        });
        seen.max(checked.await)
    }

    /// Waits for the crowd: the one of an earlier start that was killed while its crowd lives on,
    /// else a new one, unless the sale is over.
    async fn crowd(&self) -> anyhow::Result<u8> {
        let folder = self.data_dir.join("crowd");
        if self.is_taken(&folder) {
            tell("catraca: waiting for the crowd of an earlier start");
            while self.is_taken(&folder) {
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            return Ok(OK);
        }
        if self.is_over() {
            tell("catraca: the sale is over");
            return Ok(OK);
        }
        let status = self.send(&folder)?.wait().await?;
        Ok(u8::from(!status.success()))
    }

    /// Whether a crowd reports into this folder: it holds the lock there.
    fn is_taken(&self, folder: &Path) -> bool {
        let lock = std::fs::File::open(folder.join("lock"));
        lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
    }

    fn is_over(&self) -> bool {
        self.boards
            .find(&self.show)
            .is_ok_and(|seen| match seen.board.state {
                RoomState::SoldOut | RoomState::Closed => true,
                RoomState::Scheduled
                | RoomState::Early
                | RoomState::Open
                | RoomState::Paused
                | RoomState::Restoring
                | RoomState::Off => false,
            })
    }

    /// Waits until the gateway has read the show's board, with its seats on it.
    async fn gateway_shows(&self) {
        while !self
            .boards
            .find(&self.show)
            .is_ok_and(|seen| seen.board.stock.is_some())
        {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What every crowd of this sale wrote down.
    fn histories(&self) -> Vec<PathBuf> {
        let name = |start: usize| {
            self.data_dir
                .join("crowd")
                .join(format!("history-{start}.ndjson"))
        };
        (1..).map(name).take_while(|path| path.exists()).collect()
    }

    fn send(&self, folder: &Path) -> anyhow::Result<Child> {
        let history = format!("history-{}.ndjson", 1 + self.histories().len());
        let own = std::env::current_exe().context("cannot find this program")?;
        let program = own.parent().unwrap_or(Path::new(".")).join("loadtest");
        let settings: serde_json::Value = serde_json::from_str(if self.args.fast {
            include_str!("demo_fast.json")
        } else {
            include_str!("demo.json")
        })?;
        let mut command = Command::new(&program);
        command
            .args(["crowd", "--url", &self.gateway, "--show", SHOW])
            .args(["--section", "Floor,Stand"])
            .arg("--claim-ms")
            .arg(settings["claim_ms"].to_string())
            .arg("--report")
            .arg(folder)
            .arg("--history")
            .arg(folder.join(history))
            .arg("--mail-dir")
            .arg(self.data_dir.join("mailbox"))
            .kill_on_drop(true);
        // Few who fall silent: the last seats wait until their admissions have run out.
        command.args(["--silent", "0.04"]);
        if self.args.fast {
            command.args(["--fast", "--sleep", "0.01"]);
        }
        if let Some(fans) = self.args.fans {
            command.arg("--fans").arg(fans.to_string());
        }
        command.spawn().with_context(|| {
            format!(
                "cannot start {}: build it with cargo build -p loadtest",
                program.display()
            )
        })
    }
}
