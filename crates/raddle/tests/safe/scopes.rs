//! Scopes, halves, tasks: ended early, nested, used from elsewhere.

use crate::harness::{On, panics, pool, quiet};
use raddle::sync::{Mutex, channel};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

case!(handles_that_are_forgotten_do_not_end_the_scope_early {
    let done = AtomicU32::new(0);
    pool(2).run(|| {
        raddle::scope(|s| {
            for _ in 0..20 {
                std::mem::forget(s.spawn(|| {
                    raddle::sleep(Duration::from_millis(1));
                    done.fetch_add(1, Ordering::Relaxed);
                }));
            }
        });
    });
    assert_eq!(done.into_inner(), 20);
});

case!(a_handle_that_leaves_its_scope_in_the_result {
    pool(2).run(|| {
        let mut out = None;
        raddle::scope(|s| {
            let handle = s.spawn(|| 7);
            out = Some(handle.join().unwrap());
        });
        assert_eq!(out, Some(7));
    });
});

case!(threads_spawn_into_the_scope_that_ends {
    let done = AtomicU32::new(0);
    fn more<'scope>(s: &'scope raddle::Scope<'scope, '_>, depth: u32, done: &'scope AtomicU32) {
        done.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            for _ in 0..2 {
                s.spawn(move || {
                    raddle::yield_now();
                    more(s, depth - 1, done);
                });
            }
        }
    }
    pool(2).run(|| raddle::scope(|s| more(s, 7, &done)));
    assert_eq!(done.into_inner(), 255);
});

case!(tasks_fork_into_the_scope_that_ends {
    let done = AtomicU32::new(0);
    fn more<'scope>(s: &'scope raddle::Scope<'scope, '_>, depth: u32, done: &'scope AtomicU32) {
        done.fetch_add(1, Ordering::Relaxed);
        if depth > 0 {
            s.fork(move || more(s, depth - 1, done));
            s.fork(move || {
                raddle::sleep(Duration::from_micros(50));
                more(s, depth - 1, done);
            });
        }
    }
    pool(2).run(|| raddle::scope(|s| more(s, 7, &done)));
    assert_eq!(done.into_inner(), 255);
});

case!(a_scope_in_a_task_of_a_scope_that_panics {
    quiet();
    let done = AtomicU32::new(0);
    pool(2).run(|| {
        let panicked = panics(|| {
            raddle::scope(|outer| {
                outer.fork(|| {
                    raddle::scope(|inner| {
                        inner.fork(|| panic!("on purpose"));
                        inner.fork(|| {
                            raddle::sleep(Duration::from_millis(1));
                            done.fetch_add(1, Ordering::Relaxed);
                        });
                    });
                });
                outer.fork(|| _ = done.fetch_add(1, Ordering::Relaxed));
            });
        });
        assert!(panicked);
    });
    assert_eq!(done.into_inner(), 2);
});

case!(tasks_too_large_and_too_aligned_for_the_scopes_room {
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Aligned([u8; 300]);
    let sum = AtomicU32::new(0);
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..40u8 {
                let (aligned, large, sum) = (Aligned([number; 300]), [number; 2000], &sum);
                s.fork(move || {
                    assert_eq!((&raw const aligned).addr() % 128, 0);
                    sum.fetch_add(u32::from(aligned.0[299]), Ordering::Relaxed);
                });
                s.fork(move || _ = sum.fetch_add(u32::from(large[1999]), Ordering::Relaxed));
                if number % 8 == 0 {
                    raddle::sleep(Duration::from_micros(10));
                }
            }
        });
    });
    assert_eq!(sum.into_inner(), 2 * (0..40).sum::<u32>());
});

case!(tasks_of_no_size_and_many_of_them {
    static RAN: AtomicU32 = AtomicU32::new(0);
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..5000 {
                s.fork(|| _ = RAN.fetch_add(1, Ordering::Relaxed));
                if number % 500 == 0 {
                    raddle::yield_now();
                }
            }
        });
    });
    assert_eq!(RAN.load(Ordering::Relaxed), 5000);
});

case!(a_task_that_waits_for_a_later_one {
    let (sender, receiver) = channel::bounded::<u32>(0);
    pool(2).run(|| {
        raddle::scope(|s| {
            s.fork(|| assert_eq!(receiver.recv(), Ok(7)));
            s.fork(|| sender.send(7).unwrap());
        });
        raddle::scope(|s| {
            s.fork(|| sender.send(8).unwrap());
            s.fork(|| assert_eq!(receiver.recv(), Ok(8)));
        });
    });
});

case!(halves_that_wait_for_each_other {
    let (sender, receiver) = channel::bounded::<u32>(0);
    if raddle::info::lightweight().is_ok() && std::env::var_os("RADDLE_KERNEL_THREADS").is_none() {
        for processors in 1..3 {
            let (got, ()) = pool(processors).run(|| raddle::join(|| receiver.recv().unwrap(), || sender.send(7).unwrap()));
            assert_eq!(got, 7);
        }
    }
});

case!(thread_local_borrows_across_waits {
    thread_local! {
        static MINE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    }
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..50 {
                s.spawn(move || {
                    MINE.with_borrow_mut(|mine| {
                        mine.push(number);
                        raddle::yield_now();
                        raddle::sleep(Duration::from_micros(100));
                        mine.push(number);
                    });
                    assert_eq!(MINE.take(), [number; 2]);
                });
            }
        });
    });
});

