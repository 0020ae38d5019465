//! To whom collective calls tell an error: their communicator's handler.
//!
//! A test of several requests at once calls MPI_COMM_WORLD's with MPICH. With Open MPI any test does: requests of such
//! calls do not know their communicator. So once the program has set a handler anywhere, such a call asks for its
//! request's status, which calls none, and ends it by a test of its own: with Open MPI while MPI_COMM_WORLD has no
//! handler (the status does not say with which error it has failed), and then it tells its communicator's itself.

use crate::abi::{self, RequestBytes, Word, is_open_mpi, pmpi, word};
use crate::engine::wait;
use crate::lengths::Needed;
use crate::soon::{self, Kind};
use crate::waits::{Single, Wait};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};

/// A handler has been set.
static SET: AtomicBool = AtomicBool::new(false);
/// Who sets MPI_COMM_WORLD's handler, or has set it for a call.
static SETTING: Mutex<()> = Mutex::new(());

/// The program sets a handler: MPI_COMM_WORLD's, while it has what is answered. Another call may be refused, and the
/// handler that is told so may set one.
pub fn handler_is_set(comm: Word, handler: Word) -> Option<MutexGuard<'static, ()>> {
    // Relaxed: who calls has seen its handler set, or does not care.
    SET.store(true, Ordering::Relaxed);
    let is_right = is_open_mpi() && comm == abi::comm_world() && handler != 0 && handler != abi::errhandler_null();
    is_right.then(|| SETTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner()))
}

/// Makes a call of Open MPI's whose errors its handler of MPI_COMM_WORLD is not to see. It sees none of other threads'
/// meanwhile, either: so only one that ends at once.
fn quietly(call: impl FnOnce() -> c_int) -> c_int {
    let _setting = SETTING.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    static PLACES: OnceLock<[Word; 2]> = OnceLock::new();
    let [world, none] = *PLACES.get_or_init(|| [abi::comm_world(), abi::errors_return()]);
    let mut before: Word = 0;
    let set = pmpi!(Comm_set_errhandler: fn(Word, Word));
    // SAFETY: a communicator that lasts, and a place for its handler, which is set again and given back.
    unsafe {
        pmpi!(Comm_get_errhandler: fn(Word, Word))(world, word(&raw mut before));
        set(world, none);
        let code = call();
        set(world, before);
        pmpi!(Errhandler_free: fn(Word))(word(&raw mut before));
        code
    }
}

/// Waits for a request that was begun just now, of a call of all ranks of this communicator if there is one. Whether it
/// is long is asked where it has not ended soon.
pub fn finish(over: Option<Word>, kind: &Kind, request: &mut RequestBytes, long: impl FnOnce() -> bool) -> c_int {
    match over {
        // Relaxed: as above.
        Some(comm) if SET.load(Ordering::Relaxed) => finish_and_tell(comm, kind, request, long),
        _ => soon::finish(kind, request, None, long),
    }
}

/// The same where the communicator's handler is to be told.
fn finish_and_tell(comm: Word, kind: &Kind, request: &mut RequestBytes, long: impl FnOnce() -> bool) -> c_int {
    let single = Single { request: request.as_mut_ptr().cast(), status: None, recall: false };
    let mut question = || single.is_over().then_some(abi::SUCCESS);
    soon::soon(kind, &mut question).unwrap_or_else(|| {
        let _needed = long().then(Needed::begin);
        wait(Wait::Until(&mut question))
    });
    let test = || single.ended().unwrap_or(abi::SUCCESS);
    if !is_open_mpi() {
        return test();
    }
    let error = quietly(test);
    if error != abi::SUCCESS {
        // SAFETY: the caller's communicator.
        unsafe { pmpi!(Comm_call_errhandler: fn(Word, Word))(comm, error as Word) };
    }
    error
}
