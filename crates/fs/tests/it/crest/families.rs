//! Families of histories, and in which of them each mutant shows.

use design::Mutant;

use super::explore::Family;
use super::ops::{DIR, Op, Path};
use super::world::Setup;
use Op::*;

const A: Path = (0, 1);
const B: Path = (0, 2);
const C: Path = (0, 3);
const IN_DIR: Path = (1, 1);

const SETUP: Setup = Setup {
    zones: 12,
    zone_lines: 6,
    shards: 2,
    record_lines: 8,
    checked: false,
    scarce: false,
    keyed: false,
};

fn family(name: &'static str, start: &[Op], ops: &[Op], depth: (usize, usize)) -> Family {
    Family {
        name,
        setup: SETUP,
        start: start.iter().map(|op| (*op, 0)).collect(),
        ops: ops.to_vec(),
        crashes: 1,
        poison: false,
        quiet: false,
        depth,
    }
}

/// All families.
pub(crate) fn families() -> Vec<Family> {
    [of_names(), of_data(), of_blocks(), of_inlines(), inlines_beside(), of_faults(), of_nonces()].concat()
}

/// Pools whose seals depend on nonces, beside what copies of them have written.
fn of_nonces() -> Vec<Family> {
    let keyed = |family: Family| Family { setup: Setup { keyed: true, ..family.setup }, ..family };
    vec![
        keyed(family(
            "copies",
            &[Create(A)],
            &[Foreign, Create(B), Unlink(B), Chmod(A), Rename(A, B), Remount, Clean(0)],
            (3, 5),
        )),
        keyed(Family {
            poison: true,
            ..family(
                "nonces",
                &[Create(A)],
                &[Create(B), Write(A, 0, 2), Truncate(A, 1), Chmod(A), Clean(0)],
                (2, 4),
            )
        }),
    ]
}

fn of_names() -> Vec<Family> {
    vec![
        family(
            "names",
            &[],
            &[Create(A), Create(B), Unlink(A), Unlink(B), Link(A, B), Rename(A, B), Clean(0), CleanStep(0)],
            (2, 4),
        ),
        Family {
            setup: Setup { shards: 1, ..SETUP },
            ..family(
                "one shard",
                &[],
                &[Create(A), Unlink(A), Link(A, B), Rename(A, B), Write(A, 0, 2), Truncate(A, 1), Clean(0)],
                (3, 5),
            )
        },
        family(
            "directories",
            &[Mkdir, Create(IN_DIR)],
            &[
                Unlink(DIR),
                Unlink(IN_DIR),
                Rename(IN_DIR, A),
                Rename(A, IN_DIR),
                Create(IN_DIR),
                Exchange(IN_DIR, A),
                Clean(0),
            ],
            (3, 5),
        ),
    ]
}

fn of_data() -> Vec<Family> {
    vec![
        family(
            "data",
            &[Create(A)],
            &[
                Write(A, 0, 2),
                Write(A, 0, 1),
                Write(A, 3, 1),
                Truncate(A, 1),
                Truncate(A, 3),
                Clean(0),
                CleanStep(0),
            ],
            (2, 4),
        ),
        family(
            "holes",
            &[Create(A), Write(A, 0, 4)],
            &[Punch(A, 0), Write(A, 0, 2), Allocate(A, 0), Truncate(A, 0), Move(A), Clean(0)],
            (2, 4),
        ),
        family(
            "races",
            &[Create(A), Write(A, 0, 4)],
            &[WriteDuringCut(A, 2), WriteBeyondCut(A, 1), WriteDuringUtimes(A), Truncate(A, 4), Clean(0)],
            (2, 4),
        ),
        family(
            "attributes",
            &[Symlink(A)],
            &[Chmod(A), Chown(A), Utimes(A), Rename(A, B), Link(A, B), Unlink(A), Clean(0)],
            (2, 4),
        ),
    ]
}

