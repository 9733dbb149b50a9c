//! `weir dump`: parts of a pool for people.

use std::path::PathBuf;

use clap::Args;
use media::nvmm::Access;

use super::image;
use crate::failure::Failure;
use crate::output::{Output, columns};
use crate::partition::Part;

/// Print structures of a pool: superblock, journal, an inode, a directory.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir dump pool.weir inode 1")]
pub(crate) struct Dump {
    /// The design [default: the design that recognises the pool]
    #[arg(long)]
    fs: Option<String>,
    #[command(flatten)]
    place: Part,
    /// The pool
    pool: PathBuf,
    /// The structure, such as superblock or inode 7 [default: list the structures]
    part: Vec<String>,
}

impl Dump {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let region = image::open(&self.pool, None, Access::ReadOnly)?;
        let (design, storage) = image::identify(&region, self.fs.as_deref(), (&self.pool, self.place))?;
        let text = if self.part.is_empty() {
            let parts = design.format().dump_parts().iter();
            columns(&parts.map(|(part, shows)| ((*part).to_owned(), (*shows).to_owned())).collect::<Vec<_>>())
        } else {
            let mut text = Vec::new();
            let dumped = design.format().dump(&storage, &self.part.join(" "), &mut text);
            dumped.map_err(|error| image::unusable(&self.pool, error))?;
            String::from_utf8_lossy(&text).into_owned()
        };
        if output.is_json() {
            let (fs, part) = (design.name(), self.part.join(" "));
            output.document(
                &serde_json::json!({ "schema": "weir.dump/1", "fs": fs, "part": part, "text": text }),
            );
        } else {
            output.data(&text);
        }
        Ok(())
    }
}
