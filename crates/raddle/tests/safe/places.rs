//! Stacks, names, handles: what a thread has, taken to the edge.

use crate::harness::{On, panics, pool, quiet};
use raddle::thread::Builder;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

fn dumped() -> String {
    let mut text = Vec::new();
    raddle::info::dump(&mut text, raddle::info::DumpOptions { threads: 1000, backtraces: 1000 }).unwrap();
    String::from_utf8(text).unwrap()
}

/// Waits so many bytes below `top`, in frames of some 150 bytes: how large they are depends on the build, and so would
/// a depth in frames.
#[inline(never)]
fn wait_deep(top: usize, bytes: usize, go: &raddle::sync::Semaphore) -> u64 {
    let filled = std::hint::black_box([bytes as u64; 8]);
    if top - std::ptr::from_ref(&filled).addr() >= bytes {
        go.acquire(1);
        return filled[0];
    }
    wait_deep(top, bytes, go) + std::hint::black_box(filled)[7]
}

case!(a_dump_of_threads_with_the_smallest_stack_at_every_depth, On::Lightweight, {
    let pool = pool(1);
    let go = std::sync::Arc::new(raddle::sync::Semaphore::new(0));
    let threads: Vec<_> = (0..33)
        .map(|depth| {
            let go = go.clone();
            let builder = Builder::new().stack_size(16 << 10).name(format!("depth {depth}"));
            let wait = move || {
                let here = std::hint::black_box(0);
                wait_deep(std::ptr::from_ref(&here).addr(), 144 * depth, &go)
            };
            builder.spawn_into(&pool, wait).unwrap()
        })
        .collect();
    let text = loop {
        let text = dumped();
        // Those who are on their way have yielded once before they park.
        let waits = |depth| text.contains(&format!("\"depth {depth}\" waits"));
        if (0..33).all(waits) && !text.contains("on its way") {
            break text;
        }
        std::thread::yield_now();
    };
    assert!(text.contains("wait_deep"), "none of them was walked: {text}");
    go.release(33);
    threads.into_iter().for_each(|thread| _ = thread.join().unwrap());
});

case!(a_dump_by_a_thread_with_the_smallest_stack, On::Lightweight, {
    let pool = pool(2);
    let waits =
        Builder::new().name("patient".into()).spawn_into(&pool, || raddle::sleep(Duration::from_millis(50))).unwrap();
    let dumper = Builder::new().stack_size(16 << 10).spawn_into(&pool, || {
        raddle::sleep(Duration::from_millis(5));
        dumped()
    });
    assert!(dumper.unwrap().join().unwrap().contains("too small to look up names"));
    waits.join().unwrap();
});

case!(names_with_a_nul_in_them {
    let pool = raddle::Builder::new().processors(1).kernel_thread_prefix("a\0b").build().unwrap();
    assert_eq!(pool.run(|| 7), 7);
    let named = Builder::new().name("c\0d".into()).spawn_into(&pool, raddle::current_name).unwrap();
    assert_eq!(named.join().unwrap().unwrap().len(), 3);
});

case!(names_that_are_empty_long_or_not_ascii {
    for prefix in ["", "\u{1f980}\u{1f980}\u{1f980}\u{1f980}\u{1f980}", &"x".repeat(100_000)] {
        let pool = raddle::Builder::new().processors(1).kernel_thread_prefix(prefix).build().unwrap();
        let named = Builder::new().name(prefix.into()).spawn_into(&pool, || 7).unwrap();
        assert_eq!(named.join().unwrap(), 7);
    }
});

case!(two_wait_for_the_end_of_one_thread {
    // Both wait with one handle at the same time: each is told.
    let pool = pool(2);
    for round in 0..50 {
        let go = std::sync::Arc::new(raddle::sync::Semaphore::new(0));
        let (waiting, hold) = (AtomicU32::new(0), go.clone());
        let handle = pool.spawn(move || hold.acquire(1));
        pool.run(|| {
            raddle::scope(|s| {
                for _ in 0..2 + round % 3 {
                    s.spawn(|| {
                        waiting.fetch_add(1, Ordering::Relaxed);
                        handle.wait(None, false).unwrap();
                    });
                }
                while waiting.load(Ordering::Relaxed) < 2 + round % 3 {
                    raddle::yield_now();
                }
                raddle::yield_now();
                go.release(1);
            });
        });
        assert!(handle.is_finished());
        handle.join().unwrap();
    }
});

