//! The trace of a mount's requests: `--record FILE`.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use fuse::Recorder;
use trace::Writer;
use trace::import::Emitter;
use trace::record::Head;

use crate::failure::{Exit, Failure};
use crate::output;

/// Begins the trace, if one is wanted. A file that is there is not overwritten.
pub(super) fn begin(file: Option<&Path>, design: &str) -> Result<Option<Arc<Recorder>>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let out = File::create_new(file).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("{} exists: name another file, or remove it", file.display()))
        }
        _ => Failure::io("create", file, &error),
    })?;
    let mut head = Head::new(&format!("weir mount {}", env!("CARGO_PKG_VERSION")), b"/");
    head.set("design", design.as_bytes());
    // What a program waited for the kernel and this server is in its gaps.
    head.set("clock", b"wall");
    head.set("snapshot", b"touched");
    let out: Box<dyn std::io::Write + Send> = Box::new(out);
    let recorder = Writer::new(out, &head, true).map(Emitter::new).and_then(Recorder::new);
    recorder.map(Some).map_err(|error| Failure::io("write", file, &error))
}

/// The mount was refused: there is nothing to record.
pub(super) fn abandon(file: Option<&Path>) {
    file.map(std::fs::remove_file);
}

/// The kernel has gone: the trace gets its end.
pub(super) fn end(recorder: Option<&Recorder>, file: Option<&Path>) -> Result<(), Failure> {
    let (Some(recorder), Some(file)) = (recorder, file) else { return Ok(()) };
    let sums = recorder.finish().map_err(|error| {
        let what = "the trace ends before the mount does";
        Failure::new(Exit::Run, format!("{}: {error}; {what}", file.display()))
    })?;
    if let Some(names) = sums.losses.names() {
        let (file, calls) = (file.display(), sums.losses.calls());
        output::say(&format!(
            "note: {file} lacks {calls} requests or more ({names}): `weir trace stat` says why"
        ));
    }
    Ok(())
}
