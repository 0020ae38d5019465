//! Cancellation goes from a scope, or from the thread that owns it, to all threads below, whatever these wait for. What
//! is not reached waits for an hour, so that the test does not end.

use raddle::sync::{Mutex, Semaphore, WaitError, channel};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// What a tree of scopes counts.
#[derive(Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A thread with `width` below it, each in a scope of its own thread's, `depth` times. The threads in between wait in
/// all the ways in which a thread waits for others below it, which are masked; those at the ends wait as they like.
fn tree(counts: &Counts, depth: u32, width: u64, way: u64) {
    struct Out<'a>(&'a Counts);
    impl Drop for Out<'_> {
        fn drop(&mut self) {
            self.0.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
    let _out = Out(counts);
    counts.begun.fetch_add(1, Ordering::Relaxed);
    let below = |child: u64| tree(counts, depth - 1, width, way * width + child);
    match (depth, way % 4) {
        (0, 0) => raddle::sleep(HOUR),
        (0, 1) => assert!(Semaphore::new(0).acquire_cancellable(1).is_err()),
        (0, 2) => raddle::park(),
        (0, _) => {
            let (_sender, receiver) = channel::bounded::<u64>(1);
            assert_eq!(receiver.recv(), Err(channel::RecvError::Cancelled));
        }
        // At the end of the scope.
        (_, 0) => raddle::scope(|s| (0..width).for_each(|child| drop(s.spawn(move || below(child))))),
        // In a join of a thread, which is masked.
        (_, 1) => raddle::scope(|s| {
            let all: Vec<_> = (0..width).map(|child| s.spawn(move || below(child))).collect();
            all.into_iter().for_each(|thread| thread.join().unwrap());
        }),
        // For a lock that one below holds.
        (_, 2) => {
            let (lock, held) = (Mutex::new(()), Semaphore::new(0));
            raddle::scope(|s| {
                s.spawn(|| {
                    let _guard = lock.lock().unwrap();
                    held.release(1);
                    (0..width).for_each(&below);
                });
                held.acquire(1);
                drop(lock.lock().unwrap());
            });
        }
        // In two scopes, one within the other.
        (_, _) => raddle::scope(|outer| {
            outer.spawn(|| below(0));
            raddle::scope(|s| (1..width).for_each(|child| drop(s.spawn(move || below(child)))));
        }),
    }
}

/// Threads of a tree all of whose ends wait: in the way with a lock, those of one thread come one after the other.
fn begun(depth: u32, width: u64, way: u64) -> u64 {
    match (depth, way % 4) {
        (0, _) => 1,
        (_, 2) => 1 + begun(depth - 1, width, way * width),
        _ => 1 + (0..width).map(|child| begun(depth - 1, width, way * width + child)).sum::<u64>(),
    }
}

fn all(depth: u32, width: u64) -> u64 {
    (0..=depth).map(|depth| width.pow(depth)).sum()
}

fn await_count(counter: &AtomicU64, count: u64) {
    while counter.load(Ordering::Relaxed) < count {
        raddle::yield_now();
    }
}

fn cancel_tree(pool: &raddle::Pool, depth: u32, width: u64, by_handle: bool) {
    let counts = Counts::default();
    pool.run(|| {
        raddle::scope(|s| {
            let root = s.spawn(|| tree(&counts, depth, width, 0));
            await_count(&counts.begun, begun(depth, width, 0));
            assert_eq!(counts.ended.load(Ordering::Relaxed), 0);
            if by_handle {
                root.cancel()
            } else {
                s.cancel()
            }
            root.join().unwrap();
        });
    });
    assert_eq!(counts.begun.into_inner(), all(depth, width));
    assert_eq!(counts.ended.into_inner(), all(depth, width));
}

#[test]
fn a_tree_is_cancelled_from_its_root() {
    for policy in ["steal", "fifo", "local(lifo, overflow=retry)"] {
        for processors in [1, 2, 3] {
            let builder = raddle::Builder::new().processors(processors).policy(policy);
            let pool = builder.build().unwrap();
            for by_handle in [true, false] {
                cancel_tree(&pool, 5, 3, by_handle);
                // Deep and narrow.
                cancel_tree(&pool, 60, 1, by_handle);
            }
        }
    }
}

