//! Objects on the medium, whose type says what was stored to them last, and whether that is durable.
//!
//! An [`Object`] is an inode, a dentry, or some pages with their descriptors. Its type has three parameters: what it is, whether
//! its last change is [`Dirty`], [`InFlight`] or [`Durable`], and which change it was, as [`Named`] or [`Cleared`]. A change
//! takes a durable object and gives a dirty one, [`Object::flush`] makes that in flight, and only [`fence`] makes it durable. A
//! change that must not be durable before another one wants the proof of that: a reference to an object in the state that is
//! needed. So a program that stores in the wrong order does not compile. What a crash leaves of each state is in
//! `docs/designs/squirrelfs.md`.
//!
//! | rule | held by |
//! |---|---|
//! | a name leads to an inode only when both are durable | [`Dentry::lead_to`] |
//! | a second name comes after its link is counted | [`Dentry::lead_to`] with [`MoreLinks`] |
//! | a link is dropped only when the name leads there no more | [`Inode::drop_link`] |
//! | a size grows only over contents that are durable | [`Inode::grow`] |
//! | pages are let go only when no size covers them, or their inode is dead | [`Pages::disown`] |
//! | a page is described as free only when it has no owner | [`Pages::forget`] |
//! | a page of names has its owner only when it is zero | [`Pages::own_names`] |
//! | an inode is erased only when its pages are free | [`Inode::erase`] |
//! | the old name goes only after the new one stands | [`Dentry::give_way`] |
//! | the pointer to the old name goes only after that leads nowhere | [`Dentry::clear_source`] |
//!
//! A name that leads to an inode in flight does not compile:
//!
//! ```compile_fail,E0308
//! use squirrelfs::object::{Dentry, Durable, InFlight, Initialised, Inode, Named};
//! fn wrong(name: Dentry<'_, Durable, Named>, inode: &Inode<'_, InFlight, Initialised>) {
//!     let _ = name.lead_to(inode);
//! }
//! ```
//!
//! Neither does one whose own bytes may be lost, one to an inode with a link too few, or a link that is dropped too early:
//!
//! ```compile_fail,E0599
//! use squirrelfs::object::{Dentry, Durable, InFlight, Initialised, Inode, Named};
//! fn wrong(name: Dentry<'_, InFlight, Named>, inode: &Inode<'_, Durable, Initialised>) {
//!     let _ = name.lead_to(inode);
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use squirrelfs::object::{Dentry, Durable, Inode, Live, Named};
//! fn wrong(name: Dentry<'_, Durable, Named>, inode: &Inode<'_, Durable, Live>) {
//!     let _ = name.lead_to(inode);
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use squirrelfs::object::{Complete, Dentry, Durable, Inode, Live};
//! fn wrong(inode: Inode<'_, Durable, Live>, name: &Dentry<'_, Durable, Complete>) {
//!     let _ = inode.drop_link(0, name);
//! }
//! ```
//!
//! Nor a size over contents that are not durable, pages that are let go while a size covers them, or freed while they have an
//! owner:
//!
//! ```compile_fail,E0308
//! use squirrelfs::object::{Durable, InFlight, Inode, Live, Pages, Written};
//! fn wrong(inode: Inode<'_, Durable, Live>, pages: &Pages<'_, InFlight, Written>) {
//!     let _ = inode.grow(4096, 0, pages);
//! }
//! ```
//!
//! ```compile_fail,E0277
//! use squirrelfs::object::{Durable, Inode, Live, Owned, Pages};
//! fn wrong(pages: Pages<'_, Durable, Owned>, inode: &Inode<'_, Durable, Live>) {
//!     let _ = pages.disown(inode);
//! }
//! ```
//!
//! ```compile_fail,E0599
//! use squirrelfs::object::{Durable, Owned, Pages};
//! fn wrong(pages: Pages<'_, Durable, Owned>) {
//!     let _ = pages.forget();
//! }
//! ```
//!
//! Nor a page of names that is not zero, or an inode that goes before its pages:
//!
//! ```compile_fail,E0599
//! use squirrelfs::object::{Described, Durable, Inode, Live, Pages};
//! fn wrong(page: Pages<'_, Durable, Described>, dir: &Inode<'_, Durable, Live>) {
//!     let _ = page.own_names(dir);
//! }
//! ```
//!
//! ```compile_fail,E0308
//! use squirrelfs::object::{Dead, Disowned, Durable, Inode, Pages};
//! fn wrong(inode: Inode<'_, Durable, Dead>, pages: &Pages<'_, Durable, Disowned>) {
//!     let _ = inode.erase(pages);
//! }
//! ```
//!
//! In a rename, the old name does not go before the new one stands, nor the pointer before the old name:
//!
//! ```compile_fail,E0308
//! use squirrelfs::object::{Complete, Dentry, Durable, Pointing};
//! fn wrong(old: Dentry<'_, Durable, Complete>, new: &Dentry<'_, Durable, Pointing>) {
//!     let _ = old.give_way(new);
//! }
//! ```
//!
//! ```compile_fail,E0308
//! use squirrelfs::object::{Complete, Dentry, Durable, Renamed};
//! fn wrong(new: Dentry<'_, Durable, Renamed>, old: &Dentry<'_, Durable, Complete>) {
//!     let _ = new.clear_source(old);
//! }
//! ```
//!
//! And an object that was changed does not become durable without its flush and a fence:
//!
//! ```compile_fail,E0277
//! use squirrelfs::object::{Dentry, Dirty, Named, Region, fence};
//! fn wrong(region: &Region, name: Dentry<'_, Dirty, Named>) {
//!     let _ = fence(region, name);
//! }
//! ```
//!
//! The same steps in their order compile:
//!
//! ```
//! # use squirrelfs::object::{Complete, Dead, Described, Dirty, Disowned, InFlight, Initialised, Live, Named};
//! # use squirrelfs::object::{Owned, Pages, Pointing, Renamed, Written};
//! use squirrelfs::object::{Dentry, Durable, Free, Inode, MediaError, Region, fence};
//! fn right(region: &Region, dentry: Dentry<'_, Durable, Free>, inode: Inode<'_, Durable, Free>) -> Result<(), MediaError> {
//!     let name = fence(region, dentry.name(b"name", false)?.flush());
//!     let inode = fence(region, inode.initialise(&Default::default())?.flush());
//!     let _whole = fence(region, name.lead_to(&inode)?.flush());
//!     Ok(())
//! }
//! ```

