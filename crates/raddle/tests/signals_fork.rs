//! Signals, forks and ends of the process, from lightweight threads.
//!
//! What must not happen to the test program itself (overflow, exit, panic in a named thread) happens in a child
//! process: this same program, told by an environment variable.

#[path = "support/child.rs"]
mod child;

use raddle::sync::{Mutex, channel};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn pool(processors: usize) -> raddle::Pool {
    raddle::Builder::new().processors(processors).kernel_thread_prefix("sig-").build().unwrap()
}

fn activations() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let ours = tasks
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("sig-")));
    ours.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

fn on_signal(signal: libc::c_int, flags: libc::c_int) {
    // SAFETY: the action is filled in; the handler touches one static.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_signal as *const () as usize;
        action.sa_flags = flags;
        libc::sigemptyset(&mut action.sa_mask);
        assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
    }
}

fn pipe() -> (std::fs::File, std::fs::File) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which become the files' own.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (std::fs::File::from_raw_fd(ends[0]), std::fs::File::from_raw_fd(ends[1]))
    }
}

/// Some of everything; answers with a sum that must come out.
fn traffic() -> u64 {
    let total = Mutex::new(0u64);
    let (sender, receiver) = channel::bounded(2);
    let (mut reader, mut writer) = pipe();
    raddle::scope(|s| {
        for i in 0..20u64 {
            let (total, sender) = (&total, sender.clone());
            s.spawn(move || {
                for k in 0..50 {
                    *total.lock().unwrap() += 1;
                    match k % 10 {
                        0 => raddle::sleep(Duration::from_micros(100)),
                        1 => *total.lock().unwrap() += raddle::spawn(move || i).join().unwrap(),
                        2 => sender.send(1u64).unwrap(),
                        _ => raddle::yield_now(),
                    }
                }
            });
        }
        drop(sender);
        s.spawn(|| {
            for message in receiver.iter() {
                *total.lock().unwrap() += message;
            }
        });
        // The kernel interrupts this read; the standard library begins it again.
        s.spawn(move || {
            let mut bytes = [0; 20];
            reader.read_exact(&mut bytes).unwrap();
        });
        s.spawn(move || {
            for _ in 0..20 {
                writer.write_all(&[7]).unwrap();
                raddle::yield_now();
            }
        });
    });
    *total.lock().unwrap()
}

/// 20 threads: 50 steps each, 5 children that answer `i`, 5 messages.
const TRAFFIC: u64 = 20 * 50 + 5 * 190 + 20 * 5;

#[test]
fn signals_at_a_high_rate_disturb_nothing() {
    for flags in [libc::SA_RESTART, 0, libc::SA_ONSTACK] {
        on_signal(libc::SIGUSR1, flags);
        let pool = pool(2);
        let stop = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for tid in activations() {
                        for _ in 0..8 {
                            // SAFETY: takes three integers; a kernel thread that has ended is an error that nobody
                            // minds.
                            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, libc::SIGUSR1) };
                        }
                    }
                }
            });
            let enough = SIGNALS.load(Ordering::Relaxed) + 2000;
            while SIGNALS.load(Ordering::Relaxed) < enough {
                assert_eq!(pool.run(traffic), TRAFFIC);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

/// The exit status of a child process, from within a thread.
fn wait_for(pid: libc::pid_t) -> std::process::ExitStatus {
    let mut status = 0;
    // SAFETY: waits for our own child and writes to our own word.
    while unsafe { libc::waitpid(pid, &mut status, 0) } != pid {
        assert_eq!(std::io::Error::last_os_error().kind(), std::io::ErrorKind::Interrupted);
    }
    std::process::ExitStatus::from_raw(status)
}

#[test]
fn a_fork_in_a_thread_goes_on_in_the_child_and_leaves_the_parent_alone() {
    thread_local!(static OWN: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });
    for processors in [1, 2] {
        pool(processors).run(|| {
            let others: Vec<_> =
                (0..50).map(|_| raddle::spawn(|| (0..200).for_each(|_| raddle::yield_now()))).collect();
            let forks: Vec<_> = (0..4u64)
                .map(|i| {
                    raddle::spawn(move || {
                        OWN.set(i + 1);
                        raddle::yield_now();
                        // SAFETY: the child calls what a child of a program with several kernel threads may: its own
                        // storage, the C library's allocator (which glibc makes usable after a fork), `_exit`.
                        let pid = unsafe { libc::fork() };
                        if pid == 0 {
                            let right = OWN.get() == i + 1 && vec![i; 1000].iter().sum::<u64>() == i * 1000;
                            // SAFETY: ends the child.
                            unsafe { libc::_exit(if right { 40 + i as i32 } else { 1 }) };
                        }
                        assert!(pid > 0);
                        assert_eq!(wait_for(pid).code(), Some(40 + i as i32));
                        assert_eq!(OWN.get(), i + 1);
                    })
                })
                .collect();
            forks.into_iter().chain(others).for_each(|handle| handle.join().unwrap());
        });
    }
}

