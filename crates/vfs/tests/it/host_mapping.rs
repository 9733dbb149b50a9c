//! Mapped files of the host: does a mapping keep what `vfs::mapping` says where the kernel would send a signal?

use vfs::mapping::PAGE;
use vfs::{Errno, Fd, Host, Mapping, MappingKind, OpenFlags, Protection, SetAttr, Syscalls};

const BOTH: Protection = Protection::READ.union(Protection::WRITE);

fn host() -> (tempfile::TempDir, Host) {
    let folder = tempfile::tempdir().expect("a directory");
    let host = Host::new(folder.path()).expect("a host");
    (folder, host)
}

fn open(host: &Host, path: &str) -> Fd {
    let flags = OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE;
    host.open(path.as_bytes(), flags, 0o644).expect("open")
}

fn loaded(mapping: &dyn Mapping, at: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0xEE; len];
    mapping.read(at, &mut buffer).expect("load");
    buffer
}

#[test]
fn a_mapping_and_a_descriptor_see_the_same_bytes() {
    let (_folder, host) = host();
    let fd = open(&host, "file");
    host.pwrite(fd, &[1; 9000], 0).unwrap();
    let mapping = host.mmap(fd, 4096, 4096, BOTH).unwrap();
    assert_eq!(loaded(&*mapping, 0, 4096), [1; 4096]);
    mapping.write(4, b"stored").unwrap();
    mapping.sync(0, PAGE).unwrap();
    let mut back = [0; 6];
    assert_eq!(host.pread(fd, &mut back, 4100), Ok(6));
    assert_eq!(&back, b"stored");
    host.pwrite(fd, b"written", 5000).unwrap();
    assert_eq!(loaded(&*mapping, 5000 - 4096, 7), b"written");
}

#[test]
fn an_access_beyond_the_end_of_the_file_is_an_error_and_not_the_end_of_the_process() {
    let (_folder, host) = host();
    let fd = open(&host, "file");
    host.pwrite(fd, &[1; 9000], 0).unwrap();
    let mapping = host.mmap(fd, 0, 5 * PAGE, BOTH).unwrap();
    let byte = |at: u64| mapping.read(at, &mut [0]);
    assert_eq!((byte(8999), byte(9001), byte(12_287)), (Ok(()), Ok(()), Ok(())));
    assert_eq!((byte(12_288), byte(5 * PAGE)), (Err(Errno::EFAULT), Err(Errno::EFAULT)));
    assert_eq!(mapping.write(12_288, b"x"), Err(Errno::EFAULT));
    host.ftruncate(fd, 20_000).unwrap();
    assert_eq!(mapping.write(19_999, b"x"), Ok(()));
    // Every way in which this process may make it shorter.
    host.ftruncate(fd, 100).unwrap();
    assert_eq!((byte(99), byte(4096)), (Ok(()), Err(Errno::EFAULT)));
    host.truncate(b"file", 20_000).unwrap();
    assert_eq!(byte(4096), Ok(()));
    host.truncate(b"file", 100).unwrap();
    assert_eq!(byte(4096), Err(Errno::EFAULT));
    host.setattr(b"file", &SetAttr { size: Some(20_000), ..SetAttr::default() }).unwrap();
    assert_eq!(byte(4096), Ok(()));
    host.setattr(b"file", &SetAttr { size: Some(1), ..SetAttr::default() }).unwrap();
    assert_eq!((byte(0), byte(4096)), (Ok(()), Err(Errno::EFAULT)));
    host.open(b"file", OpenFlags::WRITE | OpenFlags::TRUNCATE, 0).unwrap();
    assert_eq!(byte(0), Err(Errno::EFAULT));
}

#[test]
fn a_mapping_outlives_its_descriptor_and_the_name_of_its_file() {
    let (_folder, host) = host();
    let fd = open(&host, "file");
    host.pwrite(fd, &[1; 100], 0).unwrap();
    let mapping = host.mmap(fd, 0, PAGE, BOTH).unwrap();
    host.close(fd).unwrap();
    host.unlink(b"file").unwrap();
    mapping.write(50, b"x").unwrap();
    assert_eq!(loaded(&*mapping, 49, 3), [1, b'x', 1]);
}

#[test]
fn only_open_regular_files_are_mapped_and_only_as_they_are_open() {
    let (_folder, host) = host();
    let fd = open(&host, "file");
    host.pwrite(fd, &[1; 100], 0).unwrap();
    let mmap = |fd, offset, len, protection| host.mmap(fd, offset, len, protection).map(drop);
    assert_eq!(mmap(fd, 1, PAGE, BOTH), Err(Errno::EINVAL));
    assert_eq!(mmap(fd, 0, 0, BOTH), Err(Errno::EINVAL));
    assert_eq!(mmap(Fd(99), 0, PAGE, BOTH), Err(Errno::EBADF));
    let read_only = host.open(b"file", OpenFlags::READ, 0).unwrap();
    assert_eq!(mmap(read_only, 0, PAGE, BOTH), Err(Errno::EACCES));
    assert_eq!(mmap(read_only, 0, PAGE, Protection::READ), Ok(()));
    let write_only = host.open(b"file", OpenFlags::WRITE, 0).unwrap();
    assert_eq!(mmap(write_only, 0, PAGE, Protection::WRITE), Err(Errno::EACCES));
    let dir = host.open(b".", OpenFlags::READ, 0).unwrap();
    assert_eq!(mmap(dir, 0, PAGE, Protection::READ), Err(Errno::ENODEV));
    let chosen = |kind| host.mmap_as(fd, 0, PAGE, BOTH, kind).map(drop);
    assert_eq!(
        (chosen(MappingKind::AsMounted), chosen(MappingKind::Atomic)),
        (Ok(()), Err(Errno::EOPNOTSUPP))
    );
    let mapping = host.mmap(fd, 0, PAGE, Protection::READ).unwrap();
    assert_eq!(mapping.write(0, b"x"), Err(Errno::EFAULT));
    assert_eq!(mapping.sync(1, 1), Err(Errno::EINVAL));
    assert_eq!(mapping.sync(0, 2 * PAGE), Err(Errno::ENOMEM));
}
