//! The stacks of calls: strace writes them with `-k`, a frame on a line of its own behind the call that has ended. They stand
//! beside the trace, with the contents ([`crate::contents`]); where these are not kept, frames are passed over.
//!
//! ```text
//! 7 1.2 write(3</t/log>, "x", 1) = 1 <0.000013>
//!  > /usr/lib/x86_64-linux-gnu/libc.so.6(__write+0x10) [0xf8350]
//!  > /t/log(main+0x39) [0x11c2]
//! ```

use std::io::{self, Write};

use super::Importer;
use crate::contents::{Frame, Of};

/// The beginning of a frame's line.
pub(super) const MARK: &[u8] = b" > ";

/// The stack that is being read, and whose it is.
#[derive(Debug, Default)]
pub(super) struct Stack {
    of: Vec<Of>,
    frames: Vec<Frame>,
}

impl<W: Write> Importer<W> {
    /// Calls and messages so far.
    pub(super) fn marks(&self) -> (u64, u64) {
        (self.calls(), self.messages())
    }

    /// A line was taken: the frames that follow are those of the call or message that it has added. A line with which others were
    /// taken that had waited has none, since they cannot be told apart.
    pub(super) fn begin_stack(&mut self, (calls, messages): (u64, u64)) {
        let (new_calls, new_messages) = (self.calls() - calls, self.messages() - messages);
        let of = [
            (new_calls == 1).then(|| Of::Call(calls + 1)),
            (new_messages == 1).then_some(Of::Sent(messages)),
        ];
        self.stack.of =
            if new_calls > 1 || new_messages > 1 { Vec::new() } else { of.into_iter().flatten().collect() };
    }

    /// A frame.
    pub(super) fn frame(&mut self, text: &[u8]) {
        if self.stack.of.is_empty() {
            return;
        }
        self.stack.frames.extend(parsed(&text[MARK.len()..]));
    }

    /// There are no more frames.
    pub(super) fn end_stack(&mut self) -> io::Result<()> {
        let Stack { of, frames } = std::mem::take(&mut self.stack);
        if frames.is_empty() {
            return Ok(());
        }
        of.into_iter().try_for_each(|of| self.keep_stack(of, &frames))
    }
}

/// `MODULE(SYMBOL+0x12) [0x34]`. None: what strace says where it cannot follow a stack.
fn parsed(text: &[u8]) -> Option<Frame> {
    let at = text.windows(4).rposition(|part| part == b" [0x")?;
    let digits = std::str::from_utf8(text[at + 4..].strip_suffix(b"]")?).ok()?;
    let place = u64::from_str_radix(digits, 16).ok()?;
    let about = text[..at].strip_suffix(b")")?;
    let open = about.iter().position(|byte| *byte == b'(')?;
    Some(Frame { module: about[..open].into(), symbol: about[open + 1..].into(), place })
}

#[cfg(test)]
mod tests {
    use super::parsed;

    #[test]
    fn a_frame_has_a_module_a_symbol_and_a_place() {
        let frame = parsed(b"/usr/lib/libc.so.6(__write+0x10) [0xf8350]").unwrap();
        assert_eq!(
            (&*frame.module, &*frame.symbol, frame.place),
            (&b"/usr/lib/libc.so.6"[..], &b"__write+0x10"[..], 0xf_8350)
        );
        let frame = parsed(b"/t/log(void save<int>(char const*)+0x3) [0x11c2]").unwrap();
        assert_eq!(&*frame.symbol, b"void save<int>(char const*)+0x3");
        assert_eq!(&*parsed(b"/t/log() [0x11c2]").unwrap().symbol, b"");
        assert!(parsed(b"unexpected_backtracing_error [0x7ffe]").is_none());
    }
}
