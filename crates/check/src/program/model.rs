//! File systems as tables of clauses: what may be lost, in which order. A model is a file of `presets/crash-models`; each clause
//! there has its source. Nothing else here or in the modules beside it knows a file system.

use document::Problem;

/// Which names and attributes may persist without older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any, but of one entry.
    Any,
    /// One order of all: a journal, a log, a transaction, a checkpoint.
    One,
}

/// What must have persisted when a size has that a write has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeAfter {
    /// Nothing: zeros.
    Nothing,
    /// The data of the block at the new end.
    Last,
    /// Data of the file in blocks that were allocated for it.
    Allocated,
    /// All data of the file before.
    All,
}

/// What a sync of a file covers, of names and attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSync {
    /// Its own attributes.
    Nothing,
    /// Everything up to the last change of the file that the journal has.
    Journal,
    /// Its own names and new folders above it, without what is older.
    Own,
}

/// What a sync of a folder covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FolderSync {
    /// Its entries; where names have one order, also its own name and new folders above it.
    Entries,
    /// Everything up to its last change.
    Journal,
    /// All names and attributes.
    All,
}

/// What stands beside a score: how much of it needs no model at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Null {
    /// It is a model.
    No,
    /// A random half of what has begun persists, in no order and whatever was synced.
    Random,
    /// Names persist at once, and of data what a sync has covered: as tools do that drop unsynced writes.
    Unsynced,
}

/// The null models, by name.
pub(crate) const NULLS: [(&str, Null); 2] =
    [("null-random", Null::Random), ("null-unsynced", Null::Unsynced)];

/// A file system as clauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name, with the options that were given: `ext4:zeros=no`.
    pub name: String,
    /// The order of names and attributes.
    pub names: Order,
    /// What a size needs.
    pub size_after: SizeAfter,
    /// A rename over a file needs the data of the new one.
    pub replace_waits: bool,
    /// What a sync of a file covers.
    pub file_sync: FileSync,
    /// Whether fdatasync counts a rename or link of the file as a change of it.
    pub datasync_counts_names: bool,
    /// What a sync of a folder covers.
    pub folder_sync: FolderSync,
    /// A sync of a file covers it also while it has no name.
    pub syncs_unnamed: bool,
    /// A new name of a file that was synced before goes into the log of the next sync of any file.
    pub log_takes_names: bool,
    /// Blocks that were never written show old bytes of the disk.
    pub stale: bool,
    /// Data of one page persists as a prefix.
    pub pages: bool,
    /// The smallest unit that persists whole; 0: whatever was written in one block.
    pub tear: u64,
    /// Only what was there before survives.
    pub volatile: bool,
    /// A file is made longer only after the sizes that writes have moved, and what these need.
    pub grow_waits: bool,
    /// A sync of a file with several names, or in a new folder, covers all names and attributes.
    pub checkpoints: bool,
    /// Copies within the kernel share blocks: each extent is one change of the journal, after the source's data.
    pub shares: bool,
    /// Whether it is a null model.
    pub null: Null,
}

/// The models by name, with the text of their presets.
pub const MODELS: [(&str, &str); 8] = [
    ("posix", include_str!("../../shipped/crash-models/posix.toml")),
    ("ext4", include_str!("../../shipped/crash-models/ext4.toml")),
    ("ext4-writeback", include_str!("../../shipped/crash-models/ext4-writeback.toml")),
    ("ext4-dax", include_str!("../../shipped/crash-models/ext4-dax.toml")),
    ("xfs", include_str!("../../shipped/crash-models/xfs.toml")),
    ("btrfs", include_str!("../../shipped/crash-models/btrfs.toml")),
    ("f2fs", include_str!("../../shipped/crash-models/f2fs.toml")),
    ("tmpfs", include_str!("../../shipped/crash-models/tmpfs.toml")),
];

const SIZES: [(&str, SizeAfter); 4] = [
    ("nothing", SizeAfter::Nothing),
    ("last", SizeAfter::Last),
    ("allocated", SizeAfter::Allocated),
    ("all", SizeAfter::All),
];

