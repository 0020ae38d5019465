//! Waits for the first of several, until a moment, and for a lock that changes hands: with what nobody would pass.

use crate::harness::{On, panics, pool, quiet};
use raddle::lock::{Fair, Lock};
use raddle::sync::{RwLock, RwLockWriteGuard, channel, oneshot, select};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

case!(a_source_that_is_named_many_times {
    let (sender, receiver) = channel::bounded::<Box<u32>>(1);
    pool(2).run(|| {
        raddle::scope(|s| {
            let received = &receiver;
            let waits = s.spawn(move || {
                let sources: Vec<&dyn select::Source> = (0..500).map(|_| received as _).collect();
                let mut sum = 0;
                for _ in 0..20 {
                    let place = select::wait(&sources).unwrap();
                    assert!(place < sources.len());
                    sum += *received.recv().unwrap();
                }
                sum
            });
            (0..20).for_each(|number| sender.send(Box::new(number)).unwrap());
            assert_eq!(waits.join().unwrap(), 190);
        });
    });
});

case!(no_source_at_all {
    assert_eq!(select::ready(&[]), None);
    assert!(select::wait_timeout(&[], Duration::from_millis(1)).is_err());
    assert!(select::wait_timeout(&[], Duration::ZERO).is_err());
});

case!(no_source_at_all_for_ever_and_cancelled, On::Lightweight, {
    let pool = pool(1);
    let thread = pool.spawn(|| select::wait(&[]).is_err());
    thread.cancel();
    assert!(thread.join().unwrap());
});

case!(branches_that_panic_drop_their_sources_and_select_again {
    quiet();
    let (sender, receiver) = channel::unbounded::<Box<u32>>();
    let (promise, future) = oneshot::channel::<Box<u32>>();
    pool(2).run(|| {
        (0..3).for_each(|number| sender.send(Box::new(number)).unwrap());
        assert!(panics(|| {
            raddle::select! {
                recv(receiver) -> _message => std::panic::panic_any(1u8),
            }
        }));
        let inner = receiver.clone();
        let second = raddle::select! {
            recv(receiver) -> message => {
                drop(receiver);
                raddle::select! {
                    recv(inner) -> other => *message.unwrap() + *other.unwrap(),
                    default => 0,
                }
            },
            get(future) -> _value => panic!("nobody has kept it"),
        };
        assert_eq!(second, 3);
        drop((sender, promise));
    });
});

