//! PDF in a build without it: exporting figures says what is missing.

use crate::export::Exported;

pub(crate) fn add(_: &mut Vec<Exported>) -> Result<(), String> {
    Err(crate::format::left_out("PDF", "pdf"))
}
