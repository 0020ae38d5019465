//! The part of a thread that schedulers and wakers see: its wait word, flags and priority.
//!
//! Source: the two-phase form of the lock-free scheduler's finalizers (Negele et al., *On the Design and Implementation
//! of an Efficient Lock-Free Scheduler*, section 3.2). Differs from the paper: publishing happens before the switch,
//! and the finalizer shrinks to one compare-and-swap; the paper's one-phase form lets a waker touch freed memory (it
//! fails in the model once lifetimes are asserted).
//!
//! Roles: the *thread* itself (arms, disarms, reads the outcome), its *finalizer* (run by the next thread on that
//! processor once this one is off its stack), and *claimants* (wakers, timers, cancellers: any number, anywhere).
//!
//! The wait word is `epoch:56 | wake:4 | phase:4`. The epoch is never reset, and thread records are type-stable (their
//! memory is only ever a thread record), so a claim on an old epoch fails instead of waking the wrong wait. Its lowest
//! 32 bits count waits, those above the lives of the record ([`Thread::number`]).
//!
//! | phase | set by | from | meaning |
//! |---|---|---|---|
//! | `IDLE` | thread | any of its own | not waiting |
//! | `ARMING` | thread | `IDLE` | may still be on its stack; a claim does not push |
//! | `PARKED` | finalizer | `ARMING` | off its stack; the claimant pushes [`crate::Ready`] |
//! | `FIRED` | claimant | `ARMING`, `PARKED` | woken, with the reason; one winner per epoch |
//!
//! Invariants:
//! - I1: per epoch at most one claim wins.
//! - I2: a thread is pushed at most once per epoch: by the claimant that saw `PARKED`, or by the finalizer whose
//!   compare-and-swap failed (the claimant saw `ARMING`), never by both.
//! - I3: a thread is not asleep while its condition holds: it publishes, fences, looks; the waker makes the condition
//!   true, fences, looks for published waiters (see [`crate::runtime::wait_until`]).
//!
//! Progress: every operation is wait-free (one compare-and-swap, no loop: a failed one means somebody else won).
//!
//! Reclamation: records live in a type-stable slab of the runtime; nobody frees one while a claim may read it.
//!
//! | edge | release side | acquire side |
//! |---|---|---|
//! | `wait.publish` | the list that carries `(thread, epoch)` | the claimant's dequeue |
//! | `wait.fire` | [`Thread::claim`] | [`Thread::finish_park`], [`Thread::outcome`] |
//! | `wait.park` | [`Thread::finish_park`] | [`Thread::claim`] |
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::{Claim, Thread, Wake};
//! // SAFETY: a record that no runtime knows, leaked.
//! let thread: &'static Thread<Real> = unsafe { Box::leak(Box::new(Thread::new(0, 0))) };
//! let epoch = thread.arm();
//! thread.finish_park(epoch).unwrap();
//! // Of several wakers one wins, who then has to push the thread.
//! assert_eq!(thread.claim(epoch, Wake::Signalled), Claim::WonParked);
//! assert_eq!(thread.claim(epoch, Wake::TimedOut), Claim::Lost);
//! assert_eq!(thread.outcome(), Wake::Signalled);
//! ```

use raddle_machine::{Atomic, Machine, Ordering};
use raddle_queues::inbox::Link;
use raddle_queues::wait_list::Spare;

const PHASE: u64 = 0xf;
const IDLE: u64 = 0;
const ARMING: u64 = 1;
const PARKED: u64 = 2;
const FIRED: u64 = 3;
const WAKE_SHIFT: u32 = 4;
const EPOCH_SHIFT: u32 = 8;
const LIFE_SHIFT: u32 = EPOCH_SHIFT + 32;

/// Bits of an epoch that [`Thread::claim_short`] compares.
pub const SHORT_EPOCH: u32 = 20;

