//! Who a thread is: its id, its name, its attributes, and answers about scheduling that the kernel gives for kernel
//! threads only.
//!
//! A lightweight thread has the scheduling class and the processors that the program had when its first thread was
//! created. One that asks for others, or for which another thread asks, becomes a kernel thread ([`dedicated`]). Its
//! number, the answer to `gettid`, is above all ids that the kernel gives until then; calls that name a thread by it
//! are translated ([`crate::process::own`]).

use super::dedicated;
use super::record::{Held, Record};
use crate::os::{c, reach, system_call};
use raddle_macros::entry;
use std::ffi::{CStr, c_char, c_int};
use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

#[entry]
pub unsafe extern "C" fn pthread_self() -> c::pthread_t {
    match Record::current() {
        Some(record) => record.id(),
        None => natively!(),
    }
}

#[entry]
pub unsafe extern "C" fn pthread_equal(one: c::pthread_t, other: c::pthread_t) -> c_int {
    c_int::from(one == other)
}

#[entry]
pub unsafe extern "C" fn gettid() -> c::pid_t {
    // A dedicated thread's is the kernel's; the child that it has made by `clone` has its storage, and another number.
    let is_kernels = |record: &Record| crate::thread::dedicated::task(record) == Some(record.number());
    match Record::current() {
        Some(record) if !crate::process::vfork::is_child() && !is_kernels(record) => record.number() as c::pid_t,
        // SAFETY: takes nothing.
        _ => unsafe { system_call(c::SYS_gettid, [0; 6]) as c::pid_t },
    }
}

/// What a thread is told of its stack, which may have more room than the `asked` bytes: as many, from the beginning of
/// a page on, as the C library has it. Java makes the first pages inaccessible, and a later thread may have them in the
/// middle, so the thread's end undoes that ([`give_stack_back`]).
fn told_stack(record: &Record, low: usize, end: usize, asked: usize) -> (usize, usize) {
    // SAFETY: asks for a constant.
    let page = unsafe { c::sysconf(c::_SC_PAGESIZE) } as usize;
    // What lies above the stack, in the thread's last page and the one behind it, is its thread-local storage.
    let top = end.next_multiple_of(page);
    let mut told = low.max(top.saturating_sub(asked) & !(page - 1));
    let mut told_end = top.min(told + asked);
    if told_end < end {
        told += page;
        told_end += page;
    }
    record.stack_told.store(told > low, Ordering::Relaxed);
    (told, told_end)
}

/// The calling thread, which is `me`, ends: the part of its stack that is not in use any more is accessible, whatever
/// the program has done with it.
pub(super) fn give_stack_back(me: &Record) {
    if !me.stack_told.load(Ordering::Relaxed) {
        return;
    }
    let [low, end] = me.stack.each_ref().map(|word| word.load(Ordering::Relaxed));
    let here = (&raw const low).expose_provenance();
    // SAFETY: asks for a constant.
    let page = unsafe { c::sysconf(c::_SC_PAGESIZE) } as usize;
    if (low..end).contains(&here) {
        let unused = (here & !(page - 1)).saturating_sub(low);
        let access = (c::PROT_READ | c::PROT_WRITE) as usize;
        // SAFETY: pages of the calling thread's own stack below its frames. A refusal leaves them as they are.
        unsafe { system_call(c::SYS_mprotect, [low, unused, access, 0, 0, 0]) };
    }
}

