//! Threads that are event loops: they wait for many descriptors again and again, under the drop-in library.
//!
//! | such a thread is | when | and then |
//! |---|---|---|
//! | among the others | at first | it waits in the reactor |
//! | *apart* | it has waited often, under a policy without priorities that is no ring | it keeps a kernel thread to itself, and waits in the kernel as natively ([`go_apart`]) |
//! | *gathered* | others use the cores, too, and the pool was seen to do as much on fewer processors ([`crate::govern::crowd`]) | it shares the processors with the other loops, and before it waits it looks again in turn with them ([`Gathered`]) |
//!
//! Why gathered: four loops on two cores that their clients use as well are woken, and wake, for a few events each, and go from core to core. One
//! processor that goes from loop to loop finds more events at each look, hardly ever sleeps, and stays where it is. memcached -t 4 with 50 connections, its
//! clients on the same two cores of a virtual machine: 133,000 requests a second gathered on one processor, 99,000 on kernel threads, 138,000 with
//! `-t 1` (medians of five rounds in turns, 2026-11-24).
//!
//! Why it looks again: a wait in the reactor costs the kernel a way through two epoll sets for each event, and us a switch and a second look. While others find
//! something, its own events are likely to be on their way.

use crate::carry::activation::Activation;
use crate::carry::pool::Shared;
use crate::carry::switching::{activation_of, current, enter};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Looks of a gathered loop in a row that find nothing, until it waits. Untested guess: an event loop whose clients have all gone should not
/// be asked for each batch of the others.
const LOOKS: u32 = 8;

/// Threads that went apart ([`go_apart`]), since the process began.
static WENT_APART: AtomicU64 = AtomicU64::new(0);
/// Times that a pool's event loops were gathered, since the process began. Written by the monitor.
static GATHERED: AtomicU64 = AtomicU64::new(0);
/// How often a gathered loop has found something. Counter only.
static FOUND: AtomicU64 = AtomicU64::new(0);

/// What is to become of the event loops of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wish {
    /// Apart, or gathered where that is seen to be as good.
    #[default]
    Either,
    /// Never gathered.
    Apart,
    /// Gathered from the start.
    Gathered,
    /// The one and the other, changed at each look of the monitor: for tests.
    Turns,
}

impl std::str::FromStr for Wish {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "apart" => Ok(Wish::Apart),
            "gathered" => Ok(Wish::Gathered),
            "turns" => Ok(Wish::Turns),
            _ => Err(()),
        }
    }
}

/// Whether a pool's event loops are gathered. The monitor changes it.
#[derive(Debug)]
pub(crate) struct Loops {
    wish: Wish,
    gathered: AtomicBool,
}

impl Loops {
    pub fn new(wish: Wish) -> Loops {
        Loops { wish, gathered: AtomicBool::new(wish == Wish::Gathered) }
    }

    #[inline]
    pub fn are_gathered(&self) -> bool {
        self.gathered.load(Ordering::Relaxed)
    }

    /// A look of the monitor, by which the pool has `fewer` processors than it could have, since it does as much.
    pub fn look(&self, fewer: bool) {
        let before = self.are_gathered();
        let now = match self.wish {
            Wish::Either => fewer,
            Wish::Apart => false,
            Wish::Gathered => true,
            Wish::Turns => !before,
        };
        if now != before {
            self.gathered.store(now, Ordering::Relaxed);
            GATHERED.fetch_add(u64::from(now), Ordering::Relaxed);
        }
    }
}

/// True while the calling lightweight thread is apart, alone with a kernel thread that carries no processor: from [`go_apart`] until it waits or
/// yields.
#[inline]
pub fn is_apart() -> bool {
    current().is_some_and(|me| activation_of(me).apart.load(Ordering::Relaxed))
}

/// Hands the calling lightweight thread's processor to a spare activation; the thread goes on, alone with its kernel thread, and may block in
/// the kernel as it likes. False where its pool has a policy with priorities or a ring, which then decides who runs; where no kernel thread
/// can be had; and where about twice as many threads as processors are apart already.
pub fn go_apart() -> bool {
    let Some(me) = current().filter(|_| crate::guest::is_lightweight()) else { return false };
    // The processor that it has by now.
    let inside = enter(me);
    let processor = inside.processor();
    inside.leave();
    let pool = processor.pool;
    if !pool.lets_go()
        || crate::carry::activations::all().filter(|a| a.apart.load(Ordering::Relaxed)).count() >= 2 * pool.active()
    {
        return false;
    }
    // Outside the mark: it may have to start a kernel thread.
    let Some(spare) = pool.spare() else { return false };
    if !crate::guest::hand_over(me, processor, spare, true) {
        return false;
    }
    WENT_APART.fetch_add(1, Ordering::Relaxed);
    // Asleep, it has not counted on a loop that may be crowded.
    crate::govern::monitor::hint();
    true
}

