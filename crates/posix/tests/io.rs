//! Input and output of programs that nobody changed.

mod common;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Where programs may put files.
const FILES: &str = env!("CARGO_TARGET_TMPDIR");

/// What calls answer is the same natively and with the library.
#[test]
fn calls_answer_as_natively() {
    let program = common::compile("io_semantics.c", &["-Wno-unused-result"]);
    let native = common::native(&program, &[FILES]).well();
    for processors in ["1", "3"] {
        let ours = common::drop_in(&program, &[FILES], &[("RADDLE_PROCESSORS", processors)]).well();
        let differ: Vec<_> = native.lines().zip(ours.lines()).filter(|(n, o)| n != o).collect();
        assert!(differ.is_empty(), "{processors} processors; native, ours: {differ:#?}");
        assert_eq!(native.lines().count(), ours.lines().count());
    }
}

/// Threads that answer for a file system, by messages that are longer than what a pipe takes at once. Where nobody may
/// mount one, nothing is tried.
#[test]
fn a_file_system_of_threads_is_read_as_natively() {
    let program = common::compile("fuse.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(["unable\n", "read 262144, wrong 0, error 0\nended\n"].contains(&native.as_str()), "{native}");
    for settings in [("RADDLE_PROCESSORS", "1"), ("RADDLE_PROCESSORS", "3"), ("RADDLE_MAIN", "1")] {
        assert_eq!(common::drop_in(&program, &[], &[settings]).well(), native, "{settings:?}");
    }
}

/// What other tests do together with their like, done alone: a time limit for sends only, a datagram that is to be all
/// that fits, the end of the other side's writing beside a full buffer, and a wait for a child that a handler ends.
#[test]
fn what_is_done_alone_is_answered_as_natively() {
    let program = common::compile("io_alone.c", &[]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// Signals of ours that find a thread in a call neither end it nor have its time begin anew.
#[test]
fn time_limits_are_kept_beside_what_is_no_concern_of_the_call() {
    let program = common::compile("time_limits.c", &["-lrt"]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// A signal ends a look that waits for nothing, too: it tells nothing about the socket.
#[test]
fn no_connection_is_taken_for_made_for_a_signals_sake() {
    let program = common::compile("connect_signals.c", &[]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

#[test]
fn a_time_limit_is_kept_that_another_process_has_set_on_a_socket() {
    let program = common::compile("limits_from_outside.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(native.matches(": -1, ").count() == 6 && native.ends_with("status 0\n"), "{native}");
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// Its kernel thread would stand while a table grows that others use.
#[test]
fn the_table_of_descriptors_has_grown_before_a_thread_waits_for_one() {
    let program = common::compile("descriptor_table.c", &[]);
    for processors in ["1", "3"] {
        let out = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well();
        let sizes: Vec<u32> = out.split_whitespace().map(|size| size.parse().unwrap()).collect();
        assert_eq!(sizes.len(), 4, "{out}");
        // What is open before there are threads needs no more than the smallest table.
        assert!(sizes[0] < 960 && sizes[1..].iter().all(|size| *size > 960), "{out}");
    }
}

/// A thread for each of thousands of connections, on a handful of kernel threads.
#[test]
fn an_echo_server_with_a_thread_for_each_connection() {
    let program = common::compile("io_echo.c", &[]);
    for (connections, rounds) in [(200, 20), (9000, 3)] {
        let arguments = [connections.to_string(), rounds.to_string()];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let out = common::drop_in(&program, &arguments, &[]).well();
        if out.starts_with("limit") {
            println!("skipped: {connections} connections need more descriptors than this machine's hard {out}");
            continue;
        }
        let numbers: Vec<i64> = out.split_whitespace().map(|n| n.parse().unwrap()).collect();
        assert_eq!(numbers[0], connections * rounds);
        assert!(numbers[1] < 200, "{} kernel threads for {connections} connections", numbers[1]);
    }
}

#[test]
fn a_connect_that_waits_goes_on_after_signals_that_are_no_concern_of_its() {
    let program = common::compile("connect_waits.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(native.lines().count() == 9 && native.contains("ends: Interrupted system call"), "{native}");
    for processors in ["1", "2"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

#[test]
fn what_blocks_in_the_kernel_does_not_stop_the_others() {
    let program = common::compile("io_kernel.c", &["-Wno-unused-result"]);
    let native = common::native(&program, &[FILES]).well();
    for processors in ["1", "2"] {
        assert_eq!(common::drop_in(&program, &[FILES], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

#[test]
fn shared_descriptors_wake_those_they_should() {
    let program = common::compile("io_shared.c", &[]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// One of the counters that `RADDLE_STATS=json` prints at the end.
fn counted(ended: &common::Ended, name: &str) -> u64 {
    let (_, count) = ended.err.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{ended:?}"));
    count.split([',', '}']).next().unwrap().parse().unwrap()
}

/// Sends of threads that are ready together reach the kernel in one call; each answers, signals, blocks and ends as it
/// would alone.
#[test]
fn sends_that_are_made_together_are_as_if_made_alone() {
    let program = common::compile("io_sends.c", &[]);
    for what in ["traffic", "gone", "full", "disturbed", "cancelled", "closed", "forks", "refused"] {
        let native = common::native(&program, &[what]).well();
        for processors in ["1", "3"] {
            let ended =
                common::drop_in(&program, &[what], &[("RADDLE_PROCESSORS", processors), ("RADDLE_STATS", "json")]);
            let (sends, calls) = (counted(&ended, "sends_together"), counted(&ended, "send_calls"));
            println!("{what}, {processors} processors: {sends} in {calls}");
            assert!(sends >= 2 * calls, "{what}: {sends} sends in {calls} calls");
            if what == "refused" {
                assert_eq!(sends, 0);
            }
            assert_eq!(ended.well(), native, "{what}, {processors} processors");
        }
    }
    // Nothing forces threads to send together, so it is tried until some have.
    common::until("a send that is made together with another", || {
        let environment = [("RADDLE_PROCESSORS", "1"), ("RADDLE_STATS", "json")];
        let ended = common::drop_in(&program, &["traffic"], &environment);
        (counted(&ended, "sends_together") > 0).then_some(())
    });
    let alone = [("RADDLE_DIRECT_SENDS", "1"), ("RADDLE_PROCESSORS", "1"), ("RADDLE_STATS", "json")];
    let ended = common::drop_in(&program, &["traffic"], &alone);
    assert_eq!(counted(&ended, "sends_together"), 0);
    ended.well();
}

/// Event loops keep a kernel thread each for a while; what others owe them and they owe others comes all the same.
#[test]
fn event_loops_go_apart_and_come_back() {
    let program = common::compile("io_apart.c", &[]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        let ended = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors), ("RADDLE_STATS", "json")]);
        let went = counted(&ended, "went_apart");
        // Two at least of those who are asked, the one of the limits, the one that gets signals, and most of those who
        // are cancelled.
        assert!(went >= 10, "{went} went apart");
        assert_eq!(ended.well(), native, "{processors} processors");
    }
    // Another policy does the same, unless it tells priorities apart: it keeps all its threads then.
    for (policy, apart) in [("fifo", true), ("priority(3, fifo)", false)] {
        let ended = common::drop_in(&program, &[], &[("RADDLE_POLICY", policy), ("RADDLE_STATS", "json")]);
        assert_eq!(counted(&ended, "went_apart") > 0, apart, "{policy}: {ended:?}");
        assert_eq!(ended.well(), native, "{policy}");
    }
}

/// Gathered on the processors from the start, and gathered and sent away again all the time: what they owe each other
/// comes all the same.
#[test]
fn event_loops_are_gathered_and_go_apart_again() {
    let program = common::compile("io_apart.c", &[]);
    let native = common::native(&program, &[]).well();
    let run = |how: &str, processors: &str| {
        let settings = [("RADDLE_EVENT_LOOPS", how), ("RADDLE_PROCESSORS", processors), ("RADDLE_STATS", "json")];
        let ended = common::drop_in(&program, &[], &settings);
        let counts = (counted(&ended, "went_apart"), counted(&ended, "gathered"));
        assert_eq!(ended.well(), native, "{how}, {processors} processors");
        counts
    };
    for processors in ["1", "3"] {
        assert_eq!(run("gathered", processors).0, 0, "nobody goes apart");
        let (went, gathered) = run("turns", processors);
        assert!(went > 0 && gathered > 1, "{went} went apart, gathered {gathered} times");
    }
    assert_eq!(run("apart", "2").1, 0, "never gathered");
    let ended = common::drop_in(&program, &[], &[("RADDLE_EVENT_LOOPS", "together")]);
    assert!(ended.err.contains("RADDLE_EVENT_LOOPS=together: give `apart` or `gathered`"), "{ended:?}");
    assert_eq!(ended.well(), native, "on kernel threads");
}

/// Waits for locks alone, one after the other, bring a thread back, too.
#[test]
fn who_is_no_event_loop_any_more_comes_back() {
    let program = common::compile("apart_no_more.c", &[]);
    let ended = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", "1"), ("RADDLE_STATS", "json")]);
    assert!(ended.err.contains("\"went_apart\":1,"), "{ended:?}");
    assert_eq!(ended.well(), "1 1\n");
}

/// On one processor, so that nobody has answered before he waits.
#[test]
fn who_waits_in_other_ways_between_is_no_event_loop() {
    let program = common::compile("apart_mixed.c", &[]);
    let ended = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", "1"), ("RADDLE_STATS", "json")]);
    assert_eq!((counted(&ended, "went_apart"), ended.well()), (0, "800\n".into()));
}

/// A dead-lock is one also where a thread that is apart takes part in it, and waits in the kernel. (While another loop
/// waits for events it is none.)
#[test]
fn a_dead_lock_with_an_event_loop_is_reported() {
    let program = common::compile("deadlock_apart.c", &[]);
    let ended = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", "2")]);
    assert!(!ended.err.contains("dead-lock"), "{ended:?}");
    ended.well();
    reports_a_dead_lock(&program, "alone", "is apart and waits for a word");
    // Waits that have ended are none.
    reports_a_dead_lock(&program, "timed", "waits for a pthread mutex");
}

/// Until a line of the report says so.
#[track_caller]
fn reports_a_dead_lock(program: &std::path::Path, argument: &str, last: &str) {
    let mut child = Command::new(program)
        .arg(argument)
        .env("LD_PRELOAD", common::library())
        .env("RADDLE_PROCESSORS", "2")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, told) = std::sync::mpsc::channel();
    let err = BufReader::new(child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || err.lines().map_while(Result::ok).all(|line| lines.send(line).is_ok()));
    let mut seen = Vec::new();
    while !seen.iter().any(|line: &String| line.contains(last)) {
        match told.recv_timeout(common::PATIENCE) {
            Ok(line) => seen.push(line),
            Err(why) => {
                let _ = child.kill();
                panic!("no report ({why}): {seen:?}");
            }
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(told);
    reader.join().unwrap();
    assert!(seen.iter().any(|line| line.contains("raddle: dead-lock: 2 threads wait")), "{seen:?}");
}

#[test]
fn who_waits_for_a_descriptor_waits_on_when_it_is_closed() {
    for source in ["io_close.c", "io_close_inside.c", "io_ends.c"] {
        let program = common::compile(source, &["-lrt", "-lutil"]);
        assert_eq!(common::native(&program, &[]).well(), "ok\n");
        for settings in [("RADDLE_PROCESSORS", "1"), ("RADDLE_PROCESSORS", "3"), ("RADDLE_MAIN", "1")] {
            assert_eq!(common::drop_in(&program, &[], &[settings]).well(), "ok\n", "{source}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_in_the_middle_is_told_as_natively() {
    let program = common::compile("io_broken.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(
        native.lines().count() == 8 && native.matches("a part 1, signals 0, then -1 EPIPE").count() == 7,
        "{native}"
    );
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

#[test]
fn urgent_data_ends_waits_for_it() {
    let program = common::compile("io_urgent.c", &[]);
    let native = common::native(&program, &[]).well();
    assert_eq!(native.matches(": 1, urgent 1, other 0").count(), 6, "{native}");
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// A copy to its own number, and one that is refused; in handlers, too, where nobody can be handed over.
#[test]
fn who_waits_for_a_descriptor_waits_on_when_no_copy_takes_its_place() {
    let program = common::compile("io_dup_same.c", &[]);
    let native = common::native(&program, &[]).well();
    assert_eq!(native.matches("read 10 of 10").count(), 14, "{native}");
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// Numbers that live again, other names, flags that others set, and readings that end short. (One of the waits is found
/// by the audit only, after a second or two.)
#[test]
fn what_is_remembered_of_descriptors_does_not_outlive_its_truth() {
    let program = common::compile("io_reuse.c", &[]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// The runtime opens files to see what its kernel threads do; never with a number that the program could have. (The C
/// library's allocator opens one for each arena until it has them all: here it has one.)
#[test]
fn the_lowest_free_number_stays_free() {
    let program = common::compile("io_numbers.c", &[]);
    for processors in ["1", "3"] {
        let environment = [("RADDLE_PROCESSORS", processors), ("MALLOC_ARENA_MAX", "1")];
        assert_eq!(common::drop_in(&program, &["2000"], &environment).well(), "0 wrong\n");
    }
}

#[test]
fn cancellation_and_signals_reach_threads_that_wait() {
    let program = common::compile("io_interrupt.c", &[]);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// `socketserver.ThreadingTCPServer` of Debian's python3.
#[test]
fn pythons_threading_server() {
    if common::lacks(&[("/usr/bin/python3", "python3")]) {
        return;
    }
    let python = std::path::Path::new("/usr/bin/python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/py/io_threading_server.py");
    for processors in ["1", "2"] {
        assert_eq!(common::drop_in(python, &[script], &[("RADDLE_PROCESSORS", processors)]).well(), "1000\n");
    }
}
