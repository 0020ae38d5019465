//! What an executor is told of one of its activations: that it has lost its processor, and that it is back.
//!
//! Source: T. E. Anderson et al., "Scheduler Activations: Effective Kernel Support for the User-Level Management of
//! Parallelism" (1991), table 2. Differs from the paper: no upcall interrupts anybody; another activation tells.
//!
//! Roles: the *activation*, which works, rests and comes back; *callers*, who make one that rests ready; *tellers*,
//! other activations with a processor, which tell of its loss, or give way to it and tell of its return. Who has a
//! processor and who waits for one is asked of the runtime, and may be outdated when it is heard.
//!
//! | state | set by | next |
//! |---|---|---|
//! | `READY` | the activation; a caller, from `IDLE` | `WORKING` or `IDLE` by the activation |
//! | `IDLE` | the activation | `READY` by a caller |
//! | `WORKING` | the activation | `TELLING` by a teller; `READY` by the activation |
//! | `TELLING` | a teller, who calls the executor | `LOST` by it |
//! | `LOST` | the teller | `RETURNING` by the activation; `GREETING` by a teller who gives way |
//! | `GREETING` | a teller, who calls the executor | `BACK` by it |
//! | `BACK` | the teller | `WORKING` by the activation |
//! | `RETURNING` | the activation, which calls the executor | `WORKING` by it; `COVERED` by a teller |
//! | `COVERED` | a teller: it lost its processor while it called | `WORKING` by the activation |
//! | `ENDED` | the activation | – |
//!
//! Invariants:
//! - I1: notices of an activation alternate, a loss first, and who tells one sees what was done in the one before: each
//!   is told in a state of its own, which nobody else leaves (`COVERED` is such a one, marked).
//! - I2: one gives way for each loss. The word counts losses, so that who has looked at an earlier one gives way to
//!   none.
//! - I3: nobody rests while a processor is asked for and none looks: see [`Wanted`].
//!
//! Whoever changes the word does so by a read-modify-write, so that each exchange sees the last change.
//!
//! Progress: wait-free, but for an activation that is to rest while another one tells of it, and waits for that.
//!
//! | edge | one side | the other |
//! |---|---|---|
//! | `notices.lost` | [`Notices::tell`] | [`Notices::comes_back`], [`Notices::give_way`]: what was told |
//! | `notices.back` | [`Notices::give_way`] | [`Notices::comes_back`]: what was told |
//! | `notices.work` | [`Notices::comes_back`] | [`Notices::tell`]: what was told |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::notices::Notices;
//! let one = Notices::<Real>::new();
//! one.work();
//! assert!(one.tell(|| Some("blocked"), |why| assert_eq!(why, "blocked")));
//! assert!(!one.give_way(|| false, || unreachable!("it waits for no processor")));
//! let mut back = 0;
//! assert!(one.comes_back(|| back += 1));
//! assert!(one.rests_from_work() && back == 1);
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

const READY: u32 = 0;
const IDLE: u32 = 1;
const WORKING: u32 = 2;
const TELLING: u32 = 3;
const LOST: u32 = 4;
const GREETING: u32 = 5;
const BACK: u32 = 6;
const RETURNING: u32 = 7;
const COVERED: u32 = 8;
const ENDED: u32 = 9;
/// The bits above: losses.
const STATE: u32 = 15;
const LOSS: u32 = 16;

/// An activation's word.
pub struct Notices<M: Machine>(M::Atomic<u32>);

/// Sets the next state, whether the executor returns or panics.
struct Then<'a, M: Machine>(&'a Notices<M>, u32, Ordering);

impl<M: Machine> Drop for Then<'_, M> {
    fn drop(&mut self) {
        self.0.0.swap(self.1, self.2);
    }
}

impl<M: Machine> Notices<M> {
    /// One that is ready.
    #[expect(clippy::new_without_default, reason = "ready is a state like others")]
    pub fn new() -> Self {
        Self(M::Atomic::new(READY))
    }

    fn state(&self) -> u32 {
        self.0.load(Ordering::Relaxed) & STATE
    }

    /// The word becomes another state. Relaxed: by the activation, and nothing goes with it.
    fn set(&self, state: u32) {
        let losses = self.0.load(Ordering::Relaxed) & !STATE;
        self.0.swap(losses | state, Ordering::Relaxed);
    }

