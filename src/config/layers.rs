//! Defaults, file, environment, flags: one on top of the other, each value with its origin.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use crate::config::place::{remove, set, value_at};
use crate::config::suggest::nearest;
use crate::config::{Config, ConfigError, DEFAULT};

const PREFIX: &str = "CATRACA__";

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// `default.toml`.
    Default,
    /// The file given by `--config`.
    File(String),
    /// An environment variable.
    Environment(String),
    /// A flag on the command line.
    Flag,
}

/// A configuration with the origin of each value.
#[derive(Debug)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// The merged document, for `config print`.
    pub document: Table,
    /// The origin of each value that is not a default, by dotted key.
    pub origins: BTreeMap<String, Origin>,
}

/// The variables of the process that are meant for us.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the environment"
)]
pub fn environment() -> Vec<(String, String)> {
    std::env::vars()
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect()
}

/// Puts the layers together and checks the result.
///
/// # Errors
/// One line: the file and line, or the variable, the key, and what would be right.
pub fn load(
    file: Option<&Path>,
    environment: &[(String, String)],
    flags: &[(&str, Value)],
) -> Result<Loaded, ConfigError> {
    let mut document: Table = DEFAULT.parse().expect("default.toml is tested");
    let mut origins = BTreeMap::new();
    if let Some(path) = file {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError(format!("cannot read {shown}: {error}")))?;
        let table = parse(&text, &shown)?;
        refuse_unknown(&document, &table, &text, &shown)?;
        overlay(&mut document, table, "", &Origin::File(shown), &mut origins);
    }
    for (name, text) in environment {
        let Some(key) = name.strip_prefix(PREFIX) else {
            continue;
        };
        set_from_environment(&mut document, name, key, text, &mut origins)?;
    }
    for (key, value) in flags {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        set(&mut document, &path, value.clone());
        origins.insert((*key).to_owned(), Origin::Flag);
    }
    let config = typed(&document).map_err(|message| {
        let culprit = blame(&document, &message, &origins);
        ConfigError(format!("configuration: {message}{culprit}"))
    })?;
    config.check()?;
    Ok(Loaded {
        config,
        document,
        origins,
    })
}

fn parse(text: &str, shown: &str) -> Result<Table, ConfigError> {
    text.parse().map_err(|error: toml::de::Error| {
        let line = error
            .span()
            .map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        ConfigError(format!(
            "{shown}:{line}: {}",
            error.message().replace('\n', " ")
        ))
    })
}

/// Keys that operators name themselves: below these any name may stand.
fn is_open(path: &str) -> bool {
    path == "upstreams" || path.starts_with("upstreams.") || path == "routes"
}

fn refuse_unknown(
    known: &Table,
    given: &Table,
    text: &str,
    shown: &str,
) -> Result<(), ConfigError> {
    let mut pending = vec![(String::new(), known, given)];
    while let Some((prefix, known, given)) = pending.pop() {
        for (key, value) in given {
            let path = join(&prefix, key);
            if is_open(&path) {
                continue;
            }
            match (known.get(key), value) {
                (Some(Value::Table(known)), Value::Table(given)) => {
                    pending.push((path, known, given));
                }
                (Some(_), _) => {}
                (None, _) => {
                    let line = line_of(text, key);
                    let hint = nearest(key, known.keys())
                        .map(|near| format!("; did you mean {}?", join(&prefix, near)))
                        .unwrap_or_default();
                    return Err(ConfigError(format!(
                        "{shown}:{line}: unknown key {path}{hint}"
                    )));
                }
            }
        }
    }
    Ok(())
}

fn overlay(
    onto: &mut Table,
    table: Table,
    prefix: &str,
    origin: &Origin,
    origins: &mut BTreeMap<String, Origin>,
) {
    for (key, value) in table {
        let path = join(prefix, &key);
        match (onto.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => {
                overlay(below, above, &path, origin, origins);
            }
            (_, value) => {
                onto.insert(key, value);
                origins.insert(path, origin.clone());
            }
        }
    }
}

