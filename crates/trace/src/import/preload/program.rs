//! Programs that a preloaded library cannot see, by their files.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Interpreters of interpreters, at most (execve(2)).
const SCRIPTS_MAX: u32 = 5;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const ELF64: u8 = 2;
const SET_ID: u32 = 0o6000;
/// A program header and a note are read as far as this.
const PART_MAX: usize = 4096;

/// Why the library cannot see what a program does; none if it can, or if the file says nothing.
pub fn hidden(path: &Path) -> Option<&'static str> {
    hidden_behind(path, 0)
}

fn hidden_behind(path: &Path, scripts: u32) -> Option<&'static str> {
    let file = File::open(path).ok()?;
    let about = file.metadata().ok()?;
    let mut magic = [0; 64];
    let got = file.read_at(&mut magic, 0).ok()?;
    if magic.starts_with(b"#!") {
        let interpreter = interpreter(file).filter(|_| scripts < SCRIPTS_MAX)?;
        return hidden_behind(&interpreter, scripts + 1);
    }
    if got < magic.len() || !magic.starts_with(b"\x7fELF") {
        return None;
    }
    if about.mode() & SET_ID != 0 && about.uid() != rights() {
        return Some("it has the rights of another user, for whom the loader takes no library");
    }
    if magic[4] != ELF64 {
        return Some("it is not a program of 64 bits");
    }
    let parts = parts(&file, &magic)?;
    if parts.iter().any(|part| part.kind == PT_NOTE && is_go(&file, part)) {
        return Some("it is written in Go, whose programs make their calls without libc");
    }
    if !parts.iter().any(|part| part.kind == PT_INTERP) {
        return Some("it is linked statically, so that no library is loaded before it");
    }
    None
}

/// The user whose rights this process has (proc(5)).
fn rights() -> u32 {
    std::fs::metadata("/proc/self").map_or(0, |about| about.uid())
}

fn interpreter(file: File) -> Option<PathBuf> {
    let mut line = Vec::new();
    BufReader::new(file.take(PART_MAX as u64)).read_until(b'\n', &mut line).ok()?;
    let mut words = line.strip_prefix(b"#!")?.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    Some(Path::new(std::ffi::OsStr::from_bytes(words.next()?)).to_owned())
}

struct Part {
    kind: u32,
    at: u64,
    bytes: u64,
}

/// The program headers (elf(5)).
fn parts(file: &File, head: &[u8; 64]) -> Option<Vec<Part>> {
    const PART_BYTES: usize = 56;
    let long = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let at = long(head, 32)?;
    let (size, count) = (u16::from_le_bytes([head[54], head[55]]), u16::from_le_bytes([head[56], head[57]]));
    let mut parts = Vec::new();
    for part in 0..u64::from(count) {
        let mut bytes = [0; PART_BYTES];
        file.read_exact_at(&mut bytes, at.checked_add(part * u64::from(size))?).ok()?;
        let kind = u32::from_le_bytes(*bytes.first_chunk()?);
        parts.push(Part { kind, at: long(&bytes, 8)?, bytes: long(&bytes, 32)? });
    }
    Some(parts)
}

/// Whether one of the notes is that of Go's linker, whose owner is "Go" (elf(5): lengths of owner and contents, type, both).
fn is_go(file: &File, part: &Part) -> bool {
    let mut bytes = vec![0; PART_MAX.min(usize::try_from(part.bytes).unwrap_or(PART_MAX))];
    let got = file.read_at(&mut bytes, part.at).unwrap_or(0);
    let mut notes = &bytes[..got];
    while let Some([owner, contents, _]) = notes.first_chunk::<12>().map(|head| {
        [0, 4, 8].map(|at| head[at..].first_chunk().map_or(0, |word| u32::from_le_bytes(*word) as usize))
    }) {
        if notes.get(12..16) == Some(b"Go\0\0") {
            return true;
        }
        let next = owner.next_multiple_of(4).saturating_add(contents.next_multiple_of(4)).saturating_add(12);
        notes = notes.get(next..).unwrap_or_default();
    }
    false
}
