//! Parts of the originals that a machine may price: those that `presets/originals/ext4.toml` has, by the same names.

use sim::Part;

static HANDLE: Part = Part::new("ext4.handle");
static DENTRY: Part = Part::new("ext4.dentry");
static ORPHAN: Part = Part::new("ext4.orphan");
static NEW_INODE: Part = Part::new("ext4.new_inode");
static FREE_INODE: Part = Part::new("ext4.free_inode");

/// Every part that a preset may name.
pub(super) static ALL: [(&str, &Part); 5] = [
    ("ext4.handle", &HANDLE),
    ("ext4.dentry", &DENTRY),
    ("ext4.orphan", &ORPHAN),
    ("ext4.new_inode", &NEW_INODE),
    ("ext4.free_inode", &FREE_INODE),
];