/// Flag: cancellation was requested; every cancellable wait returns [`Wake::Cancelled`].
pub const CANCELLED: u8 = 1;
/// Flag: something was left for the thread outside what it waits for (a signal); a wait in progress ends for no reason.
pub const INTERRUPTED: u8 = 4;
/// Flag: this record stands for a kernel thread that is not one of a pool's activations; it waits on [`Thread::token`].
pub const KERNEL_THREAD: u8 = 2;

/// One wait of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// The number, for lists that store it in a word (56 bits).
    pub fn to_bits(self) -> u64 {
        self.0
    }
    /// Its lowest [`SHORT_EPOCH`] bits.
    #[inline(always)]
    pub fn short(self) -> u64 {
        self.0 & ((1 << SHORT_EPOCH) - 1)
    }
    /// Inverse of [`Epoch::to_bits`].
    pub fn from_bits(bits: u64) -> Self {
        Epoch(bits)
    }
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Wake {
    /// What it waited for may have come true; a token or permit may have been handed over with it.
    Signalled = 1,
    /// The deadline passed.
    TimedOut = 2,
    /// The thread's cancellation was requested.
    Cancelled = 3,
    /// The thread found its condition true after publishing and claimed its own wait.
    Itself = 4,
    /// What the thread waited for was handed over to it with the claim: it is its owner now.
    Granted = 5,
}

impl Wake {
    /// By the four bits that stand for one in the word of a wait: a load costs less than a comparison with each.
    const OF_BITS: [Wake; 16] = {
        let mut all = [Wake::Signalled; 16];
        let others = [Wake::TimedOut, Wake::Cancelled, Wake::Itself, Wake::Granted];
        let mut at = 0;
        while at < others.len() {
            all[others[at] as usize] = others[at];
            at += 1;
        }
        all
    };
}

/// What a claim achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a claim that answers `WonParked` obliges the caller to make the thread ready"]
pub enum Claim {
    /// Somebody else woke this epoch, or it is over.
    Lost,
    /// Won; the thread is still leaving its stack: its finalizer pushes it.
    WonArming,
    /// Won; the caller must push the thread.
    WonParked,
}

/// A thread was woken while it was still on its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed;

/// The scheduler's view of a thread (lightweight, or a record that stands for a kernel thread).
#[repr(C)]
pub struct Thread<M: Machine> {
    wait: M::Atomic<u64>,
    /// What a kernel thread sleeps on; unused by lightweight threads.
    pub token: M::Atomic<u32>,
    flags: M::Atomic<u8>,
    /// Priority: 0 is the highest. Written by the thread's creator and by itself.
    pub priority: M::Atomic<u8>,
    /// A byte of the runtime's own, which outlives the thread: where it ran last, where the runtime wants to know that.
    pub place: M::Atomic<u8>,
    /// Where padding would be. With every byte in an atomic, a reference made from a word that may be stale reads
    /// nothing.
    fill: M::Atomic<u8>,
    /// The number of a wait node for the next wait; 0: none. Belongs to the thread, and to who holds the claim of a
    /// parked one.
    spare: M::Atomic<u32>,
    /// A word of the runtime's own: which pool the thread belongs to.
    pub tag: M::Atomic<u32>,
    /// For intrusive lists of ready threads (inboxes): belongs to whoever holds the thread's [`crate::Ready`] token.
    pub link: Link<M>,
}

impl<M: Machine> Thread<M> {
    /// Where the word of the wait is, for debuggers.
    pub const WAIT: usize = std::mem::offset_of!(Self, wait);
    /// Where the flags are, for debuggers.
    pub const FLAGS: usize = std::mem::offset_of!(Self, flags);
    /// The mask of the phase in the word of the wait, a thread that is leaving its stack, one that is off it; the flag
    /// of a kernel thread.
    pub const MARKS: [usize; 4] = [PHASE as usize, ARMING as usize, PARKED as usize, KERNEL_THREAD as usize];

