//! The switch from one context to another.
//!
//! One file per architecture, each with the same functions: `init_frame`, `visit_frame`, `frame`, `switch`,
//! `switch_away`, `current_fs` and `detect`. The contract is here, the registers are there.
//!
//! A suspended context is two words. Everything else it needs lies on its own stack, at [`Context::sp`]: the address to
//! go on at, the registers that the compiler does not let inline assembly clobber, and the control bits of the
//! floating-point units, which the calling convention lets a callee keep but not change. All other registers are
//! declared clobbered, so that the compiler saves those that are live and no others.
//!
//! # Example
//! ```
//! use raddle_context::switch::Context;
//! let context = Context::empty();
//! assert!(context.sp().is_null());
//! assert_eq!(context.fs(), 0);
//! ```

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
use aarch64 as arch;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("raddle-context has a switch for x86-64 and aarch64 only");

/// A suspended context: where its stack pointer was and which thread pointer it runs under.
///
/// A context is resumed at most once for each time it was suspended or prepared.
///
/// Its words may be read at any time, by who fetches ahead what a thread will need and does not know whether it runs by
/// now. So they are atomics, which the switch writes like any other word.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    sp: AtomicPtr<u8>,
    fs: AtomicUsize,
}

impl Context {
    /// Where the stack pointer is, for debuggers.
    pub const SP: usize = core::mem::offset_of!(Context, sp);
    /// Where the thread pointer is, for debuggers.
    pub const FS: usize = core::mem::offset_of!(Context, fs);

    /// A context that nothing was saved in yet: to be prepared, or to be passed as `save`.
    pub const fn empty() -> Self {
        Context { sp: AtomicPtr::new(core::ptr::null_mut()), fs: AtomicUsize::new(0) }
    }

    /// Makes the first switch to this context call `entry` with that switch's `arg`, on the stack that ends at `top`,
    /// with the thread pointer `fs`. The floating-point units start in their default modes.
    ///
    /// # Safety
    /// * `top` is 16-byte aligned and ends a writable stack that nobody else uses until the context is abandoned, and
    ///   that is neither given back nor trimmed while the context is live.
    /// * `fs` is the thread pointer of the calling kernel thread, or one that
    ///   [`Tls::prepare`](crate::tls::Tls::prepare) or [`Slot::fs`](crate::stack::Slot::fs) returned and no other
    ///   live context uses.
    /// * `entry` never returns and lets no panic out.
    pub unsafe fn prepare(&self, top: *mut u8, fs: usize, entry: unsafe extern "C" fn(usize) -> !) {
        debug_assert!(top.addr().is_multiple_of(16), "a stack top is 16-byte aligned");
        // SAFETY: the caller owns the stack below `top`; a frame of a few words fits any slot.
        let sp = unsafe { arch::init_frame(top, entry) };
        // Relaxed: who resumes the context was given it, which orders this; others take what they find.
        self.sp.store(sp, Ordering::Relaxed);
        self.fs.store(fs, Ordering::Relaxed);
        #[cfg(raddle_tsan)]
        // SAFETY: the caller's promise about `fs`.
        unsafe {
            crate::tsan::prepared(fs);
        }
    }

    /// Of a thread that runs under `fs` without having been switched to: there is nothing to go on at.
    pub fn run_under(&self, fs: usize) {
        // Relaxed: as in `prepare`.
        self.sp.store(core::ptr::null_mut(), Ordering::Relaxed);
        self.fs.store(fs, Ordering::Relaxed);
    }

    /// The thread pointer that the context runs under.
    pub fn fs(&self) -> usize {
        self.fs.load(Ordering::Relaxed)
    }

    /// The stack pointer of the suspended context.
    pub fn sp(&self) -> *mut u8 {
        self.sp.load(Ordering::Relaxed)
    }

    /// A context that runs `visitor` on the stack and under the thread pointer of this suspended one, above all its
    /// frames, so that a stack walk in the visitor shows where this context is suspended. The visitor ends with
    /// [`switch_away`]; after that this context is as it was.
    ///
    /// # Safety
    /// * This context is suspended or prepared, and nobody resumes it until the visitor has left.
    /// * The stack has room below [`Context::sp`] for what the visitor does.
    /// * The visitor never returns and lets no panic out.
    pub unsafe fn visited_by(&self, visitor: unsafe extern "C" fn(usize) -> !) -> Context {
        // SAFETY: the caller lends the stack below the suspended frame.
        let sp = unsafe { arch::visit_frame(self.sp(), visitor) };
        Context { sp: AtomicPtr::new(sp), fs: AtomicUsize::new(self.fs()) }
    }

