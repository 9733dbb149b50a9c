//! `weir scrub`: what has changed in the file of a pool is found, and the file in it is named.

use std::fs;
use std::path::Path;
use std::process::Output;

use pool::{Bytes, PoolOptions};

use crate::shared::place::{stderr, weir};

const WORDS: &[u8] = b"the only place with these words";

/// A pool with a file in a folder, whose third block begins with these words.
fn made(path: &Path, design: &str, checksums: bool) {
    let options = PoolOptions::new(design).size(Bytes::mib(16));
    // Of one shard, so that records follow each other.
    let options = if checksums { options.option("checksum", "data").option("shards", "1") } else { options };
    let pool = options.open(path).expect("a new pool");
    pool.create_dir("folder").expect("a new name");
    let contents = [&[b'a'; 8192], WORDS, &[b'b'; 9000]].concat();
    pool.write("folder/text", contents).expect("room");
    pool.write("other", [b'c'; 5000]).expect("room");
    pool.close().expect("it is unmounted");
}

/// Changes a bit of these bytes in the file of a pool.
fn flip(path: &Path, words: &[u8]) {
    let mut bytes = fs::read(path).expect("it can be read");
    let at = bytes.windows(words.len()).rposition(|window| window == words).expect("they are there");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

fn scrub(path: &Path, more: &[&str]) -> (Option<i32>, String, Output) {
    let output = weir().arg("scrub").arg(path).args(more).output().expect("weir runs");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned(), output)
}

#[test]
fn scrub_finds_a_flipped_bit_and_names_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.weir");
    made(&path, "crest", true);
    let (code, said, output) = scrub(&path, &[]);
    assert_eq!(code, Some(0), "{said}{}", stderr(&output));
    assert!(said.contains("4 inodes") && said.contains("compared with checksums: all"), "{said}");
    flip(&path, WORDS);
    let before = fs::read(&path).expect("it can be read");
    let (code, said, output) = scrub(&path, &["--fs", "crest"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("damaged: /folder/text: bytes 8192 to 12287: EIO"), "{said}");
    assert!(said.contains("the checksum of block"), "{said}");
    assert!(stderr(&output).contains("1 place damaged"), "{}", stderr(&output));
    assert!(fs::read(&path).expect("it can be read") == before, "the pool was changed");
    let (code, said, _) = scrub(&path, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&said).expect("one document");
    assert_eq!(
        (code, &document["schema"], &document["damaged"]),
        (Some(1), &"weir.scrub/1".into(), &true.into())
    );
    let file = serde_json::json!({ "path": "/folder/text", "offset": 8192, "bytes": 4096, "error": "EIO" });
    assert_eq!(document["files"], serde_json::json!([file]));
    assert_eq!(document["bytes_read"], document["bytes_compared"]);
}

/// It cannot tell changed data from other data there, and says so.
#[test]
fn scrub_of_a_design_without_checksums_reads_all_and_says_what_it_could_not_compare() {
    for design in ["crest", "pmfs", "nova", "hinfs", "ext4"] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pool.weir");
        made(&path, design, false);
        flip(&path, WORDS);
        let (code, said, output) = scrub(&path, &[]);
        assert_eq!(code, Some(0), "{design}: {said}{}", stderr(&output));
        assert!(said.contains("it is known only that they can be read"), "{design}: {said}");
    }
}

/// WOFS keeps no copy of its superblock. What cannot be mounted is not copied from a mount.
#[test]
fn a_pool_that_cannot_be_mounted_is_answered_with_what_a_repair_would_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.weir");
    made(&path, "wofs", false);
    let mut bytes = fs::read(&path).expect("it can be read");
    bytes[..4096].fill(0);
    fs::write(&path, bytes).expect("it can be written");
    let (code, said, output) = scrub(&path, &["--fs", "wofs"]);
    let told = stderr(&output);
    assert_eq!(code, Some(1), "{said}{told}");
    assert!(told.contains("weir fsck --dry-run") && told.contains("weir fsck --repair"), "{told}");
    assert!(!told.contains("weir mount"), "{told}");
}

#[test]
fn scrub_finds_a_record_that_is_lost_and_reads_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pool.weir");
    made(&path, "crest", true);
    // The records of the other file follow.
    flip(&path, b"text");
    let (code, said, _) = scrub(&path, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("damaged metadata: zone") && said.contains("predicate log_sound"), "{said}");
    assert!(said.contains("cannot be changed") && said.contains("inodes"), "{said}");
}
