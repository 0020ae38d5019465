//! Locks and guards, forgotten, dropped out of order, taken twice, at ends of threads.

use crate::harness::{On, panics, pool, quiet};
use raddle::sync::{Barrier, Condvar, Mutex, Once, OnceLock, RwLock, Semaphore};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Whatever a lock guards: two that are inside at once are noticed.
struct Inside(AtomicBool);

impl Inside {
    fn new() -> Self {
        Inside(AtomicBool::new(false))
    }

    fn visit(&self) {
        assert!(!self.0.swap(true, Ordering::Relaxed), "two are inside");
        raddle::yield_now();
        assert!(self.0.swap(false, Ordering::Relaxed), "two were inside");
    }
}

/// So many threads, each in turn, on a pool of two.
fn together(count: u32, f: impl Fn(u32) + Sync) {
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..count {
                let f = &f;
                s.spawn(move || f(number));
            }
        });
    });
}

case!(a_mutex_taken_twice_by_one_thread {
    quiet();
    together(4, |_| {
        let mutex = Mutex::new(7);
        let guard = mutex.lock().unwrap();
        assert!(panics(|| drop(mutex.lock())));
        assert!(mutex.try_lock().is_err());
        assert_eq!(*guard, 7);
    });
});

case!(a_forgotten_guard_of_a_mutex_whose_thread_has_ended {
    quiet();
    let mutex = Arc::new(Mutex::new(Inside::new()));
    let pool = pool(1);
    let taken = mutex.clone();
    pool.spawn(move || std::mem::forget(taken.lock().unwrap())).join().unwrap();
    // The record of that thread serves others now: to none of them does the mutex belong.
    for _ in 0..10 {
        let mutex = mutex.clone();
        pool.spawn(move || {
            assert!(mutex.try_lock().is_err());
            let waited = panics(|| mutex.lock_timeout(Duration::from_millis(1)).is_ok());
            let _ = waited;
        })
        .join()
        .unwrap();
    }
});

case!(guards_in_thread_local_storage_end_with_the_thread {
    thread_local! {
        static HELD: RefCell<Option<raddle::sync::MutexGuard<'static, Cell<u32>>>> = const { RefCell::new(None) };
    }
    static MUTEX: Mutex<Cell<u32>> = Mutex::new(Cell::new(0));
    together(20, |_| {
        let guard = MUTEX.lock().unwrap();
        HELD.set(Some(guard));
        HELD.with_borrow(|held| {
            let value = held.as_ref().unwrap();
            let before = value.get();
            raddle::yield_now();
            value.set(before + 1);
        });
    });
    assert_eq!(MUTEX.lock().unwrap().get(), 20);
});

case!(guards_dropped_in_the_wrong_order {
    let mutexes: Vec<Mutex<Inside>> = (0..4).map(|_| Mutex::new(Inside::new())).collect();
    together(8, |_| {
        for _ in 0..50 {
            let mut guards: Vec<_> = mutexes.iter().map(|mutex| mutex.lock().unwrap()).collect();
            guards.iter().for_each(|guard| guard.visit());
            guards.swap(0, 2);
            drop(guards.remove(1));
            drop(guards);
        }
    });
});

case!(locks_in_destructors_during_a_panic {
    quiet();
    let mutex = Mutex::new(Inside::new());
    struct Late<'a>(&'a Mutex<Inside>);
    impl Drop for Late<'_> {
        fn drop(&mut self) {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).visit();
        }
    }
    together(8, |_| {
        for _ in 0..20 {
            assert!(panics(|| {
                let _late = Late(&mutex);
                panic!("on purpose");
            }));
        }
    });
});

case!(a_mutex_that_a_panic_poisons_again_and_again {
    quiet();
    let mutex = Mutex::new(Inside::new());
    together(8, |number| {
        for round in 0..40 {
            let guard = mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            guard.visit();
            if round % 7 == number % 7 {
                assert!(panics(move || {
                    let _guard = guard;
                    panic!("on purpose");
                }));
            }
            if round % 5 == 0 {
                mutex.clear_poison();
            }
        }
    });
});

case!(time_outs_of_every_length {
    let mutex = Mutex::new(Inside::new());
    together(12, |number| {
        for round in 0..30u64 {
            let timeout = [Duration::ZERO, Duration::from_nanos(1), Duration::from_micros(50), Duration::MAX][round as usize % 4];
            if let Ok(guard) = mutex.lock_timeout(timeout) {
                guard.visit();
            }
            if number == 0 {
                mutex.lock().unwrap().visit();
            }
        }
    });
});

case!(time_outs_that_pass_while_they_are_looked_at {
    // Each of so many nanoseconds: one of them passes between any two instructions of the wait.
    let mutex = Mutex::new(0);
    let semaphore = Semaphore::new(0);
    let waits = || {
        for nanoseconds in 0..3000 {
            let time = Duration::from_nanos(nanoseconds);
            raddle::sleep(time);
            assert!(semaphore.acquire_timeout(1, time).is_err());
            drop(mutex.lock_timeout(time));
        }
    };
    waits();
    pool(2).run(waits);
});

case!(a_condition_variable_with_two_mutexes {
    quiet();
    let (one, other) = (Mutex::new(Inside::new()), Mutex::new(Inside::new()));
    let condvar = Condvar::new();
    // std panics, or waits: what is guarded stays so.
    together(6, |number| {
        let mutex = if number % 2 == 0 { &one } else { &other };
        let _ = panics(|| {
            for _ in 0..20 {
                let guard = mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let (guard, _) = condvar
                    .wait_timeout(guard, Duration::from_micros(100))
                    .unwrap_or_else(|poisoned| poisoned.into_inner());
                guard.visit();
                condvar.notify_all();
            }
        });
    });
});

