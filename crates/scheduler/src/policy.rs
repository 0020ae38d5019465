//! What decides which ready thread a processor runs next.
//!
//! A [`Policy`] makes one [`Local`] per processor. A `Local` is owner-only: exactly one activation uses it at a time,
//! inside the takeover mark, so its methods take `&mut self` and need no atomics of their own; whatever others may take
//! from it (thieves, neighbours) lies in queues that the `Local`s share. A policy holds neither `unsafe` nor atomics:
//! it is made of queues and moves [`Ready`] tokens.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::{Cause, Policy, Ready, Thread};
//! let policy = policies::build::<Real>(&"lifo".parse().unwrap(), 1, std::sync::Arc::new(Busy)).unwrap();
//! let mut local = policy.local(0);
//! // SAFETY: a record that no runtime knows, leaked, and a token of it, which nobody else has.
//! let thread = unsafe { Ready::new(Box::leak(Box::new(Thread::<Real>::new(0, 0))).into()) };
//! local.push(thread, Cause::Spawned);
//! let next = local.next(u8::MAX).unwrap();
//! assert!(!local.has_work());
//! next.into_thread();
//! ```

use crate::ready::{Ready, Upcoming};
use crate::thread::Thread;
use raddle_machine::Machine;

/// Why a thread became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has just been created and has not started.
    Spawned,
    /// What it waited for happened.
    Woken,
    /// It offered its processor: it must not be selected again before the threads that were ready already.
    Yielded,
    /// It was submitted from outside the pool, or put back by a processor that stops.
    Submitted,
}

/// Whom a push concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a push that others can take from obliges the runtime to look for sleepers"]
pub enum Notify {
    /// Only this processor can take it.
    Nobody,
    /// Any processor can take it: wake one if none is searching.
    Anyone,
    /// That processor can take it: wake it if it sleeps.
    Processor(usize),
}

/// One processor's part of a policy. Owner-only.
pub trait Local<M: Machine>: Send {
    /// Takes a thread that became ready. Must keep it until [`Local::next`] (of whomever the policy lets take it)
    /// returns it.
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify;

    /// As [`Local::push`], told whether others are to find the thread: `tell` is false while none of them is idle, and
    /// while the thread is worth no wake-up. What others are not to find, a policy may hide until [`Local::publish`],
    /// if [`Local::hides`] says so; by default it makes no difference.
    #[inline]
    fn push_told(&mut self, thread: Ready<M>, cause: Cause, tell: bool) -> Notify {
        let _ = tell;
        self.push(thread, cause)
    }

    /// True if [`Local::push_told`] keeps what others are not to find from them, and tells nobody: then the runtime
    /// weighs a thread's wait here against a wake-up ([`crate::govern::handoff`]). The same at every call, and false
    /// where the policy tells priorities apart: who is ready at a high one must not wait for a running one of a low one
    /// beside an idle processor.
    fn hides(&self) -> bool {
        false
    }

    /// How many threads that have run are here and hidden, and could be found by others.
    fn hidden(&self) -> u64 {
        0
    }

    /// True while threads that have not started are hidden here: these are always worth a wake-up.
    fn hides_unstarted(&self) -> bool {
        false
    }

    /// The thread that the `n`-th selection from now will probably return, where many wait: to fetch it ahead.
    #[inline]
    fn upcoming(&self, n: u32) -> Option<Upcoming> {
        let _ = n;
        None
    }

    /// True while this processor itself has something to run (racy).
    fn has_own(&self) -> bool {
        self.has_work()
    }

    /// The next thread from what this processor has at hand, of priority `floor` or higher (numerically at most
    /// `floor`).
    fn next(&mut self, floor: u8) -> Option<Ready<M>>;

    /// Looks further: steals, takes from shared queues. Called when [`Local::next`] found nothing and before sleeping.
    fn search(&mut self) -> Option<Ready<M>>;

    /// True if [`Local::next`] or [`Local::search`] might find something (racy). Asked by the last searcher before it
    /// sleeps, after a heavy fence: a thread pushed before that with [`Notify::Anyone`] (or for this processor) must be
    /// seen.
    fn has_work(&self) -> bool;

    /// True if this processor holds threads that nobody else can take (racy from outside; exact for the owner).
    fn holds_private(&self) -> bool {
        false
    }

    /// True while threads have been pushed here that the policy has no room for: a thread that goes on making others
    /// ready should offer its processor first. (A push itself cannot be refused.)
    fn crowded(&self) -> bool {
        false
    }

    /// Takes the thread that was asked to offer its processor because of [`Local::crowded`], to return it when there is
    /// room. An error, with the thread, where that makes no difference: then it counts as one that yields.
    ///
    /// # Errors
    /// The policy does not hold it back.
    fn step_back(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        Err(thread)
    }

