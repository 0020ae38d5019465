//! `join(a, b)`: run two closures, perhaps at the same time.
//!
//! The unstolen half is a plain call. A half that waits is a record on its thread's stack, linked from the thread's own
//! thread-local storage: it belongs to the thread, under every policy, and stays with it when it blocks or moves. Only when some
//! processor is hungry, or the thread is about to block, does a half become a thread of its own (the oldest half first, which
//! is the largest piece of work in a divide-and-conquer tree). So a join that nobody needs costs a few plain stores, and
//! no policy has to know about it.
//!
//! The idea of splitting on demand is lazy task creation (Mohr, Kranz, Halstead, 1991) with the demand read from the idle word.

use crate::switching::current;
use crate::thread::JoinHandle;
use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// The list part of a waiting half.
struct Header {
    older: *const Header,
    execute: unsafe fn(*const Header),
    promoted: Cell<Option<JoinHandle<()>>>,
    /// Whether the half is out of the list: a plain flag, since only the thread itself promotes.
    is_promoted: Cell<bool>,
}

#[repr(C)]
struct Half<B, R> {
    header: Header,
    work: Cell<Option<B>>,
    result: UnsafeCell<Option<std::thread::Result<R>>>,
}

thread_local! {
    /// The newest waiting half of the calling thread.
    static NEWEST: Cell<*const Header> = const { Cell::new(std::ptr::null()) };
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
        let pool = crate::pool::default_pool();
        if pool.processors() == 0 {
            // Threads are kernel threads here: a half is not worth one.
            return (a(), b());
        }
        return pool.run(|| join(a, b));
    };
    let half = Half {
        header: Header {
            older: NEWEST.get(),
            execute: execute::<B, RB>,
            promoted: Cell::new(None),
            is_promoted: Cell::new(false),
        },
        work: Cell::new(Some(b)),
        result: UnsafeCell::new(None),
    };
    NEWEST.set(&raw const half.header);
    if crate::switching::activation_of(me).processor().pool.idle.hungry() {
        offer();
    }
    let guard = Unlink(&half);
    let ra = a();
    std::mem::forget(guard);
    if !half.header.is_promoted.get() {
        NEWEST.set(half.header.older);
        let b = half.work.take().expect("a half that nobody took is still here");
        return (ra, b());
    }
    (ra, half.await_promoted())
}

impl<B, R> Half<B, R> {
    #[cold]
    fn await_promoted(&self) -> R {
        self.finish();
        // SAFETY: the half's thread has ended: nobody else touches the result.
        match unsafe { (*self.result.get()).take() }.expect("the half has run") {
            Ok(value) => value,
            Err(panic) => resume_unwind(panic),
        }
    }

    fn finish(&self) {
        NEWEST.set(self.header.older);
        let handle = self.header.promoted.take().expect("a promoted half has a thread");
        // The thread catches the half's panic itself.
        let _ = handle.join();
    }
}

/// When `a` panics: the half is dropped if nobody took it, and waited for otherwise, since it borrows from this frame.
struct Unlink<'a, B, R>(&'a Half<B, R>);

impl<B, R> Drop for Unlink<'_, B, R> {
    fn drop(&mut self) {
        if self.0.header.is_promoted.get() { self.0.finish() } else { NEWEST.set(self.0.header.older) }
    }
}

unsafe fn execute<B: FnOnce() -> R, R>(header: *const Header) {
    // SAFETY: the header is the first field of the half it was made for, which lives until its thread was joined; nobody else
    // touches `work` and `result` meanwhile.
    let half = unsafe { &*header.cast::<Half<B, R>>() };
    let work = half.work.take().expect("a half runs once");
    let result = catch_unwind(AssertUnwindSafe(work));
    // SAFETY: as above.
    unsafe { *half.result.get() = Some(result) };
}

struct Work(*const Header);
// SAFETY: the closures and results behind it are Send (bounds of `join`), and the frame is waited for.
unsafe impl Send for Work {}

impl Work {
    fn run(self) {
        // SAFETY: `join` waits for the thread before its frame goes.
        unsafe { ((*self.0).execute)(self.0) }
    }
}

/// Somebody is hungry: the oldest half becomes a thread, unless this processor has something to take already.
#[cold]
#[inline(never)]
fn offer() {
    let Some(me) = current() else { return };
    let activation = crate::switching::enter(me);
    // SAFETY: inside the mark of the owner; the reference ends with the statement.
    let plenty = unsafe { activation.processor().owned() }.queue.has_own();
    activation.leave();
    if !plenty {
        promote_oldest();
    }
}

/// The thread is about to block: its halves must not wait for it.
#[inline(always)]
pub(crate) fn about_to_block() {
    if !NEWEST.get().is_null() {
        while promote_oldest() {}
    }
}

/// The thread yields and nothing else is ready: its oldest half becomes a thread, so that a yield loop that waits for it ends.
#[inline(always)]
pub(crate) fn offer_to_yield() -> bool {
    !NEWEST.get().is_null() && promote_oldest()
}

/// Makes the oldest waiting half a thread. False if there is none, or no thread could be had (it stays a plain call).
#[cold]
#[inline(never)]
fn promote_oldest() -> bool {
    let mut oldest = None;
    let mut at = NEWEST.get();
    // SAFETY: the list consists of frames of this thread's stack that are alive.
    while let Some(header) = unsafe { at.as_ref() } {
        if header.is_promoted.get() {
            break;
        }
        oldest = Some(header);
        at = header.older;
    }
    let Some(header) = oldest else { return false };
    let work = Work(header);
    // SAFETY: the frame that the work points into waits for the thread (`finish`).
    match unsafe { crate::thread::Builder::new().spawn_unchecked(None, move || work.run(), ()) } {
        Ok(handle) => {
            header.is_promoted.set(true);
            header.promoted.set(Some(handle));
            true
        }
        Err(_) => false,
    }
}
