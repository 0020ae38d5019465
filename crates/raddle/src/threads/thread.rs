//! Spawning, joining, yielding, parking.
//!
//! # Example
//! ```
//! let pool = raddle::Builder::new().processors(1).build().unwrap();
//! pool.run(|| {
//!     let answer = raddle::thread::Builder::new().name("worker".into()).spawn(|| 6 * 7).unwrap();
//!     raddle::yield_now();
//!     assert_eq!(answer.join().unwrap(), 42);
//! });
//! ```

use crate::carry::descriptor::{Descriptor, FREE, PAYLOAD_WORDS, Payload};
pub use crate::threads::giving_way::{check, yield_now, yield_softly};
use raddle_scheduler::code_of_program;
// std's paths: `use raddle::thread` stands in the place of `use std::thread`.
pub use crate::carry::errors::SpawnError;
use crate::carry::pool::{self, Shared};
use crate::carry::processor::bump;
use crate::carry::switching::{current as running, enter};
use crate::threads::members::Member;
pub use crate::threads::park::{Thread, ThreadId, current, park, park_timeout};
use crate::threads::pool::Pool;
pub use crate::threads::quantum::{Hold, hold, set_quantum};
pub use crate::threads::scope::{Scope, ScopedJoinHandle, scope};
pub use crate::threads::time::sleep;
#[expect(deprecated, reason = "std has it, too")]
pub use crate::threads::time::sleep_ms;

use crate::carry::traced;
use crate::lanes::Kind;
use raddle_context::stack::StackSize;
use raddle_scheduler::discard::discard;
use raddle_scheduler::join::Dropped;
use raddle_scheduler::sync::WaitError;
use raddle_scheduler::{Cause, Ready};
use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit, needs_drop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
pub use std::thread::{AccessError, LocalKey, available_parallelism, panicking};
use std::time::Duration;

/// What a thread ended with: its result, or the payload of its panic.
pub type Result<T> = std::result::Result<T, Box<dyn Any + Send + 'static>>;

/// A thread's properties.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    name: Option<String>,
    stack_size: Option<usize>,
    priority: Option<u8>,
    quantum: Option<Duration>,
}

/// What happens on the thread after its result is stored: nothing, or the scope's count.
pub(crate) trait Hook: Send {
    /// On the thread, before anything else. `member` stays where it is until [`Hook::finished`] has returned.
    #[inline(always)]
    fn begun(&self, _member: &Member) {}
    /// The result is stored (and dropped, if nobody wants it; `unjoined_panic` then says that it was a panic).
    fn finished(self, unjoined_panic: bool);
}

impl Hook for () {
    fn finished(self, _: bool) {}
}

impl Builder {
    /// An unnamed thread with the default stack.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the thread, for dumps, traces and overflow reports. A line with the name comes before a panic's message,
    /// in which std, which knows no lightweight names, says `<unnamed>`: the first name sets a panic hook that goes on
    /// to the one that it finds.
    pub fn name(mut self, name: String) -> Self {
        self.name = Some(name);
        self
    }

    /// The size of its stack in bytes; rounded up to a power of two. Address space, committed when touched. (A thread
    /// that had not started when it was joined may run in its joiner's place: then it has at least seven eighths.)
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Its priority, 0 the highest: where the pool's policy tells priorities apart.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Its quantum: how long it runs on, once others wait, before it gives way at a quantum check, whatever its pool
    /// says for its priority ([`crate::Builder::quanta`]).
    pub fn quantum(mut self, quantum: Duration) -> Self {
        self.quantum = Some(quantum);
        self
    }

    /// The class of its stack, if that can be had and its arena is there.
    #[inline(always)]
    fn class_at_hand(&self) -> Option<u32> {
        let Some(bytes) = self.stack_size else { return Some(pool::default_class()) };
        let class = StackSize::new(bytes).ok()?.slot_size().trailing_zeros();
        pool::has_arena(class).then_some(class)
    }

