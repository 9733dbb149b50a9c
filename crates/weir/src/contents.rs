//! What a file contains before `weir mkfs` writes to it. Without --force it refuses a file with data.

use media::{MediaError, Region};

/// Bytes by which what a file holds is known, and where they are (`libblkid` of util-linux has more).
const KNOWN: [(&str, usize, &[u8]); 14] = [
    ("an XFS file system", 0, b"XFSB"),
    ("a Btrfs file system", 0x1_0040, b"_BHRfS_M"),
    ("an F2FS file system", 1024, &[0x10, 0x20, 0xF5, 0xF2]),
    ("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xEF]),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 54, b"FAT1"),
    ("a FAT file system", 82, b"FAT32   "),
    ("an ISO 9660 file system", 32_769, b"CD001"),
    ("swap space", 4086, b"SWAPSPACE2"),
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("an LVM physical volume", 512, b"LABELONE"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("an MBR partition table", 510, &[0x55, 0xAA]),
];

/// What a region holds besides zeros, by its kind where that is known; none where it holds nothing.
pub(crate) fn found(region: &Region) -> Result<Option<&'static str>, MediaError> {
    for (what, at, magic) in KNOWN {
        let mut bytes = vec![0; magic.len()];
        if (at + magic.len()) as u64 <= region.len() {
            region.peek(at as u64, &mut bytes)?;
        }
        if bytes == magic {
            return Ok(Some(what));
        }
    }
    Ok(has_data(region)?.then_some("data"))
}

fn has_data(region: &Region) -> Result<bool, MediaError> {
    const PIECE: u64 = 1 << 20;
    let (mut bytes, zeros) = (vec![0; PIECE as usize], vec![0; PIECE as usize]);
    let mut data = region.data_from(0);
    while let Some(range) = data {
        for offset in range.clone().step_by(PIECE as usize) {
            let part = &mut bytes[..PIECE.min(range.end - offset) as usize];
            region.peek(offset, part)?;
            if *part != zeros[..part.len()] {
                return Ok(true);
            }
        }
        data = region.data_from(range.end);
    }
    Ok(false)
}
