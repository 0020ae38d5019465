//! Threads that wait for each other's mutexes in a circle, while others go on: a dead-lock that does not stop the
//! program, so that nobody sees it.
//!
//! A lock costs nothing for it. A thread that is about to wait for a mutex says so by one flag ([`WAITED`]); within
//! half a second the monitor walks over the threads, [`THREADS_AT_ONCE`] at a look, and notes of each that is parked
//! for a mutex which one, and who holds it: the note that dumps show ([`crate::govern::dump`]), and the mutex's own
//! word. A circle that is there in two walks with no wait in it begun anew is one for ever, unless a thread of it is
//! cancelled, and is reported once.
//!
//! Whatever lies in the program's memory is read by the kernel ([`crate::os::peek`]): the thread may have gone on
//! meanwhile, and its stack and its mutex be gone. What was read counts only if the thread was in the same wait before
//! and after it.
//!
//! Bound: reported within about two seconds; with many threads [`THREADS_AT_ONCE`] more are walked over each half
//! second. Not seen: waits of kernel threads, of threads that are apart, with a deadline, and for other things than
//! mutexes. The holder of a pthread mutex is written by who locks it, after it is locked; one that is kept from its
//! core between the two for more than a second would be taken for the one before it.

use crate::carry::descriptor::{Descriptor, Info};
use crate::carry::note::{MUTEX, PTHREAD_MUTEX, WAITED, Waits};
use raddle_scheduler::Epoch;
use raddle_scheduler::words::mutex::LEFT;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// Threads walked over at a look of the monitor's.
const THREADS_AT_ONCE: usize = 512;
/// Walks after a thread has begun to wait: the first may come before it is parked, one more confirms. The last one
/// begins eight seconds after the first.
const WALKS: u32 = 6;
/// Nanoseconds between two such looks, at first.
const WALK_NS: u64 = 500_000_000;
/// Threads that wait for mutexes that one walk notes, at most.
const MOST_WAITERS: usize = 4096;
/// Bytes of a name that are shown.
const NAME_BYTES: usize = 256;
/// Circles that are remembered as reported.
const MOST_REPORTED: usize = 64;

/// Who holds a mutex, as its memory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// The address of a thread's record.
    Record(usize),
    /// A thread pointer.
    Pointer(usize),
}

impl Holder {
    /// Of what a thread waits for; `None` if that is no mutex, or nobody holds it.
    pub fn of(kind: &str, object: usize) -> Option<Holder> {
        match kind {
            MUTEX => raddle_scheduler::sync::mutex::holder_in(word(object)?).map(Holder::Record),
            PTHREAD_MUTEX => {
                // The lock's word, and where the drop-in library keeps the holder.
                let (held, holder) = (word(object)? as u32, word(object.checked_add(crate::carry::note::HOLDER_AT)?)?);
                (!matches!(held, 0 | LEFT) && holder != 0).then_some(Holder::Pointer(holder as usize))
            }
            _ => None,
        }
    }

    /// Its number in dumps and its name. Looks at all threads.
    pub fn describe(self) -> String {
        let is = |descriptor: &Descriptor| match self {
            Holder::Record(record) => std::ptr::from_ref(descriptor).addr() == record,
            // SAFETY: the words of a context are atomics that may be read at any time.
            Holder::Pointer(pointer) => unsafe { &*descriptor.context.get() }.fs() == pointer,
        };
        let mut threads = crate::carry::pool::descriptors().iterate();
        match (threads.find(|(_, descriptor)| descriptor.is_in_use() && is(descriptor)), self) {
            (Some((index, descriptor)), _) => format!("thread {index} {}", name_of(descriptor)),
            (None, Holder::Record(at)) => format!("the thread at {at:#x}"),
            (None, Holder::Pointer(pointer)) => format!("the kernel thread {pointer:#x}"),
        }
    }
}

/// A thread that is parked for a mutex.
#[derive(Clone, Copy)]
struct Waiter {
    descriptor: &'static Descriptor,
    index: u32,
    epoch: Epoch,
    pointer: usize,
    mutex: usize,
    holder: Holder,
}

impl Waiter {
    fn of(index: u32, descriptor: &'static Descriptor) -> Option<Waiter> {
        if !descriptor.is_in_use() || descriptor.thread.is_kernel_thread() {
            return None;
        }
        let epoch = descriptor.thread.current_wait()?;
        // SAFETY: the words of a context are atomics that may be read at any time.
        let pointer = unsafe { &*descriptor.context.get() }.fs();
        let Waits { kind, object: mutex } = Waits::of(pointer)?;
        let holder = Holder::of(kind, mutex)?;
        // The same wait as before: what was read was its own.
        (descriptor.thread.current_wait() == Some(epoch)).then_some(Waiter {
            descriptor,
            index,
            epoch,
            pointer,
            mutex,
            holder,
        })
    }

