//! Halves of `join` reach processors that become idle while the first half computes. None of these tests depends on
//! timing: without the remedy they do not end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn spin_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

/// Both processors of a pool are busy when `f` runs; the other one becomes idle when `f` sets its flag.
fn beside_a_busy_processor(f: impl Fn(&AtomicBool) + Send + Sync) {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let (runs, end) = (AtomicBool::new(false), AtomicBool::new(false));
    pool.run(|| {
        raddle::scope(|s| {
            s.spawn(|| {
                runs.store(true, Ordering::Release);
                spin_until(&end);
            });
            while !runs.load(Ordering::Acquire) {
                raddle::yield_now();
            }
            f(&end);
        });
    });
}

#[test]
fn a_first_half_that_computes_on_gives_its_second_to_a_processor_that_becomes_idle() {
    let given = AtomicBool::new(false);
    let before = raddle::info::stats().halves_given;
    beside_a_busy_processor(|other| {
        given.store(false, Ordering::Relaxed);
        raddle::join(
            || {
                other.store(true, Ordering::Release);
                spin_until(&given);
            },
            || given.store(true, Ordering::Release),
        );
    });
    // Nobody was idle at the join, so it was asked for.
    assert!(raddle::info::stats().halves_given > before);
}

/// A kernel thread may lose its core between a half's beginning and its first step, so that the next one is before it:
/// once in a while, not each time.
#[test]
fn all_halves_that_wait_are_given_the_oldest_first() {
    let mut others = Vec::new();
    while others.len() < 20 {
        match order_of_halves() {
            [0, 1, 2] => return,
            other => others.push(other),
        }
    }
    panic!("{others:?}");
}

/// Of the outermost, its first half's and the innermost one: whose turn it was.
fn order_of_halves() -> [usize; 3] {
    let seen = Mutex::new([0; 3]);
    let order = AtomicUsize::new(0);
    let [a, b, c] = [const { AtomicBool::new(false) }; 3];
    beside_a_busy_processor(|other| {
        let give = |flag: &AtomicBool| {
            // Before the flag lets the next one go on.
            let place = order.fetch_add(1, Ordering::AcqRel);
            flag.store(true, Ordering::Release);
            place
        };
        let ((((), third), second), first) = raddle::join(
            || {
                raddle::join(
                    || {
                        raddle::join(
                            || {
                                other.store(true, Ordering::Release);
                                [&a, &b, &c].into_iter().for_each(spin_until);
                            },
                            || give(&c),
                        )
                    },
                    || give(&b),
                )
            },
            || give(&a),
        );
        *seen.lock().unwrap() = [first, second, third];
    });
    seen.into_inner().unwrap()
}

/// Requests arrive anywhere in trees of joins whose leaves compute: each half runs once, and panics come out.
#[test]
fn requests_at_any_instant_of_a_tree_of_joins_run_each_half_once() {
    fn tree(depth: u32, leaves: &AtomicUsize) -> u64 {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            (0..200u64).for_each(|i| {
                std::hint::black_box(i);
            });
            return 1;
        }
        let (x, y) = raddle::join(|| tree(depth - 1, leaves), || tree(depth - 1, leaves));
        x + y
    }
    let pool = raddle::Builder::new().processors(3).build().unwrap();
    pool.run(|| {
        for _ in 0..40 {
            let leaves = AtomicUsize::new(0);
            assert_eq!(tree(14, &leaves), 1 << 14);
            assert_eq!(leaves.into_inner(), 1 << 14);
        }
        let caught = std::panic::catch_unwind(|| {
            raddle::join(|| panic!("first"), || tree(10, &AtomicUsize::new(0)));
        });
        assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"first"));
    });
}
