//! Traces begun by many, of different sizes, forgotten, and made of files that are none.

use crate::harness::{panics, pool, quiet};
use raddle::trace::{Trace, convert};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// A file of this case's, and what tracing puts beside it: removed at the end.
struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("raddle-safe-{}-{name}", std::process::id())))
    }

    fn raw(&self) -> PathBuf {
        let mut name = self.0.clone().into_os_string();
        name.push(".raw");
        name.into()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = (std::fs::remove_file(&self.0), std::fs::remove_file(self.raw()));
    }
}

/// Threads that switch, wait and end all the time while `f` runs.
fn beside_many(f: impl FnOnce()) {
    let (stop, pool) = (AtomicBool::new(false), pool(2));
    std::thread::scope(|kernel| {
        let busy = kernel.spawn(|| {
            pool.run(|| {
                while !stop.load(Ordering::Relaxed) {
                    raddle::scope(|s| (0..8).for_each(|_| drop(s.spawn(raddle::yield_now))));
                }
            });
        });
        let panicked = panics(f);
        stop.store(true, Ordering::Relaxed);
        busy.join().unwrap();
        assert!(!panicked, "see above");
    });
}

// Who notes an event may have come by the first trace and be late: it writes into that one's file, not beyond its end.
case!(traces_of_different_sizes_one_after_the_other {
    let file = File::new("sizes");
    beside_many(|| {
        for round in 0..20 {
            let events = [1024, 1 << 13][round % 2];
            let trace = Trace::begin(&file.0, events).unwrap();
            raddle::sleep(std::time::Duration::from_micros(200));
            assert!(Trace::begin(&file.0, 1024).is_err(), "two at once");
            if round % 10 == 0 {
                assert!(trace.finish().unwrap().exists());
            } else {
                // It has to be ended, whatever became of its file.
                std::fs::remove_file(trace.raw()).unwrap();
                assert!(trace.finish().is_err());
            }
        }
    });
});

case!(traces_that_many_begin_at_once {
    let begun = AtomicU32::new(0);
    beside_many(|| {
        std::thread::scope(|kernel| {
            for number in 0..4usize {
                let begun = &begun;
                kernel.spawn(move || {
                    let file = File::new(&format!("begun-{number}"));
                    for round in 0..8 {
                        // The sizes differ: whoever is second must change nothing of the first one's.
                        let events = [1024, 1 << 13][(round + number) % 2];
                        if let Ok(trace) = Trace::begin(&file.0, events) {
                            assert_eq!(begun.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                            std::thread::yield_now();
                            begun.fetch_sub(1, Ordering::SeqCst);
                            std::fs::remove_file(trace.raw()).unwrap();
                            assert!(trace.finish().is_err());
                        }
                    }
                });
            }
        });
    });
});

case!(a_trace_that_is_forgotten_goes_on_and_the_next_is_refused {
    let file = File::new("forgotten");
    std::mem::forget(Trace::begin(&file.0, 0).unwrap());
    assert!(Trace::begin(&file.0, usize::MAX).is_err());
    pool(2).run(|| raddle::scope(|s| (0..20).for_each(|_| drop(s.spawn(raddle::yield_now)))));
    assert!(Trace::begin("/nowhere/trace".as_ref(), 1024).is_err());
    let made = File::new("of-a-forgotten-one");
    convert(&file.raw(), &made.0).unwrap();
    assert!(made.0.exists());
});

// A name that has no room is cut between two of its characters.
case!(a_long_name_of_two_bytes_a_character {
    let file = File::new("named");
    let trace = Trace::begin(&file.0, 1024).unwrap();
    let name = format!("x{}", "\u{e4}".repeat(100));
    pool(1).run(|| raddle::thread::Builder::new().name(name).spawn(raddle::yield_now).unwrap().join().unwrap());
    let text = std::fs::read_to_string(trace.finish().unwrap()).unwrap();
    // Of kernel threads nothing is told.
    assert!(raddle::info::lightweight().is_err() || text.contains(&format!("x{}", "\u{e4}".repeat(10))), "{text}");
});

case!(files_that_are_no_traces {
    quiet();
    let file = File::new("garbage");
    let trace = Trace::begin(&file.0, 1024).unwrap();
    pool(2).run(|| raddle::scope(|s| (0..50).for_each(|_| drop(s.spawn(raddle::yield_now)))));
    let good = std::fs::read(trace.raw()).unwrap();
    trace.finish().unwrap();
    let (bad, made) = (File::new("bad"), File::new("made"));
    let mut chance = 1u64;
    let mut next = || {
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (chance >> 33) as usize
    };
    for round in 0..150 {
        let mut bytes = good.clone();
        let most = [64, 512, 8192, good.len()][round % 4];
        for _ in 0..1 + round % 5 {
            // Words: lengths, numbers of lanes and events, cursors, times.
            let at = next() % (most / 8) * 8;
            let value = [0, 1, u64::MAX, u64::MAX / 2 + 1, next() as u64, 1 << (next() % 64)][next() % 6];
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        }
        bytes.truncate(if round % 7 == 0 { next() % good.len() } else { good.len() });
        std::fs::write(&bad.0, bytes).unwrap();
        assert!(!panics(|| convert(&bad.0, &made.0).is_ok()), "round {round}");
    }
});
