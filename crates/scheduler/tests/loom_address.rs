//! All interleavings, within stated bounds, of waiting on an address, and of the mutex that the drop-in library builds
//! on it (`crates/posix/src/sync/mutex.rs`), whose word is copied here.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use loom_runtime::{Model, Watched, explore};
use raddle_machine::{Loom, Machine};
use raddle_scheduler::sync::WaitError;
use raddle_scheduler::sync::address::AddressTable;
use std::sync::Arc;

/// One list: all addresses share it.
type Table = AddressTable<Model, 1>;

const HERE: usize = 0x1000;
const THERE: usize = 0x2000;
const SOON: Option<u64> = Some(1);

/// A word that lightweight threads sleep on.
struct Word {
    table: Arc<Table>,
    address: usize,
    word: AtomicU32,
}

impl Word {
    fn new(table: &Arc<Table>, address: usize) -> Arc<Self> {
        Arc::new(Self { table: table.clone(), address, word: AtomicU32::new(0) })
    }

    /// As a futex: sleeps while the word is `expected`.
    fn wait(&self, expected: u32, deadline: Option<u64>) -> Result<(), WaitError> {
        self.table.wait(self.address, deadline, false, || self.word.load(Ordering::Acquire) != expected)
    }

    fn wake(&self, count: usize) -> usize {
        self.table.waker(self.address).wake(count)
    }

    /// Takes one of what the word counts; with a deadline, perhaps in vain.
    fn take(&self, deadline: Option<u64>) -> bool {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word > 0 {
                if self.word.compare_exchange(word, word - 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                    return true;
                }
            } else if self.wait(0, deadline).is_err() {
                return false;
            }
        }
    }
}

#[test]
fn a_wake_up_is_not_lost() {
    explore(3, &["()"], || {
        let word = Word::new(&Arc::default(), HERE);
        let waiter = thread::spawn({
            let word = word.clone();
            move || {
                while word.word.load(Ordering::Acquire) == 0 {
                    word.wait(0, None).unwrap();
                }
            }
        });
        word.word.store(1, Ordering::Release);
        word.wake(1);
        waiter.join().unwrap();
    });
}

#[test]
fn strangers_in_the_same_list_disturb_each_other_and_lose_nothing() {
    explore(1, &["()"], || {
        let table = Arc::default();
        let words = [HERE, THERE].map(|address| Word::new(&table, address));
        let waiters = [0, 1].map(|i| {
            let word = words[i].clone();
            thread::spawn(move || assert!(word.take(None)))
        });
        for word in words {
            word.word.fetch_add(1, Ordering::Release);
            word.wake(1);
        }
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

#[test]
fn one_wake_up_goes_to_one_that_still_waits() {
    // One may time out; two are woken for: the patient one gets through in every case.
    explore(1, &["[false, true]", "[true, true]"], || {
        let word = Word::new(&Arc::default(), HERE);
        let takers = [SOON, None].map(|deadline| {
            let word = word.clone();
            thread::spawn(move || word.take(deadline))
        });
        for _ in 0..2 {
            word.word.fetch_add(1, Ordering::Release);
            word.wake(1);
        }
        takers.map(|taker| taker.join().unwrap())
    });
}

/// The word of the drop-in's mutex: 0 free, 1 held, 2 held and others may sleep.
fn lock(mutex: &Word, deadline: Option<u64>) -> bool {
    let mut woken = false;
    loop {
        let word = mutex.word.load(Ordering::Relaxed);
        let new = match word {
            0 if woken && !mutex.table.is_empty(mutex.address) => 2,
            0 => 1,
            _ => 2,
        };
        if word != 2 && mutex.word.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        if word == 0 {
            return true;
        }
        match mutex.wait(2, deadline) {
            Ok(()) => woken = true,
            Err(_) => return false,
        }
    }
}

fn unlock(mutex: &Word) {
    if mutex.word.swap(0, Ordering::Release) == 2 {
        Loom::fence(Ordering::SeqCst);
        mutex.table.waker(mutex.address).wake_after_fence(1);
    }
}

#[test]
fn the_drop_ins_mutex_excludes_and_wakes() {
    explore(1, &["3"], || {
        let mutex = Word::new(&Arc::default(), HERE);
        let data = Arc::new(Watched::new());
        let work = |mutex: &Word, data: &Watched| {
            assert!(lock(mutex, None));
            data.add();
            unlock(mutex);
        };
        let others = [(); 2].map(|()| {
            let (mutex, data) = (mutex.clone(), data.clone());
            thread::spawn(move || work(&mutex, &data))
        });
        work(&mutex, &data);
        others.into_iter().for_each(|other| other.join().unwrap());
        data.add() - 1
    });
}

#[test]
fn the_drop_ins_mutex_passes_by_a_waiter_that_times_out() {
    explore(1, &["[false, true]", "[true, true]"], || {
        let mutex = Word::new(&Arc::default(), HERE);
        assert!(lock(&mutex, None));
        let others = [SOON, None].map(|deadline| {
            let mutex = mutex.clone();
            thread::spawn(move || {
                let held = lock(&mutex, deadline);
                if held {
                    unlock(&mutex);
                }
                held
            })
        });
        unlock(&mutex);
        others.map(|other| other.join().unwrap())
    });
}