    /// A thread that waits for nothing, at the given priority, with [`KERNEL_THREAD`] or no flag.
    ///
    /// # Safety
    /// The record is where the runtime that it is used with expects its records (inside a descriptor, for one), and is
    /// type-stable from its first wait on.
    pub unsafe fn new(priority: u8, flags: u8) -> Self {
        Self {
            wait: M::Atomic::new(0),
            token: M::Atomic::new(0),
            flags: M::Atomic::new(flags),
            spare: M::Atomic::new(0),
            priority: M::Atomic::new(priority),
            place: M::Atomic::new(0),
            fill: M::Atomic::new(0),
            tag: M::Atomic::new(0),
            link: Link::new(),
        }
    }

    /// The thread's spare wait node, which it has no more. Called by the thread itself.
    #[inline]
    pub(crate) fn take_spare(&self) -> Option<Spare> {
        // Single writer: the thread; between a won claim and the push, the claimant, and the push orders the two.
        let index = self.spare.load(Ordering::Relaxed);
        self.spare.store(0, Ordering::Relaxed);
        // SAFETY: put here by `leave_spare` and removed just now; a program has one pool of nodes per machine.
        unsafe { Spare::from_index(index) }
    }

    /// Leaves a wait node for the thread's next wait, or hands it back if it has one. Called by whom [`Thread::claim`]
    /// answered [`Claim::WonParked`], before the thread is made ready.
    #[inline]
    pub(crate) fn leave_spare(&self, spare: Spare) -> Option<Spare> {
        // A kernel thread notices the claim by itself, so it may be at its next wait already. (A model that does the
        // same loses nodes, no more: a number is stored once and taken once.)
        if self.spare.load(Ordering::Relaxed) != 0 || self.is_kernel_thread() {
            return Some(spare);
        }
        self.spare.store(spare.into_index(), Ordering::Relaxed);
        None
    }

    /// Begins a wait. Called by the thread itself, while it waits for nothing.
    pub fn arm(&self) -> Epoch {
        // Single writer: between waits only the thread itself writes the word (claims of old epochs fail).
        let epoch = (self.wait.load(Ordering::Relaxed) >> EPOCH_SHIFT) + 1;
        self.wait.store(epoch << EPOCH_SHIFT | ARMING, Ordering::Relaxed);
        Epoch(epoch)
    }

    /// Ends a wait that was claimed (by whomever) without sleeping. Called by the thread itself.
    pub fn disarm(&self) {
        let word = self.wait.load(Ordering::Relaxed);
        self.wait.store(word >> EPOCH_SHIFT << EPOCH_SHIFT | IDLE, Ordering::Relaxed);
    }

    /// Tries to be the one that ends the wait `epoch`.
    pub fn claim(&self, epoch: Epoch, reason: Wake) -> Claim {
        self.claim_seen(self.wait.load(Ordering::Relaxed), epoch, reason)
    }

    /// As [`Thread::claim`], of a wait of which the caller knows the lowest [`SHORT_EPOCH`] bits: for words that have
    /// no room for more. Whoever put them there takes them out when the wait is over, so only a caller that stands
    /// still between that word and this call for a multiple of a million waits of the thread wakes a wrong one.
    #[inline(always)]
    pub fn claim_short(&self, bits: u64, reason: Wake) -> Claim {
        let seen = self.wait.load(Ordering::Relaxed);
        let epoch = Epoch(seen >> EPOCH_SHIFT);
        if epoch.short() == bits { self.claim_seen(seen, epoch, reason) } else { Claim::Lost }
    }

    #[inline(always)]
    fn claim_seen(&self, mut expected: u64, epoch: Epoch, reason: Wake) -> Claim {
        let base = epoch.0 << EPOCH_SHIFT;
        let fired = base | (reason as u64) << WAKE_SHIFT | FIRED;
        loop {
            // Of another epoch it is more than a phase.
            let phase = expected ^ base;
            if phase.wrapping_sub(ARMING) > PARKED - ARMING {
                return Claim::Lost;
            }
            // Ordering[wait.fire]: AcqRel. Pairs with wait.park (the stack that the finalizer left is visible to
            // whoever runs the thread next) and with the failing exchange in `finish_park`. Makes visible: what the
            // waker did.
            match self.wait.compare_exchange(expected, fired, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if phase == PARKED => return Claim::WonParked,
                Ok(_) => return Claim::WonArming,
                // ARMING became PARKED in between, or the wait is over: at most one more round.
                Err(word) => expected = word,
            }
        }
    }

