//! A wave of cancellations: threads that wait in every way that can be cancelled, all cancelled at once, end, and
//! nothing of them is left. Once each is cancelled by its handle, once all by a scope, below which they are in scopes
//! of scopes.
//!
//! `RADDLE_CANCELLED=N` sets how many (4,000 unless told; a debug build cancels a million in half a minute).

use raddle::sync::{Barrier, Condvar, Mutex, RwLock, Semaphore, channel, oneshot};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);

/// What all wait for, and what never comes.
struct Never {
    mutex: Mutex<()>,
    condvar: Condvar,
    lock: RwLock<()>,
    semaphore: Semaphore,
    barrier: Barrier,
    full: channel::Sender<u64>,
    empty: channel::Receiver<u64>,
    entered: AtomicU64,
    ended: AtomicU64,
}

const WAYS: u64 = 10;

/// A thread that has begun; counts its end.
struct Out<'a>(&'a AtomicU64);

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Never {
    /// `full` and `empty` stay so while their other ends, which come with it, are kept.
    fn new() -> (Self, channel::Receiver<u64>, channel::Sender<u64>) {
        let ((full, kept), (never, empty)) = (channel::bounded(1), channel::bounded(1));
        full.send(1).unwrap();
        let this = Self {
            mutex: Mutex::new(()),
            condvar: Condvar::new(),
            lock: RwLock::new(()),
            semaphore: Semaphore::new(0),
            barrier: Barrier::new(usize::MAX >> 33),
            full,
            empty,
            entered: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        };
        (this, kept, never)
    }

    fn enter(&self) -> Out<'_> {
        self.entered.fetch_add(1, Ordering::Relaxed);
        Out(&self.ended)
    }

    /// Waits in the `way`th way until it is cancelled.
    fn wait(&self, way: u64) {
        match way % WAYS {
            0 => raddle::sleep(HOUR),
            1 => assert!(self.semaphore.acquire_cancellable(1).is_err()),
            2 => assert_eq!(self.empty.recv(), Err(channel::RecvError::Cancelled)),
            3 => assert_eq!(self.full.send(7), Err(channel::SendError(7))),
            4 => assert!(matches!(self.mutex.lock_cancellable(), Err(raddle::sync::LockError::Cancelled))),
            5 => assert!(self.lock.read_cancellable().is_err()),
            6 => assert!(self.barrier.wait_cancellable().is_err()),
            7 => {
                let (_promise, future) = oneshot::channel::<u64>();
                assert!(matches!(future.get(), Err(oneshot::GetError::Cancelled)));
            }
            8 => assert!(self.semaphore.acquire_timeout(1, HOUR).is_err()),
            _ => {
                let own = Mutex::new(());
                let mut guard = own.lock().unwrap();
                // Such a wait may end for no reason, as it does where a scope's cancellation is handed on: then it is
                // entered again.
                let mut waited = Ok(());
                while waited.is_ok() {
                    (guard, waited) = self.condvar.wait_cancellable(guard, None).unwrap();
                }
                assert_eq!(waited, Err(raddle::sync::WaitError::Cancelled));
            }
        }
    }

    /// A thread of a tree with so many `levels` below it. Every other owner of a scope waits for what never comes, the
    /// others for the end of their scopes.
    fn grow(&self, levels: u32, fan: u64, way: u64) {
        let _out = self.enter();
        if levels == 0 {
            return self.wait(way);
        }
        raddle::scope(|s| {
            for child in 0..fan {
                s.spawn(move || self.grow(levels - 1, fan, way + child));
            }
            if way.is_multiple_of(2) {
                self.wait(way / 2);
            }
        });
    }

    /// Waits until so many have begun, none of which has ended.
    fn await_all(&self, count: u64) {
        while self.entered.load(Ordering::Relaxed) < count {
            raddle::yield_now();
        }
        assert_eq!(self.ended.load(Ordering::Relaxed), 0, "something ended before it was cancelled");
    }

    /// All have ended, and the objects are whole: nobody is queued, nothing was taken.
    fn check(&self, count: u64) {
        assert_eq!((self.entered.load(Ordering::Relaxed), self.ended.load(Ordering::Relaxed)), (count, count));
        drop(self.mutex.lock().unwrap());
        drop(self.lock.write().unwrap());
        self.semaphore.release(2);
        self.semaphore.acquire(2);
        assert_eq!(self.full.try_send(2), Err(channel::TrySendError::Full(2)));
    }
}

fn asked_for() -> u64 {
    std::env::var("RADDLE_CANCELLED").map_or(4_000, |text| text.parse().unwrap())
}

fn memory() -> String {
    let kib = std::fs::read_to_string("/proc/self/status").unwrap();
    kib.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_string()
}

/// Two rounds on one pool: `wave` is told of what never comes and gives how many it has cancelled.
fn rounds(what: &str, wave: impl Fn(&Arc<Never>) -> u64 + Sync) {
    // A million threads at a time take 8 GiB of stacks.
    static ONE_WAVE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE_WAVE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    for round in 0..2 {
        pool.run(|| {
            let (never, _kept, _never) = Never::new();
            let never = Arc::new(never);
            let (held, written) = (never.mutex.lock().unwrap(), never.lock.write().unwrap());
            let count = wave(&never);
            drop((held, written));
            never.check(count);
        });
        // The last one is counted after its end was seen.
        while pool.live_threads() != 0 {
            std::thread::yield_now();
        }
        println!("{what}, round {round}: {}", memory());
    }
}

#[test]
fn all_that_can_be_cancelled_ends_at_once_and_leaves_nothing() {
    let count = asked_for();
    rounds("by handles", |never| {
        let threads: Vec<_> = (0..count)
            .map(|way| {
                let never = never.clone();
                raddle::spawn(move || {
                    let _out = never.enter();
                    never.wait(way);
                })
            })
            .collect();
        never.await_all(count);
        let start = Instant::now();
        threads.iter().for_each(raddle::JoinHandle::cancel);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        println!("{count} cancelled by their handles and joined in {:?}", start.elapsed());
        count
    });
}

#[test]
fn a_tree_of_scopes_is_cancelled_from_its_root() {
    // Threads of three levels: fan, fan squared and fan cubed.
    let fan = (1u64..).find(|fan| fan + fan.pow(2) + fan.pow(3) >= asked_for()).unwrap();
    let count = fan + fan.pow(2) + fan.pow(3);
    rounds("by scopes", |never| {
        let mut start = None;
        raddle::scope(|s| {
            for way in 0..fan {
                s.spawn(move || never.grow(2, fan, way));
            }
            never.await_all(count);
            start = Some(Instant::now());
            s.cancel();
        });
        println!("{count} in {} scopes cancelled and ended in {:?}", 1 + fan + fan.pow(2), start.unwrap().elapsed());
        count
    });
}

#[test]
fn a_scoped_thread_is_cancelled_by_its_handle_and_still_joined() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let mut seen = false;
    pool.run(|| {
        raddle::scope(|s| {
            let sleeper = s.spawn(|| {
                raddle::sleep(HOUR);
                seen = true;
            });
            sleeper.cancel();
        });
    });
    assert!(seen);
}
