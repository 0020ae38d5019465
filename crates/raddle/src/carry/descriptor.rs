//! Thread descriptors: 128 bytes each, type-stable, from a lock-free slab.
//!
//! Who may touch which field:
//! 1. `thread`: atomics, anybody.
//! 2. `context`, `slot`, `run`, `payload`, `info`: whoever holds the thread: its creator until the first push, then
//!    whoever holds its `Ready` token, then the thread itself while it runs; after `EXITED` the join handle (or, if
//!    detached, the finalizer of its exit).
//! 3. `activation`: written by the activation that runs the thread; null when it is off a processor; read by anybody
//!    (racy).
//! 4. `join`: atomic, see [`raddle_scheduler::join`].

use crate::carry::activation::Activation;
use raddle_context::switch::Context;
use raddle_machine::{Atomic, Ordering, Real};
use raddle_scheduler::Thread;
use raddle_scheduler::join::JoinWord;
use raddle_scheduler::whereabouts::Whereabouts;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;

/// The tag of a descriptor that belongs to no thread.
pub(crate) const FREE: u32 = u32::MAX;

/// Words of a closure or result that a descriptor holds without a box.
pub(crate) const PAYLOAD_WORDS: usize = 4;
pub(crate) type Payload = [MaybeUninit<u64>; PAYLOAD_WORDS];

/// What only some threads have: boxed, so that an unnamed thread costs nothing.
#[repr(C)]
pub(crate) struct Info {
    name: Option<String>,
    /// Its quantum in nanoseconds, if it was spawned with one.
    pub quantum: Option<u64>,
    /// Where the name is, for debuggers, which do not know what a `String` looks like.
    at: *const u8,
    length: usize,
}

impl Info {
    /// Where a debugger finds the name's address and length.
    pub const NAME: [usize; 2] = [std::mem::offset_of!(Info, at), std::mem::offset_of!(Info, length)];

    pub fn new(name: Option<String>, quantum: Option<u64>) -> Self {
        let (at, length) = name.as_ref().map_or((std::ptr::null(), 0), |name| (name.as_ptr(), name.len()));
        Self { name, quantum, at, length }
    }
}

#[repr(C, align(128))]
pub(crate) struct Descriptor {
    pub thread: Thread<Real>,
    pub context: UnsafeCell<Context>,
    pub activation: Whereabouts<Real, Activation>,
    /// The stack slot in raw form; 0 while the thread has not started. The top 16 bits are those of
    /// [`crate::carry::delays`] while it waits.
    pub slot: Cell<usize>,
    pub join: JoinWord<Real>,
    /// Runs the closure in `payload` and leaves the result there.
    pub run: Cell<unsafe fn(*const Descriptor)>,
    pub info: Cell<*mut Info>,
    pub payload: UnsafeCell<Payload>,
}

const _: () = assert!(size_of::<Descriptor>() == 128, "two cache lines a thread: a larger one shows in `create`");

// SAFETY: shared fields are atomics; the others are handed over by the rules of the module header, each hand-over
// through a release-acquire edge (the queue that carries the `Ready` token, the park protocol, or the join word).
unsafe impl Sync for Descriptor {}
// SAFETY: as above; nothing in a descriptor belongs to a kernel thread.
unsafe impl Send for Descriptor {}

unsafe fn nothing(_: *const Descriptor) {}

impl Default for Descriptor {
    fn default() -> Self {
        // SAFETY: the first field of a descriptor; descriptors exist in the type-stable slab only (and in this file's
        // test).
        let thread = unsafe { Thread::<Real>::new(0, 0) };
        thread.tag.store(FREE, Ordering::Relaxed);
        Self {
            thread,
            context: UnsafeCell::new(Context::empty()),
            activation: Whereabouts::nowhere(),
            slot: Cell::new(0),
            join: JoinWord::unused(),
            run: Cell::new(nothing),
            info: Cell::new(std::ptr::null_mut()),
            payload: UnsafeCell::new([MaybeUninit::uninit(); PAYLOAD_WORDS]),
        }
    }
}

impl Descriptor {
    /// The descriptor whose `thread` this is.
    pub fn of(thread: &'static Thread<Real>) -> &'static Descriptor {
        let address = std::ptr::from_ref(thread).expose_provenance();
        // SAFETY: every `Thread<Real>` that the runtime makes is the first field of a `repr(C)` descriptor in
        // type-stable memory, whose provenance was exposed when the slab made it.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    /// The descriptor behind a token's pointer.
    pub fn from_thread(thread: std::ptr::NonNull<Thread<Real>>) -> &'static Descriptor {
        // SAFETY: as in `of`; tokens of this runtime only name descriptors.
        unsafe { thread.cast::<Descriptor>().as_ref() }
    }

    /// The record, for the protocols.
    pub fn record(&'static self) -> &'static Thread<Real> {
        &self.thread
    }

    /// The thread, which is the calling one, goes on: true if it was interrupted meanwhile. If not, whoever interrupts
    /// it from now on finds it here.
    #[inline(always)]
    pub fn goes_on_interrupted(&self) -> bool {
        Whereabouts::<Real, Activation>::resumed();
        self.thread.is_interrupted()
    }

    /// Its pool's index and its stack class.
    #[inline(always)]
    pub fn tag(&self) -> u32 {
        self.thread.tag.load(Ordering::Relaxed)
    }

    pub fn set_tag(&self, tag: u32) {
        self.thread.tag.store(tag, Ordering::Relaxed);
    }

    /// The pool it belongs to, as an index.
    #[inline(always)]
    pub fn pool(&self) -> u32 {
        self.tag() & 0xffff
    }

    /// True from spawn to the end (racy).
    pub fn is_in_use(&self) -> bool {
        self.tag() != FREE && !self.join.has_ended()
    }

    /// The name, if it has one. Only for who holds the thread (rule 2).
    pub fn name(&self) -> Option<&str> {
        let info = self.info.get();
        // SAFETY: rule 2: the caller holds the thread, so nobody frees `info`.
        unsafe { info.as_ref() }?.name.as_deref()
    }

    /// The quantum that it was spawned with, in nanoseconds. Only for who holds the thread (rule 2).
    pub fn quantum(&self) -> Option<u64> {
        // SAFETY: rule 2: the caller holds the thread, so nobody frees `info`.
        unsafe { self.info.get().as_ref() }?.quantum
    }
}
