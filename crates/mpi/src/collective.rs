//! Calls in which all ranks take part.
//!
//! For what has no non-blocking form see [`gathered`](crate::gathered); neighbours have [theirs](crate::neighbours).
//! Lengths that stand in arrays, or count at some ranks alone, are not looked at: such a call is as if long. Of calls
//! with large counts those with arrays of them are as they are: these are no arrays of `int` for an implementation
//! without.
//!
//! Reads and writes of files are not among them, though they have such forms: MPICH's (4.0.2) tell of success where the
//! system refuses a write, and Open MPI's (4.1.4) do not end at the end of a file.

use crate::abi::{SUCCESS, Word, pmpi};
use crate::entries::{begun_and_ended, blocking, profiled, without_large_counts, word_for};
use crate::gathered::gather;
use crate::lengths::{large_of_each, message, of_each, whole};
use crate::operations::is_of_the_program;
use crate::refusals::{is_between_two, reduction, reduction_to, scattered_reduction};
use std::ffi::c_int;

blocking! {
    MPI_Barrier: Ibarrier(comm) over comm if false;
    MPI_Bcast: Ibcast(buffer, count, datatype, root, comm) over comm if message(count, datatype);
    MPI_Gather: Igather(sb, sc, st, rb, rc, rt, root, comm) over comm if true;
    MPI_Gatherv: Igatherv(sb, sc, st, rb, rc, displacements, rt, root, comm) over comm if true;
    MPI_Scatter: Iscatter(sb, sc, st, rb, rc, rt, root, comm) over comm if true;
    MPI_Scatterv: Iscatterv(sb, sc, displacements, st, rb, rc, rt, root, comm) over comm if true;
    MPI_Allgather: Iallgather(sb, sc, st, rb, rc, rt, comm) over comm if of_each(rc, rt, comm);
    MPI_Allgatherv: Iallgatherv(sb, sc, st, rb, rc, displacements, rt, comm) over comm if true;
    MPI_Alltoall: Ialltoall(sb, sc, st, rb, rc, rt, comm) over comm if of_each(rc, rt, comm);
    MPI_Alltoallv: Ialltoallv(sb, sc, sd, st, rb, rc, rd, rt, comm) over comm if true;
    MPI_Alltoallw: Ialltoallw(sb, sc, sd, st, rb, rc, rd, rt, comm) over comm if true;
    MPI_Bcast_c: Ibcast_c(buffer, count, datatype, root, comm) over comm if whole(count, datatype), or MPI_Bcast;
    MPI_Gather_c: Igather_c(sb, sc, st, rb, rc, rt, root, comm) over comm if true, or MPI_Gather;
    MPI_Scatter_c: Iscatter_c(sb, sc, st, rb, rc, rt, root, comm) over comm if true, or MPI_Scatter;
    MPI_Allgather_c: Iallgather_c(sb, sc, st, rb, rc, rt, comm) over comm if large_of_each(rc, rt, comm), or MPI_Allgather;
    MPI_Alltoall_c: Ialltoall_c(sb, sc, st, rb, rc, rt, comm) over comm if large_of_each(rc, rt, comm), or MPI_Alltoall;
}

/// As [`blocking`], for what reduces. With an operation of the program's, the implementation's own call once all ranks
/// have come ([`operations`](crate::operations)); between two groups, too, where ranks that take no part need not pass
/// the operation.
macro_rules! reducing {
    ($($mpi:ident $itself:ident: $begin:ident($($argument:ident),*) by $operation:ident over $comm:ident
        $(or if $itself_if:expr,)? unless $refused:expr, if $long:expr $(, or $small:ident)?;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: Word),*) -> c_int {
            without_large_counts! { [$($small)?] ($($argument),*) }
            if !(is_of_the_program($operation) $(|| $itself_if)?) {
                return begun_and_ended!($begin($($argument),*) over $comm if $long);
            }
            let code = if $refused { SUCCESS } else { gather($comm) };
            if code != SUCCESS {
                return code;
            }
            // SAFETY: the caller's arguments.
            unsafe { pmpi!($itself: fn($(word_for!($argument)),*))($($argument),*) }
        }
        profiled! { $mpi($($argument),*); }
    )*};
}

reducing! {
    MPI_Reduce Reduce: Ireduce(sb, rb, count, datatype, op, root, comm) by op over comm
        or if is_between_two(comm), unless reduction_to(comm, root, count, datatype), if message(count, datatype);
    MPI_Allreduce Allreduce: Iallreduce(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(count, datatype), if message(count, datatype);
    MPI_Reduce_scatter Reduce_scatter: Ireduce_scatter(sb, rb, counts, datatype, op, comm) by op over comm
        unless scattered_reduction(comm, counts, datatype), if true;
    MPI_Reduce_scatter_block Reduce_scatter_block: Ireduce_scatter_block(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(count, datatype), if of_each(count, datatype, comm);
    MPI_Scan Scan: Iscan(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(count, datatype), if message(count, datatype);
    MPI_Exscan Exscan: Iexscan(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(count, datatype), if message(count, datatype);
    MPI_Reduce_c Reduce_c: Ireduce_c(sb, rb, count, datatype, op, root, comm) by op over comm
        or if is_between_two(comm), unless reduction_to(comm, root, 0, datatype), if whole(count, datatype), or MPI_Reduce;
    MPI_Allreduce_c Allreduce_c: Iallreduce_c(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(0, datatype), if whole(count, datatype), or MPI_Allreduce;
    MPI_Reduce_scatter_block_c Reduce_scatter_block_c: Ireduce_scatter_block_c(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(0, datatype), if large_of_each(count, datatype, comm), or MPI_Reduce_scatter_block;
    MPI_Scan_c Scan_c: Iscan_c(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(0, datatype), if whole(count, datatype), or MPI_Scan;
    MPI_Exscan_c Exscan_c: Iexscan_c(sb, rb, count, datatype, op, comm) by op over comm
        unless reduction(0, datatype), if whole(count, datatype), or MPI_Exscan;
}
