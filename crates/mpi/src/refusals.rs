//! What the implementation refuses by a call's own arguments, before it tells other ranks anything.
//!
//! A call for which the ranks [gather](crate::gathered) first would wait for the others in place of the refusal, and
//! these may never come. So arguments that the implementation refuses at once are found here, and such a call goes to
//! it at once. What only one of them refuses is asked of that one alone: the other waits for other ranks with it, or
//! takes it. Each was tried in one rank of two with MPICH 4.0.2 and Open MPI 4.1.4 (`tests/c/at_once.c`); Open MPI's
//! answers do not depend on other ranks either where it finds the error while it makes something.

use crate::abi::{SUCCESS, UNDEFINED, Word, abi, datatype_null, group_null, is_open_mpi, pmpi, word};
use crate::known;
use std::ffi::c_int;

/// An argument that is an `int`. The upper half of its word may hold anything.
fn int(argument: Word) -> c_int {
    argument as u32 as c_int
}

/// The program's array.
fn ints<'a>(at: Word, count: c_int) -> &'a [c_int] {
    let count = usize::try_from(count).unwrap_or(0);
    if at == 0 || count == 0 {
        return &[];
    }
    // SAFETY: the caller's array of so many, as MPI says, which lasts for its call.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(at), count) }
}

/// How many ranks a communicator has, or this one's group of two; and whether there are two.
pub fn shape(comm: Word) -> Result<(c_int, bool), c_int> {
    let (mut ranks, mut inter): (c_int, c_int) = (0, 0);
    let told = |code: c_int| if code == SUCCESS { Ok(()) } else { Err(code) };
    // SAFETY: the caller's communicator, and a place for the answer.
    told(unsafe { pmpi!(Comm_size: fn(Word, Word))(comm, word(&raw mut ranks)) })?;
    // SAFETY: the caller's communicator, and a place for the answer.
    told(unsafe { pmpi!(Comm_test_inter: fn(Word, Word))(comm, word(&raw mut inter)) })?;
    Ok((ranks, inter != 0))
}

/// Whether it is so of a communicator's number of ranks; not, if that cannot be told.
fn of_ranks(comm: Word, is: impl FnOnce(c_int) -> bool) -> bool {
    !known::is_none(comm) && shape(comm).is_ok_and(|(ranks, _)| is(ranks))
}

/// Whether it is one between two groups.
pub fn is_between_two(comm: Word) -> bool {
    !known::is_none(comm) && shape(comm).is_ok_and(|(_, inter)| inter)
}

/// Whether one is no rank of so many, and not nobody.
fn is_outside(ranks: c_int) -> impl Fn(&c_int) -> bool {
    move |rank| !(0..ranks).contains(rank) && !abi().is_nobody(*rank as Word)
}

pub fn split(color: Word) -> bool {
    is_open_mpi() && int(color) < 0 && int(color) != UNDEFINED
}

/// No implementation has kinds beyond: MPI 5's ABI has constants of ten bits, the others a few.
const KINDS: c_int = 1024;

pub fn split_type(kind: Word) -> bool {
    !(0..KINDS).contains(&int(kind)) && int(kind) != UNDEFINED
}

pub fn create(comm: Word, group: Word) -> bool {
    abi().handle(group) == group_null() || !is_open_mpi() && !known::is_none(comm) && !known::has_all_of(comm, group)
}

pub fn merge(comm: Word) -> bool {
    !known::is_none(comm) && !is_between_two(comm)
}

pub fn cart_create(comm: Word, dimensions: Word, sizes: Word, periods: Word) -> bool {
    let dimensions = int(dimensions);
    if dimensions < 0 || dimensions > 0 && (sizes == 0 || periods == 0) || is_between_two(comm) {
        return true;
    }
    let sizes = ints(sizes, dimensions);
    // Both multiply so.
    let asked = sizes.iter().fold(1, |ranks: c_int, size| ranks.wrapping_mul(*size));
    of_ranks(comm, |ranks| asked > ranks) || is_open_mpi() && sizes.iter().any(|size| *size <= 0)
}

/// What has no shape cannot be cut.
pub fn cart_sub(comm: Word) -> bool {
    let mut shape: c_int = 0;
    // SAFETY: the caller's communicator, and a place for the answer.
    let mut told = || unsafe { pmpi!(Topo_test: fn(Word, Word))(comm, word(&raw mut shape)) };
    !known::is_none(comm) && told() == SUCCESS && shape == UNDEFINED
}

