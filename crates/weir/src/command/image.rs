//! What the commands on images share: opening one, and finding out whose it is.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use design::{Design, FsError, Options};
use media::Storage;
use media::block::MemoryDevice;
use media::nvmm::Access;
use media::{BlockDevice, MediaError, Medium, Region};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::{Credentials, Owner, SetAttr};

use crate::failure::{Exit, Failure};
use crate::partition::{self, Part};
use crate::{mounted, server_end};

/// A cost model that costs nothing: these commands measure nothing.
fn free() -> Box<dyn media::CostModel> {
    Medium::named("dram").and_then(|medium| medium.build()).expect("dram is a preset with every value")
}

/// Opens an image.
pub(super) fn open(path: &Path, size: Option<Bytes>, access: Access) -> Result<Arc<Region>, Failure> {
    let open = || Region::file(path, size, access, free());
    if access == Access::ReadWrite {
        check_no_loop_device(path)?;
    }
    let region = server_end::once_left(path, open, |error| *error == MediaError::InUse)?;
    region.map(Arc::new).map_err(|error| refused(path, &error))
}

/// Refuses to write to an image that the host's kernel writes to as well.
pub(super) fn check_no_loop_device(path: &Path) -> Result<(), Failure> {
    let Some(device) = mounted::loop_device_of(path) else { return Ok(()) };
    let (path, device) = (path.display(), device.display());
    Err(Failure::new(
        Exit::Run,
        format!(
            "{path}: the host's kernel uses it as {device}: unmount what is mounted of that, and \
             `losetup --detach {device}` first"
        ),
    ))
}

pub(super) fn refused(path: &Path, error: &MediaError) -> Failure {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists());
    if let (MediaError::Io { errno: 2, .. }, Some(folder)) = (error, folder) {
        let (path, folder) = (path.display(), folder.display());
        return Failure::usage(format!("{path}: there is no folder {folder}: make it, or name another"));
    }
    let (exit, advice) = match error {
        MediaError::Io { errno: 2, .. } => (Exit::Usage, "; make one with `weir mkfs`"),
        MediaError::Io { .. } | MediaError::NoFile if path.is_dir() => {
            (Exit::Usage, ": it is a directory; give the pool, which is a file")
        }
        MediaError::NoFile => (Exit::Usage, "; give another path"),
        MediaError::Empty if path.exists() => {
            return Failure::new(
                Exit::Run,
                format!(
                    "{}: the file has no bytes: give a pool, or make one with `weir mkfs`",
                    path.display()
                ),
            );
        }
        MediaError::Io { errno: EXISTS, .. } => (
            Exit::Usage,
            "; another program has made it meanwhile, or it is a link to a file that does not exist",
        ),
        MediaError::Io { errno: NO_ACCESS, .. } => {
            (Exit::Run, "; the user must be able to read and write the file (see `ls -l`)")
        }
        MediaError::Io { errno: READ_ONLY, .. } => (Exit::Run, "; copy the pool to where it can be written"),
        MediaError::Io { errno: TOO_LARGE | NO_SPACE, .. } => {
            (Exit::Run, "; give a smaller --size, or free space there")
        }
        MediaError::InUse => (Exit::Run, &*server_end::advice_in_use(path)),
        _ => (Exit::Run, ""),
    };
    Failure::new(exit, format!("{}: {error}{advice}", path.display()))
}

/// `EEXIST`, `EACCES`, `EFBIG`, `ENOSPC`, `EROFS`: numbers of the host's kernel.
const EXISTS: i32 = 17;
const NO_ACCESS: i32 = 13;
const READ_ONLY: i32 = 30;
const TOO_LARGE: i32 = 27;
const NO_SPACE: i32 = 28;

/// Refuses a size that is too small for a new file system, before anything is made.
pub(super) fn check_size(
    name: &str,
    size: Bytes,
    design: &dyn Design,
    options: &Options,
) -> Result<(), Failure> {
    let (needed, fs) = (design.format().min_size(options), design.name());
    if size >= needed {
        return Ok(());
    }
    let enough = lab::error::rounded_up(needed);
    Err(Failure::usage(format!(
        "{fs} needs at least {needed}; {name} has {size}: give --size {enough} or more"
    )))
}