case!(waits_for_several_on_the_way_out_of_a_panic_and_of_a_thread {
    quiet();
    struct Waits(channel::Receiver<u32>);
    static SEEN: AtomicU32 = AtomicU32::new(0);
    impl Drop for Waits {
        fn drop(&mut self) {
            let seen = raddle::select! {
                recv(self.0) -> message => message.unwrap_or(100),
                default(Duration::from_micros(50)) => 1,
            };
            SEEN.fetch_add(seen, Ordering::Relaxed);
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Waits>> = const { std::cell::RefCell::new(None) };
    }
    let (sender, receiver) = channel::bounded::<u32>(0);
    let pool = pool(2);
    let theirs = receiver.clone();
    pool.spawn(move || LATE.set(Some(Waits(theirs)))).join().unwrap();
    pool.run(|| {
        assert!(panics(|| {
            let _waits = Waits(receiver.clone());
            std::panic::panic_any(0u8);
        }));
    });
    assert_eq!(SEEN.load(Ordering::Relaxed), 2);
    drop(sender);
    drop(Waits(receiver));
    assert_eq!(SEEN.load(Ordering::Relaxed), 102);
});

case!(messages_are_kept_when_those_that_select_are_cancelled, On::Lightweight, {
    let (sender, receiver) = channel::bounded::<Box<u32>>(2);
    let (other, others) = channel::unbounded::<Box<u32>>();
    let got = AtomicU32::new(0);
    pool(2).run(|| {
        raddle::scope(|s| {
            let waiters: Vec<_> = (0..20)
                .map(|_| {
                    s.spawn(|| {
                        loop {
                            let more = raddle::select! {
                                recv(receiver) -> message => message.is_ok(),
                                recv(others) -> message => message.is_ok(),
                            };
                            if !more {
                                break;
                            }
                            got.fetch_add(1, Ordering::Relaxed);
                        }
                    })
                })
                .collect();
            for number in 0..200 {
                sender.send(Box::new(number)).unwrap();
                other.send(Box::new(number)).unwrap();
                if number % 20 == 0 {
                    waiters[number as usize / 20].cancel();
                }
            }
            drop((sender, other));
        });
    });
    let left = receiver.try_iter().count() + others.try_iter().count();
    assert_eq!(got.into_inner() as usize + left, 400);
});

case!(deadlines_long_past_now_and_far_away {
    let (sender, receiver) = channel::bounded::<Box<u32>>(1);
    let sleeps = channel::bounded::<u32>(0).1;
    pool(2).run(|| {
        let now = Instant::now();
        let past = now.checked_sub(Duration::from_secs(1)).unwrap_or(now);
        let far = now + Duration::from_secs(1 << 40);
        for deadline in [past, now, Instant::now(), far] {
            sender.send(Box::new(7)).unwrap();
            assert_eq!(receiver.recv_deadline(deadline).map(|seven| *seven), Ok(7));
            assert!(sleeps.recv_deadline(deadline).is_err());
        }
        for nanoseconds in 0..2000 {
            assert!(receiver.recv_deadline(Instant::now() + Duration::from_nanos(nanoseconds)).is_err());
        }
    });
});

case!(writers_that_go_on_as_readers_forget_that_and_panic {
    quiet();
    let lock = RwLock::new([0u32; 8]);
    pool(2).run(|| {
        raddle::scope(|s| {
            for number in 0..8 {
                let lock = &lock;
                s.spawn(move || {
                    for round in 0..40u32 {
                        let mut writing = lock.write().unwrap_or_else(|poisoned| poisoned.into_inner());
                        writing.iter_mut().for_each(|value| *value += 1);
                        raddle::yield_now();
                        let reading = RwLockWriteGuard::downgrade(writing);
                        let seen = *reading;
                        assert!(seen.iter().all(|value| *value == seen[0]), "torn: {seen:?}");
                        assert!(lock.try_write().is_err());
                        raddle::yield_now();
                        assert_eq!(*reading, seen, "a writer was let in");
                        if (round + number) % 9 == 0 {
                            // With the right to read in its hand.
                            assert!(panics(move || {
                                let _reading = reading;
                                std::panic::panic_any(0u8);
                            }));
                        }
                    }
                });
            }
        });
        assert_eq!(lock.read().unwrap_or_else(|poisoned| poisoned.into_inner())[7], 320);
        std::mem::forget(RwLockWriteGuard::downgrade(lock.write().unwrap_or_else(|poisoned| poisoned.into_inner())));
        assert!(lock.try_write().is_err() && lock.try_read().is_ok());
    });
});

case!(places_of_a_fair_lock_that_travel_and_holders_that_panic {
    quiet();
    let lock = Lock::<Vec<u32>, Fair>::new(vec![0; 4]);
    let (sender, receiver) = channel::unbounded();
    (0..3).for_each(|_| assert!(sender.send(raddle::lock::Place::<Fair>::new()).is_ok()));
    pool(2).run(|| {
        raddle::scope(|s| {
            for _ in 0..6 {
                let (lock, sender, receiver) = (&lock, &sender, &receiver);
                s.spawn(move || {
                    for round in 0..40 {
                        // Another thread's, which it has unlocked with a moment ago.
                        let mut guard = lock.lock(receiver.recv().unwrap());
                        let before = guard[0];
                        raddle::yield_now();
                        guard.iter_mut().for_each(|value| *value = before + 1);
                        let place = guard.unlock();
                        assert!(sender.send(place).is_ok());
                        let panicked = panics(|| {
                            lock.with(|values| {
                                values.iter_mut().for_each(|value| *value += 1);
                                if round % 8 == 0 {
                                    std::panic::panic_any(0u8);
                                }
                            });
                        });
                        assert_eq!(panicked, round % 8 == 0);
                    }
                });
            }
        });
    });
    assert_eq!(lock.into_inner(), [480; 4]);
});
