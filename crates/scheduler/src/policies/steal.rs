//! `steal(order, victims=..., batch=...)`: a queue per processor, and idle processors take half of another's. The
//! default.
//!
//! Source: the scheduler of the Go language and the local-queue schedulers of *Effective parallelism with OCaml
//! schedulers* (the MSc report), chapter 4.3, with the report's neighbours and least batch (chapter 7.1.1). Differs:
//! threads that have not started wait apart from those that ran, newest first, so that a tree of threads is walked in
//! depth and few stacks are alive.
//!
//! A processor has
//! - `near`: a short private queue in front of `fifo`, to which nothing is locked: while nobody is hungry and nothing
//!   waits in `fifo`, threads come and go here; when it has run dry, a batch comes from `fifo`;
//! - `fifo`: woken, yielded and submitted threads, oldest first;
//! - `lifo`: threads that have not started, newest first (with `steal(fifo)` they go to `fifo` too);
//!
//! All processors share `inbox`, for those who own no processor and for queues that memory does not let grow.
//!
//! Fairness, for a processor that is not idle: of [`ROUND`] selections one prefers `lifo`, the others `near` and
//! `fifo`; of [`ELDERS`] one takes the *oldest* of `lifo` and empties the inbox into `fifo`. So k threads in `near` and
//! `fifo` before one delay it by at most k + k/7 + 1 selections; a loop of yields, or of threads that wake each other,
//! lets every thread of the processor run; and a thread that has not started starts although newer ones keep coming.
//! (When somebody becomes hungry, what is near goes behind what is in `fifo`: once, and by a batch at most.)
//!
//! Who waits for a thread that ends goes on in its place, before threads that have not started, if nobody waits in
//! `near` and `fifo`: that counts as a selection, too. So a tree of threads that join their children stays in depth,
//! and finds most of them not started, which it can run in its own place.
//!
//! Back-pressure: a thread that has spawned [`CROWD`] others here of which none has started steps back when it is asked
//! to ([`Local::crowded`], [`Local::step_back`]): it goes on when those have started, or were taken by others, and no
//! later than after a time ([`PATIENCE_NS`]), longer with a longer queue, so that a queue that grows faster than it
//! empties does not grow for ever. Where one of those computes instead, perhaps until its spawner has done something,
//! the runtime finds that out and ends the wait ([`Local::expose`]). Who steps back is behind its own threads and not
//! behind older ones, so a tree is walked in depth as before.
//!
//! What is private: `near`, the batch that the `fifo`'s owner claimed or hid ([`WINDOW`]), and the newest 32 to 64 of
//! `lifo`. A push that is told so publishes all of it (the runtime says so when a processor is idle and worth its
//! wake-up; [`Local::push`] when somebody is hungry, sleeping or searching); a processor that only selects is made to
//! by [`StealLocal::share`].
//!
//! Suits: almost everything; fork-join trees, servers, pipelines. Bad at: strict order or latency bounds across
//! processors (a thread waits for *its* processor's queue while others are busy elsewhere), priorities, one spawner
//! that feeds very many processors (each of them steals from that one).
//!
//! A frozen processor strands its private threads, until it is taken over; others take the rest.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::policies::{self, Busy};
//! use raddle_scheduler::Policy;
//! let shape = "steal(victims=neighbours(4))".parse().unwrap();
//! let policy = policies::build::<Real>(&shape, 2, std::sync::Arc::new(Busy)).unwrap();
//! let local = policy.local(0);
//! assert!(!local.has_work() && !local.holds_private());
//! ```
#![forbid(unsafe_code)]

mod search;

use super::Others;
use crate::expression::{Order, Stealing};
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::{Ready, Upcoming};
use crate::thread::Thread;
use crate::tokens::{Fifo, FifoView, Inbox, Lifo, LifoView, Near};
use raddle_machine::Machine;
use raddle_queues::Full;
use std::sync::{Arc, Mutex, OnceLock};

