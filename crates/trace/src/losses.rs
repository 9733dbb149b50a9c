//! The account of what a trace lacks, which every recorder and importer fills and every consumer reads.
//!
//! A [`Loss`] says how many of what are missing, under the name of the call, and why. What a recorder has seen and left out on
//! purpose, because it is of no file below the roots, is no loss but a count (`C`). A recorder that does not know which of the two
//! a call is (its descriptor, path, root or mount namespace is unknown to it) has lost the call.
//!
//! | [`Missing`] | what a consumer does |
//! |---|---|
//! | `calls` | a replay would differ: it is refused unless the user takes it, and then says so first |
//! | `bytes` | a replay makes every call, and less is moved than the program moved: it says so first |
//!
//! Losses stand in a trace as `L` records, which add up; a recorder writes them each time it hands over what it has, so that they
//! survive its end. `dropped` of the end is the sum of the missing calls.

use std::collections::BTreeMap;

use crate::record::{Loss, Missing};

/// Names of calls in one sentence, at most.
const NAMED: usize = 6;

/// What is missing, and why; equal losses are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    counts: BTreeMap<Loss, u64>,
}

impl Losses {
    /// Adds a loss.
    pub fn add(&mut self, loss: &Loss) {
        *self.counts.entry(Loss { count: 0, ..loss.clone() }).or_default() += loss.count;
    }

    /// Each loss once.
    pub fn iter(&self) -> impl Iterator<Item = Loss> + '_ {
        self.counts.iter().map(|(loss, count)| Loss { count: *count, ..loss.clone() })
    }

    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Calls that are missing.
    pub fn calls(&self) -> u64 {
        let calls = self.counts.iter().filter(|(loss, _)| loss.kind == Missing::Calls);
        calls.fold(0, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Lines for people, the largest loss first: `48 io_uring_enter: why`.
    pub fn lines(&self) -> Vec<String> {
        let mut all: Vec<Loss> = self.iter().collect();
        all.sort_by(|one, other| {
            (one.kind, other.count, &one.name).cmp(&(other.kind, one.count, &other.name))
        });
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let line = |loss: Loss| {
            let program =
                if loss.program.is_empty() { String::new() } else { format!(" of {}", text(&loss.program)) };
            format!("{} {}{program}: {}", loss.count, text(&loss.name), text(&loss.reason))
        };
        all.into_iter().map(line).collect()
    }

    /// The missing calls by name, `48 io_uring_enter, 2 write`; none if no call is missing.
    pub fn names(&self) -> Option<String> {
        self.names_of(Missing::Calls)
    }

    /// What moves bytes without a call, by name; none if there is nothing of the kind.
    pub fn silent_names(&self) -> Option<String> {
        self.names_of(Missing::Bytes)
    }

    fn names_of(&self, kind: Missing) -> Option<String> {
        let mut sums: BTreeMap<&[u8], u64> = BTreeMap::new();
        for (loss, count) in self.counts.iter().filter(|(loss, _)| loss.kind == kind) {
            *sums.entry(&loss.name).or_default() += count;
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        let more = sums.len().saturating_sub(NAMED);
        let mut named: Vec<String> = sums
            .iter()
            .take(NAMED)
            .map(|(name, count)| format!("{count} {}", String::from_utf8_lossy(name)))
            .collect();
        if more > 0 {
            named.push(format!("and {more} others"));
        }
        (!named.is_empty()).then(|| named.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_losses_add_up_and_only_calls_are_counted_as_calls() {
        let mut losses = Losses::default();
        for count in [2, 3] {
            losses.add(&Loss::calls(count, "write", "why"));
        }
        losses.add(&Loss::calls(1, "close", "why not"));
        losses.add(&Loss::bytes(7, "mmap", "no call"));
        assert_eq!((losses.calls(), losses.names().as_deref()), (6, Some("5 write, 1 close")));
        assert_eq!(losses.silent_names().as_deref(), Some("7 mmap"));
        assert_eq!(losses.lines(), ["5 write: why", "1 close: why not", "7 mmap: no call"]);
    }
}
