//! A route's path: literal segments, `{show}`, other `{parameters}`, and `{*rest}` at the end.

use std::str::FromStr;

use crate::gateway::target;

/// What a segment of a path has to be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Show,
    Any,
    Rest,
}

/// A path with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
}

/// A path that fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fit<'a> {
    /// The path again, put together from the pattern and what filled its holes.
    pub(crate) path: String,
    /// What stood in the place of `{show}`.
    pub(crate) show: Option<&'a str>,
}

impl Pattern {
    /// Whether it ends in `{*rest}`.
    pub(crate) fn catches_all(&self) -> bool {
        self.parts.contains(&Part::Rest)
    }

    /// Whether it takes every path there is.
    pub(crate) fn is_everything(&self) -> bool {
        self.parts == [Part::Rest]
    }

    /// Whether it has `{show}`.
    pub(crate) fn names_show(&self) -> bool {
        self.parts.contains(&Part::Show)
    }

    /// Whether these segments fit. `{*rest}` takes one or more, the empty one after a last slash
    /// included; any other hole takes one that is not empty.
    pub(crate) fn fit<'a>(&self, segments: &[&'a str]) -> Option<Fit<'a>> {
        let mut path = String::new();
        let mut show = None;
        let mut rest = segments;
        for part in &self.parts {
            let (&segment, after) = rest.split_first()?;
            match part {
                Part::Literal(text) if text == segment => {}
                Part::Show if !segment.is_empty() => show = Some(segment),
                Part::Any if !segment.is_empty() => {}
                Part::Rest => {
                    path.extend(rest.iter().flat_map(|segment| ["/", segment]));
                    return Some(Fit { path, show });
                }
                Part::Literal(_) | Part::Show | Part::Any => return None,
            }
            path.extend(["/", segment]);
            rest = after;
        }
        rest.is_empty().then_some(Fit { path, show })
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text
            .strip_prefix('/')
            .ok_or_else(|| "must begin with /".to_owned())?;
        let parts: Vec<Part> = rest.split('/').map(part).collect::<Result<_, _>>()?;
        if 1 < parts.iter().filter(|part| **part == Part::Show).count() {
            return Err("names {show} twice".to_owned());
        }
        if parts.iter().rev().skip(1).any(|part| *part == Part::Rest) {
            return Err("must end with its {*rest}".to_owned());
        }
        Ok(Self { parts })
    }
}

fn part(text: &str) -> Result<Part, String> {
    let named = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
    match named {
        Some("show") => Ok(Part::Show),
        Some("*rest") => Ok(Part::Rest),
        Some(name) if !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase()) => {
            Ok(Part::Any)
        }
        Some(_) => Err(format!("has the malformed parameter {text:?}")),
        None if target::segments(&format!("/{text}")).is_ok() => Ok(Part::Literal(text.to_owned())),
        None => Err(format!("has the malformed segment {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fit_is_the_path_again() {
        for (pattern, path, show) in [
            ("/", "/", Some(None)),
            ("/orders", "/orders", Some(None)),
            ("/shows/{show}/x/{id}", "/shows/gig/x/7", Some(Some("gig"))),
            ("/{*rest}", "/", Some(None)),
            ("/a/{*rest}", "/a/b/c/", Some(None)),
            ("/a/{*rest}", "/a", None),
            ("/a/{id}", "/a/", None),
            ("/orders", "/orders/", None),
            ("/orders", "/Orders", None),
        ] {
            let segments = target::segments(path).unwrap();
            let fit = pattern.parse::<Pattern>().unwrap().fit(&segments);
            assert_eq!(fit.as_ref().map(|fit| fit.show), show, "{pattern} {path}");
            assert!(fit.is_none_or(|fit| fit.path == path), "{pattern} {path}");
        }
    }
}
