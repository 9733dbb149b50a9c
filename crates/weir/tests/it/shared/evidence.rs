//! A suite's result as evidence: recorded where `WEIR_LEDGER` names a ledger, as that of the build that `WEIR_BUILD` names.

use std::process::Command;

/// Records what a suite found; see `weir check record`.
pub(crate) fn record(
    check: &str,
    subject: &str,
    (count, unit): (usize, &str),
    failures: usize,
    seed: Option<u64>,
) {
    let Some(ledger) = std::env::var_os("WEIR_LEDGER") else { return };
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("weir"));
    command.args(["check", "record", check, "--subject", subject, "--unit", unit]);
    command.args(["--count", &count.to_string(), "--failures", &failures.to_string()]);
    command.args(seed.map(|seed| format!("--seed={seed}")));
    command.args(std::env::var("WEIR_BUILD").map(|build| format!("--build={build}")));
    let status = command.arg("--ledger").arg(ledger).status().expect("weir runs");
    assert!(status.success(), "{check}: not recorded");
}
