//! Where the C library is not as the self-check wants it, this is said once, in one clear line, and threads are kernel
//! threads.
//!
//! On such a system (`cargo xtask glibc` has one) the tests run as they are; elsewhere `RADDLE_KERNEL_THREADS=1` stands
//! in for it.

#[path = "support/child.rs"]
mod child;

use raddle::sync::{Condvar, Mutex, channel};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Runs `body` in a process of its own whose threads are kernel threads; what it says on standard error.
fn in_child(name: &str, body: impl FnOnce()) -> Option<String> {
    let Some(mut command) = child::again(name) else {
        assert!(raddle::info::lightweight().is_err());
        body();
        return None;
    };
    if raddle::info::lightweight().is_ok() {
        command.env("RADDLE_KERNEL_THREADS", "1");
    }
    let output = child::run(command);
    assert!(output.status.success(), "{name}: {}\n{}", output.status, child::said(&output));
    Some(String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn it_is_said_once_in_one_line() {
    let said = in_child("it_is_said_once_in_one_line", || {
        for _ in 0..3 {
            let pool = raddle::Builder::new().processors(2).build().unwrap();
            pool.run(|| raddle::spawn(|| ()).join().unwrap());
        }
        raddle::spawn(|| ()).join().unwrap();
    });
    let Some(said) = said else { return };
    let reason = match raddle::info::lightweight() {
        Ok(()) => "RADDLE_KERNEL_THREADS=1".to_string(),
        // Names the version that is there and the one that is needed, or what else is not as expected.
        Err(why) => {
            assert!(why.contains("glibc"), "{why}");
            why
        }
    };
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    let [line] = lines[..] else { panic!("not one line: {said:?}") };
    let unsupported = "raddle: lightweight threads are not supported by this C library (";
    let asked_for = raddle::info::lightweight().is_ok();
    assert!(line.starts_with(if asked_for { "raddle: RADDLE_KERNEL_THREADS=1:" } else { unsupported }), "{line}");
    assert!(line.contains(&reason) && line.ends_with("one kernel thread per thread is used"), "{line}");
}

/// In the place of the C library's function, for all of this program: who detaches another kernel thread is counted.
#[unsafe(no_mangle)]
extern "C" fn pthread_detach(thread: libc::pthread_t) -> i32 {
    // SAFETY: names of threads are compared; the function that is found has this type, and the caller's argument.
    unsafe {
        let counter = if thread == libc::pthread_self() { &BY_THEMSELVES } else { &BY_OTHERS };
        counter.fetch_add(1, Ordering::Relaxed);
        let theirs = libc::dlsym(libc::RTLD_NEXT, c"pthread_detach".as_ptr());
        assert!(!theirs.is_null());
        std::mem::transmute::<*mut libc::c_void, extern "C" fn(libc::pthread_t) -> i32>(theirs)(thread)
    }
}

static BY_THEMSELVES: AtomicU32 = AtomicU32::new(0);
static BY_OTHERS: AtomicU32 = AtomicU32::new(0);

/// The C library's function looks at the other thread's record after that may have ended and its memory be gone: one
/// run in ten thousand of a program that spawns 700 threads on a busy core ended so, by SIGSEGV.
#[test]
fn no_kernel_thread_detaches_another() {
    in_child("no_kernel_thread_detaches_another", || {
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        pool.run(|| raddle::scope(|s| (0..20).for_each(|_| drop(s.spawn(|| ())))));
        drop(pool);
        let counts = [&BY_THEMSELVES, &BY_OTHERS].map(|counter| counter.load(Ordering::Relaxed));
        assert_eq!(counts, [21, 0], "by themselves, by others");
    });
}

/// Much more than a kernel thread has by default, of which a part is used.
#[test]
fn a_stack_is_as_large_as_was_asked_for() {
    fn deep(kilobytes: usize) -> usize {
        let room = std::hint::black_box([1u8; 1 << 10]);
        if kilobytes == 0 { 0 } else { deep(kilobytes - 1) + usize::from(room[kilobytes % room.len()]) }
    }
    in_child("a_stack_is_as_large_as_was_asked_for", || {
        let thread = raddle::thread::Builder::new().stack_size(64 << 20).spawn(|| deep(8 << 10)).unwrap();
        assert_eq!(thread.join().unwrap(), 8 << 10);
    });
}

/// A thread that cannot be had is an error, and nobody waits for it: neither who asks for the count nor the pool's end.
#[test]
fn a_thread_that_cannot_be_had_is_not_waited_for() {
    in_child("a_thread_that_cannot_be_had_is_not_waited_for", || {
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        pool.run(|| ());
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
        let little = pages * 4096 + (64 << 20);
        let limit = libc::rlimit { rlim_cur: little, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a limit on the stack, of this process's own.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
        for _ in 0..3 {
            let refused = raddle::thread::Builder::new().stack_size(1 << 30).spawn_into(&pool, || ());
            assert!(matches!(refused, Err(raddle::SpawnError::KernelThread(_))), "{refused:?}");
        }
        assert_eq!(pool.spawn(|| 7).join().unwrap(), 7);
        // The one that was joined tells its end a moment later.
        while pool.live_threads() == 1 {
            std::thread::yield_now();
        }
        let live = pool.live_threads();
        if live > 0 {
            // Its end would wait for them.
            std::mem::forget(pool);
            panic!("{live} threads that never began live");
        }
        drop(pool);
    });
}

#[test]
fn everything_works_on_kernel_threads() {
    in_child("everything_works_on_kernel_threads", || {
        let pool = raddle::Builder::new().processors(2).build().unwrap();
        let kernel_thread = || std::fs::read_link("/proc/thread-self").unwrap();
        let own = kernel_thread();
        assert_eq!(pool.spawn(|| raddle::blocking(|| 7)).join().unwrap(), 7);
        let (other, there) = (raddle::Builder::new().build().unwrap(), raddle::pool::MoveError::KernelThread);
        pool.run(|| assert_eq!(raddle::move_to(&other), Err(there)));
        let ids: Vec<_> = (0..8).map(|_| pool.spawn(kernel_thread)).map(|handle| handle.join().unwrap()).collect();
        assert!(ids.iter().all(|id| *id != own));

        let panicked = pool.spawn(|| -> () { std::panic::resume_unwind(Box::new(7u8)) }).join();
        assert_eq!(panicked.unwrap_err().downcast_ref(), Some(&7u8));

        let (counter, changed) = &*Arc::new((Mutex::new(0), Condvar::new()));
        raddle::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        *counter.lock().unwrap() += 1;
                        raddle::yield_now();
                    }
                    changed.notify_all();
                });
            }
            let mut reached = counter.lock().unwrap();
            while *reached < 1600 {
                reached = changed.wait(reached).unwrap();
            }
        });

        let (sender, receiver) = channel::bounded(2);
        let producer = raddle::spawn(move || (0..1000u64).for_each(|i| sender.send(i).unwrap()));
        let mut sum = 0;
        while let Ok(i) = receiver.recv() {
            sum += i;
        }
        producer.join().unwrap();
        assert_eq!(sum, 499_500);

        assert_eq!(pool.run(|| raddle::join(|| 1, || raddle::join(|| 2, || 3))), (1, (2, 3)));
        raddle::sleep(Duration::from_millis(1));
    });
}
