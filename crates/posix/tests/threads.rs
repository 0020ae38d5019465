//! Threads of programs that nobody changed.

mod common;

#[test]
fn ten_thousand_threads_on_a_few_kernel_threads() {
    let program = common::compile("create_join.c", &[]);
    let out = common::drop_in(&program, &[], &[]).well();
    let numbers: Vec<i64> = out.split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0], 9999 * 10000);
    assert!(numbers[1] < 200, "{} kernel threads: the program's threads were not taken over", numbers[1]);
}

/// Who asks for counters is told how long threads waited to run.
#[test]
fn counters_say_how_long_threads_waited_in_run_queues() {
    let program = common::compile("create_join.c", &[]);
    let ended = common::drop_in(&program, &[], &[("RADDLE_STATS", "json")]);
    let counter = |key: &str| -> u64 {
        let (_, rest) = ended.err.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key}: {ended:?}"));
        rest[..rest.find([',', '}']).unwrap()].parse().unwrap()
    };
    assert!(counter("delay_samples") > 0, "{ended:?}");
    assert!(0 < counter("delay_p50_ns") && counter("delay_p50_ns") <= counter("delay_p99_ns"), "{ended:?}");
    assert!(counter("delay_p99_ns") <= counter("delay_max_ns"), "{ended:?}");
}

/// What the compiler's pass puts in, by hand: the other thread has its turns though this one only computes.
/// Threads that switch at quantum checks alone: a timer that is due does not wait until there were 64 switches.
#[test]
fn quantum_checks_wake_sleepers_that_are_due() {
    let program = common::compile("quantum_sleeper.c", &[]);
    let turns = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", "1"), ("RADDLE_QUANTUM", "50")]).well();
    let turns: u64 = turns.trim().parse().expect("a number");
    assert!(turns <= 16, "others had {turns} turns while a sleep was over");
}

#[test]
fn quantum_checks_let_others_run() {
    let program = common::compile("quantum.c", &[]);
    for main in ["0", "1"] {
        let environment = [("RADDLE_PROCESSORS", "1"), ("RADDLE_QUANTUM", "0"), ("RADDLE_MAIN", main)];
        let out = common::drop_in(&program, &[], &environment).well();
        assert_eq!(out, "errno kept, the checks asked as often as it takes\n");
    }
    assert_eq!(common::native(&program, &[]).well(), "no runtime\n");
    let settings = [("RADDLE_PROCESSORS", "1"), ("RADDLE_QUANTUM", "1000,5000"), ("RADDLE_STATS", "json")];
    let measured = common::drop_in(&program, &["gap"], &settings);
    assert!(measured.err.contains("\"gaps\":1,") && measured.err.contains("\"gap_function\":\"slow\""), "{measured:?}");
    // And while the program runs.
    let file = program.with_extension("metrics");
    let mut command = std::process::Command::new(&program);
    command.args(["gap", "stays"]).env("LD_PRELOAD", common::library()).stdin(std::process::Stdio::piped());
    let settings = [("RADDLE_PROCESSORS", "1"), ("RADDLE_QUANTUM", "1000,5000")];
    let mut child = command.envs(settings).env("RADDLE_METRICS", &file).spawn().unwrap();
    common::until("the function of the longest gap", || {
        assert!(child.try_wait().unwrap().is_none());
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        text.contains("raddle_quantum_gap_longest_seconds{function=\"slow\"} 0.").then_some(())
    });
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    std::fs::remove_file(&file).unwrap();
    let wrong = common::drop_in(&program, &[], &[("RADDLE_QUANTUM", "soon")]);
    assert!(wrong.err.contains("RADDLE_QUANTUM is `soon`"), "{wrong:?}");
}

