//! What waits for a lightweight thread: signals sent to it, and signals for the process that it is to take.
//!
//! As in the kernel, a signal below the real-time ones is pending once or not at all; of the others each one counts, and they come in the order in
//! which they were sent. What is more than a number (who has sent it, a value, a child's end) lies in a [`Place`], of which the process
//! has [`PLACES`]. A place that is full says alone that its signal is pending: whoever empties it has taken the signal.
//!
//! Every step may be one of a handler that interrupted another step: nobody waits for anybody.

use super::info::Info;
use super::signals::{Set, bit};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Signals on their way in the whole process. The kernel's limit is the user's `RLIMIT_SIGPENDING`.
const PLACES: usize = 4096;
/// The first signal that is counted.
const REAL_TIME: c_int = 32;
/// In a place's `what`, beside the number: it is for the process.
const FOR_PROCESS: u32 = 1 << 8;

/// In a place's state, below the number of its changes.
const FREE: u32 = 0;
/// Being filled or emptied.
const BUSY: u32 = 1;
const FULL: u32 = 2;
const PHASE: u32 = 3;

#[repr(align(64))]
struct Place {
    state: AtomicU32,
    what: AtomicU32,
    /// The address of the [`Pending`] that it belongs to.
    owner: AtomicUsize,
    /// Who came first.
    ticket: AtomicU64,
    info: [AtomicU64; Info::WORDS],
}

const _: () = assert!(size_of::<Place>() == 64);

static POOL: [Place; PLACES] = [const {
    Place {
        state: AtomicU32::new(FREE),
        what: AtomicU32::new(0),
        owner: AtomicUsize::new(0),
        ticket: AtomicU64::new(0),
        info: [const { AtomicU64::new(0) }; Info::WORDS],
    }
}; PLACES];
/// One more than the highest place that was ever in use.
static USED: AtomicUsize = AtomicUsize::new(0);
static TICKETS: AtomicU64 = AtomicU64::new(0);

/// A full place, as it was at one moment.
struct Seen {
    place: &'static Place,
    state: u32,
    what: u32,
    ticket: u64,
}

impl Seen {
    fn signal(&self) -> c_int {
        (self.what & !FOR_PROCESS) as c_int
    }

    /// Empties the place, unless it has changed since.
    fn take(&self) -> Option<Info> {
        let busy = self.state & !PHASE | BUSY;
        self.place.state.compare_exchange(self.state, busy, Ordering::SeqCst, Ordering::Relaxed).ok()?;
        let info = Info::from_words(self.signal(), self.place.info.each_ref().map(|word| word.load(Ordering::Relaxed)));
        // The next number: who has seen it full before does not take it for what it saw.
        self.place.state.store((self.state & !PHASE).wrapping_add(PHASE + 1) | FREE, Ordering::Release);
        Some(info)
    }
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
    /// None, for a new thread, or one that is alone in a child of a fork.
    pub fn clear(&self) {
        self.own.store(0, Ordering::Relaxed);
        self.for_process.store(0, Ordering::Relaxed);
        if self.places.load(Ordering::Relaxed) != 0 {
            self.seen(0).for_each(|seen| {
                seen.take();
            });
            self.places.store(0, Ordering::Relaxed);
        }
    }

    /// All of them.
    pub fn all(&self) -> Set {
        // SeqCst here and below: whoever leaves a signal looks at the thread's state afterwards, and the thread here after it has changed that.
        self.own.load(Ordering::SeqCst) | self.of_process() | self.numbers(0)
    }

    /// Those that were sent to the process.
    pub fn of_process(&self) -> Set {
        self.for_process.load(Ordering::SeqCst) | self.numbers(FOR_PROCESS)
    }

    fn numbers(&self, kind: u32) -> Set {
        self.seen(kind).fold(0, |set, seen| set | bit(seen.signal()))
    }

