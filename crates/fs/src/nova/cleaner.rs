//! Cleaning of logs, when one is about to grow.
//!
//! *Fast*: a page in which nothing counts any more is taken out of the chain: the pointer before it, or the head, leads past it; a
//! fence; then the page is free. An entry counts while pages of the file, or a name, are where it says; removals, cuts, holes and
//! attributes count as long as the thorough cleaner leaves them ([`super::log::PageUse::pinned`]).
//!
//! *Thorough*: when what counts would fill less than half of the pages before the last. A new chain is written: one entry of
//! attributes and one of links as they are now, then for each entry that counts, in order, the part of it that does. Its last page
//! leads to the old last page, which stays as it is; a fence; the head changes; a fence; the old chain is free. Cuts, holes and
//! removals need no copy, because what they took back is not copied either. That attributes of now come before older entries of
//! the last page does no harm: each of those says what was so once, and the last of them what is so now.
//!
//! The last page is never touched, and nothing is seen of a cleaning: a crash leaves the old chain or the new one. One that
//! fails, or finds no space, leaves the log as it was.

use media::event::Mark;

use super::Volume;
use super::alloc::{Extent, Need};
use super::inode::{Changing, Loaded};
use sim::ran;

use super::layout::{BLOCK, LinksEntry, NO_TIME, NameEntry, SetEntry, WriteEntry, ino, kind, set};
use super::log::{Append, Entry, Log, PageUse, Reader};
use super::map::Place;
use super::mutant;
use super::parts;
use base::error::{Error, Result};

/// The longest run of entries that one call may append: a page's worth is looked at beforehand.
const AHEAD: u64 = 288;

/// What a thorough cleaning has moved.
enum Moved {
    Pages { first: u64, pages: u64, at: u64 },
    Name { known: super::dir::Known, at: u64 },
    Parent { at: u64 },
}

impl Volume {
    /// Cleans the log of an inode if it is about to grow.
    #[inline]
    pub(crate) fn make_log_room(&self, inode: &mut Changing<'_>) {
        let within = inode.log.tail % BLOCK;
        if inode.log.pages.len() < 2 || within + AHEAD <= self.geometry.log_room || !self.settings.cleaning {
            return;
        }
        // A log that cannot be cleaned grows.
        let _ = self.clean_log(inode);
    }

    fn clean_log(&self, inode: &mut Changing<'_>) -> Result<()> {
        let _part = sim::part(&parts::CLEAN_LOG);
        self.check_sound()?;
        let _scope = sim::scope(media::charges::METADATA);
        self.clean_fast(inode)?;
        let before = &inode.log.pages[..inode.log.pages.len() - 1];
        let live: u64 = before.iter().map(|page| page.live).sum();
        let entry = if inode.facts.is_dir() { 64 + 2 * 16 } else { 64 };
        let pages = (live * entry + 128).div_ceil(self.geometry.log_room);
        if before.len() > 1 && 2 * pages <= before.len() as u64 {
            return self.clean_thoroughly(inode);
        }
        Ok(())
    }

    fn is_dead(&self, page: &PageUse) -> bool {
        page.live == 0 && (page.pinned == 0 || self.has(mutant::CLEANER_DROPS_REMOVALS))
    }

    fn clean_fast(&self, inode: &mut Changing<'_>) -> Result<()> {
        let pages = &inode.log.pages;
        let last = pages.len() - 1;
        let stays = |at: &usize| *at == last || !self.is_dead(&pages[*at]);
        let kept = ran::collected((0..pages.len()).filter(stays));
        if kept.len() == pages.len() {
            return Ok(());
        }
        let head = inode.inode.offset + ino::HEAD;
        let mut before = None;
        for at in &kept {
            let expected = before.map_or(0, |before: usize| before + 1);
            if *at != expected {
                let link = before.map_or(head, |before| self.geometry.next_at(pages[before].page * BLOCK));
                self.region.mark(Mark::Commit { at: link, needs: &[] });
                self.region.store_u64(link, pages[*at].page * BLOCK)?;
                self.region.flush(link, 8);
            }
            before = Some(*at);
        }
        self.region.fence();
        let all = ran::collected(inode.log.pages.iter().copied());
        inode.log.set_pages(ran::collected(kept.iter().map(|at| all[*at])));
        let mut kept = kept.into_iter().peekable();
        for (_, use_of) in all.iter().enumerate().filter(|(at, _)| kept.next_if_eq(at).is_none()) {
            let page = use_of.page;
            self.region.mark(Mark::Free { off: page * BLOCK, len: BLOCK, pointer: head });
            self.blocks.put(Extent { offset: page * BLOCK, blocks: 1 })?;
        }
        self.counters.cleaned_fast();
        Ok(())
    }

