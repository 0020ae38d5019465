//! The threads that wait for one condition of one object, and who wakes them.
//!
//! The way every primitive waits: try, and if that fails `Waiters::wait`, whose closure looks at the condition after
//! the thread has published itself; then try again. The way every primitive wakes: note `Waiters::queue` while the
//! object is surely alive, make the condition true, fence, and wake from the `Queue`, which is runtime memory.

use super::{Patience, WaitError};
use crate::runtime::{Runtime, Waited, Word, wait_until_or};
use crate::thread::{Claim, Epoch, SHORT_EPOCH, Thread, Wake};
use raddle_machine::{Atomic, Machine, Ordering, Real, RealAtomic};
use raddle_queues::wait_list::{self, Spare};
use std::cell::Cell;
use std::marker::PhantomData;

/// A wait list that gives its memory back when it is dropped.
pub struct Waiters<R: Runtime> {
    list: wait_list::WaitList<R::Machine>,
    /// Waits to come that do without a yield.
    without: Word<R, u8>,
    /// Not 0: somebody has waited for longer than a quantum, and was woken too late again.
    starved: Word<R, u8>,
    runtime: PhantomData<fn() -> R>,
}

/// Waits without a yield after one that did not help. Makes a useless yield cost one part in 64.
const WITHOUT: u8 = 64;

impl<R: Runtime<Machine = Real>> Waiters<R> {
    /// Nobody waits, in a constant.
    pub const fn new() -> Self {
        Self {
            list: wait_list::WaitList::new(),
            without: RealAtomic::<u8>::constant(0),
            starved: RealAtomic::<u8>::constant(0),
            runtime: PhantomData,
        }
    }
}

impl<R: Runtime> Default for Waiters<R> {
    fn default() -> Self {
        let (without, starved) = (Atomic::new(0), Atomic::new(0));
        Self { list: wait_list::WaitList::default(), without, starved, runtime: PhantomData }
    }
}

/// The word under which lists know a thread.
fn to_word<R: Runtime>(thread: &'static Thread<R::Machine>) -> usize {
    std::ptr::from_ref(thread).expose_provenance()
}

/// # Safety
/// `word` came from [`to_word`].
unsafe fn from_word<R: Runtime>(word: usize) -> &'static Thread<R::Machine> {
    // SAFETY: the word is the address of a thread record, and records are type-stable: readable for ever.
    unsafe { &*std::ptr::with_exposed_provenance(word) }
}

/// Bits of a record's address in the word of who waits alone; a record is aligned to eight bytes.
const ADDRESS_BITS: u32 = 64 - SHORT_EPOCH;

/// The word of who waits alone, by which [`wake_seated`] finds it; 0 for a record at an address that does not fit.
#[inline(always)]
fn to_seat<R: Runtime>(thread: &'static Thread<R::Machine>, epoch: Epoch) -> u64 {
    const { assert!(align_of::<Thread<Real>>() >= 8) };
    let address = to_word::<R>(thread) as u64 >> 3;
    if address >> ADDRESS_BITS == 0 { address | epoch.short() << ADDRESS_BITS } else { 0 }
}

/// How a wait was published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Published {
    /// There was no memory for it.
    Not,
    /// Alone, by this word.
    Seated(u64),
    Queued,
}

impl<R: Runtime> Waiters<R> {
    /// Publishes a wait, without a node if nobody else waits.
    #[inline(always)]
    fn publish_first(&self, thread: &'static Thread<R::Machine>, epoch: Epoch) -> Published {
        let seat = to_seat::<R>(thread, epoch);
        if seat != 0 && self.list.sit(R::nodes(), seat) {
            return Published::Seated(seat);
        }
        if self.publish(thread, epoch) { Published::Queued } else { Published::Not }
    }

