//! Calls of all ranks of a communicator that have no non-blocking form: the ranks gather first.
//!
//! Such a call ends when all have come, which may take long; what it does then takes a few messages. So a barrier goes
//! before it, in which threads wait as in others. All ranks do the same, since all have this library. Then a rank makes
//! one such call at a time, in an order that is the same in all ranks ([`turns`]).
//!
//! A window does not tell its communicator. Each has one of ours beside it, of the same ranks, on which they gather
//! before a fence and before its end.
//!
//! As they are, each with a kernel thread of its own: what one rank asks another for (`MPI_Win_lock`, `MPI_Win_flush`,
//! `MPI_Win_unlock`, `MPI_Win_start`, `MPI_Win_complete`), what two groups do (`MPI_Intercomm_create`,
//! `MPI_Comm_accept`), what closes files, and `MPI_Finalize`.

use crate::abi::{RequestBytes, SUCCESS, Word, abi, pmpi, word};
use crate::channel::Call;
use crate::completion::until;
use crate::engine;
use crate::entries::{profiled, without_large_counts, word_for};
use crate::known;
use crate::lengths::{self, handle};
use crate::refusals::{self, shape};
use crate::soon::{Kind, finish};
use crate::turns;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::Mutex;

/// Waits until all ranks of it have come.
pub(crate) fn gather(comm: Word) -> c_int {
    static KIND: Kind = Kind::new();
    let mut request: RequestBytes = [0];
    let begin = pmpi!(Ibarrier: fn(Word, Word));
    // SAFETY: the caller's communicator, and a place for the request.
    match unsafe { begin(comm, word(request.as_mut_ptr())) } {
        SUCCESS => finish(&KIND, &mut request, None, || false),
        error => error,
    }
}

/// Tag of the calls of all ranks of a communicator, which no group's call has.
const ALL: u64 = u64::MAX;

/// Makes a call when all ranks have come, and when it is its turn. It is told the number of what it makes, if that has
/// one.
fn in_turn(comm: Word, make: impl FnOnce(Option<u64>) -> c_int) -> c_int {
    // In a handler of errors, which such a call calls: its own turn would wait for that one's end.
    if turns::is_making() {
        return make(None);
    }
    match (gather(comm), known::of(comm)) {
        (SUCCESS, Some((comm, members))) => turns::take(&members, Call { comm, tag: ALL }, |time| make(Some(time))),
        (SUCCESS, None) => make(None),
        (error, _) => error,
    }
}

/// `gathered!(MPI_X X(arguments) over comm unless refused, makes new, then done;)`: the implementation's call in its
/// turn, the place of a communicator that it makes, and what is to be done where it has succeeded. What it refuses by
/// its arguments it refuses at once, and others' call may be right.
macro_rules! gathered {
    ($($mpi:ident $pmpi:ident($($argument:ident),*) over $comm:ident $(unless $refused:expr)? $(, makes $new:ident)?
        $(, then $done:expr)? $(, or $small:ident)?;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: Word),*) -> c_int {
            without_large_counts! { [$($small)?] ($($argument),*) }
            let make = |_number: Option<u64>| {
                let call = pmpi!($pmpi: fn($(word_for!($argument)),*));
                // SAFETY: the caller's arguments.
                let code = unsafe { call($($argument),*) };
                if code == SUCCESS {
                    $(_number.map(|number| known::made($new, number));)?
                    $($done;)?
                }
                code
            };
            if known::is_none($comm) $(|| $refused)? $(|| $new == 0)? { make(None) } else { in_turn($comm, make) }
        }
        profiled! { $mpi($($argument),*); }
    )*};
}

