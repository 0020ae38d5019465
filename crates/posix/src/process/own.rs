//! What the kernel ties to a kernel thread: a thread that asks for any of it becomes [dedicated] before the call takes
//! effect.
//!
//! Two doors lead here: the C library's functions, and its `syscall` ([`prepare`]). A system call instruction in the
//! program's own code is seen by nobody.
//!
//! | the call | what it changes |
//! |---|---|
//! | `setfsuid`, `setfsgid`, `capset`; by `syscall` all that sets ids and groups | rights |
//! | `prctl` that sets what is not the process's | rights, filters, timer slack, speculation … |
//! | `unshare`, `setns`, `close_range` with CLOSE_RANGE_UNSHARE | namespaces, folder, umask, descriptors |
//! | `seccomp` without TSYNC, `landlock_restrict_self` | filters |
//! | `keyctl` and its like, of keyrings that are a thread's | keyrings |
//! | `sched_setscheduler` and kin, `setpriority`, `nice`, `ioprio_set`, `sched_setaffinity`, `set_mempolicy` |
//! scheduling, memory |
//! | `ptrace`, `perf_event_open` of itself, io_uring's single issuer, `set_robust_list`, `set_tid_address` | what
//! knows its kernel thread |
//! | `pkey_alloc`, `pkey_set`, `arch_prctl`, `ioperm`, `iopl`, `personality` | registers and modes |
//!
//! Calls that name a thread by its number ([`translate`]) name the kernel's, once the thread has one of its own.
//!
//! [dedicated]: crate::thread::dedicated

use super::sandbox;
use crate::os::{answer, c, set_errno, system_call};
use crate::thread::dedicated::{begin, begin_placing, names_number, task_of};
use crate::thread::record::Record;
use raddle_macros::entry;
use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

/// What `prctl` sets of the process, or asks for.
fn is_of_process(option: c_int) -> bool {
    const NAMED: [c_int; 5] = [c::PR_SET_PTRACER, 0x5356_4d41, 0x4155_5856, 14, 63];
    // Even numbers below are what is set, where pairs go; the rest by hand, as in `linux/prctl.h`.
    const OF_PROCESS: [c_int; 34] = [
        2, 3, 4, 5, 7, 9, 11, 13, 16, 19, 21, 23, 25, 27, 30, 31, 32, 34, 35, 36, 37, 39, 40, 41, 42, 43, 44, 46, 48,
        52, 56, 58, 66, 68,
    ];
    NAMED.contains(&option) || OF_PROCESS.contains(&option) || [15, 51, 64, 65, 67, 70, 72, 74].contains(&option)
}

/// The kernel's number for a thread's number in a call that changes something: the thread becomes dedicated.
///
/// # Errors
/// As for [`task_of`].
fn translate(number: usize) -> Result<usize, c_int> {
    let number = number as c_int;
    if number == 0 {
        return begin().map(|()| 0);
    }
    if let Some(target) = u32::try_from(number).ok().and_then(Record::of_number) {
        return Ok(task_of(target.record())? as usize);
    }
    // SAFETY: takes nothing.
    if !raddle::drop_in::is_lightweight() && unsafe { system_call(c::SYS_gettid, [0; 6]) } == number as isize {
        begin()?;
    } else {
        names_number(number);
    }
    Ok(number as usize)
}

/// As [`translate`], in a call that asks: of lightweight threads one has what another one has.
fn translate_to_ask(number: usize) -> usize {
    crate::thread::number_to_ask(number as c_int).map_or(number, |task| task as usize)
}