/// The program prints the same, and ends with the same status, with the library and without.
#[track_caller]
fn same_as_native(source: &str, options: &[&str]) -> String {
    let program = common::compile(source, options);
    let (native, ours) = (common::native(&program, &[]), common::drop_in(&program, &[], &[]));
    assert_eq!(ours.out, native.out, "{ours:?}");
    assert_eq!(ours.status, native.status, "{ours:?}");
    let fallback = common::drop_in(&program, &[], &[("RADDLE_KERNEL_THREADS", "1")]);
    assert_eq!(fallback.out, native.out, "{fallback:?}");
    let main_too = common::drop_in(&program, &[], &[("RADDLE_MAIN", "1")]);
    assert_eq!(main_too.out, native.out, "{main_too:?}");
    assert_eq!(main_too.status, native.status, "{main_too:?}");
    ours.out
}

/// The kernel gives a signal for the process to another kernel thread where the first one has not taken the last one
/// yet: how many those were does not count.
fn without_luck(out: &str) -> String {
    let line = |line: &str| {
        if line.ends_with(" of them elsewhere") { "0 of them elsewhere\n".into() } else { format!("{line}\n") }
    };
    out.lines().map(line).collect()
}

/// With `main` on a kernel thread and on a lightweight one, by each of its ends.
#[test]
fn main_may_do_the_same_on_a_lightweight_thread() {
    let program = common::compile("first_main.c", &[]);
    for (end, status) in [("return", 42), ("exit", 4), ("leave", 0)] {
        let native = common::native(&program, &[end]);
        assert_eq!(native.status.code(), Some(status), "{native:?}");
        assert!(!native.out.contains("failed") && native.out.lines().count() >= 9, "{native:?}");
        let expected = without_luck(&native.out);
        let ours = common::drop_in(&program, &[end], &[]);
        assert_eq!((without_luck(&ours.out), ours.status), (expected.clone(), native.status), "{}", ours.err);
        for processors in ["1", "2"] {
            let settings = [("RADDLE_MAIN", "1"), ("RADDLE_PROCESSORS", processors), ("RADDLE_STATS", "json")];
            let main_too = common::drop_in(&program, &[end], &settings);
            assert_eq!((main_too.out, main_too.status), (expected.clone(), native.status), "{}", main_too.err);
            // Its own thread, the partner, the one that waits for a signal, the one that sends them, and who joins it.
            let threads = if end == "leave" { 5 } else { 4 };
            assert!(main_too.err.contains(&format!("\"threads\":{threads},")), "{}", main_too.err);
            assert!(!main_too.err.contains("dead-lock"), "{}", main_too.err);
        }
    }
}

/// Settings leave the environment, and kernel threads are kernel threads there, too.
#[test]
fn main_stays_where_there_are_no_lightweight_threads() {
    let program = common::compile("first_main.c", &[]);
    let native = common::native(&program, &["return"]);
    let ours = common::drop_in(&program, &["return"], &[("RADDLE_MAIN", "1"), ("RADDLE_KERNEL_THREADS", "1")]);
    let expected = (without_luck(&native.out), native.status);
    assert_eq!((without_luck(&ours.out), ours.status), expected, "{}", ours.err);
}

#[test]
fn the_threads_and_locks_of_c11_answer_as_natively() {
    let out = same_as_native("c11.c", &[]);
    assert!(
        out.matches("\nheld: busy timed out ").count() == 2 && out.matches("interrupted: -1, left 1").count() == 2,
        "{out}"
    );
    assert!(out.matches("\nsleeps: 0 -2\n").count() == 2 && out.matches("joins itself: error").count() == 2, "{out}");
}

#[test]
fn threads_can_be_asked_what_kernel_threads_can() {
    let out = same_as_native("threads_all.c", &[]);
    assert!(!out.contains("WRONG") && out.lines().count() > 40, "{out}");
}

#[test]
fn a_thread_begins_with_its_creators_floating_point_environment_and_keeps_its_own() {
    assert_eq!(same_as_native("fp_environment.c", &["-lm", "-frounding-math"]), "wrong: 0\n");
}

#[test]
fn each_thread_has_a_clock_of_its_processor_time() {
    assert_eq!(same_as_native("thread_clocks.c", &[]), "back: 0, differ: 0\nwrong: 0\n");
}

#[test]
fn cleanup_handlers_run_with_exceptions_too() {
    let out = same_as_native("threads_all.c", &["-fexceptions"]);
    assert!(!out.contains("WRONG"), "{out}");
}

