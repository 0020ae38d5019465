//! What the drop-in library uses is public: used by programs in ways that it never does.

use crate::harness::{On, panics, pool, quiet};
use raddle::drop_in;
use raddle::sync::{Mutex, Semaphore};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Two processors; the default pool is there, which a thread with a kernel thread of its own could not build.
fn two() -> raddle::Pool {
    raddle::spawn(|| ()).join().unwrap();
    pool(2)
}

/// All kinds of waits, spawns and joins, by whoever calls.
fn do_everything() {
    let lock = Mutex::new(0);
    let permits = Semaphore::new(0);
    raddle::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                *lock.lock().unwrap() += 1;
                raddle::yield_now();
                permits.release(1);
            });
            s.fork(|| *lock.lock().unwrap() += 1);
        }
        permits.acquire(4);
    });
    let (a, b) = raddle::join(|| raddle::spawn(|| 3).join().unwrap(), || 4);
    raddle::sleep(Duration::from_millis(1));
    raddle::yield_now();
    raddle::check();
    assert_eq!((*lock.lock().unwrap(), a + b), (8, 7));
}

case!(a_thread_that_hides_and_does_everything {
    two().run(|| {
        let hidden = drop_in::hide();
        do_everything();
        hidden.end();
        do_everything();
    });
});

case!(a_thread_that_hides_and_never_comes_back {
    let pool = two();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            pool.spawn(|| {
                let _ = drop_in::hide();
                do_everything();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    pool.run(do_everything);
});

case!(hidings_that_end_in_the_wrong_order {
    let pool = two();
    for _ in 0..4 {
        let thread = pool.spawn(|| {
            let (first, second) = (drop_in::hide(), drop_in::hide());
            first.end();
            do_everything();
            second.end();
            do_everything();
        });
        thread.join().unwrap();
    }
    pool.run(do_everything);
});

case!(halves_that_hide {
    let pool = two();
    pool.run(|| {
        for _ in 0..10 {
            let (a, b) = raddle::join(
                || {
                    let _ = drop_in::hide();
                    std::thread::sleep(Duration::from_millis(1));
                    1
                },
                || 2,
            );
            assert_eq!(a + b, 3);
        }
    });
});

case!(threads_that_go_apart_and_do_everything {
    let pool = two();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            pool.spawn(|| {
                drop_in::go_apart();
                do_everything();
                drop_in::go_apart();
                drop_in::blocking(do_everything);
                assert!(panics(|| drop_in::wait_apart(64, || std::panic::panic_any(1u8))));
                drop_in::wait_apart(64, do_everything);
                drop_in::take_turns();
                do_everything();
            })
        })
        .collect();
    quiet();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
});

