//! What the program begins, tests and frees itself: as it is, but that long messages are kept in mind ([`lengths`]),
//! and wake who tests.
//!
//! Not kept in mind: persistent collective calls, buffered sends, windows' own requests.

use crate::abi::{SUCCESS, Word, pmpi};
use crate::engine;
use crate::entries::{profiled, without_large_counts, word_for};
use crate::lengths::{self, Before, large_of_each, made, message, number, of_each, whole};
use std::ffi::c_int;

/// `begins!(begun: MPI_Isend(buffer, …) if …;)`: the implementation's call, whose last argument is a place for a
/// request; `begun` is told of it if it is long.
macro_rules! begins {
    ($told:ident: $($mpi:ident $pmpi:ident($($argument:ident),*) if $long:expr $(, or $small:ident)?;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: Word,)* request: Word) -> c_int {
            without_large_counts! { [$($small)?] ($($argument,)* request) }
            let begin = pmpi!($pmpi: fn($(word_for!($argument),)* Word));
            // SAFETY: the caller's arguments.
            let code = unsafe { begin($($argument,)* request) };
            if code == SUCCESS && $long {
                $told(request);
            }
            code
        }
        profiled! { $mpi($($argument,)* request); }
    )*};
}

/// Keeps it in mind, and wakes who tests.
fn begun(request: Word) {
    lengths::begun(request);
    engine::rouse();
}

fn started(requests: Word, count: usize) {
    if lengths::started(requests, count) {
        engine::rouse();
    }
}