/// What a design says of an image, with the image's name and what can be done. The advice loses nothing: the
/// image may be the only copy.
pub(super) fn unusable(path: &Path, error: FsError) -> Failure {
    let is_foreign = matches!(error, FsError::WrongFormat { .. });
    let is_cut = matches!(error, FsError::Media(MediaError::OutOfRange { .. }));
    if is_cut && holder(path).is_none() {
        let (shown, failure) = (path.display(), Failure::from(error));
        let advice = "it is no pool, or it was cut short: restore the file";
        return Failure::new(
            failure.exit,
            format!("{shown}: no design recognises it: {}; {advice}", failure.message),
        );
    }
    if let (FsError::WrongFormat { design, .. }, Some(holder)) = (&error, holder(path))
        && *design != holder
    {
        let shown = path.display();
        return Failure::usage(format!(
            "{shown} holds a {holder} file system, not one of {design}: give {holder}"
        ));
    }
    let design = damaged_design(&error);
    let failure = Failure::from(error);
    let shown = path.display();
    let advice = match (partition::advice(path).filter(|_| is_foreign), failure.exit) {
        (Some(disk), _) => format!("; {disk}"),
        (None, Exit::Corrupt) => {
            let by_e2fsck = design.is_some_and(|design| design.starts_with("ext"));
            let other = if by_e2fsck { ", or `e2fsck`" } else { "" };
            format!(
                "; copy the file first (`cp --sparse=always`), then mend the copy with `weir fsck --repair`{other}"
            )
        }
        (None, _) if is_foreign => {
            "; if a new file system is to be made in it, `weir mkfs` says first what it holds".to_owned()
        }
        (None, _) if is_cut => "; the file is shorter than its file system: restore the file".to_owned(),
        (None, _) => String::new(),
    };
    Failure::new(failure.exit, format!("{shown}: {}{advice}", failure.message))
}

/// The design whose image is damaged.
fn damaged_design(error: &FsError) -> Option<&'static str> {
    match error {
        FsError::Damaged { design, .. } | FsError::WrongFormat { design, .. } => Some(design),
        _ => None,
    }
}

/// The design that recognises the beginning of the file, which may be locked.
pub(super) fn holder(path: &Path) -> Option<&'static str> {
    const HEAD: u64 = 64 << 10;
    let file = File::open(path).ok()?;
    let len = file.metadata().ok()?.len();
    let mut head = vec![0; HEAD.min(len) as usize];
    file.read_exact_at(&mut head, 0).ok()?;
    let image = Arc::new(Region::anonymous(Bytes(len), free()).ok()?);
    image.store(0, &head).ok()?;
    let storage = Storage::from(&image);
    fs::FILE_SYSTEMS.iter().find(|design| design.format().recognises(&storage)).map(|design| design.name())
}

/// The journal of an image that keeps it in another file: the file that is named, or one beside the image.
fn journal_of(
    design: &dyn Design,
    part: &Storage,
    (image, named): (&Path, Option<&Path>),
) -> Result<Option<PathBuf>, Failure> {
    let shown = image.display();
    let Some(uuid) = design.format().outside_journal(part) else {
        return match named {
            None => Ok(None),
            Some(_) => {
                Err(Failure::usage(format!("{shown} has its journal in itself, or none: name no other file")))
            }
        };
    };
    if let Some(named) = named {
        return match journal_in(named) {
            Some(found) if found == uuid => Ok(Some(named.to_owned())),
            _ => Err(Failure::usage(format!(
                "{} is not the journal of {shown}, which has UUID {}: name the file that has it",
                named.display(),
                uuid_text(&uuid)
            ))),
        };
    }
    let folder = image.parent().filter(|folder| !folder.as_os_str().is_empty());
    let files = std::fs::read_dir(folder.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    let mut journals: Vec<_> = files
        .map(|file| file.path())
        .filter(|file| file.is_file() && journal_in(file) == Some(uuid))
        .collect();
    journals.sort();
    journals.into_iter().next().map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "{shown} has its journal in another file, which is not beside it: name that with --journal FILE, of a mount \
             with -o journal_path=FILE (it has UUID {})",
            uuid_text(&uuid)
        ))
    })
}