    /// It waits as it did, for the same one.
    fn still_waits(&self) -> bool {
        Waiter::of(self.index, self.descriptor).is_some_and(|now| now.edge() == self.edge())
    }

    fn edge(&self) -> (u32, u64, Holder) {
        (self.index, self.epoch.to_bits(), self.holder)
    }

    /// It counts if the thread [still waits](Waiter::still_waits) after it.
    fn name(&self) -> String {
        format!("thread {} {}", self.index, name_of(self.descriptor))
    }
}

/// A thread's name in quotation marks, read by the kernel: the thread may go on and end meanwhile, which frees it.
pub(crate) fn name_of(descriptor: &Descriptor) -> String {
    let info = word(descriptor.info_address()).filter(|info| *info != 0);
    let name = info.and_then(|info| {
        let [at, length] = Info::NAME.map(|offset| word((info as usize).checked_add(offset)?));
        let mut bytes = vec![0; (length? as usize).min(NAME_BYTES)];
        let at = at.filter(|at| *at != 0)?;
        crate::os::peek(at as usize, &mut bytes).then(|| String::from_utf8_lossy(&bytes).into_owned())
    });
    name.map_or_else(|| "<unnamed>".into(), |name| format!("{name:?}"))
}

fn word(address: usize) -> Option<u64> {
    let mut bytes = [0; 8];
    crate::os::peek(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
}

type Circle = Vec<Waiter>;

/// The circles among these waiters, each from its lowest index on.
fn circles(waiters: &[Waiter]) -> Vec<Circle> {
    let record = |waiter: &Waiter| Holder::Record(std::ptr::from_ref(waiter.descriptor).addr());
    let places = waiters.iter().enumerate();
    let places: HashMap<Holder, usize> =
        places.flat_map(|(place, w)| [(record(w), place), (Holder::Pointer(w.pointer), place)]).collect();
    let next = |place: usize| places.get(&waiters[place].holder).copied();
    // By which walk a waiter was come to; 0: none.
    let mut come_to = vec![0; waiters.len()];
    let mut found = Vec::new();
    for start in 0..waiters.len() {
        let mut at = Some(start);
        while let Some(place) = at.filter(|place| come_to[*place] == 0) {
            come_to[place] = start + 1;
            at = next(place);
        }
        let Some(first) = at.filter(|place| come_to[*place] == start + 1) else { continue };
        let mut circle = vec![waiters[first]];
        let mut place = next(first);
        while let Some(other) = place.filter(|place| *place != first) {
            circle.push(waiters[other]);
            place = next(other);
        }
        let lowest = (0..circle.len()).min_by_key(|at| circle[*at].index).unwrap_or(0);
        circle.rotate_left(lowest);
        found.push(circle);
    }
    found
}

fn edges(circle: &[Waiter]) -> Vec<(u32, u64, Holder)> {
    circle.iter().map(Waiter::edge).collect()
}

fn places(circle: &[Waiter]) -> Vec<(u32, usize)> {
    circle.iter().map(|waiter| (waiter.index, waiter.mutex)).collect()
}

/// The circle as a picture, a line for each thread. `None` if it is none any more.
fn draw(circle: &[Waiter]) -> Option<String> {
    let mut text = String::new();
    for (place, waiter) in circle.iter().enumerate() {
        let holder = &circle[(place + 1) % circle.len()];
        let arrow = if place == 0 { "┌>" } else { "│ " };
        let mutex = crate::os::name_of(waiter.mutex);
        let _ = writeln!(text, "  {arrow} {} waits for the mutex at {mutex}, held by {}", waiter.name(), holder.name());
    }
    text.push_str("  └─ and so on in a circle\n");
    circle.iter().all(Waiter::still_waits).then_some(text)
}

/// All threads that are parked for mutexes now.
fn all_waiters() -> Vec<Waiter> {
    let descriptors = crate::carry::pool::descriptors().iterate();
    descriptors.filter_map(|(index, descriptor)| Waiter::of(index, forever(descriptor))).take(MOST_WAITERS).collect()
}

fn forever(descriptor: &Descriptor) -> &'static Descriptor {
    // SAFETY: objects of the slab live for ever.
    unsafe { &*std::ptr::from_ref(descriptor) }
}

