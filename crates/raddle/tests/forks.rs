//! Tasks of a scope (`Scope::fork`): each runs once, before the scope ends; others get them when they want them. None
//! of these tests depends on timing: without the remedy they do not end.

mod undisturbed;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn on(processors: usize, f: impl FnOnce() + Send) {
    raddle::Builder::new().processors(processors).build().unwrap().run(f);
}

fn spin_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
}

fn yield_until(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        raddle::yield_now();
    }
}

/// Runs `f` in a scope while the pool's other processor is busy, until `f` sets its flag.
fn beside_a_busy_processor(f: impl FnOnce(&AtomicBool) + Send) {
    let (runs, end) = (AtomicBool::new(false), AtomicBool::new(false));
    on(2, || {
        raddle::scope(|s| {
            s.spawn(|| {
                runs.store(true, Ordering::Release);
                spin_until(&end);
            });
            yield_until(&runs);
            f(&end);
        });
    });
}

#[test]
fn tasks_nobody_wants_are_plain_calls_the_newest_first() {
    thread_local!(static HERE: Cell<bool> = const { Cell::new(false) });
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let (early, order) = undisturbed::undisturbed(|| {
        pool.run(|| {
            let order = std::sync::Mutex::new(Vec::new());
            HERE.set(true);
            let early = raddle::scope(|s| {
                for i in 0..3 {
                    let order = &order;
                    s.fork(move || order.lock().unwrap().push((i, HERE.get())));
                }
                order.lock().unwrap().len()
            });
            (early, order.into_inner().unwrap())
        })
    });
    assert_eq!(early, 0, "nothing runs before the scope's end");
    assert_eq!(order, [(2, true), (1, true), (0, true)]);
}

#[test]
fn a_scope_that_computes_on_gives_its_tasks_to_a_processor_that_becomes_idle() {
    let order = AtomicUsize::new(0);
    let places = [const { AtomicUsize::new(usize::MAX) }; 3];
    let done = AtomicBool::new(false);
    beside_a_busy_processor(|other| {
        raddle::scope(|s| {
            for place in &places {
                let (order, done) = (&order, &done);
                s.fork(move || {
                    place.store(order.fetch_add(1, Ordering::AcqRel), Ordering::Relaxed);
                    done.store(order.load(Ordering::Acquire) == 3, Ordering::Release);
                });
            }
            // Nobody was idle at the forks: they have to be asked for.
            other.store(true, Ordering::Release);
            spin_until(&done);
        });
    });
    assert_eq!(places.map(|place| place.into_inner()), [0, 1, 2], "the oldest is given first");
}

#[test]
fn tasks_may_wait_for_each_other_and_for_those_of_an_outer_scope() {
    on(1, || {
        let (a, b, c) =
            (raddle::sync::Semaphore::new(0), raddle::sync::Semaphore::new(0), raddle::sync::Semaphore::new(0));
        raddle::scope(|outer| {
            outer.fork(|| {
                c.acquire(1);
                a.release(1);
            });
            raddle::scope(|inner| {
                inner.fork(|| c.release(1));
                // Runs first, as a plain call, and needs the two others.
                inner.fork(|| {
                    a.acquire(1);
                    b.release(1);
                });
            });
            b.acquire(1);
        });
    });
}

#[test]
fn a_yield_loop_that_waits_for_a_task_ends() {
    on(1, || {
        let done = AtomicBool::new(false);
        raddle::scope(|s| {
            s.fork(|| done.store(true, Ordering::Release));
            yield_until(&done);
        });
    });
}

#[test]
fn a_task_of_an_outer_scope_that_is_forked_in_a_half_is_seen_beyond_it() {
    on(1, || {
        let (half, task) = (raddle::sync::Semaphore::new(0), raddle::sync::Semaphore::new(0));
        raddle::scope(|s| {
            raddle::join(
                || {
                    // Makes the half a thread; the task that comes now is older than it on the stack, and not yet one.
                    half.acquire(1);
                    s.fork(|| task.release(1));
                    task.acquire(1);
                },
                || half.release(1),
            );
        });
    });
}