fn of_blocks() -> Vec<Family> {
    vec![
        family("xattrs", &[Create(A)], &[SetXattr(A), RemoveXattr(A), Chmod(A), Unlink(A), Clean(0)], (3, 5)),
        family(
            "clones",
            &[Create(A), Write(A, 0, 3), Create(B)],
            &[
                Clone(A, B),
                Write(A, 3, 1),
                Write(B, 0, 1),
                Unlink(A),
                Truncate(B, 3),
                Truncate(A, 1),
                Clean(0),
            ],
            (2, 4),
        ),
        Family {
            setup: Setup { record_lines: 1, zone_lines: 7, ..SETUP },
            ..family(
                "groups",
                &[Create(A)],
                &[WriteTwo(A), Write(A, 0, 2), Truncate(A, 1), Clean(0), Chmod(A)],
                (2, 4),
            )
        },
        Family {
            setup: Setup { checked: true, ..SETUP },
            ..family(
                "checksums",
                &[Create(A)],
                &[Write(A, 0, 1), Write(A, 1, 1), Write(A, 0, 3), Truncate(A, 1), Truncate(A, 4), Clean(0)],
                (2, 4),
            )
        },
    ]
}

fn of_inlines() -> Vec<Family> {
    let three = [Create(A), Write(A, 0, 3)];
    vec![
        family(
            "inlines",
            &three,
            &[
                Inline(A, 0, 1),
                Inline(A, 1, 1),
                Inline(A, 0, 2),
                Write(A, 0, 1),
                Truncate(A, 1),
                Truncate(A, 4),
                CleanStep(0),
                Clean(0),
            ],
            (2, 4),
        ),
        Family {
            setup: Setup { shards: 1, ..SETUP },
            ..family(
                "inlines, one shard",
                &three,
                &[
                    Inline(A, 0, 2),
                    Inline(A, 1, 1),
                    Truncate(A, 1),
                    Write(A, 1, 1),
                    Unlink(A),
                    Clean(0),
                    Remount,
                ],
                (4, 5),
            )
        },
    ]
}

/// What meets blocks of which records have bytes.
fn inlines_beside() -> Vec<Family> {
    let three = [Create(A), Write(A, 0, 3)];
    vec![
        family(
            "inlines in place",
            &[Create(A), Write(A, 0, 3), Inline(A, 1, 1), Create(B)],
            &[
                Inline(A, 2, 1),
                InPlace(A, 1),
                MapStore(A, 1),
                Truncate(A, 1),
                Truncate(A, 4),
                WriteOverEnd(A),
                Clone(A, B),
                Move(A),
                Punch(A, 0),
                Clean(0),
            ],
            (2, 4),
        ),
        Family {
            setup: Setup { checked: true, ..SETUP },
            ..family(
                "inlines, checksums",
                &three,
                &[Inline(A, 0, 1), Write(A, 1, 1), Write(A, 0, 1), Truncate(A, 1), Truncate(A, 4), Clean(0)],
                (2, 4),
            )
        },
        Family {
            quiet: true,
            crashes: 0,
            ..family(
                "inlines, waiting",
                &three,
                &[Inline(A, 0, 2), Truncate(A, 1), Truncate(A, 3), Write(A, 0, 2), Punch(A, 0), Clean(0)],
                (3, 5),
            )
        },
    ]
}

fn of_faults() -> Vec<Family> {
    vec![
        Family {
            quiet: true,
            ..family(
                "failures",
                &[Create(A), Write(A, 0, 2)],
                &[FailedCreate(B), FailedWrite(A), Create(B), Write(A, 0, 1), Truncate(A, 1), Clean(0)],
                (3, 4),
            )
        },
        Family {
            poison: true,
            crashes: 0,
            ..family(
                "lost lines",
                &[],
                &[Create(A), Unlink(A), Write(A, 0, 2), WriteTwo(A), Rename(A, B), Chmod(A), Clean(0)],
                (3, 5),
            )
        },
        Family {
            crashes: 3,
            ..family(
                "remounts",
                &[],
                &[Create(A), Unlink(A), Write(A, 0, 2), Write(A, 0, 1), Clean(0)],
                (2, 4),
            )
        },
        Family {
            quiet: true,
            crashes: 0,
            ..family(
                "waiting",
                &[Create(A), Write(A, 0, 4)],
                &[
                    Truncate(A, 1),
                    Truncate(A, 2),
                    Write(A, 0, 4),
                    Punch(A, 0),
                    Unlink(A),
                    Create(A),
                    Clean(0),
                ],
                (3, 5),
            )
        },
    ]
}

