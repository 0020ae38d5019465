//! `RADDLE_MIGRATE=always`: a thread that was suspended goes on on another processor. The mode is the environment's, so
//! each test is a child.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const CHILD: &str = "RADDLE_WANDERING_CHILD";

/// Runs `body` in a child, with the variable as it says; what came of it.
fn in_a_child(name: &str, mode: &str, body: impl FnOnce()) -> Option<Output> {
    if std::env::var_os(CHILD).is_some() {
        body();
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(CHILD, "1").env("RADDLE_MIGRATE", mode);
    Some(command.output().unwrap())
}

fn passes(name: &str, body: impl FnOnce()) {
    if let Some(output) = in_a_child(name, "always", body) {
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
}

/// Which kernel thread runs the caller.
fn here() -> String {
    std::fs::read_link("/proc/thread-self").unwrap().to_str().unwrap().to_owned()
}

/// The switches that each of `threads` makes by `f` until it has gone on elsewhere 25 times. Not how often of so many:
/// some stay, while the kernel keeps the other processor from its core.
fn switches_until_moved(threads: usize, f: impl Fn() + Send + Sync) -> Vec<u32> {
    const ENOUGH: u32 = 25;
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    if pool.processors() == 0 {
        return vec![ENOUGH; threads];
    }
    let made: Vec<_> = (0..threads).map(|_| AtomicU32::new(0)).collect();
    pool.run(|| {
        raddle::scope(|s| {
            for made in &made {
                let f = &f;
                s.spawn(move || {
                    let mut moved = 0;
                    while moved < ENOUGH && made.fetch_add(1, Ordering::Relaxed) < LIMIT {
                        let before = here();
                        f();
                        moved += u32::from(here() != before);
                    }
                });
            }
        });
    });
    made.into_iter().map(AtomicU32::into_inner).collect()
}

/// Of so many switches a thread that nothing moves would make less than 25 elsewhere.
const LIMIT: u32 = 20_000;

#[test]
fn whoever_yields_goes_on_elsewhere() {
    passes("whoever_yields_goes_on_elsewhere", || {
        for threads in [1, 2, 7] {
            let made = switches_until_moved(threads, raddle::yield_now);
            assert!(made.iter().all(|&made| made < LIMIT), "{made:?}");
        }
    });
}

#[test]
fn whoever_waits_goes_on_elsewhere() {
    passes("whoever_waits_goes_on_elsewhere", || {
        for threads in [1, 3] {
            let made = switches_until_moved(threads, || raddle::sleep(Duration::from_micros(50)));
            assert!(made.iter().all(|&made| made < LIMIT), "{made:?}");
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
    if let Some(output) = in_a_child(name, "sometimes", build) {
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("RADDLE_MIGRATE=sometimes: give `always`"), "{said}");
    }
}