    fn clean_thoroughly(&self, inode: &mut Changing<'_>) -> Result<()> {
        let mut chain = self.begin_append(&Log::default(), Need::Removal);
        let mut moved = Vec::new();
        if !self.has(mutant::CLEANER_DROPS_ATTRIBUTES) {
            self.append(&mut chain, &attributes_now(inode, inode.inode.access_is_logged()))?;
        }
        let links = LinksEntry {
            kind: kind::LINKS,
            links: inode.facts.links,
            ctime: inode.facts.ctime,
            ..LinksEntry::default()
        };
        self.append(&mut chain, &links)?;
        let last = inode.log.pages.last().map_or(0, |page| page.page);
        let ends = (inode.log.head(), inode.log.tail);
        let mut reader = Reader::new(&self.region, &self.geometry, inode.inode.ino, ends)?;
        while let Some((at, entry)) = reader.next()? {
            if at / BLOCK == last {
                break;
            }
            self.copy_entry(inode, &mut chain, (at, &entry), &mut moved)?;
        }
        let mut fresh = Log::default();
        let end = chain.end();
        let link = self.geometry.next_at(end / BLOCK * BLOCK);
        self.end_page(end)?;
        self.region.store_u64(link, last * BLOCK)?;
        self.region.flush(link, 8);
        self.region.fence();
        let head = inode.inode.offset + ino::HEAD;
        self.region.mark(Mark::Commit { at: head, needs: chain.needs() });
        self.region.store_u64(head, chain.first())?;
        self.region.flush(head, 8);
        self.region.fence();
        chain.apply(&mut fresh);
        self.follow_moves(inode, fresh, &moved)?;
        self.counters.cleaned_thoroughly();
        Ok(())
    }

    /// Copies the part of an entry that counts.
    fn copy_entry(
        &self,
        loaded: &Loaded,
        chain: &mut Append<'_>,
        (at, entry): (u64, &Entry),
        moved: &mut Vec<Moved>,
    ) -> Result<()> {
        match entry {
            Entry::Write(write) if write.block != 0 => {
                let mut first = 0;
                while first < write.pages {
                    let counts = |number: u64| {
                        let place = Place::new(write.block / BLOCK + number, at / BLOCK);
                        loaded.blocks.get(write.first + number) == place
                    };
                    let pages = (first..write.pages).take_while(|number| counts(*number)).count() as u64;
                    if pages > 0 {
                        let part = WriteEntry {
                            block: write.block + first * BLOCK,
                            first: write.first + first,
                            pages,
                            // Sizes and times come from the attributes: nothing may say less than they do.
                            size: loaded.facts.size,
                            time: NO_TIME,
                            ..*write
                        };
                        let at = self.append(chain, &part)?;
                        moved.push(Moved::Pages { first: part.first, pages, at });
                    }
                    first += pages.max(1);
                }
            }
            Entry::Name(header, name) if header.ino != 0 => {
                let name = name.as_bytes();
                if name == b".." {
                    if loaded.names.parent_at == at {
                        let at = self.append_name(chain, header_now(loaded, *header), name)?;
                        ran::push(moved, Moved::Parent { at });
                    }
                } else if let Some((_, known)) = loaded.names.find(&self.region, name)?
                    && known.at == at
                {
                    let at = self.append_name(chain, header_now(loaded, *header), name)?;
                    ran::push(moved, Moved::Name { known, at });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets DRAM follow a thorough cleaning, and frees the old chain.
    fn follow_moves(&self, inode: &mut Changing<'_>, fresh: Log, moved: &[Moved]) -> Result<()> {
        let old = ran::collected(inode.log.pages.iter().copied());
        let Some((last, gone)) = old.split_last() else {
            return Err(Error::Corrupt("a log without pages was cleaned".to_owned()));
        };
        let mut pages = fresh.pages;
        // Its first two entries: attributes and links.
        if let Some(first) = pages.first_mut() {
            first.pinned = 2;
        }
        ran::push(&mut pages, *last);
        let loaded = &mut **inode;
        loaded.log.set_pages(pages);
        for change in moved {
            match change {
                Moved::Pages { first, pages, at } => {
                    for page in *first..first + pages {
                        let place = loaded.blocks.get(page);
                        loaded.blocks.set(page, Place::new(place.block(), at / BLOCK));
                    }
                    loaded.log.add_live(at / BLOCK, *pages);
                }
                Moved::Name { known, at } => {
                    loaded.names.moved(known, *at);
                    loaded.log.add_live(at / BLOCK, 1);
                }
                Moved::Parent { at } => {
                    loaded.names.parent_at = *at;
                    loaded.log.add_live(at / BLOCK, 1);
                }
            }
        }
        for page in gone {
            let pointer = inode.inode.offset + ino::HEAD;
            self.region.mark(Mark::Free { off: page.page * BLOCK, len: BLOCK, pointer });
            self.blocks.put(Extent { offset: page.page * BLOCK, blocks: 1 })?;
        }
        Ok(())
    }
}

/// All attributes as they are now.
fn attributes_now(loaded: &Loaded, access_is_logged: bool) -> SetEntry {
    let facts = &loaded.facts;
    SetEntry {
        kind: kind::SET,
        mask: set::CLEANED | set::OTHER | if access_is_logged { set::ATIME } else { 0 },
        mode: facts.mode as u16,
        size: facts.size,
        atime: facts.atime,
        mtime: facts.mtime,
        ctime: facts.ctime,
        uid: facts.uid,
        gid: facts.gid,
        ..SetEntry::default()
    }
}

fn header_now(loaded: &Loaded, header: NameEntry) -> NameEntry {
    let links = u16::try_from(loaded.facts.links).unwrap_or(u16::MAX);
    NameEntry { links, time: NO_TIME, ..header }
}
