//! A thread that is on its stack, on an activation without a processor, waits for its turn: its token lies in a run
//! queue as those of others do, and whoever selects it passes a processor on instead of resuming the thread.
//!
//! Source: T. E. Anderson et al., "Scheduler Activations: Effective Kernel Support for the User-Level Management of
//! Parallelism" (1991), section 3.1 and figure 1. Differs from the paper: the thread keeps its kernel thread.
//!
//! Roles: the *activation*, whose own kernel thread alone makes the steps of its thread; *givers*, any number, each
//! with a processor of its own, of which one has the thread's token. Submitting and passing on is the
//! caller's; `crates/raddle/src/carry/turns.rs` says when a thread waits, and for how long.
//!
//! | turn | set by | next |
//! |---|---|---|
//! | `NONE` | the activation | `QUEUED`, its thread's token submitted |
//! | `QUEUED` | the activation, which waits | `GIVING` by a giver; by itself `BESIDE`, out of patience, or `LEAVING` |
//! | `GIVING` | a giver | `GIVEN` or `MISSED`; where it has another thread's token, back to what it was |
//! | `GIVEN` | the giver, who has passed a processor on | `NONE` by the activation |
//! | `BESIDE` | the activation, without a processor, its token out | `GIVING` by a giver; `QUEUED` at its next entry |
//! | `MISSED` | the giver, who keeps its processor: the token is gone | `NONE` or `QUEUED` by the activation |
//! | `LEAVING` | the activation, carrying others by then | `NONE` by itself, the thread off its stack |
//!
//! Invariants:
//! - I1: one token of the thread is out in `QUEUED`, `GIVING`, `BESIDE` and `LEAVING`, none in the others; the
//!   activation submits only from `NONE` and `MISSED`.
//! - I2: who has the token of a thread answers that thread's activation, once. A giver may look at an activation that
//!   its thread has left meanwhile, and on which another one waits: it sees whom the activation carries, and puts back
//!   what it found.
//! - I3: a thread that has left is resumed only when it is off its stack, and who resumes it sees its context
//!   (`turn.off`).
//! - I4: an activation that goes on, with a processor or having missed one, sees all that the giver did with the token
//!   (`turn.answer`): what only the token's holder may touch is the thread's own again.
//!
//! Whoever changes the word of one that may sleep on it does so by a read-modify-write: that orders the change and the
//! sleeper's comparison.
//!
//! Progress: a giver retries while another one that looked at the wrong activation is between its two steps, and
//! submits the token again while a thread is on its way off its stack. The activation waits. No memory is reclaimed;
//! activations are never freed.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `turn.queued` | [`Turn::queue`] | [`find`] |
//! | `turn.answer` | [`Turn::give`], [`find`] | [`Turn::wait`], [`Turn::settle`] |
//! | `turn.off` | [`Turn::off`] | [`is_on`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::turn::{Came, Found, Turn, find};
//! static TURN: Turn<Real, u32> = Turn::constant();
//! // A thread waits; whoever selects its token has a processor for it.
//! assert!(TURN.queue());
//! let found = find(|| Some(&TURN), |turn| turn, |_| true);
//! let Found::Waits(turn) = found else { panic!() };
//! let mut processor = 7;
//! turn.give(&mut processor);
//! assert_eq!(TURN.wait(None, || false), Came::Given(&raw mut processor));
//! TURN.close();
//! assert!(!TURN.is_open());
//! ```
#![forbid(unsafe_code)]

use crate::whereabouts::Whereabouts;
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};

const NONE: u32 = 0;
const QUEUED: u32 = 1;
const GIVING: u32 = 2;
const GIVEN: u32 = 3;
const BESIDE: u32 = 4;
const MISSED: u32 = 5;
const LEAVING: u32 = 6;

/// An activation's part; `P` is a processor, of which this file knows no more than the address.
pub struct Turn<M: Machine, P: 'static> {
    word: M::Atomic<u32>,
    /// The processor that it was given, in `GIVEN`.
    given: M::Atomic<*mut P>,
}

