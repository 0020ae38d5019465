//! Threads from spawn to join, on one and more processors, and from kernel threads.

mod undisturbed;

use std::cell::{Cell, RefCell};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn pools() -> Vec<raddle::Pool> {
    [1, 2, 5].into_iter().map(|n| raddle::Builder::new().processors(n).build().unwrap()).collect()
}

#[test]
fn results_come_back_and_panics_too() {
    for pool in pools() {
        pool.run(|| {
            let handles: Vec<_> = (0..10_000u64).map(|i| raddle::spawn(move || i)).collect();
            let sum: u64 = handles.into_iter().map(|h| h.join().unwrap()).sum();
            assert_eq!(sum, 49_995_000);
            let panic = raddle::spawn(|| panic!("expected in this test")).join().unwrap_err();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"expected in this test"));
            let large = raddle::spawn(|| [7u64; 100]).join().unwrap();
            assert_eq!(large[99], 7);
        });
    }
}

#[test]
fn threads_interleave_when_they_yield() {
    for pool in pools() {
        let turns = AtomicU64::new(0);
        pool.run(|| {
            raddle::scope(|s| {
                for _ in 0..64 {
                    s.spawn(|| {
                        for _ in 0..100 {
                            turns.fetch_add(1, Ordering::Relaxed);
                            raddle::yield_now();
                        }
                    });
                }
            });
        });
        assert_eq!(turns.into_inner(), 6400);
    }
}

/// A processor whose threads always find each other when they yield looks after deadlines and descriptors all the same.
#[test]
fn sleepers_and_readers_wake_among_threads_that_yield_to_each_other() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let awake = AtomicU64::new(0);
    let (mut reader, mut writer) = std::os::unix::net::UnixStream::pair().unwrap();
    pool.run(|| {
        raddle::scope(|s| {
            let (awake, reader) = (&awake, &mut reader);
            for millis in [1, 2, 5] {
                s.spawn(move || {
                    raddle::sleep(Duration::from_millis(millis));
                    awake.fetch_add(1, Ordering::Relaxed);
                });
            }
            s.spawn(move || {
                raddle::io::wait(reader.as_fd(), raddle::io::Interest::Read, None).unwrap();
                reader.read_exact(&mut [0]).unwrap();
                awake.fetch_add(1, Ordering::Relaxed);
            });
            // The sleepers and the reader wait when this one goes on, and from then on one of these two is ready.
            raddle::yield_now();
            writer.write_all(&[0]).unwrap();
            for _ in 0..2 {
                s.spawn(|| {
                    while awake.load(Ordering::Relaxed) < 4 {
                        raddle::yield_now();
                    }
                });
            }
        });
    });
}

/// A thread that offers its processor in vain has sleepers wake by that alone: nobody takes the processor from it.
#[test]
fn a_sleeper_wakes_beside_a_thread_that_yields_in_vain() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let ways: [fn(); 2] = [raddle::yield_now, || _ = raddle::thread::yield_softly()];
    for give_way in ways {
        undisturbed::undisturbed(|| {
            pool.run(|| {
                let sleeper = raddle::spawn(|| raddle::sleep(Duration::from_millis(1)));
                while !sleeper.is_finished() {
                    give_way();
                }
            });
        });
    }
}

/// The modes of floating-point arithmetic are a thread's own, and begin as the C library leaves them: also where a
/// stack goes from an ended thread straight to one that has not started.
#[cfg(target_arch = "x86_64")]
#[test]
fn modes_begin_anew_on_a_stack_that_is_handed_on() {
    fn modes() -> u32 {
        let mut modes = 0u32;
        // SAFETY: writes four bytes to a live place.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut modes, options(nostack)) };
        modes & !0x3f
    }
    /// Rounds towards zero.
    fn change() {
        let modes = modes() | 0x6000;
        // SAFETY: a valid word; nothing that is compiled here depends on the rounding.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const modes, options(nostack, readonly)) };
    }
    for pool in pools() {
        pool.run(|| {
            let begun_with = std::sync::Mutex::new(Vec::new());
            raddle::scope(|s| {
                for _ in 0..100 {
                    s.spawn(|| {
                        begun_with.lock().unwrap().push(modes());
                        change();
                    });
                }
            });
            assert_eq!(begun_with.into_inner().unwrap(), [0x1f80; 100]);
        });
    }
}

