//! `dram`: no extra cost; memory as fast as the machine's own.

use crate::cost::CostModel;
use crate::medium::{MediumError, MediumType, ParamSpec, Params};

/// Charges nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl CostModel for Null {
    fn name(&self) -> &'static str {
        "dram"
    }

    fn load(&self, _: u64, _: u64) {}

    fn write(&self, _: u64, _: u64) {}

    fn fence(&self) {}
}

/// The line of `dram` in the table of media.
pub(crate) struct NullType;

impl MediumType for NullType {
    fn name(&self) -> &'static str {
        "dram"
    }

    fn summary(&self) -> &'static str {
        "memory as fast as the machine's own: no extra cost"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        &[]
    }

    fn build(&self, _: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        Ok(Box::new(Null))
    }
}