    /// As [`Thread::claim`], but only a thread that is off its stack: for whoever wants to look at it.
    pub fn claim_parked(&self, epoch: Epoch, reason: Wake) -> Claim {
        let base = epoch.0 << EPOCH_SHIFT;
        let fired = base | (reason as u64) << WAKE_SHIFT | FIRED;
        // Ordering[wait.fire]: AcqRel. Pairs with wait.park, as in `claim`.
        match self.wait.compare_exchange(base | PARKED, fired, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Claim::WonParked,
            Err(_) => Claim::Lost,
        }
    }

    /// The finalizer's step: the thread is off its stack. `Err` when it was claimed meanwhile: then the caller must
    /// push it.
    ///
    /// # Errors
    /// [`Claimed`]: the thread was woken before it was off its stack.
    pub fn finish_park(&self, epoch: Epoch) -> Result<(), Claimed> {
        let base = epoch.0 << EPOCH_SHIFT;
        // Ordering[wait.park]: AcqRel. Pairs with wait.fire. Makes visible: the saved context and the whole stack.
        // Failed, Relaxed: what the claimant did is for the thread, which acquires it itself (`outcome`).
        self.wait
            .compare_exchange(base | ARMING, base | PARKED, Ordering::AcqRel, Ordering::Relaxed)
            .map(drop)
            .map_err(|_| Claimed)
    }

    /// After the thread runs again: why its wait ended. Leaves it waiting for nothing.
    pub fn outcome(&self) -> Wake {
        // Ordering[wait.fire]: Acquire. Pairs with the claimant's exchange. Makes visible: what the waker did.
        let word = self.wait.load(Ordering::Acquire);
        debug_assert_eq!(word & PHASE, FIRED, "a thread ran on without being woken");
        self.disarm();
        Wake::OF_BITS[(word >> WAKE_SHIFT & 0xf) as usize]
    }

    /// True once the wait `epoch` was claimed. For waits that poll (kernel threads).
    pub fn is_fired(&self, epoch: Epoch) -> bool {
        // Relaxed: who goes on then calls `outcome`, which acquires.
        let word = self.wait.load(Ordering::Relaxed);
        // Whatever the reason is, which lies between the two.
        (word ^ (epoch.0 << EPOCH_SHIFT | FIRED)) & !(0xf << WAKE_SHIFT) == 0
    }

    /// Sleeps on the token, as a kernel thread does whose wait `epoch` is parked, until that is over; at `deadline` it
    /// ends it itself.
    pub fn sleep_on_token(&self, epoch: Epoch, deadline: Option<u64>) {
        loop {
            // Ordering[token]: Acquire. Pairs with `ring_token`. Orders this read before the look at the wait word.
            let token = self.token.load(Ordering::Acquire);
            if self.is_fired(epoch) {
                return;
            }
            if deadline.is_some_and(|deadline| M::now() >= deadline) {
                // Won or lost: the wait is over.
                let (Claim::Lost | Claim::WonArming | Claim::WonParked) = self.claim(epoch, Wake::TimedOut);
                return;
            }
            M::wait(&self.token, token, deadline);
        }
    }

    /// Wakes who sleeps on the token; whoever has claimed the wait calls it.
    pub fn ring_token(&self) {
        // Ordering[token]: Release. Pairs with `sleep_on_token`. Makes visible: that the wait was claimed.
        self.token.fetch_add(1, Ordering::Release);
        M::wake(&self.token, 1);
    }

