//! Reading, writing, sizes, holes.

use vfs::{Errno, FallocateMode, Fd, FileKind, LeftOut, OpenFlags, SeekTo, Syscalls, Whence};

use super::world::{
    ALICE, BOB, Ground, READ, READ_WRITE, ROOT, WRITE, attr, contents, done, fails, fails_with, make, with,
    write,
};
use super::{Check, Rule, same};

pub(crate) const RULES: &[Rule] = &[
    ("write and read move the offset; read ends at the end of the file", offsets),
    ("lseek counts from begin, offset and end, and never goes below zero", lseek),
    ("what was never written reads as zeros, and takes no space", holes),
    ("O_APPEND writes at the end, wherever the offset is", append),
    ("O_TRUNC empties a file, and leaves others alone", truncating_open),
    ("truncate cuts and extends with zeros", truncate),
    ("what a truncate cut off never comes back", cut_bytes_stay_away),
    ("truncate: EISDIR, EINVAL, EACCES", truncate_refuses),
    ("ftruncate: EINVAL or EBADF for a descriptor that may not write", ftruncate_refuses),
    ("read and write: EBADF, EISDIR", io_refuses),
    ("a descriptor's rights are those of its open", rights_stay),
    ("dup shares the offset, a second open does not", sharing),
    ("large offsets work, and too large ones are EFBIG or EINVAL", large_offsets),
    ("fallocate extends, keeps the size, punches and zeroes [Linux]", fallocate),
    ("SEEK_DATA and SEEK_HOLE find what is there", seek_data),
    ("odd lengths at odd places keep every byte", odd_pieces),
];

fn offsets(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", b"")?;
        let outcome = with(calls, "f", READ_WRITE, |fd| {
            calls.write(fd, b"hello ")?;
            calls.write(fd, b"world")?;
            let end = calls.read(fd, &mut [0; 5])?;
            calls.lseek(fd, 6, Whence::Set)?;
            let mut bytes = [0; 20];
            let read = calls.read(fd, &mut bytes)?;
            Ok((end, bytes[..read].to_vec(), calls.read(fd, &mut bytes)?, calls.fstat(fd)?.size))
        });
        same("reads", outcome, Ok((0, b"world".to_vec(), 0, 11)))
    })
}

fn lseek(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", &[1; 100])?;
        let outcome = with(calls, "f", READ, |fd| {
            let places = [
                calls.lseek(fd, 30, Whence::Set)?,
                calls.lseek(fd, -10, Whence::Current)?,
                calls.lseek(fd, -5, Whence::End)?,
                calls.lseek(fd, 1000, Whence::End)?,
            ];
            Ok((places, calls.lseek(fd, -1, Whence::Set), calls.lseek(fd, -2000, Whence::Current)))
        });
        same("offsets", outcome, Ok(([30, 20, 95, 1100], Err(Errno::EINVAL), Err(Errno::EINVAL))))
    })
}

fn holes(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", b"x")?;
        done("pwrite", with(calls, "f", WRITE, |fd| calls.pwrite(fd, b"end", 10_000_000)))?;
        let bytes = contents(calls, "f").map_err(|errno| errno.to_string())?;
        same("length", bytes.len(), 10_000_003)?;
        same("the hole", bytes[1..10_000_000].iter().all(|byte| *byte == 0), true)?;
        same("its end", &bytes[10_000_000..], b"end")?;
        let is_sparse = attr(calls, "f")?.blocks * 512 < 1_000_000;
        same("takes less than its size", is_sparse, !ground.lacks(LeftOut::HOLES))
    })
}

fn append(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", b"one")?;
        let appended = with(calls, "f", WRITE | OpenFlags::APPEND, |fd| {
            calls.lseek(fd, 0, Whence::Set)?;
            calls.write(fd, b"two")?;
            calls.lseek(fd, 1, Whence::Set)?;
            calls.write(fd, b"three")
        });
        same("the last write", appended, Ok(5))?;
        same("contents", contents(calls, "f"), Ok(b"onetwothree".to_vec()))
    })
}