    /// Spawns into the caller's pool, or into the default pool from a kernel thread.
    ///
    /// # Errors
    /// [`SpawnError`]; what has started never fails later for want of a stack.
    pub fn spawn<T: Send + 'static>(
        self,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::result::Result<JoinHandle<T>, SpawnError> {
        // SAFETY: closure and result are 'static.
        unsafe { self.spawn_hooked(None, f, ()) }
    }

    /// Spawns into `pool`.
    ///
    /// # Errors
    /// As for [`Builder::spawn`].
    pub fn spawn_into<T: Send + 'static>(
        self,
        pool: &Pool,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::result::Result<JoinHandle<T>, SpawnError> {
        // SAFETY: closure and result are 'static.
        unsafe { self.spawn_hooked(Some(pool.shared()), f, ()) }
    }

    /// Spawns into the caller's pool, in a scope, as [`Scope::spawn`] does.
    ///
    /// # Errors
    /// As for [`Builder::spawn`].
    pub fn spawn_scoped<'scope, T: Send + 'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> std::result::Result<ScopedJoinHandle<'scope, T>, SpawnError> {
        self.spawn_scoped_in(None, scope, f)
    }

    pub(crate) fn spawn_in_scope<'scope, T: Send + 'scope>(
        self,
        pool: &'static Shared,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> std::result::Result<ScopedJoinHandle<'scope, T>, SpawnError> {
        self.spawn_scoped_in(Some(pool), scope, f)
    }

    pub(crate) fn spawn_scoped_in<'scope, T: Send + 'scope>(
        self,
        pool: Option<&'static Shared>,
        scope: &'scope Scope<'scope, '_>,
        f: impl FnOnce() -> T + Send + 'scope,
    ) -> std::result::Result<ScopedJoinHandle<'scope, T>, SpawnError> {
        let (hook, expected) = scope.hook();
        // SAFETY: the scope's end waits until the hook has run, which is after the closure and an unwanted result are
        // gone.
        let handle = unsafe { self.spawn_hooked(pool, f, hook) }?;
        // Without a thread, be it by an error or by a panic, the scope expects none.
        std::mem::forget(expected);
        Ok(ScopedJoinHandle::new(handle, scope))
    }

    /// As [`Builder::spawn`], without the bounds that keep what the thread borrows alive.
    ///
    /// # Errors
    /// As for [`Builder::spawn`].
    ///
    /// # Safety
    /// The caller sees to it that everything that `F` and `T` borrow outlives the thread's use of it.
    pub unsafe fn spawn_unchecked<F, T>(self, f: F) -> std::result::Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: as the caller promises.
        unsafe { self.spawn_hooked(None, f, ()) }
    }

    /// # Safety
    /// As for [`Builder::spawn_unchecked`].
    #[inline]
    pub(crate) unsafe fn spawn_hooked<F, T, H>(
        self,
        pool: Option<&'static Shared>,
        f: F,
        hook: H,
    ) -> std::result::Result<JoinHandle<T>, SpawnError>
    where
        F: FnOnce() -> T + Send,
        T: Send,
        H: Hook,
    {
        let payload = pack((f, hook));
        // SAFETY: `run` of the same types unpacks what was packed.
        let spawned = unsafe { spawn_packed(self, pool, run::<F, T, H>, &payload) };
        match spawned {
            Ok(descriptor) => Ok(JoinHandle { descriptor, result: PhantomData }),
            Err(error) => {
                // SAFETY: nobody took it.
                let (f, hook) = unsafe { unpack::<(F, H)>(&raw const payload) };
                std::mem::forget(hook);
                // The caller still has to hear of the error.
                discard(f);
                Err(error)
            }
        }
    }
}