case!(some_give_up_waiting_for_a_thread_and_others_do_not {
    let pool = pool(2);
    let go = std::sync::Arc::new(raddle::sync::Semaphore::new(0));
    let hold = go.clone();
    let handle = pool.spawn(move || hold.acquire(1));
    let waiting = AtomicUsize::new((0..12).filter(|number| number % 3 != 0).count());
    pool.run(|| {
        raddle::scope(|s| {
            for number in 0..12 {
                let (handle, go, waiting) = (&handle, &go, &waiting);
                s.spawn(move || {
                    if number % 3 == 0 {
                        return handle.wait(None, true).unwrap();
                    }
                    let deadline = <raddle_machine::Real as raddle_machine::Machine>::now() + 1_000_000 * number;
                    assert!(handle.wait(Some(deadline), true).is_err());
                    // The last one that gives up, whichever that is: some may start late.
                    if waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
                        go.release(1);
                    }
                });
            }
        });
    });
    handle.join().unwrap();
});

case!(a_thread_that_joins_itself {
    quiet();
    let pool = pool(1);
    let (sender, receiver) = raddle::sync::channel::bounded::<raddle::JoinHandle<()>>(1);
    let (told, tell) = raddle::sync::channel::bounded(1);
    let handle = pool.spawn(move || {
        if raddle::info::lightweight().is_ok() {
            let own = receiver.recv().unwrap();
            let _ = told.send(panics(|| own.join()));
        } else {
            told.send(true).unwrap();
        }
    });
    let _ = sender.send(handle);
    assert!(tell.recv().unwrap());
});

case!(a_pool_dropped_by_one_of_its_threads {
    let first = std::sync::Arc::new(pool(1));
    let inner = first.clone();
    let thread = first.spawn(move || {
        raddle::yield_now();
        drop(inner);
        7
    });
    drop(first);
    assert_eq!(thread.join().unwrap(), 7);
});

case!(a_pool_that_ends_waits_for_its_threads {
    static ENDED: AtomicU32 = AtomicU32::new(0);
    let pool = pool(2);
    for _ in 0..20 {
        drop(pool.spawn(|| {
            raddle::sleep(Duration::from_millis(5));
            ENDED.fetch_add(1, Ordering::Relaxed);
        }));
    }
    drop(pool);
    assert_eq!(ENDED.load(Ordering::Relaxed), 20);
});

case!(a_pool_that_ends_waits_for_the_destructors_of_its_threads {
    thread_local! {
        static FIRST: Late = const { Late };
        static SECOND: Late = const { Late };
    }
    struct Late;
    static DROPS: AtomicU32 = AtomicU32::new(0);
    impl Drop for Late {
        fn drop(&mut self) {
            raddle::sleep(Duration::from_millis(2));
            // Made by the destructor of another one.
            let _ = SECOND.try_with(|_| ());
            DROPS.fetch_add(1, Ordering::Relaxed);
        }
    }
    let pool = pool(2);
    for _ in 0..10 {
        drop(pool.spawn(|| FIRST.with(|_| ())));
    }
    drop(pool);
    assert_eq!(DROPS.load(Ordering::Relaxed), 20);
});

case!(stacks_of_every_size {
    quiet();
    let pool = pool(1);
    for bytes in [0, 1, 4096, 16 << 10, (16 << 10) + 1, 100_000, 1 << 20, 1 << 30, usize::MAX / 2, usize::MAX] {
        match Builder::new().stack_size(bytes).spawn_into(&pool, || 7) {
            Ok(thread) => assert_eq!(thread.join().unwrap(), 7),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
});

case!(pools_of_impossible_sizes {
    for count in [0, raddle::pool::MAX_PROCESSORS + 1, usize::MAX] {
        assert!(raddle::Builder::new().processors(count).build().is_err());
    }
});

case!(priorities_that_do_not_exist {
    let pool = pool(1);
    for priority in [1, 2, 255] {
        let refused = Builder::new().priority(priority).spawn_into(&pool, || ()).is_err();
        assert!(refused);
    }
});
