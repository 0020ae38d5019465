//! What the processors of a pool share, and what all pools do: descriptors, stacks, threads from outside.

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::errors::BuildError;
use crate::carry::loops::{Loops, Wish};
use crate::carry::processor::Processor;
use crate::carry::quanta::Quanta;
use crate::os;
use raddle_context::stack::Arena;
use raddle_context::tls::Tls;
use raddle_machine::{Machine, Real};
use raddle_queues::slab::Slab;
use raddle_scheduler::idle::Idle;
use raddle_scheduler::policies::AnyPolicy;
use raddle_scheduler::spares::Spares;
use raddle_scheduler::standing::Standing;
use raddle_scheduler::takeover::ActivationId;
use raddle_scheduler::watchman::Watchman;
use raddle_scheduler::{Notify, Policy, Ready};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Pools that a process may have at once.
pub(crate) const MAX_POOLS: usize = 256;
/// The largest pool.
pub const MAX_PROCESSORS: usize = 1024;

/// Spares that a pool keeps, at most.
const MOST_SPARES: usize = 64;

/// The default stack slot: address space, of which a parked thread touches two pages.
pub const DEFAULT_STACK: usize = 256 * 1024;
/// Slots of the default class: so many threads may be alive at once.
const DEFAULT_SLOTS: usize = if cfg!(raddle_tsan) { SLOTS_WATCHED } else { 1 << 24 };
/// ThreadSanitizer keeps a shadow of each address, and at most some 8,000 threads that have started.
const SLOTS_WATCHED: usize = 1 << 14;
/// Slots of an arena that is made when memory is locked: its table is had at once, 8 bytes for each.
const SLOTS_LOCKED: usize = 1 << 17;
/// Address space for each other class.
const CLASS_SPACE: usize = if cfg!(raddle_tsan) { 1 << 32 } else { 1 << 42 };

static POOLS: [AtomicPtr<Shared>; MAX_POOLS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_POOLS];
static ARENAS: [OnceLock<&'static Arena>; 64] = [const { OnceLock::new() }; 64];
static DESCRIPTORS: OnceLock<Arc<Slab<Descriptor, Real>>> = OnceLock::new();
pub(crate) static TLS: OnceLock<&'static Tls> = OnceLock::new();
/// All descriptors of the process.
pub(crate) fn descriptors() -> &'static Arc<Slab<Descriptor, Real>> {
    DESCRIPTORS.get_or_init(|| {
        let slab = Slab::for_processors(os::usable(), |_| Descriptor::default());
        crate::carry::debug_layout::publish(&slab);
        slab
    })
}

/// The C library's layout; only after a pool was built.
#[inline(always)]
pub(crate) fn tls() -> &'static Tls {
    TLS.get().expect("lightweight threads exist only after the self-check")
}

/// The state that all processors of a pool share.
pub(crate) struct Shared {
    pub index: u32,
    pub idle: Arc<Idle<Real>>,
    policy: AnyPolicy<Real>,
    /// What the policy calls itself.
    name: Arc<str>,
    processors: OnceLock<Box<[Processor]>>,
    pub priorities: u8,
    directed: bool,
    takes_anywhere: bool,
    /// Whether its processors follow what the process is allotted.
    pub follows: bool,
    /// Whether some of them may rest while others use the cores ([`crate::govern::crowd`]).
    pub may_have_fewer: bool,
    /// Whether a thread that was suspended goes on on another processor ([`crate::carry::wander`]).
    pub wanders: bool,
    /// Whether its event loops share its processors for now.
    pub loops: crate::carry::loops::Loops,
    /// How many processors it is to have, if stages move them ([`crate::services::stage`]); 0 otherwise.
    wanted: AtomicUsize,
    stopping: AtomicBool,
    /// True once all processors have their activations: before that the monitor leaves the pool alone.
    open: AtomicBool,
    refused_until: AtomicU64,
    /// Threads spawned into this pool by nobody's processor.
    pub outside_spawned: AtomicU64,
    /// Threads that were made ready from outside; wraps. Counter only.
    pub submitted: AtomicU64,
    /// Threads that were dedicated, or kernel threads from the beginning, and have ended.
    pub ended_alone: AtomicU64,
    /// Threads that came from another pool.
    pub moved_in: AtomicU64,
    spares: Spares<Real, MOST_SPARES>,
    kernel_threads: AtomicU32,
    prefix: String,
    /// Of quantum checks.
    pub quanta: Quanta,
    /// The signals that its kernel threads block: what whoever built the pool blocked.
    mask: u64,
}

