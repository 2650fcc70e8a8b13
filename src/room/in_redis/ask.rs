//! Commands as a script's name and arguments.

use crate::base::ids::FanId;
use crate::base::limits::{
    DRAW_SIZE_MAX, LEASE_TTL_MS, LEDGER_UNCOPIED_MAX, PRESENT_MS, TICK_CALLS_MAX, TICK_LOOKED_MAX,
    TICK_PLACES_MAX,
};
use crate::base::time::Timestamp;
use crate::room::in_redis::scripts::Name;
use crate::room::model::command::{
    AfterRevoke, Command, Configure, Drawn, Finish, Folded, Joining, Mend, Origin, Restoring,
    Settings, Stock, Tick,
};
use crate::room::model::seats_per_fan_milli;

/// A script and what it is told.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) name: Name,
    pub(super) args: Args,
}

/// What a script is told, in order.
#[derive(Debug, Default)]
pub(super) struct Args(pub(super) Vec<Vec<u8>>);

impl Args {
    fn text(mut self, text: &str) -> Self {
        self.0.push(text.as_bytes().to_vec());
        self
    }

    fn number(self, number: u64) -> Self {
        self.text(&number.to_string())
    }

    fn time(self, time: Timestamp) -> Self {
        self.text(&time.as_millis().to_string())
    }

    /// A number, or nothing.
    fn maybe(self, number: Option<u64>) -> Self {
        match number {
            Some(number) => self.number(number),
            None => self.text(""),
        }
    }

    fn fan(mut self, fan: FanId) -> Self {
        self.0.push(fan.0.to_vec());
        self
    }

    fn fans(self, fans: &[FanId]) -> Self {
        fans.iter().fold(self, |args, fan| args.fan(*fan))
    }

    /// A field of the room's hash, and a value to come.
    fn field(self, name: &str) -> Self {
        self.text(name)
    }
}

/// The script that carries out a command, and its arguments.
pub(super) fn ask(command: &Command) -> Ask {
    let args = Args::default();
    let (name, args) = match command {
        Command::Join { joining } => (Name::Join, join(joining)),
        Command::Tick(asked) => (Name::Tick, tick(asked)),
        Command::Claim { fans } => (Name::Claim, args.fans(fans)),
        Command::Check { fans } => (Name::Check, args.fans(fans)),
        Command::Extend { fan, until } => (Name::Extend, args.fan(*fan).time(*until)),
        Command::Consume { fan } => (Name::Consume, args.fan(*fan)),
        Command::Leave { fan } => (Name::Leave, args.fan(*fan)),
        Command::Revoke { fans, then } => {
            let then = match then {
                AfterRevoke::Returned => "returned",
                AfterRevoke::Out => "out",
            };
            (Name::Revoke, args.text(then).fans(fans))
        }
        Command::Restore { restoring } => (Name::Restore, restore(restoring)),
        Command::Touch { fans } => (Name::Touch, args.fans(fans)),
        Command::Freeze => (Name::Freeze, args.number(DRAW_SIZE_MAX)),
        Command::OpenDraw { size, seed } => {
            let args = args.number(*size).text(&seed.to_string());
            (Name::OpenDraw, args)
        }
        Command::Configure(asked) => (Name::Configure, configure(asked)),
        Command::Stock(told) => (
            Name::Stock,
            args.number(told.version)
                .number(told.free)
                .number(told.held)
                .number(told.sold)
                .time(told.as_of),
        ),
        Command::RaiseCeiling { ceiling } => (Name::RaiseCeiling, args.number(ceiling.0)),
        Command::Mend(step) => mend(step),
        Command::Board => (Name::Board, args),
        // More cannot wait: beyond, ticks call nobody. Fans who end their turns still write.
        Command::Ledger { max } => {
            let most = (*max).min(2 * LEDGER_UNCOPIED_MAX);
            (Name::Ledger, args.number(most as u64))
        }
        Command::Trim { through } => (Name::Trim, args.number(*through)),
    };
    Ask { name, args }
}

fn join(joining: &[Joining]) -> Args {
    let letters: String = joining
        .iter()
        .map(|joining| match joining.origin {
            Origin::Known => 'k',
            Origin::Minted => 'm',
        })
        .collect();
    let args = Args::default().text(&letters);
    joining
        .iter()
        .fold(args, |args, joining| args.fan(joining.fan))
}

fn tick(asked: &Tick) -> Args {
    let args = Args::default()
        .text(&asked.holder)
        .number(asked.want.min(TICK_CALLS_MAX))
        .number(asked.lease_ttl_ms)
        .number(asked.lease_ttl_ms.max(LEASE_TTL_MS))
        .number(LEDGER_UNCOPIED_MAX as u64)
        .number(seats_per_fan_milli(&asked.measured))
        .number(asked.measured.pace_milli)
        .number(asked.measured.spread_milli)
        .text(asked.measured.cause.map_or("", |cause| cause.word()))
        .number(asked.measured.seats_per_fan_milli)
        .number(TICK_LOOKED_MAX)
        .number(PRESENT_MS);
    match &asked.drawn {
        Some(drawn) => args
            .text(&drawn.seed.to_string())
            .number(drawn.serving.0)
            .text(&numbers(drawn)),
        None => args.text("").text("").text(""),
    }
}