/// One of so many selections prefers threads that have not started. A power of two.
pub const ROUND: u32 = 8;
/// One of so many selections takes the oldest thread that has not started and looks into the inbox. A power of two.
pub const ELDERS: u32 = 64;
/// How many pushes the owner may hide from thieves while nobody is hungry, to take them without a locked instruction.
/// Simulated, 1,000 threads that yield on two cores: 0.45 ms with 64, 0.99 with 16; packets and trees as before
/// (2026-11-28, docs/constants.md).
pub const WINDOW: u64 = 64;
/// Private threads that have not started: published down to `KEEP` when there are `PRIVATE`.
const PRIVATE: u64 = 64;
const KEEP: u64 = 32;
/// Slots that an idle processor's queues keep: twice the window at least.
const CAPACITY: u64 = 256;
/// Threads that come near at once when `near` has run dry. Nobody can steal those: with 64 one core takes all 64
/// threads that yield from the other. Simulated on two cores, these take 0.32, 0.37, 1.5 and 8.1 ms with 8, 16, 32 and
/// 64, 256 threads 0.32, 0.31, 0.36 and 1.6, 1,000 threads 0.48, 0.47, 0.46 and 0.45; packets and trees as before
/// (2026-11-28, docs/constants.md).
const BATCH: u32 = 16;

/// Threads that one spawns in a row before it is to step back: more than a node of a tree has branches, few enough for
/// what they bring to be in the caches. With 128 the packets of the bench workload take some 300 KB.
pub const CROWD: u32 = 128;
/// Threads that step back at a time; one more yields instead.
const BACK: usize = 16;
/// Who has stepped back waits at most so long while [`CROWD`] threads wait here that have not started, twice as long
/// while twice as many do. Go's time slice.
pub const PATIENCE_NS: u64 = 10_000_000;

/// A thread that has stepped back.
struct Back<M: Machine> {
    thread: Ready<M>,
    /// It goes on when at most so many wait that have not started.
    level: u64,
    since: u64,
}

struct Part<M: Machine> {
    fifo: FifoView<M>,
    lifo: LifoView<M>,
}

impl<M: Machine> Part<M> {
    fn offers(&self) -> u64 {
        self.fifo.len() + self.lifo.len()
    }
}

struct Shared<M: Machine> {
    parts: Box<[OnceLock<Part<M>>]>,
    inbox: Inbox<M>,
    options: Stealing,
    /// [`PATIENCE_NS`].
    patience_ns: u64,
    others: Arc<dyn Others>,
}

impl<M: Machine> Shared<M> {
    fn offers(&self) -> bool {
        !self.inbox.is_empty() || self.parts.iter().any(|part| part.get().is_some_and(|part| part.offers() > 0))
    }
}

/// The policy: makes one [`StealLocal`] per processor. With `NEWEST` it is [`super::lifo`].
pub struct Steal<M: Machine, const NEWEST: bool = false>(Arc<Shared<M>>, Mutex<Vec<Option<Ends<M>>>>);

/// The queues that wait for [`Policy::local`]; touched only before the pool runs.
type Ends<M> = (Fifo<M>, Lifo<M>);

impl<M: Machine, const NEWEST: bool> Steal<M, NEWEST> {
    /// For at most `processors` processors. `others` answers for [`Local::push`]; the methods of [`StealLocal`] are
    /// told.
    pub fn new(options: Stealing, processors: usize, others: Arc<dyn Others>) -> Result<Self, Full> {
        Self::with_patience(options, processors, others, PATIENCE_NS)
    }

    /// As [`Steal::new`], with another time for who steps back than [`PATIENCE_NS`].
    pub fn with_patience(
        options: Stealing,
        processors: usize,
        others: Arc<dyn Others>,
        patience_ns: u64,
    ) -> Result<Self, Full> {
        let parts = (0..processors).map(|_| OnceLock::new()).collect();
        let ends = (0..processors).map(|_| Ok(Some((Fifo::new(CAPACITY)?, Lifo::new(CAPACITY)?))));
        let ends = Mutex::new(ends.collect::<Result<_, Full>>()?);
        Ok(Self(Arc::new(Shared { parts, inbox: Inbox::default(), options, patience_ns, others }), ends))
    }

