//! Traces in packed files: gzip, zstd and xz, known by their first bytes, of which a file may hold several one after the other.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::StreamingDecoder;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];

/// What is no trace, by its first bytes, and what to do with it.
const OTHERS: [(&[u8], &str); 5] = [
    (b"BZh", "it is packed with bzip2: unpack it first (bunzip2)"),
    (b"PK\x03\x04", "it is a zip archive: unpack it first (unzip)"),
    (b"7z\xbc\xaf", "it is a 7z archive: unpack it first"),
    (&[0x07, b't', b'a', b'e'], "it is a binary trace of blktrace: blkparse -i FILE prints it as text"),
    (b"PAR1", "it is a Parquet file: write it as CSV first"),
];

/// Bytes that are read ahead.
const AHEAD: usize = 1 << 18;

/// The text of a file that may be packed.
///
/// # Errors
/// The file cannot be read, or is packed in another way ([`io::ErrorKind::InvalidData`]).
pub fn open<R: Read + 'static>(file: R) -> io::Result<Box<dyn BufRead>> {
    let mut input = BufReader::with_capacity(AHEAD, file);
    let head = input.fill_buf()?;
    if let Some((_, what)) = OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        return Err(invalid(*what));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Err(invalid("it is a tar archive: unpack it first (tar xf)"));
    }
    if head.starts_with(GZIP) {
        return Ok(Box::new(BufReader::with_capacity(AHEAD, MultiGzDecoder::new(input))));
    }
    if head.starts_with(ZSTD) {
        return Ok(Box::new(BufReader::with_capacity(AHEAD, Zstd { frame: None, input: Some(input) })));
    }
    if head.starts_with(XZ) {
        return Ok(Box::new(BufReader::with_capacity(AHEAD, XzReader::new(input, true))));
    }
    Ok(Box::new(input))
}

/// Frames of zstd, one after the other.
struct Zstd<R: BufRead> {
    frame: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
    /// The file between two frames.
    input: Option<R>,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut input) = self.input.take() {
                let head = input.fill_buf()?;
                if head.is_empty() {
                    self.input = Some(input);
                    return Ok(0);
                }
                if let [0x50..=0x5f, 0x2a, 0x4d, 0x18, a, b, c, d, ..] = *head {
                    // A frame to skip, which parallel packers leave.
                    let bytes = 8 + u64::from(u32::from_le_bytes([a, b, c, d]));
                    io::copy(&mut input.by_ref().take(bytes), &mut io::sink())?;
                    self.input = Some(input);
                    continue;
                }
                let frame = StreamingDecoder::new(input);
                self.frame = Some(frame.map_err(|error| invalid(format!("no frame of zstd: {error}")))?);
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let read = frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.input = self.frame.take().map(StreamingDecoder::into_inner);
        }
    }
}

fn invalid(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
