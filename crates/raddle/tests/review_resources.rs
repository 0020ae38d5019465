//! What threads and pools leave behind when they have ended: nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
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

/// One is ready again and again, another one never: no wait for both stays in the list of the quiet one.
#[test]
fn waits_that_another_descriptor_has_ended_leave_nothing() {
    use raddle::io::{Interest, until, wait_for};
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let [(busy, far), (quiet, _kept)] = [(); 2].map(|()| UnixStream::pair().unwrap());
    [&busy, &far].into_iter().for_each(|one| one.set_nonblocking(true).unwrap());
    let get = |one: &UnixStream| until(one.as_fd(), Interest::Read, None, || (&*one).read(&mut [0])).unwrap();
    let put = |one: &UnixStream| assert_eq!((&*one).write(&[1]).unwrap(), 1);
    let each = |visit: &mut dyn FnMut(i32, Interest)| {
        [&busy, &quiet].into_iter().for_each(|one| visit(one.as_raw_fd(), Interest::Read));
    };
    let rounds = |count: u32| {
        raddle::scope(|s| {
            s.spawn(|| {
                (0..count).for_each(|_| {
                    get(&far);
                    put(&far);
                });
            });
            for _ in 0..count {
                put(&busy);
                wait_for(&each, None, false).unwrap();
                get(&busy);
            }
        });
    };
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(|| {
        rounds(2000);
        let before = LIVE.load(Ordering::Relaxed);
        rounds(20_000);
        let more = LIVE.load(Ordering::Relaxed) - before;
        assert!(more < 100 << 10, "{more} bytes more after 20,000 waits");
    });
}