#[entry]
pub unsafe extern "C" fn pthread_getattr_np(id: c::pthread_t, attributes: *mut c::pthread_attr_t) -> c_int {
    unsafe extern "C" {
        fn pthread_attr_setaffinity_np(of: *mut c::pthread_attr_t, size: usize, set: *const c::cpu_set_t) -> c_int;
    }
    let next = next!(pthread_getattr_np: fn(c::pthread_t, *mut c::pthread_attr_t) -> c_int);
    let (low, end, guard, detached, schedule, explicit) = if Record::is_ours(id) {
        // SAFETY: an id of ours.
        let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
        let [low, end] = record.stack.each_ref().map(|word| word.load(Ordering::Relaxed));
        let detached = record.state.load(Ordering::Relaxed) == super::record::DETACHED;
        // What the C library would have made of it.
        let asked = record.given_stack[1].load(Ordering::Relaxed) & !63;
        let is_given = record.given_stack[0].load(Ordering::Relaxed) != 0;
        let (low, end) = if is_given || asked == 0 { (low, end) } else { told_stack(&record, low, end, asked) };
        let schedule = record.schedule.load(Ordering::Relaxed);
        let explicit = record.explicit.load(Ordering::Relaxed);
        (low, end, record.guard.load(Ordering::Relaxed), detached, schedule, explicit)
    } else {
        // A lightweight thread that was not created here (by raddle::spawn) has an id of the C library's.
        // SAFETY: takes nothing.
        let own = raddle::drop_in::own_stack().filter(|_| unsafe { pthread_self() } == id);
        let Some((low, end)) = own else {
            // SAFETY: the caller's arguments.
            return unsafe { next(id, attributes) };
        };
        (low, end, 4096, false, 0, false)
    };
    // SAFETY: the caller's place for attributes, initialised first.
    unsafe {
        let result = c::pthread_attr_init(attributes);
        if result != 0 {
            return result;
        }
        if end > low {
            c::pthread_attr_setstack(attributes, std::ptr::with_exposed_provenance_mut(low), end - low);
        }
        c::pthread_attr_setguardsize(attributes, guard);
        let class = (schedule >> 32) as c_int;
        let parameters = c::sched_param { sched_priority: schedule as u32 as c_int };
        c::pthread_attr_setschedpolicy(attributes, class);
        c::pthread_attr_setschedparam(attributes, &parameters);
        if explicit {
            c::pthread_attr_setinheritsched(attributes, c::PTHREAD_EXPLICIT_SCHED);
        }
        let state = if detached { c::PTHREAD_CREATE_DETACHED } else { c::PTHREAD_CREATE_JOINABLE };
        c::pthread_attr_setdetachstate(attributes, state);
        // As the C library does: where it runs, and how urgently.
        let mut processors = std::mem::zeroed::<c::cpu_set_t>();
        let size = size_of::<c::cpu_set_t>();
        if pthread_getaffinity_np(id, size, &mut processors) == 0 {
            pthread_attr_setaffinity_np(attributes, size, &processors);
        }
        let (mut class, mut parameters) = (0, std::mem::zeroed::<c::sched_param>());
        if pthread_getschedparam(id, &mut class, &mut parameters) == 0 {
            c::pthread_attr_setschedpolicy(attributes, class);
            c::pthread_attr_setschedparam(attributes, &parameters);
        }
        0
    }
}

#[entry]
pub unsafe extern "C" fn pthread_setname_np(id: c::pthread_t, name: *const c_char) -> c_int {
    if !Record::is_ours(id) {
        super::record::kernel_thread_is_named();
        return natively!();
    }
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    // SAFETY: a C string, as the caller promises.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if name.len() > 15 {
        return c::ERANGE;
    }
    record.set_name(name);
    if record.is_current() {
        raddle::drop_in::set_own_name(&String::from_utf8_lossy(name));
    } else if let handle = record.request.handle()
        && !handle.is_null()
    {
        // SAFETY: the record is held, so its handle lives; this copy of it is not dropped.
        let handle = ManuallyDrop::new(unsafe { raddle::JoinHandle::<()>::from_raw(handle.cast()) });
        raddle::drop_in::set_name(&handle, name);
    }
    // Of the thread that runs `main` the process is known to others.
    let is_first = Record::first().is_some_and(|first| std::ptr::eq(first, record.record()));
    if let Some(task) = dedicated::task(&record).or(is_first.then(std::process::id)) {
        // An error is of no consequence: the name is known here.
        let _ = std::fs::write(format!("/proc/self/task/{task}/comm"), name);
    }
    0
}

#[entry(if Record::is_ours(id))]
pub unsafe extern "C" fn pthread_getname_np(id: c::pthread_t, buffer: *mut c_char, size: usize) -> c_int {
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    let (mut bytes, mut length) = record.name();
    if let Some(task) = dedicated::task(&record)
        && let Ok(kernels) = std::fs::read(format!("/proc/self/task/{task}/comm"))
    {
        // It may have been named past us, by its file.
        length = kernels.strip_suffix(b"\n").unwrap_or(&kernels).len().min(15);
        bytes[..length].copy_from_slice(&kernels[..length]);
    }
    if length == 0 {
        // A thread has its creator's name until it gets one of its own: the program's.
        // SAFETY: the C library's own string.
        let program = unsafe { CStr::from_ptr(c::program_invocation_short_name) }.to_bytes();
        length = program.len().min(15);
        bytes[..length].copy_from_slice(&program[..length]);
    }
    if size < 16 {
        return c::ERANGE;
    }
    // SAFETY: the caller's buffer of that size.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buffer, length);
        *buffer.add(length) = 0;
    }
    0
}