    /// [`Policy::local`] without a box, to be called statically.
    pub fn local_part(&self, index: usize) -> StealLocal<M, NEWEST> {
        let ends = self.1.lock().unwrap_or_else(|poisoned| poisoned.into_inner())[index].take();
        let (fifo, lifo) = ends.unwrap_or_else(|| panic!("processor {index} of `steal` was made twice"));
        let part = Part { fifo: fifo.view(), lifo: lifo.view() };
        let _first = self.0.parts[index].set(part);
        let mut local = StealLocal {
            near: Near::default(),
            direct: !NEWEST,
            budget: ROUND - 1,
            turn: 0,
            windowed: false,
            spawned_apart: self.0.options.order == Order::Lifo,
            spawned: 0,
            crowd: CROWD,
            fifo,
            lifo,
            back: Vec::with_capacity(BACK),
            shared: self.0.clone(),
            index,
            random: M::random() | 1,
            tried: 0,
            won: 0,
        };
        local.set_window(true);
        local
    }
}

impl<M: Machine, const NEWEST: bool> Policy<M> for Steal<M, NEWEST> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        Box::new(self.local_part(index))
    }

    fn submit(&self, thread: Ready<M>) -> Notify {
        self.0.inbox.push(thread);
        Notify::Anyone
    }

    /// Links in the threads, and rings, which grow by maps of the kernel's.
    fn takes_anywhere(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        if NEWEST { "lifo".to_string() } else { self.0.options.to_string() }
    }

    fn offers(&self) -> bool {
        self.0.offers()
    }

    fn strands(&self) -> &'static str {
        "a frozen processor strands its running thread, at most 320 threads that it has at hand or claimed, its \
         newest 64 that have not started, and at most 16 that step back behind those that they spawned, until it is taken over"
    }
}

/// One processor's part of [`Steal`].
pub struct StealLocal<M: Machine, const NEWEST: bool = false> {
    near: Near<M>,
    /// True while `near` takes pushes: nothing waits in `fifo`.
    direct: bool,
    /// Selections left until the slow path looks at what usually comes second.
    budget: u32,
    turn: u32,
    windowed: bool,
    spawned_apart: bool,
    /// Threads that were spawned since one started that had not, and with how many the spawner steps back: [`CROWD`],
    /// but twice as many as the last time after one had waited for threads that compute.
    spawned: u32,
    crowd: u32,
    fifo: Fifo<M>,
    lifo: Lifo<M>,
    /// Who has stepped back, the last of them last.
    back: Vec<Back<M>>,
    shared: Arc<Shared<M>>,
    index: usize,
    random: u64,
    tried: u64,
    won: u64,
}

impl<M: Machine, const NEWEST: bool> StealLocal<M, NEWEST> {
    /// Takes a thread that became ready. `hungry`: some processor sleeps or searches.
    #[inline(always)]
    pub fn push_with(&mut self, thread: Ready<M>, cause: Cause, hungry: bool) -> Notify {
        if cause == Cause::Spawned && self.spawned_apart || cause == Cause::Woken && NEWEST {
            return self.push_lifo(thread, hungry);
        }
        if !hungry && self.direct && !self.near.is_full() {
            self.near.push(thread);
            return Notify::Nobody;
        }
        self.push_slow(thread, hungry)
    }

    /// Somebody is hungry, or `near` is full, or something waits in `fifo`, as it may after a search.
    #[inline(never)]
    fn push_slow(&mut self, thread: Ready<M>, hungry: bool) -> Notify {
        if !hungry && !NEWEST && self.near.is_empty() && self.fifo.is_empty() {
            // Nothing does. In `fifo` it would lie open, and somebody would be woken for it whom the caller decided to
            // leave alone.
            self.direct = true;
            self.near.push(thread);
            return Notify::Nobody;
        }
        if hungry == self.windowed {
            self.set_window(!hungry);
        }
        self.push_fifo(thread, hungry)
    }

