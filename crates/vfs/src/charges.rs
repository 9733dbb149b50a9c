//! The kinds of work of this crate that a machine preset prices.

use sim::Work;

/// Walking one path component through the dentry cache, hit.
pub const PATH_COMPONENT: Work = Work::new(20, "path_component");
/// Making the kernel's record of an open file, and freeing it at the close.
pub const OPEN_FILE: Work = Work::new(21, "open_file");
/// The kinds of work that this crate declares. Indices 20 to 23.
pub const WORK: &[Work] = &[PATH_COMPONENT, OPEN_FILE];
