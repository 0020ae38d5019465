//! What ThreadSanitizer sees of lightweight threads: races, and that what the runtime orders is none. Empty in other
//! builds.
#![cfg(raddle_tsan)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A plain word that threads share.
#[derive(Default)]
struct Shared(UnsafeCell<u64>);

// SAFETY: that it is not safe without order is what these tests are about.
unsafe impl Sync for Shared {}

impl Shared {
    fn write(&self, value: u64) {
        // SAFETY: the test says who writes and who reads when, and the sanitizer watches it.
        unsafe { *self.0.get() = value };
    }

    fn read(&self) -> u64 {
        // SAFETY: the test says who writes and who reads when, and the sanitizer watches it.
        unsafe { *self.0.get() }
    }
}

/// Set for the child that is to be caught.
const RACE: &str = "RADDLE_TSAN_RACE";

#[test]
fn a_race_between_threads_is_seen() {
    if std::env::var_os(RACE).is_some() {
        return race();
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", "a_race_between_threads_is_seen"]).env(RACE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("ThreadSanitizer: data race"), "{told}");
    assert!(told.contains("Shared::read") || told.contains("Shared>::read"), "{told}");
}

/// Nothing but relaxed atomics between the write and the read, on two kernel threads at once.
fn race() {
    static SHARED: Shared = Shared(UnsafeCell::new(0));
    static HERE: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
    static WRITTEN: AtomicBool = AtomicBool::new(false);
    let until = |flag: &AtomicBool| {
        while !flag.load(Relaxed) {
            std::thread::yield_now();
        }
    };
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    pool.run(|| {
        let writer = raddle::spawn(move || {
            HERE[0].store(true, Relaxed);
            until(&HERE[1]);
            SHARED.write(7);
            WRITTEN.store(true, Relaxed);
        });
        HERE[1].store(true, Relaxed);
        until(&HERE[0]);
        until(&WRITTEN);
        println!("{}", SHARED.read());
        writer.join().unwrap();
    });
}

#[test]
fn what_spawns_joins_locks_and_wake_ups_order_is_no_race() {
    for policy in ["steal", "fifo", "rotator", "priority(2, lifo)", "multiqueue(2)", "request(ticket)"] {
        let pool = raddle::Builder::new().processors(3).policy(policy).build().unwrap();
        pool.run(|| {
            let (shared, lock) = (Shared::default(), raddle::sync::Mutex::new(()));
            raddle::scope(|s| {
                for turn in 0..200 {
                    let (shared, lock) = (&shared, &lock);
                    s.spawn(move || {
                        let held = lock.lock().unwrap();
                        shared.write(shared.read() + 1);
                        if turn % 3 == 0 {
                            raddle::yield_now();
                        }
                        drop(held);
                    });
                }
            });
            assert_eq!(shared.read(), 200, "{policy}");
        });
    }
}
