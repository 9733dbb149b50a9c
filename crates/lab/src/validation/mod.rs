//! The model held against published measurements.
//!
//! A row is a published number with the command that repeats it ([`rows`]). The command of a row is turned into a [`Task`] by the
//! program that knows commands; [`measure()`] runs the tasks side by side and puts the numbers beside the published ones. The rest
//! is arithmetic on rows: errors and orders ([`judge()`]), [`limits`], [`controls`].
//!
//! | module | holds |
//! |---|---|
//! | [`rows`] | files of rows |
//! | [`measure`](mod@measure) | running the tasks of rows |
//! | [`mod@judge`] | errors by class, source and design; the order of designs |
//! | [`limits`] | what must hold |
//! | [`controls`] | what tells a model from factors |
//! | [`memory`] | latencies under load beside memories that know nothing of load |
//! | [`kernel`] | calls of this host's kernel, measured live |

pub mod controls;
pub mod judge;
pub mod kernel;
pub mod limits;
pub mod measure;
pub mod memory;
pub mod rows;

use results::validation::{LeftOut, Row, VALIDATION_SCHEMA, ValidationFile};

pub use measure::{Settings, measure};
pub use rows::Rows;

use crate::error::Error;
use crate::medium::Loop;
use crate::medium_load::Probe;
use crate::plan::Plan;

/// What the command of a row does.
#[derive(Clone, Debug)]
pub enum Task {
    /// A loop of loads and stores.
    Loop {
        /// The loop.
        work: Box<Loop>,
        /// A time that the row's source counts and the loop does not.
        plus_ns: f64,
    },
    /// A memory under load.
    Probe(Box<Probe>),
    /// A cell of a plan.
    Cell(Box<Plan>),
    /// A claim of a paper.
    Claim {
        /// The paper.
        paper: String,
        /// The claim's id.
        claim: String,
    },
    /// A call of this host's kernel, beside which nothing is modelled.
    Kernel,
}

/// A row with its task, or with the reason why there is none.
pub type Work = (Row, Result<Task, LeftOut>);

/// Everything that can be computed from rows; `calibration` are the rows that come with Weir.
pub fn judge(rows: Vec<Row>, calibration: &[Row]) -> ValidationFile {
    ValidationFile {
        schema: VALIDATION_SCHEMA.to_owned(),
        left_out: judge::left_out(&rows),
        summaries: judge::summaries(&rows),
        ranks: judge::ranks(&rows),
        limits: limits::limits(&rows),
        controls: [controls::controls(&rows, calibration), vec![memory::under_load(&rows)]].concat(),
        rows,
        ..ValidationFile::default()
    }
}

/// The reason why an error leaves a row out.
pub fn reason(error: &Error) -> LeftOut {
    let kind = match error {
        Error::Host(_) => "host",
        Error::Cell { .. } | Error::Corrupt { .. } | Error::Io { .. } => "failed",
        _ => "preset",
    };
    LeftOut::new(kind, error.to_string())
}
