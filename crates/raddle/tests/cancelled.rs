//! A wave of cancellations: threads that wait in every way that can be cancelled, all cancelled at once, end, and nothing of them is left.
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

impl Never {
    /// Waits in the `way`th way until it is cancelled. What it holds meanwhile is dropped on the way out.
    fn wait(&self, way: u64) {
        struct Out<'a>(&'a AtomicU64);
        impl Drop for Out<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let _out = Out(&self.ended);
        self.entered.fetch_add(1, Ordering::Relaxed);
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
                let guard = own.lock().unwrap();
                let (_guard, waited) = self.condvar.wait_cancellable(guard, None).unwrap();
                assert_eq!(waited, Err(raddle::sync::WaitError::Cancelled));
            }
        }
    }
}

#[test]
fn all_that_can_be_cancelled_ends_at_once_and_leaves_nothing() {
    let count = std::env::var("RADDLE_CANCELLED").map_or(4_000, |text| text.parse().unwrap());
    let pool = raddle::Builder::new().processors(2).build().unwrap();
    for round in 0..2 {
        pool.run(|| {
            let (full, _kept) = channel::bounded(1);
            let (_never, empty) = channel::bounded(1);
            full.send(1).unwrap();
            let never = Arc::new(Never {
                mutex: Mutex::new(()),
                condvar: Condvar::new(),
                lock: RwLock::new(()),
                semaphore: Semaphore::new(0),
                barrier: Barrier::new(usize::MAX >> 33),
                full,
                empty,
                entered: AtomicU64::new(0),
                ended: AtomicU64::new(0),
            });
            let (held, written) = (never.mutex.lock().unwrap(), never.lock.write().unwrap());
            let threads: Vec<_> = (0..count)
                .map(|way| {
                    let never = never.clone();
                    raddle::spawn(move || never.wait(way))
                })
                .collect();
            while never.entered.load(Ordering::Relaxed) < count {
                raddle::yield_now();
            }
            assert_eq!(never.ended.load(Ordering::Relaxed), 0, "something ended before it was cancelled");
            let start = Instant::now();
            threads.iter().for_each(raddle::JoinHandle::cancel);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            println!("round {round}: {count} cancelled and joined in {:?}", start.elapsed());
            assert_eq!(never.ended.load(Ordering::Relaxed), count);
            drop((held, written));
            // The objects are whole: nobody is queued, nothing was taken.
            drop(never.mutex.lock().unwrap());
            drop(never.lock.write().unwrap());
            never.semaphore.release(2);
            never.semaphore.acquire(2);
            assert_eq!(never.full.try_send(2), Err(channel::TrySendError::Full(2)));
        });
        // The last one is counted after its end was seen.
        while pool.live_threads() != 0 {
            std::thread::yield_now();
        }
        let kib = std::fs::read_to_string("/proc/self/status").unwrap();
        let rss = kib.lines().find(|line| line.starts_with("VmRSS")).unwrap().to_string();
        println!("round {round}: {rss}");
    }
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
