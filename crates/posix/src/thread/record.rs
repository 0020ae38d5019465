//! What a `pthread_t` stands for.
//!
//! Records are type-stable and counted. A record is held by its thread until its end, by the right to join it, and by
//! whoever looks at it for the moment ([`Held`]); the last one lets go of raddle's handle and gives the record back. So
//! an id whose thread has ended and was joined is recognised (`ESRCH`) as long as no newer thread has taken over the
//! record, and nobody reaches the wrong raddle thread through an old one.

use crate::os::{c, modes, system_call};
use crate::process::pending::Pending;
use raddle::drop_in::words::request::Request;
use raddle::drop_in::{Doorbell, slab::Slab};
use raddle_machine::{Atomic as _, Real};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The thread may be joined.
pub(crate) const JOINABLE: u32 = 0;
/// Nobody will join.
pub(crate) const DETACHED: u32 = 1;
/// Somebody is joining.
pub(crate) const JOINING: u32 = 2;

/// The answers to `gettid` begin here: above every kernel's ids (`pid_max` is at most 2^22).
const FIRST_NUMBER: u32 = 1 << 23;

/// Bits of a number that say which record it is; above them the record's life, so that a number is not soon that of
/// another thread.
const INDEX_BITS: u32 = 24;
/// Lives that are told apart: the largest number stays below 2^30, where the kernel's locks keep ids.
const LIVES: u32 = 56;
/// Where the numbers of clocks begin, and lives that are told apart there.
const CLOCKS: u32 = 1 << 27;
const CLOCK_LIVES: u32 = 8;

pub(crate) type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Policy and priority in one word, as [`Record::schedule`] keeps them.
pub(crate) fn schedule(policy: c_int, priority: c_int) -> u64 {
    (policy as u64) << 32 | u64::from(priority as u32)
}

/// A thread that the program created.
pub(crate) struct Record {
    index: u32,
    /// How often the record was used.
    life: AtomicU32,
    /// How many forks lay between the program's start and its thread's.
    forks: AtomicU32,
    /// How many hold it; 0 while it is nobody's.
    holders: AtomicU32,
    /// One of the constants above.
    pub state: AtomicU32,
    /// Bits of [`super::cancel`], and the raw form of its `raddle::JoinHandle<()>`; null until the creator has stored
    /// it.
    pub request: Request<Real>,
    start: AtomicPtr<c_void>,
    pub argument: AtomicPtr<c_void>,
    /// What it ended with: set by `pthread_exit`, or by the return of its start routine.
    pub result: AtomicPtr<c_void>,
    /// The end of the stack that the program gave it, and that stack's size; 0 when it has one of raddle's.
    pub given_stack: [AtomicUsize; 2],
    /// The lowest address and the end of its stack; 0 until it has started.
    pub stack: [AtomicUsize; 2],
    /// Somebody was told where it begins, above the lowest address.
    pub stack_told: AtomicBool,
    pub guard: AtomicUsize,
    /// Up to 15 bytes and zeros.
    name: [AtomicU64; 2],
    /// Policy and priority, its creator's: answered as long as it is not dedicated.
    pub schedule: AtomicU64,
    /// It is what the attributes said that it was created with, not what its creator had.
    pub explicit: AtomicBool,
    /// Signals that it has not taken, and signals that it blocks: bit `n - 1` for signal `n`.
    pub pending: Pending,
    pub mask: AtomicU64,
    /// While handlers of its run: what it blocks, as others see it ([`crate::process::masks`]).
    pub handled: AtomicU64,
    /// Which of the two signals of ours are on their way to it ([`crate::process::signals::interrupt`]).
    pub bell: Doorbell<2>,
    /// It ends: it is given no more signals for the process.
    pub ends: AtomicBool,
    /// Signal handlers that it has run because it was interrupted: whoever waits compares.
    pub interruptions: AtomicU64,
    /// Those of them whose handlers do not restart system calls.
    pub endings: AtomicU64,
    /// How its waits for many descriptors go, and whether it is in one in the kernel.
    pub apart: crate::io::Apart,
    /// The modes of the floating-point units that it begins with: its creator's ([`crate::os::modes`]).
    modes: AtomicU64,
    /// The processor time that was counted at its switches, in nanoseconds, and the most that was told of it
    /// ([`super::clocks`]).
    pub time: AtomicU64,
    pub time_told: AtomicU64,
    /// The kernel's number of its kernel thread once it is [dedicated](super::dedicated); 0 before.
    pub task: super::dedicated::Task,
    /// It is to become so: another thread has named it.
    pub asked: AtomicBool,
}

