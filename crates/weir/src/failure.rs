//! How a command fails: a message that says what, where and what to do, and an exit code.

use std::process::ExitCode;

/// The exit codes of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// A check or a threshold failed.
    Check = 1,
    /// Usage, or a plan with an error.
    Usage = 2,
    /// This host cannot do it.
    Host = 3,
    /// The run failed.
    Run = 4,
    /// Corruption.
    Corrupt = 5,
    /// `fsck --repair` could not read or write the image, as e2fsck has it.
    Unrepairable = 8,
    /// Our own fault.
    Internal = 70,
    /// Ended early on request.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Why a command failed.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What happened, where, and what to do. Empty: all has been said.
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// A usage error.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something the operating system refused.
    pub(crate) fn io(action: &str, path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(Exit::Run, format!("cannot {action} {}: {error}", path.display()))
    }
}

impl From<lab::Error> for Failure {
    fn from(error: lab::Error) -> Self {
        let exit = match &error {
            lab::Error::Host(_) => Exit::Host,
            lab::Error::Cell { .. } | lab::Error::Io { .. } => Exit::Run,
            lab::Error::Corrupt { .. } => Exit::Corrupt,
            _ => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<document::Problem> for Failure {
    fn from(problem: document::Problem) -> Self {
        Self::usage(problem.to_string())
    }
}

impl From<results::FileError> for Failure {
    fn from(error: results::FileError) -> Self {
        let exit = if matches!(error, results::FileError::Io { .. }) { Exit::Run } else { Exit::Usage };
        Self::new(exit, error.to_string())
    }
}

impl From<report::FigureError> for Failure {
    fn from(error: report::FigureError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<report::format::RenderError> for Failure {
    fn from(error: report::format::RenderError) -> Self {
        let exit = match &error {
            report::format::RenderError::Nothing(_) => Exit::Usage,
            _ => Exit::Internal,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<media::flash::FlashError> for Failure {
    fn from(error: media::flash::FlashError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<media::MediumError> for Failure {
    fn from(error: media::MediumError) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<design::FsError> for Failure {
    fn from(error: design::FsError) -> Self {
        let exit = match &error {
            design::FsError::Damaged { .. } => Exit::Corrupt,
            design::FsError::Media(_) | design::FsError::Output(_) => Exit::Run,
            _ => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}

impl From<trace::Error> for Failure {
    fn from(error: trace::Error) -> Self {
        let exit = match &error {
            trace::Error::Io { .. } => Exit::Run,
            trace::Error::Damaged { .. } | trace::Error::Lossy { .. } => Exit::Corrupt,
            _ => Exit::Usage,
        };
        Self::new(exit, error.to_string())
    }
}
