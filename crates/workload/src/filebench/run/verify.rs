//! After a run: is everything there that was written, and nothing else?

use vfs::{Errno, OpenFlags, Syscalls};

use crate::filebench::fileset::pick::State;

use super::Engine;
use super::error::EngineError;
use super::files::Files;

const CHUNK_BYTES: usize = 1 << 20;

/// What was found to be as it should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Files whose contents were compared.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Names that do not exist and should not.
    pub absent: u64,
}

impl Engine {
    /// Reads every file of every fileset and compares it with its pattern; looks that no other one exists.
    /// With [`check`](super::Options::check) on, sizes are compared too.
    ///
    /// For the end of a run, or for the state after a clean mount; after a crash a file may rightly be
    /// shorter.
    pub fn verify(&self, calls: &dyn Syscalls) -> Result<Verified, EngineError> {
        let mut verified = Verified::default();
        let (mut path, mut buffer) = (String::new(), vec![0; CHUNK_BYTES]);
        for files in &self.sets {
            for file in 0..files.tree.files() {
                let state = files.lock().files.state(file);
                files.file_path(file, &mut path);
                match state {
                    State::Free => {}
                    State::Absent => {
                        is_absent(calls, &path)?;
                        verified.absent += 1;
                    }
                    State::Existing => {
                        verified.bytes += self.compare(files, file, &path, calls, &mut buffer)?;
                        verified.files += 1;
                    }
                }
            }
        }
        Ok(verified)
    }

    /// Compares one file; returns its size.
    fn compare(
        &self,
        files: &Files,
        file: u32,
        path: &str,
        calls: &dyn Syscalls,
        buffer: &mut [u8],
    ) -> Result<u64, EngineError> {
        let fd =
            calls.open(path.as_bytes(), OpenFlags::READ, 0).map_err(|errno| failed("open", path, errno))?;
        let phase = self.pattern.phase(path.as_bytes());
        let mut offset = 0;
        loop {
            let read = calls.read(fd, buffer).map_err(|errno| failed("read", path, errno))?;
            if read == 0 {
                break;
            }
            self.pattern.check(phase, offset, &buffer[..read], self.holes).map_err(|mismatch| {
                EngineError::Mismatch { what: "verify".to_owned(), path: path.to_owned(), mismatch }
            })?;
            offset += read as u64;
        }
        calls.close(fd).map_err(|errno| failed("close", path, errno))?;
        match files.written(file) {
            Some(wanted) if wanted != offset => {
                Err(EngineError::Size { path: path.to_owned(), found: offset, wanted })
            }
            _ => Ok(offset),
        }
    }
}

fn is_absent(calls: &dyn Syscalls, path: &str) -> Result<(), EngineError> {
    match calls.stat(path.as_bytes()) {
        Err(Errno::ENOENT) => Ok(()),
        Ok(_) => Err(EngineError::Undead { path: path.to_owned() }),
        Err(errno) => Err(failed("stat", path, errno)),
    }
}

fn failed(call: &'static str, path: &str, errno: Errno) -> EngineError {
    EngineError::Call { what: "verify".to_owned(), call, path: path.to_owned(), errno }
}
