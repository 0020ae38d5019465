//! What becomes of a core whose thread blocks in the kernel.
//!
//! Without cooperation the core blocks with its thread: nobody told the user level. With it the thread leaves its core,
//! which goes on with the next one, and comes back as one that was submitted from outside: so do the activations of
//! `crates/raddle`, whose processor is taken over and whose thread waits for its turn when it returns.

use super::{After, Pool, Record, here, runtime};
use crate::execution::{now, start, work};
use crate::machine::Controlled;
use crate::virtual_time::KERNEL;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::{Policy, Ready, Thread};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a kernel does with the processor of a thread that blocks in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blocking {
    /// The processor is lost until the thread returns.
    Loses,
    /// It goes on with another thread. The kernel's part costs so many nanoseconds when the thread blocks, and when it
    /// has returned and runs again.
    GoesOn {
        /// Each time.
        notice: u64,
    },
}

/// The threads of a pool that are blocked in the kernel.
pub(super) struct Blocked {
    way: Cell<Blocking>,
    /// By the time of their return, and the order of their coming.
    threads: RefCell<BTreeMap<(u64, u64), Record>>,
    came: Cell<u64>,
    /// Changes with each thread that comes, and at the end.
    news: <Controlled as Machine>::Atomic<u32>,
    alone: <Controlled as Machine>::Atomic<u32>,
}

impl Blocked {
    pub fn new() -> Self {
        Self {
            way: Cell::new(Blocking::Loses),
            threads: RefCell::default(),
            came: Cell::new(0),
            news: Atomic::new(0),
            alone: Atomic::new(0),
        }
    }

    /// A thread has left its core, to return then.
    pub fn push(&self, until: u64, record: Record) {
        let number = self.came.get();
        self.came.set(number + 1);
        self.threads.borrow_mut().insert((until, number), record);
        self.tell();
    }

    /// True if the kernel waits for threads.
    pub fn is_used(&self) -> bool {
        self.way.get() != Blocking::Loses
    }

    /// Something has changed.
    pub fn tell(&self) {
        self.news.fetch_add(1, Ordering::AcqRel);
        Controlled::wake(&self.news, 1);
    }

    /// What the kernel takes from a core for a thread that blocks, or is back.
    pub fn notice(&self) {
        if let Blocking::GoesOn { notice: notice @ 1.. } = self.way.get() {
            work(notice);
        }
    }

    fn due(&self) -> Result<Record, Option<u64>> {
        let mut threads = self.threads.borrow_mut();
        let Some(first) = threads.first_entry() else { return Err(None) };
        let until = first.key().0;
        if until <= now() { Ok(first.remove()) } else { Err(Some(until)) }
    }
}

/// Says what becomes of the pool's cores whose threads block; in the setup, once.
pub fn blocks_by(pool: &Rc<Pool>, way: Blocking) {
    pool.blocked.way.set(way);
    if way == Blocking::Loses {
        return;
    }
    let pool = pool.clone();
    start(KERNEL, move || {
        loop {
            let seen = pool.blocked.news.load(Ordering::Acquire);
            match pool.blocked.due() {
                Ok(record) => {
                    // SAFETY: records live until the pool's end; the thread left its core for this list, which gave it
                    // out just now: its token is made once.
                    let ready = unsafe {
                        record.as_ref().state.borrow_mut().ready_at = now();
                        Ready::new(record.cast::<Thread<Controlled>>())
                    };
                    let whom = pool.policy.submit(ready);
                    pool.idle.tell(whom);
                }
                Err(_) if pool.left() == 0 => break,
                Err(until) => Controlled::wait(&pool.blocked.news, seen, until),
            }
        }
    });
}

/// The calling thread blocks in the kernel for so many nanoseconds.
pub fn block(nanoseconds: u64) {
    let pool = here();
    let until = now() + nanoseconds;
    match pool.blocked.way.get() {
        Blocking::Loses => {
            // Nobody wakes it before.
            while now() < until {
                Controlled::wait(&pool.blocked.alone, 0, Some(until));
            }
        }
        Blocking::GoesOn { .. } => {
            drop(pool);
            runtime::leave(After::Block(until));
            here().blocked.notice();
        }
    }
}