/// Before a system call that the program makes by number: its thread becomes dedicated where it has to, and numbers of
/// threads are translated.
///
/// # Errors
/// What the call is to answer instead: 0 where it would change nothing, or an error number.
///
/// # Safety
/// The program's arguments.
pub(crate) unsafe fn prepare(number: c_long, arguments: &mut [usize; 6]) -> Result<(), c_int> {
    let [a, b, c, ..] = *arguments;
    match number {
        c::SYS_setuid
        | c::SYS_setgid
        | c::SYS_setreuid
        | c::SYS_setregid
        | c::SYS_setresuid
        | c::SYS_setresgid
        | c::SYS_setgroups
        | c::SYS_setfsuid
        | c::SYS_setfsgid
        | c::SYS_unshare
        | c::SYS_setns
        | c::SYS_set_tid_address
        | c::SYS_set_robust_list
        | c::SYS_landlock_restrict_self
        | c::SYS_ptrace
        | c::SYS_pkey_alloc => begin(),
        #[cfg(target_arch = "x86_64")]
        c::SYS_iopl | c::SYS_ioperm | c::SYS_modify_ldt | c::SYS_set_thread_area => begin(),
        #[cfg(target_arch = "x86_64")]
        c::SYS_arch_prctl if !asks_arch(a) => begin(),
        c::SYS_personality if a as u32 != u32::MAX => begin(),
        c::SYS_prctl if !is_of_process(a as c_int) => begin(),
        c::SYS_seccomp if a as c_uint <= 1 && b as c_ulong & c::SECCOMP_FILTER_FLAG_TSYNC == 0 => begin(),
        c::SYS_keyctl if is_own_keyring(a as c_int, &arguments[1..]) => begin(),
        c::SYS_add_key | c::SYS_request_key if arguments.iter().any(|&word| word as c_int == THREADS_KEYRING) => {
            begin()
        }
        c::SYS_io_uring_setup if is_single_issuer(b) => begin(),
        c::SYS_io_uring_register if [12, 20, 21].contains(&(b as c_uint & 0x7fff_ffff)) => begin(),
        #[cfg(target_arch = "x86_64")]
        c::SYS_signalfd if a as c_int == -1 => signal_descriptor(),
        c::SYS_signalfd4 if a as c_int == -1 => signal_descriptor(),
        c::SYS_close_range if c as c_uint & c::CLOSE_RANGE_UNSHARE != 0 => begin(),
        c::SYS_perf_event_open if b as c_int >= 0 => translate(b).map(|number| arguments[1] = number),
        c::SYS_sched_setscheduler if is_same_class(a, Some(b), c) => Err(0),
        c::SYS_sched_setparam if is_same_class(a, None, b) => Err(0),
        c::SYS_sched_setattr if is_same_scheduling(a, b) => Err(0),
        c::SYS_sched_setscheduler | c::SYS_sched_setparam | c::SYS_sched_setattr => {
            translate(a).map(|number| arguments[0] = number)
        }
        c::SYS_sched_setaffinity if crate::thread::is_all_processors(a, b, c) => Err(0),
        c::SYS_set_mempolicy => begin_placing(),
        c::SYS_sched_setaffinity if a as c_int == 0 => begin_placing(),
        c::SYS_sched_setaffinity => translate(a).map(|number| arguments[0] = number),
        c::SYS_sched_getscheduler
        | c::SYS_sched_getparam
        | c::SYS_sched_getattr
        | c::SYS_sched_getaffinity
        | c::SYS_sched_rr_get_interval
        | c::SYS_getpgid
        | c::SYS_getsid
        | c::SYS_get_robust_list => {
            arguments[0] = translate_to_ask(a);
            Ok(())
        }
        c::SYS_setpriority if a as c_uint == c::PRIO_PROCESS && !is_same_priority(b, c) => {
            translate(b).map(|number| arguments[1] = number)
        }
        c::SYS_getpriority if a as c_uint == c::PRIO_PROCESS => {
            arguments[1] = translate_to_ask(b);
            Ok(())
        }
        c::SYS_ioprio_set if a == 1 => translate(b).map(|number| arguments[1] = number),
        c::SYS_ioprio_get if a == 1 => {
            arguments[1] = translate_to_ask(b);
            Ok(())
        }
        c::SYS_pidfd_open if b as c_int & c::O_EXCL != 0 => translate(a).map(|number| arguments[0] = number),
        // A process is asked for: the kernel says that this is a thread, in its own way.
        c::SYS_pidfd_open => {
            if let Some(number) = crate::thread::number_to_ask(a as c_int) {
                // SAFETY: takes nothing.
                let here = || unsafe { system_call(c::SYS_gettid, [0; 6]) } as usize;
                arguments[0] = if number == 0 { here() } else { number as usize };
            }
            Ok(())
        }
        c::SYS_rt_tgsigqueueinfo => translate(b).map(|number| arguments[1] = number),
        _ => Ok(()),
    }
}