/// The circles there are, drawn, for dumps.
pub(crate) fn drawn() -> Vec<String> {
    circles(&all_waiters()).iter().filter_map(|circle| draw(circle)).collect()
}

/// The monitor's part.
#[derive(Default)]
pub(crate) struct CircleSearch {
    /// Walks that are due.
    due: u32,
    /// The first thread of the next slice.
    cursor: u32,
    next: u64,
    seen: Vec<Waiter>,
    /// Circles of the last walk.
    candidates: Vec<Vec<(u32, u64, Holder)>>,
    /// By threads and mutexes: a dump has each of them wait anew.
    reported: Vec<Vec<(u32, usize)>>,
}

impl CircleSearch {
    /// One look; until when the next one can wait at most, if one is due.
    /// `all_is_told`: a dead-lock of all threads was reported.
    pub fn walk(&mut self, now: u64, all_is_told: impl FnOnce() -> bool) -> Option<u64> {
        if WAITED.load(Ordering::Relaxed) {
            WAITED.store(false, Ordering::Relaxed);
            self.due = WALKS;
            self.next = self.next.max(now + WALK_NS);
        }
        if self.due == 0 {
            return None;
        }
        if now < self.next {
            return Some(self.next);
        }
        // Farther and farther off: for one that has said so and was kept from its core before it was parked.
        self.next = now + (WALK_NS << (WALKS - self.due).saturating_sub(2));
        self.slice(all_is_told);
        (self.due > 0).then_some(self.next)
    }

    fn slice(&mut self, all_is_told: impl FnOnce() -> bool) {
        let created = crate::carry::pool::descriptors().created();
        let end = created.min(self.cursor + THREADS_AT_ONCE as u32);
        for index in self.cursor..end {
            let waiter = crate::carry::pool::descriptors().get(index).and_then(|d| Waiter::of(index, forever(d)));
            if self.seen.len() < MOST_WAITERS {
                self.seen.extend(waiter);
            }
        }
        self.cursor = end;
        if end < created {
            return;
        }
        (self.cursor, self.due) = (0, self.due - 1);
        let circles = circles(&std::mem::take(&mut self.seen));
        if circles.is_empty() {
            self.candidates.clear();
            return;
        }
        let tells = !all_is_told();
        let before = std::mem::take(&mut self.candidates);
        // Whoever locks a plain mutex of POSIX's twice may count on another thread to unlock it, as a semaphore: no C
        // library minds.
        let ends_never = |circle: &Circle| circle.len() > 1 || matches!(circle[0].holder, Holder::Record(_));
        for circle in circles.into_iter().filter(ends_never) {
            let (edges, places) = (edges(&circle), places(&circle));
            if tells && before.contains(&edges) && !self.reported.contains(&places) && report(&circle) {
                self.reported.truncate(MOST_REPORTED - 1);
                self.reported.insert(0, places);
            } else {
                self.candidates.push(edges);
            }
        }
    }
}

/// True if it was one to the end.
fn report(circle: &[Waiter]) -> bool {
    let Some(text) = draw(circle) else { return false };
    crate::os::say(&format!(
        "raddle: dead-lock among {} thread{}, waiting for each other for ever; others may go on:\n{}",
        circle.len(),
        if circle.len() == 1 { "" } else { "s" },
        text.trim_end()
    ));
    true
}

/// In the child of a fork.
pub(crate) fn forget() {
    WAITED.store(false, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{Barrier, Mutex};
    use std::sync::Arc;

    #[test]
    fn a_circle_is_told_once_when_two_walks_have_seen_it_and_not_where_all_is_told() {
        let pool = crate::Builder::new().processors(2).build().unwrap();
        let locks = [(); 2].map(|()| Arc::new(Mutex::new(())));
        let both = Arc::new(Barrier::new(2));
        let threads = [0, 1].map(|me| {
            let (own, other, both) = (locks[me].clone(), locks[1 - me].clone(), both.clone());
            pool.spawn(move || {
                let _own = own.lock().unwrap();
                both.wait();
                drop(other.lock_cancellable());
            })
        });
        while circles(&all_waiters()).is_empty() {
            std::thread::yield_now();
        }
        let mut search = CircleSearch::default();
        let told = [false, true, false, false, false, false, false].map(|all_is_told| {
            search.due = 1;
            while search.due > 0 {
                search.slice(|| all_is_told);
            }
            search.reported.len()
        });
        threads.iter().for_each(crate::JoinHandle::cancel);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(told, [0, 0, 1, 1, 1, 1, 1]);
    }
}