use std::marker::PhantomData;

use media::event::Mark;
pub use media::{MediaError, Region};
use sim::ByteRun;
use zerocopy::IntoBytes;

pub use crate::layout::RawInode;
use crate::layout::{
    CONTENTS, DENTRY_BYTES, DESCRIPTOR_BYTES, INODE_BYTES, NAME_MAX, NAMES, PAGE, RawDentry, RawDescriptor,
    dentry, descriptor, ino,
};

type Result<T> = std::result::Result<T, MediaError>;

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        $($(#[$doc])* #[derive(Debug)] pub enum $name {})*
    };
}

states! {
    /// It was changed, and no line of it was flushed since.
    Dirty,
    /// Its lines are flushed, and no fence has come since.
    InFlight,
    /// Its last change is durable.
    Durable,
    /// An inode or dentry that is all zero.
    Free,
    /// An inode in use, of which nothing else is to be known.
    Live,
    /// A new inode has all its fields.
    Initialised,
    /// An inode counts a link more than it has names.
    MoreLinks,
    /// An inode counts a link less than before.
    FewerLinks,
    /// The size of an inode became smaller.
    Shrunk,
    /// An inode has no name, and is not open.
    Dead,
    /// A dentry has its name, and leads nowhere.
    Named,
    /// A dentry has a name and leads to an inode.
    Complete,
    /// A dentry does not lead any more where it did.
    Cleared,
    /// A dentry names the one whose place it will take.
    Pointing,
    /// A dentry has taken the place of the one that it points to, which leads to the same inode still.
    Renamed,
    /// A dentry leads nowhere, since another one has taken its place.
    MovedAway,
    /// Descriptors that are all zero.
    Unused,
    /// Descriptors of contents that say which part of a file they are for.
    Placed,
    /// A descriptor that says that its page is for names.
    Described,
    /// A page for names is zero.
    Zeroed,
    /// Pages that an inode has for its contents.
    Owned,
    /// A page that a directory has for its names.
    OfNames,
    /// The contents of pages were stored.
    Written,
    /// Descriptors whose pages have no owner any more.
    Disowned,
}

