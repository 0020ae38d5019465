//! Tests that need programs which may not be installed. Tests of other packages take this file by its path.

use std::io::Write;
use std::path::Path;

/// True, and said on standard error, if something that the calling test needs is not installed: a program in PATH, or a
/// file, and the Debian package that has it. Where nothing may be skipped (`cargo xtask ci`), it is a failure instead.
#[track_caller]
pub fn lacks(needs: &[(&str, &str)]) -> bool {
    let there = |what: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path);
        if what.starts_with('/') { Path::new(what).exists() } else { folders.any(|folder| folder.join(what).exists()) }
    };
    let missing: Vec<String> = needs
        .iter()
        .filter(|(what, _)| !there(what))
        .map(|(what, package)| format!("{what} (Debian package {package})"))
        .collect();
    if missing.is_empty() {
        return false;
    }
    let missing = missing.join(", ");
    assert!(
        std::env::var_os("RADDLE_NOTHING_SKIPPED").is_none(),
        "missing: {missing}; `cargo xtask setup` installs it"
    );
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    // Past the test harness, which keeps what a passing test prints for itself.
    let line = format!("skipped: {test}: there is no {missing}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    true
}
