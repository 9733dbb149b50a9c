//! Advisory locks of a process.

use std::ops::Range;

use super::{OpenFile, Process};
use crate::errno::{Errno, Result};
use crate::flags::OpenFlags;
use crate::locks::{Holder, LockAction, LockKind, LockOwner, number};

impl Process {
    pub(super) fn lock_file(&self, file: &OpenFile, action: LockAction) -> Result<()> {
        let holder = Holder::Whole(number(&file.lock_number));
        self.mount.locks.act(file.vnode.ino, holder, action, 0..u64::MAX)
    }

    /// `EBADF` for a shared lock of a file that is not open for reading, or an exclusive one of a file not open for writing.
    pub(super) fn lock_range(
        &self,
        file: &OpenFile,
        action: LockAction,
        owner: LockOwner,
        range: Range<u64>,
    ) -> Result<()> {
        let need = match action {
            LockAction::Wait(kind) | LockAction::Try(kind) => match kind {
                LockKind::Shared => OpenFlags::READ,
                LockKind::Exclusive => OpenFlags::WRITE,
            },
            LockAction::Test(_) | LockAction::Release => OpenFlags::empty(),
        };
        if !file.flags.contains(need) {
            return Err(Errno::EBADF);
        }
        let holder = match owner {
            LockOwner::Process => Holder::Process(number(&self.lock_number)),
            LockOwner::File => Holder::File(number(&file.lock_number)),
        };
        self.mount.locks.act(file.vnode.ino, holder, action, range)
    }
}
