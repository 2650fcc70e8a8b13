//! Brings the payload of an older schema up to the one that this build reads.
//!
//! A payload says its schema in `schemaVersion`; one that does not is of the first. Most changes need no new
//! schema: readers skip members that they do not know, and a member that may be absent is read as such. What
//! an old reader cannot skip (a member renamed, split or of another unit) raises the schema of that type and
//! adds one step here. Steps are never changed: the corpus in `tests/golden/event/` must read for ever.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use crate::event::codec::CodecError;

/// The members of a payload, as they were written: numbers keep all of their digits.
pub type Members = BTreeMap<String, Box<RawValue>>;

/// One step: payloads of this type and schema become those of the next schema.
#[derive(Debug, Clone, Copy)]
pub struct Upcaster {
    /// The event's `type`.
    pub kind: &'static str,
    /// The schema that it reads; what it makes is one more.
    pub from: u32,
    /// What it does. Pure: the same payload becomes the same for ever.
    pub step: fn(Members) -> Result<Members, CodecError>,
}

/// Every step there is, one for each type and schema that is no longer written.
pub const UPCASTERS: &[Upcaster] = &[];

/// The schema of a type: one more than there are steps to it.
pub fn current(upcasters: &[Upcaster], kind: &str) -> u32 {
    let steps = upcasters.iter().filter(|upcaster| upcaster.kind == kind);
    steps
        .map(|upcaster| upcaster.from + 1)
        .max()
        .unwrap_or(FIRST)
}

/// The schema of payloads that do not say theirs.
pub const FIRST: u32 = 1;

/// The payload in the schema that is current, `None` where it is already.
///
/// # Errors
/// [`CodecError::Future`] where it is of a schema that this build does not know; whatever a step says.
pub fn upcast(
    upcasters: &[Upcaster],
    (kind, schema): (&str, u32),
    payload: &str,
) -> Result<Option<String>, CodecError> {
    let current = current(upcasters, kind);
    if schema == current {
        return Ok(None);
    }
    if schema < FIRST || current < schema {
        return Err(CodecError::Future {
            kind: kind.to_owned(),
            schema,
            known: current,
        });
    }
    let mut members: Members = serde_json::from_str(payload)?;
    for from in schema..current {
        let step = upcasters
            .iter()
            .find(|upcaster| upcaster.kind == kind && upcaster.from == from);
        let step = step.expect("a test holds that no schema of a type is left out");
        members = (step.step)(members)?;
    }
    Ok(Some(serde_json::to_string(&members)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rename(mut members: Members, old: &str, new: &str) -> Members {
        if let Some(value) = members.remove(old) {
            members.insert(new.to_owned(), value);
        }
        members
    }

    const TWO_STEPS: &[Upcaster] = &[
        Upcaster {
            kind: "SeatPainted",
            from: 2,
            step: |members| Ok(rename(members, "color", "colour")),
        },
        Upcaster {
            kind: "SeatPainted",
            from: 1,
            step: |members| Ok(rename(members, "paint", "color")),
        },
    ];

    #[test]
    fn every_older_schema_becomes_the_current_one() {
        let check = |kind, schema, payload: &str, expected: Option<&str>| {
            let upcast = upcast(TWO_STEPS, (kind, schema), payload).unwrap();
            assert_eq!(upcast.as_deref(), expected, "{kind} {schema}");
        };
        let third = r#"{"colour":"red","total":{"amount":780.00}}"#;
        let first = third.replace("colour", "paint");
        check("SeatPainted", 1, &first, Some(third));
        let second = third.replace("colour", "color");
        check("SeatPainted", 2, &second, Some(third));
        check("SeatPainted", 3, third, None);
        check("SeatSold", 1, "{}", None);
    }

    #[test]
    fn a_schema_that_is_not_known_is_refused_and_named() {
        for schema in [0, 4] {
            let refused = upcast(TWO_STEPS, ("SeatPainted", schema), "{}").unwrap_err();
            let says =
                format!("SeatPainted of schema {schema} is not known; this build reads 1 to 3");
            assert_eq!(refused.to_string(), says);
        }
        assert!(upcast(TWO_STEPS, ("SeatPainted", 1), "[]").is_err());
    }

    /// Otherwise a payload of the schema in between could not be read.
    #[test]
    fn no_schema_of_a_type_is_left_out() {
        for upcasters in [UPCASTERS, TWO_STEPS] {
            for upcaster in upcasters {
                let steps = |from| {
                    let same =
                        |other: &&Upcaster| other.kind == upcaster.kind && other.from == from;
                    upcasters.iter().filter(same).count()
                };
                for from in FIRST..current(upcasters, upcaster.kind) {
                    assert_eq!(steps(from), 1, "{} from {from}", upcaster.kind);
                }
            }
        }
    }
}
