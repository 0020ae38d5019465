//! Semaphore, RwLock, Barrier, Once, Monitor and oneshot on kernel threads.

mod joined;

use raddle_scheduler::Runtime;
use raddle_scheduler::runtime::cancel;
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use raddle_scheduler::sync::oneshot::{self, GetError};
use raddle_scheduler::sync::{LockError, TryLockError, WaitError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

type Semaphore = raddle_scheduler::sync::Semaphore<KernelThreads>;
type RwLock<T> = raddle_scheduler::sync::RwLock<T, KernelThreads>;
type Barrier = raddle_scheduler::sync::Barrier<KernelThreads>;
type Once = raddle_scheduler::sync::Once<KernelThreads>;
type OnceLock<T> = raddle_scheduler::sync::OnceLock<T, KernelThreads>;
type Monitor<T> = raddle_scheduler::sync::Monitor<T, KernelThreads>;

const SHORT: Duration = Duration::from_micros(50);
const LONG: Duration = Duration::from_secs(3600);

/// Fewer turns under Miri.
macro_rules! few {
    ($turns:expr) => {
        if cfg!(miri) { $turns / 50 } else { $turns }
    };
}

/// Runs `body` on a kernel thread that is cancelled at some time.
fn cancelled(body: impl FnOnce() + Send) {
    joined::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        scope.spawn(move || {
            // SAFETY: used to cancel the thread only.
            tell.send(unsafe { KernelThreads::current() }).unwrap();
            body();
        });
        cancel::<KernelThreads>(told.recv().unwrap());
    });
}

#[test]
fn a_semaphore_lets_in_as_many_as_it_has_permits() {
    let (semaphore, inside) = (Semaphore::new(3), AtomicUsize::new(0));
    joined::scope(|scope| {
        for who in 0..6u32 {
            let (semaphore, inside) = (&semaphore, &inside);
            scope.spawn(move || {
                for i in 0..few!(2_000) {
                    let count = if who == 0 { 1 + i % 3 } else { 1 };
                    if who % 2 == 0 {
                        while semaphore.acquire_timeout(count, Duration::from_nanos(i as u64 * 50)).is_err() {}
                    } else {
                        semaphore.acquire(count);
                    }
                    assert!(inside.fetch_add(count as usize, SeqCst) + count as usize <= 3);
                    inside.fetch_sub(count as usize, SeqCst);
                    semaphore.release(count);
                }
            });
        }
    });
    assert_eq!(semaphore.available(), 3);
}

#[test]
fn a_semaphores_permits_add_up() {
    let semaphore = Semaphore::new(0);
    assert_eq!(semaphore.acquire_timeout(1, SHORT), Err(WaitError::TimedOut));
    assert_eq!(semaphore.acquire_timeout(2, SHORT), Err(WaitError::TimedOut));
    cancelled(|| assert_eq!(semaphore.acquire_cancellable(1), Err(WaitError::Cancelled)));
    joined::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..few!(1_000)).for_each(|_| semaphore.acquire(1)));
        }
        (0..few!(1_000)).for_each(|_| semaphore.release(4));
    });
    assert_eq!(semaphore.available(), 0);
    semaphore.release(2);
    drop(semaphore.enter(2));
    semaphore.enter(1).forget();
    assert_eq!(semaphore.available(), 1);
}

#[test]
fn a_semaphore_may_die_as_soon_as_it_was_acquired() {
    // The releaser gets a bare address, as from C: nothing keeps the semaphore alive but the thread that waits for it.
    for _ in 0..few!(3_000) {
        let semaphore = Box::new(Semaphore::new(0));
        let address = std::ptr::from_ref(&*semaphore).expose_provenance();
        let releaser = std::thread::spawn(move || {
            // SAFETY: the semaphore lives until this release lets its owner go on.
            unsafe { &*std::ptr::with_exposed_provenance::<Semaphore>(address) }.release(1);
        });
        semaphore.acquire(1);
        drop(semaphore);
        releaser.join().unwrap();
    }
}

