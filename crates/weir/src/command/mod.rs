//! The subcommands, a file each; a new one is a file and a line in `cli::Command`.

pub(crate) mod baseline;
pub(crate) mod bench;
pub(crate) mod calibrate;
pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod completion;
pub(crate) mod df;
pub(crate) mod doctor;
pub(crate) mod dump;
pub(crate) mod explain;
pub(crate) mod fsck;
mod image;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod mkfs;
pub(crate) mod mount;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod resize;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod show;
pub(crate) mod sim;
pub(crate) mod sync;
pub(crate) mod trim;
pub(crate) mod umount;
