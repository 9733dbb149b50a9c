//! Shortens a failing program: leaves out operations, first halves, then quarters, then single ones; then lowers sizes. Each step
//! keeps a program that fails, perhaps with another message.

use crate::op::{Op, Pattern};

/// The cost of a fresh start, in operations.
const FRESH_GROUND: usize = 20;

/// State while a program shrinks.
struct Shrinking<'a> {
    program: Vec<Op>,
    what: String,
    fails: &'a dyn Fn(&[Op]) -> Option<String>,
    ops_left: usize,
}

/// The shortest program found that still fails, and how, when candidates of `ops` operations in all may be tried. `fails` runs a
/// program on a fresh file system and returns what is wrong; it must be deterministic.
pub fn shrink(
    program: &[Op],
    what: String,
    fails: &dyn Fn(&[Op]) -> Option<String>,
    ops: usize,
) -> (Vec<Op>, String) {
    let mut shrinking = Shrinking { program: program.to_vec(), what, fails, ops_left: ops };
    loop {
        let before = shrinking.program.clone();
        shrinking.leave_out();
        shrinking.lower();
        if shrinking.program == before || shrinking.ops_left == 0 {
            return (shrinking.program, shrinking.what);
        }
    }
}

impl Shrinking<'_> {
    /// Takes a program that fails.
    fn try_program(&mut self, program: Vec<Op>) -> bool {
        if self.ops_left == 0 {
            return false;
        }
        self.ops_left = self.ops_left.saturating_sub(program.len() + FRESH_GROUND);
        let Some(what) = (self.fails)(&program) else { return false };
        (self.program, self.what) = (program, what);
        true
    }

    /// Leaves out pieces of the program, large ones first, from its end, because late operations depend on earlier ones.
    fn leave_out(&mut self) {
        let mut piece = self.program.len().div_ceil(2);
        while piece > 0 {
            let mut end = self.program.len();
            while end > 0 && self.ops_left > 0 {
                let start = end.saturating_sub(piece);
                let mut shorter = self.program.clone();
                shorter.drain(start..end.min(shorter.len()));
                self.try_program(shorter);
                end = start;
            }
            piece /= 2;
        }
    }

    /// Lowers each size, as far as the program fails.
    fn lower(&mut self) {
        for at in 0..self.program.len() {
            while lowered(&self.program[at]).into_iter().any(|op| {
                let mut program = self.program.clone();
                program[at] = op;
                self.try_program(program)
            }) {}
        }
    }
}

/// The same operation with smaller sizes, the smallest first.
fn lowered(op: &Op) -> Vec<Op> {
    let sizes = |size: u64| {
        let mut sizes = vec![0, 1, 8, 64, size / 2, size.saturating_sub(1)];
        sizes.retain(|smaller| *smaller < size);
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    match op {
        Op::Write(file, offset, pattern) => {
            let shorter = sizes(pattern.len as u64)
                .into_iter()
                .map(|len| Op::Write(file.clone(), *offset, Pattern { len: len as usize, ..*pattern }));
            let nearer = offset.map_or(Vec::new(), sizes);
            let nearer = nearer.into_iter().map(|offset| Op::Write(file.clone(), Some(offset), *pattern));
            shorter.chain(nearer).collect()
        }
        Op::Read(file, offset, len) => {
            let shorter = sizes(*len as u64).into_iter();
            let shorter = shorter.map(|len| Op::Read(file.clone(), *offset, len as usize));
            let nearer = sizes(*offset).into_iter().map(|offset| Op::Read(file.clone(), offset, *len));
            shorter.chain(nearer).collect()
        }
        Op::Store(number, offset, pattern) => {
            let shorter = sizes(pattern.len as u64).into_iter();
            let shorter =
                shorter.map(|len| Op::Store(*number, *offset, Pattern { len: len as usize, ..*pattern }));
            let nearer = sizes(*offset).into_iter().map(|offset| Op::Store(*number, offset, *pattern));
            shorter.chain(nearer).collect()
        }
        Op::Load(number, offset, len) => {
            let shorter = sizes(*len as u64).into_iter();
            let shorter = shorter.map(|len| Op::Load(*number, *offset, len as usize));
            let nearer = sizes(*offset).into_iter().map(|offset| Op::Load(*number, offset, *len));
            shorter.chain(nearer).collect()
        }
        Op::Truncate(file, size) => {
            sizes(*size).into_iter().map(|size| Op::Truncate(file.clone(), size)).collect()
        }
        Op::Fallocate(file, mode, offset, len) => {
            let shorter = sizes(*len).into_iter();
            let shorter = shorter.map(|len| Op::Fallocate(file.clone(), *mode, *offset, len));
            let nearer = sizes(*offset).into_iter();
            let nearer = nearer.map(|offset| Op::Fallocate(file.clone(), *mode, offset, *len));
            shorter.chain(nearer).collect()
        }
        Op::Clone(from, to, len) => {
            sizes(*len).into_iter().map(|len| Op::Clone(from.clone(), to.clone(), len)).collect()
        }
        Op::SetXattr(path, name, value, mode) => {
            let shorter = sizes(value.len as u64).into_iter();
            let shorter = shorter.map(|len| Pattern { len: len as usize, ..*value });
            shorter.map(|value| Op::SetXattr(path.clone(), name.clone(), value, *mode)).collect()
        }
        Op::Symlink(path, len) if *len > 1 => vec![Op::Symlink(path.clone(), 1)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::File;

    #[test]
    fn only_what_is_needed_is_left_with_the_smallest_sizes() {
        let write = |len| Op::Write(File::At("foo".into()), Some(4096), Pattern { len, tag: 1 });
        let mut program: Vec<Op> = (0..300).map(|number| Op::Mkdir(format!("d{number}"))).collect();
        program.insert(77, Op::Create("foo".into()));
        program.insert(200, write(20_000));
        // Fails when a file was made and 100 bytes or more are written to it later.
        let fails = |ops: &[Op]| {
            let made = ops.iter().position(|op| *op == Op::Create("foo".into()))?;
            let long = |op: &Op| matches!(op, Op::Write(_, _, pattern) if pattern.len >= 100);
            ops[made..].iter().any(long).then(|| "too long".to_owned())
        };
        let (program, what) = shrink(&program, String::new(), &fails, 1_000_000);
        let smallest = Op::Write(File::At("foo".into()), Some(0), Pattern { len: 100, tag: 1 });
        assert_eq!((program, what.as_str()), (vec![Op::Create("foo".into()), smallest], "too long"));
    }

    #[test]
    fn a_program_that_fails_as_it_is_stays_when_nothing_may_be_tried() {
        let program = [Op::Create("foo".into()), Op::Sync];
        assert_eq!(shrink(&program, "why".into(), &|_| None, 0), (program.to_vec(), "why".to_owned()));
    }
}
