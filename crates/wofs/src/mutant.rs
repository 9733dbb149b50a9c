//! Seeded bugs: each leaves out one rule of `docs/designs/wofs.md`.
//!
//! The checks of a mounted file system find most of them by crashes ([`ALL`]), the histories of its tests the rest.

use design::Mutant;

/// A package counts although its checksum is wrong.
pub const CRC_NOT_CHECKED: Mutant = Mutant::new("crc-not-checked", "torn package counts");
/// The checksum is computed before the last field is set.
pub const CRC_BEFORE_LAST_FIELD: Mutant =
    Mutant::new("crc-before-last-field", "checksum of another package than is stored");
/// An UNLINK is reused while the CREATE that it hides is there.
pub const UNLINK_FREED_EARLY: Mutant = Mutant::new("unlink-freed-early", "hider of a name freed");
/// An ATTR is reused while it alone hides blocks of an older DATA.
pub const DATA_HIDER_FREED: Mutant = Mutant::new("data-hider-freed", "hider of data freed");
/// DATA and ATTR are applied in the order of their places.
pub const SCAN_ORDER: Mutant = Mutant::new("scan-order-not-vtail", "order of the scan");
/// Packages of an earlier file with the number count.
pub const BIRTH_IGNORED: Mutant = Mutant::new("birth-ignored", "number reused without generation");
/// A rename frees the old CREATE after its first fence.
pub const OLD_CREATE_FREED: Mutant =
    Mutant::new("old-create-freed-at-first-fence", "old freed before the new one stands");
/// An UNLINK of a rename counts without its CREATE.
pub const BIN_HALF_COUNTS: Mutant = Mutant::new("bin-half-counts", "half a rename counts");
/// A DATA is stored before its data is durable.
pub const DATA_PACKAGE_FIRST: Mutant = Mutant::new("data-package-before-data", "commit before data");
/// The bit of a new container is not flushed.
pub const BIT_UNFLUSHED: Mutant = Mutant::new("container-bit-unflushed", "bitmap not durable")
    .shown_by(&["more names than a container has"]);
/// A container that is given up is used for data without a fence.
pub const RELEASE_UNFENCED: Mutant = Mutant::new("container-reused-unfenced", "bitmap not ordered");
/// The patched size is used although another package has set the size.
pub const PATCHED_AFTER_TRUNCATE: Mutant =
    Mutant::new("patched-size-after-truncate", "update of a record that does not count last");
/// A mount takes no size from DATA.
pub const SIZE_NOT_RESTORED: Mutant = Mutant::new("size-not-restored", "recovery forgets a size");
/// A mount begins its numbers at zero.
pub const VTAIL_FROM_ZERO: Mutant = Mutant::new("vtail-from-zero", "counter not restored");
/// Bytes behind the end are not zeroed before a file grows.
pub const TAIL_NOT_ZEROED: Mutant = Mutant::new("tail-not-zeroed", "stale bytes behind the end");
/// A DATA is reused when a part of it was overwritten.
pub const SPLIT_FREED: Mutant =
    Mutant::new("split-slot-unwritten", "record freed while a part of it is live");
/// An UNLINK of a rename counts if its mate has the same inode and a larger number.
pub const BIN_TARGET_BY_INO: Mutant = Mutant::new("bin-target-by-ino", "mate told by its inode");
/// An UNLINK of a rename counts with any CREATE of a larger number at its mate's place.
pub const BIN_BY_LARGER: Mutant = Mutant::new("bin-by-larger-vtail", "mate told by order");
/// A mount ignores numbers that packages only name.
pub const NAMED_IGNORED: Mutant = Mutant::new("vtail-ignores-named", "number given twice");
/// A new inode's number is drawn before the place of its CREATE, which an UNLINK of a larger number may have freed meanwhile.
pub const NUMBER_BEFORE_PLACE: Mutant =
    Mutant::new("number-before-place", "order of two counters").shown_by_tasks(&["create-below | unlink"]);
/// A CREATE of a rename is reused while what its UNLINKs hide is there.
pub const RENAME_CREATE_FREED: Mutant =
    Mutant::new("rename-create-freed-before-targets", "condition of a hider freed");
/// A package of a write is reused while others of it are live.
pub const MEMBER_FREED_ALONE: Mutant = Mutant::new("bin-member-freed-alone", "part of a group freed");
/// A new container is not zeroed.
pub const NOT_ZEROED: Mutant = Mutant::new("container-not-zeroed", "old bytes taken for records");
/// A DATA maps blocks beyond its own size.
pub const BEYOND_SIZE_COUNTS: Mutant = Mutant::new("extent-beyond-size-counts", "reserved blocks shown");
/// An append goes to blocks that are not reserved any more.
pub const NOT_RESERVED: Mutant = Mutant::new("extent-not-reserved", "blocks of two files");
/// Two ATTRs excuse each other.
pub const FREED_IN_PAIR: Mutant = Mutant::new("attrs-freed-in-pair", "two hiders freed at once");
/// Dead packages are not overwritten with zeros when units run out.
pub const NO_BLANKING: Mutant = Mutant::new("no-blanking", "space that returns never");
/// A mount takes all that is not live as free.
pub const WAITS_NOT_REBUILT: Mutant = Mutant::new("waits-not-rebuilt", "recovery forgets what waits");
/// The patched size is taken whatever its tag.
pub const PATCH_NOT_TAGGED: Mutant = Mutant::new("patch-not-tagged", "word of another record");

/// Those that the checks of a mounted file system find, `weir check recall` among them.
pub const ALL: &[Mutant] = &[
    CRC_NOT_CHECKED,
    CRC_BEFORE_LAST_FIELD,
    UNLINK_FREED_EARLY,
    DATA_HIDER_FREED,
    SCAN_ORDER,
    BIRTH_IGNORED,
    OLD_CREATE_FREED,
    BIN_HALF_COUNTS,
    DATA_PACKAGE_FIRST,
    BIT_UNFLUSHED,
    PATCHED_AFTER_TRUNCATE,
    SIZE_NOT_RESTORED,
    VTAIL_FROM_ZERO,
    TAIL_NOT_ZEROED,
    SPLIT_FREED,
    BIN_TARGET_BY_INO,
    NAMED_IGNORED,
    NUMBER_BEFORE_PLACE,
    RENAME_CREATE_FREED,
    BEYOND_SIZE_COUNTS,
    NOT_RESERVED,
    WAITS_NOT_REBUILT,
];

/// The rules, of which a seeded bug may leave one out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules(Option<Mutant>);

impl Rules {
    /// All rules, but that which the bug leaves out.
    pub const fn but(mutant: Option<Mutant>) -> Self {
        Self(mutant)
    }

    /// Whether this bug is seeded.
    pub fn lacks(self, mutant: Mutant) -> bool {
        self.0 == Some(mutant)
    }
}