impl Model {
    /// The model with a name and options: `ext4`, `ext4:zeros=no,replace=yes`. The error says which there are.
    pub fn named(asked: &str) -> Result<Self, String> {
        if let Some((name, null)) = NULLS.iter().find(|(name, _)| *name == asked) {
            return Ok(Self { name: (*name).to_owned(), null: *null, ..Self::named("posix")? });
        }
        let (name, options) = asked.split_once(':').map_or((asked, None), |(name, rest)| (name, Some(rest)));
        let Some((_, text)) = MODELS.iter().find(|(known, _)| *known == name) else {
            return Err(document::nearest(name, MODELS.iter().map(|(known, _)| *known)));
        };
        let read = document::read(name, text, |table| {
            let clauses = table.need("clauses", "the file system as clauses")?.table()?;
            let mut options = Vec::new();
            if let Some(given) = table.get("options") {
                for (key, item) in given.table()?.take_rest() {
                    options.push((key, item.text()?));
                }
            }
            table.get("about");
            table.get("sources");
            let model = Self::read(asked, &clauses)?;
            Ok((model, options))
        });
        let (mut model, known) = read.map_err(|problem| problem.to_string())?;
        for option in options.into_iter().flat_map(|options| options.split(',')) {
            let means = known.iter().find(|(key, _)| key == option).map(|(_, means)| means.as_str());
            let Some(means) = means else {
                let all: Vec<&str> = known.iter().map(|(key, _)| key.as_str()).collect();
                let there = if all.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("it has {}", all.join(", "))
                };
                return Err(format!("{name} has no option \"{option}\": {there}"));
            };
            model.set(means)?;
        }
        Ok(model)
    }

    /// Changes a clause: `size_after=all`.
    fn set(&mut self, clause: &str) -> Result<(), String> {
        let (key, value) = clause.split_once('=').unwrap_or((clause, ""));
        match key {
            "size_after" => {
                let found = SIZES.iter().find(|(word, _)| *word == value).map(|(_, size)| *size);
                self.size_after = found.ok_or_else(|| format!("{clause} is no clause"))?;
            }
            "replace_waits" => self.replace_waits = value == "true",
            _ => return Err(format!("{clause} is no clause that an option changes")),
        }
        Ok(())
    }

    fn read(name: &str, clauses: &document::Table<'_>) -> Result<Self, Problem> {
        let why = "every model has it";
        let flag = |key: &'static str| clauses.need(key, why)?.one_of(&[("yes", true), ("no", false)]);
        let model = Self {
            name: name.to_owned(),
            names: clauses.need("names", why)?.one_of(&[("any", Order::Any), ("one-order", Order::One)])?,
            size_after: clauses.need("size_after", why)?.one_of(&SIZES)?,
            replace_waits: flag("replace_waits")?,
            file_sync: clauses.need("file_sync", why)?.one_of(&[
                ("nothing", FileSync::Nothing),
                ("journal", FileSync::Journal),
                ("own", FileSync::Own),
            ])?,
            datasync_counts_names: flag("datasync_counts_names")?,
            folder_sync: clauses.need("folder_sync", why)?.one_of(&[
                ("entries", FolderSync::Entries),
                ("journal", FolderSync::Journal),
                ("all", FolderSync::All),
            ])?,
            syncs_unnamed: flag("syncs_unnamed")?,
            log_takes_names: flag("log_takes_names")?,
            stale: flag("stale")?,
            pages: flag("pages")?,
            tear: clauses.need("tear", why)?.number()?,
            volatile: flag("volatile")?,
            grow_waits: flag("grow_waits")?,
            checkpoints: flag("checkpoints")?,
            shares: flag("shares")?,
            null: Null::No,
        };
        Ok(model)
    }

    /// The name without options.
    pub fn base(&self) -> &str {
        self.name.split(':').next().unwrap_or(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_a_model_and_gives_a_source_for_each_clause() {
        for (name, text) in MODELS {
            let model = Model::named(name).unwrap();
            assert_eq!(model.name, name);
            let own = text.split("[clauses]").nth(1).unwrap();
            let clauses = own.split("[sources]").next().unwrap().lines().filter(|line| line.contains(" = "));
            let sources = text.split("[sources]").nth(1).unwrap_or_else(|| panic!("{name} has no sources"));
            for key in clauses.filter_map(|line| line.split(" = ").next()).filter(|key| !key.starts_with('"'))
            {
                assert!(sources.contains(&format!("\n{key} = ")), "{name}: {key} has no source");
            }
        }
    }

    #[test]
    fn an_option_or_name_that_is_unknown_is_refused_with_those_that_there_are() {
        assert_eq!(Model::named("ext4:zeros=no,replace=yes").unwrap().size_after, SizeAfter::Allocated);
        let told = Model::named("ext4:colour=red").unwrap_err();
        assert!(told.contains("zeros=no"), "{told}");
        assert!(Model::named("ext5").unwrap_err().contains("ext4"));
    }
}
