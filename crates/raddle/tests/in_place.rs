//! Joins that run their thread in their own place: nobody can tell, but by where it runs.

#[path = "support/child.rs"]
mod child;
mod undisturbed;

use std::cell::{Cell, RefCell};
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use undisturbed::undisturbed;

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static NOTES: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

fn pool(processors: usize) -> raddle::Pool {
    raddle::Builder::new().processors(processors).build().unwrap()
}

/// An address on the caller's stack.
#[inline(never)]
fn here() -> usize {
    let local = 0u8;
    std::hint::black_box(&raw const local).addr()
}

/// Less than what lies between two stacks.
const NEAR: usize = 64 << 10;

#[test]
fn a_thread_that_has_not_started_runs_on_its_joiners_stack() {
    let pool = pool(1);
    // Now and then a selection prefers others.
    let apart = || (0..4).map(|_| raddle::spawn(here).join().unwrap().abs_diff(here())).min().unwrap();
    let apart = undisturbed(|| pool.run(apart));
    assert!(apart < NEAR, "{apart} bytes away");
}

#[test]
fn it_has_a_stack_of_its_own_where_its_joiner_has_a_scope_open() {
    let pool = pool(1);
    let apart = pool.run(|| raddle::scope(|s| s.spawn(here).join().unwrap()).abs_diff(here()));
    assert!(apart > NEAR, "{apart} bytes away");
}

#[test]
fn it_has_storage_of_its_own_which_ends_with_it() {
    static ENDED: AtomicU64 = AtomicU64::new(0);
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            // On the thread itself, and before its join returns.
            ENDED.fetch_add(NUMBER.get(), Ordering::Relaxed);
        }
    }
    thread_local!(static LAST: Ends = const { Ends });
    fn level(depth: u64) -> u64 {
        assert_eq!(NUMBER.replace(depth), 0, "storage is fresh");
        NOTES.with_borrow_mut(|notes| notes.push(depth));
        LAST.with(|_| ());
        let before = ENDED.load(Ordering::Relaxed);
        let below = if depth == 1 { 0 } else { raddle::spawn(move || level(depth - 1)).join().unwrap() };
        assert_eq!(ENDED.load(Ordering::Relaxed) - before, (1..depth).sum::<u64>());
        assert_eq!(NUMBER.get(), depth, "its own again");
        NOTES.with_borrow(|notes| assert_eq!(notes[..], [depth]));
        below + depth
    }
    let pool = pool(1);
    assert_eq!(pool.run(|| raddle::spawn(|| level(20)).join().unwrap()), 210);
    assert_eq!(ENDED.load(Ordering::Relaxed), 210);
}

#[test]
fn it_waits_and_yields_and_its_joiner_with_it() {
    for processors in [1, 2] {
        let (sender, receiver) = raddle::sync::channel::bounded::<u64>(1);
        let sum = pool(processors).run(move || {
            let feeder = raddle::spawn(move || {
                for i in 0..100 {
                    sender.send(i).unwrap();
                    raddle::yield_now();
                }
            });
            // Pushed last, so it starts first.
            let middle = raddle::spawn(move || {
                raddle::spawn(move || {
                    let mut sum = 0;
                    while let Ok(i) = receiver.recv() {
                        sum += i;
                        raddle::thread::sleep(std::time::Duration::from_micros(10));
                    }
                    sum
                })
                .join()
                .unwrap()
            });
            let sum = middle.join().unwrap();
            feeder.join().unwrap();
            sum
        });
        assert_eq!(sum, 4950);
    }
}

#[test]
fn a_chain_longer_than_a_stack_ends() {
    fn chain(left: u64) -> u64 {
        // A frame of some size.
        let frame = std::hint::black_box([left; 128]);
        if left == 0 { 0 } else { raddle::spawn(move || chain(left - 1)).join().unwrap() + frame[127] - left + 1 }
    }
    assert_eq!(pool(1).run(|| chain(2_000)), 2_000);
}

#[test]
fn its_panic_is_its_joiners_to_take_also_amid_another_one() {
    struct Joins;
    impl Drop for Joins {
        fn drop(&mut self) {
            assert!(std::thread::panicking());
            let inner = raddle::spawn(|| -> () {
                assert!(!std::thread::panicking(), "the joiner's panic is not its own");
                panic!("inner, expected in this test")
            });
            let panic = inner.join().unwrap_err();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"inner, expected in this test"));
        }
    }
    let outer = pool(1).run(|| {
        raddle::spawn(|| {
            let _joins = Joins;
            panic!("outer, expected in this test")
        })
        .join()
        .unwrap_err()
    });
    assert_eq!(outer.downcast_ref::<&str>(), Some(&"outer, expected in this test"));
}

