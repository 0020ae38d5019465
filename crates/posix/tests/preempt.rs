//! `--preempt=timer`: threads that compute without quantum checks give way where a timer finds them, and lose nothing.
//! Those that spin do so without it.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn counter(ended: &common::Ended, key: &str) -> u64 {
    let (_, rest) = ended.err.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key}: {ended:?}"));
    rest[..rest.find([',', '}']).unwrap()].parse().unwrap()
}

/// Runs a program of threads that compute and check what they have computed. The answer is how often they gave way to
/// the timer.
#[track_caller]
fn gave_way(program: &Path, arguments: &[&str], settings: &[(&str, &str)], patience: Duration) -> u64 {
    let mut command = std::process::Command::new(program);
    command.args(arguments).env("LD_PRELOAD", common::library()).env("RADDLE_STATS", "json");
    command.envs(settings.iter().copied());
    let ended = common::run_for(command, patience);
    assert!(ended.status.success() && ended.out == "nothing was lost\n", "{ended:?}");
    counter(&ended, "preemptions")
}

fn programs() -> Vec<std::path::PathBuf> {
    let mut programs = vec![common::compile("preempt.c", &["-lm"])];
    if !common::lacks(&[("c++", "g++")]) {
        programs.push(common::compile("preempt_exceptions.cc", &["-std=c++20"]));
    }
    programs
}

#[test]
fn threads_that_compute_give_way_to_the_timer_and_lose_nothing() {
    for program in programs() {
        for processors in ["1", "2"] {
            let settings = [("RADDLE_PREEMPT", "timer"), ("RADDLE_PROCESSORS", processors), ("RADDLE_QUANTUM", "200")];
            // With more processors others may go on with what waits; with one somebody gives way, soon or late.
            common::until("a thread that gives way to the timer", || {
                let times = gave_way(&program, &["20", "9"], &settings, common::PATIENCE);
                (times > 0 || processors != "1").then_some(())
            });
        }
        let main_too = [("RADDLE_PREEMPT", "timer"), ("RADDLE_MAIN", "1"), ("RADDLE_QUANTUM", "200")];
        gave_way(&program, &["5", "3"], &main_too, common::PATIENCE);
    }
}

#[test]
fn threads_that_spin_give_way_unasked() {
    let program = common::compile("spins.c", &[]);
    let gave_way = |settings: &[(&str, &str)]| {
        let ended = common::drop_in(&program, &["20", "5"], &[settings, &[("RADDLE_STATS", "json")]].concat());
        assert!(ended.status.success() && ended.out == "all have met\n", "{ended:?}");
        counter(&ended, "preemptions")
    };
    for processors in ["1", "2"] {
        // The spare that the monitor gives to a thread that computes may be there first.
        common::until("a thread that spins and gives way", || {
            (gave_way(&[("RADDLE_PROCESSORS", processors)]) > 0).then_some(())
        });
    }
    assert_eq!(gave_way(&[("RADDLE_PREEMPT", "never")]), 0);
}

/// Erlang's processes, fibers of OCaml and Go's goroutines compute on stacks without room for a handler: the runtime's
/// own run elsewhere.
#[test]
fn nothing_is_written_below_a_stack_that_a_program_has_made_itself() {
    let program = common::compile("bare_stack.c", &[]);
    assert_eq!(common::native(&program, &[]).well(), "nothing was written\n");
    for when in ["yields", "timer"] {
        for processors in ["1", "2"] {
            let settings = [("RADDLE_PREEMPT", when), ("RADDLE_PROCESSORS", processors), ("RADDLE_QUANTUM", "200")];
            assert_eq!(common::drop_in(&program, &[], &settings).well(), "nothing was written\n", "{settings:?}");
        }
    }
}

#[test]
fn threads_that_try_locks_until_something_has_changed_give_way_unasked() {
    let program = common::compile("tries.c", &[]);
    let ways = ["locks", "recursive locks", "tries", "read locks", "tries to read", "tries of a semaphore"];
    for (way, name) in ways.iter().enumerate() {
        common::until(name, || {
            let settings = [("RADDLE_PROCESSORS", "1"), ("RADDLE_STATS", "json")];
            let ended = common::drop_in(&program, &["12", "3", &way.to_string()], &settings);
            assert!(ended.status.success() && ended.out == "all have met\n", "{name}: {ended:?}");
            (counter(&ended, "preemptions") > 0).then_some(())
        });
    }
}

#[test]
fn who_computes_beside_the_processors_comes_back_to_them() {
    let program = common::compile("preempt_beside.c", &[]);
    let settings = [("RADDLE_PREEMPT", "timer"), ("RADDLE_PROCESSORS", "1"), ("RADDLE_QUANTUM", "1000")];
    assert_ne!(gave_way(&program, &[], &settings, common::PATIENCE), 0);
}

#[test]
fn no_timer_asks_a_program_that_did_not_ask_for_it() {
    let program = common::compile("preempt.c", &["-lm"]);
    for settings in [&[][..], &[("RADDLE_PREEMPT", "yields")], &[("RADDLE_PREEMPT", "never")]] {
        assert_eq!(gave_way(&program, &["3", "3"], settings, common::PATIENCE), 0);
    }
    let wrong = common::drop_in(&program, &["1", "1"], &[("RADDLE_PREEMPT", "often")]);
    assert!(wrong.err.contains("RADDLE_PREEMPT is `often`, not never, yields or timer: yields is taken"), "{wrong:?}");
    assert_eq!(wrong.well(), "nothing was lost\n");
}

/// `cargo xtask preempt` asks for many: then several processes at once run each program until there were so many in it.
#[test]
fn as_often_as_asked() {
    let asked = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let Some(wanted) = asked("RADDLE_PREEMPTIONS") else { return };
    let jobs = asked("RADDLE_JOBS").unwrap_or(2);
    for program in programs() {
        let (times, rounds) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let runs = || {
                while times.load(Ordering::Relaxed) < wanted {
                    let round = rounds.fetch_add(1, Ordering::Relaxed) as usize;
                    // With two, the one that takes turns soon has taken them all beside the others.
                    let (processors, quantum) = [("1", "50"), ("1", "20"), ("1", "50"), ("2", "20")][round % 4];
                    let turns = if processors == "1" { "2000" } else { "200" };
                    let settings =
                        [("RADDLE_PREEMPT", "timer"), ("RADDLE_PROCESSORS", processors), ("RADDLE_QUANTUM", quantum)];
                    let more = gave_way(&program, &[turns, "16"], &settings, Duration::from_secs(1200));
                    let so_far = times.fetch_add(more, Ordering::Relaxed) + more;
                    println!("{}: {so_far} of {wanted} times", program.file_name().unwrap().display());
                }
            };
            for _ in 0..jobs {
                scope.spawn(runs);
            }
        });
    }
}
