//! What waits for a lightweight thread: signals sent to it, and signals for the process that it is to take.
//!
//! A signal without a value is a bit, and a second one of its kind adds nothing, as in the kernel. One with a value (`sigqueue`) has a place of its own:
//! the place alone says that it is pending, so that whoever takes the value has taken the signal.

use super::signals::{Set, bit};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Places for values.
const VALUES: usize = 8;
/// In a place's state: it is for the process.
const FOR_PROCESS: u32 = 1 << 8;
/// A place that is being filled or emptied; 0 is a free one, and the others have a signal's number + 1.
const BUSY: u32 = 1;

/// Signals on their way to one thread. Any thread leaves some, and takes some back that are the process's.
#[derive(Default)]
pub(crate) struct Pending {
    own: AtomicU64,
    for_process: AtomicU64,
    /// There may be values: without, the places need not be looked at.
    has_values: AtomicBool,
    values: [(AtomicU32, AtomicUsize); VALUES],
}

impl Pending {
    /// None, for a new thread.
    pub fn clear(&self) {
        [&self.own, &self.for_process].iter().for_each(|set| set.store(0, Ordering::Relaxed));
        if self.has_values.swap(false, Ordering::Relaxed) {
            self.values.iter().for_each(|(state, _)| state.store(0, Ordering::Relaxed));
        }
    }

    /// All of them.
    pub fn all(&self) -> Set {
        // SeqCst here and below: whoever leaves a signal looks at the thread's state afterwards, and the thread here after it has changed that.
        self.own.load(Ordering::SeqCst) | self.for_process.load(Ordering::SeqCst) | self.valued(0)
    }

    /// Those that were sent to the process.
    pub fn of_process(&self) -> Set {
        self.for_process.load(Ordering::SeqCst) | self.valued(FOR_PROCESS)
    }

    /// Those that have values, and are of this kind or of any.
    fn valued(&self, kind: u32) -> Set {
        if !self.has_values.load(Ordering::SeqCst) {
            return 0;
        }
        let states = self.values.iter().map(|(state, _)| state.load(Ordering::SeqCst));
        states.filter(|&state| state > BUSY && state & kind == kind).fold(0, |set, state| set | bit(signal_of(state)))
    }

    /// Leaves a signal. False: there is no room for its value.
    pub fn leave(&self, signal: c_int, value: Option<usize>, for_process: bool) -> bool {
        let Some(value) = value else {
            let set = if for_process { &self.for_process } else { &self.own };
            set.fetch_or(bit(signal), Ordering::SeqCst);
            return true;
        };
        let free = |(state, _): &&(AtomicU32, _)| {
            state.compare_exchange(0, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let Some((state, place)) = self.values.iter().find(free) else { return false };
        place.store(value, Ordering::Relaxed);
        let kind = if for_process { FOR_PROCESS } else { 0 };
        state.store((signal as u32 + 1) | kind, Ordering::SeqCst);
        self.has_values.store(true, Ordering::SeqCst);
        true
    }

    /// Takes one of that number, only if it is the process's or any: with its value, if it has one. `None`: another was faster.
    pub fn take(&self, signal: c_int, only_of_process: bool) -> Option<Option<usize>> {
        if let Some(value) = self.take_value(signal, only_of_process) {
            return Some(Some(value));
        }
        let took = |set: &AtomicU64| set.fetch_and(!bit(signal), Ordering::SeqCst) & bit(signal) != 0;
        (!only_of_process && took(&self.own) || took(&self.for_process)).then_some(None)
    }

    fn take_value(&self, signal: c_int, only_of_process: bool) -> Option<usize> {
        if !self.has_values.load(Ordering::SeqCst) {
            return None;
        }
        self.values.iter().find_map(|(state, place)| {
            let full = state.load(Ordering::Relaxed);
            if full <= BUSY || signal_of(full) != signal || only_of_process && full & FOR_PROCESS == 0 {
                return None;
            }
            state.compare_exchange(full, BUSY, Ordering::SeqCst, Ordering::Relaxed).ok()?;
            let value = place.load(Ordering::Relaxed);
            state.store(0, Ordering::Release);
            Some(value)
        })
    }
}

fn signal_of(state: u32) -> c_int {
    (state & !FOR_PROCESS) as c_int - 1
}