fn set_from_environment(
    document: &mut Table,
    name: &str,
    key: &str,
    text: &str,
    origins: &mut BTreeMap<String, Origin>,
) -> Result<(), ConfigError> {
    let mut path: Vec<String> = key.to_lowercase().split("__").map(str::to_owned).collect();
    let mut text = text.to_owned();
    if value_at(document, &path).is_none()
        && let Some(short) = path.last().and_then(|last| last.strip_suffix("_file"))
    {
        let short = short.to_owned();
        let file = text.trim().to_owned();
        text = std::fs::read_to_string(&file)
            .map_err(|error| ConfigError(format!("{name}: cannot read {file}: {error}")))?
            .trim_end()
            .to_owned();
        *path.last_mut().expect("split yields at least one part") = short;
    }
    let dotted = path.join(".");
    let value = match value_at(document, &path) {
        None if is_open(&dotted) => Value::String(text),
        None => {
            return Err(ConfigError(format!("{name}: there is no key {dotted}")));
        }
        Some(Value::String(_)) => Value::String(text),
        Some(Value::Array(_)) if !text.trim_start().starts_with('[') => {
            let items = text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        Some(_) => format!("value = {text}")
            .parse::<Table>()
            .ok()
            .and_then(|mut table| table.remove("value"))
            .ok_or_else(|| ConfigError(format!("{name}: {text:?} is no value for {dotted}")))?,
    };
    set(document, &path, value);
    origins.insert(dotted, Origin::Environment(name.to_owned()));
    Ok(())
}

fn typed(document: &Table) -> Result<Config, String> {
    let config = document.clone().try_into();
    config.map_err(|error: toml::de::Error| error.message().replace('\n', " "))
}

/// The key that a message of the TOML library is about, and where its value came from: the message
/// is another one, or none, without it.
fn blame(document: &Table, message: &str, origins: &BTreeMap<String, Origin>) -> String {
    let defaults: Table = DEFAULT.parse().expect("default.toml is tested");
    let is_behind = |key: &str| {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        let mut without = document.clone();
        match value_at(&defaults, &path) {
            Some(default) => set(&mut without, &path, default.clone()),
            None => remove(&mut without, &path),
        }
        typed(&without).err().as_deref() != Some(message)
    };
    match origins.iter().find(|(key, _)| is_behind(key)) {
        Some((key, Origin::File(file))) => format!(" (key {key} in {file})"),
        Some((key, Origin::Environment(name))) => format!(" (key {key}, from {name})"),
        Some((key, Origin::Flag)) => format!(" (key {key}, from a flag)"),
        Some((_, Origin::Default)) | None => String::new(),
    }
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        key.to_owned()
    } else {
        format!("{prefix}.{key}")
    }
}

