//! Forks, signals and rights of programs that nobody changed.

mod common;

/// The program prints the same, and ends with the same status, with the library and without.
#[track_caller]
fn same_as_native(source: &str, processors: &[&str]) -> String {
    same_with(source, &[], processors)
}

/// The same with arguments.
#[track_caller]
fn same_with(source: &str, arguments: &[&str], processors: &[&str]) -> String {
    let program = common::compile(source, &[]);
    let native = common::native(&program, arguments);
    for processors in processors {
        let ours = common::drop_in(&program, arguments, &[("RADDLE_PROCESSORS", processors)]);
        assert_eq!(ours.out, native.out, "{ours:?}");
        assert_eq!(ours.status, native.status, "{ours:?}");
    }
    native.out
}

#[test]
fn a_forked_child_goes_on_as_a_program_of_its_own() {
    let out = same_as_native("fork.c", &["1", "2", "4"]);
    assert!(out.contains("a thread: 40") && out.contains("programs in a thread: 0"), "{out}");
}

#[test]
fn children_share_memory_and_nothing_else_until_they_are_gone() {
    let out = same_as_native("vfork.c", &["1", "3"]);
    assert!(out.contains("a thread: shares 1") && out.contains("many at once: 640") && !out.contains(" 0"), "{out}");
}

#[test]
fn what_a_child_sets_on_a_shared_descriptor_is_seen_by_its_parent() {
    let program = common::compile("fork_flags.c", &["-lutil"]);
    let native = common::native(&program, &[]).well();
    assert_eq!(native.matches(": read -1, EAGAIN").count(), 5, "{native}");
    for processors in ["1", "3"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]).well(), native);
    }
}

#[test]
fn a_child_does_once_what_another_thread_was_about_to_do() {
    let out = same_as_native("once_forked.c", &["1", "3"]);
    assert_eq!(out, "child: 7\nran: 1\n".repeat(4));
}

#[test]
fn the_child_of_a_fork_blocks_what_the_forking_thread_did() {
    let out = same_as_native("fork_masks.c", &["1", "3"]);
    assert_eq!(out.matches(": 0\n").count(), 4, "{out}");
    let program = common::compile("fork_masks.c", &[]);
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_MAIN", "1")]).well(), out);
}

/// Calls that change the kernel thread's mask for a while, those that fail included, leave no trace in it: a thread
/// that runs there next gets its signals while it computes.
#[test]
fn the_mask_of_a_kernel_thread_is_the_next_threads_again() {
    let out = same_as_native("mask_restored.c", &["1", "3"]);
    assert_eq!(out.matches(": 1, handled: 101, elsewhere: 0\n").count(), 16, "{out}");
}

/// What the parent's threads waited for, a signal among them, could wake nobody in the child.
#[test]
fn a_dead_lock_in_the_child_of_a_fork_is_reported() {
    let program = common::compile("fork_deadlock.c", &[]);
    let out = common::drop_in(&program, &["reports"], &[("RADDLE_PROCESSORS", "2")]).well();
    assert_eq!(out.matches(": told\n").count(), 8, "{out}");
}

#[test]
fn children_that_begin_in_a_function_are_not_taken_for_their_parents() {
    let out = same_as_native("clone.c", &["1", "3"]);
    assert_eq!(out.matches(": 24 of 24 in threads, 4 of 4 in the first one").count(), 3, "{out}");
}

#[test]
fn threads_that_a_collector_stops_hold_no_kernel_thread() {
    let program = common::compile("stop_world.c", &[]);
    assert_eq!(common::native(&program, &[]).out, "stopped and went on: 10, wrong: 0\n");
    for arguments in [&["count"][..], &["count", "yields"]] {
        for processors in ["1", "3"] {
            let ours = common::drop_in(&program, arguments, &[("RADDLE_PROCESSORS", processors)]);
            assert_eq!(ours.well(), "stopped and went on: 10, wrong: 0\nfew kernel threads: 1\n");
        }
    }
}