/// `arch_prctl` for what it tells, or sets for the process.
#[cfg(target_arch = "x86_64")]
fn asks_arch(code: usize) -> bool {
    [0x1003, 0x1004, 0x1011, 0x1021, 0x1022, 0x1023, 0x1024, 0x1025].contains(&code) || code >= 0x2000
}

/// The owner at that address, of the events of a descriptor, if it is a thread that has to be translated.
///
/// # Errors
/// As for [`task_of`].
pub(crate) fn translated_owner(address: usize) -> Result<Option<[c_int; 2]>, c_int> {
    /// The kind of owner that is a thread.
    const THREAD: c_int = 0;
    let mut bytes = [0; 8];
    if !read(address, &mut bytes) {
        return Ok(None);
    }
    let [kind, number] = [0, 4].map(|at| c_int::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes")));
    let target = u32::try_from(number).ok().filter(|_| kind == THREAD).and_then(Record::of_number);
    target.map(|target| Ok([kind, task_of(target.record())? as c_int])).transpose()
}

/// The keyring that a thread alone has, as `keyctl` names it.
const THREADS_KEYRING: c_int = -1;

fn is_own_keyring(operation: c_int, arguments: &[usize]) -> bool {
    // Joining a session, to the parent's session, the default for requests, the authority assumed.
    [1, 14, 16, 18].contains(&operation) || arguments[..2].iter().any(|&word| word as c_int == THREADS_KEYRING)
}

/// True if the parameters ask that one kernel thread alone uses the ring.
fn is_single_issuer(parameters: usize) -> bool {
    const SINGLE_ISSUER: u32 = 1 << 12;
    let mut flags = [0u8; 4];
    // Two words of sizes lie before them. An address that cannot be read is for the kernel to refuse.
    read(parameters + 8, &mut flags) && u32::from_ne_bytes(flags) & SINGLE_ISSUER != 0
}

/// Reads memory of the program's that it may have named wrongly.
pub(crate) fn read(address: usize, room: &mut [u8]) -> bool {
    let here = [room.as_mut_ptr().expose_provenance(), room.len()];
    let there = [address, room.len()];
    // SAFETY: the kernel checks the program's address, and writes to the room.
    let count = unsafe {
        let process = system_call(c::SYS_getpid, [0; 6]) as usize;
        let places = [(&raw const here).expose_provenance(), (&raw const there).expose_provenance()];
        system_call(c::SYS_process_vm_readv, [process, places[0], 1, places[1], 1, 0])
    };
    count == room.len() as isize
}

/// The kernel thread that has what that thread of ours has, if that is lightweight.
fn as_carried(number: usize) -> Option<usize> {
    match number as c_int {
        0 => raddle::drop_in::is_lightweight().then_some(0),
        number => crate::thread::carrier_of(number).map(|task| task as usize),
    }
}

/// True if a lightweight thread is to have the scheduling class (the present one if none is named) and the priority
/// that it has.
fn is_same_class(number: usize, class: Option<usize>, parameters: usize) -> bool {
    let mut wanted = [0; size_of::<c_int>()];
    let Some(task) = as_carried(number).filter(|_| read(parameters, &mut wanted)) else { return false };
    let mut present: c_int = -1;
    // SAFETY: takes integers, and writes to the local.
    let known = unsafe {
        let place = (&raw mut present).expose_provenance();
        let has = system_call(c::SYS_sched_getscheduler, [task, 0, 0, 0, 0, 0]);
        class.is_none_or(|class| has == class as c_int as isize)
            && system_call(c::SYS_sched_getparam, [task, place, 0, 0, 0, 0]) == 0
    };
    known && present == c_int::from_ne_bytes(wanted)
}

/// True if a lightweight thread is to have the attributes that it has: GLib gives each thread of a pool those of the
/// pool's creator.
fn is_same_scheduling(number: usize, attributes: usize) -> bool {
    const MOST: usize = 128;
    let (mut size, mut wanted, mut present) = ([0; 4], [0; MOST], [0; MOST]);
    let Some(task) = as_carried(number).filter(|_| read(attributes, &mut size)) else { return false };
    let size = (u32::from_ne_bytes(size) as usize).clamp(48, MOST);
    let place = present.as_mut_ptr().expose_provenance();
    // SAFETY: room for as many bytes.
    let known = unsafe { system_call(c::SYS_sched_getattr, [task, place, size, 0, 0, 0]) } == 0;
    // Behind their sizes.
    known && read(attributes, &mut wanted[..size]) && wanted[4..size] == present[4..size]
}

/// True if a lightweight thread asks for the priority that it has.
fn is_same_priority(number: usize, priority: usize) -> bool {
    let own = number == 0 || Record::current().is_some_and(|me| me.number() as usize == number);
    // SAFETY: takes integers; the answer is 20 less the priority.
    own && raddle::drop_in::is_lightweight()
        && unsafe { system_call(c::SYS_getpriority, [c::PRIO_PROCESS as usize, 0, 0, 0, 0, 0]) }
            == 20 - priority as c_int as isize
}

/// Makes a system call for the program: its result, or a negated error number. (Its frame is not the caller's: threads
/// are parked below that one.)
///
/// # Safety
/// The program's arguments.
#[inline(never)]
pub(crate) unsafe fn by_number(number: c_long, mut arguments: [usize; 6]) -> isize {
    if super::vfork::is_child() {
        // SAFETY: the program's arguments, for the call of this number.
        return unsafe { system_call(number, arguments) };
    }
    // SAFETY: the program's arguments, for the call of this number.
    unsafe {
        if number == c::SYS_timer_create {
            return create_timer(arguments);
        }
        if let Some(result) = crate::thread::clocks::by_number(number, arguments) {
            return result;
        }
        if number == c::SYS_capset || number == c::SYS_capget {
            return capabilities(number, arguments);
        }
        if number == c::SYS_prctl {
            let option = arguments[0] as c_int;
            match option {
                c::PR_SET_NAME | c::PR_GET_NAME if raddle::drop_in::is_lightweight() => {
                    return crate::thread::name_by_prctl(option == c::PR_SET_NAME, arguments[1]);
                }
                c::PR_SET_NAME => crate::thread::record::kernel_thread_is_named(),
                c::PR_SET_SECCOMP => sandbox::begins(),
                _ => {}
            }
        }
        super::limits::prepare(number, arguments);
        match prepare(number, &mut arguments) {
            Ok(()) => system_call(number, arguments),
            Err(error) => -(error as isize),
        }
    }
}

/// # Safety
/// The program's arguments.
unsafe fn call(number: c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the program's arguments, for the call of this number.
    answer(unsafe { by_number(number, arguments) })
}

/// The system call `timer_create`, whose event may name a thread by number.
///
/// # Safety
/// The program's arguments.
unsafe fn create_timer(mut arguments: [usize; 6]) -> isize {
    let [clock, event, ..] = arguments;
    // SAFETY: zeroes are an event.
    let mut given: c::sigevent = unsafe { std::mem::zeroed() };
    let mut bytes = [0; size_of::<c::sigevent>()];
    if event != 0 && read(event, &mut bytes) {
        // SAFETY: all bytes are an event.
        given = unsafe { std::mem::transmute::<[u8; size_of::<c::sigevent>()], c::sigevent>(bytes) };
        arguments[1] = (&raw const given).expose_provenance();
    }
    match prepare_timer(clock as c_int, &mut given) {
        Ok(clock) => {
            arguments[0] = clock as usize;
            // SAFETY: the caller's arguments, or a copy.
            unsafe { system_call(c::SYS_timer_create, arguments) }
        }
        Err(error) => -(error as isize),
    }
}

/// The system calls `capget` and `capset`, whose header names a thread by number.
///
/// # Safety
/// The program's arguments.
unsafe fn capabilities(number: c_long, mut arguments: [usize; 6]) -> isize {
    /// The version, and the number.
    const WORDS: usize = 2;
    let place = arguments[0];
    let mut header = [0; WORDS * size_of::<u32>()];
    let known = place != 0 && read(place, &mut header);
    let (version, named) = header.split_at_mut(size_of::<u32>());
    let thread = u32::from_ne_bytes(named.try_into().unwrap_or_default()) as usize;
    let translated = match (number == c::SYS_capset, known) {
        (true, true) => translate(thread),
        (true, false) => begin().map(|()| thread),
        (false, _) => Ok(translate_to_ask(thread)),
    };
    let translated = match translated {
        Ok(translated) => translated,
        Err(error) => return -(error as isize),
    };
    named.copy_from_slice(&(translated as u32).to_ne_bytes());
    let told: [u8; 4] = (&*version).try_into().unwrap_or_default();
    if known {
        arguments[0] = header.as_mut_ptr().expose_provenance();
    }
    // SAFETY: the program's arguments, or a copy of its header.
    let result = unsafe { system_call(number, arguments) };
    if known && header[..told.len()] != told {
        // The kernel tells which version it knows.
        let version = std::ptr::with_exposed_provenance_mut::<u32>(place);
        if !crate::os::reach::writes(version) {
            return -(c::EFAULT as isize);
        }
        // SAFETY: the program's header, which can be written.
        unsafe { std::ptr::copy_nonoverlapping(header.as_ptr(), version.cast(), told.len()) };
    }
    result
}

/// A timer by the clock of a thread makes that dedicated, and so does one that signals a thread by number; both are
/// translated. The answer is the clock.
fn prepare_timer(clock: c::clockid_t, event: &mut c::sigevent) -> Result<c::clockid_t, c_int> {
    let clock = crate::thread::clocks::kernels_clock(clock)?;
    if event.sigev_notify == c::SIGEV_THREAD_ID {
        event.sigev_notify_thread_id = translate(event.sigev_notify_thread_id as usize)? as c_int;
    }
    Ok(clock)
}

/// -1 with `errno` set.
fn refused(error: c_int) -> c_int {
    set_errno(error);
    -1
}

#[entry]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // The C library's takes any number of arguments, and passes four on in the same registers.
    // SAFETY: the caller's arguments.
    unsafe { call(c::SYS_prctl, [option as usize, a, b, c, d, 0]) as c_int }
}

