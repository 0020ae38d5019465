//! Panics whose payloads panic when they are dropped. A scope waits for its threads all the same.

use crate::harness::{Bomb, On, panics, pool, quiet};
use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A long stay in the scope, whose end `running` tells.
fn stay(running: &AtomicBool) {
    raddle::sleep(Duration::from_millis(20));
    running.store(false, Ordering::Release);
}

/// Runs `f` in a scope beside a thread that stays: the scope must not end before that.
fn beside_one_that_stays(f: impl FnOnce(&dyn Fn()) + Send) -> bool {
    quiet();
    pool(2).run(|| {
        let running = AtomicBool::new(true);
        let panicked = panics(|| {
            raddle::scope(|s| {
                s.spawn(|| stay(&running));
                f(&|| assert!(running.load(Ordering::Acquire)));
            });
        });
        assert!(!running.load(Ordering::Acquire), "the scope ended before its thread");
        panicked
    })
}

case!(a_scope_whose_closure_panics_with_a_bomb_waits {
    assert!(beside_one_that_stays(|_| panic_any(Bomb(3))));
});

case!(a_scope_with_a_task_that_panics_with_a_bomb_waits {
    quiet();
    for depth in [0, 1, 2, 100] {
        pool(2).run(|| {
            let running = AtomicBool::new(true);
            assert!(panics(|| {
                raddle::scope(|s| {
                    s.spawn(|| stay(&running));
                    s.fork(move || panic_any(Bomb(depth)));
                });
            }));
            assert!(!running.load(Ordering::Acquire), "the scope ended before its thread");
        });
    }
});

case!(a_task_that_became_a_thread_and_panics_with_a_bomb {
    quiet();
    pool(1).run(|| {
        let running = AtomicBool::new(true);
        assert!(panics(|| {
            raddle::scope(|s| {
                s.fork(|| stay(&running));
                s.fork(|| panic_any(Bomb(2)));
                s.fork(|| panic_any(Bomb(1)));
                // They become threads.
                raddle::sleep(Duration::from_millis(1));
            });
        }));
        assert!(!running.load(Ordering::Acquire), "the scope ended before its thread");
    });
});

case!(threads_of_a_scope_that_panic_with_bombs_and_nobody_joins {
    quiet();
    pool(2).run(|| {
        let running = AtomicBool::new(true);
        assert!(panics(|| {
            raddle::scope(|s| {
                s.spawn(|| stay(&running));
                for depth in 0..4 {
                    drop(s.spawn(move || panic_any(Bomb(depth))));
                }
            });
        }));
        assert!(!running.load(Ordering::Acquire), "the scope ended before its thread");
    });
});

case!(a_half_that_panics_with_a_bomb_while_the_other_runs, On::Lightweight, {
    quiet();
    pool(2).run(|| {
        let running = AtomicBool::new(true);
        assert!(panics(|| {
            raddle::join(
                || {
                    // The other half becomes a thread.
                    raddle::sleep(Duration::from_millis(1));
                    panic_any(Bomb(2));
                },
                || stay(&running),
            )
        }));
        assert!(!running.load(Ordering::Acquire), "the frame ended before the half that borrows from it");
    });
});

case!(both_halves_panic_with_bombs {
    quiet();
    assert!(pool(2).run(|| panics(|| raddle::join(
        || {
            raddle::yield_now();
            panic_any(Bomb(2))
        },
        || panic_any(Bomb(2)),
    ))));
});

/// Its drop panics with a bomb.
struct Mine;
impl Drop for Mine {
    fn drop(&mut self) {
        panic_any(Bomb(5));
    }
}

case!(results_whose_drop_panics_and_that_nobody_wants {
    quiet();
    pool(2).run(|| {
        raddle::scope(|s| {
            for _ in 0..10 {
                // Dropped here or on the thread, whichever is later.
                panics(|| drop(s.spawn(|| Mine)));
            }
        });
    });
    // Detached: the thread drops the result, and ends in peace.
    pool(1).run(|| {
        for _ in 0..10 {
            panics(|| drop(raddle::spawn(|| Mine)));
            raddle::yield_now();
        }
    });
});

case!(a_closure_whose_drop_panics {
    quiet();
    pool(2).run(|| {
        let mine = Mine;
        let thread = raddle::spawn(move || {
            let _mine = &mine;
        });
        match thread.join() {
            Ok(()) => panic!("the drop of the closure panicked"),
            Err(payload) => std::mem::forget(payload),
        }
    });
});

case!(a_spawn_that_fails_drops_a_closure_whose_drop_panics {
    quiet();
    pool(2).run(|| {
        raddle::scope(|s| {
            let mine = Mine;
            // No such priority, no such stack.
            let _ = s.spawn_with(raddle::thread::Builder::new().priority(9), move || drop(mine)).is_err();
            let mine = Mine;
            let _ = s.spawn_with(raddle::thread::Builder::new().stack_size(usize::MAX), move || drop(mine)).is_err();
        });
    });
});

case!(a_pool_whose_run_panics_with_a_bomb {
    quiet();
    let pool = pool(1);
    assert!(panics(|| pool.run(|| panic_any(Bomb(4)))));
    assert_eq!(pool.run(|| 7), 7);
});

case!(thread_local_values_whose_drops_wait {
    thread_local! {
        static LATE: Late = const { Late };
    }
    struct Late;
    static DROPS: AtomicU32 = AtomicU32::new(0);
    impl Drop for Late {
        fn drop(&mut self) {
            raddle::sleep(Duration::from_millis(2));
            raddle::yield_now();
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let pool = pool(2);
    pool.run(|| {
        let threads: Vec<_> = (0..20).map(|_| raddle::spawn(|| LATE.with(|_| ()))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(DROPS.load(Ordering::Relaxed), 20, "a join returned before the destructors had run");
    });
});

case!(a_future_that_panics_with_a_bomb, On::Both, {
    quiet();
    assert!(pool(1).run(|| panics(|| raddle::block_on(async { panic_any(Bomb(3)) }))));
});
