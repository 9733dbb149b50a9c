//! A line of strace: who, when, and what.

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A whole call: its name, its arguments, what stands behind `=`.
    Call(&'a [u8], &'a [u8], Outcome<'a>),
    /// The beginning of a call, during which another thread is shown.
    Unfinished(&'a [u8], &'a [u8]),
    /// The rest of a call.
    Resumed(&'a [u8], &'a [u8], Outcome<'a>),
    /// The thread has ended with this exit code.
    Exited(u32),
    /// A signal has ended it.
    Killed(&'a [u8]),
    /// The other threads of a process that calls exec end; this one is replaced by the one named.
    Superseded(u32),
    /// A signal was delivered, or strace tells something of itself.
    Nothing,
}

/// What stands behind the `=` of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome<'a> {
    /// The result with what is written beside it.
    pub(super) text: &'a [u8],
    /// How long it took, in nanoseconds.
    pub(super) duration_ns: Option<u64>,
}

/// A line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// The thread; none where strace followed only one.
    pub(super) tid: Option<u32>,
    /// When it began, as the line has it.
    pub(super) at: Option<Stamp>,
    pub(super) event: Event<'a>,
}

/// A time of a line, in nanoseconds of an arbitrary clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) ns: u64,
    /// It is a time of day.
    pub(super) of_day: bool,
}

/// Why a line cannot be read.
pub(super) type Wrong = &'static str;

fn trim(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// Seconds with any number of decimals, as nanoseconds.
pub(super) fn seconds(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanos = format!("{fraction:0<9}");
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.get(..9)?.parse().ok()?)
}

/// A time of strace's: `-ttt`, `-r`, `-tt`, `-t`.
fn time(word: &[u8]) -> Option<Stamp> {
    if !word.contains(&b':') {
        let ns = if word.contains(&b'.') { seconds(word) } else { None };
        return ns.map(|ns| Stamp { ns, of_day: false });
    }
    let mut parts = word.splitn(3, |byte| *byte == b':').map(seconds);
    let (hours, minutes) = (parts.next()??, parts.next()??);
    let ns = (hours.checked_mul(60)?.checked_add(minutes)?).checked_mul(60)?.checked_add(parts.next()??)?;
    Some(Stamp { ns, of_day: true })
}

/// The thread and the time at the beginning of a line, and the rest.
fn prefix(line: &[u8]) -> (Option<u32>, Option<Stamp>, &[u8]) {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<u32>().ok();
    let mut rest = trim(line);
    let mut tid = None;
    if let Some(inner) = rest.strip_prefix(b"[pid") {
        let end = inner.iter().position(|byte| *byte == b']').unwrap_or(0);
        tid = number(trim(&inner[..end]));
        rest = trim(inner.get(end + 1..).unwrap_or_default());
    } else {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        // `-f -Y` adds the name: 123<sh>
        let word = rest[..end].split(|byte| *byte == b'<').next().unwrap_or_default();
        if let Some(found) = number(word) {
            tid = Some(found);
            rest = trim(&rest[end..]);
        }
    }
    let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
    match time(&rest[..end]) {
        Some(at) => (tid, Some(at), trim(&rest[end..])),
        None => (tid, None, rest),
    }
}

/// Where the text that begins behind an opening bracket has its closing one; quotes and what stands beside descriptors are skipped.
pub(super) fn closing(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_string(text, at)?,
            b'<' if is_beside(text, at) => at = end_of_beside(text, at)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => return Some(at),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The place of the quote that ends the string which begins at `at`.
pub(super) fn end_of_string(text: &[u8], at: usize) -> Option<usize> {
    let mut end = at + 1;
    while *text.get(end)? != b'"' {
        end += if text[end] == b'\\' { 2 } else { 1 };
    }
    Some(end)
}

/// Whether a `<` begins what `-y` writes beside a descriptor.
pub(super) fn is_beside(text: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).map_or(b' ', |before| text[before]);
    (before.is_ascii_digit() || before == b'D') && text.get(at + 1) != Some(&b'<')
}

