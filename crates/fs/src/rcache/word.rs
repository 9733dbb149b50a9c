//! The state of an entry in one word. Each function answers what the word becomes, or nothing where it may not change so; the
//! numbers are those of the table in `mod.rs`.

/// A state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Word(pub(crate) u64);

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Invalid,
    InUse,
    Prep,
    Copy,
    Ready,
}

const DOOMED: u64 = 1 << 3;
const READER: u64 = 1 << 4;
const READERS_MAX: u64 = (1 << 12) - 1;
const VERSION: u64 = 1 << 16;

impl Word {
    /// Of a new entry.
    pub(crate) const NEW: Self = Self(0);

    pub(crate) fn state(self) -> State {
        match self.0 & 7 {
            0 => State::Invalid,
            1 => State::InUse,
            2 => State::Prep,
            3 => State::Copy,
            _ => State::Ready,
        }
    }

    pub(crate) fn readers(self) -> u64 {
        self.0 / READER & READERS_MAX
    }

    pub(crate) fn is_doomed(self) -> bool {
        self.0 & DOOMED != 0
    }

    pub(crate) fn version(self) -> u64 {
        self.0 / VERSION
    }

    /// State `state` of the same version, without readers.
    fn plain(self, state: u64) -> Self {
        Self(self.version() * VERSION | state)
    }

    fn given_up(self) -> Self {
        Self((self.version() + 1).wrapping_mul(VERSION))
    }

    fn is_owned(self) -> bool {
        self.state() == State::InUse && self.readers() == 0
    }

    /// 1.
    pub(crate) fn claimed(self) -> Option<Self> {
        (self.state() == State::Invalid).then(|| self.plain(1))
    }

    /// 2.
    pub(crate) fn published(self) -> Option<Self> {
        self.is_owned().then(|| self.plain(2))
    }

    /// 3.
    pub(crate) fn retracted(self) -> Option<Self> {
        self.is_owned().then(|| self.given_up())
    }

    /// 4.
    pub(crate) fn copying(self) -> Option<Self> {
        (self.state() == State::Prep).then(|| self.plain(3))
    }

    /// 5.
    pub(crate) fn ready(self) -> Option<Self> {
        (self.state() == State::Copy && !self.is_doomed()).then(|| self.plain(4))
    }

    /// 6.
    pub(crate) fn not_copied(self) -> Option<Self> {
        (self.state() == State::Copy).then(|| self.given_up())
    }

    /// 7, 8.
    pub(crate) fn pinned(self) -> Option<Self> {
        match self.state() {
            State::Ready => Some(Self(self.plain(1).0 + READER)),
            State::InUse if self.readers() > 0 && self.readers() < READERS_MAX && !self.is_doomed() => {
                Some(Self(self.0 + READER))
            }
            _ => None,
        }
    }

    /// 9, 10, 11.
    pub(crate) fn unpinned(self) -> Option<Self> {
        match self.readers() {
            _ if self.state() != State::InUse => None,
            0 => None,
            1 if self.is_doomed() => Some(self.given_up()),
            1 => Some(self.plain(4)),
            _ => Some(Self(self.0 - READER)),
        }
    }

    /// 12, 13, 14, 15. Nothing for an entry that is invalid, doomed already, or owned.
    pub(crate) fn doomed(self) -> Option<Self> {
        match self.state() {
            State::Prep | State::Ready => Some(self.given_up()),
            State::Copy | State::InUse if !self.is_doomed() && !self.is_owned() => {
                Some(Self(self.0 | DOOMED))
            }
            _ => None,
        }
    }

    /// 16.
    pub(crate) fn stolen(self) -> Option<Self> {
        (self.state() == State::Ready).then(|| Self(self.given_up().0 | 1))
    }
}

#[cfg(test)]
#[path = "word_tests.rs"]
mod tests;