pub fn graph_create(comm: Word, nodes: Word, index: Word, edges: Word) -> bool {
    let nodes = int(nodes);
    if nodes < 0 || nodes > 0 && (index == 0 || edges == 0) || is_between_two(comm) || of_ranks(comm, |all| nodes > all)
    {
        return true;
    }
    let index = ints(index, nodes);
    let falls = index.first().is_some_and(|first| *first < 0) || index.windows(2).any(|pair| pair[0] > pair[1]);
    !is_open_mpi()
        && (falls || ints(edges, index.last().copied().unwrap_or(0)).iter().any(|node| !(0..nodes).contains(node)))
}

pub fn dist_graph_create(comm: Word, count: Word, [sources, degrees, targets]: [Word; 3]) -> bool {
    let count = int(count);
    if count < 0 || count > 0 && [sources, degrees].contains(&0) || is_between_two(comm) {
        return true;
    }
    let degrees = ints(degrees, count);
    // MPICH takes none where there are no targets.
    if targets == 0 && count > 0 && (is_open_mpi() || degrees.iter().any(|degree| *degree > 0)) {
        return true;
    }
    is_open_mpi()
        && of_ranks(comm, |ranks| {
            ints(sources, count).iter().any(is_outside(ranks))
                || degrees.iter().any(|degree| *degree < 0)
                || ints(targets, degrees.iter().sum()).iter().any(is_outside(ranks))
        })
}

/// The ranks at either side: how many, and their array.
pub fn dist_graph_create_adjacent(comm: Word, sides: [(Word, Word); 2]) -> bool {
    let one = |&(count, ranks): &(Word, Word)| int(count) < 0 || int(count) > 0 && ranks == 0;
    let outside = |all| sides.iter().any(|&(count, ranks)| ints(ranks, int(count)).iter().any(is_outside(all)));
    sides.iter().any(one) || is_between_two(comm) || is_open_mpi() && of_ranks(comm, outside)
}

/// A window of so many bytes, with so many to a unit.
fn window(comm: Word, size: Word, unit: Word) -> bool {
    (size as isize) < 0 || int(unit) <= 0 || is_open_mpi() && is_between_two(comm)
}

/// The same of the program's memory.
pub fn window_of(comm: Word, base: Word, size: Word, unit: Word) -> bool {
    window(comm, size, unit) || base == 0 && size != 0 && !is_open_mpi()
}

/// The same, with a place for where its memory is.
pub fn window_to(comm: Word, base: Word, size: Word, unit: Word) -> bool {
    window(comm, size, unit) || base == 0 && !is_open_mpi()
}

/// As above, of memory that ranks share. Open MPI asks for no unit.
pub fn shared_window(comm: Word, base: Word, size: Word, unit: Word) -> bool {
    let unit = if is_open_mpi() { 1 } else { unit };
    window_to(comm, base, size, unit)
}

/// Open MPI looks at how a file is to be opened at once, MPICH with the other ranks.
pub fn open(comm: Word, mode: Word) -> bool {
    // Of Open MPI.
    let [create, read, write, both, exclusive, sequential] = [1, 2, 4, 8, 64, 256];
    let mode = int(mode);
    let is = |bits: c_int| mode & bits != 0;
    let ways = (mode & (read | write | both)).count_ones();
    known::is_none(comm)
        || is_open_mpi() && (ways != 1 || is(read) && is(create | exclusive) || is(both) && is(sequential))
}

pub fn fence(assert: Word) -> bool {
    int(assert) & !abi().asserts != 0
}

/// A reduction of so many of these, by an operation of the program's.
pub fn reduction(count: Word, datatype: Word) -> bool {
    int(count) < 0 || abi().handle(datatype) == datatype_null()
}

/// The same to one rank. Between two groups a rank that takes no part may pass anything but the root.
pub fn reduction_to(comm: Word, root: Word, count: Word, datatype: Word) -> bool {
    !is_between_two(comm) && (reduction(count, datatype) || of_ranks(comm, |ranks| int(root) >= ranks))
}

/// The same to each rank, so many of their own.
pub fn scattered_reduction(comm: Word, counts: Word, datatype: Word) -> bool {
    reduction(0, datatype) || of_ranks(comm, |ranks| ints(counts, ranks).iter().any(|count| *count < 0))
}
