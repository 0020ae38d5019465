//! Every policy under the real runtime: threads spawn, yield, wait and end, and the pool ends.

use raddle::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

fn pool(policy: &str, processors: usize) -> raddle::Pool {
    raddle::Builder::new().processors(processors).policy(policy).build().unwrap()
}

const POLICIES: &[&str] = &[
    "fifo",
    "lifo",
    "stochastic(50)",
    "alternate(8)",
    "reverse(8)",
    "multiqueue(2)",
    "rotator",
    "waiver",
    "steal",
    "steal(victims=clusters(1), batch=min(4, rare=4))",
    "local",
    "local(lifo, slot, capacity=8)",
    "local(capacity=8, overflow=locked, share=20)",
    "local(capacity=8, overflow=sharded(3), batch=one)",
    "local(capacity=8, overflow=tickets, share=50)",
    "local(capacity=8, overflow=retry)",
    "local(lifo, capacity=8, grow=horizontal)",
    "local(capacity=8, grow=vertical)",
    "request(naive)",
    "request(sticky)",
    "request(ticket, order=lifo)",
    "clustered(1, steal)",
    "clustered(1, request(naive))",
    "clustered(1, priority(2, local))",
    "priority(2, clustered(2, waiver))",
    "apart(fifo, fifo)",
    "priority(2, apart(steal, local(overflow=retry, capacity=8), turn=4))",
];

#[test]
fn threads_run_wait_and_end_under_each() {
    for policy in POLICIES {
        for processors in 1..=2 {
            let ran = AtomicUsize::new(0);
            let sum = Mutex::new(0);
            pool(policy, processors).run(|| {
                raddle::scope(|s| {
                    for number in 0..100 {
                        let (ran, sum) = (&ran, &sum);
                        s.spawn(move || {
                            raddle::yield_now();
                            *sum.lock().unwrap() += number;
                            // A tree: it spawns and waits itself.
                            if number % 10 == 0 {
                                raddle::scope(|s| {
                                    for _ in 0..10 {
                                        s.spawn(|| ran.fetch_add(1, Ordering::Relaxed));
                                    }
                                });
                            }
                            ran.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            });
            assert_eq!((ran.into_inner(), *sum.lock().unwrap()), (200, 4950), "{policy}, {processors} processors");
        }
    }
}

/// A yield loop on each processor that waits for a thread which was made ready behind them.
#[test]
fn yield_loops_end_under_each() {
    for policy in POLICIES {
        for processors in 1..=2 {
            let flag = AtomicBool::new(false);
            pool(policy, processors).run(|| {
                raddle::scope(|s| {
                    let flag = &flag;
                    for _ in 0..processors {
                        s.spawn(|| {
                            while !flag.load(Ordering::Acquire) {
                                raddle::yield_now();
                            }
                        });
                    }
                    raddle::yield_now();
                    s.spawn(|| flag.store(true, Ordering::Release));
                    while !flag.load(Ordering::Acquire) {
                        raddle::yield_now();
                    }
                });
            });
        }
    }
}

/// No run, on however busy a machine, comes near.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// On one processor a soft yield gives way like a hard one: of two threads that yield softly each sees the other run,
/// and knows it. They go on until both have: one that the kernel keeps from its core for a while is taken for blocked,
/// and the other one is alone meanwhile.
#[test]
fn a_soft_yield_gives_way_where_nobody_is_idle() {
    for policy in POLICIES {
        let (last, ready, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let begun = Instant::now();
        let seen = pool(policy, 1).run(|| {
            raddle::scope(|s| {
                let (last, ready, done) = (&last, &ready, &done);
                let both = [1, 2].map(|me| {
                    s.spawn(move || {
                        ready.fetch_add(1, Ordering::Relaxed);
                        while ready.load(Ordering::Relaxed) < 2 {
                            raddle::yield_now();
                        }
                        let (mut seen, mut yields) = (0, 0);
                        while yields < 1000 || done.load(Ordering::Relaxed) < 2 && begun.elapsed() < ENDS_WITHIN {
                            yields += 1;
                            last.store(me, Ordering::Relaxed);
                            if raddle::thread::yield_softly() && last.load(Ordering::Relaxed) != me {
                                done.fetch_add(usize::from(seen == 0), Ordering::Relaxed);
                                seen += 1;
                            }
                        }
                        seen
                    })
                });
                both.map(|thread| thread.join().unwrap())
            })
        });
        assert!(seen.iter().all(|&seen| seen > 0), "under `{policy}` each saw the other run so often: {seen:?}");
    }
}

/// Beside threads that wait for each other, so that now and then a processor is idle; nobody is lost between the two
/// ways to yield.
#[test]
fn soft_yields_lose_nobody() {
    for policy in POLICIES {
        let steps = AtomicUsize::new(0);
        pool(policy, 2).run(|| {
            let (send, receive) = raddle::sync::channel::bounded(1);
            raddle::scope(|s| {
                let steps = &steps;
                for _ in 0..3 {
                    s.spawn(move || {
                        for _ in 0..500 {
                            raddle::thread::yield_softly();
                            steps.fetch_add(1, Ordering::Relaxed);
                        }
                    });
                }
                s.spawn(move || (0..500).for_each(|i| send.send(i).unwrap()));
                assert!(receive.iter().eq(0..500));
            });
        });
        assert_eq!(steps.into_inner(), 1500, "under `{policy}`");
    }
}

/// With one processor the threads that are ready at once are counted, not timed: the spawner makes no more than the
/// queue holds, and what is made between two of its turns; without that rule, all. That is tried until a run shows it:
/// a spawner that the machine stops for long is taken for blocked, and others run in its place.
#[test]
fn a_full_queue_slows_its_spawner_down() {
    let most = |policy: &str| {
        let (alive, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        pool(policy, 1).run(|| {
            raddle::scope(|s| {
                for _ in 0..2000 {
                    let (alive, most) = (&alive, &most);
                    most.fetch_max(alive.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    s.spawn(move || alive.fetch_sub(1, Ordering::Relaxed));
                }
            });
        });
        most.into_inner()
    };
    assert!(most("local(capacity=16, overflow=retry)") <= 32);
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while seen.last() != Some(&2000) {
        assert!(begun.elapsed() < ENDS_WITHIN, "the most at once, of 2000: {seen:?}");
        seen.push(most("local(capacity=16)"));
    }
}