    /// Publishes a wait. False when there is no memory for it: the thread must not sleep.
    pub(crate) fn publish(&self, thread: &'static Thread<R::Machine>, epoch: Epoch) -> bool {
        let mut spare = thread.take_spare();
        let published = self.list.push_with_spare(R::nodes(), to_word::<R>(thread), epoch.to_bits(), &mut spare);
        if let Some(spare) = spare {
            spare.give(R::nodes());
        }
        published
    }

    /// Says that a published wait ended otherwise than by a waker's pop: its node is in the list, abandoned.
    pub(crate) fn abandon(&self) {
        self.list.abandon(R::nodes(), |word, bits| {
            // SAFETY: only `publish` puts words into lists, and a sweeper shows only words that it found in one.
            let thread = unsafe { from_word::<R>(word) };
            thread.current_wait() == Some(Epoch::from_bits(bits))
        });
    }

    /// Perhaps yields, before the caller waits: true if other threads ran meanwhile and the condition is worth another
    /// look.
    ///
    /// A yield costs a fraction of a wait and its wake-up (pp_chan on one processor: 175 to about 130 ns a round trip),
    /// but is lost when the thread has to wait after all; so each list keeps a score, and after a yield that did not
    /// help ([`Waiters::yield_was_lost`]) the next waits go without.
    #[inline]
    pub(crate) fn yield_first(&self) -> bool {
        self.may_yield() && R::yield_before_wait()
    }

    /// Whether this wait may begin with a yield, by the score.
    #[inline(always)]
    fn may_yield(&self) -> bool {
        // Relaxed, and not one operation: only a score, which any interleaving leaves meaningful.
        match self.without.load(Ordering::Relaxed) {
            0 => true,
            n => {
                self.without.store(n - 1, Ordering::Relaxed);
                false
            }
        }
    }

    /// The yield did not help.
    #[inline]
    pub(crate) fn yield_was_lost(&self) {
        self.without.store(WITHOUT, Ordering::Relaxed);
    }

    /// The calling thread, woken, was too late; `since` is when that was so first. From a quantum later on it says so:
    /// whoever leaves what it waits for then leaves it for the one that it wakes (decision 0033).
    #[inline]
    pub(crate) fn was_too_late(&self, since: &mut Option<u64>) {
        let quantum = R::quantum();
        if quantum != u64::MAX {
            self.too_late_by(quantum, since);
        }
    }

    #[cold]
    #[inline(never)]
    fn too_late_by(&self, quantum: u64, since: &mut Option<u64>) {
        let time = R::Machine::now();
        if time.saturating_sub(*since.get_or_insert(time)) >= quantum {
            // Relaxed: a hint. A waker that does not see it yet sees it the next time.
            self.starved.store(1, Ordering::Relaxed);
        }
    }

    /// True if somebody has said so since the last time. The caller still keeps the object alive.
    #[inline]
    pub(crate) fn somebody_starved(&self) -> bool {
        let starved = self.starved.load(Ordering::Relaxed) != 0;
        if starved {
            self.starved.store(0, Ordering::Relaxed);
        }
        starved
    }

    /// What a waker keeps beyond the object's life.
    #[inline(always)]
    pub(crate) fn queue(&self) -> Queue<R> {
        Queue { queue: self.list.queue(), runtime: PhantomData }
    }

    /// Perhaps yields, in the middle of the calling thread's wait `epoch`: true if that is over.
    ///
    /// A wait that ends so costs a yield: its waker finds a thread that is ready already, so nothing is pushed, and
    /// nothing parked.
    ///
    /// Of those that wait for the same one tries it for all, and who comes meanwhile parks at once: of 150 threads that
    /// wait for one notification, half had yielded in vain before the first was back and could say so (`news`, one
    /// processor: 744 instructions a wait, 624 so).
    #[inline(always)]
    fn yielded_until_over(&self, thread: &'static Thread<R::Machine>, epoch: Epoch) -> bool {
        if !self.may_yield() {
            return false;
        }
        self.yield_was_lost();
        let yielded = R::yield_before_wait();
        let over = yielded && thread.is_fired(epoch);
        if over || !yielded {
            self.without.store(0, Ordering::Relaxed);
        }
        over
    }

