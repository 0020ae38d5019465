//! Mutex and Condvar on kernel threads: exclusion, poisoning, time-outs against unlocks, cancellation, hand-over.

mod joined;

use raddle_scheduler::runtime::cancel;
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use raddle_scheduler::sync::{LockError, TryLockError, WaitError};
use raddle_scheduler::{Runtime, Thread};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

type Mutex<T> = raddle_scheduler::sync::Mutex<T, KernelThreads>;
type MutexGuard<'a, T> = raddle_scheduler::sync::MutexGuard<'a, T, KernelThreads>;
type Condvar = raddle_scheduler::sync::Condvar<KernelThreads>;

const LONG: Duration = Duration::from_secs(3600);

/// Fewer turns under Miri.
macro_rules! few {
    ($turns:expr) => {
        if cfg!(miri) { $turns / 50 } else { $turns }
    };
}
const SHORT: Duration = Duration::from_micros(50);

#[test]
fn counts_exactly() {
    static TOTAL: Mutex<u64> = Mutex::new(0);
    joined::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for i in 0..few!(5_000) {
                    let mut total = TOTAL.lock().unwrap();
                    *total += 1;
                    if i % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    assert_eq!(*TOTAL.lock().unwrap(), few!(40_000));
}

#[test]
fn hands_over_in_turn() {
    let total = Mutex::with_value(0u64);
    joined::scope(|scope| {
        for who in 0..6 {
            let total = &total;
            scope.spawn(move || {
                for i in 0..few!(2_000) {
                    let mut guard = match (who + i) % 3 {
                        0 => total.lock().unwrap(),
                        1 => match total.lock_timeout(SHORT) {
                            Ok(guard) => guard,
                            Err(LockError::TimedOut) => total.lock().unwrap(),
                            Err(error) => panic!("{error}"),
                        },
                        _ => total.lock_cancellable().unwrap(),
                    };
                    *guard += 1;
                    if i % 2 == 0 { guard.unlock_to_waiter() } else { drop(guard) }
                }
            });
        }
    });
    assert_eq!(total.into_inner().unwrap(), few!(12_000));
}

#[test]
fn is_poisoned_by_a_panic_as_in_std() {
    let mutex = Mutex::with_value(1);
    joined::scope(|scope| {
        let holder = scope.handle(|| {
            let _guard = mutex.lock().unwrap();
            panic!("on purpose");
        });
        assert!(holder.join().is_err());
    });
    assert!(mutex.is_poisoned());
    assert_eq!(*mutex.lock().unwrap_err().into_inner(), 1);
    assert!(matches!(mutex.try_lock(), Err(TryLockError::Poisoned(_))));
    assert!(matches!(mutex.lock_timeout(LONG), Err(LockError::Poisoned(_))));
    mutex.clear_poison();
    assert!(!mutex.is_poisoned() && mutex.lock().is_ok());
}

/// As in std: the guard of a thread that panics poisons when it ends, and a wait before that does not.
#[test]
fn a_wait_of_a_thread_that_panics_does_not_poison() {
    struct Waits<'a>(Option<MutexGuard<'a, u32>>, &'a AtomicUsize);
    impl Drop for Waits<'_> {
        fn drop(&mut self) {
            let guard = self.0.take().unwrap();
            self.1.store(1 + usize::from(Condvar::new().wait_timeout(guard, SHORT).is_err()), SeqCst);
        }
    }
    let (mutex, waited) = (Mutex::with_value(1), AtomicUsize::new(0));
    joined::scope(|scope| {
        let holder = scope.handle(|| {
            let _waits = Waits(Some(mutex.lock().unwrap()), &waited);
            panic!("on purpose");
        });
        assert!(holder.join().is_err());
    });
    assert_eq!(waited.into_inner(), 1, "poisoned by the wait");
    assert!(mutex.is_poisoned());
}

#[test]
#[should_panic(expected = "holds already")]
fn relocking_says_so() {
    let mutex = Mutex::with_value(());
    let _guard = mutex.lock().unwrap();
    let _again = mutex.lock();
}

#[test]
fn times_out_and_is_free_afterwards() {
    let mutex = Mutex::with_value(());
    let guard = mutex.lock().unwrap();
    joined::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
            for _ in 0..100 {
                assert!(matches!(mutex.lock_timeout(SHORT), Err(LockError::TimedOut)));
            }
        });
    });
    drop(guard);
    assert!(mutex.try_lock().is_ok());
}

/// Starts a thread, tells its record, and lets it run `body`.
fn with_record<'scope>(
    scope: &joined::Joining<'scope, '_>,
    body: impl FnOnce() + Send + 'scope,
) -> &'static Thread<raddle_machine::Real> {
    let (tell, told) = std::sync::mpsc::channel();
    scope.spawn(move || {
        // SAFETY: used to cancel the thread only.
        tell.send(unsafe { KernelThreads::current() }).unwrap();
        body();
    });
    told.recv().unwrap()
}