case!(a_thread_local_borrow_around_a_scope_whose_tasks_borrow_it_too {
    quiet();
    thread_local! {
        static MINE: RefCell<u32> = const { RefCell::new(0) };
    }
    // Which storage a task sees is open: so the borrow may fail, and no more.
    pool(2).run(|| {
        let _ = panics(|| {
            MINE.with_borrow_mut(|mine| {
                raddle::scope(|s| {
                    for _ in 0..10 {
                        s.fork(|| MINE.with_borrow_mut(|mine| *mine += 1));
                    }
                    raddle::yield_now();
                });
                *mine += 1;
            });
        });
        assert!(MINE.try_with(|mine| mine.try_borrow_mut().is_ok()).unwrap());
    });
});

case!(a_scope_opened_in_a_destructor_of_thread_local_storage {
    struct Late;
    static RAN: AtomicU32 = AtomicU32::new(0);
    impl Drop for Late {
        fn drop(&mut self) {
            raddle::scope(|s| {
                s.fork(|| _ = RAN.fetch_add(1, Ordering::Relaxed));
                s.spawn(|| _ = RAN.fetch_add(1, Ordering::Relaxed));
            });
            let (left, right) = raddle::join(|| 1, || 1);
            RAN.fetch_add(left + right, Ordering::Relaxed);
        }
    }
    thread_local! {
        static LATE: Late = const { Late };
    }
    let pool = pool(2);
    let threads: Vec<_> = (0..10).map(|_| pool.spawn(|| LATE.with(|_| ()))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(RAN.load(Ordering::Relaxed), 40);
});

case!(a_scope_across_pools {
    let (one, other) = (pool(1), pool(1));
    let sum = AtomicU32::new(0);
    one.run(|| {
        raddle::scope(|s| {
            for _ in 0..10 {
                s.fork(|| {
                    other.run(|| {
                        raddle::scope(|inner| {
                            inner.fork(|| _ = sum.fetch_add(1, Ordering::Relaxed));
                            inner.spawn(|| _ = sum.fetch_add(1, Ordering::Relaxed));
                        });
                    });
                });
            }
        });
    });
    assert_eq!(sum.into_inner(), 20);
});

case!(a_thread_that_moves_with_open_scopes_and_halves {
    let (one, other) = (pool(1), pool(1));
    let sum = AtomicU32::new(0);
    one.run(|| {
        raddle::scope(|s| {
            s.fork(|| _ = sum.fetch_add(1, Ordering::Relaxed));
            let _ = raddle::move_to(&other);
            s.fork(|| _ = sum.fetch_add(1, Ordering::Relaxed));
            raddle::join(
                || {
                    let _ = raddle::move_to(&one);
                    sum.fetch_add(1, Ordering::Relaxed);
                },
                || sum.fetch_add(1, Ordering::Relaxed),
            );
        });
    });
    assert_eq!(sum.into_inner(), 4);
});

case!(everything_is_cancelled_at_every_moment, On::Lightweight, {
    for round in 0..30 {
        let inside = AtomicU32::new(0);
        pool(2).run(|| {
            raddle::scope(|s| {
                for _ in 0..10 {
                    s.spawn(|| {
                        inside.fetch_add(1, Ordering::Relaxed);
                        raddle::scope(|below| {
                            below.fork(|| raddle::sleep(Duration::from_secs(100)));
                            below.spawn(|| raddle::sleep(Duration::from_secs(100)));
                        });
                        raddle::join(
                            || raddle::sleep(Duration::from_secs(100)),
                            || raddle::sleep(Duration::from_secs(100)),
                        );
                        inside.fetch_sub(1, Ordering::Relaxed);
                    });
                }
                for _ in 0..round {
                    raddle::yield_now();
                }
                s.cancel();
            });
        });
        assert_eq!(inside.into_inner(), 0);
    }
});

case!(a_scope_whose_result_borrows_from_outside {
    let words = [String::from("a"), String::from("b")];
    let longest = pool(1).run(|| raddle::scope(|s| s.spawn(|| words.iter().max().unwrap()).join().unwrap()));
    assert_eq!(longest, "b");
});

case!(mutable_borrows_of_parts {
    let mut numbers = [0u32; 1000];
    pool(2).run(|| {
        raddle::scope(|s| {
            for (index, part) in numbers.chunks_mut(10).enumerate() {
                if index % 2 == 0 {
                    s.fork(move || part.iter_mut().for_each(|n| *n += 1));
                } else {
                    s.spawn(move || part.iter_mut().for_each(|n| *n += 1));
                }
                if index % 10 == 0 {
                    raddle::yield_now();
                }
            }
        });
    });
    assert_eq!(numbers, [1; 1000]);
});

case!(exits_of_every_kind_from_a_half {
    quiet();
    pool(2).run(|| {
        for _ in 0..20 {
            let other = AtomicBool::new(false);
            let value = Mutex::new(Cell::new(0));
            let ended = panics(|| {
                raddle::join(
                    || {
                        raddle::yield_now();
                        let _guard = value.lock();
                        panic!("on purpose");
                    },
                    || {
                        value.lock().unwrap_or_else(|p| p.into_inner()).set(1);
                        other.store(true, Ordering::Relaxed);
                    },
                )
            });
            assert!(ended);
            drop((other, value));
        }
    });
});
