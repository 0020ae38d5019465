//! Pools: a set of processors under one policy.
//!
//! # Example
//! ```
//! let pool = raddle::Builder::new().processors(2).policy("steal(lifo)".parse().unwrap()).build().unwrap();
//! let data = vec![1, 2, 3, 4];
//! let sum: i32 = pool.run(|| {
//!     raddle::scope(|s| {
//!         let left = s.spawn(|| data[..2].iter().sum::<i32>());
//!         data[2..].iter().sum::<i32>() + left.join().unwrap()
//!     })
//! });
//! assert_eq!(sum, 10);
//! ```

use crate::carry::activation::Activation;
use crate::carry::activations::MAX_ACTIVATIONS;
use crate::carry::descriptor::Descriptor;
use crate::carry::kept::STACKS_KEPT;
use crate::carry::processor::{Dispatcher, Foreign, Owned, Processor};
use crate::carry::witness::Inside;
use crate::guest::Settings;
use crate::os;
use raddle_context::stack::Arena;
use raddle_context::tls::{self, Tls, Unsupported};
use raddle_machine::{Machine, Real};
use raddle_queues::slab::Slab;
use raddle_scheduler::expression::Expression;
use raddle_scheduler::idle::Idle;
use raddle_scheduler::policies::{self, AnyPolicy};
use raddle_scheduler::standing::Standing;
use raddle_scheduler::{Notify, Policy, Ready};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

mod builder;
mod moving;

pub use builder::{BuildError, Builder};
pub use moving::{MoveError, blocking, move_to};

/// Pools that a process may have at once.
pub(crate) const MAX_POOLS: usize = 256;
/// The largest pool.
pub const MAX_PROCESSORS: usize = 1024;

/// The default stack slot: address space, of which a parked thread touches two pages.
pub const DEFAULT_STACK: usize = 256 * 1024;
/// Slots of the default class: so many threads may be alive at once.
const DEFAULT_SLOTS: usize = if cfg!(raddle_tsan) { SLOTS_WATCHED } else { 1 << 24 };
/// ThreadSanitizer keeps a shadow of each address, and at most some 8,000 threads that have started.
const SLOTS_WATCHED: usize = 1 << 14;
/// Address space for each other class.
const CLASS_SPACE: usize = if cfg!(raddle_tsan) { 1 << 32 } else { 1 << 42 };

