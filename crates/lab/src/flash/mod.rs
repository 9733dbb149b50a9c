//! The SSD model by itself: traces replayed on it, and requests as plans give them.
//!
//! | module | holds |
//! |---|---|
//! | [`replay`] | a trace on a device: latencies, dies, write amplification over time |
//! | `fragmentation` | files in pieces and raw reads on a device |
//! | [`mod@file`] | what the extents of a file cost on a device |
//! | [`stream`] | requests as workloads of plans |
//! | [`host`] | what the host does around a request, priced by a machine |

pub mod file;
mod fragmentation;
pub mod host;
pub mod replay;
pub mod stream;

use media::flash::{self, Command, FlashError, Ssd};
use workload::block::{Hint, Op, Request};

use crate::error::Error;

/// A request as a command of namespace 0.
pub fn command(request: &Request) -> Command {
    let op = match request.op {
        Op::Read => flash::Op::Read,
        Op::Write => flash::Op::Write,
        Op::Flush => flash::Op::Flush,
        Op::Discard => flash::Op::Trim,
    };
    let hint = match request.hint {
        Hint::None => flash::Hint::None,
        Hint::Append { previous } => flash::Hint::Append { prior_lba: previous / flash::SECTOR },
        Hint::Overwrite => flash::Hint::Overwrite,
    };
    let command = Command::new(op, request.offset, request.bytes).with_hint(hint);
    Command { fua: request.fua, ..command }
}

/// A request as commands that the device takes: no longer than its largest transfer. Parts of a hinted write follow each
/// other in the file.
pub fn commands(request: &Request, ssd: &Ssd) -> impl ExactSizeIterator<Item = Command> + use<> {
    let most = match request.op {
        Op::Read | Op::Write => ssd.config().max_transfer,
        Op::Flush | Op::Discard => u64::MAX,
    };
    let request = *request;
    let parts = request.bytes.div_ceil(most).max(1) as u32;
    (0..parts).map(move |part| {
        let part = u64::from(part);
        let offset = request.offset + part * most;
        let bytes = most.min(request.offset + request.bytes - offset);
        let hint = match request.hint {
            Hint::Append { .. } if part > 0 => Hint::Append { previous: offset - flash::PAGE },
            hint => hint,
        };
        command(&Request { offset, bytes, hint, ..request })
    })
}

impl From<FlashError> for Error {
    fn from(error: FlashError) -> Self {
        Self::Setting(error.to_string())
    }
}