fn line_of(text: &str, key: &str) -> usize {
    let names = |line: &str| {
        let line = line.trim_start().trim_start_matches('[');
        line.strip_prefix(key)
            .is_some_and(|rest| rest.trim_start().starts_with(['=', ']', '.']))
            || line.contains(&format!(".{key}"))
    };
    text.lines().position(names).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(text: &str) -> Result<Loaded, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catraca.toml");
        std::fs::write(&path, text).unwrap();
        load(Some(&path), &[], &[]).map_err(|error| {
            ConfigError(error.0.replace(&path.display().to_string(), "catraca.toml"))
        })
    }

    fn with_variable(name: &str, text: &str) -> Result<Loaded, ConfigError> {
        load(None, &[(name.to_owned(), text.to_owned())], &[])
    }

    #[test]
    fn the_defaults_are_a_valid_configuration() {
        let loaded = load(None, &[], &[]).unwrap();
        assert_eq!(loaded.config.gateway.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(
            loaded.config.database_path().to_str(),
            Some("catraca-data/catraca.db")
        );
        assert!(loaded.origins.is_empty());
    }

    #[test]
    fn flags_beat_the_environment_and_that_beats_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catraca.toml");
        std::fs::write(
            &path,
            "data_dir = 'a'\n[gateway]\ndrain_ms = 1\nlisten = '127.0.0.1:1'\n",
        )
        .unwrap();
        let environment = [
            (
                "CATRACA__GATEWAY__LISTEN".to_owned(),
                "127.0.0.1:2".to_owned(),
            ),
            (
                "CATRACA__GATEWAY__TRUSTED_PROXIES".to_owned(),
                "10.0.0.0/8, ::1/128".to_owned(),
            ),
            ("CATRACA__DATA_DIR".to_owned(), "b".to_owned()),
        ];
        let flags = [("data_dir", Value::String("c".to_owned()))];
        let loaded = load(Some(&path), &environment, &flags).unwrap();
        assert_eq!(loaded.config.gateway.drain_ms, 1);
        assert_eq!(loaded.config.gateway.listen.port(), 2);
        assert_eq!(loaded.config.gateway.trusted_proxies.len(), 2);
        assert_eq!(loaded.config.data_dir.to_str(), Some("c"));
        assert_eq!(loaded.origins["data_dir"], Origin::Flag);
    }

    #[test]
    fn a_secret_may_come_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        std::fs::write(&path, format!("{}\n", "s".repeat(32))).unwrap();
        let loaded = with_variable("CATRACA__KEYS__SECRET_FILE", path.to_str().unwrap()).unwrap();
        assert_eq!(loaded.config.keys.secret.expose(), "s".repeat(32));
    }

    #[test]
    fn each_mistake_is_one_clear_line() {
        for (text, says) in [
            (
                "data_dri = 'x'",
                "catraca.toml:1: unknown key data_dri; did you mean data_dir?",
            ),
            (
                "\n[gateway]\nlisen = 'x'",
                "catraca.toml:3: unknown key gateway.lisen; did you mean",
            ),
            (
                "[gateway]\nlisten = 'x'",
                "(key gateway.listen in catraca.toml)",
            ),
            ("a = [", "catraca.toml:1:"),
            (
                "[keys]\nsecret = 'short'",
                "keys.secret has 5 bytes; it must",
            ),
            ("[keys]\nactive = 'K 1'", "key label \"K 1\" must be"),
            (
                "[keys]\naccepted = ['k1']",
                "key label \"k1\" is given twice",
            ),
            (
                "[room]\nurl = 'postgres://u:secret@x'",
                "room.url (postgres:) must be memory: or lead to Redis: ",
            ),
            (
                "[gateway]\nlisten = '0.0.0.0:80'",
                "tickets would travel without TLS",
            ),
            (
                "[upstreams.shop]\nurl='http://x'\ngate='maybe'",
                "unknown variant `maybe`",
            ),
            ("[upstreams.shop]\nurll='http://x'", "unknown field `urll`"),
        ] {
            let error = with_file(text).unwrap_err().0;
            assert!(error.contains(says), "{text}: {error}");
            assert!(!error.contains('\n'), "{error}");
        }
        for (name, text, says) in [
            (
                "CATRACA__GATEWAY__LISEN",
                "x",
                "there is no key gateway.lisen",
            ),
            (
                "CATRACA__GATEWAY__DRAIN_MS",
                "soon",
                "\"soon\" is no value for gateway.drain_ms",
            ),
            (
                "CATRACA__KEYS__SECRET_FILE",
                "/no/such",
                "cannot read /no/such",
            ),
        ] {
            let error = with_variable(name, text).unwrap_err().0;
            assert!(error.contains(says), "{name}: {error}");
        }
        let both = [("ADMIN__LISTEN", "127.0.0.1:1"), ("ORDERS__LISTEN", "x")]
            .map(|(name, text)| (format!("{PREFIX}{name}"), text.to_owned()));
        let error = load(None, &both, &[]).unwrap_err().0;
        let says = "(key orders.listen, from CATRACA__ORDERS__LISTEN)";
        assert!(error.contains(says), "{error}");
    }
}
