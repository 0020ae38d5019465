//! `RADDLE_MIGRATE=always`: a thread that was suspended goes on on another processor. The mode is the environment's, so
//! each test is a child.

#[path = "support/child.rs"]
mod child;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn passes(name: &str, body: impl FnOnce()) {
    match child::again(name) {
        Some(mut command) => {
            command.env("RADDLE_MIGRATE", "always");
            child::must_pass(command);
        }
        None => body(),
    }
}

/// Which kernel thread runs the caller.
fn here() -> String {
    std::fs::read_link("/proc/thread-self").unwrap().to_str().unwrap().to_owned()
}

/// Each of `threads` goes on until `f` has sent it elsewhere 25 times. Not how often of so many switches: it stays,
/// while the kernel keeps the other processor from its core; then it leaves the machine alone for a millisecond.
fn all_go_on_elsewhere(threads: usize, f: impl Fn() + Send + Sync) {
    const ENOUGH: u32 = 25;
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    if pool.processors() == 0 {
        return;
    }
    pool.run(|| {
        raddle::scope(|s| {
            for _ in 0..threads {
                let f = &f;
                s.spawn(move || {
                    let (mut moved, mut stayed) = (0, 0);
                    while moved < ENOUGH {
                        let before = here();
                        f();
                        if here() != before {
                            moved += 1;
                            continue;
                        }
                        stayed += 1;
                        assert!(stayed < LIMIT, "{moved} switches led elsewhere, {stayed} did not");
                        raddle::sleep(Duration::from_millis(1));
                    }
                });
            }
        });
    });
}

/// Before it has stayed so often a thread that nothing moves is elsewhere now and then: after one switch of some
/// thousand.
const LIMIT: u32 = 10_000;

#[test]
fn whoever_yields_goes_on_elsewhere() {
    passes("whoever_yields_goes_on_elsewhere", || {
        for threads in [1, 2, 7] {
            all_go_on_elsewhere(threads, raddle::yield_now);
        }
    });
}

#[test]
fn whoever_waits_goes_on_elsewhere() {
    passes("whoever_waits_goes_on_elsewhere", || {
        for threads in [1, 3] {
            all_go_on_elsewhere(threads, || raddle::sleep(Duration::from_micros(50)));
        }
    });
}

#[test]
fn without_another_processor_threads_stay() {
    passes("without_another_processor_threads_stay", || {
        let pool = raddle::Builder::new().processors(1).build().unwrap();
        pool.run(|| (0..1000).for_each(|_| raddle::yield_now()));
    });
}

#[test]
fn a_thread_that_others_wait_for_runs_though_they_compute() {
    passes("a_thread_that_others_wait_for_runs_though_they_compute", || {
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        let done = AtomicU32::new(0);
        pool.run(|| {
            raddle::scope(|s| {
                s.spawn(|| while done.load(Ordering::Relaxed) == 0 {});
                s.spawn(|| {
                    (0..10).for_each(|_| raddle::yield_now());
                    done.store(1, Ordering::Relaxed);
                });
            });
        });
    });
}

#[test]
fn another_value_is_an_error_that_says_what_to_give() {
    let name = "another_value_is_an_error_that_says_what_to_give";
    let build = || match raddle::Builder::new().processors(2).build() {
        Ok(_) => println!("built"),
        Err(error) => println!("{error}"),
    };
    let Some(mut command) = child::again(name) else { return build() };
    command.env("RADDLE_MIGRATE", "sometimes");
    let said = child::must_pass(command);
    assert!(said.contains("RADDLE_MIGRATE=sometimes: give `always`"), "{said}");
}
