//! Tests with real processes that run on every system, under Wine as well (see ci/windows).

use std::process::{Command, Stdio};

#[test]
fn the_executables_start() {
    for path in [env!("CARGO_BIN_EXE_agent-relay"), env!("CARGO_BIN_EXE_agent-relay-wrap")] {
        let output = Command::new(path).arg("--help").stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(output.status.success(), "{path}: {output:?}");
    }
}