static POOLS: [AtomicPtr<Shared>; MAX_POOLS] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_POOLS];
static ARENAS: [OnceLock<&'static Arena>; 64] = [const { OnceLock::new() }; 64];
static DESCRIPTORS: OnceLock<Arc<Slab<Descriptor, Real>>> = OnceLock::new();
static TLS: OnceLock<&'static Tls> = OnceLock::new();
/// Null until it is needed, and again in the child of a fork.
static DEFAULT_POOL: AtomicPtr<Result<Pool, String>> = AtomicPtr::new(std::ptr::null_mut());
/// As the first who needed the default pool wanted it.
static DEFAULTS: OnceLock<Settings> = OnceLock::new();

/// All descriptors of the process.
pub(crate) fn descriptors() -> &'static Arc<Slab<Descriptor, Real>> {
    DESCRIPTORS.get_or_init(|| {
        let slab = Slab::new(|_| Descriptor::default());
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
    /// Whether its processors follow what the process is allotted.
    pub follows: bool,
    /// Whether some of them may rest while others use the cores ([`crate::govern::crowd`]).
    pub may_have_fewer: bool,
    /// Whether a thread that was suspended goes on on another processor ([`crate::carry::wander`]). Set before the pool runs.
    pub wanders: AtomicBool,
    /// Whether its event loops share its processors for now.
    pub loops: crate::guest::event_loops::Loops,
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
    spares: [AtomicPtr<Activation>; 64],
    kernel_threads: AtomicU32,
    prefix: String,
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

    /// True where a thread may leave its processor for a kernel thread of its own: under a policy with an order among threads, or among
    /// processors, that one alone decides who runs.
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

    /// A thread of this priority became ready: if no processor is idle, the one that runs the least important thread is asked
    /// to switch at its next check.
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
        let pointer = std::ptr::from_ref(activation).cast_mut();
        let free = std::ptr::null_mut();
        let list = |slot: &AtomicPtr<Activation>| {
            slot.compare_exchange(free, pointer, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        // The end of the pool looks until no kernel thread is left: who takes a spare from the list tells it to stop, once, since
        // its record may serve another pool after that.
        self.spares.iter().any(list)
    }

    /// A spare that was asked for and is not needed: back to the list, or to its end.
    pub fn dismiss(&self, spare: &'static Activation) {
        if !self.became_spare(spare) {
            spare.stop();
        }
    }

    /// A spare activation that waits for an order.
    pub fn waiting_spare(&self) -> Option<&'static Activation> {
        let listed = |slot: &AtomicPtr<Activation>| !slot.load(Ordering::Relaxed).is_null();
        self.spares.iter().filter(|slot| listed(slot)).find_map(|slot| {
            // SAFETY: null, or an activation, which are never freed.
            unsafe { slot.swap(std::ptr::null_mut(), Ordering::AcqRel).as_ref() }
        })
    }

    /// Has at least so many spares listed, as far as kernel threads can be had.
    pub fn stock(&'static self, spares: usize) {
        let listed = self.spares.iter().filter(|slot| !slot.load(Ordering::Relaxed).is_null()).count();
        for _ in listed..spares {
            match self.new_spare() {
                Some(spare) => self.dismiss(spare),
                None => return,
            }
        }
    }

    /// A spare activation, started if there is none. `None` when no kernel thread can be had.
    pub fn spare(&'static self) -> Option<&'static Activation> {
        self.waiting_spare().or_else(|| self.new_spare())
    }

    fn new_spare(&'static self) -> Option<&'static Activation> {
        // Where the kernel refuses threads, it is not asked again at every look.
        let now = Real::now();
        if now < self.refused_until.load(Ordering::Relaxed) {
            return None;
        }
        // An allocator of the program's may be asked for memory meanwhile: a handler that interrupts it is not in the program's own code.
        let started = crate::guest::native(|| self.start_activation(None));
        if started.is_err() {
            self.refused_until.store(now + REFUSAL, Ordering::Relaxed);
        }
        started.ok()
    }

    /// How many kernel threads this pool has.
    pub fn kernel_threads(&self) -> u32 {
        self.kernel_threads.load(Ordering::Relaxed)
    }

    fn start_activation(
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
        // It takes no signals until it has the mask that it is to have: the builder's, since whoever starts it may be the monitor, which
        // blocks all, or may have deferred some.
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
        crate::govern::monitor::hint();
    }
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
    let priority = ready.priority();
    let notify = pool.submit(ready);
    pool.notify(notify);
    if pool.priorities > 1 {
        pool.outrank(priority);
    }
}

/// A policy dropped a token: the thread is not lost, it goes through the shared queue; unless the policy drops it there, too.
fn rescue(word: usize) {
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
    ARENAS[class_of(descriptor) as usize].get().expect("a thread's arena was made at its spawn")
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
    // A limit on address space (RLIMIT_AS, RLIMIT_DATA, strict overcommit): as many as fit.
    let arena = Arena::new(1 << class, slots).or_else(|_| Arena::one_by_one(1 << class, slots));
    match arena {
        Ok(arena) => Ok(ARENAS[class as usize].get_or_init(|| arena)),
        Err(error) => Err(BuildError::Stacks(error.to_string())),
    }
}

/// A set of processors under one policy. Dropping it waits until its threads have ended, then ends its kernel threads.
pub struct Pool {
    shared: &'static Shared,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("processors", &self.processors()).field("policy", &self.shared.describe()).finish()
    }
}

impl Pool {
    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }

    /// How many processors it has now (0 where threads are kernel threads).
    pub fn processors(&self) -> usize {
        self.shared.active()
    }

    /// The expression of its policy.
    pub fn policy(&self) -> String {
        self.shared.describe().to_owned()
    }

    /// Runs `f` as a thread of this pool and blocks the caller until it has ended. A panic of `f` goes on in the caller.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let spawned = crate::threads::scope::scope(|scope| {
            let handle = crate::threads::thread::Builder::new().spawn_in_scope(self.shared, scope, f);
            handle.unwrap_or_else(|error| panic!("raddle: {error}")).join()
        });
        spawned.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Spawns a thread into this pool.
    ///
    /// # Panics
    /// When no thread can be had; [`crate::threads::thread::Builder::spawn_into`] returns the error instead.
    pub fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> crate::JoinHandle<T> {
        crate::threads::thread::Builder::new().spawn_into(self, f).unwrap_or_else(|error| panic!("raddle: {error}"))
    }

    /// The largest number that is a priority under its policy: the least urgent one.
    pub fn lowest_priority(&self) -> u8 {
        self.shared.priorities - 1
    }

    /// True if the calling thread is one of this pool's.
    pub fn is_current(&self) -> bool {
        crate::carry::switching::current().is_some_and(|me| me.pool() == self.shared.index)
            || crate::threads::fallback::is_of(self.shared)
    }

    /// Threads of this pool that have not ended.
    pub fn live_threads(&self) -> u64 {
        let sum = |pick: fn(&Processor) -> &AtomicU64| -> u64 {
            self.shared.processors().iter().map(|p| pick(p).load(Ordering::Acquire)).fold(0, u64::wrapping_add)
        };
        // Ends and leaves first: each was preceded by its spawn, which the later reads see (Release at the end, Acquire here).
        let exited = sum(|p| &p.counters.exited).wrapping_add(sum(|p| &p.counters.moved));
        let exited = exited.wrapping_add(self.shared.ended_alone.load(Ordering::Acquire));
        let outside = self.shared.outside_spawned.load(Ordering::Acquire);
        let came = outside.wrapping_add(self.shared.moved_in.load(Ordering::Acquire));
        sum(|p| &p.counters.spawned).wrapping_add(came).wrapping_sub(exited)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.is_current() {
            // It would wait for its own end.
            os::say_once("raddle: a pool was dropped by one of its own threads: it stays until the process ends");
            return;
        }
        // Rare and not urgent: polling spares every exit a shared counter.
        let mut pause = std::time::Duration::from_micros(50);
        while self.live_threads() != 0 {
            crate::sleep(pause);
            pause = (pause * 2).min(std::time::Duration::from_millis(10));
        }
        self.shared.stopping.store(true, Ordering::Release);
        // A processor that falls asleep without having seen that is called by the next turn.
        while self.shared.kernel_threads() != 0 {
            while self.shared.idle.kick() {}
            while let Some(spare) = self.shared.spares.iter().find_map(|slot| {
                // SAFETY: activations are never freed.
                unsafe { slot.swap(std::ptr::null_mut(), Ordering::AcqRel).as_ref() }
            }) {
                spare.stop();
            }
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        // Nobody but the monitor can still have a processor, and that for an instant.
        if let Some(me) = crate::carry::activations::claim(None) {
            for processor in self.shared.processors() {
                let mut inside = loop {
                    match Inside::adopt(me, processor) {
                        Some(inside) => break inside,
                        None => std::thread::yield_now(),
                    }
                };
                inside.owned().give_back();
                processor.sends.give_back();
                inside.release();
            }
            me.give_back();
        }
        POOLS[self.shared.index as usize].store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// The arenas that were made.
pub(crate) fn arenas() -> impl Iterator<Item = &'static Arena> {
    ARENAS.iter().filter_map(|arena| arena.get().copied())
}

/// Gives the memory of idle stacks back to the system, but for some.
pub(crate) fn shrink_stacks() {
    for arena in arenas() {
        arena.shrink(STACKS_KEPT);
    }
}

/// The pool that [`crate::spawn`] uses from kernel threads: made on first use, with the processors that the process is
/// allotted, or as the environment says ([`crate::guest::Settings`]).
///
/// # Panics
/// When it cannot be built: the message names cause and remedy.
#[inline]
pub fn default_pool() -> &'static Pool {
    // SAFETY: null, or never freed once it is stored.
    match unsafe { DEFAULT_POOL.load(Ordering::Acquire).as_ref() } {
        Some(Ok(pool)) => pool,
        _ => first_default_pool(),
    }
}

/// The environment is read once: a program may change it while threads are created.
#[cold]
#[inline(never)]
fn first_default_pool() -> &'static Pool {
    let set = |name| std::env::var(name).ok();
    start_default(&Settings::read(set)).unwrap_or_else(|error| panic!("raddle: {error}"))
}

