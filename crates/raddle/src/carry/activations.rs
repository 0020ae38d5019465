//! The records of all activations of the process.
//!
//! A record belongs to its index for ever: it is made when the index is first needed, used by one kernel thread after
//! the other, and never freed, since others may still look at the mark of one that has ended. So there are as many as
//! were ever alive at once.

use crate::carry::activation::Activation;
use crate::carry::processor::Processor;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Kernel threads that a process may have as activations, over all its pools, spares and those of dedicated threads
/// ([`crate::carry::dedicated`]) included: as many as kernels allow by default.
pub(crate) const MAX_ACTIVATIONS: usize = 1 << 15;

/// Index 0 is nobody.
static RECORDS: [AtomicPtr<Activation>; MAX_ACTIVATIONS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_ACTIVATIONS];
/// All indices that were ever used are below.
static BOUND: AtomicU32 = AtomicU32::new(1);

fn record(id: u32) -> Option<&'static Activation> {
    // SAFETY: null, or a record, which are never freed.
    unsafe { RECORDS.get(id as usize)?.load(Ordering::Acquire).as_ref() }
}

/// A record for a kernel thread that is about to start, with `processor` as its first order. `None` when all are in
/// use.
pub(crate) fn claim(processor: Option<&'static Processor>) -> Option<&'static Activation> {
    let record = (1..MAX_ACTIVATIONS as u32).find_map(|id| record(id).map_or_else(|| make(id), Activation::claim))?;
    BOUND.fetch_max(record.id + 1, Ordering::Relaxed);
    record.prepare(processor);
    Some(record)
}

/// The record of an index that has none; `None` if somebody else was faster.
fn make(id: u32) -> Option<&'static Activation> {
    let made = Box::into_raw(Box::new(Activation::new(id)));
    let none = std::ptr::null_mut();
    if RECORDS[id as usize].compare_exchange(none, made, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        // SAFETY: just leaked, and never freed.
        return Some(unsafe { &*made });
    }
    // SAFETY: made above and shown to nobody.
    drop(unsafe { Box::from_raw(made) });
    None
}

/// The activation of that index, if it lives.
pub(crate) fn find(id: u32) -> Option<&'static Activation> {
    record(id).filter(|activation| activation.is_in_use())
}

/// All activations that live.
pub(crate) fn all() -> impl Iterator<Item = &'static Activation> {
    (1..BOUND.load(Ordering::Relaxed)).filter_map(find)
}

/// All records that were ever used, of activations that live and that have ended.
pub(crate) fn ever() -> impl Iterator<Item = &'static Activation> {
    (1..BOUND.load(Ordering::Relaxed)).filter_map(record)
}

/// In the child of a fork no activation is left. Their records are not used again: others may have left things half
/// done in them.
pub(crate) fn forget() {
    for slot in &RECORDS[..BOUND.load(Ordering::Relaxed) as usize] {
        slot.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
    BOUND.store(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_serves_again_under_its_index() {
        let first = claim(None).unwrap();
        let second = claim(None).unwrap();
        assert!(first.id != second.id && find(first.id).is_some());
        first.give_back();
        // Another test may be faster; the index's record is the same all the same.
        assert!(std::ptr::eq(record(first.id).unwrap(), first));
        second.give_back();
        for _ in 0..10_000 {
            claim(None).expect("records are used again").give_back();
        }
    }
}
