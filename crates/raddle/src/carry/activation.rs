//! An activation: a kernel thread that carries a processor, and its idle loop.
//!
//! Its idle context is the kernel thread's own stack and thread pointer. A thread switches there only when its
//! processor has nothing else to run, or when its activation has lost the processor.

use crate::carry::descriptor::Descriptor;

use crate::carry::duties::Idle;
use crate::carry::processor::Processor;
use crate::carry::switching::{After, finalize, finalize_lost, resume};
use crate::carry::witness::{Inside, Lent};
use raddle_context::switch::Context;
use raddle_machine::Real;
use raddle_scheduler::Ready;
use raddle_scheduler::dispatch::rest;
use raddle_scheduler::spares::{self, Orders};
use raddle_scheduler::takeover::Mark;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

pub(crate) use raddle_scheduler::dispatch::LOWEST;

/// An order of an activation's kernel thread, beside the addresses of processors: it is to end.
const STOP: usize = 1;

#[repr(align(128))]
pub(crate) struct Activation {
    pub id: u32,
    pub mark: Mark<Real>,
    /// What the resumed context does for the one that was suspended. Kernel-thread-local: set just before a switch,
    /// taken just after.
    pub after: Cell<After>,
    pub previous: Cell<*const Descriptor>,
    /// The processor that it carries, or carried last. Written by its kernel thread; the monitor reads it, racily.
    processor: AtomicPtr<Processor>,
    pub current: AtomicPtr<Descriptor>,
    pub idle: UnsafeCell<Context>,
    pub fs: Cell<usize>,
    /// The kernel's id of its kernel thread while that carries whoever is ready; 0: it has ended, or belongs to one
    /// thread.
    pub tid: AtomicU32,
    /// The kernel's id of its kernel thread while that belongs to one thread ([`crate::carry::dedicated`]).
    pub task: AtomicU32,
    /// Its kernel thread belongs to the thread that it runs, for the rest of that one's life, and ends with it. Written
    /// by its own kernel thread.
    pub dedicated: AtomicBool,
    on_core: crate::os::CoreWord,
    pub turn: crate::carry::turns::Turn,
    /// For the drop-in library: what its kernel thread has heard of last.
    pub heard: AtomicU64,
    /// For [`crate::threads::requests`]: a prepared descriptor for a half that the running thread gives; null if none
    /// was asked for, or one was given.
    requested: AtomicPtr<Descriptor>,
    /// It is alone with the thread that it runs, by that thread's wish ([`crate::guest::go_apart`]); its processor is
    /// another's. Written by its own kernel thread.
    pub apart: AtomicBool,
    /// What the thread, while it is apart, waits for in the kernel that only other threads of the process can bring
    /// about; 0: nothing. Written by its own kernel thread.
    pub waits_for: AtomicUsize,
    /// Events that threads have found on it by waits for many descriptors, and switches for the sake of such waits
    /// ([`crate::guest::event_loops::note_turns`]). Counters only, written by its own kernel thread, never reset.
    pub found: AtomicU64,
    pub turns: AtomicU64,
    /// What its kernel thread's clock said when the thread that it runs came to it ([`crate::carry::clocks`]), or one
    /// of two marks. Written by its own kernel thread, and over the mark of what is not known by whoever asks.
    pub since: AtomicU64,
    /// Asks the thread that runs on it to give way.
    pub ticker: crate::os::ticker::Ticker,
    /// Whether a kernel thread has this record.
    in_use: AtomicBool,
    /// True while its kernel thread touches nothing that is its own, whatever the mark says: it sleeps, or waits for an
    /// order.
    sheltered: AtomicBool,
    /// Signals were put off, and are blocked on the kernel thread. Used by it and its handlers only.
    deferred: AtomicBool,
    /// The signals that were blocked before that.
    blocked: Cell<u64>,
    /// What its kernel thread is told to do next: the address of a processor to carry, or [`STOP`].
    orders: Orders<Real>,
}

// SAFETY: the cells are used by the activation's kernel thread only (the threads it runs included, one at a time);
// everything else is atomic.
unsafe impl Sync for Activation {}
// SAFETY: as above: before its kernel thread starts, only its creator touches it.
unsafe impl Send for Activation {}

