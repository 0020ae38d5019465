//! What blocks a kernel thread must not stall the program: no processor stays with an activation that is stuck, on one
//! processor too. None of these tests depends on timing: without the remedy they do not end.

#[path = "support/standby.rs"]
mod standby;

use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn pools() -> Vec<raddle::Pool> {
    [1, 2].into_iter().map(|n| raddle::Builder::new().processors(n).build().unwrap()).collect()
}

fn pipe() -> (std::fs::File, std::fs::File) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which become the files' own.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (std::fs::File::from_raw_fd(ends[0]), std::fs::File::from_raw_fd(ends[1]))
    }
}

#[test]
fn a_read_in_the_kernel_does_not_keep_the_processor_of_its_writer() {
    for pool in pools() {
        pool.run(|| {
            let (mut reader, mut writer) = pipe();
            let blocked = raddle::spawn(move || {
                let mut byte = [0];
                reader.read_exact(&mut byte).unwrap();
                byte[0]
            });
            raddle::yield_now();
            writer.write_all(&[42]).unwrap();
            assert_eq!(blocked.join().unwrap(), 42);
        });
    }
}

#[test]
fn many_threads_blocked_in_the_kernel_leave_the_others_running() {
    for pool in pools() {
        pool.run(|| {
            let ends: Vec<_> = (0..20).map(|_| pipe()).collect();
            let (readers, mut writers): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
            let blocked: Vec<_> = readers
                .into_iter()
                .map(|mut reader| {
                    raddle::spawn(move || {
                        let mut byte = [0];
                        reader.read_exact(&mut byte).unwrap();
                    })
                })
                .collect();
            raddle::yield_now();
            let others: u64 = (0..1000u64).map(|i| raddle::spawn(move || i)).map(|h| h.join().unwrap()).sum();
            assert_eq!(others, 499_500);
            writers.iter_mut().for_each(|w| w.write_all(&[1]).unwrap());
            blocked.into_iter().for_each(|h| h.join().unwrap());
        });
    }
}

#[test]
fn a_spin_on_a_flag_ends_although_its_setter_needs_the_same_processor() {
    for pool in pools() {
        static FLAG: AtomicBool = AtomicBool::new(false);
        FLAG.store(false, Ordering::Relaxed);
        pool.run(|| {
            let spinners: Vec<_> = (0..3)
                .map(|_| {
                    raddle::spawn(|| {
                        while !FLAG.load(Ordering::Acquire) {
                            std::hint::spin_loop();
                        }
                    })
                })
                .collect();
            let setter = raddle::spawn(|| FLAG.store(true, Ordering::Release));
            spinners.into_iter().for_each(|h| h.join().unwrap());
            setter.join().unwrap();
        });
    }
}

#[test]
fn a_std_mutex_and_barrier_between_threads_of_one_processor_complete() {
    for pool in pools() {
        pool.run(|| {
            let barrier = std::sync::Barrier::new(4);
            let count = std::sync::Mutex::new(0);
            raddle::scope(|s| {
                for _ in 0..4 {
                    s.spawn(|| {
                        barrier.wait();
                        *count.lock().unwrap() += 1;
                    });
                }
            });
            assert_eq!(*count.lock().unwrap(), 4);
        });
    }
}

#[test]
fn timers_fire_while_another_thread_computes() {
    for pool in pools() {
        let rounds = AtomicU64::new(0);
        pool.run(|| {
            let stop = AtomicBool::new(false);
            raddle::scope(|s| {
                s.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                for _ in 0..5 {
                    raddle::sleep(Duration::from_millis(1));
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
                stop.store(true, Ordering::Relaxed);
            });
        });
        assert_eq!(rounds.into_inner(), 5);
    }
}

#[test]
fn sleepers_by_the_hundred_thousand_wake_up() {
    for pool in pools() {
        pool.run(|| {
            let handles: Vec<_> = (0..if cfg!(raddle_tsan) { 4_000 } else { 100_000u64 })
                .map(|i| raddle::spawn(move || raddle::sleep(Duration::from_micros(i % 2000))))
                .collect();
            handles.into_iter().for_each(|h| h.join().unwrap());
        });
    }
}

#[test]
fn once_a_thread_has_blocked_unseen_the_kernel_tells_of_the_next() {
    standby::blocks_until_taken_over(Duration::from_millis(5), 10);
}

/// All of the above where no standby tells of threads that have blocked: the monitor alone sees to it.
#[test]
fn without_a_standby_the_monitor_takes_the_processors_of_blocked_threads() {
    if std::env::var_os("RADDLE_EVENTS").is_some() {
        return;
    }
    for test in [
        "a_read_in_the_kernel_does_not_keep_the_processor_of_its_writer",
        "many_threads_blocked_in_the_kernel_leave_the_others_running",
    ] {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env("RADDLE_EVENTS", "monitor");
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        let begun = std::time::Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() > Duration::from_secs(100) => {
                    child.kill().unwrap();
                    break child.wait().unwrap();
                }
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        assert!(status.success(), "{test}: {status}");
    }
}
