//! Requests and replies.
//!
//! The reader submits each request as it comes and hands its tickets to the writer. The writer answers in the order in which the
//! device completes, at the time of completion; the last stretch of a wait is spun, since a sleep is late by tens of
//! microseconds. As many requests are on their way as the device's queue takes; then the reader waits, and with it the client.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use media::block::{Hint, Request, Ticket, WriteFlags};
use media::{BlockDevice, MediaError};
use sim::Nanos;
use sim::task::{Handle, TaskSpec};

use super::Export;
use super::negotiate::Session;
use super::wire::{
    LONGEST_REQUEST, REQUEST_MAGIC, SIMPLE_MAGIC, STRUCTURED_MAGIC, broken, chunk, command, errno, read_u16,
    read_u32, read_u64,
};

/// Waits shorter than this are spun.
const SPIN: Nanos = Nanos::from_micros(150);

/// A request as it came.
#[derive(Clone, Copy, Debug)]
struct Asked {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u32,
}

/// A request on its way.
#[derive(Debug)]
struct Pending {
    asked: Asked,
    arrived: Nanos,
    done_at: Nanos,
    tickets: Vec<Ticket>,
    /// What is read.
    data: Vec<u8>,
    refused: Option<(u32, String)>,
}

/// Earliest first out of a heap.
impl Ord for Pending {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.done_at, other.asked.cookie).cmp(&(self.done_at, self.asked.cookie))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pending {}

/// How many requests are on their way.
#[derive(Debug, Default)]
struct Flying {
    count: Mutex<u32>,
    fewer: Condvar,
}

impl Flying {
    fn enter(&self, most: u32) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        while *count >= most {
            count = self.fewer.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
        *count += 1;
    }

    fn leave(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.fewer.notify_one();
    }
}

/// Serves requests until the client disconnects.
pub(super) fn transmit(
    stream: UnixStream,
    export: &Arc<Export>,
    session: Session,
    handle: &Handle,
) -> io::Result<()> {
    let (sender, receiver) = channel();
    let flying = Arc::new(Flying::default());
    let output = stream.try_clone()?;
    let writer = Writer { export: Arc::clone(export), flying: Arc::clone(&flying), output, session };
    let handle = handle.clone();
    let writer = std::thread::spawn(move || {
        let _task = handle.attach(TaskSpec::named("nbd replies"));
        writer.run(&receiver);
    });
    let read = requests(stream, export, &flying, &sender);
    drop(sender);
    let _ = writer.join();
    read
}

/// Reads and submits requests until the client is done.
fn requests(
    stream: UnixStream,
    export: &Export,
    flying: &Flying,
    sender: &Sender<Pending>,
) -> io::Result<()> {
    let most = export.device.geometry().queue_depth.max(1);
    let mut input = BufReader::with_capacity(1 << 16, stream);
    while let Some(asked) = next(&mut input)? {
        if asked.kind == command::DISCONNECT {
            return Ok(());
        }
        let payload = payload(&mut input, &asked)?;
        flying.enter(most);
        if sender.send(submit(&*export.device, asked, &payload)).is_err() {
            return Ok(()); // the writer has lost the client
        }
    }
    Ok(())
}

/// The next request; none when the client has closed the connection between two.
fn next(input: &mut BufReader<UnixStream>) -> io::Result<Option<Asked>> {
    let magic = match read_u32(input) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        magic => magic?,
    };
    if magic != REQUEST_MAGIC {
        return Err(broken(format!("a request that begins with {magic:#010x}")));
    }
    Ok(Some(Asked {
        flags: read_u16(input)?,
        kind: read_u16(input)?,
        cookie: read_u64(input)?,
        offset: read_u64(input)?,
        length: read_u32(input)?,
    }))
}