impl Activation {
    /// A record in use, without an order.
    pub fn new(id: u32) -> Self {
        Self {
            id,
            mark: Mark::new(),
            after: Cell::new(After::NOTHING),
            previous: Cell::new(std::ptr::null()),
            processor: AtomicPtr::new(std::ptr::null_mut()),
            current: AtomicPtr::new(std::ptr::null_mut()),
            idle: UnsafeCell::new(Context::empty()),
            fs: Cell::new(0),
            tid: AtomicU32::new(0),
            task: AtomicU32::new(0),
            dedicated: AtomicBool::new(false),
            on_core: crate::os::CoreWord::new(),
            turn: crate::carry::turns::Turn::new(),
            heard: AtomicU64::new(0),
            requested: AtomicPtr::new(std::ptr::null_mut()),
            apart: AtomicBool::new(false),
            waits_for: AtomicUsize::new(0),
            found: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            since: AtomicU64::new(0),
            ticker: crate::os::ticker::Ticker::new(),
            in_use: AtomicBool::new(true),
            sheltered: AtomicBool::new(true),
            deferred: AtomicBool::new(false),
            blocked: Cell::new(0),
            orders: Orders::default(),
        }
    }

    /// The core on which its kernel thread runs, or ran last, if that is known.
    pub fn core(&self) -> Option<u32> {
        self.on_core.core()
    }

    /// Whether its thread may compute at this moment, as far as can be seen without asking the kernel (racy). It does
    /// not where it has lost its processor, since it is blocked or others go on in its place, nor where its core is the
    /// one on which the caller runs, on `mine`: then the kernel has preempted it.
    pub fn may_be_on_core(&self, mine: Option<&Activation>) -> bool {
        let is_carried = |processor: &Processor| processor.seat.owner.owner() == self.id;
        let has_processor = self.apart.load(Ordering::Relaxed) || self.processor_if_any().is_some_and(is_carried);
        has_processor && self.core().is_none_or(|core| mine.and_then(Activation::core) != Some(core))
    }

    /// When its kernel thread comes back from the kernel to the instruction at `place`, it is to go on at `entry`.
    /// False if that cannot be had.
    pub fn trap(&'static self, place: usize, entry: usize) -> bool {
        self.on_core.trap(place, entry)
    }

    /// It is to go on where it comes back to.
    pub fn untrap(&self) {
        self.on_core.untrap();
    }

    /// True while it runs a thread (racy).
    pub fn runs_a_thread(&self) -> bool {
        !self.current.load(Ordering::Relaxed).is_null()
    }

    /// Takes the record for a new kernel thread, if it is free.
    pub fn claim(&'static self) -> Option<&'static Self> {
        // Acquire: what the last user did.
        let won = self.in_use.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        won.then_some(self)
    }

    /// The first order of a record that was just claimed: to carry `processor`, or to wait.
    pub fn prepare(&self, processor: Option<&'static Processor>) {
        self.after.set(After::NOTHING);
        let (carried, order) = processor.map_or((std::ptr::null_mut(), spares::NONE), |p| {
            (std::ptr::from_ref(p).cast_mut(), std::ptr::from_ref(p).expose_provenance())
        });
        // Release: pairs with `processor_if_any`. Makes visible: the processor.
        self.processor.store(carried, Ordering::Release);
        self.orders.begin_with(order);
    }

    /// Its kernel thread has ended, or was refused: the record may serve another.
    pub fn give_back(&self) {
        debug_assert!(!self.mark.is_inside() && !self.deferred.load(Ordering::Relaxed));
        self.ticker.rest(None);
        self.tid.store(0, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
        self.task.store(0, Ordering::Relaxed);
        self.dedicated.store(false, Ordering::Relaxed);
        // Release: pairs with `claim`.
        self.in_use.store(false, Ordering::Release);
    }

    /// True while a request waits for an answer.
    pub fn has_request(&self) -> bool {
        !self.requested.load(Ordering::Acquire).is_null()
    }

    /// Leaves a prepared descriptor for a half; false if there is none. Called by the monitor while no request waits.
    pub fn request(&self, prepared: Option<&'static Descriptor>) -> bool {
        let Some(descriptor) = prepared else { return false };
        // Release: the descriptor as it was prepared.
        self.requested.store(std::ptr::from_ref(descriptor).cast_mut(), Ordering::Release);
        true
    }

    /// The descriptor of the request, which is answered with it. For the handler on its kernel thread.
    pub fn answer(&self) -> Option<&'static Descriptor> {
        let descriptor = self.requested.swap(std::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: null, or a descriptor, which are type-stable.
        unsafe { descriptor.as_ref() }
    }

    /// True while a kernel thread has this record.
    pub fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Acquire)
    }

