//! The locks on kernel threads: exclusion, guards, panics, and what is forgotten.

use raddle_machine::Real;
use raddle_scheduler::lock::{
    Algorithm, Barging, Cna, Deferred, Full, H1Mcs, H2Mcs, Hemlock, Lock, Masked, Mcs, Own, Parked, Place,
    Reciprocating, Spin, SpinThenQueue, SwapH1Mcs, SwapH2Mcs, SwapMcs, TryMcs, Trying,
};
use raddle_scheduler::sync::kernel_threads::KernelThreads;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const THREADS: u64 = 4;
const EACH: u64 = if cfg!(miri) { 20 } else { 500 };

/// A waiter may own the only core: then a spinning lock is slow, so each turn offers it.
fn counts<A: Algorithm<Real> + 'static>(place: fn(usize) -> Place<A, Real>) {
    let lock = Arc::new(Lock::<u64, A, Real>::new(0));
    let threads: Vec<_> = (0..THREADS as usize)
        .map(|number| {
            let lock = lock.clone();
            std::thread::spawn(move || {
                let mut place = place(number);
                for turn in 0..EACH {
                    if turn % 3 == 0 {
                        lock.with(|value| *value += 1);
                    } else if turn % 3 == 1 {
                        lock.with_place(&mut place, |value| *value += 1);
                    } else {
                        let mut guard = lock.lock(place);
                        *guard += 1;
                        place = guard.unlock();
                    }
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(lock.with(|value| *value), THREADS * EACH);
}

#[test]
fn kernel_threads_count_under_each_lock() {
    fn any<A: Algorithm<Real>>(_: usize) -> Place<A, Real> {
        Place::new()
    }
    counts::<Spin<Real>>(any);
    counts::<Spin<Real, false, true>>(any);
    counts::<SpinThenQueue<Real>>(any);
    counts::<Mcs<Real>>(any);
    counts::<H1Mcs<Real>>(any);
    counts::<H2Mcs<Real>>(any);
    counts::<SwapMcs<Real>>(any);
    counts::<SwapH1Mcs<Real>>(any);
    counts::<SwapH2Mcs<Real>>(any);
    counts::<Hemlock<Real>>(any);
    counts::<Reciprocating<Real>>(any);
    counts::<Cna<Real>>(|number| Place::in_cluster(number % 2));
    counts::<TryMcs<Real>>(any);
    counts::<Parked<KernelThreads>>(any);
    counts::<Barging<KernelThreads>>(any);
}

#[test]
fn a_panic_inside_unlocks() {
    let lock = Lock::<u32, H2Mcs<Real>, Real>::new(1);
    assert!(catch_unwind(AssertUnwindSafe(|| lock.with(|_| panic!("inside")))).is_err());
    assert!(
        catch_unwind(AssertUnwindSafe(|| {
            let _guard = lock.lock(Place::new());
            panic!("inside");
        }))
        .is_err()
    );
    assert_eq!(lock.with(|value| *value), 1);
}

#[test]
fn a_thread_that_locks_what_it_holds_is_told_where_waiters_park() {
    fn told<A: Algorithm<Real>>() {
        let lock = Lock::<u32, A, Real>::new(1);
        for _ in 0..2 {
            let panic = catch_unwind(AssertUnwindSafe(|| lock.with(|_| lock.with(|_| ())))).unwrap_err();
            assert!(panic.downcast_ref::<&str>().unwrap().contains("holds already"));
            // Whoever had it last, it is free.
            assert_eq!((lock.with(|value| *value), *lock.lock(Place::new())), (1, 1));
        }
    }
    told::<Parked<KernelThreads>>();
    told::<Barging<KernelThreads>>();
}

#[test]
fn a_guard_that_is_forgotten_leaves_the_lock_held_and_frees_nothing() {
    let lock = Lock::<u32, TryMcs<Real>, Real>::new(1);
    let mut forgetful = Trying::new();
    std::mem::forget(lock.try_lock(&mut forgetful).unwrap());
    // Its node heads the queue: it is not to be freed, nor to be used for another try.
    assert!(lock.try_lock(&mut forgetful).is_none());
    drop(forgetful);
    let mut other = Trying::new();
    assert!(lock.try_lock(&mut other).is_none());
    drop(other);
}

#[test]
fn triers_and_waiters_count_together() {
    let lock = Arc::new(Lock::<u64, TryMcs<Real>, Real>::new(0));
    let waiters = (0..2).map(|_| {
        let lock = lock.clone();
        std::thread::spawn(move || {
            (0..EACH).for_each(|_| lock.with(|value| *value += 1));
            EACH
        })
    });
    let triers = (0..2).map(|_| {
        let lock = lock.clone();
        std::thread::spawn(move || {
            let mut lucky = 0;
            for turn in 0..EACH {
                // A new node now and then, while the old one is still queued.
                let mut trying = Trying::new();
                for _ in 0..1 + turn % 3 {
                    if let Some(mut guard) = lock.try_lock(&mut trying) {
                        *guard += 1;
                        lucky += 1;
                    }
                }
            }
            lucky
        })
    });
    let threads: Vec<_> = waiters.chain(triers).collect();
    let total: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    let mut trying = Trying::new();
    assert_eq!(*lock.try_lock(&mut trying).expect("nobody holds it"), total);
}

#[test]
fn work_left_by_many_is_all_done() {
    let sum = Arc::new(Deferred::<u64, Real>::new(0, 3));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let sum = sum.clone();
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    let work = |value: &mut u64| *value += 1;
                    if number % 2 == 0 {
                        sum.with(work);
                    } else if let Err(Full(work)) = sum.do_or_leave(work) {
                        sum.with(work);
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let Ok(sum) = Arc::try_unwrap(sum) else { panic!("shared") };
    assert_eq!(sum.into_inner(), THREADS * EACH);
}

#[test]
fn work_behind_one_that_panics_is_done_later() {
    let sum = Deferred::<u32, Real>::new(0, 3);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        sum.with(|_| {
            sum.do_or_leave(|_| panic!("work")).unwrap();
            sum.do_or_leave(|value| *value += 1).unwrap();
        });
    }));
    assert!(caught.is_err());
    assert_eq!(sum.with(|value| *value), 1);
}

/// What is left while a holder does what was left before is done when it has unlocked: there, too, each piece has its
/// turn.
#[test]
fn work_behind_one_that_panics_in_the_last_moment_is_done() {
    let sum = Arc::new(Deferred::<u32, Real>::new(0, 5));
    let again = sum.clone();
    let late = move |value: &mut u32| {
        *value += 1;
        assert!(!again.do_or_leave(|_| panic!("work")).unwrap());
        assert!(!again.do_or_leave(|value| *value += 10).unwrap());
        assert!(!again.do_or_leave(|_| panic!("more work")).unwrap());
        assert!(!again.do_or_leave(|value| *value += 100).unwrap());
    };
    let caught = catch_unwind(AssertUnwindSafe(|| sum.with(|_| assert!(!sum.do_or_leave(late).unwrap())))).unwrap_err();
    // The first one's.
    assert_eq!(caught.downcast_ref::<&str>(), Some(&"work"));
    let Ok(sum) = Arc::try_unwrap(sum) else { panic!("shared") };
    assert_eq!(sum.into_inner(), 111);
    // So is a processor's.
    let (masked, done) = (Masked::<Real>::new(3), Arc::new(AtomicU32::new(0)));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        masked.with(|| {
            for piece in 0..3 {
                let done = done.clone();
                let work = move || {
                    assert!(piece > 0, "work");
                    done.fetch_add(1, Ordering::Relaxed);
                };
                assert!(!masked.handle(work).unwrap());
            }
        });
    }));
    assert_eq!((caught.is_err(), done.load(Ordering::Relaxed)), (true, 2));
}

