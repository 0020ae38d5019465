//! One signal for many requests: who has something done by a thread that runs leaves it there, and signals its kernel
//! thread unless another signal is on its way.
//!
//! Source: this project.
//!
//! Roles: the *thread*, which moves between kernel threads; *askers*, any number, also in signal handlers. A kind is
//! one sort of signal.
//!
//! An asker leaves what it wants elsewhere, then calls [`Doorbell::ring`]: it reads how often the thread has answered,
//! sets the thread's interruption flag and finds its kernel thread (`request`), signals that one, and only then notes
//! that this answer was signalled for. The thread answers ([`Doorbell::answer`]) when such a signal has found it, and
//! when it sees its flag where it goes on on another kernel thread; then it looks at what was left.
//!
//! Invariants, with events P something was left, R the asker reads the count, F it sets the flag, K it signals, T it
//! notes the count that it has read; C the thread counts an answer, D it looks at what was left:
//! - D1: what was left is seen. Proof: an asker that does not signal read a count that was signalled for, so an answer
//!   is to come (D2), or came after R unseen; forbidden is R misses C and D misses P, and a fence stands between P and
//!   R, another between C and D.
//! - D2: a count that was noted is left behind. Proof: F comes before K. If the signal finds the thread, that is a C;
//!   if the thread has moved meanwhile, it sees F where it goes on, which is one too. Either came after R, since it
//!   follows F; so the count is more than what was read, or will be. (With R after F the thread could see the flag
//!   before R, and the signal then miss it: the count stayed noted for ever.)
//! - D3: between two answers, askers that are between R and T at the same time signal, and nobody after the first of
//!   them has noted it. Who is stopped there, by a handler that asks too, for one, holds up nobody: others signal for
//!   themselves.
//!
//! Progress: wait-free but for what is passed in. No memory is reclaimed.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `doorbell.look` | [`Doorbell::ring`], between P and R | [`Doorbell::answer`], between C and D |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::doorbell::Doorbell;
//! let bell = Doorbell::<Real, 1>::default();
//! let ring = || {
//!     let mut signals = 0;
//!     bell.ring(0, || Some("where it runs"), |_| { signals += 1; true });
//!     signals
//! };
//! assert_eq!([ring(), ring()], [1, 0], "one is on its way");
//! bell.answer();
//! assert_eq!(ring(), 1);
//! ```
#![forbid(unsafe_code)]

use raddle_machine::{Atomic, Machine, Ordering};

/// Which answers of a thread were signalled for.
#[derive(Debug)]
pub struct Doorbell<M: Machine, const KINDS: usize> {
    /// One more than the thread has answered.
    answers: M::Atomic<u64>,
    /// By kind: what `answers` was when the last signal was sent for; 0 is never.
    signalled: [M::Atomic<u64>; KINDS],
}

impl<M: Machine, const KINDS: usize> Default for Doorbell<M, KINDS> {
    fn default() -> Self {
        Self { answers: M::Atomic::new(1), signalled: std::array::from_fn(|_| M::Atomic::new(0)) }
    }
}

impl<M: Machine, const KINDS: usize> Doorbell<M, KINDS> {
    /// Has the thread look at what the caller has left for it. `request` sets its flag and answers where it runs, or
    /// `None` if it will see the flag by itself; `signal` answers whether the signal was sent.
    ///
    /// # Panics
    /// If there is no such `kind`.
    pub fn ring<W>(&self, kind: usize, request: impl FnOnce() -> Option<W>, signal: impl FnOnce(W) -> bool) {
        // Ordering[doorbell.look]: SeqCst. Pairs with the fence in `answer` (proof at D1).
        M::fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence, and before whatever follows the flag, since who sees that acquires it (D2).
        let answers = self.answers.load(Ordering::Relaxed);
        // Relaxed: a count noted by whoever has sent its signal before; an old one makes for one signal more.
        let signals = self.signalled[kind].load(Ordering::Relaxed) != answers;
        if let Some(place) = request()
            && signals
            && signal(place)
        {
            self.signalled[kind].store(answers, Ordering::Relaxed);
        }
    }

    /// The thread is about to look at what was left. It does so after this.
    pub fn answer(&self) {
        // Relaxed: ordered by the fence. An addition, since a signal may come in the middle of it.
        self.answers.fetch_add(1, Ordering::Relaxed);
        // Ordering[doorbell.look]: SeqCst. Pairs with the fence in `ring` (proof at D1).
        M::fence(Ordering::SeqCst);
    }
}