#[test]
fn handlers_wait_as_their_threads_do_and_let_in_what_those_block() {
    let out = same_as_native("handler_waits.c", &["1", "3"]);
    assert!(out.ends_with("wrong: 0\n"), "{out}");
    assert_eq!(same_with("handler_waits.c", &["stack"], &["2"]), out);
}

#[test]
fn a_request_ends_with_the_thread_it_was_for() {
    same_as_native("cancel_kept.c", &["1", "3"]);
}

#[test]
fn threads_are_cancelled_where_a_handler_of_theirs_waits() {
    let out = same_as_native("handler_cancel.c", &["1", "3"]);
    assert!(out.lines().count() == 13 && out.matches("cancelled 3, cleaned 3, returned 0").count() == 13, "{out}");
}

#[test]
fn the_mask_in_a_handlers_context_is_its_threads_and_what_it_leaves_there_is_blocked() {
    for who in ["thread", "main", "dedicated"] {
        let out = same_with("handler_context.c", &[who], &["1", "2"]);
        assert!(out.lines().count() == 15 && out.ends_with("none: 0 0\n"), "{who}: {out}");
    }
}

#[test]
fn a_thread_that_is_named_in_a_wait_still_ends_it_by_handlers_and_by_what_it_waits_for() {
    let out = same_as_native("own_named.c", &["1", "2"]);
    assert!(out.lines().count() == 25 && out.matches("EINTR").count() == 15, "{out}");
}

#[test]
fn a_thread_reads_what_was_sent_to_it_from_its_own_descriptor() {
    let out = same_as_native("own_signals.c", &["1", "2"]);
    assert!(out.contains("in order: 0 1 2 3 4") && out.matches("waits: 1, read 1").count() == 3, "{out}");
}

#[test]
fn a_context_has_the_mask_of_the_thread_that_filled_it() {
    let out = same_as_native("contexts.c", &["1", "2"]);
    assert!(
        out.contains("blocked there: 1, here: 0, handled: 1\n") && out.contains("set by hand: 1, here: 0\n"),
        "{out}"
    );
}

#[test]
fn what_the_kernel_sends_to_who_calls_it_is_the_threads() {
    let out = same_as_native("own_calls.c", &["1", "3"]);
    for line in ["broken and taken: 5\n", "too long and taken: 1\n", "handled: 0, then 1, elsewhere 0\n"] {
        assert!(out.contains(line), "{line}{out}");
    }
    assert!(out.matches("lives\n").count() == 3 && out.matches("ended by signal 13\n").count() == 2, "{out}");
    assert!(out.contains("called forker\n") && out.contains("ended with 7\na raw child: 500\n"), "{out}");
}

#[test]
fn a_child_sends_signals_to_its_parents_threads_by_their_numbers() {
    let out = same_as_native("outside_signals.c", &["1", "2"]);
    assert!(out.lines().count() == 51 && out.matches("there 1, sender 1").count() == 48, "{out}");
    assert!(out.ends_with("null 0, none 3, bad 1, other 3\nkill 0, first 0\nthe process: 0, code 0\n"), "{out}");
}

#[test]
fn a_jump_restores_the_mask_that_its_thread_had() {
    let out = same_as_native("jump_masks.c", &["1", "2"]);
    assert!(out.lines().count() == 9 && out.ends_with("the same: 1\n"), "{out}");
}

#[test]
fn a_thread_that_has_forked_is_joined_in_the_child() {
    let program = common::compile("forker_joined.c", &[]);
    let native = common::native(&program, &[]).well();
    assert!(native.lines().count() == 20 && native.matches("status 0").count() == 7, "{native}");
    for main in ["0", "1"] {
        assert_eq!(common::drop_in(&program, &[], &[("RADDLE_MAIN", main)]).well(), native, "main: {main}");
    }
}

#[test]
fn what_is_done_in_part_or_has_a_time_limit_is_not_restarted() {
    let out = same_as_native("restart_parts.c", &["1", "2"]);
    assert_eq!(
        out,
        "sem_wait: 0\nsem_timedwait: EINTR\nsem_clockwait: EINTR\nwrite: a part\nsend: a part\nrecv all: a part\n"
    );
}

