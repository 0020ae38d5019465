//! Priorities through the runtime: strict among ready threads, and an outranked runner switches at its next check.

mod undisturbed;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use undisturbed::undisturbed;

fn pool(policy: &str) -> raddle::Pool {
    raddle::Builder::new().processors(1).policy(policy).build().unwrap()
}

fn at(priority: u8) -> raddle::thread::Builder {
    raddle::thread::Builder::new().priority(priority)
}

#[test]
fn the_more_important_run_first() {
    for policy in ["priority(3, lifo)", "priority(3, steal)"] {
        let pool = pool(policy);
        let order = undisturbed(|| {
            let order = Mutex::new(Vec::new());
            pool.run(|| {
                raddle::scope(|s| {
                    for priority in [2u8, 1, 0, 2, 1, 0] {
                        let order = &order;
                        s.spawn_with(at(priority), move || order.lock().unwrap().push(priority)).unwrap();
                    }
                });
            });
            order.into_inner().unwrap()
        });
        assert_eq!(order, [0, 0, 1, 1, 2, 2], "{policy}");
    }
}

#[test]
fn an_outranked_thread_switches_at_its_next_check() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    static URGENT_RAN: AtomicBool = AtomicBool::new(false);
    let pool = pool("priority(2, steal)");
    let low = at(1).spawn_into(&pool, || {
        STARTED.store(true, Ordering::Release);
        // Ends only when a check lets the urgent thread run: a yield would do so too, so this uses none.
        while !URGENT_RAN.load(Ordering::Acquire) {
            raddle::check();
        }
    });
    while !STARTED.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let urgent = at(0).spawn_into(&pool, || URGENT_RAN.store(true, Ordering::Release));
    urgent.unwrap().join().unwrap();
    low.unwrap().join().unwrap();
}

#[test]
fn a_yield_passes_over_the_less_important() {
    let pool = pool("priority(2, steal)");
    let order = undisturbed(|| {
        let order = Mutex::new(Vec::new());
        pool.run(|| {
            raddle::scope(|s| {
                let order = &order;
                s.spawn_with(at(1), move || order.lock().unwrap().push("low")).unwrap();
                for _ in 0..3 {
                    raddle::yield_now();
                    order.lock().unwrap().push("high");
                }
            });
        });
        order.into_inner().unwrap()
    });
    assert_eq!(order, ["high", "high", "high", "low"]);
}

#[test]
fn one_check_is_enough_for_a_more_important_thread_whatever_is_left_of_the_quantum() {
    let pool = pool("priority(2, steal)");
    let low = at(1).spawn_into(&pool, || {
        // A quantum that ends just then would do the same: it does not a hundred times.
        for _ in 0..100 {
            static URGENT_RAN: AtomicBool = AtomicBool::new(false);
            URGENT_RAN.store(false, Ordering::Relaxed);
            let urgent = at(0).spawn(|| URGENT_RAN.store(true, Ordering::Relaxed)).unwrap();
            raddle::check();
            assert!(URGENT_RAN.load(Ordering::Relaxed));
            urgent.join().unwrap();
        }
    });
    low.unwrap().join().unwrap();
}
