//! `join(a, b)`: run two closures, perhaps at the same time.
//!
//! The unstolen half is a plain call. A half that waits is a record on its thread's stack, linked from the thread's own
//! thread-local storage: it belongs to the thread, under every policy, and stays with it when it blocks or moves. Only
//! when some processor is hungry at a join, the thread is about to block or yields in vain, or the monitor asks for it
//! (see [`crate::threads::requests`], which states the bound), does a half become a thread of its own (the oldest half
//! first, which is the largest piece of work in a divide-and-conquer tree). So a join that nobody needs costs a few
//! plain stores, and no policy has to know about it.
//!
//! The idea of splitting on demand is lazy task creation (Mohr, Kranz, Halstead, 1991) with the demand read from the
//! idle word.

use crate::carry::above::NEWEST_HALF;
use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::switching::current;
use crate::threads::members::{Member, Members};
use crate::threads::scope::Data;
use crate::threads::tasks;
use crate::threads::thread::JoinHandle;
use raddle_scheduler::code_of_program;
use raddle_scheduler::discard::discard;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{Ordering, compiler_fence};

/// The list part of a waiting half.
pub(crate) struct Header {
    older: *const Header,
    execute: unsafe fn(*const Header),
    promoted: Cell<Option<JoinHandle<()>>>,
    /// Whether the half is a thread of its own: a plain flag, since only the thread itself promotes (a request of the
    /// monitor interrupts it, see [`crate::threads::requests`]).
    is_promoted: Cell<bool>,
}

impl Header {
    /// For a record that runs itself by `execute`, once.
    #[inline(always)]
    pub fn new(older: *const Header, execute: unsafe fn(*const Header)) -> Self {
        Self { older, execute, promoted: Cell::new(None), is_promoted: Cell::new(false) }
    }

    /// The next older one of its list.
    pub fn older(&self) -> *const Header {
        self.older
    }

    /// True once it is a thread of its own.
    pub fn is_promoted(&self) -> bool {
        self.is_promoted.get()
    }

    /// Runs it.
    ///
    /// # Safety
    /// It is run once, and its record is whole.
    #[inline(always)]
    pub unsafe fn execute(header: *const Header) {
        // SAFETY: the record is whole, so its function is the one for its type; it is run once.
        unsafe { ((*header).execute)(header) }
    }

    /// Waits for the end of its thread, of which it has become one, and cancels that with the calling one.
    pub fn finish(&self) {
        let handle = self.promoted.take().expect("what was promoted has a thread");
        if handle.wait(None, true).is_err() {
            handle.cancel();
        }
        // The thread catches its panic itself.
        discard(handle.join());
    }

    /// From here on it is to be a thread, and nobody else makes it one: whatever runs on this thread until it is one,
    /// such as a yield for want of room, finds it taken.
    fn claim(&self, task: bool) -> Claimed<'_> {
        debug_assert!(!self.is_promoted.get(), "a record becomes a thread once");
        self.is_promoted.set(true);
        if task {
            tasks::note_promoted();
        }
        Claimed { header: self, task }
    }

    /// Takes the half out of the list. True if it was made a thread before that: nobody does so afterwards.
    #[inline(always)]
    fn leave(&self) -> bool {
        NEWEST_HALF.set(self.older.cast());
        compiler_fence(Ordering::SeqCst);
        self.is_promoted.get()
    }
}

/// A record that is to become a thread. Dropped before that, when no thread could be had, it waits again.
#[must_use = "a record that was claimed becomes a thread, or waits again"]
struct Claimed<'a> {
    header: &'a Header,
    task: bool,
}

impl Claimed<'_> {
    /// It is that thread from now on.
    fn became(self, handle: JoinHandle<()>) {
        std::mem::ManuallyDrop::new(self).header.promoted.set(Some(handle));
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.header.is_promoted.set(false);
        if self.task {
            tasks::note_unpromoted();
        }
    }
}

#[repr(C)]
struct Half<B, R> {
    header: Header,
    work: Cell<Option<B>>,
    result: UnsafeCell<Option<std::thread::Result<R>>>,
}

thread_local! {
    /// The thread itself is promoting: a request that interrupts waits for the next time.
    static PROMOTING: Cell<bool> = const { Cell::new(false) };
}

/// The newest waiting half of the calling thread, or null.
#[inline(always)]
fn newest() -> *const Header {
    NEWEST_HALF.get().cast()
}

