//! The languages of the pages, and how one is chosen.

use std::collections::BTreeMap;

/// A language that every text exists in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Language {
    /// Brazilian Portuguese.
    PtBr,
    /// English.
    En,
    /// Spanish.
    Es,
}

impl Language {
    /// All of them, in the order in which they are offered.
    pub const ALL: [Self; 3] = [Self::PtBr, Self::En, Self::Es];

    /// The tag, as in `lang="pt-BR"` and `?lang=pt-BR`.
    pub const fn tag(self) -> &'static str {
        match self {
            Self::PtBr => "pt-BR",
            Self::En => "en",
            Self::Es => "es",
        }
    }

    /// The language of a tag such as `pt`, `pt-PT` or `es-419`, by its first part.
    pub fn from_tag(tag: &str) -> Option<Self> {
        let primary = tag.trim().split(['-', '_']).next().unwrap_or_default();
        Self::ALL.into_iter().find(|language| {
            let ours = language.tag().split('-').next().unwrap_or_default();
            ours.eq_ignore_ascii_case(primary)
        })
    }

    /// The one of our languages that an `Accept-Language` header likes best; English when none.
    pub fn from_accept_language(header: &str) -> Self {
        let mut best = (0, Self::En);
        for item in header.split(',').take(ACCEPTED_MAX) {
            let mut parts = item.split(';');
            let language = parts.next().and_then(Self::from_tag);
            let weight = parts
                .find_map(|part| part.trim().strip_prefix("q="))
                .map_or(1_000, weight_milli);
            if let Some(language) = language.filter(|_| best.0 < weight) {
                best = (weight, language);
            }
        }
        best.1
    }

    /// The language of a request: `?lang=` where it names one of ours, else `Accept-Language`.
    pub fn choose(lang: Option<&str>, accept_language: Option<&str>) -> Self {
        lang.and_then(Self::from_tag)
            .unwrap_or_else(|| Self::from_accept_language(accept_language.unwrap_or_default()))
    }

    /// The operator's message in this language, else in English, else in any.
    pub fn pick(self, message: &BTreeMap<String, String>) -> Option<&str> {
        message
            .get(self.tag())
            .or_else(|| message.get(Self::En.tag()))
            .or_else(|| message.values().next())
            .map(String::as_str)
    }
}

/// Entries of the header that are looked at: a browser sends a handful, an attacker thousands.
const ACCEPTED_MAX: usize = 32;

/// A weight in thousandths; what is no weight counts as none.
fn weight_milli(text: &str) -> u32 {
    match text.trim().split_once('.') {
        None => text
            .trim()
            .parse::<u32>()
            .map_or(0, |whole| whole.min(1) * 1_000),
        Some((whole, digits)) => {
            let thousandths = format!("{digits:0<3}");
            match (
                whole.parse::<u32>(),
                thousandths.get(..3).map(str::parse::<u32>),
            ) {
                (Ok(whole), Some(Ok(part))) => (whole.min(1) * 1_000 + part).min(1_000),
                _ => 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_decides_by_weight_then_by_order() {
        for (header, expected) in [
            ("", Language::En),
            ("pt-BR,pt;q=0.9,en;q=0.8", Language::PtBr),
            ("pt-PT", Language::PtBr),
            ("es-419, en;q=0.5", Language::Es),
            ("de, fr;q=0.9", Language::En),
            ("de, es;q=0.3, pt;q=0.4", Language::PtBr),
            ("en;q=0, es;q=0.001", Language::Es),
            ("es;q=0.5, pt;q=0.5", Language::Es),
            ("EN-us", Language::En),
            ("es;q=banana, pt;q=0.1", Language::PtBr),
            ("es;q=0.é9", Language::En),
            (";;;,,q=1", Language::En),
        ] {
            assert_eq!(Language::from_accept_language(header), expected, "{header}");
        }
    }

    #[test]
    fn the_query_wins_where_it_names_one_of_ours() {
        assert_eq!(Language::choose(Some("es"), Some("pt")), Language::Es);
        assert_eq!(Language::choose(Some("xx"), Some("pt")), Language::PtBr);
        assert_eq!(Language::choose(None, None), Language::En);
    }

    #[test]
    fn a_message_falls_back_rather_than_stay_silent() {
        let message = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = |&(tag, text): &(&str, &str)| (tag.to_owned(), text.to_owned());
            pairs.iter().map(owned).collect()
        };
        let both = message(&[("en", "Hi"), ("pt-BR", "Oi")]);
        assert_eq!(Language::PtBr.pick(&both), Some("Oi"));
        assert_eq!(Language::Es.pick(&both), Some("Hi"));
        assert_eq!(Language::Es.pick(&message(&[("pt-BR", "Oi")])), Some("Oi"));
        assert_eq!(Language::Es.pick(&message(&[])), None);
    }
}
