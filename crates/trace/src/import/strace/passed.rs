//! Descriptors that go from process to process over a socket (`SCM_RIGHTS`, unix(7)).
//!
//! What is sent stays open under a number of the trace (`P`) and comes to the receiver with its position (`R`). Messages say which
//! descriptor, and with `-y` what it leads to: the oldest one on its way that leads there is the one that arrives. A `sendmsg` that
//! has not returned yet when its message arrives has sent it all the same.

use std::io::{self, Write};

use super::args::{self, FdRef};
use super::store::class_of;
use super::{Class, Importer, OUTSIDE, Slot};
use crate::record::{Received, Record, Sent};

/// A descriptor on its way.
#[derive(Debug)]
pub(super) struct Flying {
    /// None where the trace does not have it.
    number: Option<u32>,
    slot: Slot,
}

/// Whether a call sends messages that may have descriptors.
pub(super) fn sends(name: &[u8]) -> bool {
    matches!(name, b"sendmsg" | b"sendmmsg")
}

/// The descriptors in the messages of a call.
fn rights(text: &[u8]) -> Vec<FdRef> {
    const MARK: &[u8] = b"cmsg_type=SCM_RIGHTS, cmsg_data=";
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(MARK.len()).position(|part| part == MARK) {
        rest = &rest[at + MARK.len()..];
        let end = args::end_of_bracket(rest);
        let inner = rest.get(1..end).unwrap_or_default();
        found.extend(args::split(inner).into_iter().filter_map(args::fd));
    }
    found
}

impl<W: Write> Importer<W> {
    /// A call has sent messages, or has begun to.
    pub(super) fn sent(&mut self, tid: u32, text: &[u8]) -> io::Result<()> {
        let (table, thread) = (self.runner(tid).table, self.runner(tid).number);
        for fd in rights(text) {
            let kept = self.is_stored(tid, &fd)?;
            let known = fd.number.and_then(|fd| self.tables[table].get(&fd).cloned());
            let slot = known.unwrap_or(Slot {
                stored: false,
                path: fd.beside.clone(),
                class: kept.err().unwrap_or(OUTSIDE),
                cloexec: false,
            });
            let mut number = None;
            if let (Ok(()), Some(fd)) = (kept, fd.number) {
                self.next_sent += 1;
                number = Some(self.next_sent);
                self.out.record(&Record::Sent(Sent { thread, fd, number: self.next_sent }))?;
            }
            self.flying.push(Flying { number, slot });
        }
        Ok(())
    }

    /// A call has received messages.
    pub(super) fn received(&mut self, tid: u32, text: &[u8], at_ns: u64) -> io::Result<()> {
        let thread = self.runner(tid).number;
        let cloexec = args::has(args::split(text).last().copied().unwrap_or_default(), "MSG_CMSG_CLOEXEC");
        for fd in rights(text) {
            let Some(number) = fd.number else { continue };
            if self.arriving(&fd).is_none() {
                self.send_what_has_begun(tid)?;
            }
            let slot = match self.arriving(&fd).map(|at| self.flying.remove(at)) {
                Some(Flying { number: Some(sent), slot }) => {
                    let received = Received { thread, number: sent, fd: number, cloexec };
                    self.out.record(&Record::Received(received))?;
                    let table = self.runner(tid).table;
                    self.tables[table].insert(number, Slot { cloexec, ..slot });
                    continue;
                }
                Some(Flying { slot, .. }) => slot,
                // From a process that is not recorded: its first use tells what is lost.
                None => match fd.beside.as_deref().map(class_of) {
                    Some(None) => continue,
                    Some(Some(class)) => {
                        Slot { stored: false, path: fd.beside, class: Class::Counted(class), cloexec }
                    }
                    None => {
                        Slot { stored: false, path: None, class: Class::Lost(super::store::UNKNOWN), cloexec }
                    }
                },
            };
            self.put(tid, number, Slot { cloexec, ..slot }, at_ns)?;
        }
        Ok(())
    }

    /// Which of those on their way leads to what arrives.
    fn arriving(&self, fd: &FdRef) -> Option<usize> {
        self.flying.iter().position(|flying| match (&fd.beside, &flying.slot.path) {
            (Some(beside), Some(path)) => beside == path,
            _ => true,
        })
    }

    /// Messages of calls that have not returned.
    fn send_what_has_begun(&mut self, receiver: u32) -> io::Result<()> {
        let is_open = |runner: &super::Runner| {
            runner.half.as_ref().is_some_and(|half| sends(&half.name) && !half.is_done)
        };
        let mut senders: Vec<u32> = self
            .threads
            .iter()
            .filter(|(tid, runner)| **tid != receiver && is_open(runner))
            .map(|(tid, _)| *tid)
            .collect();
        senders.sort_unstable();
        for tid in senders {
            let Some(half) = self.runner(tid).half.as_mut() else { continue };
            half.is_done = true;
            let text = half.args.to_vec();
            self.sent(tid, &text)?;
        }
        Ok(())
    }
}
