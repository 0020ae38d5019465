//! Ten of Debian's programs under `raddle run`, as natively; `cargo xtask programs` runs all that `tests/programs` has.
#![forbid(unsafe_code)]

#[path = "programs/runner.rs"]
mod runner;

use std::path::Path;

#[test]
fn ten_programs_do_what_they_do_natively() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let cases: Vec<_> = runner::cases(&folder).unwrap().into_iter().filter(|case| case.in_ci).collect();
    assert_eq!(cases.len(), 10);
    let mut failures = Vec::new();
    for case in cases {
        if let Some(missing) = case.missing() {
            let line =
                format!("skipped: {}: there is no {} (Debian package {})", case.name, missing.display(), case.packages);
            // Past the test's captured output: a skip is heard of.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
            if std::env::var_os("RADDLE_NOTHING_SKIPPED").is_some() {
                failures.push(line);
            }
            continue;
        }
        let native = runner::run(&case, None).unwrap();
        let taken_over = runner::run(&case, Some(Path::new(env!("CARGO_BIN_EXE_raddle")))).unwrap();
        if !native.is_as(&taken_over) {
            let why = runner::difference(&native, &taken_over);
            let (name, what, seconds) = (&case.name, &case.what, taken_over.seconds);
            failures.push(format!("{name} ({what}): {why}, after {seconds:.1} s\n{}", taken_over.errors));
        } else if case.threads && taken_over.threads == 0 {
            failures.push(format!("{}: no lightweight thread: {}", case.name, taken_over.errors));
        } else if native.ended != "exit status: 0" {
            failures.push(format!("{}: natively {}: {}", case.name, native.ended, native.errors));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
