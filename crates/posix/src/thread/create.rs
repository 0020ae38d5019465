//! Creating threads, and what each does first and last.

use super::record::{DETACHED, JOINABLE, Record, Start};
use super::{cancel, dedicated, exit, trampoline};
use crate::os::reach::PAGE_BYTES;
use crate::os::{c, errno, set_errno, system_call};
use crate::process::{masks, own_calls, signals};
use raddle_macros::entry;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[entry(if !raddle::drop_in::is_native() && !passes_through())]
pub unsafe extern "C" fn pthread_create(
    id: *mut c::pthread_t,
    attributes: *const c::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: null or initialised attributes, as POSIX asks of the caller.
    if unsafe { dedicated::is_to_create(attributes) } {
        // SAFETY: the caller's arguments.
        return unsafe { dedicated::create(id, attributes, start, argument) };
    }
    // SAFETY: null or initialised attributes, as POSIX asks of the caller.
    let wanted = unsafe { Wanted::of(attributes) };
    if let Err(error) = wanted.check() {
        return error;
    }
    // SAFETY: the caller's place for the id.
    unsafe { create(id, &wanted, start, argument) }
}

/// Whether threads stay kernel threads: where the self-check fails, or the user asks for it.
pub(super) fn passes_through() -> bool {
    !crate::start::lightweight()
}

/// The program has set default attributes: those without any are not what `pthread_attr_init` says.
static DEFAULTS_SET: AtomicBool = AtomicBool::new(false);

fn get_defaults(attributes: &mut c::pthread_attr_t) -> c_int {
    // SAFETY: a place for them.
    unsafe { next!(pthread_getattr_default_np: fn(*mut c::pthread_attr_t) -> c_int)(attributes) }
}

#[entry]
pub unsafe extern "C" fn pthread_setattr_default_np(attributes: *const c::pthread_attr_t) -> c_int {
    let result = natively!();
    if result == 0 {
        DEFAULTS_SET.store(true, Ordering::Relaxed);
    }
    result
}

/// Guard and stack of a thread that is created without attributes, in bytes; stack 0: not known yet. The C library
/// reads its limit of stacks once, when the program starts.
static PLAIN: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// The largest slot, in bytes.
const LARGEST: usize = 1 << 30;

/// What attributes say about a thread.
pub(super) struct Wanted {
    detached: bool,
    /// Bytes of stack, and where the stack ends that the program gave; 0: none.
    stack: usize,
    given: usize,
    guard: usize,
    /// Scheduling class and priority, as `Record::schedule` keeps them.
    schedule: u64,
    /// These are the attributes', not the creator's.
    explicit: bool,
    /// What it blocks, if not what its creator does.
    mask: Option<u64>,
}

impl Wanted {
    /// # Safety
    /// Null (the defaults) or initialised attributes.
    #[inline]
    pub unsafe fn of(attributes: *const c::pthread_attr_t) -> Self {
        if attributes.is_null()
            && let Some(known) = Self::known()
        {
            return known;
        }
        // SAFETY: null or initialised attributes, which are only read.
        let wanted = unsafe { Self::asked(attributes) };
        if attributes.is_null() && !DEFAULTS_SET.load(Ordering::Relaxed) {
            PLAIN[0].store(wanted.guard, Ordering::Relaxed);
            // Release: pairs with `known`.
            PLAIN[1].store(wanted.stack, Ordering::Release);
        }
        wanted
    }

    /// What a thread of ours that gives no attributes wants, once that was asked for.
    #[inline]
    fn known() -> Option<Self> {
        let stack = PLAIN[1].load(Ordering::Acquire);
        let me = Record::current().filter(|me| dedicated::task(me).is_none())?;
        if stack == 0 || DEFAULTS_SET.load(Ordering::Relaxed) {
            return None;
        }
        let (guard, schedule) = (PLAIN[0].load(Ordering::Relaxed), me.schedule.load(Ordering::Relaxed));
        Some(Wanted { detached: false, stack, given: 0, guard, schedule, explicit: false, mask: None })
    }

