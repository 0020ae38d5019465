//! The programs of this package and the Go program, run end to end.
#![forbid(unsafe_code)]

use raddle_bench::{child, smoke};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[test]
fn std_is_right_in_all_but_stages_and_locks_of_ours() {
    let refused = smoke::check(Path::new(env!("CARGO_BIN_EXE_raddle-bench-std")), &[]);
    let refused = refused.unwrap();
    let of_ours = |case: &String| ["staged", "locks", "faults"].iter().any(|name| case.starts_with(name));
    assert!(refused.len() == 2 + 10 + 3 && refused.iter().all(of_ours), "{refused:?}");
}

#[cfg(feature = "raddle")]
#[test]
fn raddle_is_right_in_all_under_several_policies() {
    let program = Path::new(env!("CARGO_BIN_EXE_raddle-bench-raddle"));
    for words in [&[][..], &["--policy", "steal(fifo)"], &["--policy", "priority(3, lifo)"]] {
        assert_eq!(smoke::check(program, words), Ok(Vec::new()), "{words:?}");
    }
    let wrong = smoke::check(program, &["--policy", "fif"]).unwrap_err();
    assert!(wrong.contains("the policy `fif` is wrong"), "{wrong}");
}

#[test]
fn go_is_right_in_all_but_fork_join_calls_stages_locks_faults_and_nbody() {
    if smoke::lacks(&[("go", "golang-go")]) {
        return;
    }
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("raddle-bench-go");
    let mut build = Command::new("go");
    build.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/go")).arg("build").arg("-o").arg(&program);
    match build.status() {
        Ok(status) => assert!(status.success(), "go build failed"),
        Err(error) => panic!("go cannot be started: {error}; install Go to run the tests of its program"),
    }
    for words in [&[][..], &["--handles"]] {
        let refused = smoke::check(&program, words).unwrap();
        assert!(
            refused.len() == 6 + 3 + 12 + 6 + 1 && !refused.iter().any(|case| case.contains("by=spawn")),
            "{refused:?}"
        );
    }
}

#[test]
fn what_is_wrong_is_one_line_of_json() {
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle-bench-std"));
        command.args(words);
        assert_eq!(command.output().unwrap().status.code(), Some(2), "{words:?}");
        child::run(command, Duration::from_secs(300)).unwrap_err()
    };
    assert!(run(&["create", "N=1"]).contains("--processors"));
    assert!(run(&["create", "--processors", "1"]).contains("`N` is missing"));
    assert!(run(&["knit", "--processors", "1"]).contains("no workload `knit`"));
    assert!(run(&["yield", "T=3", "total=10", "--processors", "1"]).contains("does not divide"));
    assert!(run(&["wake_remote", "n=1", "gap_us=1", "--processors", "1"]).contains("second processor"));
}
