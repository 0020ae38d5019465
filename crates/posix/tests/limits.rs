//! What a process may have, and what it asks for: address space, memory, `/proc`, core dumps, executable stacks.

mod common;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The numbers that `limits.c` prints under a limit.
#[track_caller]
fn threads_under(resource: u32, megabytes: u64, program: &Path, stack: Option<u32>, library: bool) -> Vec<u64> {
    let mut command = Command::new(program);
    command.arg("20000");
    if let Some(stack) = stack {
        command.env("STACK", stack.to_string());
    }
    if library {
        command.env("LD_PRELOAD", common::library_with_reserve());
    }
    let limit = libc::rlimit { rlim_cur: megabytes << 20, rlim_max: megabytes << 20 };
    // SAFETY: `setrlimit` is async-signal-safe, and touches the child only.
    unsafe {
        command.pre_exec(move || match libc::setrlimit(resource, &limit) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let ended = common::run(command);
    let numbers = ended.out.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("{ended:?}"))).collect();
    assert!(ended.status.success(), "{ended:?}");
    numbers
}

/// What the kernel tells of kernel threads is found from a folder that was opened before.
#[test]
fn a_program_that_has_left_proc_by_chroot_keeps_its_processors() {
    let program = common::compile("root_changed.c", &[]);
    let native = common::native(&program, &[]).well();
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", "1")]).well(), native);
    std::fs::remove_file(program).unwrap();
}

/// Stacks have the default size, 8 MB: natively as many as fit.
#[test]
fn about_as_many_threads_as_natively_fit_into_a_limit() {
    let program = common::compile("limits.c", &[]);
    for resource in [libc::RLIMIT_AS, libc::RLIMIT_DATA] {
        for megabytes in [500, 2000, 8000] {
            let native = threads_under(resource, megabytes, &program, None, false);
            let ours = threads_under(resource, megabytes, &program, None, true);
            let enough = |(ours, native): (&u64, &u64)| ours * 3 >= native * 2;
            assert!(ours.iter().zip(&native).all(enough), "{megabytes} MB: {ours:?}, natively {native:?}");
            assert_eq!(ours.len(), 2);
        }
    }
}

/// What is only reserved is not locked, and so not taken: it is more than any machine has.
#[test]
fn a_program_may_lock_all_of_its_memory() {
    let program = common::compile("memory_locked.c", &[]);
    for arguments in [&["early"][..], &["late"], &["late", "1"]] {
        assert_eq!(common::native(&program, arguments).well(), "ok\n");
        for environment in [&[][..], &[("RADDLE_TEST_MPROTECT_GUARDS", "1")], &[("RADDLE_MAIN", "1")]] {
            assert_eq!(common::drop_in(&program, arguments, environment).well(), "ok\n");
        }
    }
}

/// What the runtime has reserved goes before the limit counts: from the first thread, from another one, and beside one
/// that computes.
#[test]
fn a_late_limit_leaves_room_as_natively() {
    let program = common::compile("limits_late.c", &[]);
    for how in ["asm", "apt", "aom", "arb", "dst", "dpb", "dom", "drm"] {
        for megabytes in ["4000", "8000"] {
            let native = common::native(&program, &[megabytes, how]).well();
            let ours = common::with_reserve(&program, &[megabytes, how], &[]).well();
            let [(ours, end), (native, _)] = [&ours, &native].map(|out| out.split_once('\n').unwrap_or_default());
            if how.starts_with('a') {
                assert_eq!(end, "ok\n");
                let [ours, native] = [ours, native].map(|made| made.parse::<u32>().unwrap());
                assert!(ours * 3 >= native * 2, "{how} {megabytes} MB: {ours}, natively {native}");
            } else {
                assert_eq!(ours, "ok");
            }
        }
    }
}

/// Natively many more: what the runtime itself needs is more than such a limit. It must not end the program.
#[test]
fn where_no_more_threads_fit_into_little_memory_there_is_some_for_the_program() {
    let program = common::compile("limits.c", &[]);
    for (resource, megabytes) in [(libc::RLIMIT_DATA, 16), (libc::RLIMIT_DATA, 20), (libc::RLIMIT_DATA, 40)] {
        let made = threads_under(resource, megabytes, &program, Some(64 << 10), true);
        assert!(made.len() == 2 && made[0] > 0 && made[1] > 0, "{megabytes} MB: {made:?}");
    }
}