    /// The running thread waits for `thread`, which has not started: that one, if the next selection would be it
    /// without anything of others' being looked at. `None` by default: it is selected in its turn. Never asked of a
    /// policy of a program's own, which might answer with another one.
    #[inline(always)]
    fn next_is(&mut self, _thread: &'static Thread<M>) -> Option<Ready<M>> {
        None
    }

    /// The running thread ends, and another one waits for that: true if that one goes on here at once, which counts as
    /// a selection. False by default: it becomes ready as any other thread.
    #[inline(always)]
    fn hands_over(&mut self) -> bool {
        false
    }

    /// Takes a thread of processor `victim`, which stands still, although there are threads here, and perhaps more of
    /// them into this processor's queue: a processor that never runs dry never searches, and would leave to `victim`
    /// what anybody may take. `None` by default, which is right for a policy whose threads all processors come across
    /// by selecting.
    fn relieve(&mut self, _victim: usize) -> Option<Ready<M>> {
        None
    }

    /// Makes everything takeable by others that the policy can make so: called for a processor that is stuck or stops.
    fn publish(&mut self) -> Notify {
        Notify::Nobody
    }

    /// As [`Local::publish`], for a processor whose thread computes against what was expected: who has stepped back
    /// ([`Local::step_back`]) waits no longer for the threads that it spawned. [`Local::publish`] by default.
    fn expose(&mut self) -> Notify {
        self.publish()
    }

    /// Gives back all threads; the processor stops.
    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>));

    /// Steals tried and won so far (0, 0 where the policy never steals).
    fn steals(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// A part behind a box is a part.
impl<M: Machine, L: Local<M> + ?Sized> Local<M> for Box<L> {
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        (**self).push(thread, cause)
    }
    fn push_told(&mut self, thread: Ready<M>, cause: Cause, tell: bool) -> Notify {
        (**self).push_told(thread, cause, tell)
    }
    fn hides(&self) -> bool {
        (**self).hides()
    }
    fn hidden(&self) -> u64 {
        (**self).hidden()
    }
    fn hides_unstarted(&self) -> bool {
        (**self).hides_unstarted()
    }
    fn upcoming(&self, n: u32) -> Option<Upcoming> {
        (**self).upcoming(n)
    }
    fn has_own(&self) -> bool {
        (**self).has_own()
    }
    fn next(&mut self, floor: u8) -> Option<Ready<M>> {
        (**self).next(floor)
    }
    fn search(&mut self) -> Option<Ready<M>> {
        (**self).search()
    }
    fn has_work(&self) -> bool {
        (**self).has_work()
    }
    fn holds_private(&self) -> bool {
        (**self).holds_private()
    }
    fn crowded(&self) -> bool {
        (**self).crowded()
    }
    fn step_back(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        (**self).step_back(thread)
    }
    fn next_is(&mut self, thread: &'static Thread<M>) -> Option<Ready<M>> {
        (**self).next_is(thread)
    }
    fn hands_over(&mut self) -> bool {
        (**self).hands_over()
    }
    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        (**self).relieve(victim)
    }
    fn publish(&mut self) -> Notify {
        (**self).publish()
    }
    fn expose(&mut self) -> Notify {
        (**self).expose()
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        (**self).drain(out);
    }
    fn steals(&self) -> (u64, u64) {
        (**self).steals()
    }
}

/// The shared part of a policy: one per pool.
pub trait Policy<M: Machine>: Send + Sync {
    /// Makes the part of processor `index`; called once per index, before the pool runs.
    fn local(&self, index: usize) -> Box<dyn Local<M>>;

    /// Takes a thread from outside: the caller owns no processor of the pool (another kernel thread, a timer, a
    /// processor that stops and gives back what [`Local::drain`] returned).
    fn submit(&self, thread: Ready<M>) -> Notify;

    /// The expression that makes this policy.
    fn describe(&self) -> String;

    /// True if there is something that every processor could take (racy): what [`Local::has_work`] answers to one that
    /// holds nothing, under the same conditions.
    fn offers(&self) -> bool;

    /// How many priorities it tells apart (1: none). A wake-up at a higher priority than what a processor runs asks
    /// that processor to switch at its next check.
    fn priorities(&self) -> u8 {
        1
    }

    /// True for policies whose processors are woken one by one through [`Notify::Processor`] (the rotator's ring) and
    /// which must not pay a read-modify-write for it.
    fn ring(&self) -> bool {
        false
    }

    /// True if neither this nor any [`Local`] of it ever takes a lock or asks for memory once it is made: then a thread
    /// may be submitted whatever it is in the middle of, a lock of the allocator's included, and others go on to select
    /// it. Where it is false, a thread that is back from a block of which nothing had told does not wait for its turn.
    fn takes_anywhere(&self) -> bool {
        false
    }

    /// What a frozen processor strands, for how long: one sentence for `raddle doctor` and the docs.
    fn strands(&self) -> &'static str;
}