gathered! {
    MPI_Comm_split Comm_split(comm, color, key, made) over comm unless refusals::split(color), makes made;
    MPI_Comm_split_type Comm_split_type(comm, kind, key, info, made)
        over comm unless refusals::split_type(kind), makes made;
    MPI_Comm_create Comm_create(comm, group, made) over comm unless refusals::create(comm, group), makes made;
    MPI_Intercomm_merge Intercomm_merge(comm, high, made) over comm unless refusals::merge(comm), makes made;
    MPI_Cart_create Cart_create(comm, dimensions, sizes, periods, reorder, made)
        over comm unless refusals::cart_create(comm, dimensions, sizes, periods), makes made;
    MPI_Cart_sub Cart_sub(comm, remain, made) over comm unless refusals::cart_sub(comm), makes made;
    MPI_Graph_create Graph_create(comm, nodes, index, edges, reorder, made)
        over comm unless refusals::graph_create(comm, nodes, index, edges), makes made;
    MPI_Dist_graph_create Dist_graph_create(comm, count, sources, degrees, targets, weights, info, reorder, made)
        over comm unless refusals::dist_graph_create(comm, count, [sources, degrees, targets]), makes made;
    MPI_Dist_graph_create_adjacent
        Dist_graph_create_adjacent(comm, from, sources, sw, to, targets, tw, info, reorder, made)
        over comm unless refusals::dist_graph_create_adjacent(comm, [(from, sources), (to, targets)]), makes made;
    MPI_File_open File_open(comm, name, mode, info, file) over comm unless refusals::open(comm, mode);
    MPI_Win_create Win_create(base, size, unit, info, comm, window)
        over comm unless refusals::window_of(comm, base, size, unit) || window == 0, then window_made(comm, window);
    MPI_Win_allocate Win_allocate(size, unit, info, comm, base, window)
        over comm unless refusals::window_to(comm, base, size, unit) || window == 0, then window_made(comm, window);
    MPI_Win_allocate_shared Win_allocate_shared(size, unit, info, comm, base, window)
        over comm unless refusals::shared_window(comm, base, size, unit) || window == 0,
        then window_made(comm, window);
    MPI_Win_create_dynamic Win_create_dynamic(info, comm, window)
        over comm unless window == 0, then window_made(comm, window);
    MPI_Win_create_c Win_create_c(base, size, unit, info, comm, window)
        over comm unless refusals::window_of(comm, base, size, unit) || window == 0,
        then window_made(comm, window), or MPI_Win_create;
    MPI_Win_allocate_c Win_allocate_c(size, unit, info, comm, base, window)
        over comm unless refusals::window_to(comm, base, size, unit) || window == 0,
        then window_made(comm, window), or MPI_Win_allocate;
    MPI_Win_allocate_shared_c Win_allocate_shared_c(size, unit, info, comm, base, window)
        over comm unless refusals::shared_window(comm, base, size, unit) || window == 0,
        then window_made(comm, window), or MPI_Win_allocate_shared;
}

/// It has a non-blocking form, but for a communicator of one rank: while another thread of the rank has what new
/// communicators get their numbers from, MPICH 4.0's `MPI_Comm_idup` tries again as often as its messages come, and
/// there are none then: within the call, for ever and with the lock that the other needs (`tests/c/dups.c`).
///
/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_dup(comm: Word, made: Word) -> c_int {
    static KIND: Kind = Kind::new();
    let mut request: RequestBytes = [0];
    duplicate(comm, made, || {
        match shape(comm) {
            // SAFETY: the caller's arguments.
            Ok((1, false)) => return unsafe { pmpi!(Comm_dup: fn(Word, Word))(comm, made) },
            Ok(_) => {}
            Err(code) => return code,
        }
        let begin = pmpi!(Comm_idup: fn(Word, Word, Word));
        // SAFETY: the caller's arguments, and a place for the request.
        match unsafe { begin(comm, made, word(request.as_mut_ptr())) } {
            SUCCESS => finish(&KIND, &mut request, None, || false),
            error => error,
        }
    })
}