/// The one that runs `main`; null where the first kernel thread does. It is not used again: whoever `main` was keeps
/// the process's number.
static FIRST: AtomicPtr<Record> = AtomicPtr::new(null_mut());
/// In the child of a lightweight thread's fork: that thread, the process's first one now. It is not used again either.
static FORKER: AtomicPtr<Record> = AtomicPtr::new(null_mut());

/// How many forks lie between the program's start and this process.
static FORKS: AtomicU32 = AtomicU32::new(0);
/// In the child of a fork: the process that forked.
static PARENT: AtomicU32 = AtomicU32::new(0);

thread_local! {
    static SELF: Cell<*const Record> = const { Cell::new(null()) };
}

static RECORDS: OnceLock<Arc<Slab<Record, Real>>> = OnceLock::new();

/// For whoever makes or gives back one. Who looks for one takes [`RECORDS`] as it is: none is made for that, since a
/// handler may ask that has interrupted the allocator.
fn records() -> &'static Arc<Slab<Record, Real>> {
    RECORDS.get_or_init(|| Slab::for_processors(raddle::drop_in::usable_cores(), Record::empty))
}

impl Record {
    fn empty(index: u32) -> Self {
        Record {
            index,
            life: AtomicU32::new(0),
            forks: AtomicU32::new(0),
            holders: AtomicU32::new(0),
            state: AtomicU32::new(DETACHED),
            request: Request::default(),
            start: AtomicPtr::new(null_mut()),
            argument: AtomicPtr::new(null_mut()),
            result: AtomicPtr::new(null_mut()),
            given_stack: [const { AtomicUsize::new(0) }; 2],
            stack: [const { AtomicUsize::new(0) }; 2],
            stack_told: AtomicBool::new(false),
            guard: AtomicUsize::new(0),
            name: [const { AtomicU64::new(0) }; 2],
            schedule: AtomicU64::new(0),
            explicit: AtomicBool::new(false),
            pending: Pending::default(),
            mask: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            bell: Doorbell::default(),
            ends: AtomicBool::new(false),
            interruptions: AtomicU64::new(0),
            endings: AtomicU64::new(0),
            apart: crate::io::Apart::default(),
            modes: AtomicU64::new(0),
            time: AtomicU64::new(0),
            time_told: AtomicU64::new(0),
            task: AtomicU32::new(0),
            asked: AtomicBool::new(false),
        }
    }

    /// A record for a thread about to be created, held `holders` times. `None`: no memory.
    pub fn new(start: Start, argument: *mut c_void, state: u32, holders: u32) -> Option<&'static Record> {
        let object = records().allocate_near(raddle::drop_in::core).ok()?;
        // SAFETY: type-stable, and the slab lives as long as the process.
        let record: &'static Record = unsafe { object.as_ref() };
        // Relaxed: nobody else writes to a record that is nobody's.
        record.life.store(record.life.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        record.forks.store(FORKS.load(Ordering::Relaxed), Ordering::Relaxed);
        record.state.store(state, Ordering::Relaxed);
        record.start.store(start as *mut c_void, Ordering::Relaxed);
        record.argument.store(argument, Ordering::Relaxed);
        record.result.store(null_mut(), Ordering::Relaxed);
        record.request.word().store(0, Ordering::Relaxed);
        record.stack_told.store(false, Ordering::Relaxed);
        record.guard.store(0, Ordering::Relaxed);
        record.schedule.store(0, Ordering::Relaxed);
        record.explicit.store(false, Ordering::Relaxed);
        // It takes no signals before its creator's mask is here.
        record.mask.store(u64::MAX, Ordering::Relaxed);
        record.handled.store(0, Ordering::Relaxed);
        // A signal to whoever had the record may never have been answered.
        record.bell.answer();
        record.ends.store(false, Ordering::Relaxed);
        let words = record.given_stack.iter().chain(&record.stack);
        words.for_each(|word| word.store(0, Ordering::Relaxed));
        for (word, part) in record.name.iter().zip(creators_name()) {
            word.store(part, Ordering::Relaxed);
        }
        record.apart.begin();
        record.task.store(0, Ordering::Relaxed);
        record.time.store(0, Ordering::Relaxed);
        record.time_told.store(0, Ordering::Relaxed);
        record.asked.store(false, Ordering::Relaxed);
        record.modes.store(modes::get(), Ordering::Relaxed);
        // Release: whoever takes hold of it sees the above.
        record.holders.store(holders, Ordering::Release);
        Some(record)
    }

    /// The start routine.
    pub fn start(&self) -> Start {
        // SAFETY: stored by `new` from a function of this type.
        unsafe { std::mem::transmute::<*mut c_void, Start>(self.start.load(Ordering::Relaxed)) }
    }

