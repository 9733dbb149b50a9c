//! The dentry cache: what the names of a mounted file system lead to.
//!
//! The kernel has one above every file system, and published figures include its effect: a path whose
//! components are cached costs the design nothing. It also remembers names that do not exist.
//!
//! # States of a dentry
//!
//! ```text
//!   (none) ──take──► claimed ──settle──► Present ◄──► Absent
//!                       ▲                   │            │
//!                       └────────take───────┴────────────┘        evict: Present (not held) or Absent ──► (none)
//! ```
//!
//! A call that asks the design about a name, or changes the name, *claims* it first and settles the dentry
//! afterwards. Other calls that reach a claimed name wait. The cache therefore always agrees with the design:
//! an answer to a lookup cannot be stored after a removal has made it wrong. Claims take no lock of the
//! design. Names of one directory are claimed independently, and a walk holds no claim while it waits for
//! another.
//!
//! # Memory
//!
//! The cache holds at most `limit` dentries, besides those that are claimed and those whose vnode is held. A
//! clock hand in each shard chooses the victim. A dentry whose vnode is held stays, because later lookups
//! must find that vnode: an inode must not get a second one.
//!
//! # Keys
//!
//! The number of the directory and the name. Inode numbers are reused. Only an empty directory is removed,
//! and the dentries that remain of it are *absent*, which is also true of every new directory with its
//! number.
//!
//! # Locks
//!
//! A shard's lock is held for a few instructions and never over anything that may yield, so the virtual clock
//! does not see it; the kernel's walk takes no lock either. Waiting for a claim goes through `vfs.dentry`.
//! Order: `vfs.dentry`, then a shard.

use std::hash::Hasher;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHasher;
use sim::{Condvar, LockClass, Work, ran};

use crate::attr::Ino;
use crate::charges;
use crate::vnode::Vnode;

pub(crate) static DENTRY: LockClass = LockClass::new("vfs.dentry");

const SHARDS: usize = 64;
const NONE: u32 = u32::MAX;

/// What a name leads to.
pub(crate) enum Binding {
    /// Claimed, or the design answered with an error.
    Unknown,
    /// No inode has this name.
    Absent,
    /// This inode has.
    Present(Arc<Vnode>),
}

/// The cache.
pub(crate) struct Dentries {
    shards: Box<[Mutex<Shard>]>,
    /// Dentries that a shard keeps before it evicts.
    shard_limit: usize,
    waiters: sim::Mutex<()>,
    settled: Condvar,
}

/// A dentry that the holder may change; give it back with [`Dentries::settle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    shard: u32,
    slot: u32,
}

/// What a look at the cache gave.
pub(crate) enum Seen {
    Present(Arc<Vnode>),
    Absent,
    /// Not known to be there: the caller asks the design, or makes it, and settles.
    Claimed(Ticket, Binding),
}

