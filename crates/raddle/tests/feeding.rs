//! A scope that runs its tasks itself looks before each whether another processor is hungry. The monitor's requests,
//! which do the same with some delay, are kept away: the program handles their signal itself. Alone in its process for
//! that.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

thread_local!(static OWNER: Cell<bool> = const { Cell::new(false) });

extern "C" fn kept(_: libc::c_int) {}

/// Computes for so long.
fn compute(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_scope_that_runs_its_tasks_feeds_a_processor_that_has_become_idle() {
    // SAFETY: a handler that does nothing.
    unsafe { libc::signal(libc::SIGURG, kept as *const () as libc::sighandler_t) };
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let (runs, end, elsewhere) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    pool.run(|| {
        raddle::scope(|s| {
            s.spawn(|| {
                runs.store(true, Ordering::Release);
                while !end.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            });
            while !runs.load(Ordering::Acquire) {
                raddle::yield_now();
            }
            // Both processors are busy: nothing is given at the forks.
            OWNER.set(true);
            let sleeps = raddle::info::stats().sleeps;
            raddle::scope(|below| {
                for _ in 0..64 {
                    below.fork(|| {
                        if OWNER.get() {
                            compute(Duration::from_millis(1));
                        } else {
                            elsewhere.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                // The newest: the first that runs.
                below.fork(|| {
                    end.store(true, Ordering::Release);
                    while raddle::info::stats().sleeps == sleeps {
                        std::hint::spin_loop();
                    }
                });
            });
        });
    });
    assert_eq!(raddle::info::stats().halves_given, 0, "the monitor gave some");
    assert_ne!(elsewhere.into_inner(), 0, "all ran on the scope's own thread");
}
