//! Whether a handler of errors is a function of the program's ([`handlers`](crate::handlers)): MPICH's of
//! MPI_COMM_WORLD, which all requests tell, or any of Open MPI's.
//!
//! Where several requests have failed at once Open MPI tells the handler of the first. So once there is such a function
//! each thread tests its requests itself, one by one.

use crate::abi::{Word, abi, is_open_mpi};
use crate::operations::is_a_variable;
use std::sync::atomic::{AtomicBool, Ordering};

static FUNCTION: AtomicBool = AtomicBool::new(false);
/// Open MPI's, of any communicator.
static FUNCTIONS: AtomicBool = AtomicBool::new(false);

/// The program sets a handler on a communicator.
pub fn handler_set(comm: Word, handler: Word) {
    if is_open_mpi() {
        // Those of its own are variables. Relaxed, as below.
        FUNCTIONS.fetch_or(!is_a_variable(handler), Ordering::Relaxed);
    } else if abi().handle(comm) == abi().comm_world {
        // Relaxed: who waits has seen its handler set, or does not care.
        FUNCTION.store(!abi().no_functions.contains(&abi().handle(handler)), Ordering::Relaxed);
    }
}

/// Whether that function is to be told the error of each request.
pub fn one_by_one() -> bool {
    // Relaxed: as above.
    FUNCTION.load(Ordering::Relaxed)
}

/// Whether a thread's own tests end its requests, and not those of who tests for all.
pub fn tests_are_own() -> bool {
    // Relaxed: as above.
    FUNCTIONS.load(Ordering::Relaxed)
}
