//! Whose handler MPICH calls when a message is too long.
//!
//! `MPI_Recv` calls the handler of its communicator. A test or wait of a request does not know that any more, and
//! MPICH calls MPI_COMM_WORLD's. While the program has set none elsewhere that is the same: a communicator without one
//! has that one's. Once it has, a receive on another communicator first finds the message that it is to get: whether
//! that fits is known then, and the error is told to the right communicator. Open MPI's requests of messages know
//! theirs; for those of collective calls see [`told`].
//!
//! Where several requests are tested at once MPICH tells that handler only that an error stands in a status. So each
//! request that has ended is tested by a call of its own ([`led`](crate::led)).

use crate::abi::{self, RequestBytes, StatusBytes, Word, abi, is_open_mpi, pmpi, wanted, word};
use crate::completion::until_message;
use crate::engine::wait;
use crate::entries::profiled;
use crate::lengths::{Needed, bytes_of};
use crate::soon::{Kind, finish, soon};
use crate::told;
use crate::waits::{Single, Wait};
use crate::world;
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

static SET: AtomicBool = AtomicBool::new(false);

/// Communicators for which the program has asked for what one without a handler tells, too, that it has.
static FATAL: Mutex<Vec<Word>> = Mutex::new(Vec::new());

/// Whether a receive on this one is [`receive`].
pub fn differ(comm: Word) -> bool {
    // Relaxed: who receives on a communicator has seen its handler set, or does not care.
    SET.load(Ordering::Relaxed) && abi().handle(comm) != abi().comm_world
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Comm_set_errhandler(comm: Word, handler: Word) -> c_int {
    world::handler_set(comm, handler);
    if !is_open_mpi() && abi().handle(comm) != abi().comm_world {
        SET.store(true, Ordering::Relaxed);
        let mut fatal = FATAL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        fatal.retain(|with| *with != abi().handle(comm));
        if abi().handle(handler) == abi().errors_are_fatal {
            fatal.push(abi().handle(comm));
        }
    }
    let _setting = told::handler_is_set(comm, handler);
    // SAFETY: the caller's arguments.
    unsafe { pmpi!(Comm_set_errhandler: fn(Word, Word))(comm, handler) }
}

/// The same by its old name, which MPI 3 took out: MPICH 4.0 has it, and Open MPI for programs that were built before.
///
/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Errhandler_set(comm: Word, handler: Word) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { MPI_Comm_set_errhandler(comm, handler) }
}

profiled! {
    MPI_Comm_set_errhandler(comm, handler);
}

/// What `MPI_Recv` takes, from somebody.
pub struct Receive {
    pub buffer: Word,
    pub count: usize,
    pub datatype: Word,
    pub rank: Word,
    pub tag: Word,
    pub comm: Word,
    pub status: Word,
}

/// The error of a receive that is wrong in itself, told to the communicator's handler, before any message has come: of
/// one from nobody with these arguments.
///
/// # Safety
/// As `MPI_Recv`'s; `count` as the program passed it.
pub unsafe fn refused(asked: &Receive, count: Word) -> c_int {
    let receive = pmpi!(Recv: fn(Word, Word, Word, Word, Word, Word, Word));
    // One below zero is none in `asked` where it is an `int`. How many there are is no matter, and may be more than an
    // `int` tells.
    let below = (asked.count as isize) < 0 || asked.count == 0 && count as u32 != 0;
    let count = if below { usize::MAX } else { asked.count.min(1) };
    // SAFETY: the caller's arguments; nothing is received, and nobody wants a status.
    unsafe { receive(asked.buffer, count, asked.datatype, abi().nobody(), asked.tag, asked.comm, abi().ignore) }
}

/// Finds the message and receives it. Where handlers differ, the communicator's is told if it is too long.
///
/// # Safety
/// As `MPI_Recv`'s.
pub unsafe fn receive(asked: &Receive) -> c_int {
    static KIND: Kind = Kind::new();
    let mut message: RequestBytes = [0];
    let mut found: StatusBytes = [0; 4];
    let probe = pmpi!(Improbe: fn(Word, Word, Word, Word, Word, Word));
    let code = until_message(asked.comm, &KIND, |flag| {
        let (message, found) = (word(message.as_mut_ptr()), word(found.as_mut_ptr()));
        // SAFETY: the caller's arguments, and places for the answers.
        unsafe { probe(asked.rank, asked.tag, asked.comm, flag, message, found) }
    });
    if code != abi::SUCCESS {
        return code;
    }
    // SAFETY: the caller's arguments, and the message that was found for them.
    unsafe { take(asked, &mut message, &found) }
}

