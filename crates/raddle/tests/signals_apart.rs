//! Signals to a thread that is apart (alone with a kernel thread that carries no processor) and makes others ready all
//! the time: it stays apart, and each signal is handled. Each is answered before the next one is sent.

use raddle::sync::Semaphore;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

const SIGNALS: u32 = 4_000;

static HANDLED: AtomicU32 = AtomicU32::new(0);
static TASK: AtomicI32 = AtomicI32::new(0);
static OVER: AtomicBool = AtomicBool::new(false);
static PERMITS: Semaphore = Semaphore::new(0);

unsafe extern "C" fn counts(_: c_int, _: *mut c_void, _: *mut c_void) {
    HANDLED.fetch_add(1, Ordering::Release);
}

#[test]
fn a_thread_that_is_apart_makes_others_ready_and_gets_its_signals() {
    // SAFETY: it only counts.
    unsafe { raddle::signal::install(libc::SIGUSR1, counts) }.unwrap();
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    let taker = pool.spawn(|| {
        while !OVER.load(Ordering::Relaxed) {
            PERMITS.acquire(1);
        }
    });
    let giver = pool.spawn(|| {
        assert!(raddle::drop_in::go_apart() && raddle::drop_in::is_apart());
        // SAFETY: takes nothing.
        TASK.store(unsafe { libc::gettid() }, Ordering::Release);
        while !OVER.load(Ordering::Relaxed) {
            PERMITS.release(1);
        }
        PERMITS.release(1);
        assert!(raddle::drop_in::is_apart(), "to make others ready takes no processor");
        raddle::yield_now();
        assert!(!raddle::drop_in::is_apart());
    });
    while TASK.load(Ordering::Acquire) == 0 {
        std::thread::yield_now();
    }
    for sent in 1..=SIGNALS {
        // SAFETY: take integers.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), TASK.load(Ordering::Relaxed), libc::SIGUSR1) };
        while HANDLED.load(Ordering::Acquire) < sent {
            std::thread::yield_now();
        }
    }
    OVER.store(true, Ordering::Relaxed);
    giver.join().unwrap();
    taker.join().unwrap();
    assert_eq!(raddle::drop_in::went_apart(), 1);
}
