//! A program of the standard library's threads, locks and channels; it knows nothing of the drop-in.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

thread_local! {
    static NAME: RefCell<String> = const { RefCell::new(String::new()) };
}

struct Counted(Arc<AtomicUsize>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn kernel_threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

fn main() {
    // Many threads at once, each with storage of its own.
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let many: Vec<_> = (0..2000usize)
        .map(|i| {
            let gate = gate.clone();
            thread::spawn(move || {
                NAME.with(|name| *name.borrow_mut() = format!("thread {i}"));
                let mut open = gate.0.lock().unwrap();
                while !*open {
                    open = gate.1.wait(open).unwrap();
                }
                drop(open);
                thread::yield_now();
                NAME.with(|name| name.borrow().len()) + i
            })
        })
        .collect();
    let kernel = kernel_threads();
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    let sum: usize = many.into_iter().map(|handle| handle.join().unwrap()).sum();
    println!("many {sum}");

    // Names, panics, thread-local destructors.
    let named = thread::Builder::new().name("worker".into()).stack_size(64 << 10);
    let handle = named.spawn(|| thread::current().name().map(str::to_owned)).unwrap();
    println!("name {:?}", handle.join().unwrap());
    std::panic::set_hook(Box::new(|_| {}));
    let panicked = thread::spawn(|| panic!("on purpose")).join();
    println!("panic {:?}", panicked.unwrap_err().downcast_ref::<&str>());
    thread_local! { static LOCAL: RefCell<Option<Counted>> = const { RefCell::new(None) } }
    let dropped = Arc::new(AtomicUsize::new(0));
    let locals: Vec<_> = (0..100)
        .map(|_| {
            let dropped = dropped.clone();
            thread::spawn(move || LOCAL.with(|local| *local.borrow_mut() = Some(Counted(dropped))))
        })
        .collect();
    locals.into_iter().for_each(|handle| handle.join().unwrap());
    println!("destructors {}", dropped.load(Ordering::SeqCst));

    // Channels.
    let (sender, receiver) = mpsc::channel();
    let (small, bounded) = mpsc::sync_channel(3);
    let senders: Vec<_> = (0..50u64)
        .map(|i| {
            let (sender, small) = (sender.clone(), small.clone());
            thread::spawn(move || {
                for k in 0..100 {
                    sender.send(i * k).unwrap();
                    small.send(i + k).unwrap();
                }
            })
        })
        .collect();
    drop((sender, small));
    let taker = thread::spawn(move || bounded.iter().sum::<u64>());
    println!("channels {} {}", receiver.iter().sum::<u64>(), taker.join().unwrap());
    senders.into_iter().for_each(|handle| handle.join().unwrap());
    let (_keep, empty) = mpsc::channel::<()>();
    let waiter = thread::spawn(move || empty.recv_timeout(Duration::from_millis(5)));
    println!("time-out {:?}", waiter.join().unwrap());

    // Park and unpark, between the first thread and another, both ways.
    let turns = Arc::new(AtomicU64::new(0));
    let first = thread::current();
    let rounds = 2000;
    let other = {
        let turns = turns.clone();
        thread::spawn(move || {
            for i in 0..rounds {
                while turns.load(Ordering::Acquire) != 2 * i + 1 {
                    thread::park();
                }
                turns.store(2 * i + 2, Ordering::Release);
                first.unpark();
            }
        })
    };
    for i in 0..rounds {
        turns.store(2 * i + 1, Ordering::Release);
        other.thread().unpark();
        while turns.load(Ordering::Acquire) != 2 * i + 2 {
            thread::park_timeout(Duration::from_secs(100));
        }
    }
    other.join().unwrap();
    println!("turns {}", turns.load(Ordering::Relaxed));

    // Scope, reader-writer lock, barrier, once.
    let lock = RwLock::new((0u64, 0u64));
    let barrier = Barrier::new(20);
    let leaders = AtomicUsize::new(0);
    static ONCE: Once = Once::new();
    static CELL: OnceLock<u32> = OnceLock::new();
    static LAZY: LazyLock<u32> = LazyLock::new(|| 42);
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    thread::scope(|scope| {
        for i in 0..20 {
            let (lock, barrier, leaders) = (&lock, &barrier, &leaders);
            scope.spawn(move || {
                ONCE.call_once(|| {
                    thread::sleep(Duration::from_millis(2));
                    RUNS.fetch_add(1, Ordering::SeqCst);
                });
                assert_eq!((*CELL.get_or_init(|| 7), *LAZY), (7, 42));
                for k in 0..200 {
                    if (i + k) % 4 == 0 {
                        let mut pair = lock.write().unwrap();
                        pair.0 += 1;
                        thread::yield_now();
                        pair.1 += 1;
                    } else {
                        let pair = lock.read().unwrap();
                        assert_eq!(pair.0, pair.1);
                    }
                }
                if barrier.wait().is_leader() {
                    leaders.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    println!("scope {:?} {} {}", *lock.read().unwrap(), leaders.into_inner(), RUNS.load(Ordering::SeqCst));

    // A mutex that is poisoned, a wait with a time-out, sleep.
    let poisoned = Arc::new(Mutex::new(0));
    let holder = poisoned.clone();
    let _ = thread::spawn(move || {
        let _guard = holder.lock();
        panic!("on purpose");
    })
    .join();
    println!("poisoned {}", poisoned.is_poisoned());
    let pair = (Mutex::new(()), Condvar::new());
    let result = thread::scope(|scope| {
        scope.spawn(|| pair.1.wait_timeout(pair.0.lock().unwrap(), Duration::from_millis(5)).unwrap().1).join()
    });
    println!("wait {}", result.unwrap().timed_out());
    let start = Instant::now();
    let sleepers: Vec<_> = (0..1000).map(|_| thread::spawn(|| thread::sleep(Duration::from_millis(20)))).collect();
    sleepers.into_iter().for_each(|handle| handle.join().unwrap());
    println!("slept {}", start.elapsed() >= Duration::from_millis(20));
    println!("available {}", thread::available_parallelism().is_ok());
    eprintln!("{kernel}");
}