    /// The wait in progress, if the thread is in one.
    pub fn current_wait(&self) -> Option<Epoch> {
        let word = self.wait.load(Ordering::Relaxed);
        matches!(word & PHASE, ARMING | PARKED).then_some(Epoch(word >> EPOCH_SHIFT))
    }

    /// True from [`Thread::arm`] until the wait is over. Of a running thread it says that it must not begin another
    /// wait: what it calls meanwhile (an allocator, for a node to wait in) has to do without.
    pub fn is_in_wait(&self) -> bool {
        self.wait.load(Ordering::Relaxed) & PHASE != IDLE
    }

    /// True when this record stands for a kernel thread.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & KERNEL_THREAD != 0
    }

    /// Makes this the record of a kernel thread that is no activation.
    pub fn set_kernel_thread(&self) {
        self.flags.fetch_or(KERNEL_THREAD, Ordering::Relaxed);
    }

    /// The priority: 0 is the highest.
    #[inline(always)]
    pub fn priority_now(&self) -> u8 {
        // Relaxed: single writer, the thread or its creator.
        self.priority.load(Ordering::Relaxed)
    }

    /// True when cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & CANCELLED != 0
    }

    /// Requests cancellation and claims the wait in progress. The caller must push the thread on [`Claim::WonParked`].
    /// It is an interruption too: the thread may have to hand it on, also where its waits are masked.
    pub fn cancel(&self) -> Claim {
        self.request(CANCELLED | INTERRUPTED, Wake::Cancelled)
    }

    /// Takes back what [`Thread::cancel`] asked for. Called by the thread itself, outside its waits.
    pub fn forget_cancellation(&self) {
        self.flags.fetch_and(!CANCELLED, Ordering::Relaxed);
    }

    /// Asks the thread to look at what was left for it, and claims the wait in progress, which ends for no reason. The
    /// caller must push the thread on [`Claim::WonParked`]. Whoever suspends the thread looks at the flag first.
    pub fn interrupt(&self) -> Claim {
        self.request(INTERRUPTED, Wake::Itself)
    }

    /// True while an interruption is asked for.
    #[inline(always)]
    pub fn is_interrupted(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & INTERRUPTED != 0
    }

    /// Takes the interruption that was asked for, if one was. Called by the thread itself.
    pub fn take_interruption(&self) -> bool {
        // AcqRel: what was left before the request is seen after this.
        self.is_interrupted() && self.flags.fetch_and(!INTERRUPTED, Ordering::AcqRel) & INTERRUPTED != 0
    }

    fn request(&self, flag: u8, reason: Wake) -> Claim {
        self.flags.fetch_or(flag, Ordering::AcqRel);
        // Either this sees the epoch that the thread armed, or the thread, which fences after arming, sees the flag:
        // Ordering[wait.cancel]: SeqCst. Pairs with the fence in `wait_until`. Forbidden outcome: thread reads no flag
        // and canceller reads no wait.
        M::fence(Ordering::SeqCst);
        match self.current_wait() {
            Some(epoch) => self.claim(epoch, reason),
            None => Claim::Lost,
        }
    }

    /// Makes a recycled record ready for its next thread. The epoch goes on: claims of its former life keep failing.
    pub fn recycle(&self, priority: u8) {
        self.flags.store(0, Ordering::Relaxed);
        self.priority.store(priority, Ordering::Relaxed);
        let word = self.wait.load(Ordering::Relaxed) >> EPOCH_SHIFT << EPOCH_SHIFT | IDLE;
        self.wait.store(word.wrapping_add(1 << LIFE_SHIFT), Ordering::Relaxed);
    }

    /// A number for the thread, not 0, which the record's next 16 million threads do not have (a kernel thread has
    /// another one after 4 billion waits). For the thread itself.
    pub fn number(&self) -> usize {
        // Records are aligned so, and addresses have 47 bits: the life is above them.
        let place = std::ptr::from_ref(self).addr() >> 7;
        place ^ (self.wait.load(Ordering::Relaxed) >> LIFE_SHIFT << 40) as usize
    }
}
