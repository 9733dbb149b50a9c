//! A repair gives up nothing that can still be read, and needs no second one.

use std::sync::Arc;

use check::configured::{region, virtually};
use design::Design;
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, Ino, IoFlags};

use crate::fsck::{BLOCK, NEW, UNLINKS, predicates};
use crate::harness::{SEED, WOFS, small};

/// An image that was unmounted after `body`.
fn image(body: impl FnOnce(&dyn FileSystem, Ino)) -> Arc<Region> {
    let (design, region) = (small(None), region(Bytes::kib(256)));
    design.mkfs(&region).expect("mkfs");
    let fs = design.mount(&region).expect("mount");
    body(&*fs, fs.root());
    fs.unmount().expect("unmount");
    region
}

fn create(fs: &dyn FileSystem, parent: Ino, name: &str, data: &[u8]) -> Ino {
    let ino = fs.create(parent, name.as_bytes(), &NEW).expect("space").ino;
    fs.write(ino, 0, data, IoFlags::empty()).expect("space");
    ino
}

/// Repairs an image, in which then nothing is wrong.
fn repair(region: &Arc<Region>) -> Arc<dyn FileSystem> {
    let done = WOFS.format().repair(&Storage::from(region)).expect("a repair");
    let left = WOFS.format().fsck(&Storage::from(region)).violations;
    assert!(left.is_empty(), "{done:?}: {left:?}");
    small(None).mount(region).expect("it can be mounted")
}

/// The file of the lower number lost its blocks by the UNLINK, which is damaged; it was the one that kept them.
#[test]
fn of_two_files_with_a_block_the_one_keeps_it_that_was_written_last() {
    virtually(SEED, || {
        let region = image(|fs, root| {
            let old = create(fs, root, "old", b"");
            for block in [4, 2, 0] {
                fs.write(old, block * BLOCK, &[1; BLOCK as usize], IoFlags::empty()).expect("space");
            }
            let kept = create(fs, root, "kept", &[2; 100]);
            fs.unlink(root, b"old").expect("it goes");
            fs.write(kept, 0, &[3; 3 * BLOCK as usize], IoFlags::empty()).expect("space");
        });
        region.store_u64(UNLINKS + 24, !0).expect("in range");
        assert_eq!(predicates(&region), ["data"]);
        let fs = repair(&region);
        let kept = fs.lookup(fs.root(), b"kept").expect("it is there").ino;
        let mut bytes = vec![0; 4 * BLOCK as usize];
        assert_eq!(fs.read(kept, 0, &mut bytes, IoFlags::empty()), Ok(3 * BLOCK as usize));
        assert!(bytes[..3 * BLOCK as usize].iter().all(|byte| *byte == 3));
    });
}
