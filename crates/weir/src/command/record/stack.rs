//! Lines of source of the frames of stacks, by addr2line(1) of binutils, as the programs are when the recording ends.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use trace::contents::Frame;

use crate::output::Output;

/// The line of source of each frame that has one.
pub(super) fn sources(frames: &[(Frame, u32)], output: &Output) -> Vec<(u32, String)> {
    let mut modules: BTreeMap<&[u8], Vec<(u64, u32)>> = BTreeMap::new();
    for (frame, number) in frames {
        modules.entry(&frame.module).or_default().push((frame.place, *number));
    }
    let mut all = Vec::new();
    for (module, places) in modules {
        let module = Path::new(OsStr::from_bytes(module));
        match lines(module, &places) {
            Ok(lines) => all.extend(lines),
            Err(error) if error.kind() == io::ErrorKind::NotFound && module.exists() => {
                output.note("note: stacks have no lines of source: addr2line is not installed (Debian's package binutils)");
                return Vec::new();
            }
            Err(error) => output.detail(&format!("  no lines of source: {}: {error}", module.display())),
        }
    }
    all
}

/// The lines of a module's places, which are offsets in its file.
fn lines(module: &Path, places: &[(u64, u32)]) -> io::Result<Vec<(u32, String)>> {
    let segments = segments(&File::open(module)?)?;
    let mut asked = String::new();
    for (place, _) in places {
        // A return address is behind the call.
        let _ = writeln!(asked, "{:#x}", address(&segments, place.saturating_sub(1)));
    }
    let mut command = Command::new("addr2line");
    command.arg("-e").arg(module).env_remove("DEBUGINFOD_URLS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    // It answers while it is asked, and both pipes are of limited size.
    let asking =
        std::thread::spawn(move || stdin.map_or(Ok(()), |mut stdin| stdin.write_all(asked.as_bytes())));
    let told = child.wait_with_output()?;
    let _ = asking.join();
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let known = places.iter().zip(text.lines()).filter_map(|((_, number), line)| {
        let line = line.split(" (").next().unwrap_or_default();
        let is_known = !line.starts_with("??") && !line.ends_with(":?") && !line.ends_with(":0");
        is_known.then(|| (*number, line.to_owned()))
    });
    Ok(known.collect())
}

/// A loaded part of a module: where it is in the file, how long, and its address (elf(5): `PT_LOAD`).
type Segment = (u64, u64, u64);

fn segments(file: &File) -> io::Result<Vec<Segment>> {
    const LOAD: u32 = 1;
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0)?;
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no 64-bit little-endian ELF file"));
    }
    let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (start, size, count) = (word(&head, 32), u64::from(short(54)), u64::from(short(56)));
    let mut all = Vec::new();
    for number in 0..count {
        let mut entry = [0; 56];
        file.read_exact_at(&mut entry, start.saturating_add(number * size))?;
        if u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) == LOAD {
            all.push((word(&entry, 8), word(&entry, 32), word(&entry, 16)));
        }
    }
    Ok(all)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn address(segments: &[Segment], place: u64) -> u64 {
    let within =
        segments.iter().find(|(offset, len, _)| (*offset..offset.saturating_add(*len)).contains(&place));
    within.map_or(place, |(offset, _, address)| place - offset + address)
}