/// Whoever holds the lock does a bounded share of others' work, and what it does is theirs again as room.
#[test]
fn a_holder_does_as_much_of_others_work_as_there_is_room_for() {
    let sum = Arc::new(Deferred::<u32, Real>::new(0, 3));
    let again = sum.clone();
    fn leave(sum: &Arc<Deferred<u32, Real>>) -> bool {
        let again = sum.clone();
        // Each piece leaves another one, for ever if there were no bound.
        sum.do_or_leave(move |value| {
            *value += 1;
            leave(&again);
        })
        .is_ok()
    }
    sum.with(|_| assert!(leave(&again)));
    // Three were admitted, and their room came back when the holder had gone.
    assert_eq!(sum.with(|value| *value), 3);
    sum.with(|value| {
        let left = (0..5).filter(|_| again.do_or_leave(|value| *value += 10).is_ok()).count();
        assert_eq!((left, *value), (3, 3));
    });
    assert_eq!(sum.with(|value| *value), 33);
    // Free, and no room at all: the work is done at once.
    let none = Deferred::<u32, Real>::new(0, 0);
    assert!(none.do_or_leave(|value| *value += 1).unwrap());
    none.with(|value| assert!(none.do_or_leave(|value| *value += 1).is_err() && *value == 1));
}

/// A try that fails on one lock says nothing of another.
#[test]
fn two_locks_do_not_lose_each_others_work() {
    let (one, other) = (Arc::new(Deferred::<u32, Real>::new(0, 3)), Deferred::<u32, Real>::new(0, 3));
    let inside = one.clone();
    one.with(|_| {
        assert!(!inside.do_or_leave(|value| *value += 1).unwrap());
        // The other one is free, whatever was left here.
        assert!(other.do_or_leave(|value| *value += 1).unwrap());
    });
    assert_eq!((other.into_inner(), one.with(|value| *value)), (1, 1));
}

#[test]
fn a_processor_s_flag_keeps_handlers_out() {
    let masked = Masked::<Real>::new(2);
    let own = Own::<H1Mcs<Real>, Real>::new();
    let lock = Arc::new(Lock::<u32, H1Mcs<Real>, Real>::new(0));
    let handler = |masked: &Masked<Real>| {
        let lock = lock.clone();
        masked.handle(move || lock.with(|value| *value += 1)).map_err(|_| "full")
    };
    assert_eq!(handler(&masked), Ok(true));
    for round in 1..3 {
        masked.with(|| {
            masked.with(|| assert_eq!(handler(&masked), Ok(false)));
            lock.with(|value| assert_eq!(*value, 2 * round - 1, "the inner call is not the outermost"));
            assert_eq!(handler(&masked), Ok(false));
            assert_eq!(handler(&masked), Err("full"));
        });
        assert_eq!(lock.with(|value| *value), 2 * round + 1);
    }
    let nested = lock.with_own(&own, |_| lock.with_own(&own, |_| ()));
    assert_eq!((nested, lock.with_own(&own, |value| *value)), (Some(None), Some(5)));
}
