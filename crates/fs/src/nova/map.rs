//! Which block holds which page of a file: a radix tree in DRAM.
//!
//! A [`Place`] is a data block and the log page that holds the entry which maps it, in one word; zero is a hole. Files of up to
//! [`SMALL`] pages have a plain array instead of a tree.

use sim::{Work, ran};

/// Slots of a node.
const FANOUT: u64 = 512;
const FANOUT_SHIFT: u32 = 9;
/// Pages that a file without a tree can have.
const SMALL: u64 = 64;

/// Where a page lies, and the log page of the entry that says so; block numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const HOLE: Self = Self(0);

    pub(crate) fn new(block: u64, log_page: u64) -> Self {
        Self(block | log_page << 32)
    }

    /// The number of the block; 0 in a hole.
    pub(crate) fn block(self) -> u64 {
        self.0 & 0xffff_ffff
    }

    /// The number of the log page.
    pub(crate) fn log_page(self) -> u64 {
        self.0 >> 32
    }

    /// The place of the next page, if one entry maps both.
    pub(crate) fn next(self) -> Self {
        Self::new(self.block() + 1, self.log_page())
    }

    pub(crate) fn is_hole(self) -> bool {
        self.block() == 0
    }
}

enum Node {
    Inner(Box<[Option<Node>]>),
    Leaf(Box<[Place]>),
}

impl Node {
    fn new(height: u32) -> Self {
        ran::allocate(1);
        match height {
            0 => Self::Leaf(vec![Place::HOLE; FANOUT as usize].into()),
            _ => Self::Inner((0..FANOUT).map(|_| None).collect()),
        }
    }
}

fn slot(page: u64, height: u32) -> usize {
    (page >> (FANOUT_SHIFT * height) & (FANOUT - 1)) as usize
}

/// The pages of one file.
#[derive(Default)]
pub(crate) struct BlockIndex {
    small: Vec<Place>,
    root: Option<Node>,
    height: u32,
    mapped: u64,
    /// No page from here on has a block.
    end: u64,
}

impl BlockIndex {
    /// Pages that have a block.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Where page `page` lies.
    #[inline]
    pub(crate) fn get(&self, page: u64) -> Place {
        let Some(mut node) = self.root.as_ref() else {
            return self.small.get(page as usize).copied().unwrap_or_default();
        };
        if page >> FANOUT_SHIFT >> (FANOUT_SHIFT * self.height) != 0 {
            return Place::HOLE;
        }
        ran::did(Work::NODE, u64::from(self.height) + 1);
        sim::work(Work::STEP, u64::from(self.height) + 1);
        let mut height = self.height;
        loop {
            match node {
                Node::Leaf(places) => return places[slot(page, 0)],
                Node::Inner(nodes) => match &nodes[slot(page, height)] {
                    Some(below) => node = below,
                    None => return Place::HOLE,
                },
            }
            height -= 1;
        }
    }

    /// Changes a page; answers what was there.
    pub(crate) fn set(&mut self, page: u64, place: Place) -> Place {
        if place.is_hole() && self.get(page).is_hole() {
            return Place::HOLE;
        }
        let old = std::mem::replace(self.slot_mut(page), place);
        if !place.is_hole() {
            self.mapped += 1;
            self.end = self.end.max(page + 1);
        }
        self.mapped -= u64::from(!old.is_hole());
        old
    }

    fn slot_mut(&mut self, page: u64) -> &mut Place {
        if self.root.is_none() {
            if page < SMALL {
                if self.small.len() <= page as usize {
                    ran::allocate(u64::from(self.small.capacity() <= page as usize));
                    // Most files have one page, and no more memory than for one.
                    if page == 0 {
                        self.small.reserve_exact(1);
                    }
                    self.small.resize(page as usize + 1, Place::HOLE);
                }
                return &mut self.small[page as usize];
            }
            ran::allocate(1);
            let mut leaf = std::mem::take(&mut self.small);
            leaf.resize(FANOUT as usize, Place::HOLE);
            (self.root, self.height) = (Some(Node::Leaf(leaf.into())), 0);
        }
        while page >> FANOUT_SHIFT >> (FANOUT_SHIFT * self.height) != 0 {
            ran::allocate(1);
            let below = self.root.take();
            let mut nodes: Box<[Option<Node>]> = (0..FANOUT).map(|_| None).collect();
            nodes[0] = below;
            (self.root, self.height) = (Some(Node::Inner(nodes)), self.height + 1);
        }
        ran::did(Work::NODE, u64::from(self.height) + 1);
        sim::work(Work::STEP, u64::from(self.height) + 1);
        let mut height = self.height;
        let mut node = self.root.get_or_insert_with(|| Node::new(height));
        loop {
            match node {
                Node::Leaf(places) => return &mut places[slot(page, 0)],
                Node::Inner(nodes) => {
                    node = nodes[slot(page, height)].get_or_insert_with(|| Node::new(height - 1));
                }
            }
            height -= 1;
        }
    }

