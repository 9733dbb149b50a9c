//! Maps that charge for what they do: those of the standard library, whose searches and changes by a key are charged as in
//! [`crate::ran`], and counted for its check.
//!
//! Each searched or changed node is one [`Work::NODE`], whose price has its share in the memory of the map: blocks that a map gets
//! as it grows are in no tally. Iteration is not charged: what it visits is used by other work, which has a price.
//!
//! A charge may let other tasks run, so a map is kept under a lock of [`crate::sync`], or where no other task comes.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, btree_map, btree_set};
use std::hash::Hash;
use std::ops::{Deref, DerefMut, RangeBounds};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::machine::Work;
use crate::ran;

/// Keys of a node of the standard library's tree, at least 5 and at most 11: 8, as a power of two.
const NODE_KEYS_LOG: u32 = 3;

/// Nodes that a search of an ordered map of `len` keys is charged for: those on the way from its root to a leaf.
#[inline]
pub fn height(len: usize) -> u64 {
    u64::from((len as u64 + 1).ilog2() / NODE_KEYS_LOG) + 1
}

#[inline]
fn visit(nodes: u64) {
    ran::did(Work::NODE, nodes);
    ran::node(nodes);
}

/// An ordered map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TreeMap<K: Ord, V>(BTreeMap<K, V>);

impl<K: Ord, V> TreeMap<K, V> {
    /// An empty map, which has no memory.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// The value of `key`.
    #[inline]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        visit(height(self.0.len()));
        self.0.get(key)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        visit(height(self.0.len()));
        self.0.get_mut(key)
    }

    /// Whether `key` has a value.
    #[inline]
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        visit(height(self.0.len()));
        self.0.contains_key(key)
    }

    /// Gives `key` a value, and answers the one that it had.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        visit(height(self.0.len()));
        let _own = ran::aside();
        self.0.insert(key, value)
    }

    /// The value of `key`, which is the default one if there was none.
    #[inline]
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        visit(height(self.0.len()));
        let _own = ran::aside();
        self.0.entry(key).or_default()
    }

    /// Takes `key` out, and answers its value.
    #[inline]
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        visit(height(self.0.len()));
        self.0.remove(key)
    }

    /// The keys of a range; finding its ends is charged.
    #[inline]
    pub fn range<Q: Ord + ?Sized>(&self, range: impl RangeBounds<Q>) -> btree_map::Range<'_, K, V>
    where
        K: Borrow<Q>,
    {
        visit(height(self.0.len()));
        self.0.range(range)
    }
}

impl<K: Ord, V> Default for TreeMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> Deref for TreeMap<K, V> {
    type Target = BTreeMap<K, V>;
    fn deref(&self) -> &BTreeMap<K, V> {
        &self.0
    }
}

impl<K: Ord, V> DerefMut for TreeMap<K, V> {
    fn deref_mut(&mut self) -> &mut BTreeMap<K, V> {
        &mut self.0
    }
}

impl<'a, K: Ord, V> IntoIterator for &'a TreeMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = btree_map::Iter<'a, K, V>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, K: Ord, V> IntoIterator for &'a mut TreeMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = btree_map::IterMut<'a, K, V>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for TreeMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(all: I) -> Self {
        let mut map = Self::new();
        all.into_iter().for_each(|(key, value)| drop(map.insert(key, value)));
        map
    }
}

/// An ordered set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSet<K: Ord>(BTreeSet<K>);

impl<K: Ord> TreeSet<K> {
    /// An empty set, which has no memory.
    pub const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// Adds `key`; false when it was there.
    #[inline]
    pub fn insert(&mut self, key: K) -> bool {
        visit(height(self.0.len()));
        let _own = ran::aside();
        self.0.insert(key)
    }

    /// Takes `key` out; false when it was not there.
    #[inline]
    pub fn remove(&mut self, key: &K) -> bool {
        visit(height(self.0.len()));
        self.0.remove(key)
    }
}

impl<K: Ord> Default for TreeSet<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord> Deref for TreeSet<K> {
    type Target = BTreeSet<K>;
    fn deref(&self) -> &BTreeSet<K> {
        &self.0
    }
}

impl<K: Ord> DerefMut for TreeSet<K> {
    fn deref_mut(&mut self) -> &mut BTreeSet<K> {
        &mut self.0
    }
}

impl<'a, K: Ord> IntoIterator for &'a TreeSet<K> {
    type Item = &'a K;
    type IntoIter = btree_set::Iter<'a, K>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A hash map with a fixed seed, whose keys are hashed as so many bytes as they have.
#[derive(Clone, Debug)]
pub struct HashMap<K, V>(FxHashMap<K, V>);

impl<K: Eq + Hash, V> HashMap<K, V> {
    #[inline]
    fn visit() {
        let bytes = size_of::<K>() as u64;
        ran::did(Work::HASH, bytes.div_ceil(16));
        ran::hash(bytes);
        visit(1);
    }

    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        Self::visit();
        self.0.get(key)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        Self::visit();
        self.0.get_mut(key)
    }

    /// The value of `key`, which is the default one if there was none.
    #[inline]
    pub fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        Self::visit();
        let _own = ran::aside();
        self.0.entry(key).or_default()
    }

    /// Gives `key` a value, and answers the one that it had.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        Self::visit();
        let _own = ran::aside();
        self.0.insert(key, value)
    }

    /// Takes `key` out, and answers its value.
    #[inline]
    pub fn remove(&mut self, key: &K) -> Option<V> {
        Self::visit();
        self.0.remove(key)
    }
}

impl<K, V> Default for HashMap<K, V> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K, V> Deref for HashMap<K, V> {
    type Target = FxHashMap<K, V>;
    fn deref(&self) -> &FxHashMap<K, V> {
        &self.0
    }
}

impl<K, V> DerefMut for HashMap<K, V> {
    fn deref_mut(&mut self) -> &mut FxHashMap<K, V> {
        &mut self.0
    }
}