/// Numbers what a call has made at that place of the same ranks.
fn duplicate(comm: Word, made: Word, make: impl FnOnce() -> c_int) -> c_int {
    let number = known::next_duplicate(comm);
    let code = make();
    if code == SUCCESS
        && let Some(number) = number
    {
        known::duplicated(comm, made, number);
    }
    code
}

/// Not in turn: it calls functions of the program's, for attributes.
///
/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_dup_with_info(comm: Word, info: Word, made: Word) -> c_int {
    let gather = || if made == 0 { SUCCESS } else { gather(comm) };
    duplicate(comm, made, || match gather() {
        // SAFETY: the caller's arguments.
        SUCCESS => unsafe { pmpi!(Comm_dup_with_info: fn(Word, Word, Word))(comm, info, made) },
        error => error,
    })
}

/// Of some ranks without the others: these gather by messages of ours ([`channel`](crate::channel)).
///
/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_create_group(comm: Word, group: Word, tag: Word, made: Word) -> c_int {
    let call = pmpi!(Comm_create_group: fn(Word, Word, Word, Word));
    // What one rank's call refuses it refuses at once, and others' may not.
    let refused = (tag as c_int) < 0 || made == 0 || turns::is_making();
    let Some((number, members)) = (!refused).then(|| known::of_group(comm, group)).flatten() else {
        // SAFETY: the caller's arguments.
        return unsafe { call(comm, group, tag, made) };
    };
    turns::come_and_take(&members, Call { comm: number, tag: (tag as u32).into() }, |time| {
        // SAFETY: the caller's arguments.
        let code = unsafe { call(comm, group, tag, made) };
        if code == SUCCESS {
            known::made(made, time);
        }
        code
    })
}

/// Of each window, by its handle: the communicator on which its ranks gather.
static WINDOWS: Mutex<Option<HashMap<u64, Word>>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut HashMap<u64, Word>) -> T) -> T {
    f(WINDOWS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get_or_insert_default())
}

/// Gives it a communicator of its own. A split copies no attributes: functions of the program's would be called.
fn window_made(comm: Word, window: Word) {
    lengths::window_made();
    engine::rouse();
    let mut own: Word = 0;
    let split = pmpi!(Comm_split: fn(Word, Word, Word, Word));
    // SAFETY: the caller's communicator, one colour for all of its ranks, in their order, and a place for the answer.
    if unsafe { split(comm, 0, 0, word(&raw mut own)) } == SUCCESS {
        with(|windows| windows.insert(handle(window), own));
    }
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Win_free(window: Word) -> c_int {
    // A program that passes no place is told so by the call.
    let own = if window == 0 { None } else { with(|windows| windows.remove(&handle(window))) };
    own.map(gather);
    // SAFETY: the caller's arguments.
    let code = unsafe { pmpi!(Win_free: fn(Word))(window) };
    if code == SUCCESS {
        lengths::window_freed();
    }
    if let Some(mut own) = own {
        // SAFETY: a communicator of ours, which nobody uses any more.
        unsafe { pmpi!(Comm_free: fn(Word))(word(&raw mut own)) };
    }
    code
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Win_fence(assert: Word, window: Word) -> c_int {
    let key = abi().handle(window) as u64;
    if !refusals::fence(assert) {
        with(|windows| windows.get(&key).copied()).map(gather);
    }
    // SAFETY: the caller's arguments.
    unsafe { pmpi!(Win_fence: fn(Word, Word))(assert, window) }
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Win_wait(window: Word) -> c_int {
    static KIND: Kind = Kind::new();
    let test = pmpi!(Win_test: fn(Word, Word));
    until(&KIND, |flag| {
        // SAFETY: the caller's argument, and a place for the flag.
        unsafe { test(window, flag) }
    })
}

profiled! {
    MPI_Comm_dup(comm, made);
    MPI_Comm_dup_with_info(comm, info, made);
    MPI_Comm_create_group(comm, group, tag, made);
    MPI_Win_free(window);
    MPI_Win_fence(assert, window);
    MPI_Win_wait(window);
}
