//! Which code a check has tested, as a hash: what is recorded of other code is old.
//!
//! The build makes a hash of each part of the tree (`build.rs`). A check of designs in this process tests its own crate, the
//! crates below it, what designs share, the design and those that it is built on; any other check tests the whole tree.

/// A part of the tree.
struct Part {
    /// A crate with a slash behind its name, or a design.
    name: &'static str,
    hash: u64,
    /// The designs that a design is built on.
    built_on: &'static [&'static str],
}

include!(concat!(env!("OUT_DIR"), "/code.rs"));

/// The checks that test designs alone, by the first word of their names.
const OF_DESIGNS: [&str; 6] = ["crash", "faults", "fuzz", "model", "recall", "schedules"];
/// What these test beside the designs.
const BELOW: [&str; 7] = ["base/", "check/", "design/", "fs/", "media/", "sim/", "vfs/"];
/// The designs whose code is that of another, and of which.
const OF_ANOTHER: [(&str, &str); 1] = [("ext2", "ext4")];

/// The hash of what a check of this build tests on a subject: a design with its options, or something else.
pub(super) fn tested(check: &str, subject: &str) -> String {
    let check = check.split('/').next().unwrap_or(check);
    let design = if OF_DESIGNS.contains(&check) { design(subject) } else { None };
    let belongs = |part: &&Part| match design {
        None => true,
        Some(design) => {
            BELOW.contains(&part.name) || part.name == design.name || design.built_on.contains(&part.name)
        }
    };
    let hash = PARTS
        .iter()
        .filter(belongs)
        .fold(0, |hash: u64, part| hash.rotate_left(1).wrapping_mul(0x0100_0000_01b3) ^ part.hash);
    format!("{hash:016x}")
}

/// The part of the design that a subject names: its own, or that of which it is a variant (`hinfs-wb`, `ext2`).
fn design(subject: &str) -> Option<&'static Part> {
    let name = subject.split(' ').next()?;
    let name = OF_ANOTHER.iter().find(|(one, _)| *one == name).map_or(name, |(_, other)| other);
    let find = |name: &str| PARTS.iter().find(|part| part.name == name);
    find(name).or_else(|| find(name.split('-').next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_of_a_design_tests_the_design_and_what_it_is_built_on() {
        let on = |subject: &str| design(subject).map(|part| (part.name, part.built_on));
        assert_eq!(on("hinfs-wb -O sync=true"), Some(("hinfs", &["pmfs"][..])));
        assert_eq!(on("rcache"), Some(("rcache", &["nova"][..])));
        assert_eq!(on("pmfs"), Some(("pmfs", &[][..])));
        assert_eq!(on("ext2"), on("ext4-dax"));
        assert_eq!(on("ext2"), Some(("ext4", &[][..])));
        assert_eq!(on("no design"), None, "all code counts");
        for name in BELOW {
            assert!(PARTS.iter().any(|part| part.name == name), "{name}");
        }
    }

    #[test]
    fn other_designs_and_other_checks_test_other_code() {
        let of = |check, subject| tested(check, subject);
        assert_eq!(of("crash/depth-1", "pmfs"), of("model", "pmfs -O journal=1m"));
        assert_ne!(of("crash/depth-1", "pmfs"), of("crash/depth-1", "nova"));
        assert_ne!(of("crash/depth-1", "pmfs"), of("mount/programs", "pmfs"));
        assert_eq!(of("mount/programs", "pmfs"), of("suite/medium", "anything"), "the whole tree");
    }
}
