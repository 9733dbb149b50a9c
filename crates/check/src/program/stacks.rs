//! Where in the program a call was made, as far as the trace has stacks (`weir record --contents --stack`).

use super::story::Story;

/// Frames that people are shown.
const SHOWN: usize = 4;

/// Libraries whose frames say nothing of the program: those through which every call goes.
const BELOW: [&str; 5] = ["libc.so", "libc-", "ld-linux", "libpthread", "linux-vdso"];

impl Story {
    /// A frame whole: `main+0x39 (/src/log.c:23) in /t/log at 0x11c2`.
    pub fn frame(&self, number: u32) -> String {
        let Some((frame, source)) = self.frames.get(number as usize) else { return String::new() };
        let (symbol, module) =
            (String::from_utf8_lossy(&frame.symbol), String::from_utf8_lossy(&frame.module));
        let source = source.as_ref().map_or_else(String::new, |source| format!(" ({source})"));
        format!("{symbol}{source} in {module} at {:#x}", frame.place)
    }

    /// The innermost frames of a stack that are the program's own: `save (log.c:23) < main (log.c:40)`; empty without a stack.
    pub fn place(&self, stack: &[u32]) -> String {
        let shown = stack.iter().filter_map(|number| self.own_frame(*number));
        shown.take(SHOWN).collect::<Vec<_>>().join(" < ")
    }

    fn own_frame(&self, number: u32) -> Option<String> {
        let (frame, source) = self.frames.get(number as usize)?;
        let (symbol, module) =
            (String::from_utf8_lossy(&frame.symbol), String::from_utf8_lossy(&frame.module));
        let module = module.rsplit('/').next().unwrap_or_default().to_owned();
        let name = symbol.rsplit_once("+0x").map_or(&*symbol, |(name, _)| name);
        if BELOW.iter().any(|below| module.starts_with(below)) || name == "_start" {
            return None;
        }
        let source = source.as_ref().map(|source| source.rsplit('/').next().unwrap_or_default());
        Some(match (source, name) {
            (Some(source), "") => source.to_owned(),
            (Some(source), name) => format!("{name} ({source})"),
            (None, "") => format!("{module}+{:#x}", frame.place),
            (None, _) => format!("{symbol} in {module}"),
        })
    }

    /// A mark that tells stacks apart, also in another run: eight digits; empty without a stack.
    pub fn mark(&self, stack: &[u32]) -> String {
        if stack.is_empty() {
            return String::new();
        }
        // FNV-1a, whose values are the same everywhere: they stand in documents.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for (frame, _) in stack.iter().filter_map(|number| self.frames.get(*number as usize)) {
            let module = frame.module.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            for byte in module.iter().chain(&*frame.symbol).chain(&frame.place.to_le_bytes()) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        format!(" at {:08x}", (hash ^ hash >> 32) as u32)
    }
}
