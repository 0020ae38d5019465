//! What goes wrong around programs that nobody changed: the same as natively.

mod common;

/// The part of `faults.c` prints the same and ends with the same status as natively; what it printed, and what it said
/// on standard error.
#[track_caller]
fn as_natively(part: &str) -> (String, String) {
    let program = common::compile("faults.c", &["-Wno-infinite-recursion"]);
    let native = common::native(&program, &[part]);
    let mut said = String::new();
    for processors in ["1", "3"] {
        let ours = common::with_reserve(&program, &[part], &[("RADDLE_PROCESSORS", processors)]);
        assert_eq!((&ours.out, ours.status), (&native.out, native.status), "{ours:?}\nnatively {native:?}");
        said = ours.err;
    }
    std::fs::remove_file(program).unwrap();
    (native.out, said)
}

#[test]
fn descriptors_run_out_and_what_is_there_works() {
    let (out, _) = as_natively("descriptors");
    assert!(out.contains("accept: -1 Too many open files") && out.contains("then: 1 1"), "{out}");
}

#[test]
fn without_memory_a_thread_is_refused_and_the_others_go_on() {
    let (out, _) = as_natively("memory");
    assert_eq!(out, "create: Resource temporarily unavailable\nthen: 0\nat exit\n");
}

#[test]
fn a_peer_is_killed() {
    let (out, _) = as_natively("peer");
    assert!(out.contains("idle: end") && out.contains("unread: Connection reset by peer"), "{out}");
}

#[test]
fn a_peer_resets_the_connection() {
    let (out, _) = as_natively("resets");
    assert!(out.contains("read: -1 Connection reset by peer") && out.contains("pipe: -1 Broken pipe"), "{out}");
    let (out, _) = as_natively("pipe");
    assert!(!out.contains("write"), "SIGPIPE ends the program: {out}");
}

#[test]
fn a_timer_interrupts_every_call_and_nothing_is_lost() {
    let (out, _) = as_natively("storm");
    assert_eq!(out, "storm: 600\nstorm: 200\nstorm: 200\nstorm: 0\nfired: 1\nat exit\n");
}

#[test]
fn a_stack_overflow_ends_the_program_with_the_threads_name() {
    let (_, said) = as_natively("overflow");
    assert!(said.contains("thread 'digger' has overflowed its stack"), "{said}");
}

#[test]
fn threads_fork_in_a_loop() {
    let (out, _) = as_natively("forks");
    assert_eq!(out, "right: 50\n".repeat(4) + "at exit\n");
}

#[test]
fn any_thread_ends_the_process() {
    assert_eq!(as_natively("exit").0, "at exit\n");
    assert_eq!(as_natively("abort").0, "");
    assert_eq!(as_natively("return").0, "at exit\n");
}

#[test]
fn handlers_of_faults_run_on_the_alternate_stack_that_their_thread_gave() {
    let program = common::compile("alternate.c", &["-Wno-infinite-recursion", "-Wno-unused-parameter"]);
    let native = common::native(&program, &[]).well();
    assert!(native.contains("failures 0, elsewhere 0, said to be on it 72, refused there 72, returned 1"), "{native}");
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
    std::fs::remove_file(program).unwrap();
}