    /// Waits once. `ready` looks at the condition, or arranges for being woken (sets a has-waiters bit); true: do not
    /// sleep.
    ///
    /// `Ok` says only that it is worth trying again; [`Wake::Granted`] is reported as such.
    #[inline]
    pub(crate) fn wait(&self, patience: Patience, ready: impl FnOnce() -> bool) -> Result<Wake, WaitError> {
        self.wait_after(patience, ready, |thread, epoch| self.yielded_until_over(thread, epoch))
    }

    /// As [`Waiters::wait`], of a caller that has asked [`Waiters::yield_first`] before.
    #[inline]
    pub(crate) fn wait_at_once(&self, patience: Patience, ready: impl FnOnce() -> bool) -> Result<Wake, WaitError> {
        self.wait_after(patience, ready, |_, _| false)
    }

    /// `last`, asked when `ready` has said no, is true if the wait was claimed meanwhile.
    #[inline(always)]
    fn wait_after(
        &self,
        patience: Patience,
        ready: impl FnOnce() -> bool,
        last: impl FnOnce(&'static Thread<R::Machine>, Epoch) -> bool,
    ) -> Result<Wake, WaitError> {
        let published = Cell::new(Published::Not);
        let publish = |thread, epoch| published.set(self.publish_first(thread, epoch));
        let look = || published.get() == Published::Not || ready();
        // SAFETY: the list is private to the primitive, whose wakers claim the epochs that they pop; `last` asks
        // `is_fired`.
        let waited = unsafe { wait_until_or::<R>(patience.deadline, patience.cancellable, publish, look, last) };
        if waited == Waited::Woken(Wake::Signalled) {
            return Ok(Wake::Signalled);
        }
        if waited != Waited::Woken(Wake::Granted) {
            match published.get() {
                Published::Not => {}
                Published::Seated(seat) => self.list.rise(R::nodes(), seat),
                Published::Queued => self.abandon(),
            }
        }
        match waited {
            Waited::Woken(Wake::TimedOut) => Err(WaitError::TimedOut),
            Waited::Woken(Wake::Cancelled) => Err(WaitError::Cancelled),
            Waited::Woken(wake) => Ok(wake),
            Waited::Retry => {
                if published.get() == Published::Not {
                    // No memory for a node: wait by asking again, at the price of the processor's time.
                    R::yield_now();
                }
                Ok(Wake::Itself)
            }
        }
    }
}

impl<R: Runtime> Drop for Waiters<R> {
    #[inline]
    fn drop(&mut self) {
        // Most objects never had a waiter.
        if !self.list.queue().is_none() {
            self.list.release(R::nodes());
        }
    }
}

/// Wakes the wait that a word of [`to_seat`] names.
#[inline(always)]
fn wake_seated<R: Runtime>(seat: u64, reason: Wake, prepare: impl FnOnce(&'static Thread<R::Machine>)) -> bool {
    // SAFETY: only `to_seat` makes the words of seats, of addresses of this many bits.
    let thread = unsafe { from_word::<R>(((seat & ((1 << ADDRESS_BITS) - 1)) << 3) as usize) };
    prepare(thread);
    match thread.claim_short(seat >> ADDRESS_BITS, reason) {
        Claim::Lost => false,
        Claim::WonArming => true,
        Claim::WonParked => {
            // SAFETY: the claim was won just now, of a thread off its stack.
            unsafe { R::make_ready(thread) };
            true
        }
    }
}

/// [`crate::runtime::wake`]; the node that was popped with the thread stays with it for its next wait.
fn wake_with_spare<R: Runtime>(thread: &'static Thread<R::Machine>, epoch: Epoch, reason: Wake, spare: Spare) -> bool {
    let claim = thread.claim(epoch, reason);
    let spare = if claim == Claim::WonParked { thread.leave_spare(spare) } else { Some(spare) };
    if let Some(spare) = spare {
        spare.give(R::nodes());
    }
    if claim == Claim::WonParked {
        // SAFETY: the claim was won just now, of a thread off its stack.
        unsafe { R::make_ready(thread) };
    }
    claim != Claim::Lost
}

/// The waiters as wakers know them: runtime memory only.
pub(crate) struct Queue<R: Runtime> {
    queue: wait_list::Queue,
    runtime: PhantomData<fn() -> R>,
}

impl<R: Runtime> Clone for Queue<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R: Runtime> Copy for Queue<R> {}

impl<R: Runtime> Queue<R> {
    /// True when nobody is queued (racy).
    pub fn is_empty(self) -> bool {
        self.queue.is_empty(R::nodes())
    }

    /// True when nobody has ever waited.
    #[inline(always)]
    pub fn is_none(self) -> bool {
        self.queue.is_none()
    }

    /// True when more than one seems to be queued (racy).
    #[inline]
    pub fn holds_several(self) -> bool {
        self.queue.holds_several(R::nodes())
    }

    /// Pops until a claim succeeds. True when a thread was woken.
    pub fn wake_one(self) -> bool {
        if let Some(seat) = self.queue.unseat(R::nodes())
            && wake_seated::<R>(seat, Wake::Signalled, |_| ())
        {
            return true;
        }
        self.wake_queued()
    }

    #[inline(never)]
    fn wake_queued(self) -> bool {
        // Not by way of the closure below: what a wake-up calls is inlined here once.
        while let Some((word, bits, spare)) = self.queue.pop_with_spare(R::nodes()) {
            // SAFETY: only `Waiters::publish` puts words into lists.
            let thread = unsafe { from_word::<R>(word) };
            if wake_with_spare::<R>(thread, Epoch::from_bits(bits), Wake::Signalled, spare) {
                return true;
            }
        }
        false
    }

    /// Pops until a claim succeeds, after `prepare` was told whom the claim would wake. For hand-overs.
    pub fn grant_one(self, prepare: impl FnMut(&'static Thread<R::Machine>)) -> bool {
        self.wake_one_with(Wake::Granted, prepare)
    }

    /// As [`Queue::wake_one`], after `prepare` was told whom the claim would wake.
    pub fn wake_one_after(self, prepare: impl FnMut(&'static Thread<R::Machine>)) -> bool {
        self.wake_one_with(Wake::Signalled, prepare)
    }

    fn wake_one_with(self, reason: Wake, mut prepare: impl FnMut(&'static Thread<R::Machine>)) -> bool {
        if let Some(seat) = self.queue.unseat(R::nodes())
            && wake_seated::<R>(seat, reason, &mut prepare)
        {
            return true;
        }
        while let Some((word, bits, spare)) = self.queue.pop_with_spare(R::nodes()) {
            // SAFETY: only `Waiters::publish` puts words into lists.
            let thread = unsafe { from_word::<R>(word) };
            prepare(thread);
            if wake_with_spare::<R>(thread, Epoch::from_bits(bits), reason, spare) {
                return true;
            }
        }
        false
    }

    /// Wakes at most `count` threads.
    pub fn wake_many(self, count: usize) {
        for _ in 0..count {
            if !self.wake_one() {
                return;
            }
        }
    }

    /// Wakes everybody who waits now.
    pub fn wake_all(self) {
        if let Some(seat) = self.queue.unseat(R::nodes()) {
            wake_seated::<R>(seat, Wake::Signalled, |_| ());
        }
        self.queue.pop_all_with_spares(R::nodes(), |word, bits, spare| {
            // SAFETY: only `Waiters::publish` puts words into lists.
            let thread = unsafe { from_word::<R>(word) };
            wake_with_spare::<R>(thread, Epoch::from_bits(bits), Wake::Signalled, spare);
        });
    }
}
