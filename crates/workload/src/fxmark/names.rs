//! Paths of directories and files, as the original has them below its root.
//!
//! A worker's number stands where the original has that of its core, so that names do not change with the placement.

use super::table::{Loop, Sharing};

/// The directory below which everything lies. It must not exist before, and is removed afterwards.
pub(super) const ROOT: &str = "/fxmark";

/// The private directory of worker `w`.
pub(super) fn directory(w: u64) -> String {
    format!("{ROOT}/{w}")
}

/// The one file that worker `w` uses, or all workers do.
pub(super) fn file(work: Loop, w: u64) -> String {
    let (own, root) = (directory(w), ROOT);
    match work {
        Loop::Read(Sharing::Low) | Loop::ReadThrough | Loop::ReadSkewed => format!("{own}/n_file_rd.dat"),
        Loop::Read(Sharing::Medium) => format!("{root}/n_shfile_rd.dat"),
        Loop::Read(Sharing::High) => format!("{root}/n_shblk_rd.dat"),
        Loop::Overwrite(Sharing::Low) => format!("{own}/n_blk_wrt.dat"),
        Loop::Overwrite(_) => format!("{root}/n_mtime_upt.dat"),
        Loop::WriteThrough => format!("{own}/n_file_wrt.dat"),
        Loop::WriteThroughSync => format!("{own}/n_file_cmt.dat"),
        Loop::OverwriteSync => format!("{own}/n_jnl_cmt.dat"),
        Loop::Append => format!("{own}/n_blk_alloc-{w}.dat"),
        Loop::Truncate => format!("{root}/u_file_tr-{w}.dat"),
        Loop::Stat(Sharing::Low) => format!("{own}/0/0/0/0"),
        Loop::Stat(_) => format!("{root}/0/0/0/0/0"),
        Loop::List(Sharing::Low) => own,
        Loop::List(_) => root.to_owned(),
        Loop::Create(_) | Loop::CreateWrite | Loop::Unlink(_) | Loop::RenameWithin | Loop::RenameAcross => {
            let path = numbered(work, w).at(0, false).to_vec();
            String::from_utf8(path).expect("our names are text")
        }
    }
}

/// The numbered files of worker `w`.
pub(super) fn numbered(work: Loop, w: u64) -> Numbered {
    let (own, root) = (directory(w), ROOT);
    Numbered::new(match work {
        Loop::List(Sharing::Low) => format!("{own}/n_dir_rd-{w}-"),
        Loop::List(_) => format!("{root}/n_shdir_rd-{w}-"),
        Loop::Create(Sharing::Low) => format!("{own}/n_inode_alloc-"),
        Loop::Unlink(Sharing::Low) => format!("{own}/u_file_rm-"),
        Loop::Unlink(_) => format!("{root}/u_sh_file_rm-{w}-"),
        Loop::RenameWithin => format!("{own}/n_file_rename-"),
        Loop::RenameAcross => format!("{own}/n_dir_ins-{w}-"),
        _ => format!("{root}/m_file_cr-{w}-"),
    })
}

/// Where a file of MWRM is moved to.
pub(super) fn moved(w: u64) -> Numbered {
    Numbered::new(format!("{ROOT}/n_dir_ins-{w}-"))
}

/// Paths that differ in a number only, written into one buffer.
#[derive(Clone, Debug)]
pub(super) struct Numbered {
    bytes: Vec<u8>,
    start: usize,
}

const ENDING: &[u8] = b".dat";

impl Numbered {
    fn new(start: String) -> Self {
        Self { start: start.len(), bytes: start.into_bytes() }
    }

    /// The path with the number `k`. As text formatting does it, or by its digits alone.
    #[inline]
    pub(super) fn at(&mut self, k: u64, formatted: bool) -> &[u8] {
        self.bytes.truncate(self.start);
        if formatted {
            self.bytes.extend_from_slice(format!("{k}.dat").as_bytes());
            return &self.bytes;
        }
        let mut digits = [0_u8; 20];
        let (mut first, mut rest) = (digits.len(), k);
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.bytes.extend_from_slice(&digits[first..]);
        self.bytes.extend_from_slice(ENDING);
        &self.bytes
    }
}

/// The path of a file of the tree of MRPM, by its five digits.
#[derive(Clone, Debug)]
pub(super) struct TreePath(Vec<u8>);

impl TreePath {
    pub(super) fn new() -> Self {
        Self(file(Loop::Stat(Sharing::Medium), 0).into_bytes())
    }

    /// The path with these digits, the first level first.
    #[inline]
    pub(super) fn at(&mut self, digits: [u8; super::parameters::LEVELS as usize], formatted: bool) -> &[u8] {
        if formatted {
            let path = digits.iter().fold(ROOT.to_owned(), |path, digit| format!("{path}/{digit}"));
            self.0 = path.into_bytes();
        } else {
            for (level, digit) in digits.into_iter().enumerate() {
                self.0[ROOT.len() + 1 + 2 * level] = b'0' + digit;
            }
        }
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_the_same_whichever_way_it_is_formatted() {
        let mut path = numbered(Loop::Create(Sharing::Low), 3);
        for k in [0, 7, 10, 1_234_567_890] {
            let plain = path.at(k, false).to_vec();
            assert_eq!(plain, path.at(k, true));
            assert_eq!(plain, format!("/fxmark/3/n_inode_alloc-{k}.dat").as_bytes());
        }
        let mut tree = TreePath::new();
        assert_eq!(tree.at([1, 2, 3, 4, 7], false).to_vec(), tree.at([1, 2, 3, 4, 7], true));
    }
}