    /// # Safety
    /// As for [`Wanted::of`].
    #[cold]
    unsafe fn asked(attributes: *const c::pthread_attr_t) -> Self {
        // SAFETY: the getters read initialised attributes, the caller's or a fresh set.
        unsafe {
            let mut fresh = std::mem::zeroed::<c::pthread_attr_t>();
            let attributes = if attributes.is_null() {
                match DEFAULTS_SET.load(Ordering::Relaxed) {
                    true => _ = get_defaults(&mut fresh),
                    false => _ = c::pthread_attr_init(&mut fresh),
                }
                &fresh
            } else {
                attributes
            };
            let (mut detached, mut stack, mut guard) = (0, 0, 0);
            let (mut given, mut given_size) = (std::ptr::null_mut(), 0);
            c::pthread_attr_getdetachstate(attributes, &mut detached);
            c::pthread_attr_getstacksize(attributes, &mut stack);
            c::pthread_attr_getguardsize(attributes, &mut guard);
            c::pthread_attr_getstack(attributes, &mut given, &mut given_size);
            // The C library keeps the end, which is zero where no stack was given.
            let given = given.expose_provenance().wrapping_add(given_size);
            let mut inherits = 0;
            c::pthread_attr_getinheritsched(attributes, &mut inherits);
            let (mut class, mut parameters) = (0, std::mem::zeroed::<c::sched_param>());
            if inherits == c::PTHREAD_EXPLICIT_SCHED {
                c::pthread_attr_getschedpolicy(attributes, &mut class);
                c::pthread_attr_getschedparam(attributes, &mut parameters);
            } else {
                super::identity::pthread_getschedparam(super::identity::pthread_self(), &mut class, &mut parameters);
            }
            let schedule = super::record::schedule(class, parameters.sched_priority);
            let mut mask = std::mem::zeroed::<c::sigset_t>();
            let get = next!(pthread_attr_getsigmask_np: fn(*const c::pthread_attr_t, *mut c::sigset_t) -> c_int);
            // Otherwise the attributes say nothing of it. The set's first word is the kernel's.
            let mask = (get(attributes, &mut mask) == 0).then(|| (&raw const mask).cast::<u64>().read());
            if std::ptr::eq(attributes, &raw const fresh) && DEFAULTS_SET.load(Ordering::Relaxed) {
                c::pthread_attr_destroy(&mut fresh);
            }
            let explicit = inherits == c::PTHREAD_EXPLICIT_SCHED;
            Wanted { detached: detached == c::PTHREAD_CREATE_DETACHED, stack, given, guard, schedule, explicit, mask }
        }
    }

    /// Whether the C library would create such a thread.
    ///
    /// # Errors
    /// EINVAL: more stack and guard than there are addresses, or a priority where the class has none. EAGAIN: more than
    /// there is room for.
    fn check(&self) -> Result<(), c_int> {
        if self.explicit && self.schedule >> 32 == c::SCHED_OTHER as u64 && self.schedule as u32 != 0 {
            return Err(c::EINVAL);
        }
        if self.given != 0 {
            return Ok(());
        }
        let guard = self.guard.checked_next_multiple_of(PAGE_BYTES);
        let size = guard.and_then(|guard| self.stack.checked_add(guard)).ok_or(c::EINVAL)?;
        if size <= LARGEST {
            return Ok(());
        }
        let (protection, flags) = (c::PROT_READ | c::PROT_WRITE, c::MAP_PRIVATE | c::MAP_ANONYMOUS);
        // SAFETY: new pages, or an error; they are given back at once.
        unsafe {
            let place = system_call(c::SYS_mmap, [0, size, protection as usize, flags as usize, usize::MAX, 0]);
            if (-4095..0).contains(&place) {
                return Err(c::EAGAIN);
            }
            system_call(c::SYS_munmap, [place as usize, size, 0, 0, 0, 0]);
        }
        Ok(())
    }

    /// The slot to ask for. A slot holds a guard and thread-local storage besides; where that would take much of a
    /// small stack, more is taken. Stacks above a gigabyte get one.
    fn slot(&self) -> usize {
        if self.given != 0 {
            return 64 << 10;
        }
        let room = if self.stack < 1 << 20 { 32 << 10 } else { 0 };
        self.stack.saturating_add(room).clamp(64 << 10, LARGEST)
    }
}

