//! Facts about the host that a number may depend on.
//!
//! Data only; `lab` captures it. It says nothing about who or where: no host name, no user, no path.

use serde::{Deserialize, Serialize};

/// What the host was. A fact that could not be found out is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Environment {
    /// Version of Weir.
    pub weir_version: String,
    /// Commit that it was built from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Compiler that built it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiler: Option<String>,
    /// Build profile (`release`, `debug`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Processor as it names itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Processor architecture (`x86_64`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Cores that the process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u64>,
    /// NUMA nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_nodes: Option<u64>,
    /// Main memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Frequency governor of the cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor: Option<String>,
    /// Whether the cores may exceed their nominal frequency.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// Transparent huge pages setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub huge_pages: Option<String>,
    /// Kernel mitigations in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mitigations: Option<String>,
    /// Kind of container or virtual machine around the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// When the run began, in UTC: `2026-01-31 14:05`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_utc: Option<String>,
    /// Load average of one minute at the beginning, in hundredths of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_percent: Option<u64>,
    /// What one reading of the clock and one histogram record cost together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timer_overhead_ns: Option<u64>,
}
