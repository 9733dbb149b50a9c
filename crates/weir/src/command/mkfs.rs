//! `weir mkfs`: a file system in an image.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use fs::{FsType, Options};
use media::Storage;
use media::nvmm::Access;
use sim::Bytes;

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::pool_file::{self, Mode};

/// Make a file system in an image.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir mkfs hinfs pool.weir --size 1GiB", allow_missing_positional = true)]
pub(crate) struct Mkfs {
    /// The design (`weir list fs`); --fs DESIGN is equivalent
    #[arg(value_name = "FS", required_unless_present = "fs", conflicts_with = "fs")]
    design: Option<String>,
    #[arg(long, hide = true, value_name = "FS")]
    fs: Option<String>,
    /// Size of the image; needed when it does not exist
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// An option of the design (`weir show DESIGN`); repeatable
    #[arg(short = 'O', long = "option", value_name = "KEY=VALUE")]
    options: Vec<String>,
    /// Overwrite an image that holds a file system
    #[arg(long)]
    force: bool,
    /// Permissions of a new image, in octal; an existing image loses any others [default: 600]
    #[arg(long, value_name = "MODE")]
    mode: Option<Mode>,
    /// The image
    image: PathBuf,
}

impl Mkfs {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let design =
            lab::plan::matrix::design(self.design.as_ref().or(self.fs.as_ref()).expect("clap asks for it"))?;
        let options = options(&self.options)?;
        let options = Options::resolve(design.name(), design.options(), &options)
            .map_err(|error| Failure::usage(error.to_string()))?;
        self.check_target(design, &options)?;
        let existed = self.image.exists();
        let region = image::open(&self.image, self.size, Access::ReadWrite).inspect_err(|_| {
            if !existed {
                drop(std::fs::remove_file(&self.image)); // an image of no bytes is of no use
            }
        })?;
        let holder =
            fs::FILE_SYSTEMS.iter().copied().find(|design| design.recognises(&Storage::from(&region)));
        if let Some(holder) = holder.filter(|_| !self.force) {
            let (image, name) = (self.image.display(), holder.name());
            return Err(Failure::usage(format!(
                "{image} holds a {name} file system; overwrite it with --force"
            )));
        }
        design
            .mkfs(&Storage::from(&region), &options)
            .map_err(|error| image::unusable(&self.image, error))?;
        image::give_to_maker(design, &region, &options)?;
        pool_file::permit(&self.image, !existed, self.mode, output)?;
        region
            .sync()
            .map_err(|error| Failure::new(Exit::Run, format!("{}: {error}", self.image.display())))?;
        output.note(&format!("{}: {} in {}", self.image.display(), design.name(), Bytes(region.len())));
        if output.is_json() {
            let bytes = region.len();
            output.document(
                &serde_json::json!({ "schema": "weir.mkfs/1", "fs": design.name(), "size_bytes": bytes }),
            );
        }
        Ok(())
    }

    /// Nothing is made or changed when the size is missing or too small.
    fn check_target(&self, design: &dyn FsType, options: &Options) -> Result<(), Failure> {
        let image = self.image.display().to_string();
        let existing = std::fs::metadata(&self.image).map(|data| Bytes(data.len())).ok();
        match existing.max(self.size) {
            Some(size) => image::check_size(&image, size, design, options),
            None => {
                Err(Failure::usage(format!("{image} does not exist: say how large it is to be with --size")))
            }
        }
    }
}

pub(super) fn options(texts: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let parse = |text: &String| {
        let pair = text.split_once('=');
        let (key, value) =
            pair.ok_or_else(|| Failure::usage(format!("--option {text}: write it as name=value")))?;
        Ok((key.to_owned(), value.to_owned()))
    };
    texts.iter().map(parse).collect()
}