#[test]
fn a_result_that_needs_dropping_is_dropped_once() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Counted([u64; 9]);
    impl Counted {
        fn new() -> Self {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Self([7; 9])
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    pool(1).run(|| {
        let results: Vec<_> = (0..10).map(|_| raddle::spawn(Counted::new).join().unwrap()).collect();
        assert_eq!((ALIVE.load(Ordering::Relaxed), results[3].0[8]), (10, 7));
    });
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn who_only_spawns_and_joins_lets_others_run() {
    let pool = pool(1);
    let turns = pool.run(|| {
        static TURNS: AtomicU64 = AtomicU64::new(0);
        let other = raddle::spawn(|| {
            while TURNS.fetch_add(1, Ordering::Relaxed) < 50 {
                raddle::yield_now();
            }
        });
        let mut rounds = 0u64;
        while TURNS.load(Ordering::Relaxed) < 50 {
            rounds += raddle::spawn(|| 1).join().unwrap();
            assert!(rounds < 100_000, "the other thread never ran");
        }
        other.join().unwrap();
        TURNS.load(Ordering::Relaxed)
    });
    assert!(turns >= 50);
}

/// Its joiner's cancellation reaches the joiner when it goes on, and the thread is not cancelled with it.
#[test]
fn a_cancelled_joiner_goes_on_when_its_thread_has_ended() {
    for processors in [1, 2] {
        pool(processors).run(|| {
            let (go, gone) = raddle::sync::channel::bounded::<()>(1);
            let (begun, begins) = raddle::sync::channel::bounded::<()>(1);
            let joiner = raddle::spawn(move || {
                let inner = raddle::spawn(move || {
                    begun.send(()).unwrap();
                    gone.recv().is_ok() && !raddle::thread::is_cancelled()
                });
                let fine = inner.join().unwrap();
                fine && raddle::thread::is_cancelled()
            });
            begins.recv().unwrap();
            joiner.cancel();
            go.send(()).unwrap();
            assert!(joiner.join().unwrap());
        });
    }
}

/// Trees on several processors whose threads wait, yield and are stolen in between.
#[test]
fn trees_of_threads_that_wait_come_out_right() {
    fn tree(n: u64, chance: u64) -> u64 {
        if n < 2 {
            return n;
        }
        assert_eq!(NUMBER.replace(n), 0);
        let next = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n);
        let left = raddle::spawn(move || tree(n - 1, next));
        match next >> 60 {
            0 => raddle::yield_now(),
            1 => raddle::thread::sleep(std::time::Duration::from_micros(next >> 56)),
            _ => {}
        }
        let right = raddle::spawn(move || tree(n - 2, !next));
        let (first, second) = if next >> 59 & 1 == 0 { (left, right) } else { (right, left) };
        let sum = first.join().unwrap() + second.join().unwrap();
        assert_eq!(NUMBER.get(), n, "its own storage still");
        sum
    }
    for processors in [1, 2, 4] {
        let pool = pool(processors);
        for seed in 0..5 {
            assert_eq!(pool.run(|| raddle::spawn(move || tree(13, seed)).join().unwrap()), 233);
        }
    }
}

/// Both processors of a thread that was begun in place may change under it; the modes of the units are its joiner's.
#[cfg(target_arch = "x86_64")]
#[test]
fn it_begins_in_the_default_modes_and_leaves_its_joiners_alone() {
    fn modes() -> u32 {
        let mut modes = 0u32;
        // SAFETY: stores four bytes.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut modes) };
        modes & 0xffc0
    }
    fn set(modes: u32) {
        // SAFETY: rounding modes, restored below.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const modes) };
    }
    pool(1).run(|| {
        set(0x3f80);
        let inner = raddle::spawn(|| {
            let begun = modes();
            set(0x5f80);
            begun
        });
        let inner = inner.join().unwrap();
        let own = modes();
        set(0x1f80);
        assert_eq!((inner, own), (0x1f80, 0x3f80));
    });
}

/// Descriptors go from thread to thread, and what a thread was called does not go with them: whether it has run in its
/// joiner's place, or elsewhere, or nobody joined it.
#[test]
fn what_a_thread_was_called_goes_with_it() {
    pool(1).run(|| {
        let mut seen = std::collections::HashSet::new();
        let mut named = |(id, name): (raddle::park::ThreadId, Option<String>)| {
            assert!(seen.insert(id), "a thread has the id of an earlier one");
            assert_eq!(name, None, "a thread has the name of an earlier one");
        };
        let ids = || {
            let before = (raddle::current().id(), raddle::thread::current_name());
            raddle::drop_in::set_own_name("called");
            before
        };
        for _ in 0..20 {
            named(raddle::spawn(ids).join().unwrap());
            named(raddle::scope(|s| s.spawn(ids).join().unwrap()));
            let (sender, receiver) = raddle::sync::channel::bounded(1);
            drop(raddle::spawn(move || sender.send(ids()).unwrap()));
            named(receiver.recv().unwrap());
        }
    });
}

/// Its joiner goes on in the pool that it belongs to, and each pool knows how many threads it has.
#[test]
fn a_thread_may_move_to_another_pool_and_its_joiner_goes_on_in_its_own() {
    let (here, there) = (Arc::new(pool(1)), Arc::new(pool(1)));
    let (home, away) = (here.clone(), there.clone());
    here.run(move || {
        for _ in 0..20 {
            let (back, away) = (home.clone(), away.clone());
            let inner = raddle::spawn(move || {
                raddle::move_to(&away).unwrap();
                // And one level more.
                let innermost = raddle::spawn(move || raddle::move_to(&back).is_ok() && back.is_current());
                innermost.join().unwrap() && away.is_current()
            });
            assert!(inner.join().unwrap() && home.is_current());
            raddle::yield_now();
        }
    });
    for pool in [here, there] {
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while pool.live_threads() != 0 {
            assert!(std::time::Instant::now() < end, "{} threads live", pool.live_threads().cast_signed());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

#[test]
fn its_overflow_is_reported_by_its_own_name() {
    #[inline(never)]
    fn recurse(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 16]);
        if depth == u64::MAX { 0 } else { recurse(depth + 1) + frame[3] }
    }
    let Some(output) = child::again("its_overflow_is_reported_by_its_own_name").map(child::run) else {
        pool(1).run(|| {
            let outer = || {
                // Now and then a selection prefers others; the next one does not.
                while raddle::spawn(here).join().unwrap().abs_diff(here()) > NEAR {}
                raddle::spawn(|| std::hint::black_box(recurse(0))).join().unwrap();
            };
            raddle::thread::Builder::new().name("surface".into()).spawn(outer).unwrap().join().unwrap();
        });
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("thread '<unnamed>' has overflowed its stack"), "{text}");
}

/// A token that the thread leaves for its joiner is there when that one goes on.
#[test]
fn its_joiner_finds_what_was_left_for_it() {
    pool(1).run(|| {
        for _ in 0..4 {
            let me = raddle::current();
            let inner = raddle::spawn(move || {
                me.unpark();
                raddle::yield_now();
                me.unpark();
            });
            inner.join().unwrap();
            raddle::park();
        }
    });
}

/// The last that a thread does may be anything a thread does.
#[test]
fn its_destructors_may_spawn_join_and_wait() {
    static SUM: AtomicU64 = AtomicU64::new(0);
    struct Last(u64);
    impl Drop for Last {
        fn drop(&mut self) {
            let n = self.0;
            let inner = raddle::spawn(move || {
                if n > 0 {
                    LAST.with_borrow_mut(|last| *last = Some(Last(n - 1)));
                }
                n
            });
            SUM.fetch_add(inner.join().unwrap(), Ordering::Relaxed);
            raddle::yield_now();
            raddle::thread::sleep(std::time::Duration::from_micros(1));
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    for processors in [1, 2] {
        SUM.store(0, Ordering::Relaxed);
        pool(processors).run(|| {
            raddle::spawn(|| LAST.with_borrow_mut(|last| *last = Some(Last(10)))).join().unwrap();
            assert_eq!(SUM.load(Ordering::Relaxed), 55);
        });
    }
}

/// By name and address, by which others that it holds up say whom they wait for.
#[test]
fn a_dump_says_who_its_joiner_is() {
    let pool = pool(1);
    let (go, gone) = raddle::sync::channel::bounded::<()>(1);
    let joiner = move || raddle::spawn(move || gone.recv().is_ok()).join().unwrap();
    let joiner = raddle::thread::Builder::new().name("patient".into()).spawn_into(&pool, joiner).unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
    // In place or not, as soon as it waits.
    loop {
        let mut text = Vec::new();
        raddle::info::dump(&mut text, raddle::info::DumpOptions { threads: 1000, backtraces: 0 }).unwrap();
        let text = String::from_utf8_lossy(&text);
        if text.lines().any(|line| line.contains("\"patient\" waits") && line.contains("it is the one at 0x")) {
            break;
        }
        assert!(std::time::Instant::now() < end, "{text}");
    }
    go.send(()).unwrap();
    assert!(joiner.join().unwrap());
}