fn truncating_open(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", &[7; 10_000])?;
        done("open", with(calls, "f", WRITE | OpenFlags::TRUNCATE, |_| Ok(())))?;
        same("size", (attr(calls, "f")?.size, attr(calls, "f")?.blocks), (0, 0))?;
        write(calls, "g", b"kept")?;
        done("open", with(calls, "g", READ_WRITE | OpenFlags::CREATE, |_| Ok(())))?;
        same("contents", contents(calls, "g"), Ok(b"kept".to_vec()))
    })
}

fn truncate(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for size in [0, 1, 100, 4095, 4096, 4097, 12_288, 100_000] {
            write(calls, "f", &[5; 10_000])?;
            done("truncate", calls.truncate(b"f", size))?;
            let mut expected = vec![5; 10_000];
            expected.resize(size as usize, 0);
            same(&format!("{size} bytes"), contents(calls, "f") == Ok(expected), true)?;
            done("unlink", calls.unlink(b"f"))?;
        }
        Ok(())
    })
}

fn cut_bytes_stay_away(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", &[9; 9000])?;
        done("cut", calls.truncate(b"f", 100))?;
        done("extend", calls.truncate(b"f", 9000))?;
        let mut expected = vec![9; 100];
        expected.resize(9000, 0);
        same("contents", contents(calls, "f") == Ok(expected.clone()), true)?;
        done("cut", calls.truncate(b"f", 50))?;
        done("write beyond", with(calls, "f", WRITE, |fd| calls.pwrite(fd, &[3; 10], 8990)))?;
        expected[50..].fill(0);
        expected[8990..].fill(3);
        same("contents", contents(calls, "f") == Ok(expected), true)
    })
}

fn truncate_refuses(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        make(calls, "f", 0o644)?;
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        fails("a directory", calls.truncate(b"d", 0), Errno::EISDIR)?;
        fails("below zero", calls.truncate(b"f", u64::MAX), Errno::EINVAL)
    })?;
    ground.by(BOB, |calls| fails("somebody else's", calls.truncate(b"f", 0), Errno::EACCES))
}

fn ftruncate_refuses(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", b"contents")?;
        let refused = with(calls, "f", READ, |fd| Ok(calls.ftruncate(fd, 0)));
        let refused = refused.map_err(|errno| errno.to_string())?;
        fails_with("ftruncate", refused, &[Errno::EINVAL, Errno::EBADF])?;
        same("contents", contents(calls, "f"), Ok(b"contents".to_vec()))
    })
}

fn io_refuses(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", b"contents")?;
        let read_only =
            with(calls, "f", READ, |fd| Ok(calls.write(fd, b"x"))).map_err(|errno| errno.to_string())?;
        fails("write", read_only, Errno::EBADF)?;
        let write_only =
            with(calls, "f", WRITE, |fd| Ok(calls.read(fd, &mut [0]))).map_err(|errno| errno.to_string())?;
        fails("read", write_only, Errno::EBADF)?;
        let directory =
            with(calls, ".", READ, |fd| Ok(calls.read(fd, &mut [0]))).map_err(|errno| errno.to_string())?;
        fails("a directory", directory, Errno::EISDIR)
    })
}

fn rights_stay(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        let outcome = calls.open(b"f", super::world::MAKE, 0o000).and_then(|fd| {
            calls.write(fd, b"written")?;
            let mut bytes = [0; 7];
            calls.pread(fd, &mut bytes, 0)?;
            calls.close(fd)?;
            Ok(bytes)
        });
        same("its maker's descriptor", outcome, Ok(*b"written"))?;
        fails("another open", calls.open(b"f", READ, 0), Errno::EACCES)
    })
}

fn sharing(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", b"abcdef")?;
        let outcome = with(calls, "f", READ, |fd| {
            let (copy, other) = (calls.dup(fd)?, calls.open(b"f", READ, 0)?);
            let mut bytes = [0; 2];
            calls.read(fd, &mut bytes)?;
            calls.read(copy, &mut bytes)?;
            let mut first = [0; 2];
            calls.read(other, &mut first)?;
            calls.close(copy)?;
            calls.close(other)?;
            Ok((bytes, first))
        });
        same("bytes", outcome, Ok((*b"cd", *b"ab")))
    })
}