/// The kernel's number of a kernel thread that is as those of lightweight threads are: the caller's, or another one's.
fn carrier() -> u32 {
    let mut found = 0;
    if !raddle::drop_in::is_lightweight() {
        raddle::drop_in::kernel_threads(|task, _| found = task);
    }
    found
}

/// The kernel thread to ask about a thread of ours.
fn task_to_ask(record: &Record) -> u32 {
    if record.is_forker() {
        return std::process::id();
    }
    dedicated::task(record).unwrap_or_else(carrier)
}

/// The kernel thread to ask about a lightweight thread of that number; `None` for any other.
pub(crate) fn carrier_of(number: c_int) -> Option<u32> {
    let target = u32::try_from(number).ok().filter(|&number| number != 0).and_then(Record::of_number)?;
    (dedicated::task(&target).is_none() && !target.is_forker()).then(carrier)
}

/// As [`task_to_ask`], for a number that the kernel's calls name: `None` for a number of the kernel's.
pub(crate) fn number_to_ask(number: c_int) -> Option<u32> {
    let target = u32::try_from(number).ok().filter(|&number| number != 0).and_then(Record::of_number)?;
    Some(task_to_ask(&target))
}

#[entry]
pub unsafe extern "C" fn pthread_setaffinity_np(id: c::pthread_t, size: usize, set: *const c::cpu_set_t) -> c_int {
    dedicated::names_for_placing(id);
    if !Record::is_ours(id) {
        return natively!();
    }
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    if dedicated::task(&record).is_none() && !is_less_than_allowed(size, set.expose_provenance()) {
        return 0;
    }
    on_kernel_thread(&record, c::SYS_sched_setaffinity, [size, set.expose_provenance()])
}

/// Makes a system call that changes a thread of ours, which becomes dedicated: 0 or an error number.
fn on_kernel_thread(record: &Held, number: std::ffi::c_long, [b, c]: [usize; 2]) -> c_int {
    match dedicated::task_of(record.record()) {
        // SAFETY: the caller's arguments; the kernel checks them.
        Ok(task) => -(unsafe { system_call(number, [task as usize, b, c, 0, 0, 0]) }.min(0)) as c_int,
        Err(error) => error,
    }
}

#[entry(if Record::is_ours(id))]
pub unsafe extern "C" fn pthread_getaffinity_np(id: c::pthread_t, size: usize, set: *mut c::cpu_set_t) -> c_int {
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    let task = task_to_ask(&record) as usize;
    // SAFETY: the caller's set of that size, of which the kernel says how much it has written.
    unsafe {
        let arguments = [task, size.min(c_int::MAX as usize), set.expose_provenance(), 0, 0, 0];
        let written = system_call(c::SYS_sched_getaffinity, arguments);
        if written < 0 {
            return -written as c_int;
        }
        std::ptr::write_bytes(set.cast::<u8>().add(written as usize), 0, size - written as usize);
    }
    0
}

/// True if the mask does not name all processors that lightweight threads may run on, or cannot be read.
pub(crate) fn is_less_than_allowed(size: usize, set: usize) -> bool {
    let (mut wanted, mut allowed) = ([0u8; 1024], [0u8; 1024]);
    let size = size.min(wanted.len());
    if !crate::process::own::read(set, &mut wanted[..size]) {
        return true;
    }
    // SAFETY: a mask of that many bytes to write to.
    let written = unsafe {
        system_call(c::SYS_sched_getaffinity, [carrier() as usize, allowed.len(), allowed.as_mut_ptr().addr(), 0, 0, 0])
    };
    written <= 0 || wanted.iter().zip(&allowed).any(|(w, a)| !w & a != 0)
}

/// True if a thread that is to run on these processors only is a lightweight one, and they are all.
pub(crate) fn is_all_processors(number: usize, size: usize, set: usize) -> bool {
    let lightweight = match number as c_int {
        0 => raddle::drop_in::is_lightweight(),
        number => u32::try_from(number)
            .ok()
            .and_then(Record::of_number)
            .is_some_and(|record| dedicated::task(&record).is_none() && !record.is_forker()),
    };
    lightweight && !is_less_than_allowed(size, set)
}

#[entry(if Record::is_ours(id))]
pub unsafe extern "C" fn pthread_getschedparam(
    id: c::pthread_t,
    policy: *mut c_int,
    parameters: *mut c::sched_param,
) -> c_int {
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    let kept = match dedicated::task(&record) {
        None => record.schedule.load(Ordering::Relaxed),
        // SAFETY: takes an integer, and writes to a local.
        Some(task) => unsafe {
            let mut parameters: c::sched_param = std::mem::zeroed();
            let place = (&raw mut parameters).expose_provenance();
            let class = system_call(c::SYS_sched_getscheduler, [task as usize, 0, 0, 0, 0, 0]);
            system_call(c::SYS_sched_getparam, [task as usize, place, 0, 0, 0, 0]);
            if class < 0 {
                return -class as c_int;
            }
            super::record::schedule(class as c_int, parameters.sched_priority)
        },
    };
    // SAFETY: the caller's places.
    unsafe {
        *policy = (kept >> 32) as c_int;
        (*parameters).sched_priority = kept as u32 as c_int;
    }
    0
}

