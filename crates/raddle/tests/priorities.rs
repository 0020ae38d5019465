//! Priorities through the runtime: strict among ready threads, and an outranked runner switches at its next check.

mod undisturbed;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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

/// Of two processors, the one that runs the less important thread is asked to give way.
#[test]
fn who_is_the_least_important_of_those_that_run_gives_way() {
    #[derive(Default)]
    struct Run {
        both_spawned: AtomicBool,
        begun: AtomicUsize,
        spawned: AtomicBool,
        ran: AtomicBool,
        over: AtomicBool,
    }
    let pool = raddle::Builder::new().processors(2).policy("priority(4, steal)").build().unwrap();
    for priority in [0, 1, 2] {
        let gave_way = undisturbed(|| {
            let run = Arc::new(Run::default());
            let [first, second, third] = [(); 3].map(|()| run.clone());
            // Makes no check, so nobody runs in its place.
            let urgent = at(0).spawn_into(&pool, move || {
                first.begun.fetch_add(1, Ordering::SeqCst);
                while !first.over.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            });
            let low = at(3).spawn_into(&pool, move || {
                // What its processor was asked for while these two began is over.
                while !second.both_spawned.load(Ordering::SeqCst) || second.begun.load(Ordering::SeqCst) == 0 {
                    raddle::check();
                }
                raddle::check();
                second.begun.fetch_add(1, Ordering::SeqCst);
                while !second.spawned.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                raddle::check();
                let gave_way = second.ran.load(Ordering::SeqCst);
                second.over.store(true, Ordering::SeqCst);
                gave_way
            });
            run.both_spawned.store(true, Ordering::SeqCst);
            while run.begun.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            let third = at(priority).spawn_into(&pool, move || third.ran.store(true, Ordering::SeqCst));
            run.spawned.store(true, Ordering::SeqCst);
            let gave_way = low.unwrap().join().unwrap();
            [urgent, third].into_iter().for_each(|thread| thread.unwrap().join().unwrap());
            gave_way
        });
        assert!(gave_way, "{priority}");
    }
}

/// Whether it was spawned or woken by the one that runs, or comes from outside: a check lets in who is more important.
#[test]
fn a_check_gives_way_to_nobody_of_the_same_importance() {
    #[derive(Default)]
    struct Run {
        begun: AtomicBool,
        spawned: AtomicBool,
        steps: AtomicUsize,
    }
    let pool = pool("priority(2, steal)");
    let steps = undisturbed(|| {
        let run = Arc::new(Run::default());
        let [first, second, third] = [(); 3].map(|()| run.clone());
        let runs = at(1).spawn_into(&pool, move || {
            let steps_at_check = || {
                raddle::check();
                first.steps.load(Ordering::SeqCst)
            };
            // What the processor was asked for while this one began is over.
            raddle::check();
            let other = at(1).spawn(move || {
                second.steps.fetch_add(1, Ordering::SeqCst);
                raddle::park();
                second.steps.fetch_add(1, Ordering::SeqCst);
            });
            let at_spawn = steps_at_check();
            while first.steps.load(Ordering::SeqCst) == 0 {
                raddle::yield_now();
            }
            let other = other.unwrap();
            other.thread().unpark();
            let at_wake = steps_at_check();
            other.join().unwrap();
            first.begun.store(true, Ordering::SeqCst);
            while !first.spawned.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            [at_spawn, at_wake, steps_at_check()]
        });
        while !run.begun.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        let outside = at(1).spawn_into(&pool, move || third.steps.fetch_add(1, Ordering::SeqCst));
        run.spawned.store(true, Ordering::SeqCst);
        let steps = runs.unwrap().join().unwrap();
        outside.unwrap().join().unwrap();
        steps
    });
    assert_eq!(steps, [0, 1, 2], "after a spawn, a wake-up, and a spawn from outside");
}
