//! Mounting: all packages are read, after a clean unmount, too. Nothing is undone or redone, so nothing is stored but the word that
//! says that the file system is in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::vfs::FileKind;
use media::nvmm::Region;
use sim::Mutex;
use sim::map::TreeMap;
use sim::sync::AtomicU64;

use crate::alloc::Space;
use crate::dir::Dir;
use crate::inode::{Body, Contents, Inode, Inodes, RENAMES, SPACE, Setter, State};
use crate::layout::{BLOCK, Geometry, Kind, ROOT};
use crate::ledger::Ledger;
use crate::merge::{File, Merged, birth_of, key_of, merge};
use crate::mutant::{self, Rules};
use crate::package::{Key, Package, Place};
use crate::superblock;
use crate::traffic::Traffic;
use crate::vfs::{Ways, Wofs};
use base::error::{Error, Result};
use base::persist::free_map::FreeMap;

/// An image as a mount reads it.
pub(crate) struct Loaded {
    pub(crate) geometry: Geometry,
    /// Containers by block; of one with several bits, the first.
    pub(crate) containers: BTreeMap<u64, Kind>,
    /// Bits that no container may have: a second one of a block, or one of a block that cannot be a container.
    pub(crate) wrong_bits: Vec<(Kind, u64)>,
    pub(crate) found: BTreeMap<Place, Package>,
    /// Places that hold neither a package nor zeros: torn packages, and packages of which another one has left a part.
    pub(crate) rests: u64,
    /// Places that cannot be read.
    pub(crate) unreadable: Vec<(Kind, Place)>,
    pub(crate) saved: Option<u64>,
    pub(crate) merged: Merged,
}

/// Reads an image.
pub(crate) fn load(region: &Region, rules: Rules) -> Result<Loaded> {
    superblock::read(region, 0).or_else(|error| superblock::read(region, BLOCK).map_err(|_| error))?;
    let geometry = Geometry::of(region.len());
    let saved = superblock::saved(region).unwrap_or(None);
    let (containers, wrong_bits) = read_bits(region, &geometry)?;
    let mut loaded = Loaded {
        geometry,
        containers,
        wrong_bits,
        found: BTreeMap::new(),
        rests: 0,
        unreadable: Vec::new(),
        saved,
        merged: Merged::default(),
    };
    for (block, kind) in loaded.containers.clone() {
        loaded.read_container(region, block, kind, rules);
    }
    loaded.merged = merge(&loaded.found, rules);
    if !rules.lacks(mutant::VTAIL_FROM_ZERO) {
        loaded.merged.next = loaded.merged.next.max(saved.unwrap_or(0));
    }
    Ok(loaded)
}

type Bits = (BTreeMap<u64, Kind>, Vec<(Kind, u64)>);

fn read_bits(region: &Region, geometry: &Geometry) -> Result<Bits> {
    let (mut containers, mut wrong) = (BTreeMap::new(), Vec::new());
    for kind in Kind::ALL {
        for first in (0..geometry.blocks).step_by(64) {
            let mut word = region.load_u64(geometry.bit(kind, first).0)?;
            while word != 0 {
                let block = first + u64::from(word.trailing_zeros());
                word &= word - 1;
                if !geometry.holds(block) || containers.contains_key(&block) {
                    wrong.push((kind, block));
                } else {
                    containers.insert(block, kind);
                }
            }
        }
    }
    Ok((containers, wrong))
}

impl Loaded {
    fn read_container(&mut self, region: &Region, block: u64, kind: Kind, rules: Rules) {
        let mut bytes = vec![0; kind.bytes() as usize];
        for place in kind.places(block) {
            if region.peek(place, &mut bytes).is_err() {
                self.unreadable.push((kind, place));
                continue;
            }
            match Package::decode(kind, &bytes, rules) {
                Some(package) => drop(self.found.insert(place, package)),
                None => self.rests += u64::from(bytes.iter().any(|byte| *byte != 0)),
            }
        }
    }

    /// The CREATE at a place.
    pub(crate) fn create(&self, place: Place) -> Option<&crate::package::Create> {
        match self.found.get(&place) {
            Some(Package::Create(create)) => Some(create),
            _ => None,
        }
    }

    /// The birth of a file, as its packages have it.
    pub(crate) fn key(&self, file: &File) -> Option<Key> {
        file.names.first().and_then(|place| self.create(*place)).map(|create| create.key)
    }
}

