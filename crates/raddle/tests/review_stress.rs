//! Everything at once, from several kernel threads, on pools that come and go: nothing is lost, run twice, or freed
//! early.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

thread_local!(static OWN: Cell<u64> = const { Cell::new(0) });

fn work(seed: u64, depth: u32, done: &Arc<AtomicU64>) -> u64 {
    assert_eq!(OWN.get(), 0, "storage of another thread");
    OWN.set(seed + 1);
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut sum = 1;
    for _ in 0..6 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        match x % 9 {
            0 => raddle::yield_now(),
            1 => raddle::sleep(Duration::from_micros(x >> 8 & 255)),
            2 => std::thread::sleep(Duration::from_micros(x >> 8 & 63)),
            3 if depth > 0 => {
                let done = done.clone();
                sum += raddle::spawn(move || work(x >> 20, depth - 1, &done)).join().unwrap();
            }
            4 if depth > 0 => {
                let theirs = done.clone();
                drop(raddle::spawn(move || vec![work(x >> 20, depth - 1, &theirs)]));
            }
            5 if depth > 0 => {
                sum += raddle::scope(|s| {
                    let handles: Vec<_> =
                        (0..3).map(|i| s.spawn(move || work((x >> 20) + i, depth - 1, done))).collect();
                    handles.into_iter().map(|h| h.join().unwrap()).sum::<u64>()
                });
            }
            6 if depth > 0 => {
                let two = |k: u64| {
                    let done = done.clone();
                    move || raddle::spawn(move || work((x >> 20) + k, depth - 1, &done)).join().unwrap()
                };
                let (a, b) = raddle::join(two(0), two(1));
                sum += a + b;
            }
            7 => {
                let me = raddle::current();
                drop(raddle::spawn(move || me.unpark()));
                raddle::park();
            }
            8 => {
                let sleeper = raddle::spawn(|| raddle::sleep(Duration::from_millis(300)));
                if x & 1024 == 0 {
                    raddle::yield_now();
                }
                sleeper.cancel();
                sleeper.join().unwrap();
            }
            _ => std::hint::spin_loop(),
        }
        assert_eq!(OWN.get(), seed + 1, "storage changed under its thread");
    }
    OWN.set(0);
    done.fetch_add(1, Ordering::Relaxed);
    sum
}

#[test]
fn a_mixture_of_everything_comes_to_an_end() {
    for round in 0..4u64 {
        let kernel: Vec<_> = (0..3u64)
            .map(|k| {
                std::thread::spawn(move || {
                    let policy = ["steal(lifo)", "steal(fifo)", "priority(3, steal(lifo))", "lifo"];
                    let pool = raddle::Builder::new()
                        .processors([1, 2, 5][k as usize])
                        .policy(policy[((round + k) % 4) as usize])
                        .build()
                        .unwrap();
                    let done = Arc::new(AtomicU64::new(0));
                    for i in 0..20 {
                        assert!(pool.run(|| work(round << 32 | k << 16 | i, 3, &done)) > 0);
                    }
                    drop(pool);
                    assert_eq!(Arc::strong_count(&done), 1, "a pool ended before its threads");
                })
            })
            .collect();
        kernel.into_iter().for_each(|t| t.join().unwrap());
    }
}
