//! A small device, and what the operations of a file system store on it.
//!
//! A device has a few places for packages of each kind and a few blocks of two cells; a cell is half a block. The packages are
//! those of the design, and so are the ledger and the merge that say which may be written over and what a mount finds. After each
//! call the files are read from all packages again, so that nothing but the ledger is kept between calls.

use std::collections::{BTreeMap, BTreeSet};

use wofs::layout::{BLOCK, Kind};
use wofs::ledger::Ledger;
use wofs::merge::{File, Merged, merge};
use wofs::mutant::{self, Rules};
use wofs::package::{Attr, Attributes, Create, Data, Key, Package, Place, Unlink};

/// Bytes of a cell.
pub(crate) const CELL: u64 = BLOCK / 2;
/// The first block of those that are containers from the beginning.
const CONTAINERS: u64 = 100;

/// How many places a device has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Blocks for data, and for containers in a pool.
    pub(crate) blocks: u64,
    /// Places of each kind, in the order of [`Kind::ALL`].
    pub(crate) places: [u64; 4],
    /// Blocks become containers of two places where they are needed.
    pub(crate) pool: bool,
}

/// What a store writes.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Put(Place, Package),
    Erase(Place),
    Patch(Place, u64),
    /// Data, in which bytes may look like a package.
    Cells(u64, Vec<u32>, Option<Package>),
    Bit(u64, Option<Kind>),
}

/// What a power loss leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Medium {
    packages: BTreeMap<Place, Package>,
    /// Patched sizes, with the number of the package that they were stored for.
    patches: BTreeMap<Place, (u64, u64)>,
    cells: BTreeMap<u64, [u32; 2]>,
    bits: BTreeMap<u64, Kind>,
}

/// A file as programs see it: its mode, its cells.
type Contents = (u32, Vec<u32>);

/// What programs must see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Want {
    pub(crate) names: BTreeMap<u8, u32>,
    pub(crate) files: BTreeMap<u32, Contents>,
}

/// A tree: each name with its file, and the first name of that file.
pub(crate) type Tree = BTreeMap<u8, (Contents, u8)>;

impl Want {
    pub(crate) fn tree(&self) -> Tree {
        let first = |id: u32| *self.names.iter().find(|(_, other)| **other == id).expect("it has a name").0;
        self.names.iter().map(|(name, id)| (*name, (self.files[id].clone(), first(*id)))).collect()
    }

    pub(crate) fn drop_nameless(&mut self) {
        let named: BTreeSet<u32> = self.names.values().copied().collect();
        self.files.retain(|id, _| named.contains(id));
    }
}

/// A mounted device.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) setup: Setup,
    pub(crate) rules: Rules,
    pub(crate) medium: Medium,
    pub(crate) ledger: Ledger,
    pub(crate) next: u64,
    pub(crate) want: Want,
    /// Stores that no fence has completed.
    pub(crate) pending: Vec<Store>,
    pub(crate) token: u32,
    pub(crate) trace: Vec<String>,
}

impl Medium {
    /// The packages that a mount reads.
    pub(crate) fn found(&self, rules: Rules) -> BTreeMap<Place, Package> {
        let in_container = |place: &Place, kind| self.bits.get(&(place / BLOCK)) == Some(&kind);
        let packages = self.packages.iter().filter(|(place, package)| in_container(place, package.kind()));
        let mut found: BTreeMap<Place, Package> =
            packages.map(|(place, package)| (*place, package.clone())).collect();
        for (place, (vtail, size)) in &self.patches {
            if let Some(Package::Data(data)) = found.get_mut(place)
                && (data.vtail == *vtail || rules.lacks(mutant::PATCH_NOT_TAGGED))
            {
                data.size = *size;
            }
        }
        found
    }

    /// How many outcomes a store has: old, new, torn, and a line of which a word is old.
    pub(crate) fn outcomes(&self, store: &Store) -> usize {
        match store {
            Store::Put(place, Package::Data(_)) if self.patches.contains_key(place) => 4,
            Store::Put(..) => 3,
            _ => 2,
        }
    }