/// Where address space is limited, fewer numbers have a place in the runtime's table.
#[test]
fn a_large_number_is_waited_for_where_memory_is_limited() {
    let program = common::compile("far_number.c", &[]);
    for megabytes in [30, 4000] {
        let limited = |library: bool| {
            let mut command = Command::new(&program);
            if library {
                command.env("LD_PRELOAD", common::library_with_reserve());
            }
            let limit = libc::rlimit { rlim_cur: megabytes << 20, rlim_max: megabytes << 20 };
            // SAFETY: `setrlimit` is async-signal-safe, and touches the child only. Where the number of descriptors
            // may not be raised, the program says so.
            unsafe {
                command.pre_exec(move || {
                    let numbers = libc::rlimit { rlim_cur: 20_000, rlim_max: 20_000 };
                    libc::setrlimit(libc::RLIMIT_NOFILE, &numbers);
                    match libc::setrlimit(libc::RLIMIT_DATA, &limit) {
                        0 => Ok(()),
                        _ => Err(std::io::Error::last_os_error()),
                    }
                })
            };
            common::run(command).well()
        };
        assert_eq!(limited(true), limited(false), "{megabytes} MB");
    }
}

#[test]
fn a_core_dump_leaves_out_what_is_reserved_only() {
    let program = common::compile("limits.c", &[]);
    for environment in [&[][..], &[("RADDLE_TEST_MPROTECT_GUARDS", "1")]] {
        let out = common::drop_in(&program, &["300", "maps"], environment).well();
        assert_eq!(out, "little\n300\nlittle\n300\n");
    }
}

#[test]
fn without_proc_threads_are_lightweight_all_the_same() {
    let program = common::compile("limits.c", &[]);
    let shim = common::compile("no_proc_mod.c", &["-shared", "-fPIC", "-ldl"]);
    let mut command = Command::new(&program);
    command.arg("1000").env("RADDLE_STATS", "json");
    command.env("LD_PRELOAD", format!("{}:{}", common::library().display(), shim.display()));
    let ended = common::run(command);
    assert!(ended.err.contains("\"threads\":2000,"), "{ended:?}");
    assert_eq!(ended.well(), "1000\n1000\n");
}

#[test]
fn code_on_the_stack_runs_where_it_was_asked_for() {
    let module = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/trampoline_mod.c");
    let program = common::compile("trampoline.c", &["-ldl", "-z", "execstack", module]);
    let (native, ours) = (common::native(&program, &[]), common::drop_in(&program, &[], &[]));
    assert_eq!(native.well(), "1234\n4321\n1234\n");
    assert_eq!(ours.well(), "1234\n4321\n1234\n");
    // The C library from 2.41 on refuses such a library: the same line then.
    let library = common::compile("trampoline_mod.c", &["-shared", "-fPIC", "-z", "execstack"]);
    let program = common::compile("trampoline.c", &["-ldl"]);
    let arguments = [library.to_str().unwrap()];
    let native = common::native(&program, &arguments).well();
    for environment in [&[][..], &[("RADDLE_TEST_MPROTECT_GUARDS", "1")]] {
        assert_eq!(common::drop_in(&program, &arguments, environment).well(), native);
    }
}

/// By a library behind ours. (One in front of it has converted what comes to us.)
#[test]
fn who_is_told_another_time_waits_by_that() {
    let program = common::compile("clock.c", &[]);
    let shim = common::compile("clock_mod.c", &["-shared", "-fPIC", "-ldl"]);
    let native = common::native(&program, &[]).well();
    assert!(native.lines().count() == 6 && !native.contains("early"), "{native}");
    let (ours, shim) = (common::library().display().to_string(), shim.display().to_string());
    for preload in [format!("{ours}:{shim}"), ours] {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", &preload);
        assert_eq!(common::run(command).well(), native, "{preload}");
    }
}

/// A thread that could not be created is none that the process waits for.
#[test]
fn the_process_ends_although_threads_could_not_be_created() {
    let program = common::compile("not_created.c", &[]);
    let native = common::native(&program, &[]).well();
    assert_eq!(native, "EAGAIN\nEAGAIN\nEAGAIN\nthe last thread has ended\n");
    for processors in ["1", "3"] {
        assert_eq!(common::with_reserve(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}