/// Counts how often it is dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Wide([u64; 40]);

#[test]
fn tasks_of_any_size_that_fork_further_ones_run_and_drop_once() {
    let (ran, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for processors in [1, 3] {
        ran.store(0, Ordering::Relaxed);
        dropped.store(0, Ordering::Relaxed);
        on(processors, || {
            raddle::scope(|s| {
                for i in 0..200u64 {
                    let (counted, again) = (Counted(dropped.clone()), Counted(dropped.clone()));
                    let (ran, wide) = (&ran, Wide([i; 40]));
                    s.fork(move || {
                        let _counted = counted;
                        // From another thread than the scope's, if this is one.
                        s.fork(move || {
                            let _again = again;
                            assert!(wide.0.iter().all(|&word| word == i));
                            assert!((&raw const wide).is_aligned());
                            ran.fetch_add(1, Ordering::Relaxed);
                            s.fork(move || _ = ran.fetch_add(1, Ordering::Relaxed));
                        });
                        ran.fetch_add(1, Ordering::Relaxed);
                    });
                    if i % 64 == 63 {
                        raddle::yield_now();
                    }
                }
            });
            assert_eq!((ran.load(Ordering::Relaxed), dropped.load(Ordering::Relaxed)), (600, 400));
        });
    }
}

#[test]
fn a_panic_of_a_task_is_the_scopes_when_all_have_run() {
    for processors in [1, 2] {
        on(processors, || {
            let ran = AtomicUsize::new(0);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                raddle::scope(|s| {
                    for i in 0..10 {
                        let ran = &ran;
                        s.fork(move || {
                            ran.fetch_add(1, Ordering::Relaxed);
                            assert_ne!(i, 5, "one of ten");
                        });
                    }
                });
            }));
            assert!(caught.is_err());
            assert_eq!(ran.load(Ordering::Relaxed), 10);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                raddle::scope(|s| {
                    s.fork(|| _ = ran.fetch_add(1, Ordering::Relaxed));
                    panic!("the scope's own");
                });
            }));
            assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"the scope's own"));
            assert_eq!(ran.load(Ordering::Relaxed), 11);
        });
    }
}

#[test]
fn a_scope_on_a_kernel_thread_spawns() {
    let ran = AtomicUsize::new(0);
    raddle::scope(|s| (0..10).for_each(|_| s.fork(|| _ = ran.fetch_add(1, Ordering::Relaxed))));
    assert_eq!(ran.into_inner(), 10);
}

/// Requests arrive anywhere in trees of tasks, joins and threads whose leaves compute: each leaf is counted once.
#[test]
fn requests_at_any_instant_of_a_tree_of_tasks_run_each_once() {
    fn tree(depth: u32, leaves: &AtomicUsize) -> u64 {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            (0..200u64).for_each(|i| {
                std::hint::black_box(i);
            });
            return 1;
        }
        if depth.is_multiple_of(5) {
            let (x, y) = raddle::join(|| tree(depth - 1, leaves), || tree(depth - 1, leaves));
            return x + y;
        }
        let mut sums = [0; 3];
        raddle::scope(|s| {
            for (i, sum) in sums.iter_mut().enumerate() {
                if i == 2 && depth == 6 {
                    s.spawn(move || *sum = tree(depth - 1, leaves));
                } else {
                    s.fork(move || *sum = tree(depth - 1, leaves));
                }
            }
        });
        sums.iter().sum()
    }
    on(3, || {
        for _ in 0..20 {
            let leaves = AtomicUsize::new(0);
            let count = 2u64.pow(2) * 3u64.pow(8);
            assert_eq!(tree(10, &leaves), count);
            assert_eq!(leaves.into_inner() as u64, count);
        }
    });
}
