//! Threads that move between pools, and calls that are known to block.

use raddle::pool::MoveError;
use std::cell::Cell;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

fn pool(processors: usize, policy: &str) -> raddle::Pool {
    raddle::Builder::new().processors(processors).policy(policy).build().unwrap()
}

#[test]
fn a_thread_that_moves_keeps_what_is_its_own() {
    for (a, b) in
        [("steal", "fifo"), ("rotator", "steal"), ("lifo", "multiqueue(2)"), ("local(overflow=retry)", "waiver")]
    {
        let (a, b) = (pool(1, a), pool(2, b));
        let (a, b) = (&a, &b);
        let sum: u64 = a.run(|| {
            raddle::scope(|s| {
                let movers: Vec<_> = (0..100u64)
                    .map(|n| {
                        s.spawn(move || {
                            let mine = std::rc::Rc::new(n);
                            let here = std::thread::current().id();
                            for step in 0..20 {
                                let (from, to) = if step % 2 == 0 { (a, b) } else { (b, a) };
                                assert!(from.is_current() && !to.is_current());
                                raddle::move_to(to).unwrap();
                                assert!(!from.is_current() && to.is_current());
                                assert_eq!(raddle::move_to(to), Ok(()), "a move to where it is");
                                assert_eq!(STEPS.replace(step + 1), step);
                                raddle::yield_now();
                            }
                            assert_eq!(std::thread::current().id(), here);
                            *mine
                        })
                    })
                    .collect();
                movers.into_iter().map(|mover| mover.join().unwrap()).sum()
            })
        });
        assert_eq!(sum, 4950);
        assert!(a.live_threads() < 2 && b.live_threads() == 0, "{} and {} live", a.live_threads(), b.live_threads());
    }
}

#[test]
fn what_a_mover_spawns_and_waits_for_belongs_to_the_pool_that_it_is_in() {
    let (front, back) = (pool(1, "steal"), Arc::new(pool(1, "fifo")));
    let there = back.clone();
    front.run(move || {
        let (send, receive) = raddle::sync::channel::bounded(1);
        let (answer, answers) = raddle::sync::channel::bounded(1);
        let server = raddle::spawn(move || {
            raddle::move_to(&there).unwrap();
            for n in receive.iter() {
                let there = there.clone();
                let square = raddle::spawn(move || {
                    assert!(there.is_current());
                    n * n
                });
                answer.send(square.join().unwrap()).unwrap();
            }
        });
        // Both ends of each wait are in different pools.
        for n in 0..1000u64 {
            send.send(n).unwrap();
            assert_eq!(answers.recv().unwrap(), n * n);
        }
        drop(send);
        server.join().unwrap();
    });
    assert_eq!(back.live_threads(), 0);
}

/// The name of the kernel thread that the calling thread is on.
fn kernel_thread() -> String {
    std::fs::read_to_string("/proc/thread-self/comm").unwrap()
}

/// An ending thread may have its joiner go on in its place: not where that belongs to another pool.
#[test]
fn who_joins_a_thread_of_another_pool_goes_on_in_its_own() {
    let pool = |name: &str| raddle::Builder::new().processors(1).kernel_thread_prefix(name).build().unwrap();
    let (here, there) = (pool("here-"), pool("there-"));
    here.run(|| {
        for _ in 0..100 {
            let (begun, asleep) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
            let [theirs, until] = [begun.clone(), asleep.clone()];
            let ends = raddle::thread::Builder::new().spawn_into(&there, move || {
                theirs.store(true, Ordering::Release);
                while !until.load(Ordering::Acquire) {
                    raddle::yield_now();
                }
                kernel_thread()
            });
            while !begun.load(Ordering::Acquire) {
                raddle::yield_now();
            }
            // On one processor it runs when this one waits for the end of the other.
            drop(raddle::spawn(move || asleep.store(true, Ordering::Release)));
            assert!(ends.unwrap().join().unwrap().starts_with("there-"));
            assert!(kernel_thread().starts_with("here-"), "{}", kernel_thread());
        }
    });
}