    /// True if kernel thread `task` has this record, and carries whoever is ready.
    pub fn is_task(&self, task: u32) -> bool {
        self.tid.load(Ordering::Relaxed) == task
    }

    /// Leaves the mark; signals that came meanwhile are delivered now.
    #[inline(always)]
    pub fn leave(&self) {
        self.mark.leave();
        // Whichever instruction a signal hits: before the store it is put off and seen here, after it, it is not put
        // off.
        self.open();
    }

    /// Signals that were put off stay pending, and blocked, on the kernel thread.
    pub fn forget_deferred(&self) {
        self.deferred.store(false, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn deliver(&self) {
        self.deferred.store(false, Ordering::Relaxed);
        crate::os::signals::unblock(self.blocked.get());
    }

    /// From here to [`Activation::unshelter`] the kernel thread touches nothing that is its own: signals need not wait.
    pub fn shelter(&self) {
        self.sheltered.store(true, Ordering::Relaxed);
        self.open();
    }

    pub fn unshelter(&self) {
        self.sheltered.store(false, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    }

    /// True where a signal has to wait: inside the mark, and where a thread whose activation has lost its processor
    /// changes over to another one (there [`Activation::shelter`] ends it). For handlers on its kernel thread.
    pub fn is_closed(&self) -> bool {
        (self.mark.is_inside() || self.after.get().is_submit()) && !self.sheltered.load(Ordering::Relaxed)
    }

    /// From here on signals need not wait: those that were put off are delivered now.
    #[inline(always)]
    pub fn open(&self) {
        compiler_fence(Ordering::SeqCst);
        if self.deferred.load(Ordering::Relaxed) {
            self.deliver();
        }
    }

    /// Puts a signal off until the mark is left. False if the kernel does not take it back.
    ///
    /// # Safety
    /// In a handler on its kernel thread, as for [`crate::os::signals::defer`].
    pub unsafe fn defer(&self, signal: i32, info: *mut c_void, context: *mut c_void) -> bool {
        // SAFETY: the caller is in the handler, with the kernel's arguments to it, on this kernel thread.
        let Some(before) = (unsafe { crate::os::signals::defer(signal, info, context) }) else { return false };
        // Only the first one finds signals unblocked; those that it blocked itself must not stay blocked.
        if !self.deferred.load(Ordering::Relaxed) {
            self.blocked.set(before);
            self.deferred.store(true, Ordering::Relaxed);
        }
        true
    }

    /// The processor that it carries, or carried last.
    #[inline(always)]
    pub fn processor(&self) -> &'static Processor {
        let processor = self.processor.load(Ordering::Relaxed);
        debug_assert!(!processor.is_null());
        // SAFETY: an activation runs a thread only after it was given a processor, and processors are never freed.
        unsafe { &*processor }
    }

    /// The processor that it carries, or carried last, if it ever did. For others than its own kernel thread, too.
    pub fn processor_if_any(&self) -> Option<&'static Processor> {
        // Acquire: pairs with the stores in `prepare` and `set_processor`.
        // SAFETY: null or a processor, which are never freed.
        unsafe { self.processor.load(Ordering::Acquire).as_ref() }
    }

    /// Names the processor that it carries from now on. Called by its own kernel thread.
    pub fn set_processor(&self, processor: &'static Processor) {
        // Release: pairs with `processor_if_any`. Makes visible: the processor.
        self.processor.store(std::ptr::from_ref(processor).cast_mut(), Ordering::Release);
    }

    /// Tells a sleeping spare to run `processor`, which it now owns.
    pub fn order(&'static self, processor: &'static Processor) {
        self.orders.give(std::ptr::from_ref(processor).expose_provenance());
    }

    /// Tells the kernel thread to end when it has nothing to run.
    pub fn stop(&self) {
        self.orders.give(STOP);
    }

    /// The life of the kernel thread, which begins with all signals blocked, and goes on with `mask` or with what the
    /// drop-in library says.
    pub fn main(&'static self, mask: u64) {
        self.fs.set(raddle_context::switch::current_fs());
        self.on_core.register();
        self.take_orders(mask);
        self.on_core.unregister();
    }

    fn take_orders(&'static self, mask: u64) {
        // SeqCst: who changes what the hook reads sees this kernel thread, or the hook sees the change.
        self.tid.store(crate::os::gettid(), Ordering::SeqCst);
        crate::carry::signal::this_is(self);
        if !crate::carry::above::kernel_thread_begins() {
            crate::os::signals::unblock(mask);
        }
        let _alternate_stack = raddle_context::overflow::activation_altstack().inspect_err(|error| {
            crate::os::say_once(&format!("raddle: a stack overflow will not be reported by name: {error}"));
        });
        loop {
            self.shelter();
            match self.orders.wait() {
                STOP => return,
                address => {
                    // SAFETY: orders are addresses of processors, which are never freed, exposed by who gave the order.
                    let processor: &'static Processor = unsafe { &*std::ptr::with_exposed_provenance(address) };
                    self.unshelter();
                    self.set_processor(processor);
                    // It slept, perhaps on another core than the one before it: the next thread may block at once.
                    crate::carry::arming::arm(self);
                    // The monitor may have borrowed it since the order, and left it free; or it has retired.
                    if let Some(inside) = Inside::begin(self) {
                        self.serve(inside);
                    }
                    // One that a thread had to itself may have rights that nobody else is to have.
                    if self.dedicated.load(Ordering::Relaxed) || !processor.pool.became_spare(self) {
                        // A signal that was put off while its thread changed over comes now: the kernel would forget
                        // it with this kernel thread.
                        self.shelter();
                        return;
                    }
                }
            }
        }
    }

    /// Runs threads until the processor is lost or retires, or its pool stops.
    fn serve(&'static self, mut inside: Inside) {
        loop {
            let processor = inside.processor();
            if let Some(held) = inside.owned().held.take() {
                match crate::carry::turns::give(inside, held) {
                    Some(still) => inside = still,
                    None => return,
                }
                continue;
            }
            let next = inside.owned().dispatcher.at_hand().or_else(|| self.idle(inside.lend()));
            let Some(next) = next else {
                if processor.pool.is_stopping() || !processor.seat.is_active() {
                    return inside.release();
                }
                continue;
            };
            if crate::carry::turns::is_held(Descriptor::from_thread(next.thread())) {
                inside.owned().held = Some(Descriptor::from_thread(next.into_thread()));
                continue;
            }
            // SAFETY: on the idle context.
            match unsafe { self.run(inside, next) } {
                Some(still) => inside = still,
                None => return,
            }
        }
    }

    /// Switches to a thread; returns when a thread of this activation came back to the idle context. `None` if the
    /// processor was lost meanwhile.
    ///
    /// # Safety
    /// On the idle context.
    unsafe fn run(&'static self, inside: Inside, next: Ready<Real>) -> Option<Inside> {
        // SAFETY: the caller is on the idle context, which `resume` leaves suspended until a thread of this activation
        // comes back.
        unsafe { resume(inside, next) };
        if self.after.get().is_without_processor() {
            finalize_lost(self);
            return None;
        }
        // SAFETY: resumed just now, by a thread that was inside.
        let mut inside = unsafe { Inside::resumed(self) };
        finalize(inside.lend());
        Some(inside)
    }

    /// Nothing at hand: searches, then sleeps, see [`crate::carry::duties`].
    fn idle(&'static self, inside: Lent<'_>) -> Option<Ready<Real>> {
        let processor = inside.processor;
        processor.running.store(LOWEST, Ordering::Relaxed);
        if crate::lanes::is_on() {
            crate::carry::traced::idle(processor);
        }
        rest(&processor.pool.idle, processor.index, &mut Idle(inside))
    }
}
