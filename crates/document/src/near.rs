//! Suggestions for names that do not exist.

use std::collections::BTreeSet;
use std::path::Path;

/// More names than this are not offered as equally near.
const MOST_OFFERED: usize = 3;

/// `did you mean "x"?`, or the list of names when none is near.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = known.into_iter().collect();
    let mut told = BTreeSet::new();
    known.retain(|name| told.insert(*name));
    match did_you_mean(name, known.iter().copied()) {
        Some(question) => question,
        None if known.is_empty() => "there are none".to_owned(),
        None => format!("there are: {}", known.join(", ")),
    }
}

/// The same where a name may be that of a file, too, which ends in `.toml`.
pub fn nearest_or_toml<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match Path::new(name).is_file() {
        true => "the name of a file must end in .toml".to_owned(),
        false => nearest(name, known),
    }
}

/// `did you mean "x"?` with the names nearest to `name`, if any is near; names that are equally near are all offered.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let near = among(name, known);
    // The names of a family are listed whole: `cxl` stands for each of them.
    let is_family = near.iter().all(|other| other.starts_with(name) && other[name.len()..].starts_with('.'));
    let most = if is_family { near.len() } else { MOST_OFFERED };
    let quoted: Vec<String> = near.iter().take(most).map(|near| format!("\"{near}\"")).collect();
    (!quoted.is_empty()).then(|| format!("did you mean {}?", quoted.join(" or ")))
}

/// The name that `name` is likely to be meant as, in whichever case; the first by the alphabet of those that are equally near.
pub fn nearest_of<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    among(name, known).first().copied()
}

/// The names at the smallest distance from `name`, sorted; none if that is more than one letter and a third of `name`.
fn among<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> =
        known.into_iter().map(|other| (distance(name, other), other)).collect();
    near.sort_unstable();
    near.dedup();
    let limit = 1 + name.chars().count() / 3;
    let least = near.first().map_or(0, |(distance, _)| *distance);
    near.retain(|(distance, _)| *distance == least && *distance <= limit);
    near.into_iter().map(|(_, other)| other).collect()
}

/// Letters to insert, delete, change or exchange, whatever their case; a name of which the other is the beginning is near, and one
/// whose last part (`linux/xfs`) is the other is nearest.
fn distance(name: &str, known: &str) -> usize {
    let (name, known) = (name.to_lowercase(), known.to_lowercase());
    let typed = strsim::damerau_levenshtein(&name, &known);
    let cut = match () {
        () if known.rsplit_once('/').is_some_and(|(_, last)| last == name) => 0,
        () if name.len() >= 3 && known.starts_with(&name) => 1,
        () if known.len() >= 3 && name.starts_with(&known) => 2,
        () => usize::MAX,
    };
    typed.min(cut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_near_name_is_offered_and_a_far_one_lists_all() {
        assert_eq!(nearest("thread", ["fs", "threads"]), "did you mean \"threads\"?");
        assert_eq!(nearest("colour", ["fs", "threads"]), "there are: fs, threads");
        assert_eq!(nearest("colour", ["fs", "threads", "fs"]), "there are: fs, threads");
        assert_eq!(nearest("colour", []), "there are none");
        assert_eq!(nearest("xfs", ["hinfs", "linux/xfs", "fs"]), "did you mean \"linux/xfs\"?");
    }

    #[test]
    fn names_that_are_equally_near_are_all_offered() {
        assert_eq!(did_you_mean("bat", ["cat", "hat", "house"]).unwrap(), "did you mean \"cat\" or \"hat\"?");
        assert_eq!(nearest_of("bat", ["hat", "cat"]), Some("cat"));
    }

    #[test]
    fn case_exchanged_letters_and_a_missing_end_are_forgiven() {
        assert_eq!(nearest_of("PMSF", ["nova", "pmfs", "pmep"]), Some("pmfs"));
        assert_eq!(nearest_of("readfile", ["read", "statfile", "deletefile"]), Some("read"));
        assert_eq!(nearest_of("opt", ["nova.pcm", "optane.100"]), Some("optane.100"));
        assert_eq!(nearest_of("xyzzy", ["one", "two"]), None);
    }
}