/// The bytes of a write.
fn payload(input: &mut impl Read, asked: &Asked) -> io::Result<Vec<u8>> {
    if asked.kind != command::WRITE {
        return Ok(Vec::new());
    }
    if asked.length > LONGEST_REQUEST {
        return Err(broken(format!("a write of {} bytes, more than {LONGEST_REQUEST}", asked.length)));
    }
    let mut bytes = vec![0; asked.length as usize];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Hands a request to the device in pieces that it takes.
fn submit(device: &dyn BlockDevice, asked: Asked, payload: &[u8]) -> Pending {
    let arrived = sim::now();
    let mut pending =
        Pending { asked, arrived, done_at: arrived, tickets: Vec::new(), data: Vec::new(), refused: None };
    if let Err(refused) = check(device, &asked) {
        pending.refused = Some(refused);
        return pending;
    }
    let flags = WriteFlags { fua: asked.flags & command::FUA != 0, hint: Hint::None };
    let most = u64::from(device.geometry().max_transfer_bytes) as usize;
    let offsets = |len: usize| (asked.offset..asked.offset + len as u64).step_by(most);
    let length = asked.length as usize;
    match asked.kind {
        command::READ => {
            pending.data = vec![0; length];
            for (off, buf) in offsets(length).zip(pending.data.chunks_mut(most)) {
                pending.tickets.push(device.submit(Request::Read { off, buf }));
            }
        }
        command::WRITE => write(device, &mut pending, payload, flags),
        command::FLUSH => pending.tickets.push(device.submit(Request::Flush)),
        command::WRITE_ZEROES if asked.flags & command::NO_HOLE != 0 || !device.geometry().discard => {
            write_zeroes(device, &mut pending, flags);
        }
        _ => {
            let (off, len) = (asked.offset, u64::from(asked.length));
            pending.tickets.push(device.submit(Request::Discard { off, len }));
        }
    }
    pending.done_at = pending.tickets.iter().map(Ticket::done_at).fold(arrived, Nanos::max);
    pending
}

fn write(device: &dyn BlockDevice, pending: &mut Pending, bytes: &[u8], flags: WriteFlags) {
    let most = device.geometry().max_transfer_bytes as usize;
    let offsets = (pending.asked.offset..).step_by(most);
    for (off, data) in offsets.zip(bytes.chunks(most)) {
        pending.tickets.push(device.submit(Request::Write { off, data, flags }));
    }
}

fn write_zeroes(device: &dyn BlockDevice, pending: &mut Pending, flags: WriteFlags) {
    let most = device.geometry().max_transfer_bytes;
    let zeros = vec![0; most as usize];
    let Asked { offset, length, .. } = pending.asked;
    for at in (0..length).step_by(most as usize) {
        let data = &zeros[..most.min(length - at) as usize];
        let off = offset + u64::from(at);
        pending.tickets.push(device.submit(Request::Write { off, data, flags }));
    }
}

/// What cannot be done, with the error of the protocol.
fn check(device: &dyn BlockDevice, asked: &Asked) -> Result<(), (u32, String)> {
    let geometry = device.geometry();
    let Asked { flags, kind, offset, length, .. } = *asked;
    let known = match kind {
        command::READ | command::FLUSH => 0,
        command::WRITE | command::TRIM => command::FUA,
        command::WRITE_ZEROES => command::FUA | command::NO_HOLE,
        _ => return Err((errno::EINVAL, format!("there is no command {kind}"))),
    };
    if flags & !(known | command::FUA) != 0 {
        return Err((errno::EINVAL, format!("command {kind} has no flags {flags:#x}")));
    }
    if kind == command::FLUSH {
        return Ok(());
    }
    if kind == command::TRIM && !geometry.discard {
        return Err((errno::EINVAL, "the device has no trim, and did not say that it has".to_owned()));
    }
    let block = u64::from(geometry.block_bytes);
    if length == 0 || !offset.is_multiple_of(block) || !u64::from(length).is_multiple_of(block) {
        return Err((errno::EINVAL, format!("{length} bytes at {offset} are not whole blocks of {block}")));
    }
    let size = geometry.bytes.0;
    if offset.checked_add(u64::from(length)).is_none_or(|end| end > size) {
        let error = if kind == command::READ { errno::EINVAL } else { errno::ENOSPC };
        return Err((error, format!("{length} bytes at {offset} are beyond the device of {size}")));
    }
    if kind == command::READ && length > LONGEST_REQUEST {
        return Err((errno::EINVAL, format!("a read of {length} bytes, more than {LONGEST_REQUEST}")));
    }
    Ok(())
}

/// Answers requests as they complete.
struct Writer {
    export: Arc<Export>,
    flying: Arc<Flying>,
    output: UnixStream,
    session: Session,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Pending>) {
        let mut heap = BinaryHeap::new();
        let mut open = true;
        while open || !heap.is_empty() {
            let Some(first) = heap.peek().map(|pending: &Pending| pending.done_at) else {
                match receiver.recv() {
                    Ok(pending) => heap.push(pending),
                    Err(_) => open = false,
                }
                continue;
            };
            if Self::wait(first, receiver, &mut heap, &mut open) {
                let Some(pending) = heap.pop() else { continue };
                self.complete(pending);
            }
        }
    }

    /// Waits until `at`, or until another request comes; true at `at`.
    fn wait(
        at: Nanos,
        receiver: &Receiver<Pending>,
        heap: &mut BinaryHeap<Pending>,
        open: &mut bool,
    ) -> bool {
        let left = at.since(sim::now());
        if left == Nanos::ZERO {
            return true;
        }
        if left <= SPIN {
            match receiver.try_recv() {
                Ok(pending) => heap.push(pending),
                Err(TryRecvError::Disconnected) => *open = false,
                Err(TryRecvError::Empty) => std::hint::spin_loop(),
            }
            return false;
        }
        let pause = Duration::from_nanos((left - SPIN).0);
        if !*open {
            std::thread::sleep(pause);
            return false;
        }
        match receiver.recv_timeout(pause) {
            Ok(pending) => heap.push(pending),
            Err(RecvTimeoutError::Disconnected) => *open = false,
            Err(RecvTimeoutError::Timeout) => {}
        }
        false
    }

    fn complete(&mut self, mut pending: Pending) {
        let tickets = std::mem::take(&mut pending.tickets);
        let outcome = self.export.device.wait_all(tickets);
        let refused = pending.refused.take();
        let refused = refused.or_else(|| outcome.err().map(|error| (number(&error), error.to_string())));
        let late = sim::now().since(pending.done_at);
        if refused.is_none() {
            self.export.lateness.record(pending.done_at.since(pending.arrived).0, late.0);
        }
        let reply = self.reply(&pending, refused.as_ref());
        // A client that has gone wants no answer; the reader notices by itself.
        let _ = self.output.write_all(&reply);
        self.flying.leave();
    }

    fn reply(&self, pending: &Pending, refused: Option<&(u32, String)>) -> Vec<u8> {
        let Asked { cookie, offset, kind, .. } = pending.asked;
        if !self.session.structured {
            let mut bytes = Vec::with_capacity(16 + pending.data.len());
            bytes.extend(SIMPLE_MAGIC.to_be_bytes());
            bytes.extend(refused.map_or(0, |(number, _)| *number).to_be_bytes());
            bytes.extend(cookie.to_be_bytes());
            if refused.is_none() {
                bytes.extend(&pending.data);
            }
            return bytes;
        }
        match refused {
            Some((number, message)) => {
                let message = &message.as_bytes()[..message.len().min(4_096)];
                let mut body = Vec::from(number.to_be_bytes());
                body.extend((message.len() as u16).to_be_bytes());
                body.extend(message);
                structured(chunk::ERROR, cookie, &[&body])
            }
            None if kind == command::READ => {
                structured(chunk::OFFSET_DATA, cookie, &[&offset.to_be_bytes(), &pending.data])
            }
            None => structured(chunk::NONE, cookie, &[]),
        }
    }
}

/// A structured reply of one chunk.
fn structured(kind: u16, cookie: u64, body: &[&[u8]]) -> Vec<u8> {
    let length: usize = body.iter().map(|part| part.len()).sum();
    let mut bytes = Vec::with_capacity(20 + length);
    bytes.extend(STRUCTURED_MAGIC.to_be_bytes());
    bytes.extend(chunk::DONE.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend((length as u32).to_be_bytes());
    for part in body {
        bytes.extend(*part);
    }
    bytes
}

fn number(error: &MediaError) -> u32 {
    match error {
        MediaError::NoFreeLine { .. } => errno::ENOSPC,
        MediaError::OutOfRange { .. } | MediaError::Misaligned { .. } | MediaError::NoDiscard => {
            errno::EINVAL
        }
        _ => errno::EIO,
    }
}
