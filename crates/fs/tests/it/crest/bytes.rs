//! Records as bytes: what is encoded is read back, and nothing else passes for a record.

use fs::crest::format::inline::{BYTES_MAX, Inline, Patch};
use fs::crest::format::layout::{BLOCK, LINE, RECORD_LINES_MAX, item};
use fs::crest::format::mutant::Rules;
use fs::crest::format::raw::Refused;
use fs::crest::format::record::{
    Body, Create, Cut, Extent, Hole, Id, Item, Names, Open, Owner, Previous, Record, Seal, Times, Void,
    Write, Xattr,
};
use fs::crest::format::zone::{Use, Word};

const SEAL: Seal = Seal { secret: 77, opening: 9, keyed: true, nonce: 5, rules: Rules::ALL };

fn extent(file: u64, count: u16, checked: bool) -> Extent {
    let checksums =
        if checked { (0..u32::from(count)).map(|index| 0x0102_0304 + index).collect() } else { Vec::new() };
    Extent {
        file,
        place: (1 << 40) - 1 - u64::from(count),
        count,
        cloned: count == 3,
        unwritten: false,
        checksums,
    }
}

fn writes() -> Vec<Body> {
    vec![
        Body::Write(Write {
            ino: 3,
            extents: vec![extent(1, 1, true)].into(),
            size: Some((1 << 48) - 1),
            time: Some(2),
        }),
        Body::Write(Write {
            ino: 3,
            extents: vec![extent(1, 3, true), extent(9, 1, true), extent(4, 16_383, false)]
                .into_iter()
                .take(2)
                .collect(),
            size: None,
            time: None,
        }),
        Body::Write(Write { ino: 3, extents: Vec::new().into(), size: Some(0), time: None }),
        Body::Write(Write {
            ino: 3,
            extents: vec![extent(4, 16_383, false); 5].into(),
            size: None,
            time: Some(0),
        }),
    ]
}

fn inline(from: u16, len: usize, time: Option<u64>) -> Body {
    let bytes = (0..len).map(|at| at as u8 | 1).collect();
    Body::Inline(Inline { ino: (1 << 48) - 1, block: (1 << 40) - 1, patch: Patch { from, bytes }, time })
}

#[test]
fn bytes_of_more_than_a_block_or_of_none_are_refused() {
    for (from, len) in [(4095, 2), (0, 0), (0, BYTES_MAX + 1)] {
        let record = Record::alone(Id::new(1, 0), inline(from, len, None));
        let bytes = record.encode(SEAL, 3).expect("short enough");
        assert_eq!(Record::decode(&bytes, SEAL, 3), Err(Refused::Malformed), "{len} bytes from {from} on");
    }
}

/// Records of all kinds, with fields at their limits.
fn samples() -> Vec<Record> {
    let previous = Some(Previous { zone: 7, opening: 8, lines: 9 });
    let add = |name: &[u8]| Item {
        what: item::ADD | item::DIR,
        index: 1,
        dir: 1,
        ino: (1 << 48) - 1,
        name: name.to_vec(),
        ..Item::default()
    };
    let remove =
        Item { what: item::REMOVE, index: 3, dir: 1, ino: 5, added: Id::new(4, 2), name: Vec::new() };
    let create = Create {
        ino: 3,
        dir: 1,
        name: vec![b'n'; 255],
        mode: 0o120_777,
        uid: 1,
        gid: 2,
        rdev: 3,
        time: 4,
        target: vec![b't'; 4095],
    };
    let bodies = [
        Body::Open(Open { shard: 4095, epoch: 3, previous, nonce: u64::MAX }),
        Body::Open(Open::default()),
        Body::Create(Create { name: b"a".to_vec(), target: Vec::new(), ..create.clone() }),
        Body::Create(create),
        Body::Names(Names { time: 5, items: vec![remove.clone()] }),
        Body::Names(Names { time: 5, items: vec![remove.clone(), add(b"to"), remove, add(&[b'x'; 255])] }),
        Body::Cut(Cut { ino: 3, size: 4, before: (1 << 40) - 1, time: 6 }),
        Body::Hole(Hole { ino: 3, from: 1, count: 2, before: 3, time: 4 }),
        Body::Owner(Owner { ino: 3, mode: 0o100_644, uid: u32::MAX, gid: 1, time: 2 }),
        Body::Times(Times { ino: 3, mask: 7, stamp: 1, atime: u64::MAX, mtime: 3 }),
        Body::Xattr(Xattr {
            ino: 3,
            name: b"user.a".to_vec(),
            value: vec![5; 300],
            blocks: None,
            before: 1,
            time: 2,
            removed: false,
        }),
        Body::Xattr(Xattr {
            ino: 3,
            name: b"user.a".to_vec(),
            value: Vec::new(),
            blocks: Some((9, 65_536)),
            before: 1,
            time: 2,
            removed: true,
        }),
        Body::Void(Void { zone: 1, opening: 2, failed: Id::new(3, 4) }),
        inline(4095, 1, None),
        inline(7, 65, Some(u64::MAX)),
        inline(BLOCK as u16 - 1024, BYTES_MAX, Some(1)),
    ];
    bodies.into_iter().chain(writes()).map(|body| Record::alone(Id::new(1 << 40, 7), body)).collect()
}