/// An inode to which a name may lead.
pub trait Nameable {}
impl Nameable for Initialised {}
impl Nameable for MoreLinks {}

/// A dentry that does not lead any more to the inode that it led to before.
pub trait LeadsElsewhere {}
impl LeadsElsewhere for Cleared {}
impl LeadsElsewhere for Renamed {}
impl LeadsElsewhere for MovedAway {}

/// An inode that lets its pages go, those behind its size or all.
pub trait LetsGo {}
impl LetsGo for Shrunk {}
impl LetsGo for Dead {}

/// An inode that may get contents.
pub trait Grows {}
impl Grows for Live {}
impl Grows for Initialised {}

/// A kind of object of a fixed size at one place.
pub trait Kind {
    /// Bytes of the object.
    const BYTES: u64;
}

/// The kind of [`Inode`].
#[derive(Debug)]
pub enum InodeKind {}
impl Kind for InodeKind {
    const BYTES: u64 = INODE_BYTES;
}

/// The kind of [`Dentry`].
#[derive(Debug)]
pub enum DentryKind {}
impl Kind for DentryKind {
    const BYTES: u64 = DENTRY_BYTES;
}

/// An object on the medium: its kind, whether its last change is durable, and which one that was.
#[must_use]
#[derive(Debug)]
pub struct Object<'v, K, P, S> {
    region: &'v Region,
    at: u64,
    state: PhantomData<Tag<K, P, S>>,
}

/// The three parameters of an object, of which it has no value.
type Tag<K, P, S> = fn() -> (K, P, S);

/// An inode.
pub type Inode<'v, P, S> = Object<'v, InodeKind, P, S>;
/// A name in a directory.
pub type Dentry<'v, P, S> = Object<'v, DentryKind, P, S>;

impl<'v, K: Kind, P, S> Object<'v, K, P, S> {
    /// The object in another state.
    fn to<Q, T>(&self) -> Object<'v, K, Q, T> {
        Object { region: self.region, at: self.at, state: PhantomData }
    }

    /// Where it lies.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    fn word(&self, field: u64, value: u64) -> Result<()> {
        self.region.store_u64(self.at + field, value)
    }

    /// Stores the word that makes others count, which must be durable by now.
    fn commit(&self, field: u64, value: u64, needs: &[ByteRun]) -> Result<()> {
        self.region.mark(Mark::Commit { at: self.at + field, needs });
        self.word(field, value)
    }
}

impl<'v, K: Kind, S> Object<'v, K, Durable, S> {
    /// An object of which the caller knows, by its index and under the lock of the inode, that it is in this state.
    pub(crate) fn found(region: &'v Region, at: u64) -> Self {
        Self { region, at, state: PhantomData }
    }
}

impl<'v, K: Kind, S> Object<'v, K, Dirty, S> {
    /// Writes all its lines back, as the published code does, changed or not.
    #[track_caller]
    pub fn flush(self) -> Object<'v, K, InFlight, S> {
        self.region.flush(self.at, K::BYTES);
        self.to()
    }

    /// Leaves the flush out: a seeded bug.
    pub(crate) fn unflushed(self) -> Object<'v, K, InFlight, S> {
        self.to()
    }
}

