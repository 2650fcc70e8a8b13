//! `catraca show create` and `catraca show set`: what an operator writes, sent as it is.
//!
//! The API decides, and repeats nothing that it was sent. Which word of the operator's it refused is said
//! here, where the words are known.

use std::collections::BTreeMap;
use std::io::Read;
use std::str::FromStr;

use anyhow::Context;
use http::Method;
use serde_json::value::RawValue;

use crate::base::ids::ShowId;
use crate::cli::admin_api::{AdminArgs, Ask};
use crate::cli::operate::path;
use crate::cli::print;
use crate::show::settings::Settings;

/// One member of a show's settings, as `show set` is told it.
#[derive(Debug, Clone)]
pub struct Member {
    name: String,
    value: Box<RawValue>,
}

impl FromStr for Member {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("it must be name=value")?;
        let value = serde_json::from_str(value)
            .or_else(|_| serde_json::value::to_raw_value(value))
            .map_err(|error| error.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            value,
        })
    }
}

/// Creates a show from a file, or from standard input where that is `-`.
pub(super) async fn create(admin: &AdminArgs, show: &ShowId, file: &str) -> anyhow::Result<()> {
    let mut text = String::new();
    if file == "-" {
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    }
    serde_json::from_str::<&RawValue>(&text).context("the settings are no JSON")?;
    let ask = Ask {
        method: Method::PUT,
        path: path(show),
        if_match: None,
        body: Some(text.clone()),
    };
    let answer = admin.ask(ask).await.map_err(|error| match misfit(&text) {
        Some(misfit) => error.context(misfit),
        None => error,
    })?;
    print(&format!("{show} created, version {}", answer["version"]));
    Ok(())
}

/// Changes members of a show's settings.
pub(super) async fn set(
    admin: &AdminArgs,
    show: &ShowId,
    members: &[Member],
) -> anyhow::Result<()> {
    let patch: BTreeMap<&str, &RawValue> = members
        .iter()
        .map(|member| (member.name.as_str(), &*member.value))
        .collect();
    let ask = Ask {
        method: Method::PATCH,
        path: path(show),
        if_match: None,
        body: Some(serde_json::to_string(&patch)?),
    };
    let refused = |error: anyhow::Error| match members.iter().find_map(Member::misfit) {
        Some(misfit) => error.context(misfit),
        None => error,
    };
    let answer = admin.ask(ask).await.map_err(refused)?;
    print(&format!("{show} changed, version {}", answer["version"]));
    Ok(())
}

impl Member {
    /// Why the settings have no place for it, beginning with its name.
    fn misfit(&self) -> Option<String> {
        let alone = serde_json::to_string(&BTreeMap::from([(&self.name, &self.value)])).ok()?;
        Some(format!("{}: {}", self.name, misfit(&alone)?))
    }
}

/// Why these are no settings, but for members that are missing: a change names only some.
fn misfit(text: &str) -> Option<String> {
    let says = serde_json::from_str::<Settings>(text).err()?.to_string();
    // What would do instead is in the answer.
    let what = says.split(", expected ").next().unwrap_or_default();
    (!what.starts_with("missing field")).then(|| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_that_does_not_fit_is_named() {
        for (typed, expected) in [
            ("speed=9", Some("speed: unknown field `speed`")),
            ("rate=fast", Some("rate: invalid type: string \"fast\"")),
            ("rate=9", None),
            ("capacity=null", None),
            ("name=Small", None),
        ] {
            let member: Member = typed.parse().unwrap();
            assert_eq!(member.misfit().as_deref(), expected, "{typed}");
        }
        let text = r#"{ "name": "Small", "speed": 9 }"#;
        assert_eq!(misfit(text).as_deref(), Some("unknown field `speed`"));
    }
}
