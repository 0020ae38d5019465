//! Thread descriptors: 128 bytes each, type-stable, from a lock-free slab.
//!
//! Who may touch which field:
//! 1. `thread`: atomics, anybody.
//! 2. `context`, `slot`, `run`, `payload`, and the name in `info`: whoever holds the thread: its creator until the
//!    first push, then whoever holds its `Ready` token, then the thread itself while it runs; after `EXITED` the join
//!    handle (or, if detached, the finalizer of its exit).
//! 3. `activation`: written by the activation that runs the thread; null when it is off a processor; read by anybody
//!    (racy).
//! 4. `join`: atomic, see [`raddle_scheduler::join`].
//! 5. `info`: made once, by the thread or whoever has its join handle; freed with the descriptor, by who frees that.
//!    Whoever has the handle may write a name into `told`, and say where it is, at any time: all of it is atomic.

use crate::carry::activation::Activation;
use raddle_context::switch::Context;
use raddle_machine::{Atomic, Ordering, Real};
use raddle_scheduler::join::JoinWord;
use raddle_scheduler::once_box::OnceBox;
use raddle_scheduler::whereabouts::Whereabouts;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// A thread's record, for the protocols.
type Record = raddle_scheduler::Thread<Real>;

/// The tag of a descriptor that belongs to no thread.
pub(crate) const FREE: u32 = u32::MAX;

/// Words of a closure or result that a descriptor holds without a box.
pub(crate) const PAYLOAD_WORDS: usize = 4;
pub(crate) type Payload = [MaybeUninit<u64>; PAYLOAD_WORDS];

/// What only some threads have: boxed, so that an unnamed thread to which nobody has a handle costs nothing.
#[repr(C)]
pub(crate) struct Info {
    /// Where the name is, for debuggers, which do not know what a `String` looks like. Null: none.
    at: AtomicPtr<u8>,
    length: AtomicUsize,
    /// The name that the spawn gave it.
    given: Option<String>,
    /// Its quantum in nanoseconds, if it was spawned with one.
    quantum: Option<u64>,
    /// The name that it has given itself.
    own: Cell<Option<String>>,
    /// The name that another thread has given it since, up to the first zero; empty: none.
    told: [AtomicU64; 2],
    /// What [`crate::JoinHandle::thread`] and [`crate::current`] share, of a type of the room above.
    handle: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Info {
    /// Where a debugger finds the name's address and length.
    pub const NAME: [usize; 2] = [std::mem::offset_of!(Info, at), std::mem::offset_of!(Info, length)];

    fn new(given: Option<String>, quantum: Option<u64>) -> Self {
        let info = Self {
            at: AtomicPtr::default(),
            length: AtomicUsize::new(0),
            given,
            quantum,
            own: Cell::new(None),
            told: [const { AtomicU64::new(0) }; 2],
            handle: OnceLock::new(),
        };
        info.given.as_ref().inspect(|name| info.show(name.as_ptr(), name.len()));
        info
    }

    /// Debuggers and dumps find the name there. Relaxed: they read it with care, whatever it points to.
    fn show(&self, at: *const u8, length: usize) {
        self.length.store(length, Ordering::Relaxed);
        self.at.store(at.cast_mut(), Ordering::Relaxed);
    }

    fn tell(&self, name: &[u8]) {
        let mut bytes = [0; 16];
        let length = name.len().min(bytes.len());
        bytes[..length].copy_from_slice(&name[..length]);
        for (word, part) in self.told.iter().zip(bytes.as_chunks().0) {
            // Relaxed: whoever reads while it changes has a half of each name, at worst.
            word.store(u64::from_ne_bytes(*part), Ordering::Relaxed);
        }
    }
}

#[repr(C, align(128))]
pub(crate) struct Descriptor {
    pub thread: Record,
    pub context: UnsafeCell<Context>,
    pub activation: Whereabouts<Real, Activation>,
    /// The stack slot in raw form; 0 while the thread has not started. The top 16 bits are those of
    /// [`crate::carry::delays`] while it waits.
    pub slot: Cell<usize>,
    pub join: JoinWord<Real>,
    /// Runs the closure in `payload` and leaves the result there.
    pub run: Cell<unsafe fn(*const Descriptor)>,
    pub info: OnceBox<Info, Real>,
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
        let thread = unsafe { Record::new(0, 0) };
        thread.tag.store(FREE, Ordering::Relaxed);
        Self {
            thread,
            context: UnsafeCell::new(Context::empty()),
            activation: Whereabouts::nowhere(),
            slot: Cell::new(0),
            join: JoinWord::unused(),
            run: Cell::new(nothing),
            info: OnceBox::default(),
            payload: UnsafeCell::new([MaybeUninit::uninit(); PAYLOAD_WORDS]),
        }
    }
}

