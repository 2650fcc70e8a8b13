//! Did you mean…? The known word nearest to a mistyped one.

/// The known word that a mistyped one is closest to, if any is close.
pub fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    known
        .map(|candidate| (distance(key, candidate), candidate.as_str()))
        .filter(|(distance, candidate)| 2 * distance <= candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's edit distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_close_words_are_suggested() {
        let known = ["listen".to_owned(), "limits".to_owned()];
        assert_eq!(nearest("lisen", known.iter()), Some("listen"));
        assert_eq!(nearest("colour", known.iter()), None);
        assert_eq!((distance("", "abc"), distance("kitten", "sitting")), (3, 3));
    }
}
