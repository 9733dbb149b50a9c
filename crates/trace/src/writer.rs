//! Writing a trace as a stream.
//!
//! Text is collected in blocks of [`BLOCK_BYTES`], and each becomes a gzip member of its own (RFC 1952: members one after the other
//! are one stream, so `zcat` reads it). Whatever happens to the recorder, the members before the last are whole; [`Writer::flush`]
//! ends a member early, which recorders do every few seconds.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::record::{Count, End, Head, Record, VERSION};
use crate::text;

/// Text of a member.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Writes records. Without [`Writer::finish`] the trace has no `E` record, which readers tell.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    text: Vec<u8>,
    compressed: bool,
    calls: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a trace, compressed or as plain text.
    pub fn new(out: W, head: &Head, compressed: bool) -> io::Result<Self> {
        let mut writer = Self { out, text: Vec::with_capacity(BLOCK_BYTES), compressed, calls: 0 };
        writer.text.extend_from_slice(format!("#weir-trace {VERSION}\n").as_bytes());
        for (key, value) in &head.keys {
            writer.text.push(b'#');
            writer.text.extend_from_slice(key);
            writer.text.push(b' ');
            // A value is one line.
            writer.text.extend(value.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
            writer.text.push(b'\n');
        }
        writer.flush()?;
        Ok(writer)
    }

    /// Adds a record.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        self.calls += u64::from(matches!(record, Record::Call(_)));
        text::print(record, &mut self.text);
        if self.text.len() >= BLOCK_BYTES { self.flush() } else { Ok(()) }
    }

    /// What it writes to.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// What it writes to, to take away what was written.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Hands what was written so far to the output.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.text.is_empty() {
            if self.compressed {
                let mut member = GzEncoder::new(&mut self.out, Compression::fast());
                member.write_all(&self.text)?;
                member.finish()?;
            } else {
                self.out.write_all(&self.text)?;
            }
            self.text.clear();
        }
        self.out.flush()
    }

    /// Ends the trace. The number of calls is filled in.
    pub fn finish(mut self, counts: impl IntoIterator<Item = Count>, end: End) -> io::Result<W> {
        for count in counts {
            self.write(&Record::Count(count))?;
        }
        let calls = self.calls;
        self.write(&Record::End(End { calls, ..end }))?;
        self.flush()?;
        Ok(self.out)
    }
}
