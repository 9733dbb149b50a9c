//! What happens when something is wrong: `errors=remount-ro`.
//!
//! | what | is answered | then |
//! |---|---|---|
//! | the image contradicts itself | EUCLEAN | the file system stops |
//! | a block of metadata cannot be read | EIO | the same while a change is under way |
//! | the journal cannot be written, or a block not home | EIO | the same |
//! | file data cannot be read | EIO | nothing |
//! | file data cannot be written back | EIO by the next sync of the file | the pages stay dirty |
//!
//! A listener ([`FileSystem::listen`]) is told of each error once; the data that cannot be written back too.
//!
//! A change that is under way may have been made in part. A file system that has stopped refuses every change (EROFS), writes
//! nothing more, and shows what it can read. Its superblock
//! counts the error and says what and when, as far as the device still takes it; e2fsck, `weir fsck` and the next mount tell. What
//! the journal has committed counts; the transaction that was under way does not.

#[cfg(doc)]
use ::vfs::FileSystem;
use ::vfs::Timestamp;
use media::block::{Hint, Piece};
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromBytes, IntoBytes};

use super::Volume;
use super::layout::{STATE_ERRORS, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, Superblock, le32};
use super::superblock::read_bytes;
use base::error::{Error, Result};

/// Where the log of errors has the time and the text of the first and of the last one, in bytes.
const FIRST: (usize, usize) = (0, 16);
const LAST: (usize, usize) = (52, 72);
/// A damaged image may give no end of errors.
const MOST_TOLD: usize = 100;
/// Length of a text.
const TEXT_BYTES: usize = 32;

impl Superblock {
    /// Takes over what another copy says about errors.
    pub(crate) fn keep_errors(&mut self, other: &Self) {
        self.state = (self.state.get() | other.state.get() & STATE_ERRORS).into();
        (self.error_count, self.error_log) = (other.error_count, other.error_log);
    }

    /// Notes an error.
    fn note_error(&mut self, what: &str) {
        self.state = (self.state.get() | STATE_ERRORS).into();
        let count = self.error_count.get();
        self.error_count = count.saturating_add(1).into();
        let now = Timestamp::now().secs as u32;
        let mut text = [0; TEXT_BYTES];
        let len = what.len().min(TEXT_BYTES - 1);
        text[..len].copy_from_slice(&what.as_bytes()[..len]);
        let log = self.error_log.as_mut_bytes();
        for (time, place) in [FIRST, LAST].into_iter().skip(usize::from(count > 0)) {
            log[time..time + 4].copy_from_slice(&now.to_le_bytes());
            log[place..place + TEXT_BYTES].copy_from_slice(&text);
        }
    }

    /// Says that an earlier mount met errors.
    pub(crate) fn error_note(&self) -> Option<String> {
        if self.state.get() & STATE_ERRORS == 0 {
            return None;
        }
        let (log, (time, place)) = (self.error_log.as_bytes(), LAST);
        let text = log[place..place + TEXT_BYTES].split(|byte| *byte == 0).next().unwrap_or_default();
        Some(format!(
            "{} errors were met by earlier mounts, the last at {} s since 1970: \"{}\"; unmount and run e2fsck",
            self.error_count.get(),
            le32(log, time),
            String::from_utf8_lossy(text)
        ))
    }
}

impl Volume {
    /// Refuses a change when the file system has stopped or is mounted for reading.
    pub(crate) fn check_running(&self) -> Result<()> {
        if self.stopped.load(Relaxed) || self.settings.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }

    /// Stops all changes: something is wrong with the image or the device.
    #[cold]
    pub(crate) fn stop(&self, what: &str) {
        if self.settings.read_only || self.settings.repairs {
            return;
        }
        self.tell(&format!(
            "{what}; from now on every change fails (EROFS): unmount and run `weir fsck --repair`"
        ));
        if self.stopped.swap(true, Relaxed) {
            return;
        }
        // A mount that is refused leaves the image as it is.
        if !self.mounted.load(Relaxed) {
            return;
        }
        // The superblock in memory has changes that did not commit, and its page may be locked: only what is on the device is
        // changed. A device that takes nothing keeps the superblock as it was.
        let _ = self.note_error_on_device(what);
    }

    /// Tells the listener, of each thing once.
    #[cold]
    pub(crate) fn tell(&self, what: &str) {
        let Some(listener) = self.listener.get() else { return };
        let mut told = self.told.lock();
        let is_new = told.len() < MOST_TOLD && told.insert(what.to_owned());
        drop(told);
        if is_new {
            listener(what);
        }
    }

    fn note_error_on_device(&self, what: &str) -> Result<()> {
        let bytes = read_bytes(&*self.device, SUPERBLOCK_OFFSET, SUPERBLOCK_BYTES)?;
        let Ok(mut superblock) = Superblock::read_from_bytes(&bytes) else { return Ok(()) };
        superblock.note_error(what);
        superblock.seal();
        let unit = u64::from(self.device.geometry().block_bytes);
        let start = SUPERBLOCK_OFFSET / unit * unit;
        let len = (SUPERBLOCK_OFFSET + SUPERBLOCK_BYTES as u64 - start).next_multiple_of(unit);
        let mut around = read_bytes(&*self.device, start, len as usize)?;
        around[(SUPERBLOCK_OFFSET - start) as usize..][..SUPERBLOCK_BYTES]
            .copy_from_slice(superblock.as_bytes());
        Ok(self.cache.queue().write(&[Piece { off: start, data: &around, hint: Hint::None }], true)?)
    }
}