    /// Its `pthread_t`.
    pub fn id(&self) -> c::pthread_t {
        (std::ptr::from_ref(self).expose_provenance() + 1) as c::pthread_t
    }

    /// The calling thread runs the program's `main`.
    pub fn become_first(&'static self) {
        // Held for good: another thread with this record would have its number.
        std::mem::forget(Held::take(self));
        FIRST.store(std::ptr::from_ref(self).cast_mut(), Ordering::Release);
    }

    /// The lightweight thread that runs `main`, or has run it; `None` where the first kernel thread does.
    pub fn first() -> Option<&'static Record> {
        // SAFETY: null, or a record, which are type-stable.
        unsafe { FIRST.load(Ordering::Acquire).as_ref() }
    }

    /// In the child of a fork: `main` is gone, unless it was the one that forked.
    pub fn forked() {
        if let Some(me) = Self::current() {
            std::mem::forget(Held::take(me));
            FORKER.store(std::ptr::from_ref(me).cast_mut(), Ordering::Relaxed);
        }
        if !Self::first().is_some_and(Record::is_current) {
            FIRST.store(null_mut(), Ordering::Relaxed);
        }
        FORKS.fetch_add(1, Ordering::Relaxed);
        PARENT.store(std::os::unix::process::parent_id(), Ordering::Relaxed);
    }

    /// In the child of a lightweight thread's fork: true for that thread, which the first kernel thread runs.
    pub fn is_forker(&self) -> bool {
        std::ptr::eq(FORKER.load(Ordering::Relaxed), self)
    }

    /// The answer to `gettid`: for the one that runs `main`, or that forked the process, the process's number, as
    /// natively; for one that is dedicated, the kernel's.
    pub fn number(&self) -> u32 {
        if [&FIRST, &FORKER].iter().any(|one| std::ptr::eq(one.load(Ordering::Relaxed), self)) {
            return std::process::id();
        }
        super::dedicated::task(self).unwrap_or_else(|| self.first_number())
    }

    /// The answer to `gettid` until it is dedicated. The thread is known by it as long as it lives.
    fn first_number(&self) -> u32 {
        let life = self.life.load(Ordering::Relaxed) % LIVES;
        FIRST_NUMBER + (life << INDEX_BITS | self.index & ((1 << INDEX_BITS) - 1))
    }

    /// The number that stands for the thread in the kernel's form for clocks, which has room for 28 bits: above the
    /// kernel's ids.
    pub fn clock_number(&self) -> u32 {
        let life = self.life.load(Ordering::Relaxed) % CLOCK_LIVES;
        CLOCKS + (life << INDEX_BITS | self.index & ((1 << INDEX_BITS) - 1))
    }

    /// The live record of that number, which may be the answer to `gettid`, too, as far as it has room.
    pub fn of_clock(number: u32) -> Option<Held> {
        let Some(above) = number.checked_sub(CLOCKS) else { return Self::of_number(number) };
        let record = Held::take(RECORDS.get()?.get(above & ((1 << INDEX_BITS) - 1))?);
        record.filter(|record| record.clock_number() == number)
    }

    /// The live record of that number.
    pub fn of_number(number: u32) -> Option<Held> {
        if let Some(first) = Self::first()
            && number == std::process::id()
        {
            return Held::take(first);
        }
        let here = FORKS.load(Ordering::Relaxed);
        Self::of_number_and(number, |record| record.forks.load(Ordering::Relaxed) == here)
    }

    fn of_number_and(number: u32, is: impl Fn(&Record) -> bool) -> Option<Held> {
        let index = number.checked_sub(FIRST_NUMBER)? & ((1 << INDEX_BITS) - 1);
        Held::take(RECORDS.get()?.get(index)?).filter(|record| record.first_number() == number && is(record))
    }

    /// In the child of a fork: the parent, if the number was that of a thread of its then and it still lives.
    pub fn parent_of_number(number: u32) -> Option<u32> {
        let above = FORKS.load(Ordering::Relaxed).checked_sub(1)?;
        Self::of_number_and(number, |record| record.forks.load(Ordering::Relaxed) == above)?;
        Some(std::os::unix::process::parent_id()).filter(|&parent| parent == PARENT.load(Ordering::Relaxed))
    }

    /// A live record of which `is` says so. For what is rare: it looks at all that ever were.
    pub fn find(is: impl Fn(&Record) -> bool) -> Option<Held> {
        RECORDS.get()?.iterate().find_map(|(_, record)| {
            if record.holders.load(Ordering::Relaxed) == 0 || !is(record) {
                return None;
            }
            // SAFETY: type-stable, and the slab lives as long as the process.
            let record: &'static Record = unsafe { &*std::ptr::from_ref(record) };
            Held::take(record).filter(|record| is(record))
        })
    }

    /// True for a `pthread_t` of ours.
    #[inline]
    pub fn is_ours(id: c::pthread_t) -> bool {
        id & 1 == 1
    }

    /// The record behind a `pthread_t` of ours, held; `None` when its thread is gone.
    ///
    /// # Safety
    /// `id` is, or was, the `pthread_t` of a thread that was created here.
    pub unsafe fn hold(id: c::pthread_t) -> Option<Held> {
        // SAFETY: records are type-stable and never unmapped.
        Held::take(unsafe { &*std::ptr::with_exposed_provenance::<Record>(id as usize - 1) })
    }

    /// The calling thread's record; `None` on threads that were not created here.
    #[inline]
    pub fn current() -> Option<&'static Record> {
        // SAFETY: set by the thread's own start; type-stable.
        unsafe { SELF.get().as_ref() }
    }

    /// Says who the calling thread is, which begins.
    pub fn set_current(this: &'static Record) {
        SELF.set(this);
        modes::set(this.modes.load(Ordering::Relaxed));
    }

    /// True for the calling thread's own.
    pub fn is_current(&self) -> bool {
        std::ptr::eq(SELF.get(), self)
    }

    /// One holder less. The last one gives the record back.
    pub fn release(&'static self) {
        self.release_some(1);
    }

    /// So many holders less, which are all the caller's.
    fn release_some(&'static self, holders: u32) {
        // AcqRel: what the others did with the record comes before its next use.
        if self.holders.fetch_sub(holders, Ordering::AcqRel) != holders {
            return;
        }
        // Nobody has it who could leave more.
        self.pending.clear();
        let raw = self.request.take_handle();
        if !raw.is_null() {
            // SAFETY: stored by the creator, taken once; nobody else has the record.
            drop(unsafe { raddle::JoinHandle::<()>::from_raw(raw) });
        }
        // SAFETY: allocated in `new`, returned once: the count reached zero.
        unsafe { records().free_near(NonNull::from(self), raddle::drop_in::core) };
    }

    /// Its name, without a zero byte; empty when it has none.
    pub fn name(&self) -> ([u8; 16], usize) {
        let words = self.name.each_ref().map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0]);
        bytes[8..].copy_from_slice(&words[1]);
        (bytes, bytes.iter().position(|&byte| byte == 0).unwrap_or(16))
    }

    /// Names it, with at most 15 bytes.
    pub fn set_name(&self, name: &[u8]) {
        let mut bytes = [0; 16];
        bytes[..name.len()].copy_from_slice(name);
        for (word, part) in self.name.iter().zip(bytes.chunks_exact(8)) {
            word.store(u64::from_ne_bytes(part.try_into().expect("eight bytes")), Ordering::Relaxed);
        }
    }
}