#[test]
fn times_that_are_none_are_answered_as_natively() {
    let out = same_as_native("bad_times.c", &["1", "2"]);
    assert!(out.lines().count() == 9 + 3 * 9 + 8 && out.matches("recvmmsg 22").count() == 7, "{out}");
    assert!(out.ends_with("inherits 0 16 0 1\nunlocks 0\n"), "{out}");
}

#[test]
fn main_and_threads_begin_without_an_error_and_with_their_creators_name() {
    let out = same_as_native("beginnings.c", &["2"]);
    assert!(out.contains("comm outer") && out.contains("named inner") && out.ends_with("errors: 0\n"), "{out}");
}

#[test]
fn handlers_run_on_the_stack_that_their_thread_gave_and_attributes_are_told() {
    let out = same_as_native("signal_stacks.c", &["1", "2"]);
    assert!(out.contains("jumped out: 100") && out.contains("EINVAL"), "{out}");
}

#[test]
fn handlers_see_the_mask_that_they_run_with_those_of_faults_too() {
    let out = same_as_native("fault_masks.c", &["1", "2"]);
    assert!(out.lines().count() == 59 && !out.contains("inside 1"), "{out}");
}

#[test]
fn handlers_run_in_threads_of_the_program() {
    let out = same_with("signal_owner.c", &["3000"], &["1", "2", "4"]);
    assert_eq!(out, "handled: 3000, by nobody: 0\n");
}

#[test]
fn handlers_of_faults_wait_and_everybody_goes_on() {
    let out = same_as_native("fault_waits.c", &["1", "2", "3"]);
    assert!(out.matches("handled 96").count() == 3 && out.matches("ends by signal 11").count() == 2, "{out}");
}

#[test]
fn handlers_of_faults_are_left_by_exceptions_jumps_and_ends() {
    if common::lacks(&[("c++", "g++")]) {
        return;
    }
    let program = common::compile("fault_leaves.cc", &["-std=c++20", "-fnon-call-exceptions"]);
    let expected = "caught: 48\njumped: 48\nended: 6\n".repeat(2);
    assert_eq!(common::native(&program, &[]).out, expected);
    for processors in ["1", "3"] {
        let ours = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]);
        assert_eq!(ours.well(), expected);
    }
}

/// Our settings are left out where there is no room for them beside the program's own environment, and one line says
/// so.
#[test]
fn a_program_replaces_itself_with_as_much_in_its_environment_as_natively() {
    let program = common::compile("exec_large.c", &[]);
    for way in ["execve", "execvpe", "execv", "fexecve"] {
        let most = common::native(&program, &[way]).well();
        for who in [&[][..], &["thread"]] {
            let arguments = [&[way, most.trim()], who].concat();
            let native = common::native(&program, &arguments).well();
            assert_eq!(native, "a byte more: E2BIG\nreplaced, filled 1, beside that 0\n");
            let ours = common::drop_in(&program, &arguments, &[("RADDLE_PROCESSORS", "1")]);
            assert!(ours.err.contains("too much for its environment"), "{ours:?}");
            assert_eq!(ours.well(), native, "{arguments:?}");
        }
    }
}

#[test]
fn a_thread_becomes_a_daemon() {
    let program = common::compile("daemon.c", &[]);
    let report = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("daemon-{}", std::process::id()));
    let path = report.to_str().unwrap();
    let ours = common::drop_in(&program, &[path], &[]);
    assert!(ours.status.success(), "{ours:?}");
    let text = common::until("the daemon's report", || {
        std::fs::read_to_string(&report).ok().filter(|text| text.ends_with('\n'))
    });
    std::fs::remove_file(&report).unwrap();
    assert_eq!(text, "daemon 0\n");
}

#[test]
fn python_forks_processes_that_have_threads() {
    if common::lacks(&[("/usr/bin/python3", "python3")]) {
        return;
    }
    let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python/processes.py");
    let python = std::path::Path::new("/usr/bin/python3");
    let native = common::native(python, &[program.to_str().unwrap()]);
    let ours = common::drop_in(python, &[program.to_str().unwrap()], &[]);
    assert_eq!(ours.out, native.out, "{ours:?}");
    assert_eq!(ours.status, native.status, "{ours:?}");
    assert!(native.out.contains("[0, 1, 2, 3, 4, 5]"), "{native:?}");
}

