//! Tracepoints of the running kernel: their numbers, and where the fields of their events lie (Documentation/trace/events.rst).

use std::collections::BTreeMap;
use std::path::Path;

use rustix::mount::{MountFlags, mount};

use crate::kernel_fs;

/// Where tracefs is mounted (Documentation/trace/ftrace.rst).
const TRACEFS: &str = "/sys/kernel/tracing";

/// A tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tracepoint {
    pub(super) id: u64,
    /// Offset and size of each field in the raw data of an event.
    fields: BTreeMap<String, (usize, usize)>,
}

/// The tracepoints of a system that are wanted, or why one cannot be had.
pub(super) type Found = Result<Vec<Tracepoint>, String>;

/// Looks for tracepoints, each a system and a name, and returns what was found for each list. Where tracefs is not mounted, it is
/// for this look only, in a mount namespace of its own.
pub(super) fn find(wanted: &'static [&'static [&'static str]]) -> Vec<Found> {
    let look = |root: &Path| wanted.iter().map(|list| of(list, root)).collect::<Vec<Found>>();
    let root = Path::new(TRACEFS);
    if root.join("events").is_dir() {
        return look(root);
    }
    let aside = std::thread::spawn(move || match mount_tracefs(root) {
        Ok(()) => look(root),
        Err(why) => wanted.iter().map(|_| Err(why.clone())).collect(),
    });
    aside
        .join()
        .unwrap_or_else(|_| wanted.iter().map(|_| Err("the look at tracefs failed".to_owned())).collect())
}

fn mount_tracefs(root: &Path) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| {
        format!("tracefs is not mounted on {}, and cannot be: {error}", root.display())
    };
    kernel_fs::enter().map_err(|why| told(&why))?;
    mount("none", root, "tracefs", MountFlags::empty(), None).map_err(|error| told(&error))
}

fn of(list: &[&str], root: &Path) -> Found {
    let one = |name: &&str| {
        let path = root.join("events").join(name).join("format");
        let text = std::fs::read_to_string(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("this kernel has no tracepoint {name}"),
            _ => format!("the tracepoint {name} cannot be read: {error}"),
        })?;
        parse(&text).ok_or_else(|| format!("the format of the tracepoint {name} is not understood"))
    };
    list.iter().map(one).collect()
}

/// A `format` file: `ID: 408`, and a line for each field, as `field:void * lock_addr; offset:8; size:8; signed:0;`.
fn parse(text: &str) -> Option<Tracepoint> {
    let id = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
    let field = |line: &str| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let name = parts.next()?.split_ascii_whitespace().last()?;
        let name = name.trim_start_matches('*').split('[').next()?.to_owned();
        let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse().ok();
        Some((name, (number("offset:")?, number("size:")?)))
    };
    Some(Tracepoint { id, fields: text.lines().filter_map(field).collect() })
}

impl Tracepoint {
    /// The value of a field in the raw data of an event; none where it does not have it.
    pub(super) fn value(&self, field: &str, raw: &[u8]) -> Option<u64> {
        let (offset, size) = *self.fields.get(field)?;
        let bytes = raw.get(offset..offset.checked_add(size)?)?;
        match size {
            4 => Some(u64::from(u32::from_ne_bytes(bytes.try_into().ok()?))),
            8 => Some(u64::from_ne_bytes(bytes.try_into().ok()?)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "name: contention_begin\nID: 408\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
        \tfield:void * lock_addr;\toffset:8;\tsize:8;\tsigned:0;\n\
        \tfield:unsigned int flags;\toffset:16;\tsize:4;\tsigned:0;\n\
        \tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;\n\nprint fmt: \"%p\", REC->lock_addr\n";

    #[test]
    fn fields_are_found_where_the_format_says_and_an_event_that_is_too_short_has_none() {
        let tracepoint = parse(FORMAT).unwrap();
        assert_eq!(tracepoint.id, 408);
        let mut raw = [0_u8; 36];
        raw[8..16].copy_from_slice(&77_u64.to_ne_bytes());
        raw[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        assert_eq!(
            (tracepoint.value("lock_addr", &raw), tracepoint.value("flags", &raw)),
            (Some(77), Some(3))
        );
        assert_eq!(tracepoint.value("flags", &raw[..18]), None);
        assert_eq!((tracepoint.value("comm", &raw), tracepoint.value("other", &raw)), (None, None));
    }

    #[test]
    fn a_format_without_a_number_is_refused_and_a_missing_tracepoint_is_named() {
        assert_eq!(parse("name: x\nformat:\n"), None);
        let root = tempfile::tempdir().unwrap();
        assert_eq!(
            of(&["lock/contention_begin"], root.path()).unwrap_err(),
            "this kernel has no tracepoint lock/contention_begin"
        );
        let folder = root.path().join("events/lock/contention_begin");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("format"), FORMAT).unwrap();
        assert_eq!(of(&["lock/contention_begin"], root.path()).unwrap()[0].id, 408);
    }
}
