//! Spares and their orders in all interleavings: each is taken by one, and no order is slept through.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::spares::{Orders, Spares};

const STOP: usize = 1;
const CARRY: usize = 2;

#[derive(Default)]
struct Pool {
    spares: Spares<Loom, 1>,
    orders: [Orders<Loom>; 3],
}

#[test]
fn an_order_is_not_slept_through_and_what_was_done_before_it_is_seen() {
    explore(3, &["(2, 2)"], || {
        let shared = Arc::new((Orders::<Loom>::default(), Watched::new()));
        let giver = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.add();
                shared.0.give(CARRY);
            })
        };
        let order = shared.0.wait();
        let seen = shared.1.add();
        giver.join().unwrap();
        (order, seen)
    });
}

#[test]
fn a_spare_that_lists_itself_is_taken_by_one_who_sees_what_it_did() {
    explore(3, &["0", "1"], || {
        let shared = Arc::new((Spares::<Loom, 1>::default(), Watched::new()));
        let spare = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.1.add();
                assert!(shared.0.list(1), "there is room");
            })
        };
        let take = |shared: &(Spares<Loom, 1>, Watched)| {
            let taken = shared.0.take();
            if taken.is_some() {
                assert_eq!(shared.1.add(), 2);
            }
            u32::from(taken.is_some())
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || take(&shared))
        };
        let taken = take(&shared) + other.join().unwrap();
        spare.join().unwrap();
        assert_eq!(taken + shared.0.count() as u32, 1);
        taken
    });
}

/// The life of two spares, of which the list holds one, and the end of their pool, which looks until both have ended.
#[test]
fn each_spare_carries_what_it_is_told_to_and_ends_with_its_pool() {
    explore(2, &["(1, true)", "(2, true)"], || {
        let pool = Arc::new(Pool::default());
        // One was taken for an order, and has it; the other one begins to wait.
        pool.orders[1].give(CARRY);
        let ended = [1, 2].map(|me| Arc::new((me, loom::sync::atomic::AtomicBool::new(false))));
        let spares = ended.clone().map(|ended| {
            let pool = pool.clone();
            thread::spawn(move || {
                let me = ended.0;
                let mut carried = 0;
                if me == 2 && !pool.spares.list(2) {
                    pool.orders[2].give(STOP);
                }
                while pool.orders[me as usize].wait() != STOP {
                    carried += 1;
                    if !pool.spares.list(me) {
                        break;
                    }
                }
                ended.1.store(true, loom::sync::atomic::Ordering::Relaxed);
                carried
            })
        });
        // Somebody needs one, if there is one.
        if let Some(spare) = pool.spares.take() {
            pool.orders[spare as usize].give(CARRY);
        }
        while !ended.iter().all(|ended| ended.1.load(loom::sync::atomic::Ordering::Relaxed)) {
            if let Some(spare) = pool.spares.take() {
                pool.orders[spare as usize].give(STOP);
            }
            thread::yield_now();
        }
        let carried: u32 = spares.into_iter().map(|spare| spare.join().unwrap()).sum();
        (carried, pool.spares.count() == 0)
    });
}