/// Objects in flight, alone or several, which a fence makes durable.
pub trait Flushed {
    /// The same, durable.
    type Durable;

    /// The state after the fence.
    #[doc(hidden)]
    fn settle(self, fenced: &Fenced) -> Self::Durable;
}

/// A fence has passed. Only [`fence`] makes one.
#[derive(Debug)]
pub struct Fenced(());

impl<'v, K: Kind, S> Flushed for Object<'v, K, InFlight, S> {
    type Durable = Object<'v, K, Durable, S>;

    fn settle(self, _: &Fenced) -> Self::Durable {
        self.to()
    }
}

impl<A: Flushed, B: Flushed> Flushed for (A, B) {
    type Durable = (A::Durable, B::Durable);

    fn settle(self, fenced: &Fenced) -> Self::Durable {
        (self.0.settle(fenced), self.1.settle(fenced))
    }
}

/// Waits until objects in flight are durable.
#[track_caller]
pub fn fence<F: Flushed>(region: &Region, flushed: F) -> F::Durable {
    region.fence();
    flushed.settle(&Fenced(()))
}

/// Leaves the fence out: a seeded bug.
pub(crate) fn unfenced<F: Flushed>(flushed: F) -> F::Durable {
    flushed.settle(&Fenced(()))
}

impl<'v> Inode<'v, Durable, Free> {
    /// Stores all fields of a new inode.
    pub fn initialise(self, fields: &RawInode) -> Result<Inode<'v, Dirty, Initialised>> {
        self.region.write(self.at, fields)?;
        Ok(self.to())
    }
}

impl<'v> Inode<'v, Durable, Live> {
    /// Stores the time of the last change, and the word with the times of access and modification.
    pub(crate) fn set_times(self, ctime: u64, times: [u64; 2]) -> Result<Inode<'v, Dirty, Live>> {
        self.word(ino::CTIME, ctime)?;
        self.region.store_pair(self.at + ino::TIMES, times)?;
        Ok(self.to())
    }

    /// Stores permission bits and owner at once, then the times.
    pub(crate) fn set_attributes(self, fields: &RawInode) -> Result<Inode<'v, Dirty, Live>> {
        self.region.store_pair(self.at, [first_word(fields), fields.owner])?;
        self.word(ino::CTIME, fields.ctime)?;
        self.region.store_pair(self.at + ino::TIMES, [fields.atime, fields.mtime])?;
        Ok(self.to())
    }

    /// Counts a link more, for a name to come.
    pub fn add_link(self, links: u16) -> Result<Inode<'v, Dirty, MoreLinks>> {
        self.store_links(links)?;
        Ok(self.to())
    }

    /// Counts a link less: a name leads here no more.
    pub fn drop_link<S: LeadsElsewhere>(
        self,
        links: u16,
        _gone: &Dentry<'_, Durable, S>,
    ) -> Result<Inode<'v, Dirty, FewerLinks>> {
        self.store_links(links)?;
        Ok(self.to())
    }

    fn store_links(&self, links: u16) -> Result<()> {
        const LINKS: u64 = 4;
        self.region.store_u16(self.at + LINKS, links)
    }

    /// Stores a smaller size, then the time.
    pub fn shrink(self, size: u64, time: u64) -> Result<Inode<'v, Dirty, Shrunk>> {
        self.word(ino::SIZE, size)?;
        self.word(ino::TIMES + 8, time)?;
        self.word(ino::CTIME, time)?;
        Ok(self.to())
    }
}

impl<'v, S: Grows> Inode<'v, Durable, S> {
    /// Stores a larger size, then the time, which lies in the same line and so is not durable before it.
    pub fn grow(
        self,
        size: u64,
        time: u64,
        contents: &Pages<'_, Durable, Written>,
    ) -> Result<Inode<'v, Dirty, S>> {
        self.commit(ino::SIZE, size, &contents.stored)?;
        self.word(ino::TIMES + 8, time)?;
        self.word(ino::CTIME, time)?;
        Ok(self.to())
    }
}