    pub(crate) fn apply(&mut self, store: &Store, outcome: usize, rules: Rules) {
        match (outcome, store) {
            (0, _) => {}
            (2, Store::Put(place, package)) => {
                self.patches.remove(place);
                match torn(package).filter(|_| rules.lacks(mutant::CRC_NOT_CHECKED)) {
                    Some(torn) => self.packages.insert(*place, torn),
                    None => self.packages.remove(place),
                };
            }
            (_, Store::Put(place, package)) => {
                if outcome == 1 {
                    self.patches.remove(place);
                }
                self.packages.insert(*place, package.clone());
            }
            (_, Store::Erase(place)) => drop((self.packages.remove(place), self.patches.remove(place))),
            (_, Store::Patch(place, size)) => {
                let vtail = self.packages.get(place).map_or(0, Package::vtail);
                self.patches.insert(*place, (vtail, *size));
            }
            (_, Store::Cells(block, tokens, forged)) => {
                for (at, pair) in (*block..).zip(tokens.chunks(2)) {
                    self.clear(at);
                    self.cells.insert(at, [pair[0], pair[1]]);
                }
                if let Some(package) = forged {
                    self.packages.insert(block * BLOCK + package.kind().bytes(), package.clone());
                }
            }
            (_, Store::Bit(block, Some(kind))) => drop(self.bits.insert(*block, *kind)),
            (_, Store::Bit(block, None)) => drop(self.bits.remove(block)),
        }
    }

    /// A block is of zeros.
    pub(crate) fn clear(&mut self, block: u64) {
        self.packages.retain(|place, _| place / BLOCK != block);
        self.patches.retain(|place, _| place / BLOCK != block);
        self.cells.insert(block, [0; 2]);
    }

    pub(crate) fn zero_cell(&mut self, block: u64, cell: usize) {
        self.cells.entry(block).or_default()[cell] = 0;
    }

    pub(crate) fn cell(&self, block: u64, cell: usize) -> u32 {
        self.cells.get(&block).map_or(0, |cells| cells[cell])
    }
}

/// A package of which some bytes are old.
fn torn(package: &Package) -> Option<Package> {
    let mut torn = package.clone();
    match &mut torn {
        Package::Create(create) => create.name = vec![b'z'],
        Package::Data(data) => (data.first, data.size) = (0, 0),
        Package::Attr(attr) => attr.size = 0,
        Package::Unlink(_) => return None,
    }
    Some(torn)
}

impl World {
    pub(crate) fn new(setup: Setup, rules: Rules) -> Self {
        let mut medium = Medium::default();
        for (kind, places) in Kind::ALL.into_iter().zip(setup.places) {
            if places > 0 {
                medium.bits.insert(CONTAINERS + kind.index() as u64, kind);
            }
        }
        let want = Want::default();
        Self::mount(setup, rules, medium, want)
    }

    /// What a mount makes of a device.
    pub(crate) fn mount(setup: Setup, rules: Rules, medium: Medium, want: Want) -> Self {
        let found = medium.found(rules);
        let merged = merge(&found, rules);
        let mut ledger = Ledger::of(&found, &merged, rules);
        for (block, kind) in &medium.bits {
            for place in places(setup, *block, *kind).filter(|place| !found.contains_key(place)) {
                ledger.add_blank(*kind, place);
            }
        }
        let used = medium.cells.values().flatten().copied().max().unwrap_or(0);
        let (next, token) = (merged.next, used + 1);
        Self { setup, rules, medium, ledger, next, want, pending: Vec::new(), token, trace: Vec::new() }
    }

    pub(crate) fn merged(&self) -> (BTreeMap<Place, Package>, Merged) {
        let found = self.medium.found(self.rules);
        let merged = merge(&found, self.rules);
        (found, merged)
    }

    pub(crate) fn places(&self, block: u64, kind: Kind) -> Vec<Place> {
        places(self.setup, block, kind).collect()
    }

    pub(crate) fn kind_of(&self, block: u64) -> Option<Kind> {
        self.medium.bits.get(&block).copied()
    }

    /// Runs of blocks that nothing uses.
    pub(crate) fn free_run(
        &self,
        merged: &Merged,
        found: &BTreeMap<Place, Package>,
        blocks: u64,
    ) -> Option<u64> {
        let mut used: BTreeSet<u64> = self.medium.bits.keys().copied().collect();
        // A bit that is going, or coming, is not on the medium yet.
        used.extend(self.pending.iter().filter_map(|store| match store {
            Store::Bit(block, Some(_)) => Some(*block),
            _ => None,
        }));
        for store in &self.pending {
            if let Store::Bit(block, None) = store {
                used.remove(block);
            }
        }
        for file in merged.files.values() {
            used.extend(file.map.pieces().flat_map(|(_, piece)| piece.block..piece.block + piece.blocks));
            if let Some(data) = setter(found, file).filter(|_| !self.rules.lacks(mutant::NOT_RESERVED)) {
                let mapped = data.size.div_ceil(BLOCK).saturating_sub(data.first).min(data.blocks);
                used.extend(data.block + mapped..data.block + data.blocks);
            }
        }
        (0..self.setup.blocks.saturating_sub(blocks - 1))
            .find(|first| (*first..first + blocks).all(|at| !used.contains(&at)))
    }

