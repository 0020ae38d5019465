//! Stacks and switches: the only place here that leaves one stack for another.
//!
//! All coroutines of a run share the kernel thread of the run and its thread-local storage: the thread pointer does not
//! change.

use raddle_context::stack::{Arena, Slot};
use raddle_context::switch::{Context, current_fs, switch, switch_away};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Bytes of a stack: enough for a panic with its message, which the deepest of the policies is far from.
const STACK: usize = 256 << 10;
/// The most stacks of all runs of the process that are in use, or were abandoned.
const MOST: usize = 1 << 16;
/// Where the address space does not suffice for so many, half as many are tried, and so on down to these: for each core
/// one, and its thread's.
const LEAST: usize = 1 << 9;

fn arena() -> Result<&'static Arena, String> {
    static ARENA: OnceLock<Result<&'static Arena, String>> = OnceLock::new();
    ARENA.get_or_init(|| reserved(MOST)).clone()
}

fn reserved(slots: usize) -> Result<&'static Arena, String> {
    match Arena::new(STACK, slots) {
        Err(_) if slots > LEAST => reserved(slots / 2),
        reserved => reserved.map_err(|why| why.to_string()),
    }
}

/// Whether there can be coroutines at all.
///
/// # Errors
/// There is no address space for their stacks.
pub(crate) fn room() -> Result<(), String> {
    let told = |why| {
        format!(
            "no room for the stacks of simulated cores and threads: {why}; raise the limit of address space (`ulimit -v`)"
        )
    };
    arena().map(|_| ()).map_err(told)
}

/// What a coroutine is resumed by. Leaked with its coroutine if that is abandoned.
#[derive(Debug)]
pub(crate) struct Coroutine {
    context: NonNull<Context>,
    slot: Option<Slot>,
}

/// Where a coroutine begins: a function that never returns and lets no panic out.
pub(crate) type Entry = unsafe extern "C" fn(usize) -> !;

impl Coroutine {
    /// One that has not begun.
    ///
    /// # Errors
    /// No memory for its stack, or too many in use.
    pub fn new(entry: Entry) -> Result<Self, String> {
        let arena = arena()?;
        arena.reserve().map_err(|why| why.to_string())?;
        let slot = arena.take();
        let context = Self::context();
        // SAFETY: the slot was taken just now and is kept until the coroutine has ended; the thread pointer is that of
        // the kernel thread, which all coroutines of its runs use; `Entry` is what is asked for.
        unsafe { context.as_ref().prepare(slot.top(), current_fs(), entry) };
        Ok(Self { context, slot: Some(slot) })
    }

    /// The stack that the caller is on.
    pub fn here() -> Self {
        Self { context: Self::context(), slot: None }
    }

    fn context() -> NonNull<Context> {
        NonNull::from(Box::leak(Box::new(Context::empty())))
    }

    /// Makes one that has ended begin anew, on the same stack.
    ///
    /// # Safety
    /// It has ended and left its stack.
    pub unsafe fn again(self, entry: Entry) -> Self {
        if let Some(slot) = &self.slot {
            // SAFETY: as in `new`; the stack is unused by the contract.
            unsafe { self.context.as_ref().prepare(slot.top(), current_fs(), entry) };
        }
        self
    }

    /// How to resume it.
    pub fn handle(&self) -> Handle {
        Handle(self.context)
    }

    /// Gives the stack back.
    ///
    /// # Safety
    /// The coroutine has ended, or is the one that the caller is on, and nobody resumes it.
    pub unsafe fn release(mut self) {
        if let Some(slot) = self.slot.take() {
            let arena = slot.arena();
            arena.give(slot);
            arena.unreserve();
        }
        // SAFETY: leaked by `context`, and used no more by the contract.
        drop(unsafe { Box::from_raw(self.context.as_ptr()) });
    }
}

/// Names a coroutine that is suspended, or is about to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(NonNull<Context>);

/// Goes on with `to`; returns when somebody goes on with `from`.
///
/// # Safety
/// * `from` is the coroutine that the caller is on, `to` another one that is suspended or has not begun, on the same
///   kernel thread, and both are neither released nor resumed by anybody else meanwhile.
/// * No borrow of what `to` uses is held.
pub(crate) unsafe fn go(from: Handle, to: Handle) {
    // SAFETY: `from` is writable through its atomics and resumed only after this switch, on one kernel thread; `to` is
    // suspended.
    unsafe { switch(from.0.as_ptr(), to.0.as_ptr(), 0) };
}

/// Goes on with `to` for ever.
///
/// # Safety
/// As for [`go`]; nothing on the caller's stack is used again.
pub(crate) unsafe fn leave(to: Handle) -> ! {
    // SAFETY: `to` is suspended, by the promise of `go`, and nothing on this stack is used again.
    unsafe { switch_away(to.0.as_ptr(), 0) }
}