#[test]
fn readers_share_and_writers_exclude() {
    let lock = RwLock::with_value((0u64, 0u64));
    joined::scope(|scope| {
        for who in 0..6u64 {
            let lock = &lock;
            scope.spawn(move || {
                for i in 0..few!(2_000) {
                    match (who + i) % 4 {
                        0 => {
                            let mut guard = lock.write().unwrap();
                            guard.0 += 1;
                            guard.1 += 1;
                        }
                        1 => {
                            if let Ok(mut guard) = lock.write_timeout(Duration::from_nanos(i)) {
                                guard.0 += 1;
                                guard.1 += 1;
                            }
                        }
                        2 => {
                            if let Ok(guard) = lock.read_timeout(Duration::from_nanos(i)) {
                                assert_eq!(guard.0, guard.1);
                            }
                        }
                        _ => {
                            let guard = lock.read().unwrap();
                            assert_eq!(guard.0, guard.1);
                        }
                    }
                }
            });
        }
    });
    assert!(lock.into_inner().unwrap().0 >= few!(3_000));
}

#[test]
fn a_writer_that_waits_keeps_readers_out_until_it_gives_up() {
    let lock = RwLock::with_value(());
    let reader = lock.read().unwrap();
    joined::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(lock.write_timeout(SHORT), Err(LockError::TimedOut)));
            // It is gone: others read at once, so the main thread's guard is not in the way.
            assert!(lock.try_read().is_ok());
        });
        scope.spawn(|| drop(lock.read().unwrap()));
    });
    assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
    cancelled(|| assert!(matches!(lock.write_cancellable(), Err(LockError::Cancelled))));
    drop(reader);
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_rwlock_is_poisoned_by_writers_only() {
    let lock = RwLock::with_value(1);
    let panics = |write: bool| {
        joined::scope(|scope| {
            let thread = scope.handle(|| {
                if write {
                    let _guard = lock.write();
                    panic!("on purpose");
                }
                let _guard = lock.read();
                panic!("on purpose");
            });
            assert!(thread.join().is_err());
        });
    };
    panics(false);
    assert!(!lock.is_poisoned());
    panics(true);
    assert_eq!(*lock.read().unwrap_err().into_inner(), 1);
    assert!(lock.write().is_err());
    lock.clear_poison();
    assert!(lock.write().is_ok());
}

#[test]
fn a_barrier_separates_rounds() {
    const THREADS: usize = 4;
    let (barrier, arrived) = (Barrier::new(THREADS), AtomicUsize::new(0));
    let leaders = AtomicUsize::new(0);
    joined::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for round in 1..=few!(500) {
                    arrived.fetch_add(1, SeqCst);
                    leaders.fetch_add(barrier.wait().is_leader() as usize, SeqCst);
                    assert!(arrived.load(SeqCst) >= round * THREADS);
                    barrier.wait();
                }
            });
        }
    });
    assert_eq!(leaders.load(SeqCst), few!(500));
}

#[test]
fn an_arrival_that_gives_up_does_not_count() {
    let barrier = Barrier::new(2);
    assert_eq!(barrier.wait_timeout(SHORT), Err(WaitError::TimedOut));
    assert_eq!(barrier.wait_timeout(SHORT), Err(WaitError::TimedOut));
    cancelled(|| assert_eq!(barrier.wait_cancellable(), Err(WaitError::Cancelled)));
    joined::scope(|scope| {
        let other = scope.handle(|| barrier.wait_timeout(LONG).unwrap().is_leader());
        assert!(barrier.wait().is_leader() != other.join().unwrap());
    });
    assert!(Barrier::new(0).wait().is_leader());
}

#[test]
fn once_runs_once_and_everybody_sees_it() {
    for _ in 0..few!(200) {
        let (once, runs) = (Once::new(), AtomicUsize::new(0));
        joined::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    once.call_once(|| {
                        std::thread::yield_now();
                        runs.fetch_add(1, SeqCst);
                    });
                    assert_eq!(runs.load(SeqCst), 1);
                });
            }
        });
    }
}

#[test]
fn once_is_poisoned_and_a_once_lock_stays_empty() {
    let once = Once::new();
    let panics = |f: &dyn Fn()| assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err());
    panics(&|| once.call_once(|| panic!("on purpose")));
    panics(&|| once.call_once(|| ()));
    once.call_once_force(|state| assert!(state.is_poisoned()));
    assert!(once.is_completed());

    let mut lock = OnceLock::<Arc<u32>>::new();
    panics(&|| {
        lock.get_or_init(|| panic!("on purpose"));
    });
    assert!(lock.get().is_none());
    joined::scope(|scope| {
        scope.spawn(|| assert_eq!(**lock.wait(), 7));
        assert_eq!(lock.set(Arc::new(7)), Ok(()));
    });
    let witness = lock.get().unwrap().clone();
    assert!(lock.set(Arc::new(8)).is_err());
    assert_eq!(lock.take().as_deref(), Some(&7));
    assert!(lock.get().is_none() && lock.get_mut().is_none());
    drop(lock);
    assert_eq!(Arc::strong_count(&witness), 1);
}