/// Receives beside a send that has begun, long or not, and waits for that, too. The other rank may itself look for its
/// message no sooner than its own send has come here: so the message is looked for while the send goes on, and when
/// that has ended by `receives`, the call that waits for the message alone.
///
/// # Safety
/// As [`receive`]; the send's buffer lasts.
pub unsafe fn receive_beside(
    asked: &Receive,
    sent: &mut RequestBytes,
    long: bool,
    receives: impl FnOnce() -> c_int,
) -> c_int {
    static KIND: Kind = Kind::new();
    static SENT: Kind = Kind::new();
    let mut message: RequestBytes = [0];
    let mut found: StatusBytes = [0; 4];
    let probe = pmpi!(Improbe: fn(Word, Word, Word, Word, Word, Word));
    let send = Single { request: sent.as_mut_ptr().cast(), status: None, recall: false };
    let (mut of_send, mut is_there): (Option<c_int>, c_int) = (None, 0);
    let mut question = || {
        of_send = send.ended();
        if of_send.is_some() {
            return Some(abi::SUCCESS);
        }
        let (message, found) = (word(message.as_mut_ptr()), word(found.as_mut_ptr()));
        // SAFETY: the caller's arguments, and places for the answers.
        let code = unsafe { probe(asked.rank, asked.tag, asked.comm, word(&raw mut is_there), message, found) };
        (is_there != 0 || code != abi::SUCCESS).then_some(code)
    };
    // Whatever others have asked: most sends have ended by now.
    let mut code = question().or_else(|| soon(&KIND, &mut question)).unwrap_or_else(|| {
        let _needed = long.then(Needed::begin);
        wait(Wait::Until(&mut question))
    });
    if code == abi::SUCCESS {
        // SAFETY: the caller's arguments, and the message that was found for them.
        code = if is_there != 0 { unsafe { take(asked, &mut message, &found) } } else { receives() };
    }
    let of_send = of_send.unwrap_or_else(|| finish(&SENT, sent, None, || long));
    if code == abi::SUCCESS { of_send } else { code }
}

/// Receives a message that was found.
///
/// # Safety
/// As [`receive`].
unsafe fn take(asked: &Receive, message: &mut RequestBytes, found: &StatusBytes) -> c_int {
    static KIND: Kind = Kind::new();
    let mut request: RequestBytes = [0];
    let begin = pmpi!(Imrecv: fn(Word, Word, Word, Word, Word));
    let (message, place) = (word(message.as_mut_ptr()), word(request.as_mut_ptr()));
    let bytes = if differ(asked.comm) { bytes_in(found) } else { 0 };
    if bytes <= asked.count.saturating_mul(bytes_of(asked.datatype)) {
        // SAFETY: the caller's arguments, the message, and a place for the request.
        return match unsafe { begin(asked.buffer, asked.count, asked.datatype, message, place) } {
            abi::SUCCESS => finish(&KIND, &mut request, wanted(asked.status), || true),
            error => error,
        };
    }
    let mut whole = vec![0u8; bytes];
    // SAFETY: room for all of the message, which lives until the request has ended; a place for the request.
    let code = unsafe { begin(word(whole.as_mut_ptr()), bytes, abi().byte, message, place) };
    if code == abi::SUCCESS {
        finish(&KIND, &mut request, wanted(asked.status), || true);
    }
    tell(asked.comm, abi().err_truncate)
}

/// How long the message is of which a status tells; nothing for one of more than two gigabytes, which is received as it
/// is.
fn bytes_in(found: &StatusBytes) -> usize {
    let mut bytes: c_int = 0;
    let get_count = pmpi!(Get_count: fn(Word, Word, Word));
    // SAFETY: a status that a probe has filled, and a place for the answer.
    let code = unsafe { get_count(word(found.as_ptr()), abi().byte, word(&raw mut bytes)) };
    if code == abi::SUCCESS { usize::try_from(bytes).unwrap_or(0) } else { 0 }
}

/// Calls a communicator's handler, or MPI_COMM_WORLD's if it has none. It does not return if the handler does not.
fn tell(comm: Word, error: c_int) -> c_int {
    let mut handler: Word = 0;
    let get = pmpi!(Comm_get_errhandler: fn(Word, Word));
    let free = pmpi!(Errhandler_free: fn(Word));
    // SAFETY: the caller's communicator, and a place for the answer, which is given back.
    unsafe {
        get(comm, word(&raw mut handler));
        let mut given_back = handler;
        free(word(&raw mut given_back));
    }
    let asked_for = || FATAL.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).contains(&abi().handle(comm));
    let has_one = abi().handle(handler) != abi().errors_are_fatal || asked_for();
    // SAFETY: a communicator, and an error's class.
    unsafe {
        pmpi!(Comm_call_errhandler: fn(Word, Word))(if has_one { comm } else { abi().comm_world }, error as Word)
    };
    error
}