/// Mounts an image that was checked.
pub(crate) fn mount(
    region: &Arc<Region>,
    loaded: &Loaded,
    Ways { extend, grows, regulation }: Ways,
    rules: Rules,
) -> Result<Wofs> {
    let Loaded { geometry, containers, found, merged, .. } = loaded;
    let mut ledger = Ledger::of(found, merged, rules);
    for (block, kind) in containers {
        for place in kind.places(*block).filter(|place| !found.contains_key(place)) {
            ledger.add_blank(*kind, place);
        }
    }
    let mut blocks = FreeMap::new(geometry.blocks);
    (geometry.first()..geometry.blocks).filter(|block| !containers.contains_key(block)).for_each(|block| {
        blocks.put(block);
    });
    for (_, piece) in merged.files.values().flat_map(|file| file.map.pieces()) {
        (piece.block..piece.block + piece.blocks).for_each(|block| {
            blocks.take(block);
        });
    }
    let inodes = inodes(loaded, grows, rules)?;
    let all: TreeMap<u64, Kind> = containers.iter().map(|(block, kind)| (*block, *kind)).collect();
    let space = Space::new(Arc::clone(region), (blocks, all), ledger, rules);
    superblock::save(region, None)?;
    Ok(Wofs {
        region: Arc::clone(region),
        inodes: Inodes::new(inodes.into_iter(), grows),
        space: Mutex::new(&SPACE, space),
        traffic: Traffic::new(regulation),
        renames: Mutex::new(&RENAMES, ()),
        next: AtomicU64::new(merged.next),
        extend,
        grows,
        rules,
    })
}

/// The inodes of an image, with their names.
fn inodes(loaded: &Loaded, grows: bool, rules: Rules) -> Result<Vec<Inode>> {
    let mut dirs: BTreeMap<u32, Dir> = BTreeMap::new();
    let mut subdirs: BTreeMap<u32, u32> = BTreeMap::new();
    let files = loaded.merged.files.values();
    for place in files.clone().flat_map(|file| &file.names) {
        let Some(create) = loaded.create(*place).filter(|create| create.parent != 0) else { continue };
        let kind = FileKind::from_mode(create.attributes.mode).ok_or_else(no_kind)?;
        let dir = dirs.entry(create.parent).or_insert_with(|| Dir::new(grows));
        dir.set(&create.name, create.key.0, kind, *place);
        *subdirs.entry(create.parent).or_default() += u32::from(kind == FileKind::Directory);
    }
    let mut inodes = Vec::new();
    for file in files {
        let key = loaded.key(file).ok_or_else(no_kind)?;
        let (parent, rdev, birth) = match loaded.create(file.names[0]) {
            Some(create) if create.parent == 0 => (ROOT, create.rdev, birth_of(create)),
            Some(create) => (create.parent, create.rdev, birth_of(create)),
            None => return Err(no_kind()),
        };
        let kind = FileKind::from_mode(file.attributes.mode).ok_or_else(no_kind)?;
        let body = match kind {
            FileKind::Directory => Body::Dir(dirs.remove(&key.0).unwrap_or_else(|| Dir::new(grows))),
            FileKind::Regular | FileKind::Symlink => Body::File(contents(loaded, file)),
            _ => Body::Node,
        };
        let links = match kind {
            FileKind::Directory => 2 + subdirs.get(&key.0).copied().unwrap_or(0),
            _ => file.names.len() as u32,
        };
        let mut attributes = file.attributes;
        let mut times_at_risk = false;
        if kind == FileKind::Directory
            && let Some((vtail, changed)) = loaded.merged.changed.get(&key.0)
            && *vtail > birth.max(newest_attributes(loaded, file))
        {
            (attributes.mtime, attributes.ctime, times_at_risk) = (*changed, *changed, true);
        }
        let state = State {
            attributes,
            rdev,
            links,
            named: true,
            is_free: false,
            times_at_risk,
            access_at_risk: false,
            body,
        };
        let inode = Inode::new(key_of(key, Rules::default()), kind, parent, state);
        inode.opens.admit();
        inodes.push(inode);
    }
    debug_assert!(!rules.lacks(mutant::BIRTH_IGNORED) || inodes.len() == loaded.merged.files.len());
    Ok(inodes)
}

/// The number of the package that says the attributes of a directory.
fn newest_attributes(loaded: &Loaded, file: &File) -> u64 {
    let names = file.names.iter().filter_map(|place| loaded.create(*place)).map(|create| create.vtail);
    names.chain(file.attr).max().unwrap_or(0)
}

fn contents(loaded: &Loaded, file: &File) -> Contents {
    let setter = file.log.iter().rev().find_map(|place| match &loaded.found[place] {
        Package::Data(data) if Some(data.vtail) == file.setter => Some(Setter {
            vtail: data.vtail,
            place: *place,
            first: data.first,
            block: data.block,
            blocks: data.blocks,
        }),
        _ => None,
    });
    Contents { size: file.size, map: file.map.clone(), setter, ..Contents::default() }
}

fn no_kind() -> Error {
    Error::Corrupt("an inode without a kind".to_owned())
}
