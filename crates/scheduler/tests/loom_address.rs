//! All interleavings, within stated bounds, of waiting on an address. What is built on it has its own:
//! `loom_words.rs`.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use loom_runtime::{Model, explore};
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