#[test]
fn signals_reach_the_threads_that_they_were_sent_to() {
    let out = same_as_native("signals.c", &["1", "3"]);
    assert!(!out.contains("WRONG") && out.lines().count() == 18, "{out}");
}

#[test]
fn a_million_handlers_post_and_write_and_nothing_is_lost() {
    let program = common::compile("signal_storm.c", &[]);
    let ours = common::drop_in(&program, &["1000000"], &[("RADDLE_PROCESSORS", "3")]);
    assert_eq!(ours.well(), "1 1\n");
}

#[test]
fn all_kernel_threads_get_the_rights_that_a_thread_sets() {
    same_as_native("set_id.c", &["1", "3"]);
}

#[test]
fn a_thread_that_never_waits_takes_the_processes_signals() {
    let program = common::compile("signal_busy.c", &[]);
    let ours = common::drop_in(&program, &["20000"], &[("RADDLE_PROCESSORS", "2")]);
    assert_eq!(ours.well(), "1\n");
}

#[test]
fn signals_for_the_process_outlive_the_threads_that_were_to_take_them() {
    assert_eq!(same_with("signal_ends.c", &["3000"], &["1", "2", "4"]), "0 0 1\n");
}

#[test]
fn signals_are_answered_while_the_first_thread_lets_them_in_for_moments() {
    let out = same_with("signal_toggle.c", &["2000"], &["1", "2", "4"]);
    assert_eq!(out, "answered: 2000\nat the end: 1\n");
}

#[test]
fn signals_count_merge_and_tell_as_natively_and_handlers_run_one_at_a_time() {
    let out = same_as_native("signal_details.c", &["1", "2", "4"]);
    assert!(out.contains("600, wrong 0") && !out.contains("wrong 1") && out.lines().count() == 17, "{out}");
}

#[test]
fn of_signals_that_are_let_in_together_each_handler_interrupts_the_one_before() {
    assert_eq!(same_as_native("signal_nested.c", &["1", "2", "4"]), "ok\n");
    let program = common::compile("signal_nested.c", &[]);
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_MAIN", "1")]).well(), "ok\n");
}

#[test]
fn a_filter_that_kills_for_rare_calls_meets_none_of_the_runtimes() {
    assert_eq!(same_as_native("filtered.c", &["1", "2"]), "ok\n");
    let program = common::compile("filtered.c", &[]);
    assert_eq!(common::drop_in(&program, &["inherited"], &[]).well(), "ok\n");
}

#[test]
fn handlers_wait_change_masks_and_jump_and_waits_end_as_natively() {
    let out = same_as_native("signal_waits.c", &["1", "2", "4"]);
    let program = common::compile("signal_waits.c", &[]);
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_MAIN", "1")]).well(), out);
    assert!(out.contains("resumed: 200") && out.ends_with("refused: 0\n") && out.lines().count() == 8, "{out}");
}

#[test]
fn handlers_that_sleep_are_ended_by_handlers_only() {
    let out = same_as_native("signal_sleeps.c", &["1", "2", "4"]);
    assert!(out.matches(": 0 0, then the other\n").count() == 27 && out.matches(": EINTR\n").count() == 9, "{out}");
    assert!(
        out.matches(": -1 EINTR, 1\n").count() == 6
            && out.ends_with("many: few left, came\njumped within: 20\nforked: 5\n"),
        "{out}"
    );
}

#[test]
fn a_handler_ends_its_thread_wherever_it_is() {
    let out = same_as_native("exit_handlers.c", &["1", "2", "4"]);
    assert!(out.matches(": 30\n").count() == 22, "{out}");
    let program = common::compile("exit_handlers.c", &[]);
    for settings in [("RADDLE_MAIN", "1"), ("RADDLE_PROCESSORS", "3")] {
        let ours = common::drop_in(&program, &["100", "rest"], &[settings]).well();
        assert!(ours.matches(": 100\n").count() == 22 && ours.ends_with("rest: 0 0\n"), "{ours}");
    }
}