/// # Safety
/// `id` is writable; the start routine may be run with the argument on another thread.
pub(super) unsafe fn create(id: *mut c::pthread_t, wanted: &Wanted, start: Start, argument: *mut c_void) -> c_int {
    static STARTED: AtomicBool = AtomicBool::new(false);
    // The first one prepares much, by calls whose errors mean nothing to the program.
    let errno = (!STARTED.load(Ordering::Relaxed)).then(errno);
    signals::prepare();
    dedicated::runtime_runs();
    let state = if wanted.detached { DETACHED } else { JOINABLE };
    // Held by the thread, by its creator until the handle is stored, and by the right to join it.
    let Some(record) = Record::new(start, argument, state, 2 + u32::from(!wanted.detached)) else {
        return c::EAGAIN;
    };
    record.given_stack[0].store(wanted.given, Ordering::Relaxed);
    record.given_stack[1].store(wanted.stack, Ordering::Relaxed);
    let guard = if wanted.given == 0 { wanted.guard.next_multiple_of(4096) } else { 0 };
    record.guard.store(guard, Ordering::Relaxed);
    record.explicit.store(wanted.explicit, Ordering::Relaxed);
    let creators = signals::own_mask();
    let mask = wanted.mask.map_or(creators, |mask| mask & !signals::UNBLOCKABLE);
    own_calls::is_blocked(mask);
    record.mask.store(mask, Ordering::SeqCst);
    if mask != creators {
        masks::changed(creators, mask);
    }
    record.schedule.store(wanted.schedule, Ordering::Relaxed);
    // SAFETY: the caller's place for it; filled before the thread can run.
    unsafe { *id = record.id() };
    exit::thread_begins();
    let builder = raddle::thread::Builder::new().stack_size(wanted.slot());
    match crate::c_interface::spawn(builder, move || body(record)) {
        Ok(handle) => {
            cancel::created(record, handle.into_raw().cast_mut());
            record.release();
            if let Some(errno) = errno {
                set_errno(errno);
                STARTED.store(true, Ordering::Relaxed);
            }
            0
        }
        Err(error) => {
            exit::thread_was_not();
            crate::process::process_directed::never_began(record);
            (0..2 + u32::from(!wanted.detached)).for_each(|_| record.release());
            if matches!(error, raddle::thread::SpawnError::Priority(_)) {
                return c::EINVAL;
            }
            // Who tries again is to find what others have given back, who may wait for the processor.
            crate::io::give_way();
            c::EAGAIN
        }
    }
}

/// The thread, on its own stack.
fn body(record: &'static Record) {
    Record::set_current(record);
    let given = record.given_stack[0].load(Ordering::Relaxed) & !15;
    let (low, end) = if given == 0 {
        raddle::drop_in::own_stack().unwrap_or((0, 0))
    } else {
        (given.saturating_sub(record.given_stack[1].load(Ordering::Relaxed)), given)
    };
    record.stack[0].store(low, Ordering::Relaxed);
    record.stack[1].store(end, Ordering::Relaxed);
    let mut buffer = trampoline::Buffer::new();
    let argument = record.argument.load(Ordering::Relaxed);
    // What was left for it before it began. A handler that ends it here has it begin not at all.
    crate::process::ending::before_it_begins();
    set_errno(0);
    // SAFETY: the buffer outlives the call; a stack that the program gave is the thread's, by POSIX.
    let result = (!cancel::is_to_end(record)).then(|| unsafe {
        let result =
            trampoline::call(record.start(), argument, std::ptr::with_exposed_provenance_mut(given), &mut buffer);
        trampoline::unregister(&mut buffer);
        result
    });
    if cancel::has_returned(record) && !cancel::is_exiting(record) {
        // A handler that was to end it has said with what.
        if let Some(result) = result.filter(|_| !cancel::is_to_end(record)) {
            record.result.store(result, Ordering::Relaxed);
        }
        cancel::begin_exit(record);
    }
    // SAFETY: the thread's code has ended, but for these destructors.
    unsafe { raddle::drop_in::run_destructors() };
    super::identity::give_stack_back(record);
    // If it was the last one, the program's last functions run with its mask.
    exit::thread_ends();
    crate::process::process_directed::thread_ends(record);
    exit::rest_if_first(record);
    record.release();
}
