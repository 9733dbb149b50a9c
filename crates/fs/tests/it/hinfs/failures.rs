//! Media that refuse an access in the middle: the call fails, the image stays sound, and nothing is written where it no longer
//! belongs.

use media::Storage;
use media::fault::{Fault, Target};
use sim::Bytes;
use vfs::{Errno, IoFlags, SetAttr};

use crate::hinfs::support::{DESIGNS, Mounted, PAGE, free_region, virtually};

const OPTIONS: &[(&str, &str)] = &[("jsize", "64k"), ("buffer", "64k"), ("medium_write", "200ns")];

/// A history in which every kind of step is taken; true when one has failed.
fn history(mounted: &Mounted) -> bool {
    let fs = &mounted.fs;
    let mut failed = false;
    let mut note = |result: Result<(), Errno>| failed |= result.is_err();
    let Ok(old) = fs.lookup(fs.root(), b"old") else { return true };
    let file = fs.create(fs.root(), b"new", &crate::hinfs::support::NEW);
    note(file.map(drop));
    for ino in file.iter().map(|attr| attr.ino).chain([old.ino]) {
        note(fs.write(ino, 0, &[1; 3 * PAGE], IoFlags::empty()).map(drop));
        note(fs.write(ino, 5 * PAGE as u64 + 100, &[2; 9000], IoFlags::empty()).map(drop));
        note(fs.write(ino, 70, &[3; 10], IoFlags::SYNC).map(drop));
        note(fs.write(ino, 30_000, &[4; 9000], IoFlags::empty()).map(drop));
        note(fs.fsync(ino, false));
        note(fs.write(ino, 40_000, &vec![5; 20_000], IoFlags::empty()).map(drop));
        note(fs.setattr(ino, &SetAttr { size: Some(50_000), ..SetAttr::default() }).map(drop));
        note(fs.write(ino, 50_000, &vec![6; 20_000], IoFlags::empty()).map(drop));
    }
    note(fs.unlink(fs.root(), b"new"));
    note(fs.sync());
    failed
}

#[test]
fn a_refused_access_fails_the_call_and_harms_nothing_else() {
    for design in DESIGNS {
        for target in [Target::Store, Target::Load] {
            let (mut struck, mut nth) = (0, 1);
            while nth < 4000 {
                struck += u64::from(virtually(nth, move || strike(design, Fault::FailNth { target, nth })));
                nth += 1 + nth / 12;
            }
            println!("{design}: {struck} refused {target}s were reported");
            assert!(struck > 10);
        }
    }
}

fn strike(design: &'static str, fault: Fault) -> bool {
    let mounted = Mounted::new(design, free_region(Bytes::mib(2)), OPTIONS);
    let other = mounted.create("other");
    mounted.write_sync(other, 0, &vec![9; 40_000]);
    let old = mounted.create("old");
    mounted.write_sync(old, 0, &[8; 6000]);
    mounted.region.inject(fault);
    let failed = history(&mounted);
    mounted.region.clear_faults();
    // Blocks that the failure freed are given out again, so the old owner must not write to them.
    let more =
        mounted.fs.create(mounted.fs.root(), b"more", &crate::hinfs::support::NEW).map(|attr| attr.ino);
    let wrote =
        more.and_then(|more| mounted.fs.write(more, 0, &vec![7; 200_000], IoFlags::SYNC).map(|_| more));
    sim::sleep(sim::Nanos::from_secs(40));
    assert!(
        mounted.read(other, 0, 50_000) == vec![9; 40_000],
        "{design}, {fault:?}: another file was harmed"
    );
    if let Ok(more) = wrote {
        assert!(
            mounted.read(more, 0, 300_000) == vec![7; 200_000],
            "{design}, {fault:?}: a new file was harmed"
        );
    }
    // A journal that could not end a transaction refuses to unmount cleanly: mounting again recovers.
    let unmounted = mounted.fs.unmount();
    if unmounted.is_err() {
        mounted.design.format().recover(&Storage::from(&mounted.region)).expect("recovery");
    }
    mounted.check();
    let fs = mounted.design.mount(&Storage::from(&mounted.region), &mounted.options).expect("mount again");
    let mut bytes = vec![0; 50_000];
    assert_eq!(fs.read(other, 0, &mut bytes, IoFlags::empty()), Ok(40_000));
    assert!(bytes[..40_000] == vec![9; 40_000]);
    fs.unmount().expect("unmount");
    mounted.check();
    failed
}