fn large_offsets(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o644)?;
        if !ground.lacks(LeftOut::HOLES) {
            let far = 5 << 30;
            done("beyond 4 GiB", with(calls, "f", WRITE, |fd| calls.pwrite(fd, b"x", far)))?;
            same("size", attr(calls, "f")?.size, far + 1)?;
        }
        let refused = with(calls, "f", WRITE, |fd| Ok(calls.pwrite(fd, b"x", u64::MAX / 2)));
        let refused = refused.map_err(|errno| errno.to_string())?;
        fails_with("the last offset", refused, &[Errno::EFBIG, Errno::EINVAL])?;
        done("cut", calls.truncate(b"f", 0))
    })
}

/// Allocates a range; zeroes it where nothing can be reserved, which has the same size and contents in a range without data.
pub(super) fn reserve_or_zero(
    calls: &dyn Syscalls,
    fd: Fd,
    mode: FallocateMode,
    offset: u64,
    len: u64,
) -> Result<(), Errno> {
    match calls.fallocate(fd, mode, offset, len) {
        Err(Errno::EOPNOTSUPP) if !mode.contains(FallocateMode::PUNCH_HOLE) => {
            calls.fallocate(fd, mode | FallocateMode::ZERO_RANGE, offset, len)
        }
        done => done,
    }
}

fn fallocate(ground: &Ground<'_>) -> Check {
    if ground.lacks(LeftOut::RANGES) {
        return Ok(());
    }
    ground.by(ROOT, |calls| {
        write(calls, "f", &[1; 10_000])?;
        let modes = [
            (FallocateMode::empty(), 10_000, 10_000, 20_000),
            (FallocateMode::KEEP_SIZE, 20_000, 20_000, 20_000),
            (FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE, 4096, 4096, 20_000),
        ];
        for (mode, offset, len, size) in modes {
            let allocated = with(calls, "f", WRITE, |fd| reserve_or_zero(calls, fd, mode, offset, len));
            done("fallocate", allocated)?;
            same("size", attr(calls, "f")?.size, size)?;
        }
        let mut expected = vec![1; 10_000];
        expected.resize(20_000, 0);
        expected[4096..8192].fill(0);
        same("contents", contents(calls, "f") == Ok(expected), true)?;
        let refused = with(calls, "f", READ, |fd| Ok(calls.fallocate(fd, FallocateMode::empty(), 0, 1)));
        fails("without the right", refused.map_err(|errno| errno.to_string())?, Errno::EBADF)?;
        let empty = with(calls, "f", WRITE, |fd| Ok(calls.fallocate(fd, FallocateMode::empty(), 0, 0)));
        fails("nothing", empty.map_err(|errno| errno.to_string())?, Errno::EINVAL)
    })
}

fn seek_data(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o644)?;
        let found = with(calls, "f", READ_WRITE, |fd| {
            calls.pwrite(fd, &[1; 100], 1 << 20)?;
            let data = calls.lseek(fd, 0, Whence::Find(SeekTo::Data))?;
            let hole = calls.lseek(fd, 1 << 20, Whence::Find(SeekTo::Hole))?;
            let end = calls.lseek(fd, 2 << 20, Whence::Find(SeekTo::Data));
            Ok((data <= 1 << 20, hole > 1 << 20, end))
        });
        same("places", found, Ok((true, true, Err(Errno::ENXIO))))
    })
}

fn odd_pieces(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        let mut expected: Vec<u8> = Vec::new();
        make(calls, "f", 0o644)?;
        let pieces = [(0, 1), (7, 9), (63, 2), (4095, 2), (4000, 200), (8191, 4098), (1, 4096), (20_001, 63)];
        let written = with(calls, "f", WRITE, |fd| {
            for (number, (offset, len)) in pieces.into_iter().enumerate() {
                let data: Vec<u8> = (0..len).map(|at| (1 + number * 37 + at % 89) as u8).collect();
                expected.resize(expected.len().max(offset + len), 0);
                expected[offset..offset + len].copy_from_slice(&data);
                calls.pwrite(fd, &data, offset as u64)?;
            }
            Ok(())
        });
        done("writes", written)?;
        same("contents", contents(calls, "f") == Ok(expected), true)?;
        same("kind", attr(calls, "f")?.kind, FileKind::Regular)
    })
}
