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

/// Nothing is lost between threads of both kinds, on one processor and on several. (Natively the writer among readers
/// that overlap for ever would starve, so the program runs as a drop-in only.)
#[test]
fn no_wake_up_is_lost() {
    let program = common::compile("sync_traffic.c", &[]);
    for processors in ["1", "2", "3"] {
        let ours = common::drop_in(&program, &["all"], &[("RADDLE_PROCESSORS", processors)]);
        assert_eq!(ours.well(), TRAFFIC, "on {processors} processors");
    }
}

/// Without lightweight threads the same objects are the C library's. (The writer among readers that overlap for ever
/// may starve there.)
#[test]
fn no_wake_up_is_lost_where_threads_are_kernel_threads() {
    let program = common::compile("sync_traffic.c", &[]);
    for what in ["mutexes", "turns", "signals", "lifetimes", "semaphores", "rwlocks", "barriers"] {
        common::drop_in(&program, &[what], &[("RADDLE_KERNEL_THREADS", "1")]).well();
    }
}

/// Whoever waits for a lock that one thread takes again and again, giving way only while it holds it, has it soon: by
/// the count of turns, not by time. (Natively and without lightweight threads: `kernel_threads.rs`.)
#[test]
fn one_that_comes_too_late_again_and_again_has_the_lock() {
    let program = common::compile("too_late.c", &[]);
    for processors in ["1", "2"] {
        let settings = [("RADDLE_PROCESSORS", processors), ("RADDLE_QUANTUM", "50")];
        assert_eq!(common::drop_in(&program, &[], &settings).well(), "all had it\n", "on {processors} processors");
    }
}

/// Threads that give way to each other leave the core to the kernel as well while the first thread, a kernel thread,
/// may want it, and only then: by the number of system calls, not by time.
#[test]
fn a_yield_goes_to_the_kernel_while_the_first_thread_is_awake() {
    let program = common::compile("yields.c", &[]);
    let one = [("RADDLE_PROCESSORS", "1")];
    assert_eq!(common::drop_in(&program, &["awake"], &one).well(), "the kernel was asked\n");
    // A kernel thread that is off its core for long is alone when it comes back, and asks the kernel then.
    common::until("a run in which they give way to each other", || {
        let told = common::drop_in(&program, &["asleep"], &one).well();
        (told == "they gave way to each other\n").then_some(())
    });
}

/// Kernel threads that wait for the same lock in two roles sleep on one word, in the order in which they came.
#[test]
fn a_writer_behind_a_reader_is_woken_where_both_are_kernel_threads() {
    let program = common::compile("rwlock_roles.c", &[]);
    assert_eq!(common::drop_in(&program, &[], &[]).well(), common::native(&program, &[]).well());
}

#[test]
fn a_hundred_thousand_threads_wait_on_one_condition_variable() {
    let program = common::compile("sync_traffic.c", &[]);
    assert_eq!(common::drop_in(&program, &["gate", "100000"], &[]).well(), "gate: 100000\n");
}

#[test]
fn the_cpp20_librarys_threads_and_locks_work_unchanged() {
    if common::lacks(&[("c++", "g++")]) {
        return;
    }
    let program = common::compile("cpp20.cc", &["-std=c++20"]);
    let (native, ours) = (common::native(&program, &[]), common::drop_in(&program, &[], &[]));
    assert_eq!(native.out, ours.out);
    let kernel_threads: usize = ours.err.trim().parse().unwrap();
    assert!(kernel_threads < 100, "{kernel_threads} kernel threads for a thousand: they were not taken over");
}

/// The acid test: std's threads, locks, channels, parking, scopes and sleeps, in a program that knows nothing of all
/// this.
#[test]
fn a_rust_std_program_runs_unchanged() {
    let program = common::compile_rust("std_threads.rs");
    let (native, ours) = (common::native(&program, &[]), common::drop_in(&program, &[], &[]));
    assert!(native.status.success(), "{native:?}");
    assert!(ours.status.success(), "{ours:?}");
    assert_eq!(native.out, ours.out);
    let kernel_threads: usize = ours.err.trim().parse().unwrap_or_else(|_| panic!("{}", ours.err));
    assert!(kernel_threads < 100, "{kernel_threads} kernel threads for two thousand: they were not taken over");
}

