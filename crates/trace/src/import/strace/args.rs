//! Arguments as strace writes them.

use super::line::{end_of_beside, end_of_string, is_beside};
use crate::words::Table;

/// A descriptor, and what `-y` has written beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FdRef {
    /// The number; none for `AT_FDCWD`.
    pub(super) number: Option<i32>,
    pub(super) beside: Option<Box<[u8]>>,
}

/// Splits arguments at their commas.
pub(super) fn split(text: &[u8]) -> Vec<&[u8]> {
    let (mut all, mut start, mut at) = (Vec::with_capacity(6), 0, 0);
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_string(text, at).unwrap_or(text.len()),
            b'<' if is_beside(text, at) => at = end_of_beside(text, at).unwrap_or(text.len()),
            b'(' | b'[' | b'{' => at += end_of_bracket(&text[at..]),
            b',' => {
                all.push(text[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    let last = text[start.min(text.len())..].trim_ascii();
    if !last.is_empty() || !all.is_empty() {
        all.push(last);
    }
    all
}

/// How far behind an opening bracket of any kind its closing one is.
pub(super) fn end_of_bracket(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0_u32, 0);
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_string(text, at).unwrap_or(text.len()),
            b'<' if is_beside(text, at) => at = end_of_beside(text, at).unwrap_or(text.len()),
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// A string in quotes; whether strace has cut it.
pub(super) fn string(text: &[u8]) -> Option<(Box<[u8]>, bool)> {
    let end = text.first().filter(|byte| **byte == b'"').and_then(|_| end_of_string(text, 0))?;
    Some((unescaped(&text[1..end]).into(), text[end + 1..].starts_with(b"...")))
}

/// What C's escapes stand for.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some((kind, after)) = rest.split_first() else { break };
        rest = after;
        match kind {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'v' => out.push(0x0b),
            b'f' => out.push(0x0c),
            b'x' => {
                let digits = rest.iter().take(2).take_while(|digit| digit.is_ascii_hexdigit()).count();
                out.push(radix(&rest[..digits], 16));
                rest = &rest[digits..];
            }
            b'0'..=b'7' => {
                let digits =
                    1 + rest.iter().take(2).take_while(|digit| (b'0'..=b'7').contains(*digit)).count();
                let from = &text[text.len() - rest.len() - 1..];
                out.push(radix(&from[..digits], 8));
                rest = &rest[digits - 1..];
            }
            other => out.push(*other),
        }
    }
    out
}

fn radix(digits: &[u8], radix: u32) -> u8 {
    std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, radix).ok()).unwrap_or(0)
        as u8
}

/// A number in C's notation; `NULL` is 0. What follows it is ignored.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let word = text.split([' ', '<', '|', ',', '}']).next()?;
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let value = match digits {
        "NULL" => Some(0),
        "UINT64_MAX" | "ULONG_MAX" | "SIZE_MAX" => return Some(-1),
        hex if hex.starts_with("0x") => u64::from_str_radix(&hex[2..], 16).ok(),
        octal if octal.len() > 1 && octal.starts_with('0') => u64::from_str_radix(octal, 8).ok(),
        decimal => decimal.parse().ok(),
    }?;
    let value = value.cast_signed();
    Some(if negative { value.wrapping_neg() } else { value })
}

/// A descriptor.
pub(super) fn fd(text: &[u8]) -> Option<FdRef> {
    let open = text.iter().position(|byte| *byte == b'<');
    let beside = open.filter(|at| is_beside(text, *at)).and_then(|at| {
        let end = end_of_beside(text, at)?;
        Some(unescaped(&text[at + 1..end]).into())
    });
    let word = &text[..open.unwrap_or(text.len())];
    if word == b"AT_FDCWD" || word == b"-100" {
        return Some(FdRef { number: None, beside });
    }
    Some(FdRef { number: Some(i32::try_from(number(word)?).ok()?), beside })
}

/// Flags joined by `|`, each with `prefix` before the word of the table.
pub(super) fn flags(text: &[u8], prefix: &str, table: Table) -> u32 {
    let words = text.split(|byte| *byte == b'|').map(<[u8]>::trim_ascii);
    words
        .map(|word| {
            let own = word.strip_prefix(prefix.as_bytes()).unwrap_or(word).to_ascii_lowercase();
            let plain = || number(word).map(|bits| bits as u32);
            table.bit(&own).filter(|_| !word.starts_with(b"0")).or_else(plain).unwrap_or(0)
        })
        .fold(0, |all, bits| all | bits)
}

/// Whether flags joined by `|` have a word.
pub(super) fn has(text: &[u8], word: &str) -> bool {
    text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').any(|part| part == word.as_bytes())
}

/// Whether a line has the number of `AT_FDCWD` alone, as `strace -X raw` writes it: what its flags mean is not read then.
pub(super) fn is_raw(line: &[u8]) -> bool {
    let (name, rest) = line.split_at(line.iter().position(|byte| *byte == b'(').unwrap_or(line.len()));
    let begins = |with: &[u8]| rest.starts_with(with);
    name.ends_with(b"openat") && (begins(b"(-100,") || begins(b"(-100<"))
}