impl Dentries {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect(),
            shard_limit: (limit / SHARDS).max(8),
            waiters: sim::Mutex::new(&DENTRY, ()),
            settled: Condvar::of_class(&DENTRY),
        }
    }

    /// What `name` in `parent` leads to. A name that is not cached is claimed; with `or_claim` one that is
    /// absent too.
    #[inline]
    pub(crate) fn look(&self, parent: Ino, name: &[u8], or_claim: bool) -> Seen {
        let hash = hash_of(parent, name);
        loop {
            let mut shard = self.shard(hash).lock();
            let Some(slot) = shard.find(hash, parent, name) else {
                return Seen::Claimed(self.claim_new(shard, hash, parent, name), Binding::Unknown);
            };
            let ticket = Ticket { shard: shard_of(hash), slot };
            let dentry = &mut shard.dentries[slot as usize];
            if dentry.claim == ClaimState::Free {
                dentry.used = true;
                match &dentry.binding {
                    Binding::Present(vnode) => return Seen::Present(Arc::clone(vnode)),
                    Binding::Absent if !or_claim => return Seen::Absent,
                    Binding::Absent | Binding::Unknown => {}
                }
                dentry.claim = ClaimState::Claimed;
                return Seen::Claimed(ticket, std::mem::replace(&mut dentry.binding, Binding::Unknown));
            }
            drop(shard);
            self.wait(hash, parent, name);
        }
    }

    /// Shows the vnode called `name` in `parent` to `see`, when it is cached and the name is not claimed. No
    /// reference is taken.
    #[inline]
    pub(crate) fn with_cached<T>(
        &self,
        parent: Ino,
        name: &[u8],
        see: impl FnOnce(&Arc<Vnode>) -> Option<T>,
    ) -> Option<T> {
        let hash = hash_of(parent, name);
        let mut shard = self.shard(hash).lock();
        let slot = shard.find(hash, parent, name)?;
        let dentry = &mut shard.dentries[slot as usize];
        dentry.used = true;
        match &dentry.binding {
            Binding::Present(vnode) if dentry.claim == ClaimState::Free => see(vnode),
            _ => None,
        }
    }

    /// Claims `name` in `parent` and takes out what it leads to, as far as that is known.
    #[inline]
    pub(crate) fn claim(&self, parent: Ino, name: &[u8]) -> (Ticket, Binding) {
        let hash = hash_of(parent, name);
        loop {
            let mut shard = self.shard(hash).lock();
            let Some(slot) = shard.find(hash, parent, name) else {
                return (self.claim_new(shard, hash, parent, name), Binding::Unknown);
            };
            let ticket = Ticket { shard: shard_of(hash), slot };
            let dentry = &mut shard.dentries[slot as usize];
            if dentry.claim == ClaimState::Free {
                dentry.claim = ClaimState::Claimed;
                dentry.used = true;
                return (ticket, std::mem::replace(&mut dentry.binding, Binding::Unknown));
            }
            drop(shard);
            self.wait(hash, parent, name);
        }
    }

    /// Ends a claim: what the name leads to from now on.
    pub(crate) fn settle(&self, ticket: Ticket, binding: Binding) {
        let mut shard = self.shards[ticket.shard as usize].lock();
        let dentry = &mut shard.dentries[ticket.slot as usize];
        dentry.binding = binding; // a claim has taken out what was there
        let awaited = std::mem::replace(&mut dentry.claim, ClaimState::Free) == ClaimState::Awaited;
        if matches!(dentry.binding, Binding::Unknown) {
            shard.remove(ticket.slot);
        }
        drop(shard);
        // A task that is unwound because its run has ended must not wait for a lock; and no task waits for it
        // either.
        if awaited && !crate::run_is_over() {
            let _turn = self.waiters.lock();
            self.settled.notify_all();
        }
    }

    /// Drops every dentry whose vnode is not held; a directory's after those below it.
    pub(crate) fn forget_unused(&self) {
        let forget = |shard: &Mutex<Shard>| {
            let forgotten = shard.lock().take_unused();
            // A list of their places, and one of what they led to.
            charges::allocate(if forgotten.is_empty() { 0 } else { 2 });
            forgotten.len()
        };
        while self.shards.iter().map(forget).sum::<usize>() > 0 {}
    }

    /// Number of dentries.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().live).sum()
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[shard_of(hash) as usize]
    }

    /// Adds a claimed dentry, in the place of another when the shard is full.
    fn claim_new(
        &self,
        mut shard: parking_lot::MutexGuard<'_, Shard>,
        hash: u64,
        parent: Ino,
        name: &[u8],
    ) -> Ticket {
        let evicted = if shard.live >= self.shard_limit { shard.evict() } else { Binding::Unknown };
        // The growth of a shard is in the price of a node.
        let own = ran::aside();
        let slot = shard.insert(hash, parent, name);
        drop(own);
        drop(shard);
        drop(evicted);
        ran::did(Work::NODE, 1);
        charges::node(1);
        if name.len() > INLINE_BYTES {
            charges::allocate(1);
        }
        Ticket { shard: shard_of(hash), slot }
    }

    /// Waits until the claim on this name has ended (or another has begun: the caller looks again). The name is looked up once
    /// more: its place may belong to another name by now, whose claim may wait for one that this caller has.
    #[cold]
    fn wait(&self, hash: u64, parent: Ino, name: &[u8]) {
        let turn = self.waiters.lock();
        let mut shard = self.shard(hash).lock();
        let Some(slot) = shard.find(hash, parent, name) else { return };
        let dentry = &mut shard.dentries[slot as usize];
        if dentry.claim == ClaimState::Free {
            return;
        }
        dentry.claim = ClaimState::Awaited;
        drop(shard);
        drop(self.settled.wait(turn));
    }
}