impl Descriptor {
    /// The descriptor whose `thread` this is.
    pub fn of(thread: &'static Record) -> &'static Descriptor {
        let address = std::ptr::from_ref(thread).expose_provenance();
        // SAFETY: every record that the runtime makes is the first field of a `repr(C)` descriptor in
        // type-stable memory, whose provenance was exposed when the slab made it.
        unsafe { &*std::ptr::with_exposed_provenance(address) }
    }

    /// The descriptor behind a token's pointer.
    pub fn from_thread(thread: NonNull<Record>) -> &'static Descriptor {
        // SAFETY: as in `of`; tokens of this runtime only name descriptors.
        unsafe { thread.cast::<Descriptor>().as_ref() }
    }

    /// The record, for the protocols.
    pub fn record(&'static self) -> &'static Record {
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

    fn info_or_new(&self) -> &Info {
        self.info.get_or_make(|| Info::new(None, None))
    }

    /// What a thread is spawned with that nobody has made ready yet (rule 2).
    pub fn begin_with(&self, name: Option<String>, quantum: Option<u64>) {
        // SAFETY: rule 2: nobody else has the thread, whose hand-over publishes this; rule 5: its earlier owner's was
        // freed with the descriptor.
        unsafe { self.info.set(Info::new(name, quantum)) };
    }

    /// The calling thread, whose descriptor this is, takes another name (rule 2).
    pub fn rename(&self, name: String) {
        let info = self.info_or_new();
        info.show(name.as_ptr(), name.len());
        info.own.set(Some(name));
        info.tell(&[]);
    }

    /// The thread takes another name, of at most 16 bytes. For who has its join handle (rule 5).
    pub fn rename_other(&self, name: &[u8]) {
        let info = self.info_or_new();
        info.tell(name);
        info.show(info.told.as_ptr().cast(), name.len().min(size_of_val(&info.told)));
    }

    /// Hands on the name, if it has one, without memory from the allocator. Only for who holds the thread (rule 2).
    pub fn with_name<T>(&self, take: impl FnOnce(Option<&str>) -> T) -> T {
        let Some(info) = self.info.get() else { return take(None) };
        let words = info.told.each_ref().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let text = words.as_flattened().split(|byte| *byte == 0).next().expect("a first part");
        if !text.is_empty() {
            return take(Some(text.utf8_chunks().next().map_or("", |chunk| chunk.valid())));
        }
        // SAFETY: `own`, which only the thread itself replaces: rule 2.
        let own = unsafe { (*info.own.as_ptr()).as_deref() };
        take(own.or(info.given.as_deref()))
    }

    /// A copy of the name, if it has one. Only for who holds the thread (rule 2).
    pub fn name(&self) -> Option<String> {
        self.with_name(|name| name.map(str::to_owned))
    }

    /// The quantum that it was spawned with, in nanoseconds. For the thread, and for whoever has its join handle.
    pub fn quantum(&self) -> Option<u64> {
        self.info.get()?.quantum
    }

    /// What is handed out as the thread, made of the name that the spawn gave it when it is first asked for. For the
    /// thread, and for whoever has its join handle; each asks for the same type.
    pub fn handle<T: Any + Send + Sync>(&self, make: impl FnOnce(Option<String>) -> T) -> &T {
        let info = self.info_or_new();
        let handle = info.handle.get_or_init(|| Box::new(make(info.given.clone())));
        handle.downcast_ref().expect("one type of handles")
    }

    /// The descriptor is about to be freed, by the caller.
    #[inline(always)]
    pub fn forget_info(&self) {
        // SAFETY: rule 5: whoever frees has seen the end of the thread and of its handle.
        unsafe { self.info.clear() };
    }

    /// Where a dump finds [`Info`], which may be freed meanwhile.
    pub fn info_address(&self) -> usize {
        std::ptr::from_ref(&self.info).addr()
    }
}
