//! Data as serde's bytes: a record has them in one piece, as it has a list of them, and they are copied as a whole.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserializer, Serializer};

pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bytes(bytes)
}

pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<u8>, D::Error> {
    from.deserialize_byte_buf(Bytes)
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = Vec<u8>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    /// Pools of before are read, and those before read pools of today.
    #[test]
    fn bytes_are_written_as_a_list_of_them_is() {
        #[derive(Serialize, Deserialize)]
        struct Data(#[serde(with = "super")] Vec<u8>);
        for len in [0, 1, 127, 128, 4096, 70_000] {
            let list: Vec<u8> = (0..len).map(|number| number as u8).collect();
            let (as_list, as_bytes) =
                (postcard::to_allocvec(&list), postcard::to_allocvec(&Data(list.clone())));
            assert_eq!(as_list, as_bytes, "{len}");
            let read: Data = postcard::from_bytes(&as_list.unwrap()).unwrap();
            assert_eq!(read.0, list);
        }
    }
}