/// A line without the numbers of constants where `strace -X verbose` has written both: `0x41 /* O_WRONLY|O_CREAT */`.
pub(super) fn spelled(line: &[u8]) -> Option<Vec<u8>> {
    const OPEN: &[u8] = b" /* ";
    if !line.windows(OPEN.len()).any(|part| part == OPEN) {
        return None;
    }
    let (mut out, mut at): (Vec<u8>, usize) = (Vec::with_capacity(line.len()), 0);
    while at < line.len() {
        let end = match line[at] {
            b'"' => end_of_string(line, at).unwrap_or(line.len() - 1) + 1,
            b' ' if line[at..].starts_with(OPEN) => {
                let inner = &line[at + OPEN.len()..];
                let close = inner.windows(3).position(|part| part == b" */").unwrap_or(0);
                if is_words(&inner[..close]) {
                    let number = out
                        .iter()
                        .rev()
                        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-')
                        .count();
                    out.truncate(out.len() - number);
                    out.extend_from_slice(&inner[..close]);
                    at += OPEN.len() + close + 3;
                    continue;
                }
                at + OPEN.len()
            }
            _ => at + 1,
        };
        out.extend_from_slice(&line[at..end]);
        at = end;
    }
    Some(out)
}

/// Names of constants joined by `|`, as strace writes them.
fn is_words(text: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'|');
    text.first().is_some_and(u8::is_ascii_uppercase) && text.iter().all(is_word)
}

/// A member of a structure: what stands behind `name=`.
pub(super) fn member<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let inner = text.strip_prefix(b"{")?;
    let inner = inner.strip_suffix(b"}").unwrap_or(inner);
    let all = split(inner);
    all.into_iter().find_map(|part| part.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// The sum of the lengths of a vector of buffers; none where strace has cut it.
pub(super) fn vector(text: &[u8]) -> Option<u64> {
    let inner = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let parts = split(inner);
    let lengths = parts.into_iter().map(|part| member(part, "iov_len").and_then(number));
    lengths.map(|len| len.map(|len| len as u64)).sum()
}

/// What `st_mode=S_IFREG|0644` says.
pub(super) fn mode(text: &[u8]) -> u32 {
    let kinds = [
        ("S_IFREG", 0o10_0000),
        ("S_IFDIR", 0o4_0000),
        ("S_IFLNK", 0o12_0000),
        ("S_IFIFO", 0o1_0000),
        ("S_IFSOCK", 0o14_0000),
        ("S_IFCHR", 0o2_0000),
        ("S_IFBLK", 0o6_0000),
        ("S_ISUID", 0o4000),
        ("S_ISGID", 0o2000),
        ("S_ISVTX", 0o1000),
    ];
    let words = text.split(|byte| *byte == b'|').map(<[u8]>::trim_ascii);
    words
        .map(|word| match kinds.iter().find(|(name, _)| name.as_bytes() == word) {
            Some((_, bits)) => *bits,
            None => number(word).unwrap_or(0) as u32,
        })
        .fold(0, |all, bits| all | bits)
}

/// The number at the beginning of `4096]`.
pub(super) fn number_in_brackets(text: &[u8]) -> Option<i64> {
    let end = text.iter().position(|byte| *byte == b']')?;
    number(&text[..end])
}

#[cfg(test)]
mod tests {
    use super::super::line::closing;
    use super::*;

    #[test]
    fn arguments_are_split_where_their_commas_are() {
        let text = br#"3</a, b>, "x, \"y\"", [{iov_base="a,b", iov_len=4}, {iov_base="", iov_len=6}], 2"#;
        let all = split(text);
        assert_eq!(all.len(), 4);
        assert_eq!(fd(all[0]).unwrap().beside.as_deref(), Some(&b"/a, b"[..]));
        assert_eq!(string(all[1]).unwrap().0.as_ref(), br#"x, "y""#);
        assert_eq!(vector(all[2]), Some(10));
        assert_eq!(closing(b"a(b) \")\" c) = 0"), Some(10));
    }

    #[test]
    fn constants_with_their_numbers_are_the_constants() {
        let line = br#"openat(-100 /* AT_FDCWD */, "0x1 /* NO */", 0x41 /* O_WRONLY|O_CREAT */, 0644) = 3"#;
        let plain = br#"openat(AT_FDCWD, "0x1 /* NO */", O_WRONLY|O_CREAT, 0644) = 3"#;
        assert_eq!(spelled(line).as_deref(), Some(&plain[..]));
        let other = br"getdents64(3, 0x5 /* 3 entries */, 32768) = 72";
        assert_eq!(spelled(other).as_deref(), Some(&other[..]));
        assert_eq!(spelled(b"close(3) = 0"), None);
        assert!(!is_raw(line) && !is_raw(plain) && is_raw(br#"7 1.5 openat(-100</w>, "a", 0x41, 0644) = 3"#));
    }

    #[test]
    fn names_survive_every_way_in_which_strace_writes_them() {
        assert_eq!(unescaped(br"a\nb\303\244\x7f\\\74\0z"), b"a\nb\xc3\xa4\x7f\\<\0z");
        assert_eq!(fd(b"AT_FDCWD</w>").unwrap(), FdRef { number: None, beside: Some(b"/w"[..].into()) });
        assert_eq!((number(b"0x10"), number(b"0755"), number(b"-1 EIO")), (Some(16), Some(0o755), Some(-1)));
        assert_eq!(flags(b"O_RDWR|O_CREAT|0x8000", "O_", Table::Open), 2 | 0o100 | 0x8000);
    }
}