/// A kernel thread of the program's, the first one perhaps, was given a name.
static KERNEL_THREAD_NAMED: AtomicBool = AtomicBool::new(false);

/// From now on threads ask the kernel for the name of a kernel thread that creates them.
pub(crate) fn kernel_thread_is_named() {
    KERNEL_THREAD_NAMED.store(true, Ordering::Relaxed);
}

/// What a thread that the caller creates is called, as two words: as its creator. Zeroes: as the program.
fn creators_name() -> [u64; 2] {
    if let Some(me) = Record::current() {
        return me.name.each_ref().map(|word| word.load(Ordering::Relaxed));
    }
    let mut name = [0; 2];
    if KERNEL_THREAD_NAMED.load(Ordering::Relaxed) {
        // SAFETY: the kernel writes 16 bytes.
        unsafe {
            system_call(c::SYS_prctl, [c::PR_GET_NAME as usize, (&raw mut name).expose_provenance(), 0, 0, 0, 0])
        };
    }
    name
}

/// A record that stays what it is as long as this lives.
pub(crate) struct Held(&'static Record);

impl Held {
    fn take(record: &'static Record) -> Option<Held> {
        let mut holders = record.holders.load(Ordering::Relaxed);
        while holders != 0 {
            // Acquire: what `new` stored.
            match record.holders.compare_exchange_weak(holders, holders + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Held(record)),
                Err(now) => holders = now,
            }
        }
        None
    }

    /// The record.
    pub fn record(&self) -> &'static Record {
        self.0
    }

    /// Lets go of it, and of the right to join it, which the caller has.
    pub fn release_with_right(self) {
        std::mem::ManuallyDrop::new(self).0.release_some(2);
    }
}

impl std::ops::Deref for Held {
    type Target = Record;

    fn deref(&self) -> &Record {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}