/// How a wait has ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Came<P: 'static> {
    /// With a processor. The activation takes it and then calls [`Turn::close`].
    Given(*mut P),
    /// The patience is over, and the thread goes on beside the others, its token still out.
    Beside,
    /// Without anything to wait for: the token was taken while it ran beside the others.
    Nothing,
}

/// What an activation finds that enters the runtime without a processor.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled<P: 'static, F> {
    /// No token of its thread is out.
    Nothing,
    /// Its thread has waited meanwhile, and has taken what it was given.
    Taken,
    /// The token was taken while the thread ran beside the others, and is gone. The activation takes back what the
    /// holder of a token may touch and then calls [`Turn::close`].
    Missed,
    /// As [`Came::Given`].
    Given(*mut P),
    /// It has a free processor for others; its thread leaves, to be resumed by who selects its token: [`Turn::off`].
    Leaves(F),
}

/// What a giver finds who has a thread's token.
#[derive(Debug, PartialEq, Eq)]
pub enum Found<A> {
    /// The thread is on its way off its stack, or off by now: the token is to be submitted again.
    Leaves,
    /// The thread runs without a processor, and knows that its token is gone now.
    Missed,
    /// The thread waits there: [`Turn::give`] is to follow.
    Waits(A),
}

impl<P: 'static> Turn<Real, P> {
    /// Nothing is waited for, in a constant.
    pub const fn constant() -> Self {
        Self { word: RealAtomic::<u32>::constant(NONE), given: RealAtomic::<*mut P>::null() }
    }
}

impl<M: Machine, P: 'static> Default for Turn<M, P> {
    fn default() -> Self {
        Self { word: M::Atomic::new(NONE), given: M::Atomic::new(std::ptr::null_mut()) }
    }
}

impl<M: Machine, P: 'static> Turn<M, P> {
    /// A token of its thread may be out, or has brought it a processor: before the thread goes its own ways, see
    /// [`Turn::settle`]. For the activation itself.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.word.load(Ordering::Relaxed) != NONE
    }

    /// Its thread is queued (racy).
    pub fn waits(&self) -> bool {
        self.word.load(Ordering::Relaxed) == QUEUED
    }

    /// It is about to have a processor that it has waited for (racy): whatever it seems, it is not blocked.
    pub fn comes(&self) -> bool {
        matches!(self.word.load(Ordering::Relaxed), GIVING | GIVEN)
    }

    /// Has the activation look again, if it waits for somebody to select its thread.
    pub fn call(&self) {
        if self.waits() {
            M::wake(&self.word, 1);
        }
    }

    /// The activation has taken the answer: nothing is waited for.
    pub fn close(&self) {
        // Relaxed: no token is out, so nobody looks but for what another thread has left here.
        self.word.store(NONE, Ordering::Relaxed);
    }

    fn change(&self, from: u32, to: u32) -> bool {
        // Relaxed: an exchange passes on what `queue` has released.
        self.word.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The word, with what goes with an answer.
    fn look(&self) -> u32 {
        // Ordering[turn.answer]: Acquire. Pairs with the stores in `give` and `find`. Makes visible: what the giver did
        // with the token and the processor.
        self.word.load(Ordering::Acquire)
    }

    /// The activation's thread, which it names already to those who ask whom it carries, is about to wait. True if the
    /// caller is to submit the thread's token.
    pub fn queue(&self) -> bool {
        match self.look() {
            NONE | MISSED => {
                // Ordering[turn.queued]: Release. Pairs with the exchange in `find`. Makes visible: whom the activation
                // carries.
                self.word.store(QUEUED, Ordering::Release);
                true
            }
            BESIDE => {
                self.change(BESIDE, QUEUED);
                false
            }
            _ => false,
        }
    }

    /// The thread, which is queued, waits for its turn; `deadline` is when `is_over` becomes true.
    pub fn wait(&self, deadline: Option<u64>, mut is_over: impl FnMut() -> bool) -> Came<P> {
        loop {
            match self.look() {
                QUEUED if is_over() => {
                    if self.change(QUEUED, BESIDE) {
                        return Came::Beside;
                    }
                }
                QUEUED => M::wait(&self.word, QUEUED, deadline),
                GIVING => M::wait(&self.word, GIVING, None),
                GIVEN => return Came::Given(self.given.load(Ordering::Relaxed)),
                _ => return Came::Nothing,
            }
        }
    }

    /// The activation enters the runtime without a processor. `free` takes a processor that nobody carries, if there is
    /// one, and `release` gives that back.
    pub fn settle<F>(&self, mut free: impl FnMut() -> Option<F>, mut release: impl FnMut(F)) -> Settled<P, F> {
        if !self.is_open() {
            return Settled::Nothing;
        }
        loop {
            match self.look() {
                NONE => return Settled::Taken,
                MISSED => return Settled::Missed,
                GIVEN => return Settled::Given(self.given.load(Ordering::Relaxed)),
                BESIDE => {
                    self.change(BESIDE, QUEUED);
                }
                QUEUED => match free() {
                    Some(processor) if self.change(QUEUED, LEAVING) => return Settled::Leaves(processor),
                    Some(processor) => release(processor),
                    None => M::wait(&self.word, QUEUED, None),
                },
                waits => M::wait(&self.word, waits, None),
            }
        }
    }

    /// The activation's thread, which has left, is off its stack: who selects its token resumes it.
    pub fn off<T>(&self, thread: &Whereabouts<M, T>) {
        // Ordering[turn.off]: Release fence. Pairs with the one in `is_on`. Makes visible: the thread's context.
        M::fence(Ordering::Release);
        thread.leave();
        // After that: one that is stopped between the two keeps nobody from resuming the thread.
        self.close();
    }

    /// The giver, which has found the thread waiting here, has passed `processor` on to the activation.
    pub fn give(&self, processor: *mut P) {
        // Relaxed: goes with the answer.
        self.given.store(processor, Ordering::Relaxed);
        // Ordering[turn.answer]: Release. Pairs with the load in `look`. Makes visible: the processor.
        self.word.swap(GIVEN, Ordering::Release);
        M::wake(&self.word, 1);
    }
}