#[entry]
pub unsafe extern "C" fn pthread_setschedparam(
    id: c::pthread_t,
    policy: c_int,
    parameters: *const c::sched_param,
) -> c_int {
    dedicated::names_kernel_thread(id);
    if !Record::is_ours(id) {
        return natively!();
    }
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    // SAFETY: the caller's parameters.
    let wanted = super::record::schedule(policy, unsafe { (*parameters).sched_priority });
    if dedicated::task(&record).is_none() && wanted == record.schedule.load(Ordering::Relaxed) {
        return 0;
    }
    // What cannot be is refused before the thread is changed for it.
    // SAFETY: take and return integers; an unknown policy answers -1.
    let range = unsafe { c::sched_get_priority_min(policy)..=c::sched_get_priority_max(policy) };
    if *range.start() < 0 || !range.contains(&(wanted as u32 as c_int)) {
        return c::EINVAL;
    }
    on_kernel_thread(&record, c::SYS_sched_setscheduler, [policy as usize, parameters.expose_provenance()])
}

#[entry]
pub unsafe extern "C" fn pthread_setschedprio(id: c::pthread_t, priority: c_int) -> c_int {
    dedicated::names_kernel_thread(id);
    if !Record::is_ours(id) {
        return natively!();
    }
    // SAFETY: an id of ours.
    let Some(record) = (unsafe { Record::hold(id) }) else { return c::ESRCH };
    if dedicated::task(&record).is_none() {
        let kept = record.schedule.load(Ordering::Relaxed);
        let policy = (kept >> 32) as c_int;
        // SAFETY: take and return integers.
        let range = unsafe { c::sched_get_priority_min(policy)..=c::sched_get_priority_max(policy) };
        if !range.contains(&priority) {
            return c::EINVAL;
        }
        if super::record::schedule(policy, priority) == kept {
            return 0;
        }
    }
    let parameters = c::sched_param { sched_priority: priority };
    on_kernel_thread(&record, c::SYS_sched_setparam, [(&raw const parameters).expose_provenance(), 0])
}

/// In the child of a fork, which the kernel has named as it did the kernel thread: it is called as the thread was.
pub(crate) fn names_child() {
    let Some(me) = Record::current().filter(|me| dedicated::task(me).is_none()) else { return };
    let mut name = [0u8; 16];
    // SAFETY: the calling thread's id, and room for 16 bytes, of which the kernel reads a C string.
    unsafe {
        if pthread_getname_np(me.id(), name.as_mut_ptr().cast(), name.len()) == 0 {
            system_call(c::SYS_prctl, [c::PR_SET_NAME as usize, name.as_ptr().addr(), 0, 0, 0, 0]);
        }
    }
}

/// `prctl` with PR_SET_NAME (`set`) or PR_GET_NAME, of a lightweight thread: 0 or a negated error number.
///
/// # Safety
/// The caller's C string, or room for 16 bytes.
pub(crate) unsafe fn name_by_prctl(set: bool, address: usize) -> isize {
    // SAFETY: takes nothing.
    let me = unsafe { pthread_self() };
    let mut bytes = [0u8; 16];
    if !set && !reach::writes(std::ptr::with_exposed_provenance_mut::<[u8; 16]>(address)) {
        return -(c::EFAULT as isize);
    }
    if !set {
        // SAFETY: room for 16 bytes; the caller's place for as many.
        unsafe {
            pthread_getname_np(me, bytes.as_mut_ptr().cast(), 16);
            std::ptr::with_exposed_provenance_mut::<[u8; 16]>(address).write(bytes);
        }
        return 0;
    }
    // A name that ends before the end of a page may be shorter than what is read.
    for (at, byte) in bytes[..15].iter_mut().enumerate() {
        if !crate::process::own::read(address + at, std::slice::from_mut(byte)) {
            return -(c::EFAULT as isize);
        }
        if *byte == 0 {
            break;
        }
    }
    // SAFETY: a C string of at most 15 bytes.
    -(unsafe { pthread_setname_np(me, bytes.as_ptr().cast()) } as isize)
}