/// Makes a descriptor around a packed closure and pushes it.
///
/// # Safety
/// `run` unpacks what `payload` holds, once; the payload is taken over only on success.
#[inline(always)]
pub(crate) unsafe fn spawn_packed(
    builder: Builder,
    pool: Option<&'static Shared>,
    run: unsafe fn(*const Descriptor),
    payload: &Payload,
) -> std::result::Result<&'static Descriptor, SpawnError> {
    let plain = builder.name.is_none() && builder.priority.is_none() && builder.quantum.is_none();
    if let Some(me) = running()
        && plain
        && let Some(class) = builder.class_at_hand()
    {
        let mut inside = enter(me);
        let processor = inside.processor();
        let home = processor.pool;
        if pool.is_none_or(|pool| pool.index == home.index) {
            let owned = inside.owned();
            if let Err(error) = owned.kept.of(class).have_right(class) {
                inside.leave();
                return Err(error);
            }
            let Ok(descriptor) = owned.descriptors.allocate() else {
                inside.leave();
                return Err(SpawnError::Memory);
            };
            owned.kept.of(class).take_right();
            // SAFETY: fresh from the slab, which lives for ever.
            let descriptor: &'static Descriptor = unsafe { &*descriptor.as_ptr() };
            fill(descriptor, pool::tag(home, class), me.thread.priority_now(), run, payload);
            let spawned = bump(&processor.counters.spawned);
            if crate::pace::is_time_for_push(spawned) {
                traced::pushed(processor, descriptor, spawned, Kind::Spawned, traced::Waker::Current);
            }
            // SAFETY: the descriptor's creator makes it ready, once.
            let ready = unsafe { Ready::new(NonNull::from(&descriptor.thread)) };
            let dispatcher = &mut inside.owned().dispatcher;
            dispatcher.push(home, ready, Cause::Spawned);
            let crowded = dispatcher.crowded();
            if crowded {
                bump(&processor.counters.spawn_retries);
            }
            inside.leave();
            if crowded {
                crate::carry::switching::step_back(me);
            }
            return Ok(descriptor);
        }
        inside.leave();
    }
    // SAFETY: closure and result are as the caller promises, and the payload, which `run` knows how to use, is used
    // once.
    unsafe { spawn_elsewhere(builder, pool, run, payload) }
}

/// The general case: from a kernel thread, into another pool, with properties.
///
/// # Safety
/// As for [`spawn_packed`].
#[cold]
#[inline(never)]
unsafe fn spawn_elsewhere(
    builder: Builder,
    pool: Option<&'static Shared>,
    run: unsafe fn(*const Descriptor),
    payload: &Payload,
) -> std::result::Result<&'static Descriptor, SpawnError> {
    let here = running().map_or_else(crate::carry::signal::home, |me| Some(pool::pool(me.pool())));
    let pool = pool.or(here).unwrap_or_else(|| crate::threads::pool::default_pool().shared());
    let lightweight = !pool.processors().is_empty();
    let class = match builder.stack_size {
        None => pool::default_class(),
        Some(bytes) => match StackSize::new(bytes) {
            Ok(size) => size.slot_size().trailing_zeros(),
            Err(error) => return Err(SpawnError::StackSize(error.to_string())),
        },
    };
    let inherited =
        running().filter(|_| here.is_some_and(|h| h.index == pool.index)).map_or(0, |me| me.thread.priority_now());
    let priority = builder.priority.unwrap_or(inherited);
    if priority >= pool.priorities {
        return Err(SpawnError::Priority(pool.priorities - 1));
    }
    if lightweight {
        let arena = pool::arena(class).map_err(|e| SpawnError::Stack(e.to_string()))?;
        arena.reserve().map_err(|e| SpawnError::Stack(e.to_string()))?;
    }
    let Ok(descriptor) = pool::descriptors().allocate_near(crate::os::core) else {
        if lightweight && let Ok(arena) = pool::arena(class) {
            arena.unreserve();
        }
        return Err(SpawnError::Memory);
    };
    // SAFETY: fresh from the slab, which lives for ever.
    let descriptor: &'static Descriptor = unsafe { descriptor.as_ref() };
    fill(descriptor, pool::tag(pool, class), priority, run, payload);
    if builder.name.is_some() || builder.quantum.is_some() {
        let quantum = builder.quantum.map(crate::carry::quanta::nanoseconds);
        descriptor.begin_with(builder.name.clone(), quantum);
    }
    if builder.name.is_some() {
        crate::threads::panics::tell_names();
    }
    if !lightweight {
        let name = builder.name.as_deref();
        return crate::threads::fallback::start(pool, name, builder.stack_size, descriptor).map(|()| descriptor);
    }
    pool.outside_spawned.fetch_add(1, Ordering::Relaxed);
    traced::outside(Kind::Spawned, descriptor);
    if let Some(name) = &builder.name {
        traced::named(descriptor, name);
    }
    // SAFETY: the descriptor's creator makes it ready, once.
    pool::submit(unsafe { Ready::new(NonNull::from(&descriptor.thread)) });
    Ok(descriptor)
}

