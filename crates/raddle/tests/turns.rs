//! The paper's figure 1: a thread blocks where nothing tells the runtime (T2), another one has its processor; it comes
//! back (T3), waits in the ready queue, and goes on when that processor selects it (T4). At no time do more threads run
//! than there are processors.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The counters are the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());
static RUNNING: AtomicU32 = AtomicU32::new(0);
static MOST: AtomicU32 = AtomicU32::new(0);

/// Computes without entering the runtime, counted.
fn compute(time: Duration) {
    let start = Instant::now();
    MOST.fetch_max(RUNNING.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
    RUNNING.fetch_sub(1, Ordering::SeqCst);
}

#[test]
fn a_thread_back_from_an_unseen_block_waits_for_its_turn() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let restartable = raddle::info::restartable_sequences();
    if restartable.is_err() || cfg!(not(target_arch = "x86_64")) || cfg!(raddle_tsan) {
        println!("skipped: a return is not told of here: {restartable:?}");
        return;
    }
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(|| {
        let mut rounds = 0;
        // Where the kernel keeps the processor's kernel thread from its core, or takes one that computes for a blocked
        // one, more run for a while, as the other counters say: such a round proves nothing.
        while rounds < 5 {
            let watched = raddle::info::stats().returns_watched;
            let (mut wait, mut wake) = std::io::pipe().unwrap();
            static BACK: AtomicBool = AtomicBool::new(false);
            BACK.store(false, Ordering::Relaxed);
            let blocked = raddle::spawn(move || {
                compute(Duration::from_micros(20));
                wait.read_exact(&mut [0]).unwrap();
                compute(Duration::from_micros(300));
                BACK.store(true, Ordering::Relaxed);
            });
            while raddle::info::stats().returns_watched == watched {
                compute(Duration::from_micros(20));
                raddle::yield_now();
            }
            let before = raddle::info::stats();
            MOST.store(0, Ordering::SeqCst);
            wake.write_all(&[1]).unwrap();
            while !BACK.load(Ordering::Relaxed) {
                compute(Duration::from_micros(20));
                raddle::yield_now();
            }
            let after = raddle::info::stats();
            blocked.join().unwrap();
            let changes = [
                after.takeovers - before.takeovers,
                after.slices - before.slices,
                after.publications - before.publications,
                after.returns_in_turn - before.returns_in_turn,
                after.returns_beside - before.returns_beside,
            ];
            if changes == [0, 0, 0, 1, 0] {
                assert_eq!(MOST.load(Ordering::SeqCst), 1, "threads that ran at once on one processor");
                rounds += 1;
            }
        }
    });
}

#[test]
fn threads_that_come_back_by_the_hundred_are_all_there() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for processors in [1, 2] {
        let pool = raddle::Builder::new().processors(processors).build().unwrap();
        let sum = pool.run(|| {
            let sleepers: Vec<_> = (0..100u64)
                .map(|i| {
                    raddle::spawn(move || {
                        for round in 0..5 {
                            // In the kernel, unseen.
                            std::thread::sleep(Duration::from_millis(1 + (i + round) % 7));
                            if round % 2 == 0 {
                                raddle::yield_now();
                            }
                        }
                        i
                    })
                })
                .collect();
            sleepers.into_iter().map(|sleeper| sleeper.join().unwrap()).sum::<u64>()
        });
        assert_eq!(sum, 4950);
    }
}