    /// The registers from which a stack walk of the suspended context starts.
    ///
    /// # Safety
    /// The context is suspended (or prepared) and stays so for the duration of the call.
    pub unsafe fn frame(&self) -> Frame {
        // SAFETY: a suspended context has a complete frame at `sp`.
        unsafe { arch::frame(self.sp()) }
    }
}

/// Offsets of what lies at [`Context::sp`] of a suspended context.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    /// Where it goes on.
    pub pc: usize,
    /// rbx or x19.
    pub kept: usize,
    /// The frame pointer.
    pub fp: usize,
    /// All of it: the suspended function's stack pointer lies beyond.
    pub bytes: usize,
}

/// Those of this architecture.
pub const SAVED: Saved = arch::SAVED;

/// What a stack walk of a suspended context starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The address at which the context goes on.
    pub pc: usize,
    /// The stack pointer there.
    pub sp: usize,
    /// The frame pointer there.
    pub fp: usize,
}

/// Saves the caller's context in `save` and continues `load`. `arg` arrives as the return value of the switch that
/// suspended `load`, or as the argument of its entry function. Returns when another switch continues `save`, with that
/// switch's `arg`, perhaps on another kernel thread.
///
/// # Safety
/// * `save` is writable, and nobody resumes it before this switch has left the caller's stack (a finalizer's work).
/// * `load` is a suspended or prepared context that is resumed for the first time since, and its stack is mapped.
/// * `save` and `load` are different contexts.
#[inline(always)]
pub unsafe fn switch(save: *mut Context, load: *const Context, arg: usize) -> usize {
    // SAFETY: the contexts are as the caller promises: `load` is suspended, and `save` is the caller's to fill.
    unsafe {
        #[cfg(raddle_tsan)]
        crate::tsan::leave_for((*load).fs());
        arch::switch(save, load, arg)
    }
}

/// Abandons the current context and continues `load`: what an exiting thread does last.
///
/// # Safety
/// As for [`switch`]; besides, nothing on the current stack is used ever again.
#[inline(always)]
pub unsafe fn switch_away(load: *const Context, arg: usize) -> ! {
    // SAFETY: the caller promises that `load` is suspended, and that nothing here is used again.
    unsafe {
        #[cfg(raddle_tsan)]
        crate::tsan::leave_for((*load).fs());
        arch::switch_away(load, arg)
    }
}

/// Puts the floating-point units into their default modes: what a thread starts with that takes over a stack without a
/// switch.
#[inline(always)]
pub fn reset_modes() {
    arch::reset_modes();
}

/// Modes of floating-point units. They stay where they were saved: what the units store in parts is slow to load as a
/// whole.
#[derive(Debug, Default)]
pub struct Modes(arch::Modes);

impl Modes {
    /// Those of the caller.
    #[inline(always)]
    pub fn save(&mut self) {
        arch::save_modes(&mut self.0);
    }

    /// Puts the units into the modes that were saved.
    #[inline(always)]
    pub fn restore(&self) {
        arch::set_modes(&self.0);
    }
}

/// Goes on under another thread pointer, on the same stack.
///
/// # Safety
/// * `fs` is the thread pointer of a block that nobody else runs under, and stays so until it is left again.
/// * Between two calls the caller uses no thread-local variable, of which the compiler may keep the address: what does
///   is called, and is not inlined.
#[inline(always)]
pub unsafe fn set_fs(fs: usize) {
    // SAFETY: the caller's conditions.
    unsafe { arch::set_fs(fs) }
}

/// The thread pointer under which the caller runs.
#[inline(always)]
pub fn current_fs() -> usize {
    arch::current_fs()
}

/// How the thread pointer is set at a switch, in words for people.
pub fn fs_method() -> &'static str {
    arch::fs_method()
}

/// Chooses how the thread pointer is set. Called by [`tls::init`](crate::tls::init); until then the slow, universal way
/// is used. With `force_slow`, that way stays (tests, and kernels that report what they do not do).
pub fn detect(force_slow: bool) {
    arch::detect(force_slow);
}

/// Shadow stacks let a `ret` go only where a `call` came from, which a switch breaks. Turns them off for the calling
/// kernel thread and those it will start; a clear reason when that is not possible.
///
/// # Errors
/// When the kernel has shadow stacks enabled for this process and locked.
pub fn disable_shadow_stack() -> Result<(), &'static str> {
    arch::disable_shadow_stack()
}