#[inline]
fn hash_of(parent: Ino, name: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(parent.0);
    hasher.write(name);
    hasher.finish()
}

#[inline]
fn shard_of(hash: u64) -> u32 {
    (hash % SHARDS as u64) as u32
}

/// A part of the cache: a chained hash table over a slab.
#[derive(Default)]
struct Shard {
    /// First dentry of each chain; their number is a power of two.
    buckets: Vec<u32>,
    dentries: Vec<Dentry>,
    /// Dentries of the slab that are free.
    free: Vec<u32>,
    /// Dentries in use.
    live: usize,
    /// Where the search for a victim goes on.
    hand: usize,
}

/// Whether a call asks the design about a name, or changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimState {
    Free,
    Claimed,
    /// Claimed, and another call waits for the end of the claim.
    Awaited,
}

struct Dentry {
    hash: u64,
    parent: Ino,
    name: Name,
    binding: Binding,
    /// Next of the chain.
    next: u32,
    claim: ClaimState,
    /// Looked up since the hand passed.
    used: bool,
    /// Not on the free list.
    live: bool,
}

impl Dentry {
    fn new(hash: u64, parent: Ino, name: &[u8]) -> Self {
        Self {
            hash,
            parent,
            name: Name::new(name),
            binding: Binding::Unknown,
            next: NONE,
            claim: ClaimState::Claimed,
            used: true,
            live: true,
        }
    }

    /// Whether it can be evicted: not claimed, and its vnode is not held.
    fn is_unused(&self) -> bool {
        let held = match &self.binding {
            Binding::Present(vnode) => Arc::strong_count(vnode) > 1 && !vnode.is_linked(),
            Binding::Absent | Binding::Unknown => false,
        };
        self.live && self.claim == ClaimState::Free && !held
    }
}

impl Shard {
    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        (hash / SHARDS as u64) as usize & (self.buckets.len() - 1)
    }

    #[inline]
    fn find(&self, hash: u64, parent: Ino, name: &[u8]) -> Option<u32> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut slot = self.buckets[self.bucket(hash)];
        while slot != NONE {
            let dentry = &self.dentries[slot as usize];
            if dentry.hash == hash && dentry.parent == parent && dentry.name.as_bytes() == name {
                return Some(slot);
            }
            slot = dentry.next;
        }
        None
    }

    fn insert(&mut self, hash: u64, parent: Ino, name: &[u8]) -> u32 {
        if self.live >= self.buckets.len() {
            self.grow();
        }
        let dentry = Dentry::new(hash, parent, name);
        let slot = self.free.pop().unwrap_or(self.dentries.len() as u32);
        match self.dentries.get_mut(slot as usize) {
            Some(free) => *free = dentry,
            None => self.dentries.push(dentry),
        }
        self.live += 1;
        self.link(slot);
        slot
    }

    fn link(&mut self, slot: u32) {
        let bucket = self.bucket(self.dentries[slot as usize].hash);
        self.dentries[slot as usize].next = std::mem::replace(&mut self.buckets[bucket], slot);
    }

    fn grow(&mut self) {
        let buckets = (self.buckets.len() * 2).max(16);
        self.buckets.clear();
        self.buckets.resize(buckets, NONE);
        for slot in 0..self.dentries.len() as u32 {
            if self.dentries[slot as usize].live {
                self.link(slot);
            }
        }
    }

    /// Takes a dentry out of its chain and gives its place back.
    fn remove(&mut self, slot: u32) -> Binding {
        let bucket = self.bucket(self.dentries[slot as usize].hash);
        let next = self.dentries[slot as usize].next;
        if self.buckets[bucket] == slot {
            self.buckets[bucket] = next;
        } else {
            let mut at = self.buckets[bucket];
            while self.dentries[at as usize].next != slot {
                at = self.dentries[at as usize].next;
            }
            self.dentries[at as usize].next = next;
        }
        self.live -= 1;
        let own = ran::aside();
        self.free.push(slot);
        drop(own);
        let dentry = &mut self.dentries[slot as usize];
        dentry.live = false;
        std::mem::replace(&mut dentry.binding, Binding::Unknown)
    }

    /// Removes the first unused dentry that no lookup has found since the hand last passed. None is found
    /// when all are held or claimed; then the shard grows.
    fn evict(&mut self) -> Binding {
        for _ in 0..2 * self.dentries.len() {
            self.hand = (self.hand + 1) % self.dentries.len();
            let dentry = &mut self.dentries[self.hand];
            if dentry.is_unused() && !std::mem::take(&mut dentry.used) {
                return self.remove(self.hand as u32);
            }
        }
        Binding::Unknown
    }

    fn take_unused(&mut self) -> Vec<Binding> {
        let is_unused = |slot: &u32| self.dentries[*slot as usize].is_unused();
        let all = 0..self.dentries.len() as u32;
        let mut unused = Vec::with_capacity(all.clone().filter(is_unused).count());
        unused.extend(all.filter(is_unused));
        let mut bindings = Vec::with_capacity(unused.len());
        bindings.extend(unused.into_iter().map(|slot| self.remove(slot)));
        bindings
    }
}

