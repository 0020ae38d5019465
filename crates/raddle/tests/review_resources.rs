//! What threads and pools leave behind when they have ended: nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;
static LIVE: AtomicI64 = AtomicI64::new(0);
/// The tests of this file count for the whole process: one at a time.
static ONE: Mutex<()> = Mutex::new(());

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: the caller keeps the allocator's rules, which are the system's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        // SAFETY: it came from `alloc` above, which is the system's, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A result that needs no destructor, but is too large for a descriptor.
#[test]
fn a_large_plain_result_that_nobody_joins_is_freed() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let round = || {
        pool.run(|| {
            for _ in 0..1000 {
                drop(raddle::spawn(|| [7u64; 128]));
                raddle::yield_now();
            }
        });
        while pool.live_threads() != 0 {
            std::thread::yield_now();
        }
    };
    round();
    let before = LIVE.load(Ordering::Relaxed);
    round();
    let leaked = LIVE.load(Ordering::Relaxed) - before;
    assert!(leaked < 100_000, "1000 threads left {leaked} bytes");
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// The stacks that a pool's processors kept go back with the pool.
#[test]
fn a_pool_that_has_ended_keeps_no_stacks() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let round = || {
        let pool = raddle::Builder::new().processors(1).build().unwrap();
        pool.run(|| {
            let handles: Vec<_> =
                (0..64).map(|_| raddle::spawn(|| raddle::sleep(std::time::Duration::from_millis(2)))).collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
        });
    };
    (0..10).for_each(|_| round());
    let before = resident();
    (0..100).for_each(|_| round());
    let grown = resident().saturating_sub(before);
    assert!(grown < 8 << 20, "100 pools left {grown} bytes");
}

/// Of the largest class for which processors keep rights there are so few stacks that the rights of some hundred pools
/// would be all.
#[test]
fn a_pool_that_has_ended_keeps_no_rights_to_stacks() {
    const SLOT: usize = 256 << 20;
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for _ in 0..300 {
        let pool = raddle::Builder::new().processors(1).build().unwrap();
        pool.run(|| raddle::thread::Builder::new().stack_size(SLOT).spawn(|| ()).unwrap().join().unwrap());
    }
}