/// Runs `f`, in which the caller waits in the kernel, without a deadline, until another thread of this process changes the word at `address`. For
/// threads that are apart, so that a dead-lock in which they take part is known for one.
pub fn wait_apart<T>(address: usize, f: impl FnOnce() -> T) -> T {
    let Some(activation) = current().map(activation_of) else { return f() };
    // SeqCst, as the look at the others: of several that begin to wait together the last one sees all.
    activation.waits_for.store(address, Ordering::SeqCst);
    let last = crate::carry::activations::all()
        .all(|a| !a.apart.load(Ordering::Relaxed) || a.waits_for.load(Ordering::SeqCst) != 0);
    if last {
        // The monitor, asleep, may rely on this thread to wake somebody.
        crate::govern::monitor::hint();
    }
    let result = f();
    activation.waits_for.store(0, Ordering::Relaxed);
    result
}

/// How often threads went apart.
pub fn went_apart() -> u64 {
    WENT_APART.load(Ordering::Relaxed)
}

/// How often event loops were gathered, those of a pool at once.
pub fn times_gathered() -> u64 {
    GATHERED.load(Ordering::Relaxed)
}

/// The activations whose threads are apart and were of that pool, if they may be gathered.
pub(crate) fn apart_of(pool: &'static Shared) -> impl Iterator<Item = &'static Activation> {
    let of_pool = move |a: &&Activation| a.processor_if_any().is_some_and(|p| std::ptr::eq(p.pool, pool));
    let all = crate::carry::activations::all().filter(|a| a.apart.load(Ordering::Relaxed)).filter(of_pool);
    all.filter(|_| pool.loops.wish != Wish::Apart)
}

/// Gives others a turn, those included whose events nobody has fetched yet: before a thread asks for many descriptors at once, and may find
/// something each time, so that it would never wait. The calling thread then looks whether it was interrupted.
#[inline]
pub fn take_turns() {
    if let Some(me) = current()
        && crate::carry::switching::take_turns(me)
    {
        note_turns(1);
        crate::guest::poll_interruption();
    }
}

/// The caller has found so many events by a wait for many descriptors. Not to be called by one who is apart and will never be gathered.
#[inline]
pub fn note_events(events: u64) {
    if let Some(me) = current() {
        add(&activation_of(me).found, events);
    }
}

/// As [`note_events`], by one who is apart.
#[inline]
pub fn note_events_apart(events: u64) {
    if let Some(me) = current()
        && activation_of(me).processor().pool.loops.wish != Wish::Apart
    {
        add(&activation_of(me).found, events);
    }
}

/// The caller has left its processor so many times for the sake of events that it counts itself, or in order to give others a turn: such switches tell
/// nothing of what gets done.
#[inline]
pub fn note_turns(turns: u64) {
    if let Some(me) = current() {
        add(&activation_of(me).turns, turns);
    }
}

/// Single writer: the kernel thread that runs this.
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// A wait of a gathered thread.
#[derive(Debug)]
pub struct Gathered {
    /// How often anybody had found something at its last look.
    found: u64,
    left: u32,
}

/// A new wait of the caller, an event loop. `None` while loops are not gathered.
#[inline]
pub fn gather() -> Option<Gathered> {
    let pool = activation_of(current()?).processor().pool;
    pool.loops.are_gathered().then_some(Gathered { found: u64::MAX, left: LOOKS })
}

impl Gathered {
    /// After a look that found nothing. True if the caller is to look again at once: others have had a turn. False if it is to wait, since nobody
    /// has found anything since its look before, or it has looked often enough.
    pub fn looks_again(&mut self) -> bool {
        let found = FOUND.load(Ordering::Relaxed);
        if self.left == 0 || found == self.found {
            return false;
        }
        (self.found, self.left) = (found, self.left - 1);
        take_turns();
        true
    }

    /// The wait has ended with events.
    pub fn found(self) {
        FOUND.fetch_add(1, Ordering::Relaxed);
    }
}