impl Shared {
    pub fn processors(&self) -> &[Processor] {
        self.processors.get().map_or(&[], |p| p)
    }

    /// How many of its processors take part.
    pub fn active(&self) -> usize {
        self.processors().iter().filter(|p| p.seat.is_active()).count()
    }

    /// True while every processor that has not retired sleeps (racy).
    pub fn all_asleep(&self) -> bool {
        let there = self.processors().iter().filter(|p| p.seat.standing() != Standing::Retired).count();
        self.idle.sleeping() == there
    }

    /// True while each of its processors sleeps and has not been called since (racy).
    pub fn nobody_called(&self) -> bool {
        self.processors().iter().all(|p| p.seat.standing() == Standing::Retired || self.idle.is_sleeping(p.index))
    }

    /// Its processors, made by the first who calls.
    pub fn with_processors(&self, make: impl FnOnce() -> Box<[Processor]>) -> &[Processor] {
        self.processors.get_or_init(make)
    }

    /// All its processors have their activations.
    pub fn set_open(&self) {
        self.open.store(true, Ordering::Release);
    }

    /// It has no threads any more: its kernel threads end. Who falls asleep without having seen that is called by the
    /// next turn.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        while self.kernel_threads() != 0 {
            while self.idle.kick() {}
            while let Some(spare) = self.waiting_spare() {
                spare.end();
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    /// Nobody knows it any more.
    pub fn unregister(&self) {
        POOLS[self.index as usize].store(std::ptr::null_mut(), Ordering::Release);
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// How many processors it is to have, if stages move them; 0 otherwise.
    pub fn wanted(&self) -> usize {
        self.wanted.load(Ordering::Relaxed)
    }

    /// From now on it is to have so many processors; the monitor sees to it. 0: as many as it has.
    pub fn want(&self, processors: usize) {
        self.wanted.store(processors, Ordering::Relaxed);
    }

    /// What its policy calls itself.
    pub fn describe(&self) -> &str {
        &self.name
    }

    /// Whether its policy may be asked to take a thread whatever the caller is in the middle of.
    pub fn takes_anywhere(&self) -> bool {
        self.takes_anywhere
    }

    /// Gives the policy a thread from outside.
    fn submit(&self, ready: Ready<Real>) -> Notify {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        match &self.policy {
            AnyPolicy::Steal(steal) => steal.submit(ready),
            AnyPolicy::Other(other) => crate::carry::guard::policy(&self.name, || other.submit(ready)),
        }
    }

    pub fn is_directed(&self) -> bool {
        self.directed
    }

    /// True where a thread may leave its processor for a kernel thread of its own: under a policy with an order among
    /// threads, or among processors, that one alone decides who runs.
    pub fn lets_go(&self) -> bool {
        self.priorities == 1 && !self.directed
    }

    /// Wakes whom a push concerns.
    #[inline(always)]
    pub fn notify(&self, notify: Notify) {
        if notify != Notify::Nobody {
            self.idle.tell(notify);
            self.monitor_hint();
        }
    }

    /// A thread of this priority became ready: if no processor is idle, the one that runs the least important thread is
    /// asked to switch at its next check.
    #[cold]
    pub fn outrank(&self, priority: u8) {
        if self.idle.hungry() {
            return;
        }
        let running = |p: &&Processor| p.running.load(Ordering::Relaxed);
        if let Some(processor) = self.processors().iter().max_by_key(running)
            && running(&processor) > priority
        {
            processor.preempt.store(true, Ordering::Relaxed);
            if let Some(owner) = crate::carry::activations::find(processor.seat.owner.owner()) {
                owner.ticker.ring();
            }
        }
    }

    /// An activation without a processor waits here for an order. False where there are spares enough: it is to end.
    #[must_use = "a spare that is not listed must end"]
    pub fn became_spare(&self, activation: &'static Activation) -> bool {
        // The end of the pool looks until no kernel thread is left: who takes a spare from the list tells it to stop,
        // once, since its record may serve another pool after that.
        self.spares.list(activation.id)
    }

    /// A spare activation that waits for an order.
    pub fn waiting_spare(&self) -> Option<Spare<'_>> {
        let activation = self.spares.take().and_then(crate::carry::activations::find)?;
        Some(Spare { pool: self, activation })
    }

    /// Has at least so many spares listed, as far as kernel threads can be had.
    pub fn stock(&'static self, spares: usize) {
        for _ in self.spares.count()..spares {
            // It goes to the list.
            let Some(_spare) = self.new_spare() else { return };
        }
    }

    /// A spare activation, started if there is none. `None` when no kernel thread can be had.
    pub fn spare(&'static self) -> Option<Spare<'static>> {
        self.waiting_spare().or_else(|| self.new_spare())
    }

    fn new_spare(&'static self) -> Option<Spare<'static>> {
        // Where the kernel refuses threads, it is not asked again at every look.
        let now = Real::now();
        if now < self.refused_until.load(Ordering::Relaxed) {
            return None;
        }
        // An allocator of the program's may be asked for memory meanwhile: a handler that interrupts it is not in the
        // program's own code.
        let started = crate::os::marks::native(|| self.start_activation(None));
        if started.is_err() {
            self.refused_until.store(now + REFUSAL, Ordering::Relaxed);
        }
        started.ok().map(|activation| Spare { pool: self, activation })
    }

    /// How many kernel threads this pool has.
    pub fn kernel_threads(&self) -> u32 {
        self.kernel_threads.load(Ordering::Relaxed)
    }

    pub fn start_activation(
        &'static self,
        processor: Option<&'static Processor>,
    ) -> Result<&'static Activation, BuildError> {
        let activation = crate::carry::activations::claim(processor).ok_or(BuildError::Activations)?;
        if let Some(processor) = processor {
            // Nobody else knows the processor yet, or it is free.
            if processor.seat.owner.adopt(activation.id, &activation.mark) {
                activation.mark.leave();
            }
        }
        let name = format!("{}{}", self.prefix, activation.id);
        self.kernel_threads.fetch_add(1, Ordering::Relaxed);
        // It takes no signals until it has the mask that it is to have: the builder's, since whoever starts it may be
        // the monitor, which blocks all, or may have deferred some.
        let main = move || {
            activation.main(self.mask);
            activation.give_back();
            self.kernel_threads.fetch_sub(1, Ordering::Release);
        };
        match crate::os::spawn(&name, main) {
            Ok(()) => Ok(activation),
            Err(error) => {
                self.kernel_threads.fetch_sub(1, Ordering::Relaxed);
                if let Some(processor) = processor {
                    processor.seat.owner.release(activation.id, &activation.mark);
                }
                activation.give_back();
                Err(BuildError::KernelThread(error.to_string()))
            }
        }
    }

    /// Where threads are kernel threads: one is about to begin.
    pub fn kernel_thread_begins(&self) {
        self.outside_spawned.fetch_add(1, Ordering::Relaxed);
    }

    /// It has ended, or was refused.
    pub fn kernel_thread_ended(&self) {
        // Release: pairs with `Pool::live_threads`, on which the pool's end waits.
        self.ended_alone.fetch_add(1, Ordering::Release);
    }

    /// The monitor sleeps while all processors do; whoever stops sleeping tells it.
    pub fn monitor_hint(&self) {
        hint();
    }

    /// A spare adopts a free processor, unless its activation was faster.
    pub fn hand_over(&self, processor: &'static Processor, spare: Spare<'_>) {
        if processor.seat.owner.adopt(spare.activation.id, &spare.activation.mark) {
            // In the spare's name: its kernel thread waits for the order, and enters then.
            spare.activation.mark.leave();
            spare.carry(processor);
        }
    }
}

/// A spare activation that was asked for: the right to give it its next order. One that is not needed goes back to the
/// list where this is dropped, or to its end.
#[must_use = "it goes back to the list"]
pub(crate) struct Spare<'a> {
    pool: &'a Shared,
    activation: &'static Activation,
}

impl Spare<'_> {
    /// What a processor's owner is called that it is taken for.
    pub fn id(&self) -> ActivationId {
        self.activation.id
    }

