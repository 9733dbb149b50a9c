//! Copies that are stored under one fence: a crash leaves any of them, and each of those counts; what is missing elsewhere is damage.

use crest::format::layout::LINE;
use crest::format::mutant::Rules;
use crest::format::record::{Body, Id, Open, Owner, Previous, Record, Seal};
use crest::format::zone::{Damage, Log, lost_ends};

const ZONE: u32 = 3;
const LINES: u32 = 16;
/// The lines of the zone: its Open, a record of a call, three copies under one fence.
const COPIES: std::ops::Range<u32> = 2..5;

fn seal(opening: u64) -> Seal {
    Seal { secret: 77, opening, keyed: true, nonce: 5, rules: Rules::ALL }
}

/// A zone with these of its five lines.
fn zone(lines: &[u32]) -> Vec<u8> {
    let owner = |line| Body::Owner(Owner { ino: u64::from(line), mode: 0o600, ..Owner::default() });
    let mut bytes = vec![0; LINES as usize * LINE];
    for line in lines.iter().copied() {
        let mut record = match line {
            0 => Record::alone(Id::default(), Body::Open(Open { nonce: 5, ..Open::default() })),
            _ => Record::alone(Id::new(u64::from(line), 0), owner(line)),
        };
        record.batch = if COPIES.contains(&line) { (line - COPIES.start) as u16 + 1 } else { 0 };
        let at = line as usize * LINE;
        bytes[at..at + LINE].copy_from_slice(&record.encode(seal(9), line).expect("a line"));
    }
    bytes
}

/// What a mount reads of the zone: the lines that count, and what is damaged. `left`: where the next zone says that it ended.
fn read(lines: &[u32], left: Option<u16>) -> (Vec<u32>, Vec<Damage>) {
    let mut log = Log::default();
    log.read_zone(ZONE, seal(9), &zone(lines));
    let counts = log.records.iter().map(|found| found.line).collect();
    let previous = left.map(|lines| Previous { zone: ZONE, opening: 9, lines });
    let next = Record::alone(Id::default(), Body::Open(Open { nonce: 5, previous, ..Open::default() }));
    let mut bytes = vec![0; LINES as usize * LINE];
    bytes[..LINE].copy_from_slice(&next.encode(seal(10), 0).expect("a line"));
    log.read_zone(ZONE + 1, seal(10), &bytes);
    let lost = lost_ends(log.records.iter(), (&log.ends, &log.torn), Rules::ALL);
    log.damage.extend(lost);
    (counts, log.damage)
}

/// The lines 0 and 1, and each subset of the copies.
fn subsets() -> impl Iterator<Item = Vec<u32>> {
    (0..8_u32).map(|kept| (0..2).chain(COPIES.filter(move |line| kept >> (line - 2) & 1 == 1)).collect())
}

#[test]
fn a_crash_may_leave_any_copies_of_a_batch_and_each_counts() {
    for lines in subsets() {
        assert_eq!(read(&lines, None), (lines.clone(), Vec::new()));
    }
}

#[test]
fn a_copy_that_is_missing_is_damage_where_its_shard_went_on() {
    for lines in subsets() {
        let (_, damage) = read(&lines, Some(COPIES.end as u16));
        assert_eq!(damage.is_empty(), lines.len() == 5, "{lines:?}: {damage:?}");
    }
}

#[test]
fn a_record_that_is_missing_before_a_batch_is_damage() {
    let (_, damage) = read(&[0, 2, 3, 4], None);
    assert_eq!(damage, [Damage::Gap { zone: ZONE, line: 1 }]);
}