/// A descriptor of the default class, with its right to a stack, for [`spawn_prepared`].
pub(crate) fn prepare() -> Option<&'static Descriptor> {
    let arena = pool::arena(pool::default_class()).ok()?;
    arena.reserve().ok()?;
    let Ok(descriptor) = pool::descriptors().allocate_near(crate::os::core) else {
        arena.unreserve();
        return None;
    };
    // SAFETY: fresh from the slab, which lives for ever.
    Some(unsafe { descriptor.as_ref() })
}

/// Spawns into `pool` without allocating: what may be called in a signal handler.
///
/// # Safety
/// `descriptor` came from [`prepare`] and is used once. What `f` borrows outlives the thread.
pub(crate) unsafe fn spawn_prepared<F: FnOnce() + Send>(
    descriptor: &'static Descriptor,
    pool: &'static Shared,
    priority: u8,
    f: F,
) -> JoinHandle<()> {
    const { assert!(fits::<(F, ())>(), "a box would have to be allocated") };
    let payload = pack((f, ()));
    fill(descriptor, pool::tag(pool, pool::default_class()), priority, run::<F, (), ()>, &payload);
    pool.outside_spawned.fetch_add(1, Ordering::Relaxed);
    traced::outside(Kind::Spawned, descriptor);
    // SAFETY: the descriptor's creator makes it ready, once.
    pool::submit(unsafe { Ready::new(NonNull::from(&descriptor.thread)) });
    JoinHandle { descriptor, result: PhantomData }
}

#[inline(always)]
fn fill(descriptor: &Descriptor, tag: u32, priority: u8, run: unsafe fn(*const Descriptor), payload: &Payload) {
    descriptor.thread.recycle(priority);
    descriptor.set_tag(tag);
    descriptor.run.set(run);
    descriptor.join.begin();
    // SAFETY: the caller holds the thread (descriptor rule 2).
    unsafe { *descriptor.payload.get() = *payload };
}

/// Puts a value into the words of a payload, or a box around it.
#[inline(always)]
fn pack<V>(value: V) -> Payload {
    let mut payload: Payload = [MaybeUninit::uninit(); PAYLOAD_WORDS];
    let place = payload.as_mut_ptr();
    // SAFETY: the value fits in size and alignment, or its box does.
    unsafe {
        if fits::<V>() {
            place.cast::<V>().write(value);
        } else {
            place.cast::<*mut V>().write(Box::into_raw(Box::new(value)));
        }
    }
    payload
}

const fn fits<V>() -> bool {
    size_of::<V>() <= size_of::<Payload>() && align_of::<V>() <= align_of::<Payload>()
}

/// Takes the value out again.
///
/// # Safety
/// `place` holds what [`pack`] made of a `V`, and it is taken once.
#[inline(always)]
unsafe fn unpack<V>(place: *const Payload) -> V {
    // SAFETY: what `pack` made of a `V` lies there, in place or in a box according to its size, and is taken once.
    unsafe { if fits::<V>() { place.cast::<V>().read() } else { *Box::from_raw(place.cast::<*mut V>().read()) } }
}