#[test]
fn a_wave_of_cancellations_ends_cancellable_waits_only() {
    let mutex = Mutex::with_value(0);
    let (cancelled, locked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let guard = mutex.lock().unwrap();
    joined::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|i| {
                let (mutex, cancelled, locked) = (&mutex, &cancelled, &locked);
                with_record(scope, move || {
                    if i % 2 == 0 {
                        assert!(matches!(mutex.lock_cancellable(), Err(LockError::Cancelled)));
                        cancelled.fetch_add(1, SeqCst);
                    } else {
                        *mutex.lock().unwrap() += 1;
                        locked.fetch_add(1, SeqCst);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(cancel::<KernelThreads>);
        while cancelled.load(SeqCst) < 4 {
            std::thread::yield_now();
        }
        assert_eq!(locked.load(SeqCst), 0);
        drop(guard);
    });
    assert_eq!(*mutex.lock().unwrap(), 4);
}

#[test]
fn unlocks_race_time_outs_and_cancellations_without_losing_a_wake_up() {
    let mutex = Mutex::with_value(0u64);
    let taken = AtomicUsize::new(0);
    joined::scope(|scope| {
        for who in 0..4 {
            let (mutex, taken) = (&mutex, &taken);
            let thread = with_record(scope, move || {
                for i in 0..few!(3_000) {
                    let guard = match who {
                        0 => mutex.lock_timeout(Duration::from_nanos(i % 3000)).ok(),
                        1 => mutex.lock_cancellable().ok(),
                        _ => mutex.lock().ok(),
                    };
                    if let Some(mut guard) = guard {
                        *guard += 1;
                        taken.fetch_add(1, SeqCst);
                        if i % 16 == 0 {
                            std::thread::yield_now();
                        }
                    }
                }
            });
            if who == 1 {
                scope.spawn(move || {
                    std::thread::yield_now();
                    cancel::<KernelThreads>(thread);
                });
            }
        }
    });
    assert_eq!(*mutex.lock().unwrap(), taken.load(SeqCst) as u64);
}

#[test]
fn two_condvars_alternate() {
    let (turn, even, odd) = (Mutex::with_value(0u32), Condvar::new(), Condvar::new());
    joined::scope(|scope| {
        for parity in 0..2 {
            let (turn, mine, theirs) =
                (&turn, if parity == 0 { &even } else { &odd }, if parity == 0 { &odd } else { &even });
            scope.spawn(move || {
                for _ in 0..few!(2_000) {
                    let mut now = mine.wait_while(turn.lock().unwrap(), |turn| *turn % 2 != parity).unwrap();
                    *now += 1;
                    theirs.notify_one();
                }
            });
        }
    });
    assert_eq!(turn.into_inner().unwrap(), few!(4_000));
}

#[test]
fn notify_all_opens_a_gate_and_time_outs_do_not_eat_notifications() {
    let (gate, changed) = (Mutex::with_value((0usize, false)), Condvar::new());
    joined::scope(|scope| {
        for i in 0..10 {
            let (gate, changed) = (&gate, &changed);
            scope.spawn(move || {
                let mut guard = gate.lock().unwrap();
                guard.0 += 1;
                while !guard.1 {
                    guard = if i % 2 == 0 {
                        changed.wait(guard).unwrap()
                    } else {
                        changed.wait_timeout(guard, SHORT).unwrap().0
                    };
                }
            });
        }
        while gate.lock().unwrap().0 < 10 {
            std::thread::yield_now();
        }
        gate.lock().unwrap().1 = true;
        changed.notify_all();
    });
}

#[test]
fn a_condition_wait_tells_time_out_and_cancellation() {
    let (mutex, never) = (Mutex::with_value(()), Condvar::new());
    let (_, result) = never.wait_timeout(mutex.lock().unwrap(), SHORT).unwrap();
    assert!(result.timed_out());
    let (_, result) = never.wait_timeout_while(mutex.lock().unwrap(), SHORT, |_| true).unwrap();
    assert!(result.timed_out());
    let (_, result) = never.wait_timeout_while(mutex.lock().unwrap(), LONG, |_| false).unwrap();
    assert!(!result.timed_out());
    joined::scope(|scope| {
        let thread = with_record(scope, || {
            let (guard, ended) = never.wait_cancellable(mutex.lock().unwrap(), None).unwrap();
            assert_eq!(ended, Err(WaitError::Cancelled));
            drop(guard);
        });
        cancel::<KernelThreads>(thread);
    });
    assert!(mutex.try_lock().is_ok());
}

#[test]
fn notifications_wake_as_many_as_there_were() {
    // Permits under a condition variable with time-outs: each permit is taken once, none is stranded.
    let (permits, changed) = (Mutex::with_value(0u32), Condvar::new());
    let taken = AtomicUsize::new(0);
    joined::scope(|scope| {
        for who in 0..4u64 {
            let (permits, changed, taken) = (&permits, &changed, &taken);
            scope.spawn(move || {
                for i in 0..few!(500) {
                    let mut guard = permits.lock().unwrap();
                    while *guard == 0 {
                        let timeout = if who == 0 { Duration::from_nanos(i * 100) } else { LONG };
                        let (again, result) = changed.wait_timeout(guard, timeout).unwrap();
                        guard = again;
                        if result.timed_out() && *guard == 0 {
                            continue;
                        }
                    }
                    *guard -= 1;
                    taken.fetch_add(1, SeqCst);
                }
            });
        }
        for _ in 0..few!(2_000) {
            *permits.lock().unwrap() += 1;
            changed.notify_one();
        }
    });
    assert_eq!(taken.load(SeqCst), few!(2_000));
}
