//! What neighbours send each other, where Open MPI's non-blocking form gives something else than the blocking one.
//!
//! In a periodic dimension of one or two ranks both neighbours are the same rank. What that one sends to its upper
//! neighbour is from the lower one; Open MPI's (4.1.4) non-blocking calls take it for the upper one's. So the ranks
//! gather there first, as for calls that have no such form ([`gathered`](crate::gathered)), and then the call blocks.
//! All ranks decide alike, since they know the shape of their communicator. `MPI_Neighbor_allgather` brings the same
//! from a rank, whichever neighbour it is. MPICH's two forms pair alike.
//!
//! A communicator without neighbours is refused by either form of Open MPI's, with an error of its own each.

use crate::abi::{RequestBytes, SUCCESS, UNDEFINED, Word, is_open_mpi, pmpi, word};
use crate::entries::{profiled, without_large_counts, word_for};
use crate::gathered::gather;
use crate::soon::Kind;
use crate::told;
use std::ffi::c_int;

/// Open MPI's `MPI_CART`.
const CARTESIAN: c_int = 1;

/// How a call is made.
enum Form {
    Begun,
    /// As it is, after all ranks have come.
    Gathered,
    /// As it is, at once: it fails.
    Refused,
}

/// The one that gives what the call gives natively, or the error of asking for it.
fn form(comm: Word, ordered: bool) -> Result<Form, c_int> {
    if !is_open_mpi() {
        return Ok(Form::Begun);
    }
    let told = |code: c_int| if code == SUCCESS { Ok(()) } else { Err(code) };
    let (mut kind, mut dimensions): (c_int, c_int) = (UNDEFINED, 0);
    // SAFETY: the caller's communicator, and a place for the answer.
    told(unsafe { pmpi!(Topo_test: fn(Word, Word))(comm, word(&raw mut kind)) })?;
    match kind {
        UNDEFINED => return Ok(Form::Refused),
        CARTESIAN if ordered => {}
        _ => return Ok(Form::Begun),
    }
    // SAFETY: the caller's communicator, and a place for the answer.
    told(unsafe { pmpi!(Cartdim_get: fn(Word, Word))(comm, word(&raw mut dimensions)) })?;
    let dimensions = usize::try_from(dimensions).unwrap_or(0);
    let mut shape: [Vec<c_int>; 3] = [const { Vec::new() }; 3];
    let [sizes, periods, place] = shape.each_mut().map(|figures| {
        figures.resize(dimensions, 0);
        word(figures.as_mut_ptr())
    });
    let get = pmpi!(Cart_get: fn(Word, Word, Word, Word, Word));
    // SAFETY: the caller's communicator, and room for a figure of each of its dimensions, three times.
    told(unsafe { get(comm, dimensions, sizes, periods, place) })?;
    let [sizes, periods, _] = &shape;
    let one_twice = sizes.iter().zip(periods).any(|(ranks, periodic)| *ranks <= 2 && *periodic != 0);
    Ok(if one_twice { Form::Gathered } else { Form::Begun })
}

/// `neighbours!(MPI_X X, IX(arguments, comm) ordered …;)`: whether it matters which of its neighbours a rank is.
macro_rules! neighbours {
    ($($mpi:ident $pmpi:ident, $begin:ident($($argument:ident),*) ordered $ordered:literal $(, or $small:ident)?;)*) => {$(
        /// # Safety
        /// As MPI says.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub unsafe extern "C" fn $mpi($($argument: Word,)* comm: Word) -> c_int {
            without_large_counts! { [$($small)?] ($($argument,)* comm) }
            static KIND: Kind = Kind::new();
            let code = match form(comm, $ordered) {
                Ok(Form::Begun) => {
                    let mut request: RequestBytes = [0];
                    let begin = pmpi!($begin: fn($(word_for!($argument),)* Word, Word));
                    // SAFETY: the caller's arguments, and a place for the request.
                    return match unsafe { begin($($argument,)* comm, word(request.as_mut_ptr())) } {
                        SUCCESS => told::finish(Some(comm), &KIND, &mut request, || true),
                        error => error,
                    };
                }
                Ok(Form::Gathered) => gather(comm),
                Ok(Form::Refused) => SUCCESS,
                Err(code) => code,
            };
            if code != SUCCESS {
                return code;
            }
            let call = pmpi!($pmpi: fn($(word_for!($argument),)* Word));
            // SAFETY: the caller's arguments.
            unsafe { call($($argument,)* comm) }
        }
        profiled! { $mpi($($argument,)* comm); }
    )*};
}

neighbours! {
    MPI_Neighbor_allgather Neighbor_allgather, Ineighbor_allgather(sb, sc, st, rb, rc, rt) ordered false;
    MPI_Neighbor_allgatherv Neighbor_allgatherv, Ineighbor_allgatherv(sb, sc, st, rb, rc, displacements, rt)
        ordered false;
    MPI_Neighbor_alltoall Neighbor_alltoall, Ineighbor_alltoall(sb, sc, st, rb, rc, rt) ordered true;
    MPI_Neighbor_alltoallv Neighbor_alltoallv, Ineighbor_alltoallv(sb, sc, sd, st, rb, rc, rd, rt) ordered true;
    MPI_Neighbor_alltoallw Neighbor_alltoallw, Ineighbor_alltoallw(sb, sc, sd, st, rb, rc, rd, rt) ordered true;
    MPI_Neighbor_allgather_c Neighbor_allgather_c, Ineighbor_allgather_c(sb, sc, st, rb, rc, rt)
        ordered false, or MPI_Neighbor_allgather;
    MPI_Neighbor_alltoall_c Neighbor_alltoall_c, Ineighbor_alltoall_c(sb, sc, st, rb, rc, rt)
        ordered true, or MPI_Neighbor_alltoall;
}