/// The place of the `>` that ends it; of a connection, `->` does not.
pub(super) fn end_of_beside(text: &[u8], at: usize) -> Option<usize> {
    (at + 1..text.len()).find(|end| text[*end] == b'>' && text[*end - 1] != b'-')
}

fn outcome(text: &[u8]) -> Outcome<'_> {
    let text = trim(text);
    let start = text.iter().rposition(|byte| *byte == b'<').filter(|_| text.ends_with(b">"));
    let duration = start.and_then(|start| seconds(&text[start + 1..text.len() - 1]).zip(Some(start)));
    if let Some((duration, start)) = duration {
        return Outcome { text: plain(trim(&text[..start])), duration_ns: Some(duration) };
    }
    Outcome { text: plain(text), duration_ns: None }
}

/// A result without the word for a call after which strace lets the program wait.
fn plain(text: &[u8]) -> &[u8] {
    text.strip_suffix(b"(DELAYED)").map_or(text, trim)
}

/// Splits what follows the opening bracket of a call into arguments and outcome.
fn arguments(text: &[u8]) -> Result<(&[u8], Outcome<'_>), Wrong> {
    let end = closing(text).ok_or("the call has no closing bracket")?;
    let after = trim(&text[end + 1..]);
    let after = after.strip_prefix(b"=").ok_or("there is no ` = ` behind the call")?;
    Ok((&text[..end], outcome(after)))
}

fn event(text: &[u8]) -> Result<Event<'_>, Wrong> {
    if let Some(inner) = text.strip_prefix(b"+++ ") {
        return ended(inner);
    }
    if text.is_empty()
        || text.starts_with(b"--- ")
        || text.starts_with(b"strace: ")
        || text.starts_with(b") = ")
    {
        return Ok(Event::Nothing);
    }
    if let Some(inner) = text.strip_prefix(b"<... ") {
        let end = inner.iter().position(|byte| *byte == b' ').ok_or("the resumed call has no name")?;
        let rest = inner[end + 1..].strip_prefix(b"resumed>").ok_or("`resumed>` is missing")?;
        let (args, outcome) = arguments(rest)?;
        return Ok(Event::Resumed(&inner[..end], args, outcome));
    }
    let open = text.iter().position(|byte| *byte == b'(').ok_or("it is neither a call nor an end")?;
    let (name, rest) = (&text[..open], &text[open + 1..]);
    if name.is_empty() || !name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
        return Err("it is neither a call nor an end");
    }
    for mark in [&b"<unfinished ...>"[..], b" <detached ...>"] {
        if let Some(args) = text.strip_suffix(mark) {
            return Ok(Event::Unfinished(name, trim(&args[open + 1..])));
        }
    }
    let (args, outcome) = arguments(rest)?;
    Ok(Event::Call(name, args, outcome))
}

fn ended(inner: &[u8]) -> Result<Event<'_>, Wrong> {
    let number = |text: &[u8]| {
        let digits: Vec<u8> = text.iter().copied().take_while(u8::is_ascii_digit).collect();
        std::str::from_utf8(&digits).ok()?.parse::<u32>().ok()
    };
    if let Some(code) = inner.strip_prefix(b"exited with ") {
        return number(code).map(Event::Exited).ok_or("the exit code is no number");
    }
    if let Some(signal) = inner.strip_prefix(b"killed by ") {
        return Ok(Event::Killed(signal.split(|byte| *byte == b' ').next().unwrap_or_default()));
    }
    if let Some(by) = inner.strip_prefix(b"superseded by execve in pid ") {
        return number(by).map(Event::Superseded).ok_or("the thread is no number");
    }
    Ok(Event::Nothing)
}

/// Reads a line without its end.
pub(super) fn parse(line: &[u8]) -> Result<Line<'_>, Wrong> {
    let (tid, at, rest) = prefix(line);
    Ok(Line { tid, at, event: event(rest)? })
}
