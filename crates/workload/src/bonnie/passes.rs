//! The passes over the large file.
//!
//! | pass | Bonnie | Bonnie++ |
//! |---|---|---|
//! | putc | creat; writes of a buffer of stdio; close | unlink, open (new); a write for each byte; fsync, close |
//! | block write | unlink, open (new); writes; close | the same, with fsync before close |
//! | rewrite | open; read, lseek back, write; close | the same after an lseek to 0, with fsync |
//! | getc | open; reads of a buffer; close | open, lseek; a read for each byte; fsync, close |
//! | block read | open; reads to the end; close | open, lseek; reads of as many chunks as there are; fsync, close |
//!
//! Each chunk is written with one word of it incremented; the word is the next one in each chunk.

use sim::Nanos;
use vfs::{OpenFlags, Syscalls};

use super::file::{self, Large};
use super::options::{Options, Program};
use super::run::{BLOCK_READ, BLOCK_WRITE, GETC, PUTC, REWRITE};
use super::small::Noting;
use crate::app::control::Failure;

/// A new large file.
const NEW: OpenFlags = OpenFlags::CREATE.union(OpenFlags::EXCLUSIVE);

/// A pass over the file.
pub(super) fn pass(
    number: usize,
    options: &Options,
    calls: &dyn Syscalls,
    note: &mut Noting<'_>,
) -> Result<(), Failure> {
    match number {
        PUTC => putc(options, calls, note),
        BLOCK_WRITE => block_write(options, calls, note),
        REWRITE => rewrite(options, calls, note),
        GETC => getc(options, calls, note),
        _ => block_read(options, calls, note),
    }
}

fn is_plus(options: &Options) -> bool {
    options.program == Program::BonniePlus
}

/// What a pass ends with.
fn end(file: Large<'_>, options: &Options) -> Result<(), Failure> {
    if is_plus(options) {
        file.sync()?;
    }
    file.close()
}

/// Opens what an earlier pass has left.
fn old<'a>(options: &Options, calls: &'a dyn Syscalls, size: u64) -> Result<Large<'a>, Failure> {
    let mut file = Large::open(calls, size, OpenFlags::empty())?;
    if is_plus(options) {
        file.seek(0)?;
    }
    Ok(file)
}

/// The time that putc or getc of so many bytes takes, besides calls.
fn compute(options: &Options, bytes: u64) {
    if options.stdio > 1 {
        sim::compute_for(Nanos(options.char_time.0 * bytes));
    }
}

fn putc(options: &Options, calls: &dyn Syscalls, note: &mut Noting<'_>) -> Result<(), Failure> {
    file::remove(calls, options.size)?;
    let mut file = Large::open(calls, options.size, NEW)?;
    let mut buffer = vec![0; options.stdio as usize];
    let mut done = 0;
    while done < options.chars && !note.is_over() {
        let started = sim::now();
        let len = options.stdio.min(options.chars - done);
        let bytes = &mut buffer[..len as usize];
        bytes.iter_mut().zip(done..).for_each(|(byte, at)| *byte = (at & 0x7f) as u8);
        compute(options, len);
        file.write(bytes)?;
        done += len;
        note.note(PUTC, len, started);
    }
    end(file, options)
}

fn block_write(options: &Options, calls: &dyn Syscalls, note: &mut Noting<'_>) -> Result<(), Failure> {
    file::remove(calls, options.size)?;
    let mut file = Large::open(calls, options.size, NEW)?;
    let mut chunk = vec![0; options.chunk as usize];
    for number in 0..options.chunks() {
        if note.is_over() {
            break;
        }
        let started = sim::now();
        increment(&mut chunk, number);
        file.write(&chunk)?;
        if options.sync {
            file.sync()?;
        }
        note.note(BLOCK_WRITE, options.chunk, started);
    }
    end(file, options)
}

fn rewrite(options: &Options, calls: &dyn Syscalls, note: &mut Noting<'_>) -> Result<(), Failure> {
    let mut file = old(options, calls, options.size)?;
    let mut chunk = vec![0; options.chunk as usize];
    for number in 0..options.chunks() {
        if note.is_over() {
            break;
        }
        let started = sim::now();
        let read = file.read(&mut chunk)?;
        if read == 0 {
            break; // The file of putc may be shorter.
        }
        increment(&mut chunk, number);
        file.back(read as u64)?;
        file.write(&chunk[..read])?;
        if options.sync {
            file.sync()?;
        }
        note.note(REWRITE, read as u64, started);
    }
    end(file, options)
}

fn getc(options: &Options, calls: &dyn Syscalls, note: &mut Noting<'_>) -> Result<(), Failure> {
    let mut file = old(options, calls, options.size)?;
    let mut buffer = vec![0; options.stdio as usize];
    let mut left = options.chars;
    while left > 0 && !note.is_over() {
        let started = sim::now();
        let wanted = left.min(options.stdio);
        let read = file.read(&mut buffer[..wanted as usize])? as u64;
        if read != wanted {
            return Err(short("getc", read, wanted, options.chars - left));
        }
        compute(options, read);
        left -= read;
        note.note(GETC, read, started);
    }
    end(file, options)
}

fn block_read(options: &Options, calls: &dyn Syscalls, note: &mut Noting<'_>) -> Result<(), Failure> {
    let mut file = old(options, calls, options.size)?;
    let mut chunk = vec![0; options.chunk as usize];
    for number in 0..options.chunks() {
        if note.is_over() {
            break;
        }
        let started = sim::now();
        let read = file.read(&mut chunk)? as u64;
        if read != options.chunk {
            return Err(short("block read", read, options.chunk, number * options.chunk));
        }
        note.note(BLOCK_READ, read, started);
    }
    if !is_plus(options) && !note.is_over() {
        // Bonnie reads until there is no more.
        file.read(&mut chunk)?;
    }
    end(file, options)
}

/// A file that ends too early.
pub(super) fn short(pass: &str, read: u64, wanted: u64, offset: u64) -> Failure {
    Failure::new(format!("{pass}: {read} bytes at offset {offset}, where {wanted} were written before"), None)
}

/// Increments a word of a chunk: that of the chunk's number, in a circle.
pub(super) fn increment(chunk: &mut [u8], number: u64) {
    let words = chunk.len() / 4;
    let at = (number % words as u64) as usize * 4;
    if let Ok(word) = chunk[at..at + 4].try_into() {
        chunk[at..at + 4].copy_from_slice(&u32::from_le_bytes(word).wrapping_add(1).to_le_bytes());
    }
}
