//! What waits for a lightweight thread: signals sent to it, and signals for the process that it is to take.
//!
//! As in the kernel, a signal below the real-time ones is pending once or not at all; of the others each one counts,
//! and they come in the order in which they were sent. What is more than a number (who has sent it, a value, a child's
//! end) lies in one of the process's [`PLACES`], which says alone that the signal is pending: whoever empties it has
//! taken the signal.
//!
//! Every step may be one of a handler that interrupted another step: nobody waits for anybody.

use super::info::Info;
use super::signals::{Set, bit};
use raddle::drop_in::places::{Places, Seen};
use raddle_machine::Real;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Signals on their way in the whole process. The kernel's limit is the user's `RLIMIT_SIGPENDING`.
const COUNT: usize = 4096;
/// The first signal that is counted.
const REAL_TIME: c_int = 32;
/// In an item's key, beside the number: it is for the process.
const FOR_PROCESS: u32 = 1 << 8;

/// Those that are more than a number, by the address of the [`Pending`] that they belong to.
static PLACES: Places<Real, COUNT, { Info::WORDS }> = Places::constant();

fn signal_of(seen: &Seen) -> c_int {
    (seen.key & !FOR_PROCESS) as c_int
}

/// Signals on their way to one thread. Any thread leaves some, and takes some back that are the process's.
#[derive(Default)]
pub(crate) struct Pending {
    own: AtomicU64,
    for_process: AtomicU64,
    /// At least so many places as belong to it: with none, they need not be looked at.
    places: AtomicU32,
}

impl Pending {
    /// Leaves none. Called where nobody leaves more meanwhile: of a record that nobody has any more, and in the child
    /// of a fork.
    pub fn clear(&self) {
        self.own.store(0, Ordering::Relaxed);
        self.for_process.store(0, Ordering::Relaxed);
        if self.places.load(Ordering::Relaxed) != 0 {
            self.seen(0).for_each(|seen| {
                PLACES.take(&seen);
            });
            self.places.store(0, Ordering::Relaxed);
        }
    }

    /// Whether there are none: as the answers of all other looks say then.
    #[inline]
    pub fn is_empty(&self) -> bool {
        let sets = self.own.load(Ordering::SeqCst) | self.for_process.load(Ordering::SeqCst);
        sets == 0 && self.places.load(Ordering::SeqCst) == 0
    }

    /// All of them.
    pub fn all(&self) -> Set {
        // SeqCst here and below: whoever leaves a signal looks at the thread's state afterwards, and the thread here
        // after it has changed that.
        self.own.load(Ordering::SeqCst) | self.for_process.load(Ordering::SeqCst) | self.numbers(0)
    }

    /// Those that were sent to the process.
    pub fn of_process(&self) -> Set {
        self.for_process.load(Ordering::SeqCst) | self.numbers(FOR_PROCESS)
    }

    fn numbers(&self, kind: u32) -> Set {
        self.seen(kind).fold(0, |set, seen| set | bit(signal_of(&seen)))
    }

