//! The C library's own locks: the loader's, which it holds while constructors and destructors of libraries run, its
//! streams', `fork`'s. Threads are made and waited for in there, and a thread that holds one is switched away.

mod common;

use std::process::Command;

/// The program with the library it loads, in one of its ways.
#[track_caller]
fn same_as_native(way: &str) {
    let library = common::compile("loader_mod.c", &["-shared", "-fPIC"]);
    let program = common::compile("loader.c", &["-ldl"]);
    let arguments = [library.to_str().unwrap(), way];
    let native = sorted(&common::native(&program, &arguments).well());
    for environment in [&[][..], &[("RADDLE_PROCESSORS", "1")], &[("RADDLE_MAIN", "1")]] {
        let ours = common::drop_in(&program, &arguments, environment);
        assert_eq!(sorted(&ours.out), native, "{way}, {environment:?}: {ours:?}");
        assert!(ours.status.success(), "{ours:?}");
        assert_eq!(ours.err, "");
    }
}

/// Threads print in any order.
fn sorted(out: &str) -> Vec<String> {
    let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
    lines.sort();
    assert!(!lines.is_empty());
    lines
}

#[test]
fn the_first_thread_of_all_may_be_made_by_a_constructor() {
    same_as_native("first");
}

#[test]
fn a_constructor_in_a_thread_may_wait_for_threads() {
    same_as_native("thread");
}

/// A destructor of a thread-local variable is registered under the loader's lock.
#[test]
fn threads_that_come_to_the_lock_go_on_when_the_constructor_has_what_it_waits_for() {
    same_as_native("registering");
}

#[test]
fn a_thread_that_holds_a_lock_of_the_c_library_may_be_switched_away() {
    same_as_native("locks");
}

/// Before `main`: a constructor of the program itself, of a library that it is linked with, of one that is preloaded
/// behind ours or in front of it.
#[test]
fn constructors_before_main_may_make_threads() {
    let library = common::compile("loader_mod.c", &["-shared", "-fPIC"]);
    // Each under a name of its own.
    let build = |name: &str, options: &[&str]| {
        let program = common::compile("loader.c", options);
        let renamed = program.with_extension(name);
        std::fs::rename(program, &renamed).unwrap();
        renamed
    };
    let linked = build("linked", &["-ldl", "-Wl,--no-as-needed", library.to_str().unwrap()]);
    let own = build("own", &["-ldl", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/loader_mod.c")]);
    let plain = build("plain", &["-ldl"]);
    let ours = common::library();
    let (ours, library) = (ours.to_str().unwrap(), library.to_str().unwrap());
    let (behind, before) = (format!("{ours}:{library}"), format!("{library}:{ours}"));
    for (program, preload) in [(&linked, ours), (&own, ours), (&plain, &behind), (&plain, &before)] {
        let mut command = Command::new(program);
        command.args([library, "nothing"]).env("LD_PRELOAD", preload).env("RADDLE_STATS", "json");
        let ended = common::run(command);
        assert!(ended.err.contains("\"threads\":9"), "{preload}: {ended:?}");
        assert_eq!(ended.well(), "constructor: 28 8\n0 wrong\ndestructor\n", "{preload}");
    }
}

/// By `LD_PRELOAD`, by hand or as a child of a program whose children are taken over: the sanitizer comes first, as
/// natively. (What `raddle run` itself starts is looked at before: crates/cli/tests/run.rs.)
#[test]
fn a_program_of_a_sanitizer_into_which_the_library_comes_runs_as_it_is() {
    for (option, sanitizer) in [
        ("-fsanitize=address", "AddressSanitizer"),
        ("-fsanitize=thread", "ThreadSanitizer"),
        ("-fsanitize=leak", "LeakSanitizer"),
    ] {
        let program = common::compile("sanitized.c", &[option]);
        let shim = common::compile("no_proc_mod.c", &["-shared", "-fPIC", "-ldl"]);
        let run = |preload: &str, quiet: bool| {
            let mut command = Command::new(&program);
            command.args(["a word", ""]).env("ASAN_OPTIONS", "detect_leaks=0").env("LSAN_OPTIONS", "detect_leaks=0");
            command.env("LD_PRELOAD", preload);
            if quiet {
                command.env("RADDLE_QUIET", "1");
            }
            common::run(command)
        };
        let native = run("", false).well();
        assert_eq!(native, "4950 [a word] [] preload []\n", "{option}");
        let ours = common::library().display().to_string();
        let ended = run(&ours, false);
        let note =
            format!("raddle: note: this program is built with {sanitizer}: it runs as it is, on kernel threads\n");
        assert_eq!((&ended.out, &ended.err), (&native, &note), "{option}");
        ended.well();
        assert_eq!(run(&ours, true).err, "", "{option}");
        // Another library stays.
        if sanitizer != "AddressSanitizer" {
            let both = run(&format!("{ours}:{}", shim.display()), true);
            assert_eq!(both.well(), native.replace("[]\n", &format!("[{}]\n", shim.display())), "{option}");
        }
        // Where the runtime is the program's own it comes first, and threads are kernel threads. (That of leaks does
        // not start natively so.)
        let statically = match sanitizer {
            "AddressSanitizer" => "-static-libasan",
            "ThreadSanitizer" => "-static-libtsan",
            _ => continue,
        };
        let program = common::compile("sanitized.c", &[option, statically]);
        let mut command = Command::new(&program);
        command.args(["a word", ""]).env("ASAN_OPTIONS", "detect_leaks=0").env("LD_PRELOAD", common::library());
        let ended = common::run(command);
        assert!(ended.err.contains("its threads are kernel threads"), "{option}: {ended:?}");
        assert_eq!(ended.well(), native, "{option}");
    }
}
