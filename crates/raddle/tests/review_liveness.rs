//! What must end, ends. Each body runs in a process of its own that is killed when it does not, so that one dead-lock
//! does not hide the others. The limit is no measurement: what fails here never ends.

#[path = "support/child.rs"]
mod child;

use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Runs the test `name` of this file again, as a child in which `body` is run instead.
fn in_child(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    match child::again(name) {
        Some(mut command) => {
            command.envs(environment.iter().copied());
            child::must_pass(command);
        }
        None => body(),
    }
}

fn limit_address_space(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: passes a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

fn pool(processors: usize) -> raddle::Pool {
    raddle::Builder::new().processors(processors).build().unwrap()
}

fn pipe() -> (std::fs::File, std::fs::File) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which become the files' own.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (std::fs::File::from_raw_fd(ends[0]), std::fs::File::from_raw_fd(ends[1]))
    }
}

/// More spares than a pool lists must end with the pool too.
#[test]
fn a_pool_ends_after_more_threads_were_blocked_at_once_than_it_lists_spares() {
    in_child("a_pool_ends_after_more_threads_were_blocked_at_once_than_it_lists_spares", &[], || {
        let pool = pool(1);
        pool.run(|| {
            let running = Arc::new(AtomicU64::new(0));
            let mut writers = Vec::new();
            let blocked: Vec<_> = (0..100)
                .map(|_| {
                    let (mut reader, writer) = pipe();
                    writers.push(writer);
                    let running = running.clone();
                    raddle::spawn(move || {
                        running.fetch_add(1, Ordering::Relaxed);
                        reader.read_exact(&mut [0]).unwrap();
                    })
                })
                .collect();
            while running.load(Ordering::Relaxed) < 100 {
                raddle::sleep(Duration::from_millis(1));
            }
            // All of them are in the kernel, or about to be, each with a kernel thread of its own.
            raddle::sleep(Duration::from_millis(200));
            writers.iter_mut().for_each(|w| w.write_all(&[1]).unwrap());
            blocked.into_iter().for_each(|h| h.join().unwrap());
        });
        drop(pool);
    });
}

/// Two threads spin until a third, which is ready, sets the flag. Kernel threads would do it.
#[test]
fn more_spinners_than_processors_do_not_keep_a_ready_thread_from_running() {
    in_child("more_spinners_than_processors_do_not_keep_a_ready_thread_from_running", &[], || {
        let pool = pool(1);
        static FLAG: AtomicBool = AtomicBool::new(false);
        pool.run(|| {
            // The newest thread starts first: the setter is the last to start.
            let setter = raddle::spawn(|| FLAG.store(true, Ordering::Release));
            let spinners: Vec<_> = (0..2)
                .map(|_| {
                    raddle::spawn(|| {
                        while !FLAG.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                    })
                })
                .collect();
            spinners.into_iter().for_each(|h| h.join().unwrap());
            setter.join().unwrap();
        });
    });
}

/// Two threads that compute and yield must come to run at the same time once a second processor is idle. They begin on
/// one processor, since a third thread keeps the other busy.
#[test]
fn two_threads_that_yield_do_not_stay_on_one_processor_while_the_other_idles() {
    two_that_yield("two_threads_that_yield_do_not_stay_on_one_processor_while_the_other_idles", 20_000);
}

/// The same where each turn takes much less than a wake-up: a short wait, but for ever.
#[test]
fn two_threads_that_yield_often_do_not_stay_on_one_processor_while_the_other_idles() {
    two_that_yield("two_threads_that_yield_often_do_not_stay_on_one_processor_while_the_other_idles", 10);
}

