//! The peers' programs, run end to end.
#![forbid(unsafe_code)]

use raddle_bench::smoke;

fn refused(program: &str) -> Vec<String> {
    smoke::check(program.as_ref(), &[]).unwrap()
}

#[test]
fn tokio_is_right_in_all_but_fork_join_calls_and_stages() {
    let refused = refused(env!("CARGO_BIN_EXE_raddle-bench-tokio"));
    assert!(
        refused.len() == 6 + 3 + 12 + 6 + 1 && !refused.iter().any(|case| case.contains("by=spawn")),
        "{refused:?}"
    );
}

#[test]
fn rayon_is_right_in_what_does_not_block() {
    let refused = refused(env!("CARGO_BIN_EXE_raddle-bench-rayon"));
    let offered = ["create", "mandelbrot", "matrix", "skynet", "fib", "nqueens", "radix", "options"];
    assert!(refused.iter().all(|case| !offered.iter().any(|name| case.starts_with(name))), "{refused:?}");
    assert_eq!(refused.len() + offered.len() + 6, smoke::cases().unwrap().len());
}

#[test]
fn what_they_cannot_run_is_told_by_the_exit_status() {
    let status = |program: &str, words: &str| {
        std::process::Command::new(program).args(words.split(' ')).output().unwrap().status.code()
    };
    let locks = "locks T=2 total=64 hold=0 gap=0 burst=1 by=mutex --processors 1";
    for program in [env!("CARGO_BIN_EXE_raddle-bench-parking-lot"), env!("CARGO_BIN_EXE_raddle-bench-crossbeam")] {
        assert_eq!(status(program, &format!("{locks} locks=1")), Some(0));
        for wrong in ["locks=0", "locks=one", "locks=1 total=7", "locks=1 by=h2", "locks=1 --processors 0"] {
            assert_eq!(status(program, &format!("{locks} {wrong}")), Some(2), "{wrong}");
        }
    }
    for wrong in ["many", "0", "-1", "1 1"] {
        assert_eq!(status(env!("CARGO_BIN_EXE_raddle-bench-maps"), wrong), Some(2), "{wrong}");
    }
}

#[test]
fn parking_lot_is_right_where_locks_decide() {
    assert_eq!(smoke::cases().unwrap().len() - refused(env!("CARGO_BIN_EXE_raddle-bench-parking-lot")).len(), 10 + 3);
}

#[test]
fn crossbeam_is_right_where_channels_and_its_lock_decide() {
    assert_eq!(smoke::cases().unwrap().len() - refused(env!("CARGO_BIN_EXE_raddle-bench-crossbeam")).len(), 6);
}
