//! `catraca config check|print`.

use clap::Subcommand;
use toml::{Table, Value};

use crate::app;
use crate::cli::{CONFIG, ConfigArgs, OK, complain, print};
use crate::config::layers::{Loaded, Origin, environment, load};

/// `catraca config …`
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Say whether the configuration can be used.
    Check(ConfigArgs),
    /// Print the configuration in force, each value with its origin, secrets masked.
    Print(ConfigArgs),
}

/// Carries out `catraca config …`.
pub fn config(verb: &ConfigVerb) -> u8 {
    let (ConfigVerb::Check(args) | ConfigVerb::Print(args)) = verb;
    let said = loaded(args).and_then(|loaded| match verb {
        ConfigVerb::Check(_) => {
            app::check(&loaded.config)?;
            Ok("the configuration is good".to_owned())
        }
        ConfigVerb::Print(_) => Ok(render(&loaded)),
    });
    match said {
        Ok(text) => {
            print(&text);
            OK
        }
        Err(error) => {
            complain(&error);
            CONFIG
        }
    }
}

/// The configuration that these words, the file and the environment come to.
///
/// # Errors
/// One line that says what is wrong and where.
pub fn loaded(args: &ConfigArgs) -> anyhow::Result<Loaded> {
    load_with(args, &[])
}

/// The same, with values that a verb itself sets.
///
/// # Errors
/// As [`loaded`].
pub fn load_with(args: &ConfigArgs, set: &[(&str, Value)]) -> anyhow::Result<Loaded> {
    let mut flags = set.to_vec();
    if let Some(dir) = &args.data_dir {
        flags.push(("data_dir", Value::String(dir.display().to_string())));
    }
    Ok(load(args.config.as_deref(), &environment(), &flags)?)
}

/// `redis://fan:secret@host?password=secret` without what stands between the scheme and the host, and
/// without the query where it has a password.
fn without_password(value: &str) -> String {
    let shown = match (value.find("://"), value.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}***{}", &value[..scheme + 3], &value[at..])
        }
        _ => value.to_owned(),
    };
    match shown.split_once('?') {
        Some((before, query)) if query.contains("password") => format!("{before}?***\""),
        Some(_) | None => shown,
    }
}

fn render(loaded: &Loaded) -> String {
    let mut lines = Vec::new();
    walk(&loaded.document, "", &mut |path, value| {
        let is_secret = ["secret", "password"].iter().any(|end| path.ends_with(end));
        let is_secret = is_secret && value.as_str() != Some("");
        let shown = if is_secret {
            "\"***\"".to_owned()
        } else {
            without_password(&value.to_string())
        };
        let origin = match loaded.origins.get(path) {
            None | Some(Origin::Default) => "default".to_owned(),
            Some(Origin::File(file)) => file.clone(),
            Some(Origin::Environment(name)) => name.clone(),
            Some(Origin::Flag) => "flag".to_owned(),
        };
        lines.push(format!("{:<60} # {origin}", format!("{path} = {shown}")));
    });
    lines.join("\n")
}

fn walk(table: &Table, prefix: &str, seen: &mut dyn FnMut(&str, &Value)) {
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        match value {
            Value::Table(below) => walk(below, &path, seen),
            Value::String(_)
            | Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Array(_) => seen(&path, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_is_printed() {
        for (value, shown) in [
            ("\"redis://r:6379\"", "\"redis://r:6379\""),
            ("\"redis://u:hidden@r\"", "\"redis://***@r\""),
            (
                "\"redis+sentinel://:hidden@a,b/main?sentinel_password=hidden\"",
                "\"redis+sentinel://***@a,b/main?***\"",
            ),
        ] {
            assert_eq!(without_password(value), shown);
        }
    }
}