/// The UUID of the journal that a file holds, if it holds one.
fn journal_in(file: &Path) -> Option<[u8; 16]> {
    let mut head = [0; 1024];
    File::open(file).ok()?.read_exact_at(&mut head, 1024).ok()?;
    fs::journal_uuid(&head)
}

fn uuid_text(uuid: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*uuid));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// An image as a design takes it: with its journal, where that is in another file, which `open` opens.
pub(super) fn storage(
    design: &dyn Design,
    part: &Storage,
    names: (&Path, Option<&Path>),
    open: &dyn Fn(&Path) -> Result<Arc<Region>, Failure>,
) -> Result<(Storage, Option<Arc<Region>>), Failure> {
    let Some(file) = journal_of(design, part, names)? else { return Ok((part.clone(), None)) };
    let journal = open(&file)?;
    let storage = beside(part, &journal).map_err(|error| refused(names.0, &error))?;
    Ok((storage, Some(journal)))
}

/// An image as a block device, and its journal as the memory beside it.
pub(super) fn beside(image: &Storage, journal: &Arc<Region>) -> Result<Storage, MediaError> {
    let device: Arc<dyn BlockDevice> = match image.block() {
        Ok(device) => Arc::clone(device),
        Err(_) => MemoryDevice::whole(Arc::clone(image.memory()?))?,
    };
    Ok(Storage::from(journal).with_block(device))
}

/// The user who makes a file system owns its root directory: otherwise only root could make anything in it. For one that is new.
pub(super) fn give_to_maker(
    design: &'static dyn Design,
    storage: &Storage,
    options: &Options,
) -> Result<(), Failure> {
    let maker = Credentials::of_this_process();
    if maker.is_root() {
        return Ok(());
    }
    let Owner { uid, gid } = maker.owner();
    let (storage, options) = (storage.clone(), options.clone());
    let given = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), move || {
        let made = design.mount(&storage, &options)?;
        let owner = SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
        let set = made.setattr(made.root(), &owner).map(drop);
        set.and(made.unmount()).map_err(|errno| {
            Failure::new(Exit::Run, format!("the root directory cannot change its owner: {errno}"))
        })
    });
    given.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?
}

/// The design of an image: the one that was named, or the one that recognises it.
pub(super) fn design(
    region: &Arc<Region>,
    named: Option<&str>,
    path: &Path,
) -> Result<&'static dyn Design, Failure> {
    identify(region, named, (path, Part::default())).map(|(design, _)| design)
}

/// The design of a part of an image, and the part as the design takes it.
pub(super) fn identify(
    region: &Arc<Region>,
    named: Option<&str>,
    (path, part): (&Path, Part),
) -> Result<(&'static dyn Design, Storage), Failure> {
    let range = part.range(region, path)?;
    let take = |design: &dyn Design| partition::storage(design, region, range.as_ref());
    if let Some(name) = named {
        let design = lab::plan::matrix::stored(name)?;
        return Ok((design, take(design).map_err(|error| partition::misplaced(design, error, path))?));
    }
    // The first one ends the search: others look for copies in places where the file may have holes.
    let mut taken = fs::FILE_SYSTEMS.iter().copied().filter_map(|design| Some((design, take(design).ok()?)));
    taken
        .find(|(design, storage)| design.format().recognises(storage))
        .ok_or_else(|| unrecognised(path, part))
}

fn unrecognised(path: &Path, part: Part) -> Failure {
    let shown = path.display();
    if let Some(disk) = partition::advice(path).filter(|_| part.is_all()) {
        return Failure::usage(format!("{shown}: {disk}"));
    }
    let known = fs::FILE_SYSTEMS.iter().copied().map(Design::name).collect::<Vec<_>>().join(", ");
    let place = if part.is_all() { "this file" } else { "this part of the file" };
    Failure::usage(format!(
        "{shown}: no design recognises {place}: it is not a pool, or its superblocks are damaged; \
         `weir fsck --fs DESIGN` says more about a damaged pool (designs: {known})"
    ))
}