/// Runs the closure on its thread and leaves the result in the descriptor.
unsafe fn run<F, T, H>(descriptor: *const Descriptor)
where
    F: FnOnce() -> T,
    H: Hook,
{
    // SAFETY: the running thread's descriptor; the payload was packed by `spawn_hooked` of the same types.
    let (descriptor, (f, hook)) = unsafe { (&*descriptor, unpack::<(F, H)>((*descriptor).payload.get())) };
    let member = Member::new();
    hook.begun(&member);
    let result: Result<T> = catch_unwind(AssertUnwindSafe(|| code_of_program::call(f)));
    let panicked = result.is_err();
    let drops = panicked || needs_drop::<T>() || !fits::<Result<T>>();
    let packed = pack(result);
    // SAFETY: the payload's former value was taken out above; the thread holds it.
    unsafe { *descriptor.payload.get() = packed };
    let mut unjoined = false;
    if drops && descriptor.join.store() {
        unjoined = panicked;
        // SAFETY: the handle is gone: the result is ours.
        discard(unsafe { unpack::<Result<T>>(descriptor.payload.get()) });
    }
    hook.finished(unjoined);
}

/// Frees the descriptor of a thread that has ended or was never started.
pub(crate) fn free(descriptor: &'static Descriptor) {
    descriptor.set_tag(FREE);
    descriptor.forget_info();
    match running() {
        Some(me) => {
            let mut inside = enter(me);
            // SAFETY: the thread has ended and its handle is gone: nobody uses the descriptor. All caches are of one
            // slab.
            unsafe { inside.owned().descriptors.free(NonNull::from(descriptor)) };
            inside.leave();
        }
        // SAFETY: allocated from this slab, and nobody refers to the descriptor any more.
        None => unsafe { pool::descriptors().free_near(NonNull::from(descriptor), crate::os::core) },
    }
}

/// The right to wait for a thread and take its result. Dropping it lets the thread run on.
pub struct JoinHandle<T> {
    descriptor: &'static Descriptor,
    result: PhantomData<fn() -> T>,
}

// SAFETY: a handle only moves the result between threads.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: `&JoinHandle` gives access to nothing of `T`.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}

impl<T> JoinHandle<T> {
    /// Blocks until the thread has ended, its thread-local destructors included, and takes its result.
    ///
    /// # Errors
    /// The payload of the thread's panic.
    ///
    /// # Panics
    /// When a thread joins itself: it would wait for ever.
    #[inline]
    pub fn join(self) -> Result<T> {
        let descriptor = ManuallyDrop::new(self).descriptor;
        if !descriptor.join.has_ended()
            && let Some(result) = end_or_await(descriptor)
        {
            // SAFETY: what the thread has left, taken once.
            return unsafe { unpack::<Result<T>>(&raw const result) };
        }
        // SAFETY: the thread has ended and left its result, which the unique handle takes once.
        let result = unsafe { unpack::<Result<T>>(descriptor.payload.get()) };
        free(descriptor);
        result
    }

    /// As [`JoinHandle::join`], for at most so long.
    ///
    /// # Errors
    /// The thread has not ended yet; the handle comes back.
    ///
    /// # Panics
    /// When a thread joins itself.
    pub fn join_timeout(self, timeout: std::time::Duration) -> std::result::Result<Result<T>, Self> {
        if running().is_some_and(|me| std::ptr::eq(me, self.descriptor)) {
            panic!("raddle: a thread joins itself: it would wait for ever");
        }
        match wait_for_exit(self.descriptor, Some(crate::carry::timers::deadline_after(timeout)), false) {
            Ok(()) => Ok(self.join()),
            Err(_) => Err(self),
        }
    }

    /// True once the thread has ended.
    pub fn is_finished(&self) -> bool {
        self.descriptor.join.has_ended()
    }

    /// A handle to the thread, as [`current`] gives it there.
    pub fn thread(&self) -> &Thread {
        Thread::of(self.descriptor)
    }