case!(threads_that_become_kernel_threads_and_do_everything {
    let pool = two();
    let threads: Vec<_> = (0..6)
        .map(|number| {
            pool.spawn(move || {
                raddle::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(do_everything);
                        s.fork(do_everything);
                    }
                    if number % 2 == 0 {
                        let _ = drop_in::dedicate(drop_in::Spare::Any);
                    }
                    do_everything();
                });
                let _ = drop_in::dedicate(drop_in::Spare::Waiting);
                do_everything();
                let _ = raddle::join(|| drop_in::dedicate(drop_in::Spare::Any), do_everything);
                do_everything();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    pool.run(do_everything);
});

case!(a_thread_that_became_a_kernel_thread_wants_to_move {
    let (_default, one, other) = (two(), pool(1), pool(1));
    one.run(|| {
        let _ = drop_in::dedicate(drop_in::Spare::Any);
        let _ = raddle::move_to(&other);
        do_everything();
        assert_eq!(other.run(|| 7), 7);
    });
});

case!(thread_local_values_whose_drops_hide_go_apart_and_are_given_kernel_threads {
    struct Late(u32);
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    static DROPS: AtomicU32 = AtomicU32::new(0);
    impl Drop for Late {
        fn drop(&mut self) {
            match self.0 % 4 {
                0 => _ = drop_in::hide(),
                1 => _ = drop_in::go_apart(),
                2 => _ = drop_in::dedicate(drop_in::Spare::Any),
                _ => {}
            }
            do_everything();
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let pool = two();
    let threads: Vec<_> =
        (0..8).map(|n| pool.spawn(move || LATE.with(|late| *late.borrow_mut() = Some(Late(n))))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(DROPS.load(Ordering::Relaxed), 8);
    pool.run(do_everything);
});

case!(cancellation_that_is_masked_too_often_or_too_seldom {
    let thread = two().spawn(|| {
        drop_in::mask_cancellation(false);
        drop_in::mask_cancellation(false);
        do_everything();
        drop_in::mask_cancellation(true);
        do_everything();
    });
    thread.cancel();
    thread.join().unwrap();
});

case!(waits_at_words_that_nobody_has {
    quiet();
    two().run(|| {
        for address in [0, 1, 64, usize::MAX] {
            let _ = drop_in::wait_at("a word", address, Some(1), true, || false);
            let _ = drop_in::wait_at("a word", address, None, false, || true);
            let _ = drop_in::wait_for_mutex_at(address, Some(drop_in::now() + 1_000_000), true, || false);
            assert!(panics(|| drop_in::wait_at("a word", address, None, false, || std::panic::panic_any(1u8))));
            drop_in::waker_at(address).wake(usize::MAX);
        }
        assert!(panics(|| drop_in::wait_for_interruption(|| std::panic::panic_any(1u8))));
        drop_in::wait_for_interruption(|| true);
        do_everything();
    });
});

case!(a_look_of_a_wait_that_waits {
    quiet();
    two().run(|| {
        // An assertion, in builds that have them; else the wait ends for no reason.
        let _ = panics(|| {
            drop_in::wait_at("a word", 64, Some(drop_in::now() + 5_000_000), true, || {
                do_everything();
                false
            })
        });
        do_everything();
    });
});

/// A thread that could give way, and spins so.
struct Anywhere(drop_in::preemption::Spins);

impl drop_in::preemption::Interrupted for Anywhere {
    fn is_over(&self) -> bool {
        true
    }
    fn spins(&self) -> drop_in::preemption::Spins {
        self.0
    }
    fn may(&self) -> bool {
        true
    }
    fn is_blocked(&self) -> bool {
        false
    }
}

case!(a_thread_that_gives_way_where_no_tick_was {
    use drop_in::preemption::Spins;
    two().run(|| {
        for _ in 0..20 {
            drop_in::preemption::give_way();
            for spins in [Spins::No, Spins::Yes, Spins::HoldsALock] {
                assert!(!drop_in::preemption::is_due(&Anywhere(spins)));
            }
            drop_in::yield_now();
            drop_in::yield_before_wait();
            drop_in::poll_interruption();
        }
        do_everything();
    });
});

case!(names_that_change_while_all_threads_are_dumped, On::Lightweight, {
    let pool = two();
    let stop = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            pool.spawn(move || {
                let mut round = 0;
                while stop.load(Ordering::Relaxed) == 0 {
                    drop_in::set_own_name(&"x".repeat(round % 50));
                    round += 1;
                    raddle::yield_now();
                }
            })
        })
        .collect();
    for round in 0..200 {
        // By others, too, with what need not be UTF-8.
        let name = [b"another", &b"\xff\xc3"[..], b"", b"longer than there is room for"][round % 4];
        threads.iter().for_each(|thread| drop_in::set_name(thread, name));
        let mut text = Vec::new();
        raddle::info::dump(&mut text, Default::default()).unwrap();
    }
    stop.store(1, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
});

case!(circles_that_are_cancelled_while_they_are_drawn, On::Lightweight, {
    let pool = two();
    let locks: Arc<[Mutex<()>; 2]> = Arc::new([Mutex::new(()), Mutex::new(())]);
    for round in 0..100 {
        let threads: Vec<_> = (0..2)
            .map(|mine| {
                let locks = locks.clone();
                let builder = raddle::thread::Builder::new().name(format!("{round} {}", "x".repeat(100)));
                let crossed = move || {
                    let _mine = locks[mine].lock_cancellable().ok();
                    raddle::yield_now();
                    let _other = locks[1 - mine].lock_cancellable().ok();
                };
                builder.spawn_into(&pool, crossed).unwrap()
            })
            .collect();
        let dumper = std::thread::spawn(|| {
            for _ in 0..3 {
                let mut text = Vec::new();
                raddle::info::dump(&mut text, Default::default()).unwrap();
            }
        });
        raddle::sleep(Duration::from_micros(200));
        threads.iter().for_each(raddle::JoinHandle::cancel);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        dumper.join().unwrap();
    }
});