/// As many as `RADDLE_PARKED` says. (Natively such a program ends at 16,368 where a process may have 32,768 ids or
/// 65,530 mappings, as by default.)
#[test]
fn parked_threads_of_a_rust_std_program_take_ten_kilobytes_each() {
    let program = common::compile_rust("std_parked.rs");
    let many = std::env::var("RADDLE_PARKED").unwrap_or_else(|_| "20000".into());
    let ours = common::drop_in(&program, &[&many], &[("RADDLE_PROCESSORS", "2")]).well();
    println!("{many} parked threads: kernel threads, bytes of memory and of page tables for each: {ours}");
    let figures: Vec<usize> = ours.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
    // Two pages of stack and 1.3 KB of other memory in the library as it is shipped, and in some threads a third page:
    // 9.9 KB. Frames of a build with debug assertions are larger, and reach a third page in more than half of the
    // threads (their tops differ by colour): 12.0 KB here, of at most three pages and as much other memory.
    let bytes = if cfg!(debug_assertions) { 14 << 10 } else { 10 << 10 };
    // Two processors; the monitor and whoever looks and stands by for it; spares: on a busy machine more, but none for
    // each thread.
    assert!(figures[0] < 200 && figures[1] <= bytes, "{figures:?}");
}

/// A cancelled wait takes its mutex again, leaves what it waited for whole, and ends the thread.
#[test]
fn waits_are_cancellation_points() {
    let program = common::compile("sync_cancel.c", &[]);
    let native = common::native(&program, &[]).well();
    for environment in [&[][..], &[("RADDLE_KERNEL_THREADS", "1")]] {
        assert_eq!(common::drop_in(&program, &[], environment).well(), native, "{environment:?}");
    }
}

/// The program prints the same as natively, on one processor and on several, and where threads are kernel threads.
#[track_caller]
fn same_as_native(source: &str) -> String {
    let program = common::compile(source, &[]);
    let native = common::native(&program, &[]).well();
    for environment in [("RADDLE_PROCESSORS", "1"), ("RADDLE_PROCESSORS", "3"), ("RADDLE_KERNEL_THREADS", "1")] {
        assert_eq!(common::drop_in(&program, &[], &[environment]).well(), native, "{environment:?}");
    }
    native
}

#[test]
fn a_handler_ends_a_wait_for_a_semaphore() {
    assert_eq!(same_as_native("sem_interrupted.c").matches(": -1 EINTR").count(), 6);
}

#[test]
fn a_futex_wakes_whom_the_bits_mean() {
    assert_eq!(same_as_native("futex_bits.c"), "woken 100 times\n");
}

#[test]
fn a_wait_on_a_word_is_over_when_its_time_is_by_the_clock_that_was_named() {
    let out = same_as_native("futex_times.c");
    assert!(out.matches("ETIMEDOUT, as long as it should 1").count() == 6 && out.lines().count() == 10, "{out}");
}

#[test]
fn a_reader_that_gives_way_to_a_writer_is_not_told_that_a_time_is_over() {
    assert_eq!(same_as_native("rwlock_gives_way.c"), "wrong: 0, wrote: 1\n");
}

#[test]
fn nobody_touches_a_barrier_that_was_destroyed() {
    assert_eq!(same_as_native("barrier_ends.c"), "touched: 0\n");
}

#[test]
fn cancellation_is_on_or_off_however_often_that_was_said() {
    assert_eq!(same_as_native("cancel_twice.c").matches("cancelled 1").count(), 6);
}

