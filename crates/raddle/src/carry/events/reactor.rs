//! The kernel's side: two sets of interests, and their events. Who fetches them and when is in [`super::watch`].
//!
//! Readers and writers have an epoll set each, so that arming one direction never touches the other's mask: every
//! registration has the same mask for ever, and arming is one idempotent system call without a word of ours to keep in
//! step. The writers' set lies in the readers' one, so one wait sees both.
//!
//! A registration gives an event for each change (EPOLLET), and stays. Arming it makes the kernel look at the
//! descriptor's state, and give an event if there is something. A wait arms after it was published, so no event falls
//! between; it need not where the table says that the kernel knows this descriptor, since events are counted and the
//! wait has seen none since its last attempt. A number that was closed and given out again behind our back is a
//! registration that the kernel does not know (ENOENT): it is put in anew. What a former owner of the number still
//! gives are spurious wake-ups.
//!
//! Should the program close the sets themselves (it may close all numbers that it does not know), the next one to arm
//! finds out, makes new ones and wakes everybody to arm again.

use super::table;
use super::{Failure, Interest};
use crate::os::events::{
    CHANGES, EBADF, EEXIST, EINTR, EINVAL, ENDED, ENOENT, EPERM, Event, NO_EVENT, ONCE, READABLE, WRITABLE,
    always_readable, close, is_open, poller, poller_wait, unwatch, watch,
};
use raddle_machine::Real;
use raddle_queues::pad::Padded;
use raddle_scheduler::Thread;
use std::sync::atomic::{AtomicU64, Ordering};

/// The three descriptors of [`Sets`], each plus one; 0: there are none yet.
static SETS: AtomicU64 = AtomicU64::new(0);

const FIELD: u32 = 21;

/// The word of the writers' set among the readers' events; descriptors are below.
const WRITERS: u64 = u64::MAX;
/// The word of the alarm.
const ALARM: u64 = u64::MAX - 1;
/// Events fetched at once: they lie on the stack of whoever looks.
const BATCH: usize = 64;
/// Written at each look: away from what every wait reads.
static EVENTS: Padded<AtomicU64> = Padded(AtomicU64::new(0));