/// Its parent's threads are not the child's: neither a dump nor the counters tell of them.
#[test]
fn the_child_of_a_fork_has_none_of_its_parents_threads() {
    if !child::in_child("the_child_of_a_fork_has_none_of_its_parents_threads") {
        return;
    }
    let dumped = || {
        let mut text = Vec::new();
        raddle::info::dump(&mut text, raddle::info::DumpOptions { threads: 1000, backtraces: 0 }).unwrap();
        String::from_utf8(text).unwrap()
    };
    let listed = |text: &str| text.lines().filter(|line| line.starts_with("thread ")).count();
    let counted = |state: &str| {
        let metrics = raddle::info::metrics();
        let key = format!("raddle_threads{{state=\"{state}\"}} ");
        metrics.lines().find_map(|line| line.strip_prefix(&key)?.parse().ok()).unwrap_or(u64::MAX)
    };
    let pool = pool(1);
    let (sender, receiver) = channel::bounded::<()>(1);
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let receiver = receiver.clone();
            pool.spawn(move || receiver.recv())
        })
        .collect();
    while counted("waiting") < 3 {
        std::thread::yield_now();
    }
    assert_eq!(listed(&dumped()), 3);
    // SAFETY: the child, in which nothing else runs, first makes the runtime usable; it has the C library's allocator,
    // which glibc makes usable after a fork, and ends without a word.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        // SAFETY: in the child of a fork, first of all, with one thread in it.
        unsafe { raddle::drop_in::forked() };
        let right = listed(&dumped()) == 0 && ["running", "ready", "waiting"].iter().all(|state| counted(state) == 0);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if right { 40 } else { 1 }) };
    }
    assert_eq!(wait_for(forked).code(), Some(40));
    assert_eq!(listed(&dumped()), 3, "nor has it taken them from there");
    drop(sender);
    for thread in waiting {
        thread.join().unwrap().unwrap_err();
    }
}

#[test]
fn a_thread_starts_programs() {
    pool(2).run(|| {
        let handles: Vec<_> = (0..8)
            .map(|i| {
                raddle::spawn(move || {
                    let text = format!("number {i}");
                    let output = Command::new("echo").arg(&text).output().unwrap();
                    assert_eq!(String::from_utf8(output.stdout).unwrap().trim(), text);
                    // SAFETY: the child replaces itself at once.
                    let pid = unsafe { libc::fork() };
                    if pid == 0 {
                        let program = c"/bin/true".as_ptr();
                        // SAFETY: valid strings and a list that ends with null; `_exit` if that fails.
                        unsafe {
                            libc::execv(program, [program, std::ptr::null()].as_ptr());
                            libc::_exit(9);
                        }
                    }
                    assert!(wait_for(pid).success());
                })
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    });
}

/// Uses a page for each call.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let mut room = [depth; 512];
    std::hint::black_box(&mut room);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + room[7] }
}

#[test]
fn an_overflow_names_the_thread_and_aborts() {
    let Some(output) = child::again("an_overflow_names_the_thread_and_aborts").map(child::run) else {
        pool(2).run(|| {
            // After some switches, on a stack that had an owner before.
            (0..100).for_each(|_| raddle::spawn(raddle::yield_now).join().unwrap());
            let thread = raddle::thread::Builder::new().name("deep diver".into());
            thread.spawn(|| std::hint::black_box(recurse(0))).unwrap().join().unwrap();
        });
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{text}");
    assert!(text.contains("thread 'deep diver' has overflowed its stack"), "{text}");
}

#[test]
fn an_exit_from_a_thread_ends_the_process_with_its_status() {
    let Some(output) = child::again("an_exit_from_a_thread_ends_the_process_with_its_status").map(child::run) else {
        pool(2).run(|| {
            for _ in 0..20 {
                raddle::spawn(|| {
                    loop {
                        raddle::yield_now();
                    }
                });
            }
            raddle::spawn(|| std::process::exit(7)).join().unwrap();
        });
        return;
    };
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}

#[test]
fn a_panic_in_a_named_thread_is_reported_and_comes_with_the_join() {
    let Some(output) = child::again("a_panic_in_a_named_thread_is_reported_and_comes_with_the_join").map(child::run)
    else {
        pool(2).run(|| {
            let thread = raddle::thread::Builder::new().name("scribe".into());
            let panic = thread.spawn(|| panic!("no ink")).unwrap().join().unwrap_err();
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"no ink"));
        });
        return;
    };
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("no ink"), "{text}");
}
