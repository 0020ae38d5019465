//! Handlers that call into the library from wherever they arrive: nothing is lost, doubled or corrupted.
//!
//! The signals are real-time ones, which the kernel queues, so that each one that was sent must have been handled
//! exactly once, with what it said. `RADDLE_SIGNALS` sets how many are sent.

use raddle::sync::{Mutex, Semaphore, channel};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static HANDLED: AtomicU64 = AtomicU64::new(0);
static SUM: AtomicU64 = AtomicU64::new(0);
static PERMITS: Semaphore = Semaphore::new(0);
static SLEEPER: OnceLock<raddle::park::Thread> = OnceLock::new();

/// Makes threads ready in the two ways there are, and yields, which must not switch threads here.
unsafe extern "C" fn wakes_others(_: c_int, info: *mut c_void, _: *mut c_void) {
    // SAFETY: the kernel passes what the sender queued.
    let value = unsafe { (*info.cast::<libc::siginfo_t>()).si_value() };
    SUM.fetch_add(value.sival_ptr.addr() as u64, Ordering::Relaxed);
    PERMITS.release(1);
    if let Some(sleeper) = SLEEPER.get() {
        sleeper.unpark();
    }
    raddle::yield_now();
    HANDLED.fetch_add(1, Ordering::Release);
}

fn number() -> c_int {
    libc::SIGRTMIN() + 3
}

/// What the kernel takes as the description of a queued signal.
#[repr(C)]
struct Queued {
    signal: c_int,
    errno: c_int,
    code: c_int,
    pad: c_int,
    process: c_int,
    user: u32,
    value: usize,
    rest: [u64; 12],
}

/// Queues one signal to a kernel thread. False if it has ended, or the queue is full.
fn send(tid: i32, value: usize) -> bool {
    const SI_QUEUE: c_int = -1;
    // SAFETY: take nothing.
    let (process, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let queued = Queued { signal: number(), errno: 0, code: SI_QUEUE, pad: 0, process, user, value, rest: [0; 12] };
    assert_eq!(size_of::<Queued>(), size_of::<libc::siginfo_t>());
    // SAFETY: the kernel reads the description.
    unsafe { libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, tid, number(), &raw const queued) == 0 }
}

fn activations(prefix: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let ours = tasks
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with(prefix)));
    ours.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// Some of everything; the answer must come out.
fn traffic() -> u64 {
    let total = Mutex::new(0u64);
    let (sender, receiver) = channel::bounded(2);
    raddle::scope(|s| {
        for i in 0..16u64 {
            let (total, sender) = (&total, sender.clone());
            s.spawn(move || {
                for k in 0..40 {
                    *total.lock().unwrap() += 1;
                    match k % 4 {
                        0 => *total.lock().unwrap() += raddle::spawn(move || i).join().unwrap(),
                        1 => sender.send(1u64).unwrap(),
                        _ => raddle::yield_now(),
                    }
                }
            });
        }
        drop(sender);
        s.spawn(|| receiver.iter().for_each(|message| *total.lock().unwrap() += message));
    });
    *total.lock().unwrap()
}

/// 16 threads: 40 steps each, 10 children that answer `i`, 10 messages.
const TRAFFIC: u64 = 16 * 40 + 10 * 120 + 16 * 10;

fn storm(policy: &str, signals: u64) {
    static STORMS: AtomicU64 = AtomicU64::new(0);
    // A name of its own: kernel threads of the storm before may still be ending, and the kernel drops what is sent to
    // them then.
    let prefix = format!("storm{}-", STORMS.fetch_add(1, Ordering::Relaxed));
    let builder = raddle::Builder::new().processors(2).policy(policy);
    let pool = builder.kernel_thread_prefix(&prefix).build().unwrap();
    let (handled, sum) = (HANDLED.load(Ordering::Acquire), SUM.load(Ordering::Relaxed));
    let sent = AtomicU64::new(0);
    let over = AtomicBool::new(false);
    // Takes every permit, and parks in between.
    let taker = pool.spawn(move || {
        for _ in 0..signals {
            PERMITS.acquire(1);
        }
    });
    let total = std::thread::scope(|s| {
        let sender = s.spawn(|| {
            let mut total = 0;
            let mut tids = activations(&prefix);
            while sent.load(Ordering::Relaxed) < signals {
                let count = sent.load(Ordering::Relaxed);
                // A few at a time: those that wait together interrupt the same instruction.
                if count.is_multiple_of(8) {
                    tids = activations(&prefix);
                    while count - (HANDLED.load(Ordering::Acquire) - handled) > 16 {
                        std::thread::yield_now();
                    }
                }
                let value = count as usize % 1000 + 1;
                if !tids.is_empty() && send(tids[count as usize % tids.len()], value) {
                    total += value as u64;
                    sent.store(count + 1, Ordering::Relaxed);
                } else {
                    tids = activations(&prefix);
                }
            }
            over.store(true, Ordering::Relaxed);
            total
        });
        while !over.load(Ordering::Relaxed) {
            assert_eq!(pool.run(traffic), TRAFFIC);
        }
        sender.join().unwrap()
    });
    // Each was handled: the taker gets all its permits.
    taker.join().unwrap();
    while HANDLED.load(Ordering::Acquire) - handled < signals {
        std::thread::yield_now();
    }
    assert_eq!(HANDLED.load(Ordering::Acquire) - handled, signals);
    assert_eq!(SUM.load(Ordering::Relaxed) - sum, total, "what the signals said");
    assert_eq!(PERMITS.available(), 0);
    assert_eq!(pool.run(traffic), TRAFFIC);
}