case!(readers_and_writers_with_forgotten_guards {
    let lock = RwLock::new(Inside::new());
    let counted = RwLock::new(7u32);
    together(8, |number| {
        for _ in 0..20 {
            if let Ok(guard) = lock.write_timeout(Duration::from_millis(1)) {
                guard.visit();
            }
        }
        // Readers only from here on.
        std::mem::forget(counted.read().unwrap());
        assert!(counted.try_write().is_err());
        assert_eq!(*counted.read().unwrap(), 7);
        assert!(counted.write_timeout(Duration::from_micros(number as u64)).is_err());
    });
});

case!(a_reader_that_wants_to_write {
    let lock = RwLock::new(7u32);
    together(4, |_| {
        let reader = lock.read().unwrap();
        assert!(lock.try_write().is_err());
        assert!(lock.write_timeout(Duration::from_micros(100)).is_err());
        assert_eq!(*reader, 7);
    });
});

case!(semaphores_beyond_their_bounds {
    quiet();
    let semaphore = Semaphore::new(u32::MAX);
    assert!(panics(|| semaphore.release(1)));
    assert_eq!(semaphore.available(), u32::MAX);
    semaphore.acquire(u32::MAX);
    semaphore.release(0);
    assert!(!semaphore.try_acquire(1));
    assert!(semaphore.try_acquire(0));
    together(6, |number| {
        if number == 0 {
            semaphore.release(10);
        } else {
            semaphore.acquire(2);
            semaphore.enter(0).forget();
        }
    });
    assert_eq!(semaphore.available(), 0);
});

case!(a_permit_that_returns_to_a_full_semaphore {
    quiet();
    pool(1).run(|| {
        let semaphore = Semaphore::new(u32::MAX - 1);
        let permit = semaphore.enter(1);
        semaphore.release(2);
        assert!(panics(|| drop(permit)));
    });
});

case!(barriers_of_impossible_sizes {
    for threads in [0, 1] {
        let barrier = Barrier::new(threads);
        assert!(barrier.wait().is_leader());
    }
    let barrier = Barrier::new(usize::MAX);
    pool(1).run(|| assert!(barrier.wait_timeout(Duration::from_micros(10)).is_err()));
});

case!(a_barrier_for_fewer_than_come {
    let barrier = Barrier::new(3);
    let leaders = AtomicU32::new(0);
    together(30, |_| _ = leaders.fetch_add(u32::from(barrier.wait().is_leader()), Ordering::Relaxed));
    assert_eq!(leaders.into_inner(), 10);
});

case!(a_once_that_panics_while_others_wait_for_it {
    quiet();
    let once = Once::new();
    let done = AtomicU32::new(0);
    together(12, |number| {
        let _ = panics(|| {
            once.call_once_force(|_| {
                raddle::yield_now();
                assert!(number % 3 == 0, "on purpose");
                done.fetch_add(1, Ordering::Relaxed);
            });
        });
    });
    assert_eq!((done.into_inner(), once.is_completed()), (1, true));
});

case!(a_value_whose_making_panics_for_many {
    quiet();
    let value: OnceLock<Box<u32>> = OnceLock::new();
    let tries = AtomicU32::new(0);
    together(16, |number| {
        let made = panics(|| {
            value.get_or_init(|| {
                raddle::yield_now();
                assert!(tries.fetch_add(1, Ordering::Relaxed) >= 5, "on purpose");
                Box::new(number)
            });
        });
        let _ = made;
        assert_eq!(**value.get_or_init(|| Box::new(99)), **value.get().unwrap());
    });
});

case!(values_that_are_set_while_they_are_made {
    let value: OnceLock<String> = OnceLock::new();
    together(16, |number| {
        if number % 2 == 0 {
            let _ = value.set(format!("set by {number}"));
        } else {
            assert!(value.get_or_init(|| format!("made by {number}")).contains("by"));
        }
    });
    assert!(value.into_inner().unwrap().contains("by"));
});

case!(waits_while_a_thread_unwinds {
    quiet();
    struct Sleeps;
    impl Drop for Sleeps {
        fn drop(&mut self) {
            raddle::sleep(Duration::from_micros(100));
            raddle::scope(|s| _ = s.spawn(raddle::yield_now));
            let (left, right) = raddle::join(|| 1, || 2);
            assert_eq!(left + right, 3);
        }
    }
    together(10, |_| {
        assert!(panics(|| {
            let _sleeps = Sleeps;
            panic!("on purpose");
        }));
    });
});

case!(a_lock_inside_a_lock_of_another_kind_under_cancellation, On::Lightweight, {
    let (mutex, semaphore) = (Mutex::new(Inside::new()), Semaphore::new(1));
    pool(2).run(|| {
        raddle::scope(|s| {
            let threads: Vec<_> = (0..30)
                .map(|_| {
                    s.spawn(|| {
                        for _ in 0..20 {
                            let Ok(()) = semaphore.acquire_cancellable(1) else { return };
                            mutex.lock().unwrap().visit();
                            semaphore.release(1);
                        }
                    })
                })
                .collect();
            raddle::yield_now();
            threads.iter().step_by(2).for_each(|thread| thread.cancel());
        });
    });
    assert_eq!(semaphore.available(), 1);
});
