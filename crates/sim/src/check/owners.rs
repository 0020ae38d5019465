//! Which coroutine carries which processor, where a scenario has a spare that takes processors: the library's own
//! takeover ([`raddle_scheduler::takeover`]), with a watch on what the next owner knows.
//!
//! A thread's computing is outside the mark, all else is inside, as in the library. Without a spare nothing here is a
//! step.

use crate::clock::Clock;
use crate::execution::{current, is_after, stamp};
use crate::machine::Controlled;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::takeover::{ActivationId, Mark, Ownership, Take};
use std::cell::{Cell, RefCell};

/// Who carries what.
pub(super) struct Owners {
    owners: Vec<Ownership<Controlled>>,
    marks: Vec<Mark<Controlled>>,
    /// Per coroutine.
    carried: Vec<Cell<Option<usize>>>,
    /// What the last owner of each processor had done when it left it.
    left: Vec<RefCell<Clock>>,
    /// How often the spare has set a processor free.
    freed: <Controlled as Machine>::Atomic<u32>,
    /// There is a spare: the coroutine after the processors'.
    spare: bool,
}

fn id(core: usize) -> ActivationId {
    core as ActivationId + 1
}

impl Owners {
    /// Coroutine `n` carries processor `n`.
    pub fn new(processors: usize, spare: bool) -> Self {
        let marks: Vec<Mark<Controlled>> = (0..=processors).map(|_| Mark::new()).collect();
        Self {
            // Each begins inside its mark.
            owners: (0..processors)
                .map(|processor| {
                    let owner = Ownership::new(id(processor));
                    owner.enter(id(processor), &marks[processor]);
                    owner
                })
                .collect(),
            carried: (0..=processors).map(|core| Cell::new((core < processors).then_some(core))).collect(),
            marks,
            left: (0..processors).map(|_| RefCell::default()).collect(),
            freed: Atomic::new(0),
            spare,
        }
    }

    /// The processor that the caller carries.
    pub fn mine(&self) -> Option<usize> {
        self.carried.get(current()?)?.get()
    }

    /// True if the caller carries it.
    pub fn carries(&self, processor: usize) -> bool {
        self.mine() == Some(processor)
    }

    /// True if the caller is the first carrier of a processor that a spare may take.
    pub fn is_first(&self, me: usize) -> bool {
        self.spare && current() == Some(me)
    }

    /// The caller, which carries processor `me`, computes outside its mark. True if the processor is still its own.
    pub fn outside(&self, me: usize, compute: impl FnOnce()) -> bool {
        let Some(core) = current().filter(|_| self.spare) else {
            compute();
            return true;
        };
        *self.left[me].borrow_mut() = stamp();
        self.marks[core].leave();
        compute();
        let entered = self.owners[me].enter(id(core), &self.marks[core]);
        self.entered(me, core, entered || self.owners[me].adopt(id(core), &self.marks[core]))
    }

    fn entered(&self, me: usize, core: usize, entered: bool) -> bool {
        self.carried[core].set(entered.then_some(me));
        if entered {
            assert!(
                is_after(&self.left[me].borrow()),
                "processor {me} is entered without knowledge of what its last owner did"
            );
        }
        entered
    }

    /// The caller has lost its processor and waits until it is free again, or it is over.
    pub fn regain(&self, me: usize, over: impl Fn() -> bool) -> bool {
        let Some(core) = current() else { return false };
        loop {
            let freed = self.freed.load(Ordering::Acquire);
            if over() {
                return false;
            }
            if self.owners[me].adopt(id(core), &self.marks[core]) {
                return self.entered(me, core, true);
            }
            Controlled::wait(&self.freed, freed, None);
        }
    }

    /// The caller, which carries nothing, takes processor `me` if nobody carries that.
    pub fn adopt(&self, me: usize) -> bool {
        let Some(core) = current() else { return false };
        self.owners[me].adopt(id(core), &self.marks[core]) && self.entered(me, core, true)
    }

    /// The spare, which is the caller, tries to take processor `me` from its first carrier.
    pub fn take(&self, me: usize) -> Take {
        let Some(core) = current() else { return Take::Lost };
        let taken = self.owners[me].take(id(core), id(me), &self.marks[me]);
        if taken == Take::Taken {
            let entered = self.owners[me].enter(id(core), &self.marks[core]);
            assert!(self.entered(me, core, entered), "processor {me} was taken, and is not the spare's");
        }
        taken
    }

    /// The caller passes its processor on to coroutine `to`, which waits for it outside its mark.
    pub fn pass(&self, me: usize, to: usize) {
        let Some(core) = current() else { return };
        *self.left[me].borrow_mut() = stamp();
        self.carried[core].set(None);
        self.owners[me].pass(id(core), id(to), &self.marks[core]);
    }

    /// The caller goes on with processor `me`, which it was passed. False if it has been taken meanwhile.
    pub fn receive(&self, me: usize) -> bool {
        let Some(core) = current() else { return false };
        let entered = self.owners[me].enter(id(core), &self.marks[core]);
        self.entered(me, core, entered)
    }

    /// The caller sets its processor free.
    pub fn release(&self, me: usize) {
        let Some(core) = current() else { return };
        *self.left[me].borrow_mut() = stamp();
        self.carried[core].set(None);
        self.owners[me].release(id(core), &self.marks[core]);
        self.ring();
    }

    /// True, after a run, if a processor that the spare has set free is still its own.
    pub fn kept(&self) -> bool {
        let spare = self.carried.len() - 1;
        self.carried[spare].get().is_none() && self.owners.iter().any(|owner| owner.owner() == id(spare))
    }

    /// Wakes whoever waits for a processor.
    pub fn ring(&self) {
        if self.spare {
            self.freed.fetch_add(1, Ordering::Release);
            Controlled::wake(&self.freed, u32::MAX);
        }
    }
}
