//! A failing mutant with the fewest edits: first words are left as they were, then halves of those that are needed.

use super::mutate::{Edit, Mutant};

/// Mutants that may be tried.
const TRIES: usize = 2_000;

/// The smallest mutant found that fails, and how. `fails` must answer the same each time.
pub(super) fn shrink(
    (mutant, image): (Mutant, &[u8]),
    what: String,
    fails: &dyn Fn(&Mutant) -> Option<String>,
) -> (Mutant, String) {
    let mut shrinking = Shrinking { mutant, what, fails, left: TRIES };
    let uncut = Mutant { len: None, ..shrinking.mutant.clone() };
    if shrinking.mutant.len.is_some() {
        shrinking.takes(uncut);
    }
    let words = shrinking.mutant.by_words(image);
    shrinking.takes(words);
    shrinking.leave_out();
    shrinking.halve();
    (shrinking.mutant, shrinking.what)
}

struct Shrinking<'a> {
    mutant: Mutant,
    what: String,
    fails: &'a dyn Fn(&Mutant) -> Option<String>,
    left: usize,
}

impl Shrinking<'_> {
    /// Goes on from a mutant that fails.
    fn takes(&mut self, mutant: Mutant) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let Some(what) = (self.fails)(&mutant) else { return false };
        (self.mutant, self.what) = (mutant, what);
        true
    }

    fn leave_out(&mut self) {
        let mut piece = self.mutant.edits.len().div_ceil(2);
        while piece > 0 {
            let mut end = self.mutant.edits.len();
            while end > 0 {
                let start = end.saturating_sub(piece);
                let mut fewer = self.mutant.clone();
                fewer.edits.drain(start..end.min(fewer.edits.len()));
                self.takes(fewer);
                end = start;
            }
            piece /= 2;
        }
    }

    /// Keeps one half of an edit, as long as that fails.
    fn halve(&mut self) {
        for at in 0..self.mutant.edits.len() {
            while self.mutant.edits[at].bytes.len() > 1 {
                let Edit { offset, bytes } = self.mutant.edits[at].clone();
                let (low, high) = bytes.split_at(bytes.len() / 2);
                let halves = [
                    Edit { offset, bytes: low.to_vec() },
                    Edit { offset: offset + low.len() as u64, bytes: high.to_vec() },
                ];
                let taken = halves.into_iter().any(|half| {
                    let mut mutant = self.mutant.clone();
                    mutant.edits[at] = half;
                    self.takes(mutant)
                });
                if !taken {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_byte_that_matters_is_left() {
        let edit = |offset: u64, len: usize| Edit { offset, bytes: vec![7; len] };
        let mutant =
            Mutant { base: 0, len: Some(500), edits: vec![edit(0, 64), edit(100, 64), edit(300, 8)] };
        let fails = |mutant: &Mutant| (mutant.apply(&[0; 400])[130] == 7).then(|| "seven".to_owned());
        let (small, what) = shrink((mutant, &[0; 400]), "seven!".to_owned(), &fails);
        assert_eq!((small.to_string().as_str(), what.as_str()), ("0 130:07", "seven"));
    }
}
