//! An interruption, as a signal for a thread makes it, meets a sleeper and does not shorten its sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::{Duration, Instant};

#[test]
fn an_interruption_does_not_shorten_a_sleep() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let sleeper = pool.spawn(move || {
        let (begun, time) = (Instant::now(), Duration::from_millis(50));
        raddle::sleep(time);
        let long_enough = begun.elapsed() >= time;
        ends.store(true, Ordering::SeqCst);
        long_enough
    });
    let raw = sleeper.into_raw();
    while !over.load(Ordering::SeqCst) {
        // SAFETY: the handle is neither joined nor dropped until it is made anew below.
        let _ = unsafe { raddle::drop_in::interrupt(raw) };
        std::thread::yield_now();
    }
    // SAFETY: of a handle of this type, once.
    let sleeper = unsafe { raddle::JoinHandle::<bool>::from_raw(raw) };
    assert!(sleeper.join().unwrap());
}

/// One that comes just before a wait, when the thread is in none, ends that wait: nobody tells it again.
#[test]
fn an_interruption_before_a_wait_ends_it() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let own = Arc::new(AtomicPtr::default());
    let theirs = own.clone();
    let waits = pool.spawn(move || {
        let own = loop {
            let own: *mut () = theirs.load(Ordering::Acquire);
            if !own.is_null() {
                break own;
            }
            raddle::yield_now();
        };
        for _ in 0..10 {
            // SAFETY: the handle is neither joined nor dropped until it is made anew below.
            let _ = unsafe { raddle::drop_in::interrupt(own) };
            let waited = raddle::drop_in::wait_at("a test", own.addr(), None, false, || false);
            assert!(waited.is_ok());
        }
    });
    let raw = waits.into_raw();
    own.store(raw.cast_mut(), Ordering::Release);
    // SAFETY: of a handle of this type, once; the thread uses the address until it has ended.
    let waits = unsafe { raddle::JoinHandle::<()>::from_raw(raw) };
    waits.join().unwrap();
}
