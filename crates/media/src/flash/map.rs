//! The page map: logical to physical pages, at the price of what was written.
//!
//! Logical pages come in chunks of 4,096 (16 MiB). A chunk that was never written is nothing but an empty entry of a
//! directory, whose memory the host gives out as it is touched. A chunk gets a *number* at its first write, so that the
//! reverse map can name a logical page in 32 bits on a device of any size:
//!
//! ```text
//! short name = number of its chunk << 12 | page within the chunk
//! ```
//!
//! | form of a chunk | bytes a page written | used |
//! |---|---|---|
//! | sparse: sorted pages (2 B) and their places (4 B) | 6 | up to 2,048 pages |
//! | dense: a place for each page | 4 (full) to 8 | beyond |

/// Pages of a chunk, as a power of two.
const CHUNK_SHIFT: u32 = 12;
const CHUNK_PAGES: usize = 1 << CHUNK_SHIFT;
/// A sparse chunk of more pages becomes dense.
const SPARSE_MOST: usize = CHUNK_PAGES / 2;
/// No place, no chunk.
pub(crate) const NONE: u32 = u32::MAX;

/// The short name of a logical page that was written at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Short(pub(crate) u32);

#[derive(Clone, Debug)]
enum Form {
    Sparse(Vec<u16>, Vec<u32>),
    Dense(Box<[u32]>),
}

#[derive(Clone, Debug)]
struct Chunk {
    /// The first logical page.
    first: u64,
    form: Form,
}

/// Logical page to physical page.
#[derive(Clone, Debug)]
pub(crate) struct PageMap {
    /// Number of each chunk, plus one; 0 if it was never written.
    directory: Vec<u32>,
    chunks: Vec<Chunk>,
    mapped: u64,
}

impl PageMap {
    /// A map of `pages` logical pages, none of them written.
    pub(crate) fn new(pages: u64) -> Self {
        let chunks = pages.div_ceil(CHUNK_PAGES as u64) as usize;
        Self { directory: vec![0; chunks], chunks: Vec::new(), mapped: 0 }
    }

    /// The short name of a page, if its chunk was ever written.
    #[inline]
    pub(crate) fn short(&self, lpn: u64) -> Option<Short> {
        let number = *self.directory.get((lpn >> CHUNK_SHIFT) as usize)?;
        (number > 0).then(|| Short((number - 1) << CHUNK_SHIFT | (lpn as u32 & (CHUNK_PAGES as u32 - 1))))
    }

    /// The short name of a page that is about to be written; `None` when 2^32 pages have one.
    #[inline]
    pub(crate) fn name(&mut self, lpn: u64) -> Option<Short> {
        self.short(lpn).or_else(|| self.add_chunk(lpn))
    }

    #[cold]
    fn add_chunk(&mut self, lpn: u64) -> Option<Short> {
        if self.chunks.len() >= (1 << (32 - CHUNK_SHIFT)) - 1 {
            return None;
        }
        let form = Form::Sparse(Vec::new(), Vec::new());
        self.chunks.push(Chunk { first: lpn & !(CHUNK_PAGES as u64 - 1), form });
        self.directory[(lpn >> CHUNK_SHIFT) as usize] = self.chunks.len() as u32;
        self.short(lpn)
    }

    /// The logical page of a short name.
    pub(crate) fn lpn(&self, short: Short) -> u64 {
        self.chunks[(short.0 >> CHUNK_SHIFT) as usize].first + u64::from(short.0 & (CHUNK_PAGES as u32 - 1))
    }

    /// Where the page lies; [`NONE`] if nowhere.
    #[inline]
    pub(crate) fn get(&self, short: Short) -> u32 {
        let within = (short.0 & (CHUNK_PAGES as u32 - 1)) as usize;
        match &self.chunks[(short.0 >> CHUNK_SHIFT) as usize].form {
            Form::Dense(places) => places[within],
            Form::Sparse(pages, places) => {
                pages.binary_search(&(within as u16)).map_or(NONE, |at| places[at])
            }
        }
    }

    /// Where logical page `lpn` lies; [`NONE`] if nowhere.
    #[inline]
    pub(crate) fn find(&self, lpn: u64) -> u32 {
        self.short(lpn).map_or(NONE, |short| self.get(short))
    }

