//! Limits that the program sets for itself, and memory that it locks. Of address space and data the runtime's reserved
//! stacks count, too, so what nobody uses of them goes before such a limit comes; the kernel knows, and tells, what the
//! program has set.

use super::own::read;
use crate::os::{answer, c, system_call};
use raddle_macros::entry;
use std::ffi::{c_int, c_long, c_uint};

/// Before a system call that may set a limit.
pub(crate) fn prepare(number: c_long, [a, b, c, ..]: [usize; 6]) {
    match number {
        c::SYS_setrlimit => comes(a as c_uint, b),
        c::SYS_prlimit64 if c != 0 && is_own(a as c_int) => comes(b as c_uint, c),
        c::SYS_mlockall => locks(a as c_int),
        c::SYS_munlockall => raddle::drop_in::lock_stacks(false),
        _ => {}
    }
}

/// The kernel locks, and takes at once, what is mapped, or what is mapped from now on: not what is only reserved.
fn locks(flags: c_int) {
    if flags & (c::MCL_CURRENT | c::MCL_FUTURE) == 0 || super::vfork::is_child() {
        return;
    }
    raddle::drop_in::lock_stacks(flags & c::MCL_FUTURE != 0);
    give_back();
}

fn give_back() {
    let before = crate::os::errno();
    raddle::drop_in::give_back_address_space();
    crate::os::set_errno(before);
}

/// Whether that number is this process's.
fn is_own(process: c_int) -> bool {
    // SAFETY: takes nothing.
    process == 0 || process as isize == unsafe { system_call(c::SYS_getpid, [0; 6]) }
}

/// The limit at that address is to be set.
fn comes(resource: c_uint, address: usize) {
    let mut soft = [0; 8];
    let is_of_space = [c::RLIMIT_AS, c::RLIMIT_DATA].contains(&resource);
    // The memory of a child by `vfork` is its parent's.
    if is_of_space && !super::vfork::is_child() && read(address, &mut soft) && soft != c::RLIM_INFINITY.to_ne_bytes() {
        give_back();
    }
}

#[entry]
pub unsafe extern "C" fn mlockall(flags: c_int) -> c_int {
    locks(flags);
    natively!()
}

#[entry]
pub unsafe extern "C" fn munlockall() -> c_int {
    raddle::drop_in::lock_stacks(false);
    natively!()
}

fn set(resource: c_uint, limit: *const c::rlimit) -> c_int {
    let place = limit.expose_provenance();
    comes(resource, place);
    // SAFETY: the caller's arguments; the kernel checks them.
    answer(unsafe { system_call(c::SYS_prlimit64, [0, resource as usize, place, 0, 0, 0]) }) as c_int
}

fn set_or_ask(process: c_int, resource: c_uint, new: *const c::rlimit, old: *mut c::rlimit) -> c_int {
    let (new, old) = (new.expose_provenance(), old.expose_provenance());
    let arguments = [process as usize, resource as usize, new, old, 0, 0];
    prepare(c::SYS_prlimit64, arguments);
    // SAFETY: the caller's arguments; the kernel checks them.
    answer(unsafe { system_call(c::SYS_prlimit64, arguments) }) as c_int
}

#[entry]
pub unsafe extern "C" fn setrlimit(resource: c_uint, limit: *const c::rlimit) -> c_int {
    set(resource, limit)
}

#[entry]
pub unsafe extern "C" fn setrlimit64(resource: c_uint, limit: *const c::rlimit) -> c_int {
    set(resource, limit)
}

#[entry]
pub unsafe extern "C" fn prlimit(
    process: c_int,
    resource: c_uint,
    new: *const c::rlimit,
    old: *mut c::rlimit,
) -> c_int {
    set_or_ask(process, resource, new, old)
}

#[entry]
pub unsafe extern "C" fn prlimit64(
    process: c_int,
    resource: c_uint,
    new: *const c::rlimit,
    old: *mut c::rlimit,
) -> c_int {
    set_or_ask(process, resource, new, old)
}