#[test]
fn the_process_outlives_its_first_thread() {
    let out = same_as_native("exit_main.c", &[]);
    assert_eq!(out, "cleanup of first\ndestructor of first\nthe last one\n");
}

#[test]
fn destructors_run_and_exceptions_do_not_escape() {
    if common::lacks(&[("c++", "g++")]) {
        return;
    }
    let out = same_as_native("unwinding.cc", &[]);
    assert!(out.ends_with("caught 6\nterminate\n") && out.contains("~second\n~first\n~own\n4\n"), "{out}");
}

#[test]
fn a_thread_that_ends_waits_as_long_as_it_is_to_and_a_handler_ends_a_semaphores_wait() {
    let out = same_as_native("exit_waits.c", &[]);
    assert!(!out.contains("too short") && out.lines().count() == 9, "{out}");
}

#[test]
fn each_cancellation_point_ends_a_cancelled_thread() {
    for options in [&[][..], &["-fexceptions"]] {
        let out = same_as_native("cancel_points.c", options);
        assert!(!out.contains("WRONG") && out.lines().count() == 26, "{out}");
    }
}

#[test]
fn cancellation_ends_waits_inside_the_c_library_in_the_kernel_and_in_handlers() {
    let out = same_as_native("cancel_libc.c", &["-lutil", "-lrt"]);
    assert!(out.lines().count() > 100 && !out.contains("NOT"), "{out}");
}

#[test]
fn a_cancellation_ends_no_wait_that_is_none_of_its_points_and_all_that_are_asynchronous() {
    let out = same_as_native("raw_waits.c", &[]);
    assert!(out.ends_with("wrong: 0\n"), "{out}");
}

#[test]
fn asynchronous_cancellation_acts_at_once_on_a_request_that_is_there() {
    let out = same_as_native("cancel_async.c", &[]);
    assert!(out.lines().count() == 5 && out.matches("cancelled 1").count() == 5, "{out}");
    assert_eq!(out.matches("went on to 0").count(), 3, "{out}");
}

#[test]
fn the_first_thread_is_joined_with_time_limits_and_cancelled_in_a_handler() {
    let out = same_as_native("join_first.c", &[]);
    assert!(out.contains("cancelled"), "{out}");
}

#[test]
fn the_first_thread_can_be_cancelled_while_it_waits() {
    let program = common::compile("cancel_first.c", &[]);
    let joins = ["join", "timedjoin", "clockjoin"];
    for what in
        ["sem", "sem, timed", "cond", "cond, timed", "requested", "disabled", "epoll_pwait2"].iter().chain(&joins)
    {
        let native = common::native(&program, &[what]).well();
        let end = if joins.contains(what) { "the other one joined: 0\n" } else { "" };
        let end = format!("joined: 0, cancelled: 1\n{end}");
        assert!(native.contains("cleaned") && native.ends_with(&end), "{what}: {native}");
        for environment in [&[("RADDLE_PROCESSORS", "1")][..], &[], &[("RADDLE_KERNEL_THREADS", "1")]] {
            assert_eq!(common::drop_in(&program, &[what], environment).well(), native, "{what}, {environment:?}");
        }
    }
}

#[test]
fn a_thread_is_told_a_stack_of_the_size_that_was_asked_for() {
    let program = common::compile("stack_told.c", &["-Wno-infinite-recursion"]);
    let native = common::native(&program, &[]).well();
    assert!(native.lines().count() == 11 && native.matches("begins 0, inside 1, anew 1").count() == 10, "{native}");
    for processors in ["1", "2"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// Of clocks and of the first thread nothing is left of one that was there before, and nobody sleeps through a wake-up
/// (of which a report of a dead-lock would tell).
#[test]
fn a_thread_finds_nothing_of_those_before_it() {
    let program = common::compile("thread_alone.c", &[]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        let ours = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]);
        assert!(!ours.err.contains("dead-lock"), "{ours:?}");
        assert_eq!(ours.well(), native);
    }
}