/// Who waits for a robust mutex, or comes later, learns that its holder has ended.
#[test]
fn robust_mutexes_of_ended_threads_are_reported() {
    let program = common::compile("robust.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(native.starts_with("shared 0, end 0: 1 ") && native.lines().count() == 6, "{native}");
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// The C library knows holders by numbers, which two processes must not both give out; the kernel knows those of robust
/// mutexes.
#[test]
fn locks_that_processes_share_have_one_holder_whose_death_is_told() {
    let program = common::compile("shared_locks.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(
        native.starts_with("done 720, together 0, failed 0\n") && native.matches("told EOWNERDEAD").count() == 4,
        "{native}"
    );
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

/// The kernel knows the child of a fork by its number, whichever thread forked.
#[test]
fn the_child_of_a_fork_is_known_as_a_holder() {
    let program = common::compile("fork_holders.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(
        native.matches("lock 0, by its number 1").count() == 14 && native.matches("then 130").count() == 8,
        "{native}"
    );
    for settings in [("RADDLE_PROCESSORS", "1"), ("RADDLE_PROCESSORS", "3"), ("RADDLE_MAIN", "1")] {
        assert_eq!(common::drop_in(&program, &[], &[settings]).well(), native, "{settings:?}");
    }
}

#[test]
fn who_leaves_a_queue_or_an_initialiser_passes_on() {
    let program = common::compile("sync_leaves.c", &[]);
    let native = common::native(&program, &[]);
    assert!(native.out.contains("Owner died") && native.out.contains("once: done, run 3 times"), "{native:?}");
    for setting in
        [("RADDLE_PROCESSORS", "1"), ("RADDLE_PROCESSORS", "2"), ("RADDLE_MAIN", "1"), ("RADDLE_KERNEL_THREADS", "1")]
    {
        let ours = common::drop_in(&program, &[], &[setting]);
        assert_eq!(ours.out, native.out, "{ours:?}");
    }
    let native = common::native(&program, &["ceilings"]).well();
    assert!(
        native.lines().count() == 3 && native.contains("counted 4000, held: Invalid argument, still 6"),
        "{native}"
    );
    assert_eq!(common::drop_in(&program, &["ceilings"], &[]).well(), native);
}

#[test]
fn mutexes_of_every_kind_and_protocol_answer_as_natively() {
    let program = common::compile("protocols.c", &[]);
    for who in ["main", "thread"] {
        let native = common::native(&program, &[who]).well();
        assert!(native.lines().count() == 24 && native.contains("protect errorcheck: init 0 lock 22"), "{native}");
        for processors in ["1", "2"] {
            assert_eq!(common::drop_in(&program, &[who], &[("RADDLE_PROCESSORS", processors)]).well(), native, "{who}");
        }
    }
}

/// Runs `circle.c` until its standard error has this line, then ends it; all lines so far.
fn circle_until(argument: &str, line: &str, environment: &[(&str, &str)], then: impl FnOnce(u32)) -> Vec<String> {
    use std::io::{BufRead, BufReader};
    let program = common::compile("circle.c", &[]);
    let mut child = std::process::Command::new(&program)
        .arg(argument)
        .env("LD_PRELOAD", common::library())
        .envs(environment.iter().copied())
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (lines, told) = std::sync::mpsc::channel();
    let err = BufReader::new(child.stderr.take().unwrap());
    let reader = std::thread::spawn(move || err.lines().map_while(Result::ok).all(|line| lines.send(line).is_ok()));
    let (mut seen, mut then) = (Vec::new(), Some(then));
    loop {
        match told.recv_timeout(common::PATIENCE) {
            Ok(next) => seen.push(next),
            Err(why) => {
                let _ = child.kill();
                panic!("no `{line}` ({why}): {seen:?}");
            }
        }
        if seen.last().is_some_and(|last: &String| last.contains("and so on in a circle"))
            && let Some(then) = then.take()
        {
            then(child.id());
        }
        if seen.iter().any(|seen| seen.contains(line)) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    drop(told);
    reader.join().unwrap();
    std::fs::remove_file(program).unwrap();
    seen
}

/// Three of the program's threads wait for each other, and others go on, or wait in the kernel for what comes from
/// outside.
#[test]
fn threads_that_wait_for_each_other_in_a_circle_are_reported_while_others_go_on() {
    for argument in ["on", "reads"] {
        for processors in ["1", "2"] {
            let environment = [("RADDLE_PROCESSORS", processors)];
            let seen = circle_until(argument, "and so on in a circle", &environment, |_| ());
            assert!(seen[0].starts_with("raddle: dead-lock among 3 threads"), "{seen:?}");
            for me in 0..3 {
                let (waiter, holder) =
                    (format!("\"philosopher {me}\" waits"), format!("\"philosopher {}\"", (me + 1) % 3));
                let drawn = |line: &String| {
                    line.contains(&waiter)
                        && line.contains("circle.c")
                        && line.contains("held by")
                        && line.ends_with(&holder)
                };
                assert_eq!(seen.iter().filter(|line| drawn(line)).count(), 1, "{seen:?}");
            }
        }
    }
}

/// A circle in which one waits for a time only is none.
#[test]
fn a_circle_that_a_time_out_can_end_is_not_called_a_dead_lock() {
    let program = common::compile("circle.c", &[]);
    let ended = common::drop_in(&program, &["timed"], &[]);
    assert!(!ended.err.contains("dead-lock"), "{ended:?}");
    ended.well();
}

/// A dump by signal names what each waits for, draws the circle, and shows the program's functions.
#[test]
fn a_signal_has_all_threads_dumped() {
    let quit = libc::SIGQUIT.to_string();
    let send = |pid: u32| {
        // SAFETY: a child of this process, which is waited for later.
        assert_eq!(unsafe { libc::kill(pid as i32, libc::SIGQUIT) }, 0);
    };
    let seen = circle_until("on", "these wait for each other", &[("RADDLE_DUMP_ON", &quit)], send);
    let waits = |line: &&String| line.contains("\"philosopher") && line.contains("waits for a pthread mutex (0x");
    assert_eq!(seen.iter().filter(waits).count(), 3, "{seen:?}");
    assert!(seen.iter().any(|line| line.contains(": in_turn")), "{seen:?}");
    let is_ours = |line: &String| [": raddle", "/rustc/", "crates/raddle/src"].iter().any(|part| line.contains(part));
    assert!(!seen.iter().any(is_ours), "{seen:?}");
}

/// A dump says who holds a pthread mutex, and which thread runs. The signal has its name in the environment, too.
#[test]
fn a_dump_names_who_holds_a_mutex() {
    let program = common::compile("dump_holders.c", &[]);
    let file = program.with_extension("dump");
    let mut command = std::process::Command::new(&program);
    command.env("LD_PRELOAD", common::library()).env("RADDLE_DUMP_ON", "WINCH");
    command.stdin(std::process::Stdio::piped()).stderr(std::fs::File::create(&file).unwrap());
    let mut child = command.spawn().unwrap();
    let wanted = ["), held by thread 0 \"holder\"", "), held by the kernel thread 0x", "\"computer\" is running"];
    common::until("a dump that names the holders", || {
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"x").unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        wanted.iter().all(|part| text.contains(part)).then_some(())
    });
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    for path in [program, file] {
        std::fs::remove_file(path).unwrap();
    }
}

/// What the environment says and nobody understands is told, and so is a name that is nearly one of ours.
#[test]
fn a_setting_that_is_not_understood_is_told() {
    let program = common::compile("create_join.c", &[]);
    let told = |name: &str, value: &str| common::drop_in(&program, &[], &[(name, value)]).err;
    let lines = [
        ("RADDLE_DUMP_ON", "KILLALL", "not HUP, QUIT, USR1, USR2, WINCH or a signal's number"),
        ("RADDLE_STATS", "y", "RADDLE_STATS is `y`, not text or json: text is taken"),
        ("RADDLE_MAIN", "yes", "RADDLE_MAIN is `yes`, not 1 or 0: 0 is taken"),
        ("RADDLE_ALL_PROCESSORS", "on", "RADDLE_ALL_PROCESSORS is `on`, not 1 or 0"),
        ("RADDLE_POLCY", "fifo", "RADDLE_POLCY is no setting; did you mean RADDLE_POLICY?"),
    ];
    for (name, value, line) in lines {
        assert!(told(name, value).contains(line), "{name}={value}: {}", told(name, value));
    }
    for (name, value) in [("RADDLE_STATS", ""), ("RADDLE_MAIN", "0"), ("RADDLE_OF_SOMEBODY_ELSE", "1")] {
        assert!(!told(name, value).contains("RADDLE_"), "{name}={value}: {}", told(name, value));
    }
    std::fs::remove_file(program).unwrap();
}

/// The signal for a dump, of which the program knows nothing, ends no wait of the first thread's and prolongs none,
/// whether that is a kernel thread or a lightweight one.
#[test]
fn a_signal_for_a_dump_ends_no_wait() {
    let program = common::compile("dump_waits.c", &[]);
    let winch = libc::SIGWINCH.to_string();
    for main in ["0", "1"] {
        let ended = common::drop_in(&program, &[], &[("RADDLE_DUMP_ON", &winch), ("RADDLE_MAIN", main)]);
        let waits: Vec<&str> = ended.out.lines().filter(|line| line.ends_with(": as it should")).collect();
        assert!(waits.len() == 24 && ended.err.contains("waits for"), "main {main}: {ended:?}");
    }
    std::fs::remove_file(program).unwrap();
}