    fn change(&self, from: u32, to: u32) -> bool {
        let losses = self.0.load(Ordering::Relaxed) & !STATE;
        let (from, to) = (losses | from, losses | to);
        // Relaxed: an exchange passes on what was released.
        self.0.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// It looks for something to do, or is about to.
    pub fn is_ready(&self) -> bool {
        self.state() == READY
    }

    /// It waits until somebody makes it ready.
    pub fn is_idle(&self) -> bool {
        self.state() == IDLE
    }

    /// It was lost (racy): if it waits for a processor, it is coming back.
    pub fn is_lost(&self) -> bool {
        matches!(self.state(), LOST | GREETING | BACK)
    }

    /// Makes it ready, if it rests. True if the caller is to wake it.
    pub fn call(&self) -> bool {
        self.change(IDLE, READY)
    }

    /// The activation, which is ready, rests from now on.
    pub fn rest(&self) {
        self.set(IDLE);
    }

    /// The activation, which is ready, begins to work.
    pub fn work(&self) {
        self.set(WORKING);
    }

    /// The activation has done its work, and is ready. False if it has been told of meanwhile: then it
    /// [comes back](Notices::comes_back) first.
    pub fn rests_from_work(&self) -> bool {
        self.change(WORKING, READY)
    }

    /// The activation has ended, not being at work.
    pub fn end(&self) {
        self.set(ENDED);
    }

    /// If it works, and `is_without` says that it has lost its processor, and why, tells that. True if the caller is to
    /// see to it that somebody has that processor.
    pub fn tell<T>(&self, is_without: impl FnOnce() -> Option<T>, tell: impl FnOnce(T)) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let (losses, next) = (
            word & !STATE,
            match word & STATE {
                WORKING => TELLING,
                RETURNING => COVERED,
                _ => return false,
            },
        );
        let Some(why) = is_without() else { return false };
        // Ordering[notices.work]: Acquire. Pairs with `comes_back`. Makes visible: what was told before.
        if self.0.compare_exchange(word, losses | next, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        if next == TELLING {
            // Ordering[notices.lost]: Release. Pairs with `comes_back` and `give_way`. Makes visible: what is told.
            let _then = Then(self, losses.wrapping_add(LOSS) | LOST, Ordering::Release);
            tell(why);
        }
        true
    }

    /// If its loss was told, and `comes` says that it waits for a processor, tells that it is back. True if the caller
    /// is to give way.
    pub fn give_way(&self, comes: impl FnOnce() -> bool, tell: impl FnOnce()) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        let losses = word & !STATE;
        if word & STATE != LOST || !comes() {
            return false;
        }
        // Ordering[notices.lost]: Acquire. Pairs with `tell`. Makes visible: what was told.
        if self.0.compare_exchange(word, losses | GREETING, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // Ordering[notices.back]: Release. Pairs with `comes_back`. Makes visible: what is told.
        let _then = Then(self, losses | BACK, Ordering::Release);
        tell();
        true
    }

    /// The activation has a processor, at work. If its loss was told, it is at an end, which it tells if nobody has.
    /// True if so; false, too, while another one still tells of it: then the end is for a later call.
    pub fn comes_back(&self, tell: impl FnOnce()) -> bool {
        loop {
            let word = self.0.load(Ordering::Relaxed);
            let losses = word & !STATE;
            match word & STATE {
                LOST => {
                    let returning = losses | RETURNING;
                    // Ordering[notices.lost]: Acquire. Pairs with `tell`. Makes visible: what was told.
                    if self.0.compare_exchange(word, returning, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                        // Ordering[notices.work]: Release. Pairs with `tell`. Makes visible: what is told.
                        let _then = Then(self, losses | WORKING, Ordering::Release);
                        tell();
                        return true;
                    }
                }
                BACK => {
                    // Ordering[notices.back]: Acquire. Pairs with `give_way`. Makes visible: what was told.
                    let told = self.0.swap(losses | WORKING, Ordering::Acquire);
                    debug_assert_eq!(told, word, "nobody else leaves this state");
                    return true;
                }
                _ => return false,
            }
        }
    }
}

/// Processors that were asked for and not given yet.
///
/// Invariant I3: who asks looks afterwards, under a lock, whether an activation is ready, and else makes one ready; an
/// activation rests under that lock, and only if nothing is [asked for](Wanted::is_any) then. Where all are asked for
/// already, whoever takes one of them finds what the caller has put where it looks: their lock there orders the two.
pub struct Wanted<M: Machine>(M::Atomic<usize>);

impl<M: Machine> Wanted<M> {
    /// So many are asked for.
    pub fn new(count: usize) -> Self {
        Self(M::Atomic::new(count))
    }

    /// True if any is asked for. Under the lock.
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// One is asked for, of so many at most.
    pub fn ask(&self, most: usize) {
        self.update(|count| (count < most).then_some(count + 1));
    }

    /// Takes one that is asked for. False if there is none.
    pub fn take(&self) -> bool {
        self.update(|count| count.checked_sub(1))
    }

    /// Relaxed: counter only.
    fn update(&self, next: impl Fn(usize) -> Option<usize>) -> bool {
        let mut count = self.0.load(Ordering::Relaxed);
        while let Some(next) = next(count) {
            match self.0.compare_exchange(count, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }
}