    /// It runs `processor`, which it owns by now.
    pub fn carry(self, processor: &'static Processor) {
        self.activation.order(processor);
        std::mem::forget(self);
    }

    /// Its kernel thread ends.
    fn end(self) {
        self.activation.stop();
        std::mem::forget(self);
    }
}

impl Drop for Spare<'_> {
    fn drop(&mut self) {
        if !self.pool.became_spare(self.activation) {
            self.activation.stop();
        }
    }
}

pub(crate) static WATCHMAN: Watchman<Real> = Watchman::constant();

/// Tells a sleeping monitor that a processor became busy, or was woken: it may be frozen before it gets to say so
/// itself, and would count as a searcher, which keeps all others asleep.
pub(crate) fn hint() {
    WATCHMAN.hint();
}

impl raddle_scheduler::dispatch::Pool<Real> for Shared {
    #[inline(always)]
    fn idle(&self) -> &Idle<Real> {
        &self.idle
    }

    #[inline(always)]
    fn tell(&self, whom: Notify) {
        self.notify(whom);
    }

    #[inline(always)]
    fn priorities(&self) -> u8 {
        self.priorities
    }

    #[cold]
    fn outrank(&self, priority: u8) {
        Shared::outrank(self, priority);
    }

    fn switches(&self, index: usize) -> Option<u64> {
        // Relaxed: a hint.
        self.processors().get(index).map(|processor| processor.counters.switches.load(Ordering::Relaxed))
    }
}