// Ready sends are standard ones, as MPI allows: the receive that one relies on may have been taken back.
begins! { begun:
    MPI_Isend Isend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Issend Issend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Irsend Isend(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Irecv Irecv(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Imrecv Imrecv(buffer, count, datatype, from) if message(count, datatype);
    MPI_Isend_c Isend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype), or MPI_Isend;
    MPI_Issend_c Issend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype), or MPI_Issend;
    MPI_Irsend_c Isend_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype), or MPI_Irsend;
    MPI_Irecv_c Irecv_c(buffer, count, datatype, rank, tag, comm) if whole(count, datatype), or MPI_Irecv;
    MPI_Imrecv_c Imrecv_c(buffer, count, datatype, from) if whole(count, datatype), or MPI_Imrecv;
    MPI_Ibcast Ibcast(buffer, count, datatype, root, comm) if message(count, datatype);
    MPI_Ireduce Ireduce(sb, rb, count, datatype, op, root, comm) if message(count, datatype);
    MPI_Iallreduce Iallreduce(sb, rb, count, datatype, op, comm) if message(count, datatype);
    MPI_Iscan Iscan(sb, rb, count, datatype, op, comm) if message(count, datatype);
    MPI_Iexscan Iexscan(sb, rb, count, datatype, op, comm) if message(count, datatype);
    MPI_Iallgather Iallgather(sb, sc, st, rb, rc, rt, comm) if of_each(rc, rt, comm);
    MPI_Ialltoall Ialltoall(sb, sc, st, rb, rc, rt, comm) if of_each(rc, rt, comm);
    MPI_Ibcast_c Ibcast_c(buffer, count, datatype, root, comm) if whole(count, datatype), or MPI_Ibcast;
    MPI_Ireduce_c Ireduce_c(sb, rb, count, datatype, op, root, comm) if whole(count, datatype), or MPI_Ireduce;
    MPI_Iallreduce_c Iallreduce_c(sb, rb, count, datatype, op, comm) if whole(count, datatype), or MPI_Iallreduce;
    MPI_Iallgather_c Iallgather_c(sb, sc, st, rb, rc, rt, comm) if large_of_each(rc, rt, comm), or MPI_Iallgather;
    MPI_Ialltoall_c Ialltoall_c(sb, sc, st, rb, rc, rt, comm) if large_of_each(rc, rt, comm), or MPI_Ialltoall;
    MPI_Igather_c Igather_c(sb, sc, st, rb, rc, rt, root, comm) if true, or MPI_Igather;
    MPI_Iscatter_c Iscatter_c(sb, sc, st, rb, rc, rt, root, comm) if true, or MPI_Iscatter;
    MPI_Igather Igather(sb, sc, st, rb, rc, rt, root, comm) if true;
    MPI_Igatherv Igatherv(sb, sc, st, rb, rc, displacements, rt, root, comm) if true;
    MPI_Iscatter Iscatter(sb, sc, st, rb, rc, rt, root, comm) if true;
    MPI_Iscatterv Iscatterv(sb, sc, displacements, st, rb, rc, rt, root, comm) if true;
    MPI_Iallgatherv Iallgatherv(sb, sc, st, rb, rc, displacements, rt, comm) if true;
    MPI_Ialltoallv Ialltoallv(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
    MPI_Ialltoallw Ialltoallw(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
    MPI_Ireduce_scatter Ireduce_scatter(sb, rb, counts, datatype, op, comm) if true;
    MPI_Ireduce_scatter_block Ireduce_scatter_block(sb, rb, count, datatype, op, comm) if of_each(count, datatype, comm);
    MPI_Ineighbor_allgather Ineighbor_allgather(sb, sc, st, rb, rc, rt, comm) if true;
    MPI_Ineighbor_allgatherv Ineighbor_allgatherv(sb, sc, st, rb, rc, displacements, rt, comm) if true;
    MPI_Ineighbor_alltoall Ineighbor_alltoall(sb, sc, st, rb, rc, rt, comm) if true;
    MPI_Ineighbor_alltoallv Ineighbor_alltoallv(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
    MPI_Ineighbor_alltoallw Ineighbor_alltoallw(sb, sc, sd, st, rb, rc, rd, rt, comm) if true;
}

begins! { made:
    MPI_Send_init Send_init(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Ssend_init Ssend_init(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Rsend_init Send_init(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
    MPI_Recv_init Recv_init(buffer, count, datatype, rank, tag, comm) if message(count, datatype);
}

/// The implementation's call; what is done before it, and after it where it succeeds and where it fails.
macro_rules! as_it_is {
    ($($mpi:ident $pmpi:ident($($argument:ident),*) $before:ident = $had:expr => $well:expr, else $failed:expr;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $mpi($($argument: Word),*) -> c_int {
            let $before = $had;
            let call = pmpi!($pmpi: fn($(word_for!($argument)),*));
            // SAFETY: the caller's arguments.
            let code = unsafe { call($($argument),*) };
            if code == SUCCESS { $well } else { $failed }
            code
        }
        profiled! { $mpi($($argument),*); }
    )*};
}

as_it_is! {
    MPI_Start Start(request) before = () => started(request, 1), else before;
    MPI_Startall Startall(count, requests) before = () => started(requests, number(count)), else before;
    MPI_Request_free Request_free(request) before = { lengths::freed(request); Before::of(request, 1) }
        => before.all_ended(), else ();
    MPI_Test Test(request, flag, status) before = Before::of(request, 1)
        => if int(flag) != 0 { before.all_ended() }, else before.changed_ended(request);
    MPI_Testall Testall(count, requests, flag, statuses) before = Before::of(requests, number(count))
        => if int(flag) != 0 { before.all_ended() }, else before.changed_ended(requests);
    MPI_Testany Testany(count, requests, index, flag, status) before = Before::of(requests, number(count))
        => if int(flag) != 0 { before.one_ended(int(index)) }, else before.changed_ended(requests);
    MPI_Testsome Testsome(count, requests, finished, indices, statuses) before = Before::of(requests, number(count))
        => some_ended(&before, finished, indices), else before.changed_ended(requests);
}

/// What a call has written to a place of the caller's.
pub fn int(place: Word) -> c_int {
    // SAFETY: the caller's place for an `int`, which the call has filled.
    unsafe { std::ptr::with_exposed_provenance::<c_int>(place).read() }
}

/// What `MPI_Testsome` and `MPI_Waitsome` have told.
pub fn some_ended(before: &Before, finished: Word, indices: Word) {
    for nth in 0..number(int(finished) as Word) {
        before.one_ended(int(indices + nth * size_of::<c_int>()));
    }
}
