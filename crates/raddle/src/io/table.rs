//! Who waits for which descriptor: an entry for each descriptor number.
//!
//! The entries lie in zero pages that are touched as numbers come into use: 16 bytes each, 16 MiB of address space together.
//! A number beyond the table is not waited for here ([`Failure::Unsupported`](super::Failure)); the kernel gives out as many only
//! where `fs.nr_open` was raised.
//!
//! Each direction has a wait list of its own. Waiters publish `(thread, epoch)`, then arm the poller, then sleep; who learns of an
//! event pops until a claim succeeds.

use super::Interest;
use crate::Host;
use raddle_machine::Real;
use raddle_queues::wait_list::WaitList;
use raddle_scheduler::{Claim, Epoch, Runtime, Thread, Wake};
use std::sync::atomic::{AtomicU32, Ordering};

/// Descriptor numbers that can be waited for: the kernel's default bound.
const NUMBERS: usize = 1 << 20;

struct Entry {
    readers: WaitList<Real>,
    writers: WaitList<Real>,
    /// How often the program has closed a descriptor of this number.
    life: AtomicU32,
}

static TABLE: [Entry; NUMBERS] =
    [const { Entry { readers: WaitList::new(), writers: WaitList::new(), life: AtomicU32::new(0) } }; NUMBERS];

/// One more than the highest number that was waited for.
static HIGHEST: AtomicU32 = AtomicU32::new(0);

fn entry(descriptor: i32) -> Option<&'static Entry> {
    TABLE.get(usize::try_from(descriptor).ok()?)
}

fn list(descriptor: i32, interest: Interest) -> Option<&'static WaitList<Real>> {
    let entry = entry(descriptor)?;
    Some(match interest {
        Interest::Read => &entry.readers,
        Interest::Write => &entry.writers,
    })
}

/// # Safety
/// `word` is a thread's word out of a list of the table.
unsafe fn thread_of(word: usize) -> &'static Thread<Real> {
    // SAFETY: only `publish` pushes, the address of a type-stable record.
    unsafe { &*std::ptr::with_exposed_provenance(word) }
}

/// Publishes a wait. False where there is no room for it: then the caller must not sleep.
#[must_use = "a wait that was not published will not be woken"]
pub(super) fn publish(descriptor: i32, interest: Interest, thread: &'static Thread<Real>, epoch: Epoch) -> bool {
    let word = std::ptr::from_ref(thread).expose_provenance();
    let Some(list) = list(descriptor, interest) else { return false };
    if descriptor as u32 >= HIGHEST.load(Ordering::Relaxed) {
        HIGHEST.fetch_max(descriptor as u32 + 1, Ordering::Relaxed);
    }
    list.push(Host::nodes(), word, epoch.to_bits())
}

/// A wait that was published here has ended otherwise.
pub(super) fn abandon(descriptor: i32, interest: Interest) {
    if let Some(list) = list(descriptor, interest) {
        list.abandon(Host::nodes(), |thread, epoch| {
            // SAFETY: a sweeper shows words of its own list only.
            unsafe { thread_of(thread) }.current_wait() == Some(Epoch::from_bits(epoch))
        });
    }
}

/// True while somebody may be waiting.
pub(super) fn is_awaited(descriptor: i32, interest: Interest) -> bool {
    list(descriptor, interest).is_some_and(|list| !list.queue().is_empty(Host::nodes()))
}

/// Wakes the first one that waits; if it is parked, it goes to `ready`. False if nobody waits.
pub(super) fn wake_one(descriptor: i32, interest: Interest, ready: &mut dyn FnMut(&'static Thread<Real>)) -> bool {
    let Some(list) = list(descriptor, interest) else { return false };
    let queue = list.queue();
    while let Some((thread, epoch)) = queue.pop(Host::nodes()) {
        // SAFETY: popped from a list of the table.
        let thread = unsafe { thread_of(thread) };
        match thread.claim(Epoch::from_bits(epoch), Wake::Signalled) {
            Claim::Lost => {}
            Claim::WonArming => return true,
            Claim::WonParked => {
                ready(thread);
                return true;
            }
        }
    }
    false
}

/// Wakes all that wait for a direction.
pub(super) fn wake_all(descriptor: i32, interest: Interest) {
    // SAFETY: the claim of each was won by `wake_one`, which shows it once.
    while wake_one(descriptor, interest, &mut |thread| unsafe { Host::make_ready(thread) }) {}
}

/// Wakes all that wait for either direction.
fn wake_both(descriptor: i32) {
    wake_all(descriptor, Interest::Read);
    wake_all(descriptor, Interest::Write);
}

/// Entries that were ever used.
fn used() -> &'static [Entry] {
    &TABLE[..HIGHEST.load(Ordering::Relaxed) as usize]
}

/// True while somebody may be waiting for some descriptor.
pub(crate) fn is_any_awaited() -> bool {
    let waits = |list: &WaitList<Real>| !list.queue().is_empty(Host::nodes());
    used().iter().any(|entry| waits(&entry.readers) || waits(&entry.writers))
}

/// As [`end_life`], for all descriptors from `first` to `last`.
pub(super) fn end_lives<T>(first: u32, last: u32, close: impl FnOnce() -> T) -> T {
    let end = used().len().min((last as usize).saturating_add(1));
    let ending = first as usize..end.max(first as usize);
    for number in ending.clone() {
        // Release: pairs with the load in `life`.
        TABLE[number].life.fetch_add(1, Ordering::Release);
    }
    let result = close();
    ending.for_each(|number| wake_both(number as i32));
    result
}

/// Wakes all that wait for any descriptor.
pub(super) fn wake_everybody() {
    for number in 0..used().len() {
        wake_both(number as i32);
    }
}

/// Forgets all waiters: in the child of a fork, where there are none.
pub(super) fn forget() {
    for entry in used() {
        for list in [&entry.readers, &entry.writers] {
            while list.queue().pop(Host::nodes()).is_some() {}
        }
    }
}

/// Which of its lives a descriptor number is in. It changes when the program closes the descriptor.
pub(super) fn life(descriptor: i32) -> u32 {
    // Acquire: pairs with the increment in `end_life`.
    entry(descriptor).map_or(0, |entry| entry.life.load(Ordering::Acquire))
}

/// Runs `close`, by which the program closes the descriptor: whoever waits wakes up afterwards, and finds the life changed. Who begins
/// to wait after it, for what has got the number next, finds the new life only.
pub(super) fn end_life<T>(descriptor: i32, close: impl FnOnce() -> T) -> T {
    let Some(entry) = entry(descriptor) else { return close() };
    // A descriptor that nobody ever waited for keeps its page untouched.
    let is_used = || !entry.readers.queue().is_none() || !entry.writers.queue().is_none();
    if is_used() {
        // Release: pairs with the load in `life`.
        entry.life.fetch_add(1, Ordering::Release);
    }
    let result = close();
    // Events: C the close, P the pops here; W a waiter publishes, A it arms the poller. Forbidden: P misses W, and A meets a
    // descriptor that is open and of the old life. If A came before C in the kernel, whose lock orders them, W came before P.
    if is_used() {
        wake_both(descriptor);
    }
    result
}