impl<'v> Inode<'v, Durable, MoreLinks> {
    /// The inode in use.
    pub(crate) fn live(self) -> Inode<'v, Durable, Live> {
        self.to()
    }
}

impl<'v> Inode<'v, Durable, Dead> {
    /// Makes the inode free, whose pages are free.
    pub fn erase(self, _pages: &Pages<'_, Durable, Unused>) -> Result<Inode<'v, Dirty, Free>> {
        self.region.write(self.at, &RawInode::default())?;
        Ok(self.to())
    }
}

/// Kind, links and permission bits.
fn first_word(fields: &RawInode) -> u64 {
    u64::from(fields.kind) | u64::from(fields.links) << 32 | u64::from(fields.mode) << 48
}

impl<'v> Dentry<'v, Durable, Free> {
    /// Stores a name, which must have 1 to 109 bytes.
    pub fn name(self, name: &[u8], is_dir: bool) -> Result<Dentry<'v, Dirty, Named>> {
        let mut raw = RawDentry { is_dir: u16::from(is_dir), ..RawDentry::FREE };
        let len = name.len().min(NAME_MAX);
        raw.name[..len].copy_from_slice(&name[..len]);
        let bytes = raw.as_bytes().first_chunk::<{ dentry::INO as usize }>();
        self.region.store(self.at, bytes.expect("the name lies before the number"))?;
        Ok(self.to())
    }
}

impl<'v> Dentry<'v, Durable, Named> {
    /// Makes the name lead to an inode, whose number follows from its place: the name is there.
    pub fn lead_to<S: Nameable>(self, inode: &Inode<'_, Durable, S>) -> Result<Dentry<'v, Dirty, Complete>> {
        let number = (inode.at - PAGE) / INODE_BYTES;
        self.commit(
            dentry::INO,
            number,
            &[ByteRun::new(inode.at, INODE_BYTES), ByteRun::new(self.at, dentry::INO)],
        )?;
        Ok(self.to())
    }

    /// Names the dentry whose place it will take.
    pub fn point_to(self, source: &Dentry<'_, Durable, Complete>) -> Result<Dentry<'v, Dirty, Pointing>> {
        self.word(dentry::SOURCE, source.at)?;
        Ok(self.to())
    }
}

impl<'v> Dentry<'v, Durable, Complete> {
    /// Names the dentry whose place it will take, as [`Dentry::point_to`] of one that leads to an inode.
    pub fn point_over(self, source: &Dentry<'_, Durable, Complete>) -> Result<Dentry<'v, Dirty, Pointing>> {
        self.word(dentry::SOURCE, source.at)?;
        Ok(self.to())
    }

    /// Makes the name lead nowhere: it is gone.
    pub fn clear(self) -> Result<Dentry<'v, Dirty, Cleared>> {
        self.commit(dentry::INO, 0, &[])?;
        Ok(self.to())
    }

    /// Makes the old name of a rename lead nowhere: the new one stands.
    pub fn give_way(self, _new: &Dentry<'_, Durable, Renamed>) -> Result<Dentry<'v, Dirty, MovedAway>> {
        self.word(dentry::INO, 0)?;
        Ok(self.to())
    }
}

impl<'v> Dentry<'v, Durable, Pointing> {
    /// Takes the place of the dentry that it points to, which leads to inode `number`.
    pub fn take_over(
        self,
        number: u64,
        _source: &Dentry<'_, Durable, Complete>,
    ) -> Result<Dentry<'v, Dirty, Renamed>> {
        self.commit(
            dentry::INO,
            number,
            &[ByteRun::new(self.at, dentry::INO), ByteRun::new(self.at + dentry::SOURCE, 8)],
        )?;
        Ok(self.to())
    }
}

impl<'v> Dentry<'v, Durable, Renamed> {
    /// Forgets the old name, which leads nowhere.
    pub fn clear_source(
        self,
        _source: &Dentry<'_, Durable, MovedAway>,
    ) -> Result<Dentry<'v, Dirty, Complete>> {
        self.word(dentry::SOURCE, 0)?;
        Ok(self.to())
    }
}

impl<'v> Dentry<'v, Durable, Cleared> {
    /// Makes the dentry free.
    pub fn erase(self) -> Result<Dentry<'v, Dirty, Free>> {
        self.region.write(self.at, &RawDentry::FREE)?;
        Ok(self.to())
    }
}