/// The descriptor tells its readers of what is sent to them: as a rule its maker.
fn signal_descriptor() -> Result<(), c_int> {
    crate::thread::dedicated::known_alone();
    Ok(())
}

#[entry]
pub unsafe extern "C" fn signalfd(descriptor: c_int, set: *const c::sigset_t, flags: c_int) -> c_int {
    let arguments = [descriptor as usize, set.expose_provenance(), size_of::<u64>(), flags as usize, 0, 0];
    // SAFETY: the caller's set, of which the kernel reads the first word.
    unsafe { call(c::SYS_signalfd4, arguments) as c_int }
}

/// Entry points that are system calls of the same name, with the same arguments.
macro_rules! calls {
    ($($name:ident: $number:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[entry]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                let given = [$(word($argument)),*];
                let mut arguments = [0; 6];
                arguments[..given.len()].copy_from_slice(&given);
                // SAFETY: the caller's arguments.
                unsafe { call(c::$number, arguments) as $result }
            }
        )*
    };
}

/// An argument as a register holds it.
trait Word {
    fn word(self) -> usize;
}

fn word(argument: impl Word) -> usize {
    argument.word()
}

macro_rules! words {
    ($($type:ty),*) => {
        $(impl Word for $type {
            fn word(self) -> usize {
                self as usize
            }
        })*
    };
}
words!(c_int, c_uint, c_ulong);

