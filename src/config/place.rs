//! A value in a TOML document, by the keys that lead to it.

use toml::{Table, Value};

/// The value, if there is one.
pub(super) fn value_at<'a>(document: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = document.get(first)?;
    for key in rest {
        value = value.as_table()?.get(key)?;
    }
    Some(value)
}

/// Puts a value there, in place of what was there before.
pub(super) fn set(document: &mut Table, path: &[String], value: Value) {
    let Some((last, sections)) = path.split_last() else {
        return;
    };
    let mut table = document;
    for section in sections {
        let below = table
            .entry(section.clone())
            .or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(below) = below else { return };
        table = below;
    }
    table.insert(last.clone(), value);
}

/// Takes a value away.
pub(super) fn remove(document: &mut Table, path: &[String]) {
    let Some((last, sections)) = path.split_last() else {
        return;
    };
    let mut table = document;
    for section in sections {
        let Some(Value::Table(below)) = table.get_mut(section) else {
            return;
        };
        table = below;
    }
    table.remove(last);
}