    #[inline]
    fn push_lifo(&mut self, thread: Ready<M>, hungry: bool) -> Notify {
        self.budget = self.budget.min(ROUND);
        self.spawned += 1;
        if let Err(thread) = self.lifo.push(thread) {
            return self.overflow(thread);
        }
        if hungry {
            self.lifo.publish(0);
            return Notify::Anyone;
        }
        if self.lifo.private_len() < PRIVATE {
            return Notify::Nobody;
        }
        self.lifo.publish(KEEP);
        Notify::Anyone
    }

    fn push_fifo(&mut self, thread: Ready<M>, hungry: bool) -> Notify {
        self.direct = false;
        if NEWEST {
            self.budget = self.budget.min(ROUND);
        }
        if hungry {
            self.share_near();
        }
        let private = self.fifo.private_len();
        if let Err(thread) = self.fifo.push(thread) {
            return self.overflow(thread);
        }
        if hungry {
            self.fifo.publish();
            return Notify::Anyone;
        }
        if self.fifo.private_len() > private { Notify::Nobody } else { Notify::Anyone }
    }

    /// Where a queue that cannot grow puts its threads.
    #[cold]
    fn overflow(&mut self, thread: Ready<M>) -> Notify {
        self.shared.inbox.push(thread);
        Notify::Anyone
    }

    /// Moves what is near into `fifo`, in order; it goes behind what is there, which is newer only by a batch.
    fn share_near(&mut self) {
        self.direct = false;
        while let Some(thread) = self.near.pop() {
            if let Err(thread) = self.fifo.push(thread) {
                self.shared.inbox.push(thread);
            }
        }
    }

    fn set_window(&mut self, open: bool) {
        self.windowed = open;
        self.fifo.set_window(if open { WINDOW } else { 0 });
    }

    /// True if nothing is here at all.
    fn is_bare(&self) -> bool {
        self.near.is_empty() && self.fifo.is_empty() && self.lifo.is_empty() && self.back.is_empty()
    }

    /// The next thread from what is at hand.
    #[inline(always)]
    pub fn take(&mut self) -> Option<Ready<M>> {
        if self.budget > 0
            && let Some(thread) = self.near.pop()
        {
            self.budget -= 1;
            return Some(thread);
        }
        self.take_slow()
    }

    /// True if nobody waits here that has run.
    #[inline(always)]
    fn walks_in_depth(&self) -> bool {
        self.spawned_apart && !NEWEST && self.near.is_empty() && (self.direct || self.fifo.is_empty())
    }

    /// The newest of those that have not started, or of all.
    #[inline(always)]
    fn pop_newest(&mut self) -> Option<Ready<M>> {
        self.spawned = 0;
        let Self { lifo, shared, .. } = self;
        lifo.pop_telling(|| shared.others.wake(Notify::Anyone))
    }

    #[inline(never)]
    fn take_slow(&mut self) -> Option<Ready<M>> {
        if self.budget == 0 {
            self.turn = self.turn.wrapping_add(1);
            let seldom = self.lifo.is_empty() || NEWEST && self.fifo.is_empty();
            self.budget = if seldom { ELDERS } else { ROUND } - 1;
            if seldom {
                self.turn = ELDERS / ROUND;
            }
            if let Some(thread) = self.take_in_turn() {
                return Some(thread);
            }
        } else {
            self.budget -= 1;
        }
        if NEWEST && let Some(thread) = self.pop_newest() {
            return Some(thread);
        }
        if let Some(thread) = self.near.pop() {
            return Some(thread);
        }
        if let Some(thread) = self.fifo.pop() {
            // A batch comes near, where the next selections find it; unless somebody was hungry of late.
            for _ in 1..if self.windowed { BATCH } else { 1 } {
                let Some(next) = self.fifo.pop() else { break };
                self.near.push(next);
            }
            // A chain of threads that wake each other never finds `fifo` empty at a selection.
            self.direct = !NEWEST && self.fifo.is_empty();
            return Some(thread);
        }
        // Nothing waits in `fifo`: `near` may take pushes again.
        self.direct = !NEWEST;
        if !NEWEST {
            if !self.is_awaited()
                && let Some(back) = self.back.pop()
            {
                self.crowd = CROWD;
                return Some(back.thread);
            }
            if let Some(thread) = self.pop_newest() {
                return Some(thread);
            }
            // Others have taken what was there.
            if let Some(back) = self.back.pop() {
                return Some(back.thread);
            }
        }
        if self.shared.inbox.is_empty() { None } else { self.take_last() }
    }

