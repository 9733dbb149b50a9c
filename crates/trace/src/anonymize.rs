//! The same trace with other names.
//!
//! Each component of a path becomes sixteen hexadecimal digits of HMAC-SHA-256 (RFC 2104) under a key: equal names stay equal, so
//! that depth, sharing and order of names are those of the program, and without the key no name can be tried. Extensions stay if
//! asked. Names of programs and attributes are treated alike; the namespace of an attribute, and attributes that the system
//! defines, stay. Of the head, what may name persons and hosts goes.

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::call::Field;
use crate::record::{Entry, Head, Inherited, Record, Thread, Timed};

/// Keys of the head that say nothing of a person or host.
const KEPT: [&str; 4] = ["recorder", "clock", "cut", "snapshot"];

/// Attributes whose names the kernel defines (xattr(7)).
const SYSTEM: [&[u8]; 6] = [
    b"security.capability",
    b"security.selinux",
    b"security.ima",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
    b"system.nfs4_acl",
];

/// The longest ending of a name that is an extension.
const EXTENSION_MAX: usize = 8;

/// Replaces names.
#[derive(Debug)]
pub struct Anonymizer {
    inner: Sha256,
    outer: Sha256,
    extensions: bool,
    names: FxHashMap<Box<[u8]>, Box<[u8]>>,
}

impl Anonymizer {
    /// Names under this key; `extensions`: `.c` of `main.c` stays.
    pub fn new(key: &[u8], extensions: bool) -> Self {
        let mut block = [0; 64];
        if key.len() > block.len() {
            block[..32].copy_from_slice(&Sha256::digest(key));
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let keyed = |pad: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
        Self { inner: keyed(0x36), outer: keyed(0x5c), extensions, names: FxHashMap::default() }
    }

    fn digits(&self, name: &[u8]) -> Vec<u8> {
        let inner = self.inner.clone().chain_update(name).finalize();
        let outer = self.outer.clone().chain_update(inner).finalize();
        outer[..8].iter().flat_map(|byte| format!("{byte:02x}").into_bytes()).collect()
    }

    fn component(&mut self, name: &[u8]) -> Box<[u8]> {
        if matches!(name, b"" | b"." | b"..") {
            return name.into();
        }
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let dot = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0 && self.extensions);
        let extension = dot.map(|at| &name[at..]).filter(|extension| {
            extension.len() <= EXTENSION_MAX + 1 && extension[1..].iter().all(u8::is_ascii_alphanumeric)
        });
        let stem = &name[..name.len() - extension.map_or(0, <[u8]>::len)];
        let mut hidden = self.digits(stem);
        hidden.extend_from_slice(extension.unwrap_or_default());
        let hidden: Box<[u8]> = hidden.into();
        self.names.insert(name.into(), hidden.clone());
        hidden
    }

    /// A path.
    pub fn path(&mut self, path: &[u8]) -> Box<[u8]> {
        let parts: Vec<_> = path.split(|byte| *byte == b'/').map(|part| self.component(part)).collect();
        parts.join(&b'/').into()
    }

    fn attribute(&mut self, name: &[u8]) -> Box<[u8]> {
        if SYSTEM.contains(&name) {
            return name.into();
        }
        let dot = name.iter().position(|byte| *byte == b'.').map_or(0, |at| at + 1);
        let mut hidden = name[..dot].to_vec();
        hidden.extend(self.digits(&name[dot..]));
        hidden.into()
    }

    /// The head.
    pub fn head(&self, head: &Head) -> Head {
        let kept = head.keys.iter().filter(|(key, _)| KEPT.iter().any(|kept| kept.as_bytes() == &**key));
        let mut head = Head { keys: kept.cloned().collect() };
        head.set("root", b"/");
        head.set("anonymized", if self.extensions { b"extensions kept" } else { b"yes" });
        head
    }

    /// A record.
    pub fn record(&mut self, record: Record) -> Record {
        match record {
            Record::Entry(entry) => Record::Entry(Entry {
                path: self.path(&entry.path),
                target: entry.target.map(|target| self.path(&target)),
                ..entry
            }),
            Record::Thread(thread) => Record::Thread(Thread { name: self.component(&thread.name), ..thread }),
            Record::Inherited(open) => Record::Inherited(Inherited { path: self.path(&open.path), ..open }),
            Record::Call(timed) => {
                let named = |field: Field, name: Box<[u8]>| -> Result<_, std::convert::Infallible> {
                    Ok(if field == Field::Attr { self.attribute(&name) } else { self.path(&name) })
                };
                let Ok(call) = timed.call.try_map(named, Ok);
                Record::Call(Timed { call, ..timed })
            }
            other => other,
        }
    }
}
