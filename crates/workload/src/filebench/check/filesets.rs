//! `define file` and `define fileset`.

use crate::filebench::fileset::tree::MAX_FILES;
use crate::filebench::problem::Problem;
use crate::filebench::program::{Amount, Fileset, Value};
use crate::filebench::span::Spanned;
use crate::filebench::vocabulary::{FILE_ATTRIBUTES, FILESET_ATTRIBUTES};

use super::values::Attributes;
use super::{Checker, FilesetDefinition};

impl<'a> Checker<'a> {
    /// Reads the filesets that were defined since the last time.
    pub(super) fn read_filesets(&mut self) {
        self.refresh_random();
        for definition in std::mem::take(&mut self.fileset_definitions) {
            if let Some(fileset) = self.fileset(&definition) {
                self.filesets.push(fileset);
            }
        }
    }

    fn fileset(&mut self, definition: &FilesetDefinition<'a>) -> Option<Fileset> {
        let (of, legal) =
            if definition.single { ("file", FILE_ATTRIBUTES) } else { ("fileset", FILESET_ATTRIBUTES) };
        let attributes = self.attributes(of, definition.span, definition.attributes, legal);
        self.no_parameters(&attributes);
        let name = self.fileset_name(&attributes)?;
        let path = self.fileset_path(&attributes, &name.node);
        let mut fileset = Fileset {
            path,
            entries: Amount::Fixed(1),
            leafdirs: Amount::Fixed(0),
            dirwidth: Amount::Fixed(10),
            dirdepth: None,
            dirgamma: 0.0,
            size: self.amount(&attributes, "size", 1024),
            prealloc_percent: self.prealloc(&attributes),
            paralloc: self.flag(&attributes, "paralloc"),
            reuse: self.flag(&attributes, "reuse"),
            trusttree: self.flag(&attributes, "trusttree"),
            readonly: self.flag(&attributes, "readonly"),
            writeonly: self.flag(&attributes, "writeonly"),
            name: name.node,
            span: name.span,
        };
        if !definition.single {
            self.shape(&mut fileset, &attributes);
        }
        self.possible(&fileset, &attributes);
        Some(fileset)
    }

    fn fileset_name(&mut self, attributes: &Attributes<'_>) -> Option<Spanned<String>> {
        let name = self.required_name(attributes)?;
        if let Some(first) = self.filesets.iter().find(|other| other.name == name.node) {
            let (what, first) = ("fileset".to_owned(), first.span);
            self.problems.push(Problem::Repeated { what, name: name.node, first, at: name.span });
            return None;
        }
        if name.node.contains('/') || matches!(name.node.as_str(), "." | "..") {
            let help = Some("directories belong into path=".to_owned());
            let range = "the name of one directory";
            self.out_of_range("the name of a fileset", &format!("\"{}\"", name.node), range, help, name.span);
        }
        Some(name)
    }

    fn fileset_path(&mut self, attributes: &Attributes<'_>, name: &str) -> String {
        if !attributes.has("path") {
            let of = format!("fileset \"{name}\"");
            self.missing("path", &of, "write: path=/some/directory", attributes.at);
        }
        let Some(Spanned { node: path, span }) = self.text(attributes, "path") else { return String::new() };
        // What is there before a fileset is made is removed: on a directory of the host, nothing above it may be.
        if path.split('/').any(|part| part == "..") {
            let help = Some("paths are those of the file system under test (--fs)".to_owned());
            self.out_of_range("path", &format!("\"{path}\""), "a path that does not lead up", help, span);
        }
        path.trim_end_matches('/').to_owned()
    }

    /// `prealloc` alone is everything, `prealloc=N` is N percent.
    fn prealloc(&mut self, attributes: &Attributes<'_>) -> u8 {
        let Some(attribute) = attributes.get("prealloc") else { return 0 };
        let at = attributes.place("prealloc");
        match self.attribute_value(attribute) {
            Some(Value::Bool(all)) => 100 * u8::from(all),
            Some(Value::Int(percent @ 0..=100)) => percent as u8,
            Some(Value::Int(percent)) => {
                let help = Some("it is the part of the files that exist at the start".to_owned());
                self.out_of_range("prealloc", &percent, "from 0 to 100 percent", help, at);
                0
            }
            Some(other) => {
                self.wrong_type("prealloc", "a percentage", &other, at);
                0
            }
            None => 0,
        }
    }

    /// What only a tree has: number of entries, width, depth.
    fn shape(&mut self, fileset: &mut Fileset, attributes: &Attributes<'_>) {
        fileset.entries = self.amount(attributes, "entries", 0);
        fileset.leafdirs = self.amount(attributes, "leafdirs", 0);
        fileset.dirgamma = self.number(attributes, "dirgamma", 1500, (0, 1_000_000_000)) as f64 / 1000.0;
        fileset.dirdepth = attributes.has("dirdepthrv").then(|| self.amount(attributes, "dirdepthrv", 1));
        if !attributes.has("dirwidth") {
            let help = "write: dirwidth=20 for about 20 entries a directory, or 1000000 for a flat one";
            self.missing("dirwidth", &format!("fileset \"{}\"", fileset.name), help, attributes.at);
            return;
        }
        fileset.dirwidth = self.amount(attributes, "dirwidth", 10);
        let least = if fileset.dirdepth.is_some() { 1 } else { 2 };
        if fileset.dirwidth.mean() < least as f64 {
            let help = Some("the depth is ln(entries)/ln(dirwidth), which needs a width of 2".to_owned());
            let range = format!("{least} or more");
            self.out_of_range("dirwidth", &fileset.dirwidth, &range, help, attributes.place("dirwidth"));
        }
        self.population(fileset, attributes);
    }

    fn population(&mut self, fileset: &Fileset, attributes: &Attributes<'_>) {
        if fileset.entries.is_zero() && fileset.leafdirs.is_zero() {
            let of = format!("fileset \"{}\"", fileset.name);
            self.missing("entries", &of, "write: entries=1000", attributes.place("entries"));
        }
        for (what, amount) in [("entries", &fileset.entries), ("leafdirs", &fileset.leafdirs)] {
            if amount.mean() > MAX_FILES as f64 {
                let help = Some("file names have eight digits".to_owned());
                self.out_of_range(
                    what,
                    amount,
                    &format!("at most {MAX_FILES}"),
                    help,
                    attributes.place(what),
                );
            }
        }
    }

    fn possible(&mut self, fileset: &Fileset, attributes: &Attributes<'_>) {
        if fileset.readonly && fileset.writeonly {
            let message = format!("fileset \"{}\" is both readonly and writeonly", fileset.name);
            self.impossible(message, "remove one of them".to_owned(), attributes.place("writeonly"));
        }
        let bytes = fileset.entries.mean() * fileset.size.mean();
        if bytes >= 9.2e18 {
            let message = format!("the files of \"{}\" would hold {bytes:.1e} bytes in all", fileset.name);
            let help = "offsets have 63 bits; lower size or entries".to_owned();
            self.impossible(message, help, attributes.place("size"));
        }
    }
}
