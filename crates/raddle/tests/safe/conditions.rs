//! Conditions of monitors, which other threads evaluate.

use crate::harness::{Bomb, On, panics, pool, quiet};
use raddle::sync::Monitor;
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Runs a waiter with `condition`, and one that leaves the monitor again and again beside it, until both are through.
fn waiter_beside_leavers(condition: impl Fn(&u32) -> bool + Sync + Send) -> bool {
    let (monitor, over) = (Monitor::new(0u32), AtomicBool::new(false));
    pool(2).run(|| {
        raddle::scope(|s| {
            let waiter = s.spawn(|| {
                let panicked = panics(|| {
                    let mut guard = monitor.enter().unwrap_or_else(|poisoned| poisoned.into_inner());
                    guard.wait_until(&condition);
                });
                over.store(true, Ordering::Relaxed);
                panicked
            });
            let others: Vec<_> = (0..4)
                .map(|_| {
                    s.spawn(|| {
                        let mut round = 0;
                        // The waiter may come late.
                        while round < 200 || !over.load(Ordering::Relaxed) {
                            round += 1;
                            *monitor.enter().unwrap_or_else(|poisoned| poisoned.into_inner()) += 1;
                            raddle::yield_now();
                        }
                    })
                })
                .collect();
            others.into_iter().for_each(|other| other.join().unwrap());
            waiter.join().unwrap()
        })
    })
}

case!(a_condition_that_panics_with_a_bomb_whoever_evaluates_it {
    quiet();
    let first = AtomicU32::new(0);
    let panicked = waiter_beside_leavers(|_| {
        if first.fetch_add(1, Ordering::Relaxed) > 0 {
            panic_any(Bomb(7));
        }
        false
    });
    assert!(panicked, "its own thread gets its panic");
});

case!(many_conditions_with_bombs_and_time_outs {
    quiet();
    let monitor = Monitor::new(0u32);
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..16u32 {
                let monitor = &monitor;
                s.spawn(move || {
                    for _ in 0..20 {
                        // The frame that the condition lies in ends with each round.
                        let (mine, asked) = ([number; 8], AtomicU32::new(0));
                        let condition = |value: &u32| {
                            if asked.fetch_add(1, Ordering::Relaxed) == 2 + number % 3 {
                                panic_any(Bomb(2));
                            }
                            assert_eq!(mine, [number; 8], "the frame of a condition was not alive");
                            value % 16 == number
                        };
                        panics(|| {
                            let mut guard = monitor.enter().unwrap_or_else(|poisoned| poisoned.into_inner());
                            let _ = guard.wait_until_timeout(condition, Duration::from_micros(300));
                            *guard += 1;
                        });
                    }
                });
            }
        });
    });
});

case!(a_condition_that_waits {
    assert!(!waiter_beside_leavers(|value| {
        raddle::sleep(Duration::from_micros(20));
        raddle::yield_now();
        *value > 100
    }));
});

case!(conditions_that_wait_evaluated_by_those_that_wait {
    let monitor = Monitor::new(0u32);
    let asked = raddle::sync::Mutex::new(0u32);
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..12u32 {
                let (monitor, asked) = (&monitor, &asked);
                s.spawn(move || {
                    for round in 0..10u32 {
                        let mut guard = monitor.enter().unwrap();
                        guard.wait_until(|value| {
                            *asked.lock().unwrap() += 1;
                            raddle::sleep(Duration::from_micros(10));
                            *value == round * 12 + number
                        });
                        *guard += 1;
                    }
                });
            }
        });
    });
    assert_eq!(*monitor.enter().unwrap(), 120);
});

case!(a_condition_that_enters_its_own_monitor {
    quiet();
    static MONITOR: Monitor<u32> = Monitor::new(0);
    let entered = AtomicU32::new(0);
    pool(2).run(|| {
        assert!(panics(|| {
            let mut guard = MONITOR.enter().unwrap();
            guard.wait_until(|_| {
                entered.fetch_add(1, Ordering::Relaxed);
                *MONITOR.enter().unwrap_or_else(|poisoned| poisoned.into_inner()) > 0
            });
        }));
    });
    assert_eq!(entered.into_inner(), 1);
});

case!(a_condition_that_spawns_and_joins {
    assert!(!waiter_beside_leavers(|value| {
        let value = *value;
        raddle::spawn(move || value > 50).join().unwrap()
    }));
});

case!(a_condition_that_forks_a_scope_and_joins_halves {
    assert!(!waiter_beside_leavers(|value| {
        let hits = AtomicU32::new(0);
        raddle::scope(|s| s.fork(|| _ = hits.fetch_add(1, Ordering::Relaxed)));
        let (left, right) = raddle::join(|| *value > 20, || *value > 30);
        left && right && hits.into_inner() == 1
    }));
});

case!(a_guard_that_is_forgotten_keeps_others_out_and_no_more, On::Lightweight, {
    let monitor = Monitor::new(7u32);
    pool(1).run(|| {
        std::mem::forget(monitor.enter().unwrap());
        raddle::scope(|s| {
            let handle = s.spawn(|| monitor.enter_cancellable().is_err());
            raddle::yield_now();
            handle.cancel();
            assert!(handle.join().unwrap());
        });
    });
    assert_eq!(monitor.into_inner().unwrap(), 7);
});
