//! Mapped files.

use check::NEW;
use check::configured::{region, virtually};
use sim::{Bytes, Nanos};
use vfs::SetAttr;

use crate::harness::small_with;

/// What was stored to a page that a truncation cut off says nothing of the page that is there now.
#[test]
fn the_first_store_to_a_page_of_a_file_that_was_cut_and_grew_sets_its_times() {
    let set = virtually(1, || {
        let (design, region) = (small_with(&[]), region(Bytes::mib(4)));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let ino = fs.create(fs.root(), b"a", &NEW).expect("space").ino;
        let maps = fs.mapped_files().expect("files can be mapped");
        let resize = |size| {
            let set = SetAttr { size: Some(size), ..SetAttr::default() };
            fs.setattr(ino, &set).expect("space");
        };
        let sets_times = |page: u64| {
            let before = fs.getattr(ino).expect("it is there").mtime;
            sim::sleep(Nanos::from_secs(1));
            maps.store(ino, page * 4096, b"bytes").expect("it lies in the file");
            fs.getattr(ino).expect("it is there").mtime > before
        };
        resize(3 * 4096);
        maps.map(ino, &(0..3), true).expect("a mapping");
        let new = [0, 0, 1, 2].map(sets_times);
        resize(0);
        resize(3 * 4096);
        let grown = [0, 1, 2].map(sets_times);
        resize(4096 + 10);
        resize(3 * 4096);
        let grown_in_part = [0, 1, 2].map(sets_times);
        fs.unmount().expect("unmount");
        (new, grown, grown_in_part)
    });
    assert_eq!(set, ([true, false, true, true], [true; 3], [false, false, true]));
}