thread_local! {
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    static OWNED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

#[test]
fn every_thread_has_its_own_storage_wherever_it_runs() {
    for pool in pools() {
        pool.run(|| {
            let handles: Vec<_> = (0..200u64)
                .map(|i| {
                    raddle::spawn(move || {
                        assert_eq!(NUMBER.get(), 0, "storage is fresh");
                        assert!(OWNED.with_borrow(Vec::is_empty));
                        NUMBER.set(i);
                        let shared = Rc::new(Cell::new(i));
                        let other = shared.clone();
                        let id = std::thread::current().id();
                        for k in 0..50 {
                            OWNED.with_borrow_mut(|v| v.push(i + k));
                            if k % 10 == 0 {
                                raddle::sleep(std::time::Duration::from_micros(10));
                            } else {
                                raddle::yield_now();
                            }
                            other.set(other.get() + 1);
                            assert_eq!(NUMBER.get(), i);
                            assert_eq!(std::thread::current().id(), id);
                        }
                        assert_eq!(shared.get(), i + 50);
                        OWNED.with_borrow(|v| v.len())
                    })
                })
                .collect();
            for handle in handles {
                assert_eq!(handle.join().unwrap(), 50);
            }
        });
    }
}

#[test]
fn thread_local_destructors_run_before_the_join_returns() {
    struct Note(&'static AtomicU64);
    impl Drop for Note {
        fn drop(&mut self) {
            raddle::yield_now();
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    thread_local!(static NOTE: RefCell<Option<Note>> = const { RefCell::new(None) });
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    for (round, pool) in pools().into_iter().enumerate() {
        pool.run(|| {
            let handles: Vec<_> = (0..100).map(|_| raddle::spawn(|| NOTE.set(Some(Note(&DROPPED))))).collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
        });
        assert_eq!(DROPPED.load(Ordering::Relaxed), 100 * (round as u64 + 1));
    }
}

#[test]
fn a_dropped_handle_lets_the_thread_run_and_its_result_is_dropped_once() {
    struct Counted(std::sync::Arc<AtomicU64>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = std::sync::Arc::new(AtomicU64::new(0));
    for (round, pool) in pools().into_iter().enumerate() {
        for i in 0..1000 {
            let counted = Counted(dropped.clone());
            let handle = pool.spawn(move || {
                if i % 3 == 0 {
                    raddle::yield_now();
                }
                counted
            });
            if i % 2 == 0 {
                while i % 4 == 0 && !handle.is_finished() {
                    std::hint::spin_loop();
                }
                drop(handle);
            } else {
                drop(handle.join().unwrap());
            }
        }
        drop(pool);
        assert_eq!(dropped.load(Ordering::Relaxed), 1000 * (round as u64 + 1));
    }
}

#[test]
fn joins_nest_and_agree_with_the_sequential_answer() {
    fn fib(n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = raddle::join(|| fib(n - 1), || fib(n - 2));
        a + b
    }
    for pool in pools() {
        assert_eq!(pool.run(|| fib(22)), 17711);
    }
}

#[test]
fn a_half_that_blocks_does_not_keep_the_other_from_running() {
    for pool in pools() {
        let (a, b) = pool.run(|| {
            let flag = AtomicU64::new(0);
            raddle::join(
                || {
                    while flag.load(Ordering::Acquire) == 0 {
                        raddle::sleep(std::time::Duration::from_micros(50));
                    }
                    1
                },
                || {
                    flag.store(1, Ordering::Release);
                    2
                },
            )
        });
        assert_eq!((a, b), (1, 2));
    }
}

#[test]
fn a_panic_in_either_half_reaches_the_caller() {
    for pool in pools() {
        pool.run(|| {
            for both in [false, true] {
                let outcome = std::panic::catch_unwind(|| {
                    raddle::join(
                        || {
                            raddle::yield_now();
                            if both {
                                panic!("first half");
                            }
                        },
                        || panic!("second half"),
                    )
                });
                assert!(outcome.is_err());
            }
        });
    }
}

#[test]
fn builders_set_names_and_refuse_what_cannot_be() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    pool.run(|| {
        let thread = raddle::thread::Builder::new().name("scribe".into()).stack_size(1 << 20);
        let handle = thread.spawn(|| {
            // More than the default stack holds.
            let large = std::hint::black_box([1u8; 600 * 1024]);
            (raddle::current_name(), large.len())
        });
        assert_eq!(handle.unwrap().join().unwrap(), (Some("scribe".into()), 600 * 1024));
        let small = raddle::thread::Builder::new().stack_size(0).spawn(|| ()).unwrap_err();
        assert!(small.to_string().contains("too small"), "{small}");
        let absurd = raddle::thread::Builder::new().stack_size(usize::MAX).spawn(|| ()).unwrap_err();
        assert!(absurd.to_string().contains("too large"), "{absurd}");
        let priority = raddle::thread::Builder::new().priority(3).spawn(|| ()).unwrap_err();
        assert!(priority.to_string().contains("priority("), "{priority}");
    });
    for count in [0, 1_000_000] {
        let error = raddle::Builder::new().processors(count).build().unwrap_err();
        assert!(error.to_string().contains("at least 1"), "{error}");
    }
}

#[test]
fn scopes_wait_for_threads_nobody_joined_and_pass_on_their_panics() {
    for pool in pools() {
        let mut numbers = vec![0u64; 500];
        pool.run(|| {
            raddle::scope(|s| {
                for n in &mut numbers {
                    s.spawn(move || {
                        raddle::yield_now();
                        *n += 1;
                    });
                }
            });
            let panicked = std::panic::catch_unwind(|| {
                raddle::scope(|s| {
                    s.spawn(|| panic!("nobody joins this"));
                })
            });
            assert!(panicked.is_err());
        });
        assert!(numbers.iter().all(|&n| n == 1));
    }
}

/// Nobody takes the panic of a thread whose handle is dropped when it has ended: it is the scope's.
#[test]
fn a_panic_that_was_there_when_the_handle_was_dropped_is_the_scopes() {
    for pool in pools() {
        let scope = pool.run(|| {
            std::panic::catch_unwind(|| {
                raddle::scope(|s| {
                    let thread = s.spawn(|| panic!("nobody joins this"));
                    while !thread.is_finished() {
                        raddle::yield_now();
                    }
                    drop(thread);
                })
            })
        });
        assert!(scope.is_err());
    }
}

/// A time limit for which the clock has no number does not become one that has passed.
#[test]
fn a_time_limit_beyond_all_times_never_comes() {
    use std::os::fd::AsFd;
    use std::time::Duration;
    raddle::Builder::new().processors(1).build().unwrap().run(|| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let semaphore = std::sync::Arc::new(raddle::sync::Semaphore::new(0));
        let (theirs, read) = (semaphore.clone(), raddle::io::Interest::Read);
        let waits = [
            raddle::spawn(move || raddle::io::wait(reader.as_fd(), read, Some(Duration::MAX)).is_ok()),
            raddle::spawn(move || theirs.acquire_timeout(1, Duration::MAX).is_ok()),
        ];
        let one = semaphore.clone();
        let ends = raddle::spawn(move || one.acquire(1));
        let joins = raddle::spawn(move || ends.join_timeout(Duration::MAX).is_ok());
        // They wait while this one sleeps, on the same processor: a deadline before its own has come when it wakes.
        raddle::sleep(Duration::from_millis(1));
        std::io::Write::write_all(&mut writer, &[1]).unwrap();
        semaphore.release(2);
        assert!(waits.into_iter().chain([joins]).all(|wait| wait.join().unwrap()));
    });
}

#[test]
fn kernel_threads_may_spawn_and_join() {
    let kernel: Vec<_> = (0..4u64)
        .map(|k| {
            std::thread::spawn(move || {
                (0..100).map(|i| raddle::spawn(move || i * k)).map(|h| h.join().unwrap()).sum::<u64>()
            })
        })
        .collect();
    let sums: Vec<u64> = kernel.into_iter().map(|t| t.join().unwrap()).collect();
    assert_eq!(sums, [0, 4950, 9900, 14850]);
}

#[test]
fn a_pool_ends_after_its_last_thread() {
    let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let last = ended.clone();
    drop(pool.spawn(move || {
        raddle::sleep(std::time::Duration::from_millis(20));
        last.store(true, std::sync::atomic::Ordering::SeqCst);
    }));
    drop(pool);
    assert!(ended.load(std::sync::atomic::Ordering::SeqCst));
}