/// All pools.
pub(crate) fn pools() -> impl Iterator<Item = &'static Shared> {
    // SAFETY: the shared state of pools is never freed.
    POOLS.iter().filter_map(|slot| unsafe { slot.load(Ordering::Acquire).as_ref() })
}

/// The pool of that index.
pub(crate) fn pool(index: u32) -> &'static Shared {
    // SAFETY: as above; indices in descriptors are of pools that were registered and, having threads, still are.
    unsafe { POOLS[index as usize].load(Ordering::Acquire).as_ref() }.expect("a thread's pool is registered")
}

/// Puts a ready thread into its pool from wherever the caller is.
#[cold]
pub(crate) fn submit(ready: Ready<Real>) {
    let thread = ready.into_thread();
    let pool = pool(Descriptor::from_thread(thread).pool());
    // SAFETY: the token was taken apart just above.
    let ready = unsafe { Ready::new(thread) };
    if crate::lanes::is_on() {
        crate::carry::traced::outside(crate::lanes::Kind::Ready, Descriptor::from_thread(thread));
    }
    let priority = ready.priority();
    let notify = pool.submit(ready);
    pool.notify(notify);
    if pool.priorities > 1 {
        pool.outrank(priority);
    }
}

/// A policy dropped a token: the thread is not lost, it goes through the shared queue; unless the policy drops it
/// there, too.
pub(crate) fn rescue(word: usize) {
    thread_local! {
        static RESCUES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    // SAFETY: the word of a token that was dropped just now: nobody else has it.
    let ready = unsafe { Ready::<Real>::from_word(word) };
    let thread = ready.into_thread();
    let policy = pool(Descriptor::from_thread(thread).pool()).describe();
    if std::thread::panicking() {
        os::end(&format!("the policy `{policy}` panicked with a ready thread in its hands"));
    }
    if RESCUES.replace(true) {
        os::end(&format!("the policy `{policy}` drops what is submitted to it"));
    }
    os::say_once(&format!("raddle: the policy `{policy}` dropped a ready thread; it was put back"));
    // SAFETY: taken apart just above.
    submit(unsafe { Ready::new(thread) });
    RESCUES.set(false);
}

/// Nanoseconds for which the kernel is not asked for a thread again after it refused one.
const REFUSAL: u64 = 1_000_000_000;

const CLASS_SHIFT: u32 = 16;

/// The tag of a descriptor: its pool and its stack class.
pub(crate) fn tag(pool: &Shared, class: u32) -> u32 {
    class << CLASS_SHIFT | pool.index
}

/// The stack class (logarithm of the slot size) of a thread.
#[inline(always)]
pub(crate) fn class_of(descriptor: &Descriptor) -> u32 {
    descriptor.tag() >> CLASS_SHIFT
}

/// The class of [`DEFAULT_STACK`].
#[inline(always)]
pub(crate) const fn default_class() -> u32 {
    DEFAULT_STACK.trailing_zeros()
}

/// The arena of a thread's class.
pub(crate) fn arena_of(descriptor: &Descriptor) -> &'static Arena {
    arena_of_class(class_of(descriptor))
}