/// Where a mutant shows.
pub(crate) struct Shown {
    pub mutant: Mutant,
    pub family: Family,
}

/// Operations of one shard without crashes in between: for mutants that need long histories.
fn shown(mutant: Mutant, shards: usize, start: &[(Op, usize)], ops: &[Op], depth: usize) -> Shown {
    let family = Family {
        setup: Setup { shards, ..SETUP },
        start: start.to_vec(),
        crashes: 0,
        ..family(mutant.name(), &[], ops, (depth, depth))
    };
    Shown { mutant, family }
}

fn with(shown: Shown, change: impl FnOnce(&mut Family)) -> Shown {
    let mut shown = shown;
    change(&mut shown.family);
    shown
}

/// The cleaner has copied the name of A and stopped, A is removed, and the copy's zone is nearly full: it empties next.
const HALF_CLEANED: [(Op, usize); 12] = [
    (Create(B), 0),
    (Create(A), 0),
    (Remount, 0),
    (CleanStep(0), 0),
    (Unlink(A), 1),
    (Create(C), 1),
    (Chmod(B), 1),
    (Chmod(B), 1),
    (Chmod(B), 1),
    (Chmod(B), 0),
    (Chmod(B), 0),
    (Chmod(B), 0),
];

/// Mutants with the families in which they are looked for.
pub(crate) fn mutants() -> Vec<Shown> {
    of_commits().into_iter().chain(of_waiting()).chain(of_values()).chain(inlines()).collect()
}

fn of_commits() -> Vec<Shown> {
    use fs::crest::format::mutant::*;
    let crashes = |count| move |family: &mut Family| family.crashes = count;
    let groups = |family: &mut Family| (family.setup.record_lines, family.crashes) = (1, 1);
    let poison = |family: &mut Family| family.poison = true;
    vec![
        shown(SEAL_OF_FIRST_LINE, 1, &[], &[Create(A)], 1),
        shown(SEAL_WITHOUT_OPENING, 1, &[], &[Create(A), Unlink(A), Clean(0)], 7),
        with(shown(SEAL_WITHOUT_NONCE, 1, &[(Create(A), 0)], &[Create(B), Foreign, Chmod(A)], 4), |family| {
            family.setup.keyed = true;
        }),
        with(shown(OPEN_WITH_WORD, 1, &[(Create(A), 0)], &[Create(B), Chmod(A)], 3), |family| {
            family.setup.keyed = true;
        }),
        with(shown(GROUP_IN_PART, 1, &[(Create(A), 0)], &[WriteTwo(A)], 2), groups),
        with(shown(TORN_GROUP_IS_DAMAGE, 1, &[(Create(A), 0)], &[WriteTwo(A)], 2), groups),
        with(shown(GAP_IS_TAIL, 1, &[], &[Create(A), Create(B), Unlink(A)], 3), poison),
        with(shown(LAST_RECORDS_UNKNOWN, 1, &[], &[Create(A), Create(B), Unlink(A)], 4), poison),
        shown(EITHER_WORD, 2, &[], &[Create(A)], 1),
        with(shown(OPENING_FROM_TABLE, 2, &[], &[Create(A), Create(B)], 3), crashes(1)),
        shown(INODES_FROM_LOG, 1, &[(Create(A), 0)], &[Create(A), Write(A, 0, 2), Unlink(A), Remount], 4),
        with(shown(SUPERBLOCKS_TOGETHER, 1, &[], &[Create(A)], 1), crashes(1)),
        shown(DATA_UNFENCED, 1, &[(Create(A), 0)], &[Write(A, 0, 2)], 1),
        shown(WORD_UNFLUSHED, 2, &[], &[Create(A)], 1),
        shown(FREED_BEFORE_FENCE, 2, &[(Create(A), 0), (Remount, 0)], &[Clean(0), Create(B), Unlink(B)], 4),
        shown(
            WAITER_BEFORE_FENCE,
            2,
            &[(Create(A), 0), (Unlink(A), 1), (Remount, 0)],
            &[Clean(0), Create(B)],
            3,
        ),
        shown(CLEANED_BEFORE_FENCE, 1, &[(Create(A), 0), (Remount, 0)], &[Clean(0)], 1),
        with(shown(APPENDED_AFTER_CRASH, 1, &[(Create(A), 0)], &[WriteTwo(A), Chmod(A)], 3), groups),
        shown(CLOCK_OF_SHARD, 2, &[(Create(A), 0)], &[Write(A, 0, 2)], 3),
        shown(CLOCK_FROM_ZERO, 1, &[(Create(A), 0)], &[Write(A, 0, 2), Remount], 4),
    ]
}