#[test]
fn signals_by_the_thousand_are_handled_once_each_and_corrupt_nothing() {
    let signals = std::env::var("RADDLE_SIGNALS").map_or(20_000, |text| text.parse().unwrap());
    // SAFETY: the handler only counts and wakes.
    unsafe { raddle::signal::install(number(), wakes_others).unwrap() };
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let stop = &*Box::leak(Box::new(AtomicBool::new(false)));
    let sleeper = pool.spawn(|| {
        let _ = SLEEPER.set(raddle::current());
        while !stop.load(Ordering::Relaxed) {
            raddle::park();
        }
    });
    let before = raddle::signal::deferred();
    // Until one has arrived inside the runtime: most do.
    let mut rounds = 0;
    while rounds == 0 || raddle::signal::deferred() == before {
        for policy in ["steal(lifo)", "fifo", "rotator", "priority(2, steal(lifo))"] {
            storm(policy, signals / 4);
        }
        rounds += 1;
        assert!(rounds < 100, "no signal arrived inside the runtime: the test saw nothing");
    }
    let deferred = raddle::signal::deferred() - before;
    println!("{rounds} times {signals} signals, {deferred} of them deferred");
    stop.store(true, Ordering::Relaxed);
    while SLEEPER.get().is_none() {
        std::thread::yield_now();
    }
    SLEEPER.get().unwrap().unpark();
    sleeper.join().unwrap();
}

#[test]
fn faults_and_unknown_signals_are_refused() {
    for signal in [libc::SIGSEGV, libc::SIGTRAP, 0, -3, 65, 1000, libc::SIGKILL] {
        // SAFETY: as above; it is refused anyway.
        assert!(unsafe { raddle::signal::install(signal, wakes_others) }.is_err(), "{signal}");
    }
}

/// A handler interrupts a thread that computes: what it spawns goes into that thread's pool, and the thread is itself
/// afterwards.
#[test]
fn a_handler_spawns_into_the_pool_that_it_interrupted_and_the_thread_goes_on_as_itself() {
    static SPAWNED: AtomicU64 = AtomicU64::new(0);
    static RAN: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C" fn spawns(_: c_int, _: *mut c_void, _: *mut c_void) {
        // The interrupted code spins on an atomic: it is not inside the allocator.
        drop(raddle::spawn(|| RAN.fetch_add(1, Ordering::Release)));
        SPAWNED.fetch_add(1, Ordering::Release);
    }
    let signal = number() + 1;
    // SAFETY: what it interrupts is known, below.
    unsafe { raddle::signal::install(signal, spawns).unwrap() };
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let before = raddle::thread::Builder::new().name("computes".into()).spawn_into(&pool, move || {
        for round in 0..100 {
            // SAFETY: to this kernel thread.
            unsafe {
                let tid = libc::syscall(libc::SYS_gettid);
                libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal);
            }
            while SPAWNED.load(Ordering::Acquire) <= round {
                std::hint::spin_loop();
            }
            assert_eq!(raddle::current_name().as_deref(), Some("computes"));
            raddle::yield_now();
        }
    });
    before.unwrap().join().unwrap();
    while RAN.load(Ordering::Acquire) < 100 {
        std::thread::yield_now();
    }
    while pool.live_threads() != 0 {
        std::thread::yield_now();
    }
}
