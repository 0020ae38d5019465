//! Whether a kernel thread stands by, and how it is told to: one word.
//!
//! Source: our own, after T. E. Anderson et al., "Scheduler Activations"
//! (1991), section 3.1.
//!
//! Roles: the *standby*, a kernel thread that looks for something to do when it is armed and sleeps when it found
//! nothing; *armers*, any number, who never wait; the *keeper*, one, who starts standbys and ends them.
//!
//! | state | set by | left by |
//! |---|---|---|
//! | `GONE` | the standby, ending | the keeper, who starts a kernel thread: [`Standby::begin`] |
//! | `ARMED` | an armer ([`Standby::arm`]), the keeper | the standby, having looked in vain: [`Standby::serve`] |
//! | `ASLEEP` | the standby | an armer, or the keeper |
//! | `ENDING` | the keeper ([`Standby::end`]) | the standby, or the keeper who wants it after all |
//!
//! Invariants:
//! - I1: the standby sleeps only while the word says `ASLEEP`, and whoever changes that rings. So no arming and no end
//!   is slept through.
//! - I2: only the standby makes the word `GONE`, as its last step. So there is one kernel thread at most.
//!
//! All accesses are Relaxed: the word carries no data. What a standby looks at is protected by itself
//! ([`crate::takeover`]), and one that is armed while it looks may miss what the armer saw: it is armed again at the
//! next occasion.
//!
//! Progress: wait-free but for [`Standby::serve`], which waits. No memory is reclaimed.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::standby::{Begin, Standby};
//! let standby = Standby::<Real>::new();
//! assert_eq!(standby.begin(), Begin::Start);
//! let mut looks = 0;
//! // Looks once, in vain, and ends before it would sleep.
//! standby.serve(|| {
//!     looks += 1;
//!     standby.end();
//!     false
//! });
//! assert_eq!((looks, standby.begin()), (1, Begin::Start));
//! ```

use raddle_machine::{Atomic, Machine, Ordering};

const GONE: u32 = 0;
const ARMED: u32 = 1;
const ASLEEP: u32 = 2;
const ENDING: u32 = 3;

/// The word of a standby.
pub struct Standby<M: Machine> {
    state: M::Atomic<u32>,
}

/// What the keeper is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Start a kernel thread that calls [`Standby::serve`].
    Start,
    /// One that was about to end goes on.
    GoesOn,
    /// It serves already.
    Serves,
}

impl<M: Machine> Default for Standby<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Machine> Standby<M> {
    /// Without a kernel thread.
    pub fn new() -> Self {
        Self { state: M::Atomic::new(GONE) }
    }

    fn change(&self, from: u32, to: u32) -> bool {
        // Relaxed: the word carries no data.
        self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// For an armer: it is to look, if it sleeps.
    pub fn arm(&self) {
        if self.change(ASLEEP, ARMED) {
            M::wake(&self.state, 1);
        }
    }

    /// For the keeper: it is to serve.
    pub fn begin(&self) -> Begin {
        if self.change(GONE, ARMED) {
            Begin::Start
        } else if self.change(ENDING, ARMED) {
            Begin::GoesOn
        } else if self.change(GONE, ARMED) {
            // It ended between the two.
            Begin::Start
        } else {
            Begin::Serves
        }
    }

    /// For the keeper: whether it serves, armed or asleep.
    pub fn serves(&self) -> bool {
        // Relaxed: only the keeper changes what this asks about, but for the end that it has wished for.
        matches!(self.state.load(Ordering::Relaxed), ARMED | ASLEEP)
    }

    /// Whether its kernel thread sleeps, as it does until somebody arms it.
    pub fn is_asleep(&self) -> bool {
        // Relaxed: a word that changes meanwhile is one that somebody else has changed, who is awake.
        self.state.load(Ordering::Relaxed) == ASLEEP
    }

    /// For the keeper, when no kernel thread could be started: it does not serve.
    pub fn was_refused(&self) {
        // Relaxed: the word carries no data.
        self.state.store(GONE, Ordering::Relaxed);
    }

    /// For the keeper: it is to end.
    pub fn end(&self) {
        // Between a failure and the next try it may have fallen asleep, or been armed once; it does not fall asleep
        // again unlooked.
        loop {
            if self.change(ARMED, ENDING) {
                return;
            }
            if self.change(ASLEEP, ENDING) {
                M::wake(&self.state, 1);
                return;
            }
            // Relaxed: the word carries no data.
            if !matches!(self.state.load(Ordering::Relaxed), ARMED | ASLEEP) {
                return;
            }
        }
    }

    /// The life of the standby's kernel thread: calls `look` whenever it is armed, and again while that finds
    /// something.
    pub fn serve(&self, mut look: impl FnMut() -> bool) {
        loop {
            // Relaxed: the word carries no data.
            match self.state.load(Ordering::Relaxed) {
                ARMED => {
                    if !look() {
                        // Unless it is to end.
                        self.change(ARMED, ASLEEP);
                    }
                }
                ENDING => {
                    if self.change(ENDING, GONE) {
                        return;
                    }
                }
                asleep => M::wait(&self.state, asleep, None),
            }
        }
    }
}
