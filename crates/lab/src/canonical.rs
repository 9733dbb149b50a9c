//! Canonical JSON and its SHA-256: one text for one document, so that equal things have equal hashes on every host.
//!
//! Keys of an object are sorted by their bytes and nothing stands between two marks. Documents that are hashed hold texts, whole
//! numbers, truth values and nulls: a number with a fraction has more than one text.

use std::io;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The one text of a document.
pub fn text(document: &Value) -> String {
    let mut out = String::new();
    write(document, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            let write_entry = |(key, value): &(&String, &Value), out: &mut String| {
                *out += &Value::from(key.as_str()).to_string();
                out.push(':');
                write(value, out);
            };
            list(('{', '}'), &entries, write_entry, out);
        }
        Value::Array(items) => list(('[', ']'), items, write, out),
        Value::Number(number) => {
            debug_assert!(!number.is_f64(), "{number} has a fraction: write it as text");
            *out += &number.to_string();
        }
        other => *out += &other.to_string(),
    }
}

fn list<T>((open, close): (char, char), items: &[T], each: impl Fn(&T, &mut String), out: &mut String) {
    out.push(open);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(close);
}

/// SHA-256 in hexadecimal.
pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

/// The same of all that a reader gives.
pub(crate) fn sha256_of(mut reader: impl io::Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            count => hasher.update(&buffer[..count]),
        }
    }
}

/// The SHA-256 of a document's one text.
pub fn hash(document: &Value) -> String {
    sha256(text(document))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn documents_that_differ_in_the_order_of_keys_have_one_text() {
        let (one, two) = (
            json!({"b": [1, {"d": null, "c": "x\"y"}], "a": true}),
            json!({"a": true, "b": [1, {"c": "x\"y", "d": null}]}),
        );
        assert_eq!(text(&one), r#"{"a":true,"b":[1,{"c":"x\"y","d":null}]}"#);
        assert_eq!(hash(&one), hash(&two));
        assert_ne!(hash(&one), hash(&json!({"a": true, "b": [1, {"c": "xy", "d": null}]})));
    }

    /// FIPS 180-2, appendix B.1.
    #[test]
    fn hashes_are_those_of_the_standard() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256("abc"), known);
        assert_eq!(sha256_of(&b"abc"[..]).unwrap(), known);
    }
}