/// A space between.
fn numbers(drawn: &Drawn) -> String {
    let numbers = drawn.numbers.iter().take(TICK_PLACES_MAX);
    let numbers: Vec<String> = numbers.map(ToString::to_string).collect();
    numbers.join(" ")
}

fn restore(restoring: &[Restoring]) -> Args {
    restoring.iter().fold(Args::default(), |args, pass| {
        args.fan(pass.fan)
            .number(pass.number.0)
            .number(pass.edition.0)
            .number(pass.generation.0)
            .maybe(pass.place.map(|place| place.0))
    })
}

fn configure(asked: &Configure) -> Args {
    let (verb, state) = match asked.verb {
        Some((version, state)) => (Some(version), state.word()),
        None => (None, ""),
    };
    let args = Args::default()
        .number(asked.version)
        .maybe(verb)
        .text(state)
        .number(asked.settings.window_ms)
        .number(draws(&asked.settings));
    settings(args, &asked.settings)
}

fn draws(settings: &Settings) -> u64 {
    u64::from(settings.draw.is_some())
}

/// The settings as fields: whole for the board, and one by one what scripts decide by.
fn settings(args: Args, settings: &Settings) -> Args {
    let json = serde_json::to_string(settings).expect("settings are plain data");
    let args = args.field("settings").text(&json);
    let numbers = [
        ("rate", settings.rate),
        ("window_ms", settings.window_ms),
        ("capacity", settings.capacity),
        ("claim_ms", settings.claim_ms),
        ("ticket_ttl_ms", settings.ticket_ttl_ms),
        ("ticket_ttl_max_ms", settings.ticket_ttl_max_ms),
        ("waiting_max", settings.waiting_max),
        ("stock_guard", u64::from(settings.stock_guard)),
        ("draws", draws(settings)),
        ("require_presence", u64::from(settings.require_presence)),
    ];
    let args = numbers
        .into_iter()
        .fold(args, |args, (name, value)| args.field(name).number(value));
    let hours = [
        ("early_at", settings.early_at),
        ("opens_at", settings.opens_at),
        ("closes_at", settings.closes_at),
    ];
    hours
        .into_iter()
        .fold(args, |args, (name, hour)| match hour {
            Some(hour) => args.field(name).time(hour),
            None => args.field(name).text(""),
        })
}

fn mend(step: &Mend) -> (Name, Args) {
    let args = Args::default();
    match step {
        Mend::Begin {
            edition,
            generation,
            mended,
        } => {
            let args = args.number(edition.0).number(generation.0);
            (Name::MendBegin, args.number(mended.0))
        }
        Mend::Copy {
            generation,
            through,
            max,
        } => {
            let most = (*max).min(2 * LEDGER_UNCOPIED_MAX) as u64;
            let args = args.number(generation.0).number(*through);
            (Name::MendCopy, args.number(most))
        }
        Mend::Fold { generation, folded } => {
            let args = args.number(generation.0);
            let args = folded
                .iter()
                .fold(args, |args, (fan, folded)| fold(args.fan(*fan), *folded));
            (Name::MendFold, args)
        }
        Mend::Finish(rest) => (Name::MendFinish, finish(rest)),
    }
}

fn fold(args: Args, folded: Folded) -> Args {
    match folded {
        Folded::Called { until, place } => args.text("called").time(until).number(place.0),
        Folded::Claimed { until, place } => args.text("claimed").time(until).number(place.0),
        Folded::Returned { place } => args.text("returned").number(0).number(place.0),
        Folded::Ended(why) => args.text(why.word()).number(0).number(0),
    }
}

fn finish(rest: &Finish) -> Args {
    let verb = rest.configure.verb;
    // A loss while the last one was being mended: what was before is the verb's, or the hours'.
    let state = rest.state_before();
    let seed = rest.draw.and_then(|draw| draw.seed);
    let args = Args::default()
        .number(rest.generation.0)
        .text(state.word())
        .number(rest.serving.0)
        .number(rest.known.0)
        .number(rest.issued.0)
        .number(rest.ceiling.0)
        .number(rest.restoring_ms)
        .time(rest.not_before)
        .number(draws(&rest.configure.settings))
        .maybe(rest.draw.map(|draw| draw.size))
        .text(&seed.map_or(String::new(), |seed| seed.to_string()))
        .field("version")
        .number(rest.configure.version)
        .field("verb_version")
        .number(verb.map_or(0, |(version, _)| version));
    stock(settings(args, &rest.configure.settings), rest.stock)
}

fn stock(args: Args, stock: Option<Stock>) -> Args {
    let numbers = [
        ("stock_version", stock.map(|stock| stock.version)),
        ("stock_free", stock.map(|stock| stock.free)),
        ("stock_held", stock.map(|stock| stock.held)),
        ("stock_sold", stock.map(|stock| stock.sold)),
    ];
    let args = numbers
        .into_iter()
        .fold(args, |args, (name, value)| args.field(name).maybe(value))
        .field("stock_as_of");
    match stock {
        Some(stock) => args.time(stock.as_of),
        None => args.text(""),
    }
}