/// The arena of the class of a thread that is there.
#[inline(always)]
pub(crate) fn arena_of_class(class: u32) -> &'static Arena {
    ARENAS[class as usize].get().expect("a thread's arena was made at its spawn")
}

/// Whether the arena of a class was made.
#[inline(always)]
pub(crate) fn has_arena(class: u32) -> bool {
    ARENAS[class as usize].get().is_some()
}

/// The arena of a class, made on first use.
pub(crate) fn arena(class: u32) -> Result<&'static Arena, BuildError> {
    if let Some(arena) = ARENAS[class as usize].get() {
        return Ok(arena);
    }
    let slots = if class == default_class() { DEFAULT_SLOTS } else { (CLASS_SPACE >> class).clamp(64, DEFAULT_SLOTS) };
    // A limit on address space (RLIMIT_AS, RLIMIT_DATA, strict overcommit), or on what would be locked: as many as fit.
    let one_by_one = || Arena::one_by_one(1 << class, slots.min(SLOTS_LOCKED));
    let arena = if raddle_context::stack::are_to_be_locked() {
        one_by_one()
    } else {
        Arena::new(1 << class, slots).or_else(|_| Arena::one_by_one(1 << class, slots))
    };
    match arena {
        Ok(arena) => Ok(ARENAS[class as usize].get_or_init(|| arena)),
        Err(error) => Err(BuildError::Stacks(error.to_string())),
    }
}

/// The arenas that were made.
pub(crate) fn arenas() -> impl Iterator<Item = &'static Arena> {
    ARENAS.iter().filter_map(|arena| arena.get().copied())
}

/// In the child of a fork, where no kernel thread but the caller exists: no pool and no activation is left. Their
/// memory stays.
pub(crate) fn forget() {
    for slot in &POOLS {
        slot.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// What whoever builds a pool decides.
pub(crate) struct Plan {
    pub idle: Arc<Idle<Real>>,
    pub policy: AnyPolicy<Real>,
    pub name: Arc<str>,
    pub prefix: String,
    pub follows: bool,
    pub may_have_fewer: bool,
    pub wanders: bool,
    pub event_loops: Wish,
    pub quanta: Quanta,
}

impl Plan {
    /// The pool, known to all, without processors yet.
    pub fn register(self) -> Result<&'static Shared, BuildError> {
        let Plan { idle, policy, name, prefix, follows, may_have_fewer, wanders, event_loops, quanta } = self;
        let (priorities, directed) = (policy.priorities(), policy.ring());
        let takes_anywhere = policy.takes_anywhere();
        let shared = Box::leak(Box::new(Shared {
            index: 0,
            idle,
            policy,
            name,
            processors: OnceLock::new(),
            priorities,
            directed,
            takes_anywhere,
            follows,
            may_have_fewer,
            wanders,
            loops: Loops::new(event_loops),
            wanted: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            open: AtomicBool::new(false),
            refused_until: AtomicU64::new(0),
            outside_spawned: AtomicU64::new(0),
            submitted: AtomicU64::new(0),
            ended_alone: AtomicU64::new(0),
            moved_in: AtomicU64::new(0),
            spares: Spares::default(),
            kernel_threads: AtomicU32::new(0),
            prefix,
            quanta,
            mask: crate::os::signals::mask(),
        }));
        for (index, slot) in POOLS.iter().enumerate() {
            shared.index = index as u32;
            let free = std::ptr::null_mut();
            if slot.compare_exchange(free, shared, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Ok(shared);
            }
        }
        Err(BuildError::Pools)
    }
}