impl<'v> Dentry<'v, Durable, MovedAway> {
    /// Makes the old name of a rename free, to which nothing points any more.
    pub fn erase(self, _new: &Dentry<'_, Durable, Complete>) -> Result<Dentry<'v, Dirty, Free>> {
        self.region.write(self.at, &RawDentry::FREE)?;
        Ok(self.to())
    }
}

/// A page: where its descriptor lies, and it itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PagePlace {
    pub(crate) descriptor: u64,
    pub(crate) page: u64,
}

/// Pages with their descriptors, which are changed together.
#[must_use]
#[derive(Debug)]
pub struct Pages<'v, P, S> {
    region: &'v Region,
    places: Vec<PagePlace>,
    /// The bytes that [`Pages::write`] has stored.
    stored: Vec<ByteRun>,
    state: PhantomData<fn() -> (P, S)>,
}

impl<'v, P, S> Pages<'v, P, S> {
    fn into<Q, T>(self) -> Pages<'v, Q, T> {
        Pages { region: self.region, places: self.places, stored: self.stored, state: PhantomData }
    }

    /// Where they lie.
    pub(crate) fn places(&self) -> &[PagePlace] {
        &self.places
    }

    fn words(&self, field: u64, mut value: impl FnMut(usize) -> u64) -> Result<()> {
        let all = self.places.iter().enumerate();
        all.into_iter()
            .try_for_each(|(nth, place)| self.region.store_u64(place.descriptor + field, value(nth)))
    }
}

impl<'v, S> Pages<'v, Durable, S> {
    /// Pages of which the caller knows that they are in this state.
    pub(crate) fn found(region: &'v Region, places: Vec<PagePlace>) -> Self {
        Self { region, places, stored: Vec::new(), state: PhantomData }
    }
}

impl<'v, S> Pages<'v, Dirty, S> {
    /// Writes the descriptors back, each by itself.
    #[track_caller]
    pub fn flush(self) -> Pages<'v, InFlight, S> {
        for place in &self.places {
            self.region.flush(place.descriptor, DESCRIPTOR_BYTES);
        }
        self.into()
    }
}

impl<'v, S> Flushed for Pages<'v, InFlight, S> {
    type Durable = Pages<'v, Durable, S>;

    fn settle(self, _: &Fenced) -> Self::Durable {
        self.into()
    }
}

impl<'v> Pages<'v, Durable, Unused> {
    /// Describes pages for the contents of a file, from page number `first` of it on.
    pub fn place(self, first: u64) -> Result<Pages<'v, Dirty, Placed>> {
        self.words(descriptor::OFFSET, |nth| (first + nth as u64) * PAGE)?;
        self.words(0, |_| CONTENTS)?;
        Ok(self.into())
    }

    /// Describes a page for names.
    pub fn describe(self) -> Result<Pages<'v, Dirty, Described>> {
        self.words(0, |_| NAMES)?;
        Ok(self.into())
    }
}

impl<'v> Pages<'v, Durable, Placed> {
    /// Gives the pages to a file, behind its size.
    pub fn own<S: Grows>(self, inode: &Inode<'_, Durable, S>) -> Result<Pages<'v, Dirty, Owned>> {
        let number = (inode.at - PAGE) / INODE_BYTES;
        self.words(descriptor::OWNER, |_| number)?;
        Ok(self.into())
    }
}

impl<'v> Pages<'v, Durable, Described> {
    /// Zeroes a page for names past the cache.
    #[track_caller]
    pub fn zero(self) -> Result<Pages<'v, InFlight, Zeroed>> {
        self.places.iter().try_for_each(|place| self.region.nt_zero(place.page, PAGE))?;
        Ok(self.into())
    }
}