fn two_that_yield(name: &str, turn: u32) {
    in_child(name, &[], move || {
        static BUSY: AtomicBool = AtomicBool::new(false);
        static STOP: AtomicBool = AtomicBool::new(false);
        static TURNS: AtomicU64 = AtomicU64::new(0);
        static INSIDE: AtomicU64 = AtomicU64::new(0);
        static MET: AtomicBool = AtomicBool::new(false);
        let body = move || {
            while !MET.load(Ordering::Relaxed) {
                INSIDE.fetch_add(1, Ordering::SeqCst);
                for _ in 0..turn {
                    if INSIDE.load(Ordering::SeqCst) == 2 && STOP.load(Ordering::Relaxed) {
                        MET.store(true, Ordering::Relaxed);
                    }
                    std::hint::spin_loop();
                }
                INSIDE.fetch_sub(1, Ordering::SeqCst);
                if TURNS.fetch_add(1, Ordering::Relaxed) == 100 {
                    STOP.store(true, Ordering::Relaxed);
                }
                raddle::yield_now();
            }
        };
        let pool = pool(2);
        pool.run(|| {
            let third = raddle::spawn(|| {
                BUSY.store(true, Ordering::Relaxed);
                while !STOP.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            while !BUSY.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            [raddle::spawn(body), raddle::spawn(body), third].into_iter().for_each(|h| h.join().unwrap());
        });
    });
}

/// A destructor of thread-local storage that waits, on a kernel thread whose own record is gone already.
#[test]
fn a_thread_local_destructor_of_a_kernel_thread_may_join() {
    in_child("a_thread_local_destructor_of_a_kernel_thread_may_join", &[], || {
        struct Joins;
        impl Drop for Joins {
            fn drop(&mut self) {
                raddle::spawn(|| raddle::sleep(Duration::from_millis(20))).join().unwrap();
            }
        }
        thread_local!(static JOINS: Joins = const { Joins });
        std::thread::spawn(|| {
            JOINS.with(|_| ());
            // Registers the record after `JOINS`: it goes first.
            raddle::sleep(Duration::from_millis(1));
        })
        .join()
        .unwrap();
    });
}

/// `join` where threads are kernel threads.
#[test]
fn join_works_without_lightweight_threads() {
    let environment = [("RADDLE_KERNEL_THREADS", "1")];
    in_child("join_works_without_lightweight_threads", &environment, || {
        // So that an endless recursion ends soon: a few hundred kernel threads.
        limit_address_space(1 << 30);
        let pool = pool(2);
        assert_eq!(pool.run(|| raddle::join(|| 1, || 2)), (1, 2));
        assert_eq!(raddle::join(|| 1, || 2), (1, 2));
    });
}

/// The last handle to a pool may be dropped by one of its threads: it must say something, or work, but not wait for
/// itself.
#[test]
fn a_pool_dropped_by_its_own_thread_does_not_wait_for_itself() {
    in_child("a_pool_dropped_by_its_own_thread_does_not_wait_for_itself", &[], || {
        let pool = Arc::new(pool(1));
        let own = pool.clone();
        let handle = pool.spawn(move || drop(own));
        drop(pool);
        let _ = handle.join();
    });
}

/// A pool may be made, used and dropped inside a thread of another one.
#[test]
fn pools_nest() {
    in_child("pools_nest", &[], || {
        let outer = pool(1);
        let sum = outer.run(|| (0..20).map(|i| pool(1).run(|| raddle::spawn(move || i).join().unwrap())).sum::<u64>());
        assert_eq!(sum, 190);
    });
}

/// Pools one after the other, where few stacks can be had: each gives back what it reserved.
#[test]
fn pools_that_have_ended_leave_their_stacks_to_the_next() {
    in_child("pools_that_have_ended_leave_their_stacks_to_the_next", &[], || {
        limit_address_space(3 << 30);
        for _ in 0..200 {
            pool(1).run(|| {
                let sleep = || raddle::sleep(Duration::from_millis(1));
                let sleepers: Vec<_> = (0..64).map(|_| raddle::spawn(sleep)).collect();
                sleepers.into_iter().for_each(|h| h.join().unwrap());
            });
        }
    });
}

/// What `Pool::drop` waits for never reads as "no thread" while one lives.
#[test]
fn a_living_thread_is_always_counted() {
    let pool = pool(2);
    let stop = Arc::new(AtomicBool::new(false));
    let theirs = stop.clone();
    let handle = pool.spawn(move || {
        while !theirs.load(Ordering::Relaxed) {
            raddle::spawn(|| ()).join().unwrap();
        }
    });
    let mut wrong = Vec::new();
    for _ in 0..20_000_000u32 {
        let live = pool.live_threads();
        // It may count too many: threads that began and ended between its reads.
        if live == 0 || live > u64::MAX / 2 {
            wrong.push(live);
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    handle.join().unwrap();
    assert_eq!(wrong, [], "a pool counted no thread (or a negative number) while one was running");
}
