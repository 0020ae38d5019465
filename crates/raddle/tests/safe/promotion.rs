//! What waits as a record and becomes a thread runs once, whatever happens while it becomes one.

use crate::harness::{On, pool};
use crate::policies::Odd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Forks `count` tasks with a short sleep each; how often each has run.
fn fork_many(pool: &raddle::Pool, count: usize) -> Vec<u32> {
    let runs: Vec<AtomicU32> = (0..count).map(|_| AtomicU32::new(0)).collect();
    pool.run(|| {
        raddle::scope(|s| {
            for runs in &runs {
                s.fork(move || {
                    raddle::sleep(Duration::from_micros(200));
                    runs.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
    });
    runs.into_iter().map(AtomicU32::into_inner).collect()
}

case!(tasks_run_once_though_a_full_queue_makes_the_spawn_yield {
    let pool = raddle::Builder::new().processors(2).policy("local(overflow=retry)").build().unwrap();
    assert_eq!(fork_many(&pool, 700), [1; 700]);
});

case!(a_task_runs_once_though_its_own_promotion_yields {
    let odd = Odd::default();
    let pool = odd.builder(1).build().unwrap();
    let ran = AtomicU32::new(0);
    pool.run(|| {
        raddle::scope(|s| {
            s.fork(|| _ = ran.fetch_add(1, Ordering::Relaxed));
            odd.dry.store(1, Ordering::Relaxed);
            odd.crowded.store(1, Ordering::Relaxed);
            // Nothing else is ready: the task becomes a thread, whose spawn yields, and so on.
            raddle::yield_now();
        });
    });
    assert_eq!(ran.into_inner(), 1);
});

case!(many_tasks_run_once_though_every_promotion_yields {
    let odd = Odd::default();
    odd.crowded.store(10_000, Ordering::Relaxed);
    odd.dry.store(10_000, Ordering::Relaxed);
    let pool = odd.builder(1).build().unwrap();
    assert_eq!(fork_many(&pool, 700), [1; 700]);
});

case!(a_half_runs_once_though_its_own_promotion_yields {
    let odd = Odd::default();
    let pool = odd.builder(1).build().unwrap();
    let ran = AtomicU32::new(0);
    // A second run finds nothing to run, and panics where nobody sees it.
    static PANICS: AtomicU32 = AtomicU32::new(0);
    std::panic::set_hook(Box::new(|_| _ = PANICS.fetch_add(1, Ordering::Relaxed)));
    let ((), seven) = pool.run(|| {
        raddle::join(
            || {
                odd.dry.store(1, Ordering::Relaxed);
            odd.crowded.store(1, Ordering::Relaxed);
                raddle::yield_now();
            },
            || {
                ran.fetch_add(1, Ordering::Relaxed);
                7
            },
        )
    });
    drop(pool);
    assert_eq!((seven, ran.into_inner(), PANICS.load(Ordering::Relaxed)), (7, 1, 0));
});

fn tree(depth: u32) -> u32 {
    if depth == 0 {
        raddle::sleep(Duration::from_micros(100));
        return 1;
    }
    let (left, right) = raddle::join(|| tree(depth - 1), || tree(depth - 1));
    left + right
}

case!(a_tree_of_halves_that_block_under_a_crowded_policy {
    let odd = Odd::default();
    odd.crowded.store(u32::MAX, Ordering::Relaxed);
    odd.dry.store(u32::MAX, Ordering::Relaxed);
    let pool = odd.builder(2).build().unwrap();
    assert_eq!(pool.run(|| tree(8)), 256);
});

case!(halves_that_compute_and_are_asked_for_run_once, On::Lightweight, {
    // The second processor sleeps, so the monitor asks the first, which computes.
    let odd = Odd::default();
    odd.crowded.store(u32::MAX, Ordering::Relaxed);
    odd.dry.store(u32::MAX, Ordering::Relaxed);
    let pool = odd.builder(2).build().unwrap();
    let runs: Vec<AtomicU32> = (0..6).map(|_| AtomicU32::new(0)).collect();
    pool.run(|| {
        raddle::scope(|s| {
            for runs in &runs {
                s.fork(move || _ = runs.fetch_add(1, Ordering::Relaxed));
            }
            // Until one was given, or for a while: a monitor that nobody runs gives none.
            let begun = std::time::Instant::now();
            while runs.iter().all(|r| r.load(Ordering::Relaxed) == 0) && begun.elapsed() < Duration::from_secs(2) {
                std::hint::spin_loop();
            }
        });
    });
    assert!(runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
});

case!(a_tree_of_scopes_and_halves_on_a_small_pool {
    fn grow(depth: u32, leaves: &AtomicU32) {
        if depth == 0 {
            raddle::yield_now();
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        raddle::scope(|s| {
            s.fork(|| grow(depth - 1, leaves));
            s.fork(|| {
                raddle::join(|| grow(depth - 1, leaves), raddle::yield_now);
            });
        });
    }
    let leaves = AtomicU32::new(0);
    pool(2).run(|| grow(8, &leaves));
    assert_eq!(leaves.into_inner(), 256);
});