impl<T> Word for *const T {
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

impl<T> Word for *mut T {
    fn word(self) -> usize {
        self.expose_provenance()
    }
}

calls! {
    setfsuid: SYS_setfsuid(id: c_uint) -> c_int;
    setfsgid: SYS_setfsgid(id: c_uint) -> c_int;
    capget: SYS_capget(header: *mut c_void, data: *mut c_void) -> c_int;
    capset: SYS_capset(header: *mut c_void, data: *const c_void) -> c_int;
    unshare: SYS_unshare(flags: c_int) -> c_int;
    setns: SYS_setns(descriptor: c_int, kind: c_int) -> c_int;
    personality: SYS_personality(persona: c_ulong) -> c_int;
    sched_setscheduler: SYS_sched_setscheduler(id: c_int, policy: c_int, parameters: *const c::sched_param) -> c_int;
    sched_getscheduler: SYS_sched_getscheduler(id: c_int) -> c_int;
    sched_setparam: SYS_sched_setparam(id: c_int, parameters: *const c::sched_param) -> c_int;
    sched_getparam: SYS_sched_getparam(id: c_int, parameters: *mut c::sched_param) -> c_int;
    sched_rr_get_interval: SYS_sched_rr_get_interval(id: c_int, time: *mut c::timespec) -> c_int;
    getpgid: SYS_getpgid(id: c_int) -> c_int;
    getsid: SYS_getsid(id: c_int) -> c_int;
    sched_setaffinity: SYS_sched_setaffinity(id: c_int, size: c_ulong, set: *const c::cpu_set_t) -> c_int;
    setpriority: SYS_setpriority(which: c_uint, id: c_uint, priority: c_int) -> c_int;
    pkey_alloc: SYS_pkey_alloc(flags: c_uint, rights: c_uint) -> c_int;
}

#[cfg(target_arch = "x86_64")]
calls! {
    iopl: SYS_iopl(level: c_int) -> c_int;
    ioperm: SYS_ioperm(from: c_ulong, count: c_ulong, on: c_int) -> c_int;
    modify_ldt: SYS_modify_ldt(operation: c_int, place: *mut c_void, size: c_ulong) -> c_int;
    arch_prctl: SYS_arch_prctl(code: c_int, address: c_ulong) -> c_int;
}

#[entry]
pub unsafe extern "C" fn sched_getaffinity(id: c_int, size: usize, set: *mut c::cpu_set_t) -> c_int {
    let arguments = [id as usize, size.min(c_int::MAX as usize), set.expose_provenance(), 0, 0, 0];
    // SAFETY: the caller's place of that size, of which the kernel says how much it has written.
    unsafe {
        let written = call(c::SYS_sched_getaffinity, arguments);
        if written < 0 {
            return -1;
        }
        std::ptr::write_bytes(set.cast::<u8>().add(written as usize), 0, size - written as usize);
    }
    0
}

#[entry]
pub unsafe extern "C" fn getpriority(which: c_uint, id: c_uint) -> c_int {
    // SAFETY: integers. The answer is 20 less the priority.
    let result = unsafe { call(c::SYS_getpriority, [which as usize, id as usize, 0, 0, 0, 0]) };
    if result < 0 { -1 } else { 20 - result as c_int }
}

#[entry]
pub unsafe extern "C" fn nice(more: c_int) -> c_int {
    if more != 0
        && let Err(error) = begin()
    {
        return refused(error);
    }
    natively!()
}

/// Variadic in C: arguments that the caller did not pass are read and go nowhere.
#[entry]
pub unsafe extern "C" fn ptrace(request: c_long, id: c::pid_t, address: *mut c_void, data: *mut c_void) -> c_long {
    if let Err(error) = begin() {
        return refused(error).into();
    }
    // SAFETY: the caller's arguments.
    unsafe { next!(ptrace: fn(c_long, c::pid_t, *mut c_void, *mut c_void) -> c_long)(request, id, address, data) }
}

#[entry]
pub unsafe extern "C" fn pkey_set(key: c_int, rights: c_uint) -> c_int {
    if let Err(error) = begin() {
        return refused(error);
    }
    natively!()
}

#[entry]
pub unsafe extern "C" fn timer_create(clock: c::clockid_t, event: *mut c::sigevent, timer: *mut c::timer_t) -> c_int {
    let next = next!(timer_create: fn(c::clockid_t, *mut c::sigevent, *mut c::timer_t) -> c_int);
    // SAFETY: null or the caller's event.
    let mut given = unsafe { event.as_ref() }.copied();
    // SAFETY: zeroes are an event, of no kind that names a thread.
    let mut none: c::sigevent = unsafe { std::mem::zeroed() };
    let clock = match prepare_timer(clock, given.as_mut().unwrap_or(&mut none)) {
        Ok(clock) => clock,
        Err(error) => return refused(error),
    };
    let event = given.as_mut().map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the caller's arguments, or a copy.
    unsafe { next(clock, event, timer) }
}

aliases! {
    __sched_setscheduler = sched_setscheduler(id: c_int, policy: c_int, parameters: *const c::sched_param) -> c_int;
    __arch_prctl = arch_prctl(code: c_int, address: c_ulong) -> c_int;
    __getpgid = getpgid(id: c_int) -> c_int;
    __sched_getscheduler = sched_getscheduler(id: c_int) -> c_int;
    __sched_getparam = sched_getparam(id: c_int, parameters: *mut c::sched_param) -> c_int;
}