/// Names up to this long lie in the dentry itself.
const INLINE_BYTES: usize = 30;

enum Name {
    Inline { len: u8, bytes: [u8; INLINE_BYTES] },
    Long(Box<[u8]>),
}

impl Name {
    fn new(name: &[u8]) -> Self {
        if name.len() > INLINE_BYTES {
            return Self::Long(name.into());
        }
        let mut bytes = [0; INLINE_BYTES];
        bytes[..name.len()].copy_from_slice(name);
        Self::Inline { len: name.len() as u8, bytes }
    }

    #[inline]
    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Self::Long(name) => name,
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::{Machine, Schedule, Seed, Setup, TaskSpec};

    use super::*;

    const PARENT: Ino = Ino(1);

    /// Claims the names one after the other, and leaves what they lead to unknown, so that their places are free again.
    fn claim_all(dentries: &Dentries, names: &[String]) {
        let claim = |name: &String| {
            sim::interact();
            dentries.claim(PARENT, name.as_bytes()).0
        };
        for ticket in names.iter().map(claim).collect::<Vec<_>>() {
            sim::interact();
            dentries.settle(ticket, Binding::Unknown);
        }
    }

    /// Two tasks claim two names each in one order, as renames do, and a third the last of the names. That gives its place up to
    /// the first, which lies in the same shard, while the task that has the second begins to wait for it.
    #[test]
    fn a_task_waits_for_a_name_and_not_for_what_has_its_place_meanwhile() {
        let (middle, last) = ("m".to_owned(), "z".to_owned());
        let shard = |name: &String| shard_of(hash_of(PARENT, name.as_bytes()));
        let first =
            (0..10_000).map(|n| format!("a{n}")).find(|name| shard(name) == shard(&last)).expect("one is");
        for seed in 0..3_000 {
            let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
            let names = |of: &[&String]| of.iter().copied().cloned().collect::<Vec<_>>();
            let programs = [names(&[&middle, &last]), names(&[&first, &middle]), names(&[&last])];
            let (ended, _) = sim::explore(&setup, &Schedule::Random, move || {
                let dentries = Arc::new(Dentries::new(0));
                let start = |names: Vec<String>| {
                    let dentries = Arc::clone(&dentries);
                    sim::spawn(TaskSpec::named("claiming"), move || claim_all(&dentries, &names))
                };
                programs.map(start).into_iter().for_each(sim::JoinHandle::join);
                assert_eq!(dentries.len(), 0);
            });
            ended.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }
}
