//! What sleeps in loom's models of words: the kernel's futex and the table of lightweight threads, as
//! `crates/posix/src/futex.rs` calls them.
#![allow(dead_code)] // Each test file uses its part.

use loom::thread;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::words::{Bucket, Sleepers};
use std::sync::Mutex;

pub type Word = <Loom as Machine>::Atomic<u32>;

#[derive(Debug, PartialEq, Clone, Copy)]
pub struct TimedOut;

/// Which table one sleeps in. Of both, a waker that wants one asks the first one first.
#[derive(Debug, PartialEq, Clone, Copy)]
pub enum Kind {
    First,
    Second,
}

/// Those who sleep, in the order in which they came. (Loom's threads run on one kernel thread, so that only loom's own
/// operations are interrupted.)
#[derive(Default)]
pub struct Kernel {
    pub bucket: Bucket<Loom>,
    asleep: Mutex<Vec<(usize, Kind, thread::Thread)>>,
}

impl Kernel {
    fn is_asleep(&self, me: &thread::Thread) -> bool {
        self.asleep.lock().unwrap().iter().any(|(_, _, thread)| thread.id() == me.id())
    }

    /// Sleeps under a name if `same`, which looks once, with a read-modify-write. With `impatient` not for long: then
    /// `Err` if nobody has woken it.
    pub fn sleep(&self, kind: Kind, name: usize, impatient: bool, same: impl FnOnce() -> bool) -> Result<(), TimedOut> {
        self.bucket.asleep(|| {
            if !same() {
                return Ok(());
            }
            let me = thread::current();
            self.asleep.lock().unwrap().push((name, kind, me.clone()));
            if impatient {
                thread::yield_now();
                let mut asleep = self.asleep.lock().unwrap();
                let before = asleep.len();
                asleep.retain(|(_, _, thread)| thread.id() != me.id());
                return if asleep.len() < before { Err(TimedOut) } else { Ok(()) };
            }
            while self.is_asleep(&me) {
                thread::park();
            }
            Ok(())
        })
    }

    pub fn sleep_at(&self, kind: Kind, word: &Word, expected: u32, impatient: bool) -> Result<(), TimedOut> {
        let same = || word.fetch_or(0, Ordering::Relaxed) == expected;
        self.sleep(kind, std::ptr::from_ref(word).addr(), impatient, same)
    }

    fn wake_one(&self, kind: Kind, name: usize) -> bool {
        let first = {
            let mut asleep = self.asleep.lock().unwrap();
            let found = asleep.iter().position(|(at, of, _)| *at == name && *of == kind);
            found.map(|index| asleep.remove(index).2)
        };
        if let Some(thread) = &first {
            thread.unpark();
        }
        first.is_some()
    }
}

impl Sleepers for Kernel {
    fn wake(&self, name: usize, count: usize) -> usize {
        Bucket::<Loom>::before_look();
        let one = || self.wake_one(Kind::First, name) || self.wake_one(Kind::Second, name);
        if self.bucket.may_sleep() { (0..count).take_while(|_| one()).count() } else { 0 }
    }

    fn wake_each(&self, name: usize, count: usize) {
        Bucket::<Loom>::before_look();
        if self.bucket.may_sleep() {
            for kind in [Kind::First, Kind::Second] {
                (0..count).take_while(|_| self.wake_one(kind, name)).for_each(drop);
            }
        }
    }
}
