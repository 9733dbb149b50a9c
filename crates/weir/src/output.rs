//! Where words go: data to the standard output, everything else to the standard error.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::json;

use crate::cli::Global;
use crate::failure::{Exit, Failure};
use crate::topics;

/// The two streams and how much to say.
#[derive(Debug)]
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    verbose: bool,
    /// Whether data has been printed: a failure must not add a second document to it.
    printed: AtomicBool,
}

impl Output {
    pub(crate) fn new(global: &Global) -> Self {
        let Global { json, quiet, verbose } = *global;
        Self { json, quiet, verbose, printed: AtomicBool::new(false) }
    }

    /// Whether one JSON document is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether as little as possible is to be said.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Whether progress may be drawn.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Prints data.
    pub(crate) fn data(&self, text: &str) {
        self.printed.store(true, Relaxed);
        print(text);
    }

    /// Prints a JSON document.
    pub(crate) fn document(&self, document: &impl serde::Serialize) {
        let text = serde_json::to_string_pretty(document).expect("our documents have string keys only");
        self.data(&(text + "\n"));
    }

    /// Whether progress is told line by line, because there is no terminal to draw on.
    pub(crate) fn tells_progress(&self) -> bool {
        !self.quiet && !io::stderr().is_terminal()
    }

    /// Tells something on the standard error.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Tells something that matters to few.
    pub(crate) fn detail(&self, text: &str) {
        if self.verbose && !self.quiet {
            say(text);
        }
    }

    /// Tells why the command failed; with `--json`, on the standard output as well, unless the data stands there.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.message.is_empty() {
            return;
        }
        if self.json && !self.printed.load(Relaxed) {
            print_failure_json(failure);
        }
        let style = anstyle::AnsiColor::Red.on_default().bold();
        say(&format!("{style}error:{style:#} {}", failure.message));
        if let Some(topic) = topics::of(&failure.message).filter(|_| !self.quiet) {
            say(&format!("more: weir explain {}", topic.word));
        }
    }
}

/// Says a line on the standard error. Where that cannot be written, the work goes on: a server must not end because of a full disk
/// under its log.
pub(crate) fn say(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// The document that stands for a result that there is not.
pub(crate) fn print_failure_json(failure: &Failure) {
    let document = json!({
        "schema": "weir.error/1",
        "error": { "message": failure.message, "exit_code": failure.exit as u8 },
    });
    print(&format!("{document:#}\n"));
}

/// Why the standard output could not be written, if it could not.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// Prints. A reader that went away (`| head`) is no error; anything else is kept for [`unwritten`].
fn print(text: &str) {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => drop(UNWRITTEN.set(error.to_string())),
        _ => {}
    }
}

/// What was lost on the standard output: a command that could not say what it found has failed.
pub(crate) fn unwritten() -> Option<Failure> {
    let error = UNWRITTEN.get()?;
    Some(Failure::new(Exit::Run, format!("cannot write the standard output: {error}")))
}

/// `1 run`, `8 runs`.
pub(crate) fn several(count: usize, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// Words in columns of equal width, the last one free.
pub(crate) fn columns(rows: &[(String, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, rest) in rows {
        let _ = writeln!(text, "  {name:<width$}  {rest}");
    }
    text
}
