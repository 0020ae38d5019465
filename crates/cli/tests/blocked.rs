//! `raddle bench blocked` in a container without privileges: what is measured, and what is said where the idle class is
//! refused.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn container() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/container.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("container-{}-{:?}", std::process::id(), std::thread::current().id()).replace(['(', ')'], ""));
    let output = Command::new("cc").args(["-O1", "-Wall", "-o"]).args([&program, &source]).output();
    let output = output.unwrap_or_else(|error| panic!("cc (Debian package gcc) is needed: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// The rows of the ways, in order.
fn measured(filter: &str) -> Vec<Value> {
    let program = container();
    let mut command = Command::new(&program);
    command.arg(filter).arg(env!("CARGO_BIN_EXE_raddle"));
    command.args(["bench", "blocked", "--rounds", "1", "--args", "24", "--format", "json"]);
    let output = command.output().unwrap();
    let _ = std::fs::remove_file(program);
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{errors}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_container_without_privileges_has_standbys() {
    let rows = measured("allows-idle");
    assert_eq!(rows.iter().map(|row| row["way"].as_str().unwrap()).collect::<Vec<_>>(), ["standby", "monitor"]);
    for row in &rows {
        assert!(row["blocks"] == 24 && row["p50_ns"].as_u64() > Some(0));
        // Nothing was refused.
        assert_eq!(row.get("said"), None, "{row}");
    }
    assert_eq!(rows[1]["taken_by_standby"], 0);
}

#[test]
fn where_the_idle_class_is_refused_the_monitor_is_left_and_one_line_says_so() {
    let rows = measured("refuses-idle");
    let said = rows[0]["said"].as_str().unwrap();
    assert!(said.starts_with("raddle: no standby of the idle class") && said.lines().count() == 1, "{said}");
    assert_eq!((&rows[0]["blocks"], &rows[0]["taken_by_standby"]), (&24.into(), &0.into()));
    assert_eq!(rows[1].get("said"), None);
}