    /// The selections that prefer what usually comes second.
    #[inline(never)]
    fn take_in_turn(&mut self) -> Option<Ready<M>> {
        if !self.back.is_empty()
            && let Some(thread) = self.come_back()
        {
            return Some(thread);
        }
        if !self.turn.is_multiple_of(ELDERS / ROUND) {
            return if NEWEST { self.fifo.pop() } else { self.pop_newest() };
        }
        self.empty_inbox();
        self.spawned = 0;
        self.lifo.pop_oldest()
    }

    /// True while threads have to start before the last one that has stepped back may go on.
    #[inline(always)]
    fn is_awaited(&self) -> bool {
        self.back.last().is_none_or(|back| self.lifo.len() > back.level)
    }

    /// Beside threads that have run: the last one that has stepped back if it may go on, or the first one if it has
    /// waited for long enough.
    #[cold]
    #[inline(never)]
    fn come_back(&mut self) -> Option<Ready<M>> {
        if !self.is_awaited() {
            return self.back.pop().map(|back| back.thread);
        }
        self.is_overdue(self.lifo.len()).then(|| self.back.remove(0).thread)
    }

    /// True if who has stepped back first has waited for long enough.
    fn is_overdue(&self, unstarted: u64) -> bool {
        let patience = self.shared.patience_ns.saturating_mul((unstarted / u64::from(CROWD)).max(1));
        self.back.first().is_some_and(|back| M::now().saturating_sub(back.since) >= patience)
    }

    /// Who has stepped back and should not wait any longer where nothing here starts goes to where others find it.
    #[cold]
    #[inline(never)]
    fn share_back(&mut self) {
        if self.lifo.is_empty() || self.is_overdue(0) {
            self.release_back();
        }
    }

    /// Who has stepped back is as any other thread that waits here.
    fn release_back(&mut self) {
        while let Some(back) = self.back.pop() {
            if let Err(thread) = self.fifo.push(back.thread) {
                self.shared.inbox.push(thread);
            }
        }
    }

    /// Nothing in the queues: what came from outside.
    #[cold]
    #[inline(never)]
    fn take_last(&mut self) -> Option<Ready<M>> {
        self.empty_inbox();
        self.fifo.pop()
    }

    /// Moves what came from outside into `fifo`, where it is as stealable as it was.
    fn empty_inbox(&mut self) {
        if self.shared.inbox.is_empty() {
            return;
        }
        self.set_window(false);
        self.share_near();
        self.fifo.publish();
        let Self { fifo, shared, .. } = self;
        let mut moved = 0;
        // All were taken out before the first is handed on: what does not fit goes back, in its order and without
        // memory, since who waits here may have interrupted the allocator ([`Policy::takes_anywhere`]).
        shared.inbox.take_all(|thread| {
            moved += 1;
            if let Err(thread) = fifo.push(thread) {
                shared.inbox.push(thread);
            }
        });
        // Whoever looked while they were on their way has seen nothing.
        if moved > 1 {
            shared.others.wake(Notify::Anyone);
        }
    }

    /// Makes everything takeable by others: what the runtime calls when it finds somebody hungry whom that
    /// helps. Answers [`Notify::Anyone`] for what was takeable before, too: nobody may be awake who knows.
    pub fn share(&mut self) -> Notify {
        self.set_window(false);
        self.share_near();
        if !self.back.is_empty() {
            self.share_back();
        }
        self.fifo.publish();
        self.lifo.publish(0);
        if self.fifo.is_empty() && self.lifo.is_empty() { Notify::Nobody } else { Notify::Anyone }
    }

