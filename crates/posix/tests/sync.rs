//! Locks and what goes with them, in programs that nobody changed.

mod common;

/// Every operation answers what the C library's does: on lightweight threads, and on the program's first thread.
#[test]
fn every_operation_answers_as_the_c_librarys_does() {
    let program = common::compile("sync_errors.c", &[]);
    let native = common::native(&program, &[]).well();
    let ours = common::drop_in(&program, &[], &[]).well();
    for (line, (native, ours)) in native.lines().zip(ours.lines()).enumerate() {
        assert_eq!(native, ours, "line {line} of {program:?}");
    }
    assert_eq!(native.lines().count(), ours.lines().count());
}

const TRAFFIC: &str = "\
mutex 0: 1
mutex 1: 1
mutex 2: 1
mutex 3: 1
turns, first thread and another: 1
turns, two others: 1
gate: 1000
tokens left: 0
lifetimes
hops: 1, left 1
writes: 1
writes: 1
writes: 1
a writer gets through
steps: 1, serial threads: 1
spins: 1
";

/// Nothing is lost between threads of both kinds, on one processor and on several. (Natively the writer among readers that overlap for
/// ever would starve, so the program runs as a drop-in only.)
#[test]
fn no_wake_up_is_lost() {
    let program = common::compile("sync_traffic.c", &[]);
    for processors in ["1", "2", "3"] {
        let ours = common::drop_in(&program, &["all"], &[("RADDLE_PROCESSORS", processors)]);
        assert_eq!(ours.well(), TRAFFIC, "on {processors} processors");
    }
}

/// Without lightweight threads the same objects serve kernel threads.
#[test]
fn no_wake_up_is_lost_where_threads_are_kernel_threads() {
    let program = common::compile("sync_traffic.c", &[]);
    for what in ["mutexes", "turns", "signals", "lifetimes", "semaphores", "rwlocks", "writer", "barriers"] {
        common::drop_in(&program, &[what], &[("RADDLE_KERNEL_THREADS", "1")]).well();
    }
}

#[test]
fn a_hundred_thousand_threads_wait_on_one_condition_variable() {
    let program = common::compile("sync_traffic.c", &[]);
    assert_eq!(common::drop_in(&program, &["gate", "100000"], &[]).well(), "gate: 100000\n");
}

#[test]
fn the_cpp20_librarys_threads_and_locks_work_unchanged() {
    let program = common::compile("cpp20.cc", &["-std=c++20"]);
    let (native, ours) = (common::native(&program, &[]), common::drop_in(&program, &[], &[]));
    assert_eq!(native.out, ours.out);
    let kernel_threads: usize = ours.err.trim().parse().unwrap();
    assert!(kernel_threads < 100, "{kernel_threads} kernel threads for a thousand: they were not taken over");
}
