//! Which results agree with the recorded ones, and what is kept of those that do not.

use std::collections::BTreeMap;

use trace::call::Op;
use trace::compile::Step;
use trace::words::error_name;
use vfs::Errno;

/// Differences that are told one by one.
const TOLD: usize = 8;

/// Recorded errors that say nothing of the file system: why such a call is not made.
pub(super) fn excused(step: &Step) -> Option<&'static str> {
    const EPERM: i64 = -1;
    const EACCES: i64 = -13;
    /// EINTR, EIO, EAGAIN, ENOMEM, EFAULT, EBUSY, EXDEV, ENODEV, ENFILE, EMFILE, ENOTTY, ETXTBSY, ENOSPC, EROFS, ENOSYS,
    /// EOPNOTSUPP, EDQUOT.
    const HOST: [i64; 17] =
        [-4, -5, -11, -12, -14, -16, -18, -19, -23, -24, -25, -26, -28, -30, -38, -95, -122];
    if matches!(step.call.op, Op::Flock | Op::Lock) {
        return None;
    }
    match step.result {
        EPERM | EACCES => Some("had failed for the rights of their user"),
        errno if HOST.contains(&errno) => Some("had failed for what the recording host could not do"),
        _ => None,
    }
}

/// Whether a result is as good as the recorded one: the same error; or success, with the same count where the count is the file
/// system's.
pub(super) fn agrees(op: Op, recorded: i64, got: i64) -> bool {
    match (recorded < 0, got < 0) {
        (true, true) => recorded == got,
        (false, false) => recorded == got || !counts(op),
        _ => false,
    }
}

/// Whether the result is a count, and not only success.
fn counts(op: Op) -> bool {
    matches!(
        op,
        Op::Read
            | Op::Pread
            | Op::Write
            | Op::Pwrite
            | Op::Lseek
            | Op::Readlink
            | Op::Copy
            | Op::SendFile
            | Op::ReceiveFile
            | Op::Getdents
    )
}

/// Results that differed.
#[derive(Debug, Default)]
pub(super) struct Differences {
    pub(super) count: u64,
    /// Those of the lowest lines, with what is told of each.
    first: Vec<(u64, String)>,
    /// By call and the answer that was got.
    kinds: BTreeMap<(&'static str, String), u64>,
}

impl Differences {
    pub(super) fn add(&mut self, step: &Step, got: i64, tell: impl FnOnce() -> String) {
        self.count += 1;
        let answer = if got < 0 { error_name(got.unsigned_abs() as u32) } else { "another count".to_owned() };
        let answer = if got >= 0 && step.result < 0 { "success".to_owned() } else { answer };
        *self.kinds.entry((step.call.op.name(), answer)).or_default() += 1;
        let place = self.first.partition_point(|(line, _)| *line <= step.line);
        if place < TOLD {
            self.first.insert(place, (step.line, tell()));
            self.first.truncate(TOLD);
        }
    }

    /// What a reader must know of them.
    pub(super) fn notes(&self, calls: u64) -> Vec<String> {
        if self.count == 0 {
            return Vec::new();
        }
        let mut kinds: Vec<_> = self.kinds.iter().collect();
        kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), (*kind).clone()));
        let kinds: Vec<String> =
            kinds.iter().take(TOLD).map(|((op, answer), count)| format!("{op} {answer} {count}")).collect();
        let mut notes = vec![format!(
            "{} of {calls} results differ from the recorded ones: {}",
            self.count,
            kinds.join(", ")
        )];
        notes.extend(self.first.iter().map(|(_, told)| told.clone()));
        notes
    }
}

/// A result in words: a number, or the name of an error.
pub(super) fn words(result: i64) -> String {
    match result {
        0.. => result.to_string(),
        _ => error_name(result.unsigned_abs() as u32),
    }
}

/// A result as a trace has it.
pub(super) fn number<T: TryInto<i64>>(result: Result<T, Errno>) -> i64 {
    match result {
        Ok(value) => value.try_into().unwrap_or(i64::MAX),
        Err(errno) => -i64::from(errno.number()),
    }
}
