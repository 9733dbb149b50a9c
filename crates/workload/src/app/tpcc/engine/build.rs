//! A new database: files, and trees whose rows come in ascending order, written page after page.

use super::Server;
use super::files::{Calls, Done, File, Files};
use super::layer::Layer;
use super::page::{self, CHILD};
use super::tree::Tree;
use super::wal::{Note, make_log_file};

/// Pages that a tree gets at once: InnoDB's extent.
const EXTENT: u32 = 64;

/// A database that is being made.
pub(in crate::app::tpcc) struct Building<'a> {
    layer: Layer,
    files: Files<'a>,
    data: Vec<File>,
    trees: Vec<Tree>,
    /// Of each file the first page that no one has.
    next: Vec<u32>,
}

/// Makes directories and files.
pub(in crate::app::tpcc) fn create<'a>(server: &Server, calls: Calls<'a>) -> Done<Building<'a>> {
    let (layer, files) = (server.layer, Files::new(calls));
    layer.directories().iter().try_for_each(|path| files.mkdir(path))?;
    let count = layer.files(server.rows.len());
    let data = (0..count).map(|file| files.open(&layer.path(file), true)).collect::<Done<Vec<_>>>()?;
    let first = layer.log_place(layer.first_lsn()).0;
    let logs = match layer {
        Layer::Postgres => first..first + 1,
        Layer::InnoDb => 0..2,
    };
    for number in logs {
        files.close(&make_log_file(layer, &files, &layer.log_path(number))?)?;
    }
    Ok(Building { layer, files, data, trees: server.trees(), next: vec![layer.first_free(); count] })
}

impl Building<'_> {
    /// A tree that gets rows now.
    pub(in crate::app::tpcc) fn tree(&self, tree: usize) -> Builder {
        let at = self.trees[tree];
        let len = self.layer.page();
        let most = (page::capacity(len, at.row) * self.layer.fill() / 100).max(1);
        Builder {
            tree: at,
            page: new_page(at, len, 0, at.row),
            most,
            pending: Vec::new(),
            free: 0..0,
            below: Vec::new(),
        }
    }

    /// Writes the first page of each file and the note of a checkpoint.
    pub(in crate::app::tpcc) fn finish(self) -> Done {
        for (number, file) in self.data.iter().enumerate() {
            let mut first = vec![0; self.layer.page()];
            page::format(&mut first, number as u16, 0, 0, CHILD);
            page::insert(&mut first, 0, 0, &self.next[number].to_le_bytes());
            page::seal(&mut first);
            self.files.write(file, &first, 0)?;
            self.files.sync(file)?;
            self.files.close(file)?;
        }
        let note = Note { lsn: self.layer.first_lsn(), epoch: 1 };
        note.write(self.layer, &self.files, 0)
    }

    fn write(&self, tree: Tree, block: u32, bytes: &[u8]) -> Done {
        let file = &self.data[usize::from(tree.file)];
        self.files.write(file, bytes, u64::from(block) * self.layer.page() as u64)
    }
}

fn new_page(tree: Tree, len: usize, level: usize, row: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    page::format(&mut bytes, tree.file, 0, level, row);
    bytes
}

fn place(page: &mut [u8], block: u32) {
    page[16..20].copy_from_slice(&block.to_le_bytes());
    page::seal(page);
}

/// A tree that gets rows in ascending order.
pub(in crate::app::tpcc) struct Builder {
    tree: Tree,
    page: Vec<u8>,
    /// Entries of a leaf.
    most: usize,
    /// Pages of the extent that are not written yet.
    pending: Vec<u8>,
    /// What is left of the extent.
    free: std::ops::Range<u32>,
    /// First keys and numbers of the pages of the level that is being made.
    below: Vec<(u64, u32)>,
}

impl Builder {
    /// Adds the next row.
    pub(in crate::app::tpcc) fn add(&mut self, of: &mut Building<'_>, key: u64, row: &[u8]) -> Done {
        if page::count(&self.page) == self.most {
            self.emit(of)?;
        }
        let at = page::count(&self.page);
        page::insert(&mut self.page, at, key, row);
        Ok(())
    }

    /// Ends a page.
    fn emit(&mut self, of: &mut Building<'_>) -> Done {
        if self.free.is_empty() {
            self.write_pending(of)?;
            let next = &mut of.next[usize::from(self.tree.file)];
            self.free = *next..*next + EXTENT;
            *next += EXTENT;
        }
        let (level, row) = (page::level(&self.page), page::row_len(&self.page));
        let empty = new_page(self.tree, self.page.len(), level, row);
        let mut full = std::mem::replace(&mut self.page, empty);
        let block = self.free.start;
        self.free.start += 1;
        place(&mut full, block);
        self.below.push((page::key(&full, 0), block));
        self.pending.extend_from_slice(&full);
        Ok(())
    }

    fn write_pending(&mut self, of: &Building<'_>) -> Done {
        let count = (self.pending.len() / self.page.len()) as u32;
        if count > 0 {
            of.write(self.tree, self.free.start - count, &self.pending)?;
        }
        self.pending.clear();
        Ok(())
    }

    /// Writes what is left, and the levels above.
    pub(in crate::app::tpcc) fn finish(mut self, of: &mut Building<'_>) -> Done {
        let mut level = 0;
        let most = (page::capacity(self.page.len(), CHILD) * of.layer.fill() / 100).max(2);
        while !self.below.is_empty() {
            self.emit(of)?;
            level += 1;
            let below = std::mem::take(&mut self.below);
            let is_top = below.len() <= most;
            self.page = new_page(self.tree, self.page.len(), level, CHILD);
            for (key, block) in below {
                if page::count(&self.page) == most {
                    self.emit(of)?;
                }
                let at = page::count(&self.page);
                page::insert(&mut self.page, at, key, &block.to_le_bytes());
            }
            if is_top {
                break;
            }
        }
        self.write_pending(of)?;
        place(&mut self.page, self.tree.root);
        of.write(self.tree, self.tree.root, &self.page)
    }
}