/// `RADDLE_CANCELLED=N` sets how many wait at the ends (4,096 unless told).
#[test]
fn a_wave_ends_a_deep_and_wide_tree() {
    let ends: u64 = std::env::var("RADDLE_CANCELLED").map_or(4_096, |text| text.parse().unwrap());
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let (width, depth) = (16, (ends as f64).log(16.0).round() as u32);
    for round in 0..2 {
        let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        let counts = (&begun, &ended);
        fn node((begun, ended): (&AtomicU64, &AtomicU64), depth: u32, width: u64) {
            begun.fetch_add(1, Ordering::Relaxed);
            match depth {
                0 => raddle::sleep(HOUR),
                _ => raddle::scope(|s| {
                    (0..width).for_each(|_| drop(s.spawn(move || node((begun, ended), depth - 1, width))));
                }),
            }
            ended.fetch_add(1, Ordering::Relaxed);
        }
        pool.run(|| {
            raddle::scope(|s| {
                let root = s.spawn(move || node(counts, depth, width));
                await_count(&begun, all(depth, width));
                let start = std::time::Instant::now();
                root.cancel();
                root.join().unwrap();
                println!(
                    "round {round}: {} threads of a tree {depth} deep ended within {:?}",
                    all(depth, width),
                    start.elapsed()
                );
            });
        });
        assert_eq!(ended.into_inner(), all(depth, width));
    }
}

#[test]
fn threads_that_come_after_the_cancellation_are_cancelled_too() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let cancelled = pool.run(|| {
        raddle::scope(|s| {
            s.cancel();
            let sleeper = s.spawn(|| raddle::sleep(HOUR));
            sleeper.join().unwrap();
            // And those that they spawn, in scopes that they open afterwards.
            s.spawn(|| {
                raddle::sleep(HOUR);
                raddle::scope(|below| {
                    below.spawn(|| raddle::sleep(HOUR));
                });
                raddle::thread::is_cancelled()
            })
            .join()
            .unwrap()
        })
    });
    assert!(cancelled);
}

#[test]
fn only_what_is_below_is_cancelled() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        let go = Semaphore::new(0);
        raddle::scope(|outer| {
            let beside = outer.spawn(|| go.acquire_cancellable(1));
            raddle::scope(|inner| {
                // More than the scope itself has room for.
                (0..100).for_each(|_| drop(inner.spawn(|| raddle::sleep(HOUR))));
                let stranger = raddle::spawn(|| raddle::park_timeout(Duration::from_millis(1)));
                inner.cancel();
                stranger.join().unwrap();
            });
            assert!(!raddle::thread::is_cancelled(), "the owner of a cancelled scope goes on");
            // Threads that ended in the scope have left their records to others, which it does not concern.
            let later: Vec<_> = (0..100).map(|_| outer.spawn(|| go.acquire_cancellable(1))).collect();
            go.release(101);
            assert_eq!(beside.join().unwrap(), Ok(()));
            later.into_iter().for_each(|thread| assert_eq!(thread.join().unwrap(), Ok(())));
        });
    });
}

#[test]
fn halves_and_forked_work_that_have_become_threads_are_reached() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let ended = AtomicU64::new(0);
    let sleep = || {
        raddle::sleep(HOUR);
        ended.fetch_add(1, Ordering::Relaxed);
    };
    pool.run(|| {
        raddle::scope(|s| {
            // Each blocks, so the other becomes a thread.
            let joins = s.spawn(|| raddle::join(sleep, || raddle::join(sleep, sleep)));
            let forks = s.spawn(|| {
                raddle::scope(|below| {
                    (0..3).for_each(|_| below.fork(sleep));
                    sleep();
                });
            });
            joins.cancel();
            forks.cancel();
        });
        // By the scope: what has become a thread is reached by itself, the owner not.
        let entered = &Semaphore::new(0);
        raddle::scope(|s| {
            (0..3).for_each(|_| {
                s.fork(move || {
                    entered.release(1);
                    sleep();
                });
            });
            entered.acquire(3);
            s.cancel();
        });
    });
    assert_eq!(ended.into_inner(), 3 + 4 + 3);
}

/// A first half has ended and its thread waits for the other, which has become a thread: the wait hands a cancellation
/// on. So it does at the end of a scope, and where the first half has panicked.
#[test]
fn who_waits_for_what_has_become_a_thread_hands_the_cancellation_on() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    for way in 0..3 {
        let (begun, left, ended) = (Semaphore::new(0), Semaphore::new(0), AtomicU64::new(0));
        let other = || {
            begun.release(1);
            raddle::sleep(HOUR);
            ended.fetch_add(1, Ordering::Relaxed);
        };
        // Its wait makes a thread of the other, and comes before the cancellation: none of its own hands that on.
        let first = || {
            begun.acquire(1);
            left.release(1);
        };
        let panics = || {
            first();
            std::panic::resume_unwind(Box::new(()))
        };
        pool.run(|| {
            raddle::scope(|s| {
                let owner = s.spawn(|| match way {
                    0 => drop(raddle::join(first, other)),
                    1 => assert!(catch_unwind(AssertUnwindSafe(|| raddle::join(panics, other))).is_err()),
                    _ => raddle::scope(|below| {
                        below.fork(other);
                        first();
                    }),
                });
                left.acquire(1);
                owner.cancel();
            });
        });
        assert_eq!(ended.into_inner(), 1, "way {way}");
    }
}