    /// Puts the page at `place`, or nowhere; returns where it lay.
    #[inline]
    pub(crate) fn set(&mut self, short: Short, place: u32) -> u32 {
        let within = (short.0 & (CHUNK_PAGES as u32 - 1)) as usize;
        let chunk = &mut self.chunks[(short.0 >> CHUNK_SHIFT) as usize];
        let old = match &mut chunk.form {
            Form::Dense(places) => std::mem::replace(&mut places[within], place),
            Form::Sparse(..) => chunk.set_sparse(within as u16, place),
        };
        self.mapped = self.mapped + u64::from(place != NONE) - u64::from(old != NONE);
        old
    }

    /// Moves the page from `old` to `new`, if `old` is where it lies.
    #[inline]
    pub(crate) fn replace(&mut self, short: Short, old: u32, new: u32) {
        let within = (short.0 & (CHUNK_PAGES as u32 - 1)) as usize;
        let place = match &mut self.chunks[(short.0 >> CHUNK_SHIFT) as usize].form {
            Form::Dense(places) => Some(&mut places[within]),
            Form::Sparse(pages, places) => {
                pages.binary_search(&(within as u16)).ok().map(|at| &mut places[at])
            }
        };
        if let Some(place) = place.filter(|place| **place == old) {
            *place = new;
        }
    }

    /// Pages that lie somewhere.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Every page that lies somewhere, and where.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Short, u32)> + '_ {
        self.chunks.iter().zip(0_u32..).flat_map(|(chunk, number)| {
            let name = move |within: u32| Short(number << CHUNK_SHIFT | within);
            chunk.entries().map(move |(within, place)| (name(within), place))
        })
    }

    /// Bytes of memory that the map holds, the directory aside.
    pub(crate) fn bytes(&self) -> u64 {
        let of = |chunk: &Chunk| match &chunk.form {
            Form::Dense(places) => places.len() * 4,
            Form::Sparse(pages, places) => pages.capacity() * 2 + places.capacity() * 4,
        };
        self.chunks.iter().map(|chunk| (of(chunk) + size_of::<Chunk>()) as u64).sum()
    }
}

impl Chunk {
    fn set_sparse(&mut self, within: u16, place: u32) -> u32 {
        let Form::Sparse(pages, places) = &mut self.form else { return NONE };
        match pages.binary_search(&within) {
            Ok(at) => return std::mem::replace(&mut places[at], place),
            Err(_) if place == NONE => return NONE,
            Err(at) => {
                make_room(pages);
                make_room(places);
                pages.insert(at, within);
                places.insert(at, place);
            }
        }
        if pages.len() > SPARSE_MOST {
            let mut dense = vec![NONE; CHUNK_PAGES].into_boxed_slice();
            pages.iter().zip(places).for_each(|(page, place)| dense[usize::from(*page)] = *place);
            self.form = Form::Dense(dense);
        }
        NONE
    }

    fn entries(&self) -> Box<dyn Iterator<Item = (u32, u32)> + '_> {
        match &self.form {
            Form::Dense(places) => {
                Box::new((0..).zip(places.iter().copied()).filter(|(_, place)| *place != NONE))
            }
            Form::Sparse(pages, places) => {
                let pages = pages.iter().map(|page| u32::from(*page));
                Box::new(pages.zip(places.iter().copied()).filter(|(_, place)| *place != NONE))
            }
        }
    }
}

/// Grows by an eighth: a vector that doubles would waste half of what it holds.
fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(4 + list.len() / 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_where_it_was_put_last() {
        let mut map = PageMap::new(1 << 34);
        let pages: Vec<u64> = (0..20_000).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 30).collect();
        for (at, lpn) in pages.iter().enumerate() {
            let short = map.name(*lpn).unwrap();
            assert_eq!((map.set(short, at as u32), map.lpn(short)), (NONE, *lpn));
        }
        for (at, lpn) in pages.iter().enumerate() {
            assert_eq!(map.find(*lpn), at as u32);
        }
        assert_eq!((map.mapped(), map.find(pages[0] ^ 1)), (20_000, NONE));
    }

    #[test]
    fn a_chunk_that_fills_stays_what_it_was() {
        let mut map = PageMap::new(1 << 20);
        for lpn in (0..4_096).rev() {
            let short = map.name(lpn).unwrap();
            assert_eq!(map.set(short, lpn as u32 + 7), NONE);
        }
        assert!((0..4_096).all(|lpn| map.find(lpn) == lpn as u32 + 7));
        let short = map.short(5).unwrap();
        assert_eq!((map.set(short, NONE), map.find(5), map.mapped()), (12, NONE, 4_095));
        assert_eq!(map.iter().count(), 4_095);
        assert!(map.bytes() < 4_096 * 4 + 100);
    }
}
