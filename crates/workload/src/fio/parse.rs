//! From the text of a job file to its sections: the ini format of fio's HOWTO, "Job file format".
//!
//! | line | meaning |
//! |---|---|
//! | `[global]` | defaults for the jobs below, until they change; there may be several |
//! | `[NAME]` | a job |
//! | `option=value`, `option` | a setting; an option without a value is on |
//! | `; …`, `# …` | a comment, also behind a setting: fio cuts there, quotes or not |
//! | `include FILE` | refused |
//!
//! `${X}` in a value is the variable X (`-D X=…`), else that of the environment. `$pagesize` is 4096; `$ncpus` and `$mb_memory`
//! are refused: what they stand for is the host's, and a job file should mean the same on every host.

use std::collections::BTreeMap;
use std::fmt;

use super::options::{self, Fate};

/// Something that is wrong, at a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    /// From 1; 0 for what has no line.
    pub(super) line: usize,
    /// What is wrong and what to do.
    pub(super) what: String,
}

/// All that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problems {
    pub(super) file: String,
    pub(super) all: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.all.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            match problem.line {
                0 => write!(f, "{}: {}", self.file, problem.what)?,
                line => write!(f, "{}:{line}: {}", self.file, problem.what)?,
            }
        }
        Ok(())
    }
}

/// A value where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    pub(super) value: String,
    /// The line; 0 when it was set from outside.
    pub(super) line: usize,
}

/// The settings of a job by the names of the options.
pub(super) type Settings = BTreeMap<&'static str, Setting>;

/// A job as it is written, with what it has from the global sections above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) settings: Settings,
    /// Whether a value is missing that was to come from a variable.
    pub(super) incomplete: bool,
}

/// What a text holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Parsed {
    pub(super) sections: Vec<Section>,
    pub(super) problems: Vec<Problem>,
    /// The variables that it uses, with their values.
    pub(super) variables: BTreeMap<String, String>,
    /// Options that are left out, with their lines.
    pub(super) ignored: Vec<(&'static str, usize)>,
    /// Options that cannot be honoured and are left out all the same.
    pub(super) left_out: Vec<(&'static str, usize)>,
}

/// What is known from outside.
#[derive(Clone, Debug, Default)]
pub(super) struct Outside<'a> {
    /// Variables, and options that win over those of the file.
    pub(super) vars: &'a [(String, String)],
    /// Whether options that cannot be honoured are left out.
    pub(super) lenient: bool,
}

struct Parser<'a> {
    outside: &'a Outside<'a>,
    parsed: Parsed,
    global: Settings,
    global_incomplete: bool,
    /// Where settings go: a job, or the global section; none before the first head.
    place: Option<Place>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Global,
    Job,
}

/// Parses a file.
pub(super) fn parse(text: &str, outside: &Outside<'_>) -> Parsed {
    let mut parser = Parser {
        outside,
        parsed: Parsed::default(),
        global: Settings::new(),
        global_incomplete: false,
        place: None,
    };
    for (at, line) in text.lines().enumerate() {
        parser.line(at + 1, line);
    }
    if parser.parsed.sections.is_empty() {
        parser.problem(0, "there is no job in it: a job begins with its name in brackets, [NAME]");
    }
    parser.apply_outside();
    parser.parsed
}