/// Runs `a` and `b`, perhaps at the same time, and returns both results. From a kernel thread, in the default pool.
///
/// # Panics
/// With the panic of `a`, or else of `b`; either way both have ended or never started.
///
/// # Example
/// ```
/// fn fib(n: u64) -> u64 {
///     if n < 2 {
///         return n;
///     }
///     let (x, y) = raddle::join(|| fib(n - 1), || fib(n - 2));
///     x + y
/// }
/// let pool = raddle::Builder::new().processors(2).build().unwrap();
/// assert_eq!(pool.run(|| fib(20)), 6765);
/// ```
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let Some(me) = current() else {
        let pool = crate::threads::pool::default_pool();
        if pool.processors() == 0 {
            // Threads are kernel threads here: a half is not worth one.
            return (code_of_program::call(a), code_of_program::call(b));
        }
        return pool.run(|| join(a, b));
    };
    let half = Half {
        header: Header::new(newest(), execute::<B, RB>),
        work: Cell::new(Some(b)),
        result: UnsafeCell::new(None),
    };
    crate::threads::requests::note_use();
    let guard = Linked::new(&half);
    if crate::carry::switching::activation_of(me).processor().pool.idle.hungry() {
        offer();
    }
    let ra = code_of_program::call(a);
    if !guard.leave() {
        let b = half.work.take().expect("a half that nobody took is still here");
        return (ra, code_of_program::call(b));
    }
    (ra, half.await_promoted())
}

impl<B, R> Half<B, R> {
    #[cold]
    fn await_promoted(&self) -> R {
        self.header.finish();
        // SAFETY: the half's thread has ended: nobody else touches the result.
        match unsafe { (*self.result.get()).take() }.expect("the half has run") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// A half in the list. When `a` panics, it is dropped if nobody took it, and waited for otherwise, since it borrows
/// from this frame.
struct Linked<'a, B, R>(&'a Half<B, R>);

impl<'a, B, R> Linked<'a, B, R> {
    #[inline(always)]
    fn new(half: &'a Half<B, R>) -> Self {
        let linked = Self(half);
        // A request that interrupts finds a half whole or not at all: so too in `Header::leave`.
        compiler_fence(Ordering::SeqCst);
        NEWEST_HALF.set((&raw const half.header).cast());
        linked
    }

    /// Takes it out of the list; true if it has become a thread.
    #[inline(always)]
    fn leave(self) -> bool {
        std::mem::ManuallyDrop::new(self).0.header.leave()
    }
}

impl<B, R> Drop for Linked<'_, B, R> {
    fn drop(&mut self) {
        if self.0.header.leave() {
            self.0.header.finish();
            // SAFETY: the half's thread has ended: nobody else touches the result.
            let result = unsafe { (*self.0.result.get()).take() };
            // `a` is panicking: a result whose drop panics too would end the process.
            discard(result);
        }
    }
}

unsafe fn execute<B: FnOnce() -> R, R>(header: *const Header) {
    // SAFETY: the header is the first field of the half it was made for, which lives until its thread was joined;
    // nobody else touches `work` and `result` meanwhile.
    let half = unsafe { &*header.cast::<Half<B, R>>() };
    let work = half.work.take().expect("a half runs once");
    let result = catch_unwind(AssertUnwindSafe(|| code_of_program::call(work)));
    // SAFETY: the half is run by the caller alone, and its owner reads the result after it was told of the end.
    unsafe { *half.result.get() = Some(result) };
}

/// What a thread of its own runs, and for a task its scope.
struct Work(*const Header, *const Data);
// SAFETY: the closures and results behind it are Send (bounds of `join`), and the frame is waited for.
unsafe impl Send for Work {}

impl Work {
    fn run(self) {
        let member = Member::new();
        // SAFETY: who made the record waits for the thread before the record goes, or the scope, which the thread has
        // left by then; and it became a thread once.
        unsafe {
            if let Some(scope) = self.1.as_ref() {
                scope.enter(&member);
            }
            // The scope's list points to `member`.
            crate::os::or_abort(|| "a forked task panicked outside of its closure".into(), || Header::execute(self.0));
        }
        Members::leave();
    }
}

/// Somebody is hungry: the oldest half becomes a thread, unless this processor has something to take already.
#[cold]
#[inline(never)]
pub(crate) fn offer() {
    let Some(me) = current() else { return };
    let mut inside = crate::carry::switching::enter(me);
    let plenty = inside.owned().dispatcher.has_own();
    inside.leave();
    if !plenty {
        promote_oldest();
    }
}

