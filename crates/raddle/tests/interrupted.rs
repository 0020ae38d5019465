//! An interruption, as a signal for a thread makes it, meets a sleeper and does not shorten its sleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