#[test]
fn every_record_is_read_back_as_it_was_written() {
    for record in samples() {
        let bytes = record.encode(SEAL, 3).expect("short enough");
        assert_eq!(bytes.len(), record.lines() * LINE);
        assert_eq!(Record::decode(&bytes, SEAL, 3), Ok((record, bytes.len() / LINE)));
    }
}

#[test]
fn no_changed_byte_and_no_lost_line_passes_for_a_record() {
    for record in samples() {
        let bytes = record.encode(SEAL, 3).expect("short enough");
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert_eq!(Record::decode(&changed, SEAL, 3), Err(Refused::NotSealed), "byte {at} of {record:?}");
        }
        for (line, content) in
            bytes.chunks_exact(LINE).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0))
        {
            let mut lost = bytes.clone();
            lost[line * LINE..(line + 1) * LINE].fill(0);
            assert_ne!(content, &lost[line * LINE..(line + 1) * LINE]);
            assert_eq!(Record::decode(&lost, SEAL, 3), Err(Refused::NotSealed), "line {line} of {record:?}");
            assert_eq!(
                Record::decode(&bytes[..line * LINE], SEAL, 3),
                Err(Refused::NotSealed),
                "{line} lines"
            );
        }
    }
}

#[test]
fn no_record_passes_at_another_place_or_under_another_secret() {
    for record in samples() {
        let bytes = record.encode(SEAL, 3).expect("short enough");
        let elsewhere = [
            (SEAL, 4),
            (Seal { opening: 10, ..SEAL }, 3),
            (Seal { secret: 78, ..SEAL }, 3),
            (Seal { nonce: 6, ..SEAL }, 3),
        ];
        for (seal, line) in elsewhere {
            assert_eq!(Record::decode(&bytes, seal, line), Err(Refused::NotSealed));
        }
    }
}

#[test]
fn a_sealed_record_of_an_unknown_kind_is_told_from_damage() {
    let mut bytes = samples()[0].encode(SEAL, 3).expect("short enough");
    bytes[8] = 99;
    let seed = SEAL.secret ^ SEAL.nonce ^ (SEAL.opening << 16 | 3);
    let sum = twox_hash::XxHash3_64::oneshot_with_seed(seed, &bytes[8..]);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Record::decode(&bytes, SEAL, 3), Err(Refused::UnknownKind(99)));
}

#[test]
fn a_write_of_many_extents_is_split_and_keeps_each_extent() {
    let extents: Vec<_> =
        (0..2000).map(|index| extent(index * 2, 1 + (index % 3) as u16, index % 2 == 0)).collect();
    let write = Write { ino: 3, extents: extents.clone().into(), size: Some(9), time: Some(8) };
    let records = write.split(Id::new(5, 0), RECORD_LINES_MAX);
    assert!(records.len() > 3 && records.iter().all(|record| record.lines() <= RECORD_LINES_MAX));
    let lines: usize = records.iter().map(Record::lines).sum();
    let mut before = 0;
    for record in &records {
        assert_eq!((usize::from(record.part), usize::from(record.group)), (before, lines));
        before += record.lines();
    }
    let of = |record: &Record| match &record.body {
        Body::Write(write) => write.extents.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(records.iter().flat_map(of).collect::<Vec<_>>(), extents);
}

/// A record has one bit for all of its extents.
#[test]
fn extents_with_checksums_and_without_are_read_back_from_one_write() {
    let unwritten = |file| Extent { unwritten: true, ..extent(file, 2, false) };
    let extents = vec![
        unwritten(0),
        extent(5, 1, true),
        unwritten(9),
        extent(20, 3, true),
        extent(30, 1, false),
        unwritten(40),
        extent(50, 4, false),
        extent(60, 2, true),
    ];
    let write = Write { ino: 3, extents: extents.clone().into(), size: Some(9), time: Some(8) };
    let records = write.split(Id::new(5, 0), RECORD_LINES_MAX);
    let read = |record: &Record| {
        let bytes = record.encode(SEAL, 3).expect("short enough");
        match Record::decode(&bytes, SEAL, 3).expect("a record").0.body {
            Body::Write(write) => write.extents,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(records.iter().flat_map(read).collect::<Vec<_>>(), extents);
}

#[test]
fn a_word_of_a_zone_is_bound_to_its_zone() {
    for usage in [Use::Free, Use::Log, Use::Saved, Use::Bad, Use::Table] {
        let word = Word { usage, shard: 4095, opening: (1 << 40) - 1 };
        assert_eq!(Word::unpack(5, word.pack(5)), Some(word));
    }
    let word = Word { usage: Use::Log, shard: 1, opening: 2 };
    let passing = (0..1000).filter(|zone| Word::unpack(*zone, word.pack(5)).is_some()).count();
    assert!(passing < 20, "{passing} of 1000 zones take the word of another: about 4 should");
    assert_eq!(Word::unpack(5, 0), None);
    assert_eq!(Word::decide(5, [0, word.pack(5)]), Some((word, true)));
    assert_eq!(Word::decide(5, [0, 0]), None);
}