/// Whether a selected thread that was submitted while it was on its stack is there still: only its own activation takes
/// it off.
pub fn is_on<M: Machine, T>(thread: &Whereabouts<M, T>) -> bool {
    let is_on = !thread.get().is_null();
    // Ordering[turn.off]: Acquire fence. Pairs with the one in `off`.
    M::fence(Ordering::Acquire);
    is_on
}

/// For a giver, who has the token of a thread that was on its stack. `at` says on which activation it is, if on any,
/// `turn` which turn that has, and `carries` whether it carries this thread.
pub fn find<'a, M: Machine, P: 'static, A: Copy>(
    mut at: impl FnMut() -> Option<A>,
    turn: impl Fn(A) -> &'a Turn<M, P>,
    carries: impl Fn(A) -> bool,
) -> Found<A> {
    loop {
        let Some(activation) = at() else { return Found::Leaves };
        let turn = turn(activation);
        let was = match turn.word.load(Ordering::Relaxed) {
            LEAVING => return Found::Leaves,
            was @ (QUEUED | BESIDE) => was,
            // Its thread has left, or another giver looks at the wrong activation.
            _ => {
                M::spin_hint();
                continue;
            }
        };
        // Ordering[turn.queued]: Acquire. Pairs with the store in `queue`. Makes visible: whom the activation carries.
        if turn.word.compare_exchange(was, GIVING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            continue;
        }
        if !carries(activation) {
            // Relaxed: an exchange passes on what `queue` has released.
            turn.word.swap(was, Ordering::Relaxed);
            M::wake(&turn.word, 1);
            continue;
        }
        if was == QUEUED {
            return Found::Waits(activation);
        }
        // Ordering[turn.answer]: Release. Pairs with the load in `look`. Makes visible: what was done with the token.
        turn.word.swap(MISSED, Ordering::Release);
        M::wake(&turn.word, 1);
        return Found::Missed;
    }
}
