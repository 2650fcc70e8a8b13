//! What an operator may not change about a show that sells.

use crate::show::settings::Settings;

/// The first rule that a change breaks, as a sentence that names the section and what it was.
///
/// # Errors
/// The sentence.
pub fn check(before: &Settings, after: &Settings) -> Result<(), String> {
    if after.sections.is_empty() && !before.sections.is_empty() {
        // Nothing for sale would look like everything sold.
        let why = "sections must keep at least one: to end the sale, close the show or cancel it";
        return Err(why.to_owned());
    }
    for section in &after.sections {
        let was = before.sections.iter().find(|was| was.name == section.name);
        let Some(was) = was else { continue };
        if was.price.currency != section.price.currency {
            let (name, code) = (&section.name, was.price.currency.code());
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
        for (before, after, says) in [
            (&brl[..], &brl[..1], ""),
            (&brl, &[("C", "USD")], ""),
            (&brl, &[("A", "BRL"), ("C", "BRL")], ""),
            (&[], &brl, ""),
            (&[], &[], ""),
            (&brl, &[], "keep at least one"),
            (
                &brl,
                &[("B", "USD")],
                "section \"B\" must keep its currency, BRL",
            ),
        ] {
            let told = check(&settings(before), &settings(after));
            match told {
                Ok(()) => assert_eq!(says, "", "{after:?}"),
                Err(why) => assert!(!says.is_empty() && why.contains(says), "{after:?}: {why}"),
            }
        }
    }
}
