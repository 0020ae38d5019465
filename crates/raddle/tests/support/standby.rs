//! A thread that blocks in the kernel where nothing tells of it, beside another one on one processor.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// One thread sleeps in the kernel for `block` again and again, another one runs meanwhile only if the processor is
/// taken over. Ends when standbys, and not the monitor, have taken it `times` times since, or at once where none may
/// be had.
pub fn blocks_until_taken_over(block: Duration, times: u64) {
    if let Err(why) = raddle::info::standbys() {
        println!("skipped: no standbys here: {why}");
        return;
    }
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    static CAUGHT: AtomicBool = AtomicBool::new(false);
    pool.run(|| {
        let before = raddle::info::stats().takeovers_by_standby;
        let sleeper = raddle::spawn(move || {
            while !CAUGHT.load(Ordering::Relaxed) {
                std::thread::sleep(block);
                raddle::yield_now();
            }
        });
        while raddle::info::stats().takeovers_by_standby < before + times {
            raddle::yield_now();
        }
        CAUGHT.store(true, Ordering::Relaxed);
        sleeper.join().unwrap();
    });
}
