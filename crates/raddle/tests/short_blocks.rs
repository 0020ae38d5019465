//! Blocks that are over before the monitor could meet one: the processor goes on switching, and only what the kernel
//! counts tells that it rests. Alone in its process: the standby that this brings about would serve for others, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[test]
fn blocks_too_short_to_be_met_are_told_of_too() {
    if let Err(why) = raddle::info::standbys() {
        println!("skipped: no standbys here: {why}");
        return;
    }
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    static CAUGHT: AtomicBool = AtomicBool::new(false);
    pool.run(|| {
        let before = raddle::info::stats().takeovers_by_standby;
        let sleeper = raddle::spawn(|| {
            while !CAUGHT.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(300));
                raddle::yield_now();
            }
        });
        while raddle::info::stats().takeovers_by_standby == before {
            raddle::yield_now();
        }
        CAUGHT.store(true, Ordering::Relaxed);
        sleeper.join().unwrap();
    });
}