impl<'v> Pages<'v, Durable, Zeroed> {
    /// Gives the page to a directory.
    pub fn own_names<S: Grows>(self, dir: &Inode<'_, Durable, S>) -> Result<Pages<'v, Dirty, OfNames>> {
        let number = (dir.at - PAGE) / INODE_BYTES;
        for place in &self.places {
            let at = place.descriptor + descriptor::OWNER;
            self.region.mark(Mark::Commit {
                at,
                needs: &[ByteRun::new(place.page, PAGE), ByteRun::new(place.descriptor, 8)],
            });
        }
        self.words(descriptor::OWNER, |_| number)?;
        Ok(self.into())
    }
}

impl<'v> Pages<'v, Durable, Owned> {
    /// Zeroes pages past the cache.
    #[track_caller]
    pub fn zero(self) -> Result<Pages<'v, InFlight, Owned>> {
        self.places.iter().try_for_each(|place| self.region.nt_zero(place.page, PAGE))?;
        Ok(self.into())
    }

    /// Stores contents by `store`, which says what range it has stored past the cache. With `fence_each` a fence follows each
    /// store, as the kernel's copy past the cache has one at its end.
    #[track_caller]
    pub(crate) fn write<'a>(
        mut self,
        parts: impl Iterator<Item = Part<'a>>,
        fence_each: bool,
    ) -> Result<Pages<'v, InFlight, Written>> {
        let _scope = sim::scope(sim::Activity::DATA);
        for part in parts {
            let len = match part.bytes {
                Source::Zeros(len) => self.region.nt_zero(part.at, len).map(|()| len)?,
                Source::Bytes(bytes) => self.region.nt_store(part.at, bytes).map(|()| bytes.len() as u64)?,
            };
            if fence_each {
                self.region.fence();
            }
            if self.region.is_watched() {
                self.stored.push(ByteRun::new(part.at, len));
            }
        }
        Ok(self.into())
    }

    /// Lets pages go that no size has covered yet: what was to be written to them could not be.
    pub(crate) fn disown_new(self) -> Result<Pages<'v, Dirty, Disowned>> {
        self.words(descriptor::OWNER, |_| 0)?;
        Ok(self.into())
    }

    /// Takes the owner away.
    pub fn disown<S: LetsGo>(self, _inode: &Inode<'_, Durable, S>) -> Result<Pages<'v, Dirty, Disowned>> {
        self.words(descriptor::OWNER, |_| 0)?;
        Ok(self.into())
    }
}

impl<'v> Pages<'v, Durable, OfNames> {
    /// Takes the owner of a page of names away, of which the last name is free.
    pub fn disown_empty(self, _last: &Dentry<'_, Durable, Free>) -> Result<Pages<'v, Dirty, Disowned>> {
        self.words(descriptor::OWNER, |_| 0)?;
        Ok(self.into())
    }

    /// Takes the owner of the pages of a dead directory away.
    pub fn disown(self, _dir: &Inode<'_, Durable, Dead>) -> Result<Pages<'v, Dirty, Disowned>> {
        self.words(descriptor::OWNER, |_| 0)?;
        Ok(self.into())
    }
}

impl<'v> Pages<'v, Durable, Disowned> {
    /// Makes the descriptors free.
    pub fn forget(self) -> Result<Pages<'v, Dirty, Unused>> {
        for place in &self.places {
            self.region.write(place.descriptor, &RawDescriptor::default())?;
        }
        Ok(self.into())
    }
}

/// Bytes for a place of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) at: u64,
    pub(crate) bytes: Source<'a>,
}

/// Zeros, so many, or bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source<'a> {
    Zeros(u64),
    Bytes(&'a [u8]),
}
