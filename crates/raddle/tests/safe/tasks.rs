//! Futures of this library under executors and wakers that do what none should.

use crate::harness::{On, panics, pool, quiet};
use raddle::future;
use raddle::sync::{Mutex, RwLock, Semaphore, channel, oneshot};
use std::future::{Future, IntoFuture as _};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Polls once.
fn poll<F: Future + ?Sized>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Waits and switches when it is woken, and when it goes.
struct Waits(AtomicU32);

impl Waits {
    fn wait(&self) {
        raddle::yield_now();
        raddle::sleep(Duration::from_micros(50));
        raddle::scope(|s| drop(s.spawn(|| self.0.fetch_add(1, Ordering::Relaxed))));
    }
}

impl Wake for Waits {
    fn wake(self: Arc<Self>) {
        self.wait();
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Panics when it is woken.
struct Breaks;

impl Wake for Breaks {
    fn wake(self: Arc<Self>) {
        std::panic::panic_any(1u8);
    }
}

case!(wakers_that_wait_and_switch {
    let lock = Arc::new(Mutex::new(0));
    pool(2).run(|| {
        raddle::scope(|s| {
            for _ in 0..4 {
                let lock = &lock;
                s.spawn(move || {
                    for _ in 0..10 {
                        let mut asked = pin!(future::run(|| raddle::sleep(Duration::from_micros(100))));
                        // Another waker each time, so that the last one goes.
                        while poll(asked.as_mut(), &Arc::new(Waits(AtomicU32::new(0))).into()).is_pending() {
                            raddle::yield_now();
                        }
                        *raddle::block_on(future::lock(lock)).unwrap() += 1;
                    }
                });
            }
        });
    });
    assert_eq!(*lock.lock().unwrap(), 40);
});

case!(wakers_that_panic {
    quiet();
    pool(2).run(|| {
        for _ in 0..20 {
            let mut asked = pin!(future::run(|| raddle::sleep(Duration::from_micros(50))));
            let breaks = Waker::from(Arc::new(Breaks));
            let end = loop {
                match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(asked.as_mut(), &breaks))) {
                    Ok(Poll::Pending) => raddle::yield_now(),
                    // The panic of the waker, on the thread that was to wake, is that thread's.
                    end => break end.is_err(),
                }
            };
            let _ = end;
        }
        let handle = raddle::spawn(|| raddle::sleep(Duration::from_micros(50)));
        let mut joined = pin!(handle.into_future());
        let breaks = Waker::from(Arc::new(Breaks));
        while poll(joined.as_mut(), &breaks).is_pending() {
            raddle::yield_now();
        }
    });
});

case!(futures_polled_here_and_there_and_dropped_elsewhere {
    let (one, other) = (pool(1), pool(1));
    let (sender, receiver) = channel::bounded::<Box<u32>>(1);
    for round in 0..30 {
        let theirs = receiver.clone();
        let mut waits: Pin<Box<dyn Future<Output = _> + Send>> = Box::pin(async move { future::receive(&theirs).await });
        let noop = Waker::noop();
        assert!(poll(waits.as_mut(), noop).is_pending());
        let mut waits = one.run(move || {
            assert!(poll(waits.as_mut(), Waker::noop()).is_pending());
            waits
        });
        match round % 3 {
            0 => other.run(move || drop(waits)),
            1 => std::mem::forget(waits),
            _ => {
                sender.send(Box::new(round)).unwrap();
                assert_eq!(raddle::block_on(waits.as_mut()).map(|message| *message), Ok(round));
            }
        }
    }
    // No message goes to one that was given up.
    sender.send(Box::new(99)).unwrap();
    assert_eq!(receiver.recv().map(|message| *message), Ok(99));
});

case!(futures_that_are_polled_after_their_end {
    quiet();
    pool(1).run(|| {
        let mut asked = pin!(future::run(|| 7));
        let noop = Waker::noop();
        let seven = loop {
            match poll(asked.as_mut(), noop) {
                Poll::Ready(seven) => break seven,
                Poll::Pending => raddle::yield_now(),
            }
        };
        assert_eq!(seven, 7);
        assert!(panics(|| poll(asked.as_mut(), noop)));
        let mut joined = pin!(raddle::spawn(|| 8).into_future());
        while poll(joined.as_mut(), noop).is_pending() {
            raddle::yield_now();
        }
        assert!(panics(|| poll(joined.as_mut(), noop)) || poll(joined.as_mut(), noop).is_pending());
    });
});

case!(locks_and_permits_of_futures_that_are_given_up {
    let (lock, shared) = (Arc::new(Mutex::new(0u32)), Arc::new(RwLock::new(0u32)));
    let permits = Arc::new(Semaphore::new(1));
    pool(2).run(|| {
        for round in 0..40u32 {
            let held = lock.lock().unwrap();
            let written = shared.write().unwrap();
            permits.acquire(1);
            {
                let mut all: [Pin<Box<dyn Future<Output = ()>>>; 4] = [
                    Box::pin(async { drop(future::lock(&lock).await) }),
                    Box::pin(async { drop(future::read(&shared).await) }),
                    Box::pin(async { drop(future::write(&shared).await) }),
                    Box::pin(future::acquire(&permits, 1)),
                ];
                all.iter_mut().for_each(|one| assert!(poll(one.as_mut(), Waker::noop()).is_pending()));
                if round % 2 == 0 {
                    raddle::yield_now();
                }
            }
            drop((held, written));
            permits.release(1);
        }
        // Nobody who was given up has one of them for long.
        *lock.lock().unwrap() += 1;
        *shared.write().unwrap() += 1;
        permits.acquire(1);
        permits.release(1);
    });
});

case!(futures_in_thread_local_storage_and_on_the_way_out_of_a_panic {
    quiet();
    thread_local! {
        static LATE: std::cell::RefCell<Option<Pin<Box<dyn Future<Output = u32>>>>> = const { std::cell::RefCell::new(None) };
    }
    struct Blocks;
    impl Drop for Blocks {
        fn drop(&mut self) {
            assert_eq!(raddle::block_on(future::run(|| raddle::spawn(|| 7).join().unwrap())), 7);
        }
    }
    let pool = pool(2);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            pool.spawn(|| {
                let mut late: Pin<Box<dyn Future<Output = u32>>> = Box::pin(future::run(|| {
                    raddle::sleep(Duration::from_millis(1));
                    1
                }));
                // It may be through already.
                let _ = poll(late.as_mut(), Waker::noop());
                LATE.set(Some(late));
                assert!(panics(|| {
                    let _blocks = Blocks;
                    std::panic::panic_any(0u8);
                }));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
});

case!(promises_and_futures_in_a_circle, On::Both, {
    pool(2).run(|| {
        for _ in 0..20 {
            let (promise, answer) = oneshot::channel::<u32>();
            let (back, returned) = oneshot::channel::<u32>();
            let mut first = Box::pin(async move { back.set(future::value(answer).await.unwrap_or(1)) });
            let mut second = Box::pin(future::value(returned));
            assert!(poll(first.as_mut(), Waker::noop()).is_pending());
            assert!(poll(second.as_mut(), Waker::noop()).is_pending());
            // The one that would keep it goes: the other is told.
            drop(promise);
            let _ = raddle::block_on(first.as_mut());
            assert_eq!(raddle::block_on(second), Ok(1));
        }
    });
});
