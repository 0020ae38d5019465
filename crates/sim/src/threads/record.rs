//! A simulated thread's record: what a descriptor is in `crates/raddle`, with the same word that says whether somebody
//! waits for its end.
//!
//! | join word | set by | meaning |
//! |---|---|---|
//! | `RUNNING` | the spawn | a handle exists, nobody waits |
//! | `WAITING`, epoch | who joins, from `RUNNING` | the joiner is noted beside it |
//! | `DETACHED` | the spawn | nobody will wait: the end frees the record |
//! | `EXITED` | the end | who joins frees the record |

use super::{After, Body, Simulated};
use crate::coroutine::Coroutine;
use crate::machine::Controlled;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::runtime::wait_until;
use raddle_scheduler::{Claim, Epoch, Thread, Wake};
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

pub(super) const RUNNING: u64 = 0;
pub(super) const WAITING: u64 = 1;
pub(super) const DETACHED: u64 = 2;
pub(super) const EXITED: u64 = 3;
const KIND_BITS: u32 = 2;

/// Records that a core keeps for the threads it makes next are given to the others, and taken from them, by so many at
/// once, as the slab of descriptors does.
const BATCH: usize = 64;

pub(super) struct State {
    pub body: Option<Body>,
    pub coroutine: Option<Coroutine>,
    pub after: After,
    /// The core that made it, or ran it last.
    pub last: usize,
    pub spawned_at: u64,
    pub ready_at: u64,
    pub panic: Option<Box<dyn std::any::Any + Send>>,
}

#[repr(C)]
pub(super) struct Full {
    pub thread: Thread<Controlled>,
    join: <Controlled as Machine>::Atomic<u64>,
    /// Who waits; in `crates/raddle` a part of the join word.
    joiner: Cell<Option<Record>>,
    pub state: RefCell<State>,
}

pub(super) type Record = NonNull<Full>;

impl Full {
    /// A new record, which lives until it is given to [`release`].
    pub fn leak(state: State, join: u64) -> Record {
        // SAFETY: every record of this runtime is the first field of a `Full`, which lives until the pool's end.
        let thread = unsafe { Thread::new(0, 0) };
        let join = <Controlled as Machine>::Atomic::<u64>::new(join);
        let full = Full { thread, join, joiner: Cell::new(None), state: RefCell::new(state) };
        let record = NonNull::from(Box::leak(Box::new(full)));
        // For `make_ready`, which is given a part of it.
        record.as_ptr().expose_provenance();
        record
    }

    /// Makes a used one ready for its next thread.
    pub fn again(&self, state: State, join: u64) {
        self.thread.recycle(0);
        self.join.store(join, Ordering::Relaxed);
        *self.state.borrow_mut() = state;
    }

    /// The thread has ended: what the join word said, and who is to be made ready.
    pub fn exited(&self) -> (u64, Option<Record>) {
        // AcqRel, as in `crates/raddle`. With this step a joiner may free the record: nothing of it is used after the
        // next line.
        let before = self.join.swap(EXITED, Ordering::AcqRel);
        let Some(joiner) = self.joiner.take().filter(|_| before & ((1 << KIND_BITS) - 1) == WAITING) else {
            return (before, None);
        };
        // SAFETY: records live until the pool's end.
        let thread = unsafe { &joiner.as_ref().thread };
        let epoch = Epoch::from_bits(before >> KIND_BITS);
        let won = thread.current_wait() == Some(epoch) && thread.claim(epoch, Wake::Signalled) == Claim::WonParked;
        (before, won.then_some(joiner))
    }

    /// Waits for the thread's end.
    pub fn wait(&self) {
        let exited = || self.join.load(Ordering::Acquire) == EXITED;
        while !exited() {
            let publish = |me: &'static Thread<Controlled>, epoch: Epoch| {
                self.joiner.set(Some(NonNull::from(me).cast()));
                let waiting = epoch.to_bits() << KIND_BITS | WAITING;
                let word = self.join.load(Ordering::Relaxed);
                if word != EXITED {
                    // It fails when the thread ends meanwhile.
                    let _ = self.join.compare_exchange(word, waiting, Ordering::AcqRel, Ordering::Relaxed);
                }
            };
            // SAFETY: the end claims the wait that it finds in the join word.
            unsafe { wait_until::<Simulated>(None, false, publish, exited) };
        }
    }
}

/// # Safety
/// The record came from [`Full::leak`], once, and nobody refers to it any more.
pub(super) unsafe fn release(record: Record) {
    // SAFETY: leaked by `Full::leak` as a box, given back once, and nobody refers to it.
    drop(unsafe { Box::from_raw(record.as_ptr()) });
}

/// Records without a thread: a core's own, and those of all.
#[derive(Default)]
pub(super) struct Free {
    own: Vec<Vec<Record>>,
    depot: Vec<Record>,
}

impl Free {
    pub fn new(cores: usize) -> Self {
        Self { own: vec![Vec::new(); cores], depot: Vec::new() }
    }

    pub fn take(&mut self, core: usize) -> Option<Record> {
        let own = &mut self.own[core];
        if own.is_empty() {
            own.extend(self.depot.drain(self.depot.len().saturating_sub(BATCH)..));
        }
        own.pop()
    }

    pub fn give(&mut self, core: usize, record: Record) {
        let own = &mut self.own[core];
        if own.len() >= 2 * BATCH {
            self.depot.extend(own.drain(..BATCH));
        }
        own.push(record);
    }
}
