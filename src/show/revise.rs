//! What an operator may not change about a show that sells.

use std::collections::BTreeMap;

use crate::event::money::Currency;
use crate::show::settings::Settings;

/// The first rule that a change breaks, as a sentence that names the section and what it was. A section that was
/// taken out is `kept`, with its currency, for as long as somebody has a seat of it.
///
/// # Errors
/// The sentence.
pub fn check(
    before: &Settings,
    kept: &BTreeMap<String, Currency>,
    after: &Settings,
) -> Result<(), String> {
    if after.sections.is_empty() && !before.sections.is_empty() {
        // Nothing for sale would look like everything sold.
        let why = "sections must keep at least one: to end the sale, close the show or cancel it";
        return Err(why.to_owned());
    }
    for section in &after.sections {
        let name = &section.name;
        let was = before.sections.iter().find(|was| was.name == *name);
        let was = was.map(|was| &was.price.currency).or(kept.get(name));
        let Some(was) = was else { continue };
        if *was != section.price.currency {
            let code = was.code();
            return Err(format!(
                "section {name:?} must keep its currency, {code}: sell in another under another name"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(sections: &[(&str, &str)]) -> Settings {
        let section = |(name, currency): &(&str, &str)| {
            format!(
                r#"{{"name": "{name}", "seats": 10, "price": {{"amount": 1, "currency": "{currency}"}}}}"#
            )
        };
        let sections: Vec<String> = sections.iter().map(section).collect();
        let sections = sections.join(",");
        serde_json::from_str(&format!(
            r#"{{"name": "Show", "rate": 1, "sections": [{sections}]}}"#
        ))
        .unwrap()
    }

    #[test]
    fn what_was_sold_keeps_its_meaning() {
        let brl = [("A", "BRL"), ("B", "BRL")];
        let kept = BTreeMap::from([("K".to_owned(), "BRL".parse().unwrap())]);
        for (before, after, says) in [
            (&brl[..], &brl[..1], ""),
            (&brl, &[("C", "USD")], ""),
            (&brl, &[("A", "BRL"), ("C", "BRL")], ""),
            (&[], &brl, ""),
            (&[], &[], ""),
            (&brl, &[("K", "BRL")], ""),
            (
                &brl,
                &[("K", "USD")],
                "section \"K\" must keep its currency, BRL",
            ),
            (&brl, &[], "keep at least one"),
            (
                &brl,
                &[("B", "USD")],
                "section \"B\" must keep its currency, BRL",
            ),
        ] {
            let told = check(&settings(before), &kept, &settings(after));
            match told {
                Ok(()) => assert_eq!(says, "", "{after:?}"),
                Err(why) => assert!(!says.is_empty() && why.contains(says), "{after:?}: {why}"),
            }
        }
    }
}
