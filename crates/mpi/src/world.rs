//! Whether MPI_COMM_WORLD's handler of errors is a function of the program's ([`handlers`](crate::handlers)).

use crate::abi::{Word, abi, is_open_mpi};
use std::sync::atomic::{AtomicBool, Ordering};

static FUNCTION: AtomicBool = AtomicBool::new(false);

/// The program sets a handler on a communicator.
pub fn handler_set(comm: Word, handler: Word) {
    if !is_open_mpi() && abi().handle(comm) == abi().comm_world {
        // Relaxed: who waits has seen its handler set, or does not care.
        FUNCTION.store(!abi().no_functions.contains(&abi().handle(handler)), Ordering::Relaxed);
    }
}

/// Whether that function is to be told the error of each request.
pub fn one_by_one() -> bool {
    // Relaxed: as above.
    FUNCTION.load(Ordering::Relaxed)
}