#[test]
fn a_move_that_cannot_be_leaves_the_thread_where_it_is() {
    let (many, one) = (pool(1, "priority(3, fifo)"), pool(1, "steal"));
    assert_eq!(raddle::move_to(&one), Err(MoveError::KernelThread));
    let (many, one) = (&many, &one);
    many.run(|| {
        raddle::scope(|s| {
            let low = raddle::thread::Builder::new().priority(2);
            let low = s.spawn_with(low, || (raddle::move_to(one), many.is_current())).unwrap();
            assert_eq!(low.join().unwrap(), (Err(MoveError::Priority(0)), true));
        });
        raddle::move_to(one).unwrap();
        raddle::move_to(many).unwrap();
        // The first number that is no priority there.
        raddle::scope(|s| {
            let next = raddle::thread::Builder::new().priority(1);
            let next = s.spawn_with(next, || (raddle::move_to(one), many.is_current())).unwrap();
            assert_eq!(next.join().unwrap(), (Err(MoveError::Priority(0)), true));
        });
    });
    assert!(MoveError::Priority(0).to_string().contains("0 to 0"));
}

#[test]
fn a_pool_ends_when_the_threads_that_moved_in_have() {
    let (front, back) = (pool(1, "steal"), Arc::new(pool(1, "steal")));
    let open = Arc::new(AtomicBool::new(false));
    let handles: Vec<_> = (0..10)
        .map(|_| {
            let (open, there) = (open.clone(), back.clone());
            let (ready, told) = std::sync::mpsc::channel();
            let handle = front.spawn(move || {
                raddle::move_to(&there).unwrap();
                // What keeps the pool from ending from here on is that it counts the thread.
                drop(there);
                ready.send(()).unwrap();
                while !open.load(Ordering::Relaxed) {
                    raddle::sleep(std::time::Duration::from_millis(1));
                }
                1
            });
            told.recv().unwrap();
            handle
        })
        .collect();
    assert_eq!(back.live_threads(), 10);
    drop(front);
    let ending = std::thread::spawn(move || drop(back));
    open.store(true, Ordering::Relaxed);
    ending.join().unwrap();
    assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<i32>(), 10);
}

#[test]
fn calls_that_are_known_to_block_leave_the_processor_to_others() {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which become the files' own.
    let (reader, mut writer) = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (std::fs::File::from_raw_fd(ends[0]), std::fs::File::from_raw_fd(ends[1]))
    };
    const CALLS: usize = 40;
    for processors in [1, 2] {
        let pool = pool(processors, "steal");
        let (began, ended) = (AtomicU64::new(0), AtomicU64::new(0));
        let bytes: u64 = pool.run(|| {
            raddle::scope(|s| {
                let calls: Vec<_> = (0..CALLS)
                    .map(|_| {
                        s.spawn(|| {
                            STEPS.set(7);
                            let byte = raddle::blocking(|| {
                                began.fetch_add(1, Ordering::Relaxed);
                                let mut byte = [0];
                                // Nested: it is off its processor already, and goes on.
                                raddle::blocking(|| (&reader).read_exact(&mut byte)).unwrap();
                                byte[0]
                            });
                            ended.fetch_add(1, Ordering::Relaxed);
                            assert_eq!(STEPS.get(), 7);
                            u64::from(byte)
                        })
                    })
                    .collect();
                while began.load(Ordering::Relaxed) < CALLS as u64 {
                    raddle::yield_now();
                }
                assert_eq!(ended.load(Ordering::Relaxed), 0);
                writer.write_all(&[1; CALLS]).unwrap();
                calls.into_iter().map(|call| call.join().unwrap()).sum()
            })
        });
        assert_eq!(bytes, CALLS as u64);
    }
}

#[test]
fn a_panic_in_a_blocking_call_is_the_threads() {
    let pool = pool(1, "steal");
    let result = pool.run(|| raddle::spawn(|| raddle::blocking(|| panic!("within"))).join());
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "within");
    assert_eq!(raddle::blocking(|| 3), 3, "a plain call on a kernel thread");
}

/// A thread inherits its spawner's priority in its spawner's pool only: another one may not know it.
#[test]
fn what_is_spawned_into_another_pool_does_not_inherit_the_priority() {
    let (many, one) = (pool(1, "priority(3, fifo)"), pool(1, "steal"));
    let there = Arc::new(one);
    let low = raddle::thread::Builder::new().priority(2);
    let low = low.spawn_into(&many, move || (there.run(|| 6), there.spawn(|| 7).join().unwrap()));
    assert_eq!(low.unwrap().join().unwrap(), (6, 7));
}