    /// What lies in places, all or what is for the process.
    fn seen(&self, kind: u32) -> impl Iterator<Item = Seen> {
        let any = self.places.load(Ordering::SeqCst) != 0;
        let places = any.then(|| PLACES.seen(self.address()));
        places.into_iter().flatten().filter(move |seen| seen.key & kind == kind)
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Leaves a signal, if it is not pending that must not be twice. False: there is no place for it.
    pub fn leave(&self, info: &Info, for_process: bool) -> bool {
        let signal = info.signal;
        let kind = if for_process { FOR_PROCESS } else { 0 };
        if signal < REAL_TIME {
            let set = if for_process { &self.for_process } else { &self.own };
            let is_there = set.load(Ordering::SeqCst) & bit(signal) != 0
                || self.seen(kind).any(|seen| seen.key == signal as u32 | kind);
            if is_there {
                return true;
            }
            if info.is_plain() && !for_process {
                set.fetch_or(bit(signal), Ordering::SeqCst);
                return true;
            }
        }
        // First: who takes it finds it counted.
        self.places.fetch_add(1, Ordering::SeqCst);
        let put = PLACES.put(self.address(), signal as u32 | kind, info.words());
        if !put {
            self.places.fetch_sub(1, Ordering::SeqCst);
        }
        put
    }

    /// Leaves a signal for the process of which there is no more than the number: several of them are one.
    pub fn leave_number(&self, signal: c_int) {
        self.for_process.fetch_or(bit(signal), Ordering::SeqCst);
    }

    /// Takes one of that number, the thread's own before the process's, the first before later ones. `None`: there is
    /// none (any more).
    pub fn take(&self, signal: c_int, only_of_process: bool) -> Option<Info> {
        let took = |set: &AtomicU64| {
            set.load(Ordering::SeqCst) & bit(signal) != 0
                && set.fetch_and(!bit(signal), Ordering::SeqCst) & bit(signal) != 0
        };
        if !only_of_process && took(&self.own) {
            return Some(Info::of_thread(signal));
        }
        let first = || {
            let kind = if only_of_process { FOR_PROCESS } else { 0 };
            let those = self.seen(kind).filter(|seen| signal_of(seen) == signal);
            those.min_by_key(|seen| (seen.key & FOR_PROCESS, seen.ticket))
        };
        // Twice: a signal may have been left where the first look had passed already, and the next one by the same
        // sender where it came by later. What was left before anything that the first look met lies there throughout
        // the second. Each turn but the first follows one that somebody else has taken.
        while let Some(first) = first().and_then(|_| first()) {
            if let Some(words) = PLACES.take(&first) {
                self.places.fetch_sub(1, Ordering::SeqCst);
                return Some(Info::from_words(signal, words));
            }
        }
        took(&self.for_process).then(|| Info::of_process(signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::c;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    /// The places are the process's.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn with(signal: c_int, value: usize) -> Info {
        Info::new(signal, c::SI_QUEUE, value)
    }

    #[test]
    fn real_time_signals_count_and_keep_their_order_and_others_merge() {
        let _one = ONE_AT_A_TIME.lock().unwrap();
        let pending = Pending::default();
        for value in 0..100 {
            assert!(pending.leave(&with(40, value), false) && pending.leave(&with(10, value), true));
        }
        assert!(pending.leave(&Info::of_thread(40), false));
        assert_eq!((pending.all(), pending.of_process()), (bit(40) | bit(10), bit(10)));
        assert!((0..100).all(|value| pending.take(40, false).unwrap().value() == value));
        assert_eq!(pending.take(40, false).unwrap().code, c::SI_TKILL);
        assert!(pending.take(40, false).is_none() && pending.take(10, true).unwrap().value() == 0);
        assert_eq!((pending.all(), pending.places.load(Ordering::Relaxed)), (0, 0));
    }

    #[test]
    fn own_signals_come_first_and_full_is_said() {
        let _one = ONE_AT_A_TIME.lock().unwrap();
        let (pending, other) = (Pending::default(), Pending::default());
        assert!(pending.leave(&with(40, 1), true) && pending.leave(&with(40, 2), false));
        assert_eq!([2, 1].map(|_| pending.take(40, false).unwrap().value()), [2, 1]);
        let count = (0..).take_while(|&value| other.leave(&with(41, value), true)).count();
        assert_eq!(count, COUNT);
        assert!(!pending.leave(&with(40, 1), true) && pending.all() == 0);
        pending.leave_number(40);
        assert_eq!(pending.take(40, true).unwrap().code, c::SI_USER);
        other.clear();
        assert!(other.all() == 0 && pending.leave(&with(40, 1), true) && pending.take(40, true).is_some());
    }

    #[test]
    fn signals_that_are_taken_while_others_are_left_keep_their_order() {
        let _one = ONE_AT_A_TIME.lock().unwrap();
        const LAST: usize = 20_000;
        let pending = Pending::default();
        std::thread::scope(|scope| {
            scope.spawn(|| (1..=LAST).for_each(|value| while !pending.leave(&with(50, value), false) {}));
            let mut expected = 1;
            while expected <= LAST {
                if let Some(info) = pending.take(50, false) {
                    assert_eq!(info.value(), expected);
                    expected += 1;
                }
            }
        });
        assert_eq!(pending.all(), 0);
    }

    #[test]
    fn each_signal_is_taken_once() {
        let _one = ONE_AT_A_TIME.lock().unwrap();
        let (pending, sum, count) = (Pending::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (1..=5000).for_each(|value| while !pending.leave(&with(50, value), true) {}));
                scope.spawn(|| {
                    while count.load(Ordering::Relaxed) < 10_000 {
                        if let Some(info) = pending.take(50, true) {
                            sum.fetch_add(info.value(), Ordering::Relaxed);
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!((sum.into_inner(), pending.all()), (2 * 5000 * 5001 / 2, 0));
    }
}