/// Its owner is cancelled when it is just about to wait, and nobody tells it again: the wait, in which that is masked,
/// hands it on.
#[test]
fn a_scope_whose_owner_is_cancelled_just_before_its_wait_is_cancelled() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    for joins in [false, true] {
        let (begun, [waits, cancelled]) = (Semaphore::new(0), [(); 2].map(|()| AtomicU64::new(0)));
        pool.run(|| {
            raddle::scope(|outside| {
                let owner = outside.spawn(|| {
                    raddle::scope(|s| {
                        let child = s.spawn(|| {
                            begun.release(1);
                            raddle::sleep(HOUR);
                        });
                        begun.acquire(1);
                        waits.store(1, Ordering::Release);
                        while cancelled.load(Ordering::Acquire) == 0 {
                            std::hint::spin_loop();
                        }
                        if joins {
                            child.join().unwrap();
                        }
                    });
                });
                await_count(&waits, 1);
                owner.cancel();
                cancelled.store(1, Ordering::Release);
            });
        });
    }
}

#[test]
fn threads_that_begin_and_end_while_their_scope_is_cancelled() {
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    for round in 0..200 {
        pool.run(|| {
            raddle::scope(|s| {
                let spawner = s.spawn(|| {
                    raddle::scope(|below| {
                        for thread in 0..50 {
                            below.spawn(move || {
                                if thread % 2 == 0 {
                                    raddle::sleep(HOUR)
                                }
                            });
                            if thread == round % 50 {
                                raddle::yield_now();
                            }
                        }
                    });
                });
                (0..round % 7).for_each(|_| raddle::yield_now());
                spawner.cancel();
            });
        });
    }
}

/// A scope that was opened where cancellation is masked, as in what a thread's end runs: its owner's cancellation is
/// not its own.
#[test]
fn a_scope_that_was_opened_under_a_mask_is_not_cancelled_with_its_owner() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let [go, begun, asked] = [(); 3].map(|()| Semaphore::new(0));
    pool.run(|| {
        raddle::scope(|outside| {
            let owner = outside.spawn(|| {
                raddle::drop_in::mask_cancellation(true);
                raddle::scope(|s| {
                    let child = s.spawn(|| {
                        begun.release(1);
                        go.acquire_cancellable(1)
                    });
                    begun.acquire(1);
                    asked.release(1);
                    // In these it is cancelled, and hands that on.
                    while !raddle::drop_in::is_cancelled() {
                        raddle::yield_now();
                    }
                    raddle::sleep(Duration::from_millis(1));
                    raddle::sleep(Duration::from_millis(1));
                    go.release(1);
                    assert_eq!(child.join().unwrap(), Ok(()));
                });
                raddle::drop_in::mask_cancellation(false);
            });
            asked.acquire(1);
            owner.cancel();
            owner.join().unwrap();
        });
    });
}

/// So is one that an owner opens there who was cancelled before: its threads begin as others do.
#[test]
fn threads_of_a_scope_that_a_cancelled_owner_opens_under_a_mask_are_not_cancelled() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let (go, begun) = (Semaphore::new(0), Semaphore::new(0));
    pool.run(|| {
        raddle::scope(|outside| {
            let owner = outside.spawn(|| {
                begun.release(1);
                assert!(go.acquire_cancellable(1).is_err());
                raddle::drop_in::mask_cancellation(true);
                let masked = raddle::scope(|s| s.spawn(wait_is_cancelled).join().unwrap());
                raddle::drop_in::mask_cancellation(false);
                let open = raddle::scope(|s| s.spawn(wait_is_cancelled).join().unwrap());
                (masked, open)
            });
            begun.acquire(1);
            owner.cancel();
            assert_eq!(owner.join().unwrap(), (false, true), "under the mask, and without it");
        });
    });
}

/// Whether a wait of the calling thread's ends by a cancellation.
fn wait_is_cancelled() -> bool {
    Semaphore::new(0).acquire_timeout(1, Duration::from_millis(1)) == Err(WaitError::Cancelled)
}