fn of_waiting() -> Vec<Shown> {
    use fs::crest::format::mutant::*;
    let four = [(Create(A), 0), (Write(A, 0, 4), 0)];
    vec![
        shown(COPY_WITH_NEW_ID, 1, &[(Create(A), 0)], &[Write(A, 0, 2), CleanStep(0), Unlink(A), Remount], 4),
        shown(COPY_OF_DEAD_PARTS, 1, &four, &[Truncate(A, 1), Truncate(A, 4), Clean(0)], 4),
        shown(
            REMOVAL_DIES_AT_ONCE,
            2,
            &[(Create(A), 0), (Unlink(A), 1), (Remount, 0)],
            &[Clean(0), Clean(1), Create(B)],
            3,
        ),
        shown(
            SIEVED_REMOVALS,
            2,
            &[(Create(A), 0), (Unlink(A), 1), (Remount, 0)],
            &[Clean(0), Clean(1), Create(B)],
            3,
        ),
        shown(SIEVED_THOUGH_LINKED, 2, &[(Create(A), 0)], &[Link(A, B), Unlink(A)], 3),
        shown(SIEVED_TIMES, 1, &[], &[Create(A), Unlink(A), Chmod(A)], 2),
        shown(REMOVAL_AWAITS_ONE_COPY, 2, &HALF_CLEANED, &[Chmod(B), Clean(0), Clean(1), Clean(2)], 3),
        shown(CUT_DIES_AT_ONCE, 2, &four, &[Truncate(A, 1), Truncate(A, 4), Clean(0), Clean(1), Remount], 5),
        shown(
            CUT_AWAITS_OLDER_OPENINGS,
            2,
            &[(Create(A), 0), (Write(A, 0, 4), 1)],
            &[Truncate(A, 1), Truncate(A, 4), Clean(0), Remount],
            5,
        ),
        shown(
            HOLE_DIES_AT_ONCE,
            2,
            &four,
            &[Punch(A, 0), Chmod(A), Write(A, 2, 1), Clean(0), Clean(1), Remount],
            5,
        ),
        shown(
            XATTR_REMOVAL_DIES_AT_ONCE,
            2,
            &[(Create(A), 0), (SetXattr(A), 0)],
            &[RemoveXattr(A), Chmod(A), Clean(1), Remount],
            4,
        ),
        shown(
            WAITS_FORGOTTEN,
            2,
            &[(Create(A), 0), (Unlink(A), 1)],
            &[Create(B), Remount, Clean(0), Clean(1)],
            4,
        ),
    ]
}

