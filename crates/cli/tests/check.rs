//! The command `raddle check` as a user meets it.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::process::{Command, Output};

fn check(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_raddle")).arg("check").args(words).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_policy_passes_and_its_runs_are_counted() {
    let output = check(&["fifo", "--runs", "40", "--scenario", "spawn, wake,order"]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let text = stdout(&output);
    assert!(text.contains("spawn     40 seeds") && text.contains("120 runs"), "{text}");
    let output = check(&["fifo", "--runs", "40", "--scenario", "spawn", "--format", "json"]);
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((object["passed"].as_bool(), object["scenarios"][0]["seeds"].as_u64()), (Some(true), Some(40)));
}

#[test]
fn all_runs_within_a_bound_are_made() {
    let output = check(&["rotator", "--exhaustive", "--preemptions", "0", "--scenario", "submit"]);
    let text = stdout(&output);
    assert!(text.contains("all runs with at most 0 preemptions"), "{text}");
    let fails = text.contains("FAILED") || text.contains("NOT REACHED");
    assert!(fails || text.contains("nothing broke\n"), "{text}");
}

#[test]
fn one_run_is_made_again_and_told() {
    let output = check(&["fifo", "--replay", "1.spawn.2.4.0"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    assert!(text.contains("processor 0: thread 3 ends") && text.contains("nothing broke in this run"), "{text}");
}

#[test]
fn a_listed_outcome_that_is_not_reached_fails() {
    let output = check(&["fifo", "--replay", "1.submit.2.4.0"]);
    assert_eq!(output.status.code(), Some(0), "a replay lists nothing");
    let output = check(&["fifo", "--exhaustive", "--preemptions", "0", "--scenario", "gift", "--threads", "2"]);
    let (text, code) = (stdout(&output), output.status.code());
    assert_eq!(code == Some(1), text.contains("no run reached this"), "{text}");
}

#[test]
fn one_seed_that_breaks_nothing_passes() {
    // The help's own example, and what a failing check prints.
    for words in
        [&["lifo", "--seed", "7", "--runs", "1"][..], &["fifo", "--scenario", "submit", "--seed", "4", "--runs", "1"]]
    {
        let output = check(words);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!((text.matches("nothing broke").count(), text.contains("FAILED")), (1, false), "{text}");
    }
    let output = check(&["lifo", "--seed", "7", "--runs", "1", "--format", "json"]);
    let object: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((object["passed"].as_bool(), object["outcomes_demanded"].as_bool()), (Some(true), Some(false)));
}

#[test]
fn the_help_says_when_a_run_is_given_up() {
    let text = stdout(&check(&["--help"]));
    assert!(text.contains("no step for 20 s") && text.contains("NOT REACHED"), "{text}");
}

#[test]
fn wrong_use_is_explained() {
    for (words, told) in [
        (&["steal(lifo, victims=neighbors(4))"][..], "column 21"),
        (&["fifo", "--processors", "0"], "--processors 0: a check takes from 1 to 8"),
        (&["fifo", "--processors", "1000"], "--processors 1000: a check takes from 1 to 8"),
        (&["fifo", "--threads", "1"], "--threads 1: a check takes from 2 to 64"),
        (&["fifo", "--scenario", "spam"], "--scenario spam: there is none of that name; there are\n  spawn"),
        (&["fifo", "--replay", "7.spawn.2.4.0"], "made by another version"),
        (&["fifo", "--replay", "nonsense"], "is no token"),
        (&["fifo", "--replay", "1.spawn.2.4.0.100000-1"], "does not go so far"),
        (&["fifo", "--runs", "0"], "'--runs <N>'"),
        (&["fifo", "--runs", "2", "--exhaustive"], "cannot be used with"),
        (&[], "<POLICY>"),
    ] {
        let output = check(words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {error}");
        assert!(error.contains(told), "{words:?}: {error}");
    }
}

/// Not taken for an option of that name.
#[test]
fn a_negative_number_is_out_of_range() {
    for words in [
        "run --processors -1 true",
        "run --trace t --trace-events -1 true",
        "bench create --processors -1",
        "bench create --rounds -1",
        "check fifo --processors -1",
        "check fifo --seconds -1",
        "sim --seed -1",
        "sim --steps -1",
        "top --seconds -1",
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_raddle")).args(words.split(' ')).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        let option = words.split(' ').take_while(|word| *word != "-1").last().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(error.contains(option) && error.contains("-1") && !error.contains("tip:"), "{words}: {error}");
    }
}