#[test]
fn what_all_threads_block_ends_nobody_and_what_one_lets_in_is_handled() {
    let out = same_as_native("signal_masks.c", &["1", "2", "3"]);
    assert!(out.ends_with("child: 0\nwrong: 0\n") && out.lines().count() == 13, "{out}");
}

#[test]
fn a_thread_whose_handler_jumps_out_of_what_it_does_is_whole_again() {
    let program = common::compile("signal_jumps.c", &[]);
    for processors in ["1", "2", "3"] {
        let ours = common::drop_in(&program, &["2000"], &[("RADDLE_PROCESSORS", processors)]);
        assert_eq!(ours.well(), "whole\n");
    }
}

#[test]
fn a_program_that_sets_the_actions_of_all_signals_leaves_the_runtimes_alone() {
    let out = same_as_native("all_actions.c", &["1", "2"]);
    assert_eq!(out.lines().filter(|line| line.ends_with("the one before 1, cancelled 1")).count(), 4, "{out}");
}

/// The C library's check of a jump asks the kernel whether it leaves an alternate stack, which does not know a
/// lightweight thread's.
#[test]
fn a_checked_jump_leaves_an_alternate_stack() {
    assert_eq!(same_as_native("checked_jumps.c", &["1", "3"]), "250 jumps\n");
    let program = common::compile("checked_jumps.c", &[]);
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_MAIN", "1")]).well(), "250 jumps\n");
}

/// With rights to everything, where the tests have them, and without; `main` on either kind of thread, and all on
/// kernel threads.
#[test]
fn what_the_kernel_ties_to_a_kernel_thread_belongs_to_one_thread_and_its_heirs() {
    let program = common::compile("own_things.c", &[]);
    for arguments in [&[][..], &["unprivileged"]] {
        let native = common::native(&program, arguments).well();
        assert!(
            !native.contains("TO OTHERS") && !native.contains("NOT BY ALL") && !native.contains("WRONGLY"),
            "{native}"
        );
        assert!(native.matches("to nobody").count() >= 14, "{native}");
        for settings in [
            &[("RADDLE_PROCESSORS", "1"), ("RADDLE_STATS", "json")][..],
            &[("RADDLE_PROCESSORS", "3"), ("RADDLE_STATS", "json")],
            &[("RADDLE_MAIN", "1"), ("RADDLE_STATS", "json")],
            &[("RADDLE_KERNEL_THREADS", "1")],
        ] {
            let ours = common::drop_in(&program, arguments, settings);
            assert_eq!((&ours.out, ours.status.code()), (&native, Some(0)), "{settings:?}: {ours:?}");
            let dedicated = ours.err.split_once("\"dedicated\":").map(|(_, rest)| rest.split(',').next().unwrap());
            assert!(
                settings.len() == 1 || dedicated.is_some_and(|count| count.parse::<u32>().unwrap() >= 150),
                "{ours:?}"
            );
        }
    }
}

#[test]
fn more_threads_than_kernel_threads_of_the_runtime_ask_for_one_of_their_own() {
    let program = common::compile("own_many.c", &[]);
    let ended = common::drop_in(&program, &["5000"], &[]);
    // As many as the machine lets the process have.
    assert!(ended.out.starts_with("own: 5000") || ended.out.contains("EAGAIN"), "{ended:?}");
    assert!(ended.out.ends_with("after: 100\n") && ended.status.success(), "{ended:?}");
}

#[test]
fn where_no_kernel_thread_can_be_had_who_asks_for_its_own_is_refused() {
    let program = common::compile("own_many.c", &[]);
    let ended = common::drop_in(&program, &["300", "few"], &[("RADDLE_PROCESSORS", "2")]);
    assert!(ended.out.contains("refused: EAGAIN") && ended.out.ends_with("after: 100\n"), "{ended:?}");
}