fn of_values() -> Vec<Shown> {
    use fs::crest::format::mutant::*;
    let four = [(Create(A), 0), (Write(A, 0, 4), 0)];
    vec![
        shown(BIRTH_NOT_HELD, 1, &[(Symlink(A), 0)], &[Rename(A, B), Chmod(B), Utimes(B), Clean(0)], 5),
        shown(OWNER_IN_PART, 1, &[(Create(A), 0)], &[Chmod(A), Chown(A)], 2),
        shown(SIZE_NOT_HELD, 1, &four, &[Write(A, 0, 2), Write(A, 2, 2), Clean(0)], 4),
        shown(
            HOLDER_BY_ID,
            2,
            &[(Create(A), 0), (Write(A, 0, 2), 0), (Utimes(A), 1), (Remount, 0), (Clean(0), 0)],
            &[Clean(0), Clean(1), Remount],
            4,
        ),
        shown(
            DIRECTORY_TIME_NOT_HELD,
            1,
            &[(Create(A), 0), (Create(B), 0)],
            &[Unlink(A), Chmod(B), Remount, Clean(0)],
            5,
        ),
        shown(
            LINK_TIME_NOT_HELD,
            2,
            &[(Create(A), 0), (Link(A, B), 0), (Unlink(B), 1), (Create(B), 0), (Remount, 0)],
            &[Clean(0), Clean(1)],
            4,
        ),
        shown(EVERY_WRITE_HAS_SIZE, 1, &four, &[WriteDuringCut(A, 2)], 1),
        shown(TIMES_BY_ID, 2, &[(Create(A), 0), (Write(A, 0, 2), 0)], &[Utimes(A)], 1),
        shown(STAMP_FROM_CLOCK, 1, &four, &[Write(A, 0, 2), Remount], 3),
        shown(CUT_PASSES_NOTHING, 1, &four, &[WriteBeyondCut(A, 1), Truncate(A, 4)], 2),
        shown(TAIL_NOT_ZEROED, 1, &four, &[Truncate(A, 1), Truncate(A, 4)], 2),
        shown(VOID_MISSING, 1, &[(Create(A), 0)], &[FailedCreate(B), FailedWrite(A)], 1),
        with(shown(BAD_ZONE_STAYS, 1, &[(Create(A), 0)], &[FailedWrite(A), Chmod(A)], 2), |family| {
            family.quiet = true;
        }),
        shown(
            CLONES_NOT_COUNTED,
            1,
            &[(Create(A), 0), (Write(A, 0, 2), 0), (Create(B), 0), (Clone(A, B), 0)],
            &[Unlink(A), Write(B, 2, 2), Write(A, 0, 2)],
            2,
        ),
        shown(
            SHARED_IN_PLACE,
            1,
            &[(Create(A), 0), (Write(A, 0, 2), 0), (Create(B), 0), (Clone(A, B), 0)],
            &[Truncate(A, 1), Write(A, 1, 1)],
            2,
        ),
        with(
            shown(CHECKED_IN_PLACE, 1, &[(Create(A), 0), (Write(A, 0, 1), 0)], &[Write(A, 1, 1)], 1),
            |family| family.setup.checked = true,
        ),
    ]
}

fn inlines() -> Vec<Shown> {
    use fs::crest::format::mutant::*;
    let two = [(Create(A), 0), (Write(A, 0, 2), 0)];
    let one = [(Create(A), 0), (Write(A, 0, 2), 0), (Inline(A, 1, 1), 0)];
    let clone = [(Create(A), 0), (Write(A, 0, 2), 0), (Inline(A, 1, 1), 0), (Create(B), 0)];
    vec![
        shown(INLINE_IN_PLACE, 1, &one, &[Truncate(A, 1), Truncate(A, 2)], 2),
        shown(INLINE_NOT_HELD, 1, &one, &[Chmod(A), Remount, Clean(0)], 3),
        shown(INLINE_OVER_WRITE, 1, &two, &[Inline(A, 1, 1), Write(A, 1, 1)], 2),
        shown(MAPPED_OVER_INLINE, 1, &one, &[MapStore(A, 1)], 1),
        shown(CLONED_WITHOUT_INLINE, 1, &clone, &[Clone(A, B)], 1),
        shown(PIECE_SPLIT_AT_END, 1, &[(Create(A), 0), (Write(A, 0, 3), 0)], &[WriteOverEnd(A)], 1),
    ]
}