impl Parser<'_> {
    fn problem(&mut self, line: usize, what: impl Into<String>) {
        self.parsed.problems.push(Problem { line, what: what.into() });
    }

    fn line(&mut self, number: usize, line: &str) {
        let end = line.find([';', '#']).unwrap_or(line.len());
        let line = line[..end].trim();
        if line.is_empty() {
            return;
        }
        if let Some(rest) = line.strip_prefix('[') {
            return match rest.split_once(']') {
                Some((name, "")) if !name.trim().is_empty() => self.head(number, name.trim()),
                Some((_, after)) if !after.trim().is_empty() => {
                    self.problem(number, format!("what is \"{}\" after the bracket?", after.trim()));
                }
                Some(_) => self.problem(number, "a job needs a name in its brackets"),
                None => self.problem(number, format!("{line} has no closing bracket")),
            };
        }
        if let Some(file) = line.strip_prefix("include ") {
            let what = format!("include {}: other files are not read; put its lines here", file.trim());
            return self.problem(number, what);
        }
        let (name, value) = line.split_once('=').map_or((line, None), |(name, value)| (name, Some(value)));
        self.setting(number, name.trim(), value.map(str::trim));
    }

    fn head(&mut self, number: usize, name: &str) {
        if name == "global" {
            self.place = Some(Place::Global);
            return;
        }
        self.place = Some(Place::Job);
        let (name, settings) = (name.to_owned(), self.global.clone());
        let incomplete = self.global_incomplete;
        self.parsed.sections.push(Section { name, line: number, settings, incomplete });
    }

    fn setting(&mut self, number: usize, name: &str, value: Option<&str>) {
        let Some(place) = self.place else {
            return self
                .problem(number, format!("{name} is in no section: write [global] or [NAME] above it"));
        };
        let Some(known) = options::find(name) else { return self.unknown(number, name) };
        let Some(value) = self.expand(number, value.unwrap_or_default()) else {
            match place {
                Place::Global => self.global_incomplete = true,
                Place::Job => {
                    self.parsed.sections.last_mut().expect("its head was read").incomplete = true;
                }
            }
            return;
        };
        match known.fate {
            Fate::Ignored => return self.parsed.ignored.push((known.name(), number)),
            Fate::Refused(off) if off.contains(&value.as_str()) => return,
            Fate::Refused(_) if self.outside.lenient => {
                return self.parsed.left_out.push((known.name(), number));
            }
            Fate::Refused(_) => {
                let what = format!(
                    "{name} cannot be honoured: {}; remove the line, or give --switch lenient to leave such options out",
                    known.note
                );
                return self.problem(number, what);
            }
            Fate::Honoured => {}
        }
        let settings = match place {
            Place::Global => &mut self.global,
            Place::Job => &mut self.parsed.sections.last_mut().expect("its head was read").settings,
        };
        settings.insert(known.name(), Setting { value, line: number });
    }

    fn unknown(&mut self, number: usize, name: &str) {
        let advice = match options::nearest(name) {
            Some(near) => format!("did you mean {near}?"),
            None => "docs/fio.md has the list of options".to_owned(),
        };
        self.problem(number, format!("there is no option {name}; {advice}"));
    }

    /// The value with its variables put in; none where one is missing.
    fn expand(&mut self, number: usize, value: &str) -> Option<String> {
        let (mut expanded, mut rest) = (String::new(), value);
        while let Some(at) = rest.find('$') {
            expanded += &rest[..at];
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("${") {
                let Some((name, after)) = after.split_once('}') else {
                    self.problem(number, format!("{rest} has no closing brace"));
                    return None;
                };
                expanded += &self.variable(number, name)?;
                rest = after;
            } else if let Some(after) = rest.strip_prefix("$pagesize") {
                expanded += "4096";
                rest = after;
            } else if let Some(word) =
                ["$ncpus", "$mb_memory"].into_iter().find(|word| rest.starts_with(word))
            {
                let what =
                    format!("{word} differs from host to host: write the number, or ${{X}} and -D X=…");
                self.problem(number, what);
                return None;
            } else {
                expanded.push('$');
                rest = &rest[1..];
            }
        }
        Some(expanded + rest)
    }

    fn variable(&mut self, number: usize, name: &str) -> Option<String> {
        let given = self.outside.vars.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let Some(value) = given.or_else(|| std::env::var(name).ok()) else {
            let what =
                format!("${{{name}}} has no value: give it with -D {name}=…, or set it in the environment");
            self.problem(number, what);
            return None;
        };
        self.parsed.variables.insert(name.to_owned(), value.clone());
        Some(value)
    }

    /// What was given from outside is the value of a variable that the file uses, or else an option that wins over that of every
    /// job.
    fn apply_outside(&mut self) {
        for (name, value) in self.outside.vars {
            let option = options::find(name).filter(|known| known.fate == Fate::Honoured);
            match option {
                _ if self.parsed.variables.contains_key(name) => {}
                Some(known) => {
                    let setting = Setting { value: value.clone(), line: 0 };
                    for section in &mut self.parsed.sections {
                        section.settings.insert(known.name(), setting.clone());
                    }
                    self.parsed.variables.insert(name.clone(), value.clone());
                }
                None => {
                    let near = options::nearest(name)
                        .map_or(String::new(), |near| format!("; did you mean {near}?"));
                    let what = format!(
                        "-D {name}: the file has no ${{{name}}}, and there is no option of that name to set{near}"
                    );
                    self.problem(0, what);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, vars: &[(&str, &str)]) -> Parsed {
        let vars: Vec<_> =
            vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        parse(text, &Outside { vars: &vars, lenient: false })
    }

    fn value<'a>(parsed: &'a Parsed, job: usize, name: &str) -> &'a str {
        &parsed.sections[job].settings[name].value
    }

    #[test]
    fn a_job_has_what_the_global_sections_above_it_say_and_may_say_otherwise() {
        let parsed = read("[global]\nbs=4k\nsize=1m\n[a]\nbs=8k\n[global]\nsize=2m\n[b]\n", &[]);
        assert_eq!(parsed.problems, []);
        assert_eq!((value(&parsed, 0, "bs"), value(&parsed, 0, "size")), ("8k", "1m"));
        assert_eq!((value(&parsed, 1, "bs"), value(&parsed, 1, "size")), ("4k", "2m"));
    }

    #[test]
    fn comments_blanks_and_options_without_a_value_are_read_as_fio_reads_them() {
        let parsed = read("; all\n\n[ a b ] # job\n  bs = 4k ; inline\nstonewall\n\t# tab\nrw=read#x\n", &[]);
        assert_eq!(parsed.problems, []);
        assert_eq!(parsed.sections[0].name, "a b");
        assert_eq!(
            (value(&parsed, 0, "bs"), value(&parsed, 0, "rw"), value(&parsed, 0, "stonewall")),
            ("4k", "read", "")
        );
    }

    #[test]
    fn aliases_are_one_option_and_the_last_value_wins() {
        let parsed = read("[a]\nblocksize=1k\nbs=2k\nreadwrite=read\n", &[]);
        assert_eq!((value(&parsed, 0, "bs"), value(&parsed, 0, "rw")), ("2k", "read"));
    }

    #[test]
    fn variables_come_from_outside_and_win_as_options() {
        let parsed = read(
            "[a]\nsize=${SIZE}\nbs=$pagesize\nfilename_format=$jobname.x\n",
            &[("SIZE", "3m"), ("bs", "1k")],
        );
        assert_eq!(parsed.problems, []);
        assert_eq!((value(&parsed, 0, "size"), value(&parsed, 0, "bs")), ("3m", "1k"));
        assert_eq!(value(&parsed, 0, "filename_format"), "$jobname.x");
    }

    #[test]
    fn a_variable_that_is_called_as_an_option_sets_that_option_only_where_the_file_uses_it() {
        let parsed = read("[a]\nbs=${bs}\n[b]\nbs=64k\n", &[("bs", "4k")]);
        assert_eq!(parsed.problems, []);
        assert_eq!((value(&parsed, 0, "bs"), value(&parsed, 1, "bs")), ("4k", "64k"));
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_with_its_line() {
        let text = "bs=4k\n[a\n[b]\niodept=3\nsize=${WEIR_NO_SUCH}\ninclude x.fio\nexec_prerun=rm\n[c] x\nnumjobs=$ncpus\n";
        let told = read(text, &[("other", "1")]);
        let told = Problems { file: "t.fio".to_owned(), all: told.problems }.to_string();
        for line in [
            "t.fio:1: bs is in no section",
            "t.fio:2: [a has no closing bracket",
            "t.fio:4: there is no option iodept; did you mean iodepth?",
            "t.fio:5: ${WEIR_NO_SUCH} has no value: give it with -D WEIR_NO_SUCH=",
            "t.fio:6: include x.fio: other files are not read",
            "t.fio:7: exec_prerun cannot be honoured: commands of a job file are never run",
            "t.fio:8: what is \"x\" after the bracket?",
            "t.fio:9: $ncpus differs from host to host",
            "t.fio: -D other: the file has no ${other}",
        ] {
            assert!(told.contains(line), "{line}\n---\n{told}");
        }
        assert!(read("", &[]).problems[0].what.contains("no job"));
    }

    #[test]
    fn an_option_that_cannot_be_honoured_is_accepted_where_it_does_nothing() {
        let parsed = read("[a]\nzonemode=none\nverify_only=0\nwrite_bw_log=x\n", &[]);
        assert_eq!((parsed.problems.len(), &parsed.ignored[..]), (0, &[("write_bw_log", 4)][..]));
        let outside = Outside { vars: &[], lenient: true };
        assert_eq!(parse("[a]\nnice=5\n", &outside).left_out, [("nice", 2)]);
    }
}
