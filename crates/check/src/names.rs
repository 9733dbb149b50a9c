//! Names of any bytes as text, and back.
//!
//! A torn write may leave a name that is no UTF-8. Such bytes become characters of Unicode's private use area, one for each byte
//! (PEP 383 uses surrogates, which a `str` cannot hold), so that two names never look the same, and each can be looked up again.

use std::borrow::Cow;

/// Byte `b` is character `FIRST + b`. Only bytes from 0x80 up occur: lower ones are always UTF-8.
const FIRST: u32 = 0xf700;

fn byte_of(shown: char) -> Option<u8> {
    let byte = u32::from(shown).checked_sub(FIRST)?;
    u8::try_from(byte).ok().filter(|byte| !byte.is_ascii())
}

/// A name as text.
pub(crate) fn shown(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    let escape = |text: &mut String, bytes: &[u8]| {
        text.extend(bytes.iter().filter_map(|byte| char::from_u32(FIRST + u32::from(*byte))));
    };
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            // What looks like an escaped byte is escaped itself.
            match byte_of(letter) {
                None => text.push(letter),
                Some(_) => escape(&mut text, letter.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// The bytes of a name that [`shown`] has made text of.
pub(crate) fn bytes(shown: &str) -> Cow<'_, [u8]> {
    if !shown.chars().any(|letter| byte_of(letter).is_some()) {
        return Cow::Borrowed(shown.as_bytes());
    }
    let mut name = Vec::with_capacity(shown.len());
    for letter in shown.chars() {
        match byte_of(letter) {
            Some(byte) => name.push(byte),
            None => name.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_text_of_its_own_and_comes_back() {
        let private = "ä\u{f7ff}".as_bytes();
        let names: [&[u8]; 6] = [b"foo", b"0\xff\xfe", private, b"\xff", b"\xef\x9f", "\u{fffd}".as_bytes()];
        let texts: std::collections::BTreeSet<String> = names.iter().map(|name| shown(name)).collect();
        assert_eq!(texts.len(), names.len());
        for name in names {
            assert_eq!(&*bytes(&shown(name)), name);
        }
    }
}
