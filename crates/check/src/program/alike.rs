//! Words by which findings are told apart: the promise that is broken, messages and calls without what differs from run to run.

use std::fmt::Write as _;

use super::operations::{Change, Operations};
use super::points::Point;
use super::states::State;
use super::story::Story;

/// A promise that may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// A state that the program never had, whatever it has told.
    Atomicity,
    /// Something that it has told is gone.
    Durability,
}

impl Promise {
    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Atomicity => "atomicity",
            Self::Durability => "durability",
        }
    }
}

/// A message without its numbers, and without names that mkstemp(3) has drawn: what is alike.
pub fn bucket(message: &str) -> String {
    let mut out = String::new();
    for word in message.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let plain = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_number = plain.bytes().any(|byte| byte.is_ascii_digit());
        let is_hex = plain.len() >= 6 && plain.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_mixed = plain.bytes().skip(1).any(|byte| byte.is_ascii_uppercase())
            && plain.bytes().any(|byte| byte.is_ascii_lowercase());
        let is_drawn = plain.len() == 6 && is_mixed;
        if plain.is_empty() || !(is_number || is_hex || is_drawn) {
            out.push_str(word);
        } else {
            if !out.ends_with('#') {
                out.push('#');
            }
            out.push_str(&word[plain.len()..]);
        }
    }
    // Lists of numbers of any length are alike.
    let mut shorter = out.replace("#, ", "#");
    while shorter.contains("##") {
        shorter = shorter.replace("##", "#");
    }
    shorter
}

/// The earliest moment of a state, and what had begun then and is lost.
pub(super) fn lost_at(operations: &Operations, point: &Point, state: &State, acks: usize) -> (u64, Vec<u32>) {
    let all = &operations.all;
    let is_kept =
        |number: &u32| state.set.has(*number) || state.torn.is_some_and(|torn| torn.number == *number);
    // What began after all that was kept and told had not begun at the earliest moment of this state.
    let last_kept =
        point.free.iter().filter(|number| is_kept(number)).map(|number| all[*number as usize].begin_ns);
    let last_told = acks.checked_sub(1).map_or(0, |last| operations.acks[last].at_ns);
    let at_ns = last_kept.max().unwrap_or(0).max(last_told) + 1;
    let covered = point.covered.numbers().map(|number| all[number as usize].begin_ns + 1);
    let at_ns = covered.max().unwrap_or(0).max(at_ns);
    let mut lost = lost_of(point, state);
    lost.retain(|number| all[*number as usize].begin_ns < at_ns);
    (at_ns, lost)
}

/// The micro-operations that a state lost of those that could go either way.
pub(super) fn lost_of(point: &Point, state: &State) -> Vec<u32> {
    point.free.iter().copied().filter(|number| !state.set.has(*number)).collect()
}

/// A kind of call, its paths without numbers, and its stack, where that is known: calls that are alike.
pub fn site(story: &Story, operations: &Operations, number: u32) -> String {
    let micro = &operations.all[number as usize];
    let call = &story.calls[micro.call as usize];
    let part = match micro.change {
        Change::Cut { .. } if call.name == "open" => " (truncated)",
        _ => "",
    };
    let mut text = call.name.to_owned();
    for path in call.paths.iter().flatten() {
        let _ = write!(text, " {}", bucket(path));
    }
    text + part + &story.mark(&call.stack)
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn messages_that_differ_in_numbers_are_alike() {
        let one = bucket("durability: 2 records were stored, 1 are there");
        assert_eq!(one, bucket("durability: 4 records were stored, 0 are there"));
        assert_eq!(bucket("transfers [1, 2, 3]"), bucket("transfers [1]"));
        assert_eq!(bucket("objects/tmp_obj_DjNlYm"), bucket("objects/tmp_obj_a7Kf0Q"));
        assert_ne!(bucket("settings.json is empty"), bucket("index is empty"));
    }
}