#[test]
fn a_monitor_goes_to_whoever_its_state_concerns() {
    const EACH: u32 = if cfg!(miri) { 10 } else { 500 };
    let buffer = Monitor::with_value(Vec::<u32>::new());
    let sum = AtomicUsize::new(0);
    joined::scope(|scope| {
        for who in 0..3 {
            let (buffer, sum) = (&buffer, &sum);
            scope.spawn(move || {
                for i in 0..EACH {
                    let mut inside = buffer.enter().unwrap();
                    while inside
                        .wait_until_timeout(|items| items.len() < 2, Duration::from_nanos(i as u64 * who))
                        .is_err()
                    {}
                    // Handed over: the condition still holds.
                    assert!(inside.len() < 2);
                    inside.push(i);
                }
            });
            scope.spawn(move || {
                for _ in 0..EACH {
                    let mut inside = buffer.enter().unwrap();
                    inside.wait_until(|items| !items.is_empty());
                    sum.fetch_add(inside.remove(0) as usize, SeqCst);
                }
            });
        }
    });
    assert_eq!(sum.load(SeqCst) as u32, 3 * EACH * (EACH - 1) / 2);
    assert!(buffer.into_inner().unwrap().is_empty());
}

#[test]
fn a_monitors_waits_end_as_values() {
    let monitor = Monitor::with_value(0);
    let mut inside = monitor.enter().unwrap();
    assert_eq!(inside.wait_until_timeout(|value| *value > 0, SHORT), Err(WaitError::TimedOut));
    drop(inside);
    cancelled(|| {
        let mut inside = monitor.enter().unwrap();
        assert_eq!(inside.wait_until_cancellable(|value| *value > 0), Err(WaitError::Cancelled));
        *inside += 1;
    });
    let waiting = AtomicBool::new(false);
    joined::scope(|scope| {
        scope.spawn(|| {
            let mut inside = monitor.enter().unwrap();
            waiting.store(true, SeqCst);
            inside.wait_until(|value| *value == 2);
            assert!(monitor.is_poisoned());
        });
        while !waiting.load(SeqCst) {
            std::thread::yield_now();
        }
        let panics = scope.handle(|| {
            let mut inside = monitor.enter().unwrap();
            *inside += 1;
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
    });
    assert!(monitor.enter().is_err());
    monitor.clear_poison();
    assert_eq!(*monitor.enter().unwrap(), 2);
}

#[test]
fn a_promise_is_kept_broken_or_not_wanted() {
    for i in 0..few!(2_000) {
        let (promise, future) = oneshot::channel::<Box<u64>, KernelThreads>();
        joined::scope(|scope| {
            scope.spawn(move || promise.set(Box::new(i)).unwrap());
            let mut future = future;
            // Time-outs race the value.
            let value = loop {
                match future.get_timeout(Duration::from_nanos(i * 20)) {
                    Ok(value) => break value,
                    Err((Some(again), GetError::TimedOut)) => future = again,
                    Err((_, error)) => panic!("{error}"),
                }
            };
            assert_eq!(*value, i);
        });
    }
    let (promise, future) = oneshot::channel::<u32, KernelThreads>();
    let future = future.try_get().unwrap_err().unwrap();
    joined::scope(|scope| {
        scope.spawn(|| drop(promise));
        assert_eq!(future.get(), Err(GetError::Broken));
    });
    let (promise, future) = oneshot::channel::<Arc<()>, KernelThreads>();
    let witness = Arc::new(());
    drop(future);
    assert!(promise.is_closed());
    assert!(promise.set(witness.clone()).is_err());
    let (promise, future) = oneshot::channel::<Arc<()>, KernelThreads>();
    promise.set(witness.clone()).unwrap();
    assert!(future.is_ready());
    drop(future);
    assert_eq!(Arc::strong_count(&witness), 1);
    let (_promise, future) = oneshot::channel::<u32, KernelThreads>();
    cancelled(|| assert_eq!(future.get(), Err(GetError::Cancelled)));
}
