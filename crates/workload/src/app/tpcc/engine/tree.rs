//! B+-trees over the pages in memory.
//!
//! Every function works on resident pages only, and names the first page that it misses: the caller gets that one and comes again.
//! A root keeps its page. Pages have no links to their neighbours: a scan goes on at the smallest key of the next page, by the key
//! that the pages above have of it. A page without entries leaves its tree and is not used again.

use super::log::Change;
use super::page::{self, CHILD};
use super::pool::{PageId, State};

/// Levels of a tree at most.
const LEVELS: usize = 12;

/// Where a tree is, and the bytes of its rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::app::tpcc) struct Tree {
    pub(super) file: u16,
    pub(super) root: u32,
    pub(super) row: usize,
}

/// The pages from the root to a leaf.
pub(super) struct Path {
    /// Frame of a page, and the entry that was followed.
    steps: [(u32, usize); LEVELS],
    depth: usize,
    /// The smallest key behind the leaf, if there is any.
    pub(super) fence: Option<u64>,
}

impl Path {
    pub(super) fn leaf(&self) -> u32 {
        self.steps[self.depth - 1].0
    }
}

/// A page that is needed and not in memory.
pub(super) type Found<T> = Result<T, PageId>;

impl State {
    /// The way to the leaf that has a key or would have it.
    pub(super) fn descend(&mut self, tree: Tree, key: u64) -> Found<Path> {
        let mut path = Path { steps: [(0, 0); LEVELS], depth: 0, fence: None };
        let mut block = tree.root;
        loop {
            let id = PageId { file: tree.file, block };
            let frame = self.resident(id).ok_or(id)?;
            let bytes = self.bytes(frame);
            path.steps[path.depth] = (frame, 0);
            path.depth += 1;
            if page::level(bytes) == 0 || path.depth == LEVELS {
                return Ok(path);
            }
            let at = page::way(bytes, key);
            path.steps[path.depth - 1].1 = at;
            if at + 1 < page::count(bytes) {
                path.fence = Some(page::key(bytes, at + 1));
            }
            block = page::child(bytes, at);
        }
    }

    /// The largest key of a tree.
    pub(super) fn last_key(&mut self, tree: Tree) -> Found<Option<u64>> {
        let path = self.descend(tree, u64::MAX)?;
        let leaf = self.bytes(path.leaf());
        Ok(page::count(leaf).checked_sub(1).map(|at| page::key(leaf, at)))
    }

    /// Puts in a row. The pages on the way must be resident, and a few frames free.
    pub(super) fn insert(&mut self, tree: Tree, key: u64, row: &[u8]) -> Found<()> {
        loop {
            let path = self.descend(tree, key)?;
            let leaf = path.leaf();
            if !page::is_full(self.bytes(leaf)) {
                let at = page::search(self.bytes(leaf), key);
                self.change(leaf, &Change::Insert(at, key, row));
                return Ok(());
            }
            let mut top = path.depth - 1;
            while top > 0 && page::is_full(self.bytes(path.steps[top - 1].0)) {
                top -= 1;
            }
            if top == 0 {
                self.grow(tree, path.steps[0].0);
            } else {
                self.split(tree, &path, top, key);
            }
        }
    }

    /// Gives the contents of a full root to a new page below it.
    fn grow(&mut self, tree: Tree, root: u32) {
        let (frame, block) = self.add_page(tree.file);
        let mut image = self.bytes(root)[..page::used(self.bytes(root))].to_vec();
        let level = page::level(&image);
        image[16..20].copy_from_slice(&block.to_le_bytes());
        self.change(frame, &Change::Image(&image));
        let mut top = vec![0; self.page_len()];
        page::format(&mut top, tree.file, tree.root, level + 1, CHILD);
        page::insert(&mut top, 0, 0, &block.to_le_bytes());
        let used = page::used(&top);
        self.change(root, &Change::Image(&top[..used]));
    }

    /// Splits the page of step `at` of a path; the page above has room.
    fn split(&mut self, tree: Tree, path: &Path, at: usize, key: u64) {
        let (left, above) = (path.steps[at].0, path.steps[at - 1]);
        let (right, block) = self.add_page(tree.file);
        let bytes = self.bytes(left);
        let (count, level) = (page::count(bytes), page::level(bytes));
        let place = page::split_at(bytes, page::search(bytes, key));
        let place = if level > 0 { place.clamp(1, count - 1) } else { place };
        let first = if place < count { page::key(bytes, place) } else { key };
        let mut image = vec![0; bytes.len()];
        page::format(&mut image, tree.file, block, level, page::row_len(bytes));
        page::take(&mut image, bytes, place);
        let used = page::used(&image);
        self.change(right, &Change::Image(&image[..used]));
        self.change(left, &Change::Truncate(place));
        self.change(above.0, &Change::Insert(above.1 + 1, first, &block.to_le_bytes()));
    }

    /// Changes bytes of a row; false where there is no such key.
    pub(super) fn update(&mut self, tree: Tree, key: u64, offset: usize, bytes: &[u8]) -> Found<bool> {
        let leaf = self.descend(tree, key)?.leaf();
        let at = page::find(self.bytes(leaf), key);
        if let Some(at) = at {
            self.change(leaf, &Change::Update(at, offset, bytes));
        }
        Ok(at.is_some())
    }

    /// Removes a row; false where there is no such key.
    pub(super) fn remove(&mut self, tree: Tree, key: u64) -> Found<bool> {
        let path = self.descend(tree, key)?;
        let leaf = path.leaf();
        let Some(at) = page::find(self.bytes(leaf), key) else { return Ok(false) };
        self.change(leaf, &Change::Remove(at));
        if page::count(self.bytes(leaf)) == 0 && path.depth > 1 {
            let (above, at) = path.steps[path.depth - 2];
            if page::count(self.bytes(above)) > 1 {
                self.change(above, &Change::Remove(at));
            }
        }
        Ok(true)
    }
}
