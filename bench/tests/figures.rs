//! README and docs/performance.md show what is in `bench/results`.
#![forbid(unsafe_code)]

#[test]
fn the_documents_show_what_was_measured() {
    // Cargo builds a package's examples for its tests, beside them.
    let own = std::env::current_exe().unwrap();
    let example = own.ancestors().nth(2).unwrap().join("examples/figures");
    let output = std::process::Command::new(example).arg("--check").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