    /// What programs see; an error where two names are one.
    pub(crate) fn tree(&self) -> Result<Tree, String> {
        let (found, merged) = self.merged();
        let mut names: BTreeMap<u8, Key> = BTreeMap::new();
        for (key, file) in &merged.files {
            for place in &file.names {
                let Package::Create(create) = &found[place] else { continue };
                if names.insert(create.name[0], *key).is_some() {
                    return Err(format!("the name {} is there twice", create.name[0] as char));
                }
            }
        }
        let contents = |key: Key| (merged.files[&key].attributes.mode, self.contents(&merged.files[&key]));
        let first = |key: Key| *names.iter().find(|(_, other)| **other == key).expect("it has a name").0;
        Ok(names.iter().map(|(name, key)| (*name, (contents(*key), first(*key)))).collect())
    }

    pub(crate) fn contents(&self, file: &File) -> Vec<u32> {
        let cell = |at: u64| {
            file.map.find(at / 2).map_or(0, |piece| self.medium.cell(piece.block, (at % 2) as usize))
        };
        (0..file.size / CELL).map(cell).collect()
    }

    /// What tells this world from others: numbers by their order, tokens by their first use.
    pub(crate) fn fingerprint(&self) -> String {
        let mut numbers: BTreeSet<u64> = BTreeSet::from([self.next]);
        for package in self.medium.packages.values() {
            numbers.extend([package.vtail(), u64::from(package.key().1), package.largest(Rules::default())]);
        }
        let order: BTreeMap<u64, usize> =
            numbers.iter().enumerate().map(|(at, number)| (*number, at)).collect();
        let mut seen = BTreeMap::new();
        let mut token = |cell: u32| {
            let next = seen.len();
            if cell == 0 { 0 } else { *seen.entry(cell).or_insert(next + 1) }
        };
        let cells: Vec<_> =
            self.medium.cells.iter().map(|(at, cells)| (*at, token(cells[0]), token(cells[1]))).collect();
        let packages: Vec<_> =
            self.medium.packages.iter().map(|(at, one)| (*at, renumbered(one, &order))).collect();
        let patches: Vec<_> =
            self.medium.patches.iter().map(|(at, (by, size))| (*at, order.get(by), *size)).collect();
        let free: Vec<_> = Kind::ALL.map(|kind| self.ledger.free_places(kind)).into_iter().collect();
        format!("{packages:?}{patches:?}{cells:?}{:?}{free:?}{:?}", self.medium.bits, self.pending)
    }
}

fn renumbered(package: &Package, order: &BTreeMap<u64, usize>) -> Package {
    let number = |vtail: u64| order.get(&vtail).map_or(u64::MAX, |at| *at as u64);
    let key = |key: Key| (key.0, number(u64::from(key.1)) as u32);
    match package.clone() {
        Package::Create(one) => {
            Package::Create(Create { vtail: number(one.vtail), key: key(one.key), ..one })
        }
        Package::Unlink(one) => {
            let mate = one.mate.map(|(place, vtail)| (place, number(vtail)));
            Package::Unlink(Unlink { vtail: number(one.vtail), key: key(one.key), mate, ..one })
        }
        Package::Data(one) => Package::Data(Data { vtail: number(one.vtail), key: key(one.key), ..one }),
        Package::Attr(one) => Package::Attr(Attr { vtail: number(one.vtail), key: key(one.key), ..one }),
    }
}

/// The newest package that sets the size of a file, if it is a DATA.
pub(crate) fn setter(found: &BTreeMap<Place, Package>, file: &File) -> Option<Data> {
    file.log.iter().rev().find_map(|place| match &found[place] {
        Package::Data(data) if Some(data.vtail) == file.setter => Some(*data),
        _ => None,
    })
}

fn places(setup: Setup, block: u64, kind: Kind) -> impl Iterator<Item = Place> {
    let count = if block >= CONTAINERS { setup.places[kind.index()] } else { 2 };
    (0..count).map(move |place| block * BLOCK + place * kind.bytes())
}

/// Attributes of which only the mode matters here.
pub(crate) fn attributes(mode: u32) -> Attributes {
    Attributes { mode, ..Attributes::default() }
}