    /// The thread's record, which stays the thread's as long as the handle is there.
    pub(crate) fn descriptor(&self) -> &'static Descriptor {
        self.descriptor
    }

    /// The handle as a word, for tables that are not Rust's: [`JoinHandle::from_raw`] makes it a handle again.
    #[doc(hidden)]
    pub fn into_raw(self) -> *const () {
        std::ptr::from_ref(ManuallyDrop::new(self).descriptor).cast()
    }

    /// The handle behind a word.
    ///
    /// # Safety
    /// `raw` came from [`JoinHandle::into_raw`] of the same type, and is used once.
    #[doc(hidden)]
    pub unsafe fn from_raw(raw: *const ()) -> Self {
        // SAFETY: the address of a descriptor, which are type-stable.
        Self { descriptor: unsafe { &*raw.cast() }, result: PhantomData }
    }

    /// Blocks until the thread has ended, its destructors included, or the deadline (nanoseconds of CLOCK_MONOTONIC)
    /// has passed or, with `cancellable`, the caller's cancellation was requested. Several may wait at once.
    ///
    /// # Errors
    /// The deadline has passed, or the caller was cancelled.
    #[doc(hidden)]
    pub fn wait(
        &self,
        deadline: Option<u64>,
        cancellable: bool,
    ) -> std::result::Result<(), raddle_scheduler::sync::WaitError> {
        wait_for_exit(self.descriptor, deadline, cancellable)
    }

    /// Asks the thread to end: all its cancellable waits return "cancelled" from now on, and those of the threads in
    /// scopes that it has open ([`Scope::cancel`]).
    pub fn cancel(&self) {
        // The handle keeps the descriptor from being reused.
        raddle_scheduler::runtime::cancel::<crate::Host>(self.descriptor.record());
    }
}

impl<T> JoinHandle<T> {
    /// Lets the thread run on without a handle. True when it has already left a panic that nobody took.
    pub(crate) fn detach_noting_panic(self) -> bool {
        ManuallyDrop::new(self).detach()
    }

    fn detach(&mut self) -> bool {
        let descriptor = self.descriptor;
        let mut taken = None;
        // SAFETY: the thread has left its result and touches it no more; the unique handle takes it once.
        let take = || taken = Some(unsafe { unpack::<Result<T>>(descriptor.payload.get()) });
        if descriptor.join.detach(take) == Dropped::Ended {
            free(descriptor);
        }
        let panicked = matches!(taken, Some(Err(_)));
        if panicked {
            discard(taken);
        }
        panicked
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        self.detach();
    }
}

/// Runs a thread that has not started, if that can be done here, and gives its packed result; its descriptor is free.
/// Otherwise blocks until it has ended.
#[inline]
fn end_or_await(descriptor: &'static Descriptor) -> Option<Payload> {
    if !crate::threads::tasks::has_open_scope()
        && let Some(result) = crate::carry::in_place::join_unstarted(descriptor)
    {
        return Some(result);
    }
    await_exit(descriptor);
    None
}

/// Blocks until the thread has ended. Not cancellable: its result must not be lost.
#[cold]
#[inline(never)]
fn await_exit(descriptor: &'static Descriptor) {
    if running().is_some_and(|me| std::ptr::eq(me, descriptor)) {
        panic!("raddle: a thread joins itself: it would wait for ever");
    }
    while wait_for_exit(descriptor, None, false).is_err() {}
}

/// Blocks until the thread has ended, or gives up.
fn wait_for_exit(
    descriptor: &'static Descriptor,
    deadline: Option<u64>,
    cancellable: bool,
) -> std::result::Result<(), WaitError> {
    let note = || {
        let object = std::ptr::from_ref(descriptor).addr();
        crate::carry::note::note_wait(crate::carry::in_place::END, object, Some(descriptor.record()));
    };
    // SAFETY: the caller has the handle; descriptors are aligned to 128 bytes, and begin with their record.
    unsafe { descriptor.join.wait::<crate::Host>(deadline, cancellable, note) }
}

/// Spawns a thread into the caller's pool, or into the default pool from a kernel thread.
///
/// # Panics
/// When no thread can be had; [`Builder::spawn`] returns the error instead.
#[inline]
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    Builder::new().spawn(f).unwrap_or_else(|error| panic!("raddle: {error}"))
}

/// True once the calling thread was asked to end, itself or with its scope: for loops that wait for nothing, whose
/// waits would tell.
pub fn is_cancelled() -> bool {
    crate::carry::above::poll_interruption();
    running().is_some_and(|me| me.thread.is_cancelled())
}

/// The calling thread's name, if it has one.
pub fn current_name() -> Option<String> {
    match running() {
        Some(me) => me.name(),
        None => std::thread::current().name().map(str::to_owned),
    }
}
