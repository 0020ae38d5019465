//! Where lightweight threads cannot be had, the library only passes through: every C program of these tests ends as
//! without it.

mod common;

use std::path::Path;

/// What a program of tests/c needs of the compiler.
fn options(source: &str) -> Vec<&'static str> {
    match source {
        "lib_openmp.c" => vec!["-fopenmp"],
        "lib_tbb.cc" => vec!["-std=c++17", "-ltbb"],
        "lib_uv.c" => vec!["-luv"],
        "own_functions.c" => vec!["-rdynamic"],
        "unseen.c" => vec!["-Wno-unused-result", "-lresolv"],
        "faults.c" | "alternate.c" => vec!["-Wno-infinite-recursion"],
        "fault_leaves.cc" => vec!["-std=c++20", "-fnon-call-exceptions"],
        name if name.ends_with(".cc") => vec!["-std=c++20"],
        _ => vec!["-Wno-unused-result", "-lm", "-lrt", "-ldl", "-lutil"],
    }
}

/// Not these: `interface.c` is linked with the library and has this test in c_interface.rs; `preempt_beside.c` computes
/// for ever, until another kernel thread carries its thread on; `sync_traffic.c` is long, and has such a test of its
/// own; `quantum.c` asserts what checks do on lightweight threads. Those that end with `_mod.c` are libraries.
const OTHERS: [&str; 6] =
    ["interface.c", "lock_kinds.c", "lock_tries.c", "preempt_beside.c", "sync_traffic.c", "quantum.c"];

fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".c") || name.ends_with(".cc")).collect();
    names.retain(|name| !OTHERS.contains(&name.as_str()) && !name.ends_with("_mod.c"));
    names.sort();
    names
}

/// What a program is to do: signals, where it would send a million, which is long on a busy machine.
fn arguments(source: &str) -> &'static [&'static str] {
    match source {
        "signal_storm.c" => &["100000"],
        "spins.c" => &["4", "2"],
        _ => &[],
    }
}

#[test]
fn every_program_ends_as_natively_of_even_number() {
    end_as_natively(sources().into_iter().step_by(2));
}

#[test]
fn every_program_ends_as_natively_of_odd_number() {
    end_as_natively(sources().into_iter().skip(1).step_by(2));
}

fn end_as_natively(sources: impl Iterator<Item = String>) {
    for source in sources {
        let needs: &[(&str, &str)] = match source.as_str() {
            "lib_tbb.cc" => &[("c++", "g++"), ("/usr/include/tbb", "libtbb-dev")],
            "lib_uv.c" => &[("/usr/include/uv.h", "libuv1-dev")],
            name if name.ends_with(".cc") => &[("c++", "g++")],
            _ => &[],
        };
        if common::lacks(needs) {
            continue;
        }
        let program = common::compile(&source, &options(&source));
        let native = common::native(&program, arguments(&source));
        let passed = common::drop_in(&program, arguments(&source), &[("RADDLE_KERNEL_THREADS", "1")]);
        assert_eq!(passed.status, native.status, "{source}: {passed:?}\nnatively: {native:?}");
        let said = passed.err.lines().filter(|line| !native.err.contains(line));
        // Nothing but the line that says so: once a process, so more than once where one forks.
        said.for_each(|line| assert!(line.contains("RADDLE_KERNEL_THREADS=1"), "{source}: {line}"));
        std::fs::remove_file(program).unwrap();
    }
}