/// Somebody is hungry, and the caller goes on to compute: what this processor has already is theirs, and otherwise the
/// `most` oldest that wait become threads.
pub(crate) fn offer_some(most: usize) {
    let Some(me) = current() else { return };
    let mut inside = crate::carry::switching::enter(me);
    let processor = inside.processor();
    let plenty = inside.owned().dispatcher.has_own();
    if plenty {
        inside.owned().dispatcher.share(processor.pool);
    }
    inside.leave();
    if !plenty {
        for _ in 0..most {
            if !promote_oldest() {
                break;
            }
        }
    }
}

/// Keeps a request that interrupts from what `f` changes. `f` neither yields nor calls code of the program.
#[inline(always)]
pub(crate) fn undisturbed<T>(f: impl FnOnce() -> T) -> T {
    let outer = PROMOTING.replace(true);
    compiler_fence(Ordering::SeqCst);
    let result = f();
    compiler_fence(Ordering::SeqCst);
    PROMOTING.set(outer);
    result
}

/// The oldest half that waits, or task of a scope ([`crate::threads::tasks`]) with that. A frame that lies higher on
/// the stack is older.
fn oldest() -> Option<(&'static Header, *const Data)> {
    let half = oldest_half();
    if tasks::wait()
        && let Some((scope, task, data)) = tasks::oldest()
        && half.is_none_or(|half| std::ptr::from_ref(half).addr() < scope)
    {
        return Some((task, data));
    }
    half.map(|half| (half, std::ptr::null()))
}

/// The oldest half that waits.
fn oldest_half() -> Option<&'static Header> {
    let mut oldest = None;
    let mut at = newest();
    // SAFETY: the list consists of frames of this thread's stack that are alive, and stay so while the caller, which is
    // called from above them, goes on.
    while let Some(header) = unsafe { at.as_ref() } {
        if header.is_promoted.get() {
            break;
        }
        oldest = Some(header);
        at = header.older;
    }
    oldest
}

/// The calling thread was cancelled: so are its halves that are threads. Those that become threads later are when it
/// comes to wait for them.
pub(crate) fn cancel_promoted() {
    let mut at = newest();
    // SAFETY: as in `oldest_half`.
    while let Some(header) = unsafe { at.as_ref() } {
        if let Some(handle) = header.promoted.take() {
            handle.cancel();
            header.promoted.set(Some(handle));
        }
        at = header.older;
    }
}

/// Makes the oldest waiting half a thread. False if there is none, or no thread could be had (it stays a plain call).
///
/// The spawn may yield, where the policy is crowded, and the yield may come here again. So the record is claimed first.
#[cold]
#[inline(never)]
pub(crate) fn promote_oldest() -> bool {
    if PROMOTING.get() {
        // It was called by the spawn below: one at a time, or the stack would hold one spawn for each record.
        return false;
    }
    PROMOTING.set(true);
    compiler_fence(Ordering::SeqCst);
    let promoted = oldest().is_some_and(|(header, scope)| {
        let claimed = header.claim(!scope.is_null());
        let work = Work(header, scope);
        // SAFETY: the frame or scope that the work points into waits for the thread (`finish`); claimed just now, so it
        // runs once.
        match unsafe { crate::threads::thread::Builder::new().spawn_hooked(None, move || work.run(), ()) } {
            Ok(handle) => claimed.became(handle),
            Err(_) => drop(claimed),
        }
        header.is_promoted()
    });
    compiler_fence(Ordering::SeqCst);
    PROMOTING.set(false);
    promoted
}

/// The monitor's request, in a handler that has interrupted the thread: gives its oldest waiting half, if it has one.
/// Allocates nothing.
pub(crate) fn give(activation: &'static Activation, me: &'static Descriptor) {
    if PROMOTING.get() {
        return;
    }
    if let Some((header, scope)) = oldest()
        && let Some(descriptor) = activation.answer()
    {
        let claimed = header.claim(!scope.is_null());
        let work = Work(header, scope);
        let (pool, priority) = (crate::carry::pool::pool(me.pool()), me.thread.priority_now());
        // SAFETY: prepared by the monitor, and the request is answered once; the frame or scope that the work points
        // into waits for the thread.
        let handle = unsafe { crate::threads::thread::spawn_prepared(descriptor, pool, priority, move || work.run()) };
        claimed.became(handle);
        crate::govern::monitor::HALVES_GIVEN.fetch_add(1, Ordering::Relaxed);
    }
}