/// How many were fetched since the process began.
pub(crate) fn events() -> u64 {
    EVENTS.load(Ordering::Relaxed)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sets {
    readers: i32,
    writers: i32,
    /// Something that can always be read, and is armed when whoever waits for the readers' set is to return. (Arming
    /// the wrong descriptor, should the program have closed it, does no harm; writing to it would.)
    alarm: i32,
}

impl Sets {
    pub fn current() -> Option<Self> {
        // Acquire: pairs with the exchange in `make`.
        let word = SETS.load(Ordering::Acquire);
        let field = |index: u32| ((word >> (index * FIELD)) & ((1 << FIELD) - 1)) as i32 - 1;
        (word != 0).then(|| Self { readers: field(0), writers: field(1), alarm: field(2) })
    }

    fn all(self) -> [i32; 3] {
        [self.readers, self.writers, self.alarm]
    }

    fn word(self) -> u64 {
        self.all().iter().rev().fold(0, |word, descriptor| word << FIELD | (descriptor + 1) as u64)
    }

    /// Sets that nobody knows.
    pub fn open() -> Result<Self, Failure> {
        let sets = Self { readers: poller(), writers: poller(), alarm: always_readable() };
        let usable = sets.all().iter().all(|descriptor| (0..(1 << FIELD) - 1).contains(descriptor))
            && watch(sets.readers, true, sets.writers, READABLE, WRITERS) == 0
            && watch(sets.readers, true, sets.alarm, ONCE, ALARM) == 0;
        if usable {
            return Ok(sets);
        }
        sets.close();
        Err(Failure::Unsupported)
    }

    /// New sets, in the place of `old`; what somebody else has put there meanwhile if they were faster.
    #[cold]
    fn make(old: Option<Self>) -> Result<Self, Failure> {
        let sets = Self::open()?;
        let before = old.map_or(0, Self::word);
        if let Err(theirs) = SETS.compare_exchange(before, sets.word(), Ordering::AcqRel, Ordering::Acquire) {
            sets.close();
            return Self::current().filter(|now| now.word() == theirs).ok_or(Failure::Unsupported);
        }
        if old.is_some() {
            table::wake_everybody();
        }
        Ok(sets)
    }

    pub fn close(self) {
        self.all().into_iter().filter(|descriptor| *descriptor >= 0).for_each(close);
    }

    /// Makes whoever waits for events return.
    pub fn raise_alarm(self) {
        // It fails only when the program has closed the sets; who waits then looks again within a second.
        watch(self.readers, false, self.alarm, READABLE | ONCE, ALARM);
    }
}

/// Events that were fetched and not yet delivered.
pub(crate) struct Batch {
    events: [Event; BATCH],
    count: usize,
    /// The alarm was among them.
    pub alarm: bool,
}

impl Batch {
    pub fn new() -> Self {
        Self { events: [NO_EVENT; BATCH], count: 0, alarm: false }
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Fetches what there is, waits at most so many nanoseconds for it. False where nothing could be waited for.
    pub fn fetch(&mut self, sets: Sets, nanoseconds: u64) -> bool {
        let count = poller_wait(sets.readers, &mut self.events, nanoseconds);
        self.count = count.max(0) as usize;
        let words = self.events[..self.count].iter().map(|event| event.u64);
        self.alarm = words.clone().any(|word| word == ALARM);
        if self.alarm && self.count == 1 {
            self.count = 0;
        }
        count >= 0 || count == -EINTR
    }

    /// Wakes those whom the events concern; who was parked goes to `ready`.
    pub fn deliver(&mut self, sets: Sets, ready: &mut dyn FnMut(&'static Thread<Real>)) {
        let mut writers = false;
        let events = &self.events[..std::mem::take(&mut self.count)];
        EVENTS.fetch_add(events.len() as u64, Ordering::Relaxed);
        if events.len() > 1 {
            // Each event leads through half a dozen cache lines, one after the other: fetch them for all events at
            // once.
            for step in 0..=table::STEPS {
                events.iter().for_each(|event| table::approach(event.u64 as i32, step));
            }
        }
        for event in events {
            match event.u64 {
                WRITERS => writers = true,
                ALARM => {}
                descriptor => {
                    let ended = event.events & ENDED != 0;
                    table::happened(descriptor as i32, Interest::Read, ended, ready);
                }
            }
        }
        if writers {
            let count = poller_wait(sets.writers, &mut self.events, 0);
            for event in &self.events[..count.max(0) as usize] {
                table::happened(event.u64 as i32, Interest::Write, event.events & ENDED != 0, ready);
            }
        }
    }
}

/// Asks the kernel for the next event of that kind, and for one at once if there is something.
pub(crate) fn arm(descriptor: i32, interest: Interest) -> Result<(), Failure> {
    let mut sets = match Sets::current() {
        Some(sets) => sets,
        None => Sets::make(None)?,
    };
    let mut add = false;
    let life = table::life(descriptor);
    // Each turn but the first follows a change that somebody else made meanwhile; they can go on for ever only with
    // them.
    loop {
        let (set, events) = match interest {
            Interest::Read => (sets.readers, READABLE | CHANGES),
            Interest::Write => (sets.writers, WRITABLE | CHANGES),
        };
        match -watch(set, add, descriptor, events, descriptor as u64) {
            0 => {
                table::registered(descriptor, interest, life);
                return Ok(());
            }
            ENOENT => add = true,
            EEXIST => add = false,
            EPERM => return Err(Failure::AlwaysReady),
            EBADF if !is_open(descriptor) => return Err(Failure::Closed),
            // The set is gone, or its number is something else's. (A set cannot watch itself either: then it is the
            // program's mistake that it asks for a number of ours, and not worth a new set.)
            EBADF | EINVAL if !sets.all().contains(&descriptor) => {
                sets = match Sets::current() {
                    Some(now) if now != sets => now,
                    _ => Sets::make(Some(sets))?,
                };
                add = false;
            }
            _ => return Err(Failure::Unsupported),
        }
    }
}

/// The kernel tells of that descriptor no more, until it is armed again. How many threads have waited for it.
pub(crate) fn disarm(descriptor: i32) -> usize {
    let Some(sets) = Sets::current().filter(|_| !is_ours(descriptor)) else { return 0 };
    table::unregister(descriptor, || {
        // What was not registered is an error that nobody minds.
        unwatch(sets.readers, descriptor);
        unwatch(sets.writers, descriptor);
    })
}

/// True for the numbers of our own descriptors.
pub(crate) fn is_ours(descriptor: i32) -> bool {
    Sets::current().is_some_and(|sets| sets.all().contains(&descriptor))
}

/// In the child of a fork: the sets are the parent's, and the poller has not come along.
pub(crate) fn forget() {
    if let Some(sets) = Sets::current() {
        SETS.store(0, Ordering::Relaxed);
        sets.close();
    }
    table::forget();
}
