//! The same trace with other names.
//!
//! Each component of a path becomes sixteen hexadecimal digits of HMAC-SHA-256 (RFC 2104) under a key: equal names stay equal, so
//! that depth, sharing and order of names are those of the program, and without the key no name can be tried. Extensions stay if
//! asked. Names of programs and attributes are treated alike, those in the texts of counts and losses too; the namespace of an
//! attribute, and attributes that the system defines, stay. Of the head, what may name persons and hosts goes. So do records of
//! sections that this Weir does not know.
//!
//! Results that are lengths of names become those of the new names: of `readlink`, of a listing in one read whose names the trace
//! knows, of lists of attributes, whose names it does not know: as if there were one. A listing in several reads keeps its lengths.

use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::call::{Field, Op};
use crate::record::{Count, Entry, Head, Inherited, Loss, Record, Thread, Timed};
use crate::state::{Effect, State};

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

/// The length of a list of one attribute: a namespace, sixteen digits, and a zero.
const ONE_ATTRIBUTE: i64 = 22;

/// What counts say of a call behind its name; whatever else stands before a colon is a program.
const OF_CALLS: [&[u8]; 3] = [
    b"not a call of files that a trace stores",
    b"what is read and written through io_uring cannot be seen",
    b"mappings that move",
];

/// Replaces names.
#[derive(Debug)]
pub struct Anonymizer {
    inner: Sha256,
    outer: Sha256,
    extensions: bool,
    names: FxHashMap<Box<[u8]>, Box<[u8]>>,
    /// What the trace has shown so far, under its own names.
    state: State,
    effect: Effect,
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
        Self {
            inner: keyed(0x36),
            outer: keyed(0x5c),
            extensions,
            names: FxHashMap::default(),
            state: State::new(),
            effect: Effect::default(),
        }
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

    /// A text with a program in front of a colon.
    fn counted(&mut self, what: &[u8]) -> Box<[u8]> {
        let Some(at) = what.windows(2).position(|part| part == b": ") else { return what.into() };
        if OF_CALLS.contains(&&what[at + 2..]) {
            return what.into();
        }
        [&*self.component(&what[..at]), &what[at..]].concat().into()
    }

    /// The result of a call, which may be the length of names.
    fn result(&mut self, timed: &Timed) -> i64 {
        let result = timed.result;
        let renamed = match timed.call.op {
            Op::Readlink => self.length_of_link(timed),
            Op::Getdents => self.length_of_listing(result),
            Op::Listxattr | Op::Llistxattr | Op::Flistxattr => Some(ONE_ATTRIBUTE),
            _ => None,
        };
        renamed.filter(|_| result > 0).unwrap_or(result)
    }

    fn length_of_link(&mut self, timed: &Timed) -> Option<i64> {
        let node = self.state.node_at(timed.call.path.as_deref()?)?;
        let target = self.state.tree.node(node).target.clone()?;
        let cut = |len: usize| i64::try_from(len.min(timed.call.len as usize)).unwrap_or(i64::MAX);
        (cut(target.len()) == timed.result).then(|| cut(self.path(&target).len()))
    }

    /// Of a directory whose names are all known, as getdents(2) gives its entries: 19 bytes, the name, a zero, up to a multiple
    /// of 8.
    fn length_of_listing(&mut self, result: i64) -> Option<i64> {
        let node = self.effect.fd.and_then(|handle| self.state.file_of(handle)).map(|(_, file)| file.node)?;
        let names = self.state.tree.children(node);
        let names: Vec<Box<[u8]>> = names.into_iter().map(|key| self.state.tree.text(key).into()).collect();
        let entry = |name: &[u8]| (19 + name.len() as u64 + 1).next_multiple_of(8);
        let own = entry(b".") + entry(b"..");
        let old: u64 = own + names.iter().map(|name| entry(name)).sum::<u64>();
        if i64::try_from(old) != Ok(result) {
            return None;
        }
        let new: u64 = own + names.iter().map(|name| entry(&self.component(name))).sum::<u64>();
        i64::try_from(new).ok()
    }

    /// A record.
    pub fn record(&mut self, record: Record) -> Record {
        // A call on a descriptor that no record has opened changes nothing that is known.
        let _ = self.state.apply(&record, &mut self.effect);
        match record {
            Record::Entry(entry) => Record::Entry(Entry {
                path: self.path(&entry.path),
                target: entry.target.map(|target| self.path(&target)),
                ..entry
            }),
            Record::Thread(thread) => Record::Thread(Thread { name: self.component(&thread.name), ..thread }),
            Record::Inherited(open) => Record::Inherited(Inherited { path: self.path(&open.path), ..open }),
            Record::Call(timed) => {
                let result = self.result(&timed);
                let named = |field: Field, name: Box<[u8]>| -> Result<_, std::convert::Infallible> {
                    Ok(if field == Field::Attr { self.attribute(&name) } else { self.path(&name) })
                };
                let Ok(call) = timed.call.try_map(named, Ok);
                Record::Call(Timed { call, result, ..timed })
            }
            Record::Count(count) => Record::Count(Count { what: self.counted(&count.what), ..count }),
            Record::Loss(loss) => Record::Loss(Loss { program: self.component(&loss.program), ..loss }),
            other => other,
        }
    }
}