#[test]
fn a_thread_with_a_kernel_thread_of_its_own_is_a_thread_like_any_other() {
    let out = same_as_native("own_life.c", &["1", "3"]);
    assert!(out.ends_with("inherits from the first thread: 1\nthe last one\n") && out.lines().count() > 50, "{out}");
    let program = common::compile("own_life.c", &[]);
    assert_eq!(common::drop_in(&program, &[], &[("RADDLE_MAIN", "1")]).well(), out);
}

#[test]
fn the_kernel_knows_the_names_of_threads_with_a_kernel_thread_of_their_own() {
    let out = same_as_native("own_names.c", &["1", "3"]);
    assert_eq!(out, "after\nbefore\nby prctl\nfifteen bytes..\n");
}

#[test]
fn a_first_thread_that_takes_its_placing_back_creates_lightweight_threads() {
    let program = common::compile("placing_back.c", &[]);
    let ended = common::drop_in(&program, &["100"], &[]).well();
    let wanted = "at first: 0\nwith them as told: 1\nwith one of them as told: 1\nwithout: 0\nby its name: 0\n";
    assert_eq!(ended, wanted);
}

#[test]
fn system_vs_calls_are_ended_by_handlers_only() {
    let out = same_as_native("system_v.c", &["1", "2"]);
    assert!(out.contains("Success") && out.contains("Interrupted"), "{out}");
}

#[test]
fn threads_and_handlers_begin_with_the_masks_that_they_were_given() {
    let out = same_as_native("signal_begins.c", &["1", "2"]);
    assert!(out.contains("in the thread: 10\n") && out.ends_with("taken 1\n"), "{out}");
}

#[test]
fn a_place_that_cannot_be_reached_is_told_as_the_kernel_does() {
    let program = common::compile("bad_places.c", &["-Wno-nonnull"]);
    let native = common::native(&program, &[]).well();
    assert!(native.matches("EFAULT").count() > 4 * 30, "{native}");
    let fallback = ("RADDLE_KERNEL_THREADS", "1");
    for environment in [("RADDLE_PROCESSORS", "1"), ("RADDLE_PROCESSORS", "2"), ("RADDLE_MAIN", "1"), fallback] {
        let ours = common::drop_in(&program, &[], &[environment]);
        assert_eq!(ours.out, native, "{environment:?}: {ours:?}");
        assert!(ours.status.success(), "{ours:?}");
    }
}

#[test]
fn a_handler_of_what_another_thread_has_sent_finds_the_thread_where_it_computes() {
    let out = same_as_native("found_at.c", &["1", "2"]);
    assert_eq!(out, "10 of 10\n10 of 20\n10 of 10\n77\n");
}

#[test]
fn the_child_of_a_threads_fork_is_the_threads() {
    let out = same_as_native("parents.c", &["1", "2"]);
    assert!(out.lines().count() == 9 && out.ends_with("and died\n"), "{out}");
}

/// What takes no time otherwise takes long then: a processor that comes to sleep, a thread on its way.
#[test]
fn no_dead_lock_is_told_of_a_thread_that_is_stepped() {
    let program = common::compile("stepped.c", &[]);
    assert_eq!(common::native(&program, &[]).well(), "ok\n");
    for round in 0..8 {
        let ended = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", ["1", "2"][round % 2])]);
        assert!(!ended.err.contains("dead-lock"), "{ended:?}");
        assert_eq!(ended.well(), "ok\n");
    }
}

/// With `main` as a lightweight thread, too.
#[test]
fn the_old_functions_for_signals_count_for_the_thread_that_calls_them() {
    let program = common::compile("signal_old.c", &["-Wno-deprecated-declarations"]);
    let native = common::native(&program, &[]).well();
    for (processors, main) in [("1", "0"), ("3", "0"), ("1", "1"), ("3", "1")] {
        let ours = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors), ("RADDLE_MAIN", main)]);
        assert_eq!(ours.well(), native, "{processors} processors, RADDLE_MAIN={main}");
    }
}

