//! `weir df`: the space of a pool.

use std::path::{Path, PathBuf};

use clap::Args;
use design::Options;
use media::nvmm::Access;
use report::table::Table;
use report::units::Unit;

use super::image;
use crate::failure::{Exit, Failure};
use crate::mounted;
use crate::output::Output;
use crate::partition::Part;

/// Print the used and free space of an unmounted pool. The pool is not changed: what a mount stores stays in memory.
#[derive(Args, Debug)]
pub(crate) struct Df {
    /// The design [default: the design that recognises the pool]
    #[arg(long)]
    fs: Option<String>,
    #[command(flatten)]
    part: Part,
    /// The pool
    pool: PathBuf,
}

impl Df {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if mounted::is_mounted(&mounted::absolute(&self.pool)?)? {
            let dir = self.pool.display();
            return Err(Failure::usage(format!(
                "{dir} is a mount: df(1) prints its space, this command that of a pool"
            )));
        }
        let open = |file: &Path| image::open(file, None, Access::Private);
        let region = open(&self.pool)?;
        let (design, part) = image::identify(&region, self.fs.as_deref(), (&self.pool, self.part))?;
        let options = Options::resolve(design.name(), design.options(), &std::collections::BTreeMap::new())
            .map_err(|error| Failure::usage(error.to_string()))?;
        let (storage, _) = image::storage(design, &part, (&self.pool, None), &open)?;
        let mounted = design.mount(&storage, &options).map_err(|error| image::unusable(&self.pool, error))?;
        let space = mounted.statfs();
        let available = space.as_ref().map_or(0, |space| mounted.blocks_available(space));
        let ended = mounted.unmount();
        let space = space.and_then(|space| ended.map(|()| space));
        let space =
            space.map_err(|errno| Failure::new(Exit::Run, format!("{}: {errno}", self.pool.display())))?;
        let bytes = |blocks: u64| blocks * u64::from(space.frsize);
        let available = bytes(available);
        let (total, free) = (bytes(space.blocks), bytes(space.blocks_free));
        if output.is_json() {
            output.document(&serde_json::json!({
                "schema": "weir.df/1",
                "fs": design.name(),
                "total_bytes": total,
                "free_bytes": free,
                "available_bytes": available,
                "inodes": space.files,
                "inodes_free": space.files_free,
            }));
            return Ok(());
        }
        let mut table = Table::new(self.pool.display().to_string());
        table.words("fs");
        for name in ["size", "used", "free", "available", "inodes", "inodes free"] {
            table.numbers(name);
        }
        let human = |bytes: u64| Unit::Bytes.human(bytes as f64);
        let counts = [space.files, space.files_free].map(|count| count.to_string());
        let sizes = [human(total), human(total - free), human(free), human(available)];
        table.rows.push([vec![design.name().to_owned()], sizes.to_vec(), counts.to_vec()].concat());
        output.data(&table.to_text());
        Ok(())
    }
}
