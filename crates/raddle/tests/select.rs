//! Waiting for the first of several, and waits as futures.

use raddle::sync::channel::{self, RecvError};
use raddle::sync::{Mutex, RwLock, Semaphore, oneshot};
use raddle::{future, select};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// No cancellation takes so long, on however busy a machine.
const CANCELLED_WITHIN: Duration = Duration::from_secs(60);

fn pool() -> raddle::Pool {
    raddle::Builder::new().processors(2).build().unwrap()
}

#[test]
fn every_message_of_several_channels_reaches_somebody() {
    const EACH: u64 = 2000;
    static RECEIVED: AtomicU64 = AtomicU64::new(0);
    let take = |number: u64| {
        RECEIVED.fetch_add(1, Ordering::Relaxed);
        number
    };
    let sum = pool().run(|| {
        let (left, from_left) = channel::bounded(1);
        let (right, from_right) = channel::unbounded();
        let selecting = (0..4).map(|_| {
            let (from_left, from_right) = (from_left.clone(), from_right.clone());
            raddle::spawn(move || {
                let (mut sum, mut open) = (0, [true; 2]);
                while open == [true; 2] {
                    select! {
                        recv(from_left) -> message => match message {
                            Ok(number) => sum += take(number),
                            Err(_) => open[0] = false,
                        },
                        recv(from_right) -> message => match message {
                            Ok(number) => sum += take(number),
                            Err(_) => open[1] = false,
                        },
                    }
                }
                sum + from_left.iter().chain(&from_right).map(take).sum::<u64>()
            })
        });
        let plain =
            [from_left.clone(), from_right.clone()].map(|one| raddle::spawn(move || one.iter().map(take).sum::<u64>()));
        let all: Vec<_> = selecting.chain(plain).collect();
        let senders = [left, right].map(|to| {
            raddle::spawn(move || {
                (1..=EACH).for_each(|i| to.send(i).unwrap());
                to
            })
        });
        let open = senders.map(|sender| sender.join().unwrap());
        // The channels stay open until then: their end would wake whom a lost wake-up has left asleep.
        while RECEIVED.load(Ordering::Relaxed) < 2 * EACH {
            raddle::yield_now();
        }
        drop(open);
        all.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    assert_eq!(sum, EACH * (EACH + 1));
}

#[test]
fn a_select_leaves_the_loops_of_the_program_alone() {
    let (sender, receiver) = channel::unbounded();
    (0..10).for_each(|i| sender.send(i).unwrap());
    drop(sender);
    let mut odd = Vec::new();
    let last = loop {
        select! {
            recv(receiver) -> message => {
                let Ok(number) = message else { break "the end" };
                if number % 2 == 0 {
                    continue;
                }
                odd.push(number);
            }
        }
    };
    assert_eq!((odd, last), (vec![1, 3, 5, 7, 9], "the end"));
}

#[test]
fn the_end_of_a_time_a_broken_promise_and_a_kept_one() {
    pool().run(|| {
        let (_sender, receiver) = channel::bounded::<u32>(0);
        let wait = |future: oneshot::Future<u32>| {
            select! {
                recv(receiver) -> _ => unreachable!(),
                get(future) -> value => Some(value),
                default(Duration::from_millis(1)) => None,
            }
        };
        let (promise, future) = oneshot::channel::<u32>();
        assert_eq!(wait(future), None);
        assert!(promise.is_closed());
        let (promise, future) = oneshot::channel::<u32>();
        drop(promise);
        assert_eq!(wait(future), Some(Err(oneshot::GetError::Broken)));
        let (promise, future) = oneshot::channel::<u32>();
        let keeping = raddle::spawn(move || promise.set(42));
        let value = select! { get(future) -> value => value, recv(receiver) -> _ => unreachable!() };
        assert_eq!((value, keeping.join().unwrap()), (Ok(42), Ok(())));
    });
}

/// On one processor the sender comes to its turn when the other waits.
#[test]
fn a_time_beyond_the_clocks_end_is_waited_for() {
    raddle::Builder::new().processors(1).build().unwrap().run(|| {
        let (sender, receiver) = channel::bounded(0);
        let sending = raddle::spawn(move || sender.send(7));
        let number = select! { recv(receiver) -> number => Some(number), default(Duration::MAX) => None };
        assert_eq!(number, Some(Ok(7)));
        assert_eq!(sending.join().unwrap(), Ok(()));
    });
}

#[test]
fn who_sends_without_a_place_meets_who_selects() {
    pool().run(|| {
        let (sender, receiver) = channel::bounded(0);
        let (_other, never) = channel::bounded::<u32>(0);
        let sending = raddle::spawn(move || (0..100).try_for_each(|i| sender.send(i)).is_ok());
        for i in 0..100 {
            let number = select! { recv(never) -> _ => unreachable!(), recv(receiver) -> number => number };
            assert_eq!(number, Ok(i));
        }
        assert!(sending.join().unwrap());
    });
}

#[test]
fn cancellation_is_the_first_branchs_error() {
    pool().run(|| {
        let (_left, from_left) = channel::bounded::<u32>(1);
        let (_right, from_right) = channel::bounded::<u32>(1);
        let waiting = raddle::spawn(move || {
            select! { recv(from_left) -> message => message, recv(from_right) -> _ => unreachable!() }
        });
        waiting.cancel();
        assert_eq!(waiting.join().unwrap(), Err(RecvError::Cancelled));
    });
}

/// A task that only notes that it was woken.
#[derive(Default)]
struct Noted(AtomicBool);

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_future_that_is_dropped_takes_no_message_with_it() {
    pool().run(|| {
        let (sender, receiver) = channel::bounded(1);
        let noted = Arc::new(Noted::default());
        let waker = Waker::from(noted.clone());
        {
            let mut receiving = pin!(future::receive(&receiver));
            assert_eq!(receiving.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
            sender.send(7).unwrap();
            while !noted.0.load(Ordering::Acquire) {
                raddle::yield_now();
            }
        }
        assert_eq!(receiver.try_recv(), Ok(7));
    });
}

/// The task goes on where it was polled last: that waker is told, and none before it.
#[test]
fn the_waker_of_the_last_poll_is_told() {
    fn tells_the_last<F: Future + Send>(future: F, end: impl FnOnce()) {
        let mut future = pin!(future);
        let wakers = [(); 2].map(|()| Arc::new(Noted::default()));
        for noted in &wakers {
            let waker = Waker::from(noted.clone());
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        end();
        while !wakers[1].0.load(Ordering::Acquire) {
            assert!(!wakers[0].0.load(Ordering::Acquire), "an old waker was told");
            raddle::yield_now();
        }
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
    pool().run(|| {
        let go = &*Box::leak(Box::new(Semaphore::new(0)));
        tells_the_last(future::run(|| go.acquire(1)), || go.release(1));
        tells_the_last(raddle::spawn(|| go.acquire(1)).into_future(), || go.release(1));
        let (sender, receiver) = channel::bounded(1);
        tells_the_last(future::receive(&receiver), || sender.send(7).unwrap());
        let (promise, answer) = oneshot::channel();
        tells_the_last(future::value(answer), || promise.set(7).unwrap());
        tells_the_last(future::acquire(&go, 1), || go.release(1));
    });
}

/// The thread that waits for them has them for an instant.
#[test]
fn several_permits_are_waited_for_and_none_is_lost() {
    pool().run(|| {
        let permits = Arc::new(Semaphore::new(2));
        let mut acquiring = pin!(future::acquire(&permits, 3));
        assert!(acquiring.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        permits.release(1);
        raddle::block_on(acquiring);
        assert_eq!(permits.available(), 0);
    });
}

#[test]
fn a_thread_whose_future_is_dropped_is_cancelled() {
    pool().run(|| {
        let (tell, told) = oneshot::channel();
        let (sender, receiver) = channel::bounded::<u32>(1);
        let mut waiting = Box::pin(future::run(move || tell.set(receiver.recv())));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(waiting);
        let ended = told.get_timeout(CANCELLED_WITHIN).map_err(|(_, error)| error);
        // One that was not cancelled ends by this.
        drop(sender);
        assert_eq!(ended, Ok(Err(RecvError::Cancelled)));
    });
}

#[test]
fn a_panic_goes_on_in_the_task() {
    let ended = std::panic::catch_unwind(|| pool().run(|| raddle::block_on(future::run(|| panic!("as it should")))));
    assert!(ended.is_err());
}

#[test]
fn async_tasks_and_threads_share_locks_channels_and_permits() {
    static LOCK: Mutex<u32> = Mutex::new(0);
    let pool = pool();
    let table = Arc::new(RwLock::new(0));
    let permits = Arc::new(Semaphore::new(1));
    let (sender, receiver) = channel::bounded(1);
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (table, permits, sender) = (table.clone(), permits.clone(), sender.clone());
            // A kernel thread each, which drives its tasks: the tasks know of no pool.
            std::thread::spawn(move || {
                raddle::block_on(async {
                    for _ in 0..50 {
                        *future::lock(&&LOCK).await.unwrap() += 1;
                        future::acquire(&permits, 1).await;
                        *future::write(&table).await.unwrap() += 1;
                        permits.release(1);
                        assert!(*future::read(&table).await.unwrap() > 0);
                        future::send(&sender, 1).await.unwrap();
                    }
                });
            })
        })
        .collect();
    drop(sender);
    let threads: Vec<_> = (0..8).map(|_| pool.spawn(|| (0..50).for_each(|_| *LOCK.lock().unwrap() += 1))).collect();
    let sum = raddle::block_on(async {
        let mut sum = 0;
        while let Ok(one) = future::receive(&receiver).await {
            sum += one;
        }
        sum
    });
    tasks.into_iter().for_each(|task| task.join().unwrap());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!((sum, *table.read().unwrap(), *LOCK.lock().unwrap()), (400, 400, 800));
}

#[test]
fn a_deadline_that_has_passed_is_no_wait() {
    let (sender, receiver) = channel::bounded(1);
    let now = std::time::Instant::now();
    assert_eq!(receiver.recv_deadline(now), Err(channel::RecvTimeoutError::Timeout));
    sender.send(3).unwrap();
    assert_eq!(receiver.recv_deadline(now), Ok(3));
}
