//! What a run and the processes of its workers tell each other: lines of JSON on a socket, which is the standard input of a
//! worker's process.
//!
//! ```text
//! run     ─ order ─▶            ─ open ─▶          ─ start ─▶
//! worker             prepared ─▶          ready ─▶            ended ─▶
//! ```

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;

use results::OperationRecord;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::parameters::Parameters;
use super::prepare::Prepared;
use super::run::Ended;
use crate::suite::{JobError, Stop};

/// What a process does as a worker of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) benchmark: String,
    pub(super) parameters: Parameters,
    pub(super) seed: u64,
    pub(super) stop: Stop,
    pub(super) check: bool,
    /// The worker's number.
    pub(super) w: u64,
    /// The place of its processor among those on which it may run; none: any.
    pub(super) core: Option<u16>,
}

/// From the run to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Told {
    /// Prepare what you have of your own.
    Order(Box<Order>),
    /// Open it.
    Open,
    /// Work from this time of the host's monotonic clock on.
    Start(u64),
}

/// From a worker to the run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Said {
    Prepared(Result<Prepared, JobError>),
    Ready,
    Ended(Box<Report>),
}

/// How a worker has ended.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) ended: Ended,
    /// When, on the host's monotonic clock.
    pub(super) last: u64,
    /// The first call that failed.
    pub(super) failed: Option<String>,
    /// What its ledger holds of the measured time; nothing where there was a warm-up.
    pub(super) operations: Vec<OperationRecord>,
}

/// One end of the socket.
#[derive(Debug)]
pub(super) struct Link {
    socket: BufReader<UnixStream>,
    /// What has come of the next line.
    line: Vec<u8>,
}

impl Link {
    pub(super) fn new(socket: UnixStream) -> Self {
        Self { socket: BufReader::new(socket), line: Vec::new() }
    }

    pub(super) fn tell(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.socket.get_mut().write_all(&line)
    }

    /// Waits for a message.
    pub(super) fn hear<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        loop {
            if let Some(message) = self.listen()? {
                return Ok(message);
            }
        }
    }

    /// Waits for a message as long as the time limit of the socket; none if there was none by then.
    pub(super) fn listen<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        match self.socket.read_until(b'\n', &mut self.line) {
            Ok(_) if self.line.ends_with(b"\n") => {
                Ok(Some(serde_json::from_slice(&std::mem::take(&mut self.line))?))
            }
            Ok(_) => Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A message that does not come at this point.
pub(super) fn unexpected(message: &impl std::fmt::Debug) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("unexpected message {message:?}"))
}