    /// The first page from `page` on that has a block, and where it lies.
    pub(crate) fn next_mapped(&self, page: u64) -> Option<(u64, Place)> {
        match &self.root {
            _ if page >= self.end => None,
            None => {
                let rest = self.small.get(page as usize..)?;
                let found = rest.iter().position(|place| !place.is_hole())?;
                Some((page + found as u64, rest[found]))
            }
            Some(root) => next_below(root, self.height, page, 0),
        }
    }

    /// Calls `visit` for every page of `from..to` that has a block, in order.
    pub(crate) fn for_each(&self, from: u64, to: u64, mut visit: impl FnMut(u64, Place)) {
        let mut page = from;
        while let Some((found, place)) = self.next_mapped(page).filter(|(found, _)| *found < to) {
            visit(found, place);
            page = found + 1;
        }
    }

    /// Takes all pages of `from..to` out; gives those that had a block to `gone`, in order.
    pub(crate) fn cut(&mut self, from: u64, to: u64, mut gone: impl FnMut(u64, Place)) {
        let mut page = from;
        while let Some((found, place)) = self.next_mapped(page).filter(|(found, _)| *found < to) {
            self.set(found, Place::HOLE);
            gone(found, place);
            page = found + 1;
        }
        if to >= self.end {
            self.end = self.end.min(from);
        }
        if self.mapped == 0 {
            *self = Self::default();
        }
    }
}

/// The first mapped page at or after `from` below `node`, whose first page is `base`.
fn next_below(node: &Node, height: u32, from: u64, base: u64) -> Option<(u64, Place)> {
    let span = 1 << (FANOUT_SHIFT * height);
    let first = from.saturating_sub(base) / span;
    match node {
        Node::Leaf(places) => {
            let rest = places.get(first as usize..)?;
            let found = rest.iter().position(|place| !place.is_hole())?;
            Some((base + first + found as u64, rest[found]))
        }
        Node::Inner(nodes) => {
            let rest = (first..FANOUT).zip(nodes.get(first as usize..)?);
            rest.filter_map(|(slot, below)| Some((base + slot * span, below.as_ref()?)))
                .find_map(|(base, below)| next_below(below, height - 1, from, base))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_index_agrees_with_an_ordered_map() {
        for span in [40, 64, 65, 5_000, 1 << 20, 1 << 40] {
            let (mut index, mut model) = (BlockIndex::default(), BTreeMap::new());
            let mut x = 99_u64;
            for step in 1..3_000 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let page = (x >> 20) % span;
                match x >> 60 {
                    0..9 => {
                        let place = Place::new(step, 7);
                        let old = model.insert(page, place).unwrap_or_default();
                        assert_eq!(index.set(page, place), old);
                    }
                    9..12 => {
                        assert_eq!(index.set(page, Place::HOLE), model.remove(&page).unwrap_or_default());
                    }
                    12 => {
                        let mut gone = BTreeMap::new();
                        index.cut(page, page + 70, |page, place| {
                            gone.insert(page, place);
                        });
                        let kept = model.extract_if(page..page + 70, |_, _| true);
                        assert_eq!(gone, kept.collect());
                    }
                    _ => {
                        assert_eq!(index.get(page), model.get(&page).copied().unwrap_or_default());
                        let next = model.range(page..).next().map(|(page, place)| (*page, *place));
                        assert_eq!(index.next_mapped(page), next);
                    }
                }
                assert_eq!(index.mapped(), model.len() as u64);
            }
        }
    }
}