/// The default pool, built as the first caller's settings say unless it is there already, or its building has failed before.
///
/// Two that come at once both build one, and the later one's ends again: so nobody waits for anybody, nor for one whom a fork left
/// behind.
pub(crate) fn start_default(settings: &Settings) -> Result<&'static Pool, &'static str> {
    let mut there = DEFAULT_POOL.load(Ordering::Acquire);
    if there.is_null() {
        let made = Box::into_raw(Box::new(build_default(DEFAULTS.get_or_init(|| settings.clone()))));
        let null = std::ptr::null_mut();
        there = match DEFAULT_POOL.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => {
                // SAFETY: made above and shown to nobody.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        };
    }
    // SAFETY: not null, and never freed once it is stored.
    unsafe { &*there }.as_ref().map_err(String::as_str)
}

fn build_default(settings: &Settings) -> Result<Pool, String> {
    let mut builder = Builder::new();
    if let Some(text) = &settings.processors {
        let count = text.parse().map_err(|_| format!("RADDLE_PROCESSORS={text}: give a number of processors"))?;
        builder = builder.at_most(count);
    }
    if settings.all_processors {
        builder = builder.all_of_them();
    }
    if let Some(text) = &settings.event_loops {
        let wish = text.parse().map_err(|()| format!("RADDLE_EVENT_LOOPS={text}: give `apart` or `gathered`"))?;
        builder = builder.event_loops(wish);
    }
    if let Some(text) = &settings.policy {
        builder = builder.policy(text.parse().map_err(|error| format!("RADDLE_POLICY: {error}"))?);
    }
    builder.build().map_err(|error| error.to_string())
}

/// In the child of a fork, where no kernel thread but the caller exists: no pool and no activation is left. Their memory stays.
pub(crate) fn forget() {
    for slot in &POOLS {
        slot.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
    DEFAULT_POOL.store(std::ptr::null_mut(), Ordering::Relaxed);
}