    /// Its full places, all or those for the process.
    fn seen(&self, kind: u32) -> impl Iterator<Item = Seen> {
        let own = std::ptr::from_ref(self).addr();
        let any = self.places.load(Ordering::SeqCst) != 0;
        let places = if any { &POOL[..USED.load(Ordering::SeqCst)] } else { &[] };
        places.iter().filter_map(move |place| {
            let state = place.state.load(Ordering::SeqCst);
            // Acquire: the last look at the state comes after these.
            if state & PHASE != FULL || place.owner.load(Ordering::Acquire) != own {
                return None;
            }
            let (what, ticket) = (place.what.load(Ordering::Acquire), place.ticket.load(Ordering::Acquire));
            let unchanged = place.state.load(Ordering::Relaxed) == state;
            (unchanged && what & kind == kind).then_some(Seen { place, state, what, ticket })
        })
    }

    /// Leaves a signal, if it is not pending that must not be twice. False: there is no place for it.
    pub fn leave(&self, info: &Info, for_process: bool) -> bool {
        let signal = info.signal;
        let kind = if for_process { FOR_PROCESS } else { 0 };
        if signal < REAL_TIME {
            let set = if for_process { &self.for_process } else { &self.own };
            let is_there = set.load(Ordering::SeqCst) & bit(signal) != 0
                || self.seen(kind).any(|seen| seen.what == signal as u32 | kind);
            if !is_there && info.is_plain() && !for_process {
                set.fetch_or(bit(signal), Ordering::SeqCst);
                return true;
            }
            if is_there {
                return true;
            }
        }
        // First: who takes it finds it counted.
        self.places.fetch_add(1, Ordering::SeqCst);
        for (index, place) in POOL.iter().enumerate() {
            let state = place.state.load(Ordering::Relaxed);
            let busy = state & !PHASE | BUSY;
            if state & PHASE != FREE
                || place.state.compare_exchange(state, busy, Ordering::Acquire, Ordering::Relaxed).is_err()
            {
                continue;
            }
            place.owner.store(std::ptr::from_ref(self).addr(), Ordering::Relaxed);
            place.what.store(signal as u32 | kind, Ordering::Relaxed);
            place.ticket.store(TICKETS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            place.info.iter().zip(info.words()).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
            USED.fetch_max(index + 1, Ordering::SeqCst);
            place.state.store(state & !PHASE | FULL, Ordering::SeqCst);
            return true;
        }
        self.places.fetch_sub(1, Ordering::SeqCst);
        false
    }

    /// Leaves a signal for the process of which there is no more than the number: several of them are one.
    pub fn leave_number(&self, signal: c_int) {
        self.for_process.fetch_or(bit(signal), Ordering::SeqCst);
    }

    /// Takes one of that number, the thread's own before the process's, the first before later ones. `None`: there is none (any more).
    pub fn take(&self, signal: c_int, only_of_process: bool) -> Option<Info> {
        let took = |set: &AtomicU64| {
            set.load(Ordering::SeqCst) & bit(signal) != 0
                && set.fetch_and(!bit(signal), Ordering::SeqCst) & bit(signal) != 0
        };
        if !only_of_process && took(&self.own) {
            return Some(Info::of_thread(signal));
        }
        // Each turn but the first follows one that somebody else has taken.
        while let Some(first) = self
            .seen(if only_of_process { FOR_PROCESS } else { 0 })
            .filter(|seen| seen.signal() == signal)
            .min_by_key(|seen| (seen.what & FOR_PROCESS, seen.ticket))
        {
            if let Some(info) = first.take() {
                self.places.fetch_sub(1, Ordering::SeqCst);
                return Some(info);
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
        assert_eq!(count, PLACES);
        assert!(!pending.leave(&with(40, 1), true) && pending.all() == 0);
        pending.leave_number(40);
        assert_eq!(pending.take(40, true).unwrap().code, c::SI_USER);
        other.clear();
        assert!(other.all() == 0 && pending.leave(&with(40, 1), true) && pending.take(40, true).is_some());
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
