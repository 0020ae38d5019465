//! `clone`, the C library's function: a child that begins in a function, on a stack of its own.
//!
//! Which child it is, by the flags:
//!
//! | flags | the child | here |
//! |---|---|---|
//! | CLONE_SETTLS | has storage of its own | the program's kernel thread: the plain call |
//! | CLONE_VM and CLONE_VFORK | has its parent's storage, and the parent stands | as after [`super::vfork`] |
//! | CLONE_VM | has its parent's storage, and both run | the parent becomes a kernel thread first |
//! | none of these | has copies | as after [`super::fork`] |
//!
//! A child that runs beside its parent with the same thread-local storage is taken for the parent by all that asks who
//! calls. So the parent must be no lightweight thread: else the child would wait, and give way at a quantum check, in
//! its place.

use super::{exec, fork, vfork};
use crate::os::{c, errno};
use crate::thread::exit;
use raddle_macros::entry;
use std::ffi::{c_int, c_void};

type Function = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What the child is to begin with. It lies on the parent's stack, of which the child has a copy, or which stands until
/// the child is gone.
struct Start {
    function: Function,
    argument: *mut c_void,
    /// How many children of `vfork` there are already, one below the other; `None`: the child has copies.
    depth: Option<usize>,
}

/// Where the child begins.
///
/// # Safety
/// A [`Start`], in the child.
unsafe extern "C" fn start(of: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    let Start { function, argument, depth } = unsafe { of.cast::<Start>().read() };
    match depth {
        Some(depth) => _ = vfork::finish(0, depth),
        None => {
            crate::sync::forked();
            if exit::has_threads() {
                // SAFETY: in the child, whose only thread this is.
                unsafe { fork::child() };
            }
            exec::forget();
        }
    }
    // SAFETY: the program's own function, with its argument.
    unsafe { function(argument) }
}

#[entry]
pub unsafe extern "C" fn clone(
    function: Option<Function>,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_number: *mut c::pid_t,
    storage: *mut c_void,
    child_number: *mut c::pid_t,
) -> c_int {
    let next = next!(clone: fn(
        Option<Function>,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut c::pid_t,
        *mut c_void,
        *mut c::pid_t,
    ) -> c_int);
    // SAFETY: the program's arguments; those that the flags do not ask for are not looked at.
    let make =
        |function, argument| unsafe { next(function, stack, flags, argument, parent_number, storage, child_number) };
    let shares = flags & c::CLONE_VM != 0;
    let Some(own) = function.filter(|_| !stack.is_null() && flags & c::CLONE_SETTLS == 0) else {
        return make(function, argument);
    };
    if shares && flags & c::CLONE_VFORK != 0 {
        let depth = vfork::begin();
        let mut begins = Start { function: own, argument, depth: Some(depth) };
        let made = make(Some(start), (&raw mut begins).cast());
        let result = if made < 0 { -(errno() as isize) } else { made as isize };
        return vfork::finish(result, depth);
    }
    if vfork::is_child() {
        return make(function, argument);
    }
    fork::becomes_parent();
    if shares {
        return make(function, argument);
    }
    let hidden = raddle::drop_in::hide();
    let mut begins = Start { function: own, argument, depth: None };
    let made = make(Some(start), (&raw mut begins).cast());
    raddle::io::doubt_all();
    hidden.end();
    made
}

aliases! {
    __clone = clone(
        function: Option<Function>, stack: *mut c_void, flags: c_int, argument: *mut c_void,
        parent_number: *mut c::pid_t, storage: *mut c_void, child_number: *mut c::pid_t
    ) -> c_int;
}