/// What older programs, and other libraries, call a function that is taken over: a thread that is waited for, or a
/// descriptor that is closed, by one of these names is the same thread, or descriptor.
#[test]
fn no_other_name_of_a_function_that_is_taken_over_is_the_c_librarys() {
    // SAFETY: a name that ends; the answer is not called.
    let theirs = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"getppid".as_ptr()) };
    // SAFETY: zeroes are a description, which the call fills.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: a place for the description.
    assert_ne!(unsafe { libc::dladdr(theirs, &mut found) }, 0);
    // SAFETY: the loader's string, which stays.
    let library = unsafe { std::ffi::CStr::from_ptr(found.dli_fname) }.to_str().unwrap();
    // Address and name of each function, and its version.
    let functions = |path: &std::path::Path| -> Vec<(String, String)> {
        let mut nm = std::process::Command::new("nm");
        nm.args(["-D", "--defined-only", "--with-symbol-versions"]).arg(path);
        let text = nm.output().expect("nm (Debian package binutils) is there with a compiler").stdout;
        let text = String::from_utf8(text).unwrap();
        let lines = text.lines().filter(|line| !line.contains("GLIBC_PRIVATE"));
        let fields = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
        let code = fields.filter(|fields| matches!(fields[..], [_, "T" | "W" | "i", _]));
        code.map(|fields| (fields[0].into(), fields[2].split('@').next().unwrap().into())).collect()
    };
    let ours: std::collections::HashSet<String> =
        functions(&common::library()).into_iter().map(|(_, name)| name).collect();
    let theirs = functions(library.as_ref());
    assert!(ours.contains("read") && theirs.iter().any(|(_, name)| name == "__read"), "{library}");
    let taken: std::collections::HashSet<&String> =
        theirs.iter().filter(|(_, name)| ours.contains(name)).map(|(address, _)| address).collect();
    let left: Vec<_> =
        theirs.iter().filter(|(address, name)| taken.contains(address) && !ours.contains(name)).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Of a `main` that is lightweight the kernel does not know; natively it prefers the first thread, but not always.
#[test]
fn a_fault_that_another_process_sends_is_a_threads_and_a_lightweight_mains() {
    let program = common::compile("signal_sent_faults.c", &[]);
    let ways = [(&["tells"][..], 0), (&["tells", "forks, on a stack"], 0), (&["tells", "forks", "queues"], -1)];
    for (arguments, code) in ways {
        let native = common::native(&program, arguments);
        let line = format!("runs 1, on a thread 1, code {code}, the child's 1");
        assert_eq!(native.out.matches(&line).count(), 21, "{native:?}");
        for (processors, main) in [("1", "0"), ("1", "1"), ("3", "1")] {
            let environment = [("RADDLE_PROCESSORS", processors), ("RADDLE_MAIN", main)];
            let ours = common::drop_in(&program, arguments, &environment);
            assert_eq!((&ours.out, ours.status), (&native.out, native.status), "{ours:?}");
            assert!(main == "0" || ours.err.contains("on the first thread: 21"), "{ours:?}");
        }
    }
}

/// Also where `main` has ended, and a handler that is set for once runs.
#[test]
fn a_fault_that_another_process_sends_finds_a_handler_whatever_main_does() {
    let program = common::compile("signal_sent_ended.c", &[]);
    for main in ["0", "1"] {
        for processors in ["1", "3"] {
            let environment = [("RADDLE_PROCESSORS", processors), ("RADDLE_MAIN", main)];
            let ended = common::drop_in(&program, &[], &environment).well();
            assert!(ended == "runs some, on threads all\n" || main == "0" && ended.contains("runs some"), "{ended}");
            assert!(common::drop_in(&program, &["once"], &environment).well().contains("runs some"));
        }
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_thread_names_itself_by_its_number_where_it_gives_up_capabilities() {
    let program = common::compile("capabilities.c", &["-Wno-nonnull"]);
    let native = common::native(&program, &[]).well();
    assert_eq!(native.matches("give up 0: 1 1 1\ntake back 0: 1").count(), 3, "{native}");
    for (processors, main) in [("1", "0"), ("3", "0"), ("1", "1"), ("3", "1")] {
        let ours = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors), ("RADDLE_MAIN", main)]);
        assert_eq!(ours.well(), native, "{processors} processors, RADDLE_MAIN={main}");
    }
}
