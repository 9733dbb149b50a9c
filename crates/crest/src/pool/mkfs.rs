//! Making an empty pool: the table of zones, a log zone with the root, then the superblocks.

use media::nvmm::Region;

use crate::format::layout::{BLOCK, Geometry, MAGIC, ROOT_INO, SUPERBLOCKS, Superblock, VERSION};
use crate::format::mutant::Rules;
use crate::format::record::{Body, Create, Id, Open, Record, Seal};
use crate::format::zone::{Use, Word};
use crate::index::inode::now;
use crate::store::parity::Strip;
use crate::store::superblock;
use base::error::{Error, Result};
use vfs::FileKind;

/// The opening of the zone with the root; 0 means none.
const FIRST_OPENING: u64 = 1;

/// The superblock of a new pool.
fn new_superblock(region: &Region, shards: u32, incompat: u64) -> Superblock {
    let size = region.len() / BLOCK * BLOCK;
    // A pool that was made here before, at the same time of another run, has another secret.
    let mix = superblock::old_secret(region) ^ now();
    let secret = |index| sim::Seed(sim::seed().0 ^ mix).derive("crest.secret", index).0;
    Superblock {
        magic: MAGIC,
        version: VERSION,
        shards,
        compat: 0,
        ro_compat: 0,
        incompat,
        size,
        made: size,
        secret: [secret(0), secret(1)],
        generation: 0,
        shutdowns: 0,
        openings: FIRST_OPENING + 1,
        inodes: ROOT_INO + 1,
        checksum: 0,
    }
    .next()
}

/// Makes an empty pool of so many shards, with these features ([`crate::format::layout::incompat`]).
pub(crate) fn mkfs(region: &Region, shards: u32, incompat: u64) -> Result<()> {
    let superblock = new_superblock(region, shards, incompat);
    let geometry = Geometry::of(&superblock);
    for at in SUPERBLOCKS {
        region.nt_zero(at, BLOCK)?;
    }
    region.fence();
    for zone in 0..geometry.zones {
        let usage = if zone == 0 { Use::Log } else { Use::Free };
        let word = Word { usage, shard: 0, opening: if zone == 0 { FIRST_OPENING } else { 0 } };
        for at in geometry.words_at(zone) {
            region.store_u64(at, word.pack(zone))?;
        }
    }
    for at in geometry.words_at(0) {
        region.flush(at, 8 * u64::from(geometry.zones));
    }
    // No copy can be older than the pool: its first zone needs no nonce.
    let (secret, keyed) = (superblock.secret[0], geometry.keyed);
    let seal = Seal { secret, opening: FIRST_OPENING, keyed, nonce: 0, rules: Rules::ALL };
    let open = Record::alone(Id::default(), Body::Open(Open::default()));
    let mode = (FileKind::Directory.mode_bits() | 0o755) as u16;
    let root = Create { ino: ROOT_INO, mode, time: now(), ..Create::default() };
    let root = Record::alone(Id::new(1, 0), Body::Create(root));
    let (mut line, mut strip) = (0, Strip::default());
    for record in [open, root] {
        let bytes = record.encode(seal, line).ok_or(Error::Invalid("a record of too many lines"))?;
        region.nt_store(geometry.zone_at(0) + u64::from(line) * 64, &bytes)?;
        strip.add(&geometry, line, &bytes);
        line += (bytes.len() / 64) as u32;
    }
    if geometry.parity {
        strip.store(region, &geometry, (0, seal), line)?;
    }
    region.fence();
    superblock::store(region, &superblock, false)?;
    Ok(())
}