    /// How many threads are here (racy).
    pub fn len(&self) -> u64 {
        self.fifo.len() + self.lifo.len() + u64::from(self.near.len()) + self.back.len() as u64
    }

    /// True if no thread is here (racy).
    pub fn is_empty(&self) -> bool {
        self.is_bare()
    }
}

impl<M: Machine, const NEWEST: bool> Local<M> for StealLocal<M, NEWEST> {
    #[inline]
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        let hungry = self.shared.others.hungry();
        self.push_with(thread, cause, hungry)
    }

    #[inline(always)]
    fn push_told(&mut self, thread: Ready<M>, cause: Cause, tell: bool) -> Notify {
        self.push_with(thread, cause, tell)
    }

    #[inline(always)]
    fn hides(&self) -> bool {
        true
    }

    /// Near, and in the window.
    #[inline(always)]
    fn hidden(&self) -> u64 {
        u64::from(self.near.len()) + self.fifo.private_len() + self.back.len() as u64
    }

    #[inline(always)]
    fn hides_unstarted(&self) -> bool {
        self.lifo.private_len() > 0
    }

    #[inline(always)]
    fn upcoming(&self, n: u32) -> Option<Upcoming> {
        // While `near` suffices for all, their stacks are in the caches.
        if self.direct { None } else { self.near.peek(n) }
    }

    #[inline(always)]
    fn has_own(&self) -> bool {
        !self.is_bare()
    }

    #[inline(always)]
    fn next(&mut self, _floor: u8) -> Option<Ready<M>> {
        self.take()
    }

    fn search(&mut self) -> Option<Ready<M>> {
        self.search_all()
    }

    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        self.take_from(victim)
    }

    fn has_work(&self) -> bool {
        !self.is_bare() || self.shared.offers()
    }

    fn holds_private(&self) -> bool {
        !self.near.is_empty() || !self.back.is_empty() || self.fifo.private_len() + self.lifo.private_len() > 0
    }

    #[inline(always)]
    fn crowded(&self) -> bool {
        !NEWEST && self.spawned >= self.crowd
    }

    fn step_back(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        self.spawned = 0;
        // Thieves may have taken them meanwhile.
        let unstarted = self.lifo.len();
        if self.back.len() == BACK || unstarted < u64::from(CROWD) / 2 {
            return Err(thread);
        }
        self.back.push(Back { thread, level: unstarted.saturating_sub(u64::from(CROWD)), since: M::now() });
        Ok(())
    }

    #[inline(always)]
    fn next_is(&mut self, thread: &'static Thread<M>) -> Option<Ready<M>> {
        // What a selection takes that is not one of those which look for the oldest, and for what came from outside.
        if !self.walks_in_depth() || !self.back.is_empty() {
            return None;
        }
        let ends_round = self.budget == 0;
        if ends_round && self.turn.wrapping_add(1).is_multiple_of(ELDERS / ROUND) {
            return None;
        }
        let thread = self.lifo.pop_if(thread)?;
        if ends_round {
            self.turn = self.turn.wrapping_add(1);
            self.budget = ROUND;
        }
        self.budget -= 1;
        self.spawned = 0;
        Some(thread)
    }

    /// Nobody waits here that has run: the next selection but one would find that thread.
    #[inline(always)]
    fn hands_over(&mut self) -> bool {
        let hands = self.budget > 0 && self.walks_in_depth();
        self.budget -= u32::from(hands);
        hands
    }

    fn publish(&mut self) -> Notify {
        self.share()
    }

    /// One of the threads that it waits for computes, perhaps until the spawner has done something.
    fn expose(&mut self) -> Notify {
        if !self.back.is_empty() {
            self.share_near();
            self.release_back();
            self.crowd = self.crowd.saturating_mul(2);
        }
        self.share()
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        while let Some(thread) = self.near.pop().or_else(|| self.fifo.pop()).or_else(|| self.lifo.pop()) {
            out(thread);
        }
        self.back.drain(..).for_each(|back| out(back.thread));
        self.shared.inbox.take_all(out);
    }

    fn steals(&self) -> (u64, u64) {
        (self.tried, self.won)
    }
}
