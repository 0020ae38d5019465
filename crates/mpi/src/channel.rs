//! Messages of the library's own between ranks of the program: on a communicator of ours beside MPI_COMM_WORLD.
//!
//! Calls of some ranks without the others (`MPI_Comm_create_group`) have no communicator on which these could gather,
//! and each message must find the call that it is for. So it carries the call's name ([`Call`]), and who finds another
//! call's message keeps it for that.
//!
//! Two messages of one rank for calls of one name are taken in the order in which they were sent: MPI keeps it, and one
//! thread at a time takes messages.

use crate::abi::{self, RequestBytes, SUCCESS, Word, abi, pmpi, word};
use crate::engine::wait;
use crate::soon::{Kind, finish, soon};
use crate::waits::Wait;
use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::sync::{Mutex, OnceLock};

/// Which call it is, alike in all of its ranks: of the communicator of this number, with a tag.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    pub comm: u64,
    pub tag: u64,
}

/// What ranks tell each other.
pub type Values = [u64; 2];

/// Call, step and round, and values.
type Message = [u64; 6];
type Kept = HashMap<(c_int, Call, [u64; 2]), VecDeque<Values>>;

/// The communicator.
static OWN: OnceLock<Word> = OnceLock::new();
/// What has come for other calls, by its sender.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// Ranks in MPI_COMM_WORLD, and which of them is this one.
pub struct Members {
    pub world: Vec<c_int>,
    pub me: usize,
}

/// After MPI has begun, which all ranks of the program do. The answer is a communicator of all of them.
pub fn begin() -> Option<Word> {
    let mut own: Word = 0;
    // SAFETY: the communicator of all ranks, and a place for the answer.
    let code = unsafe { pmpi!(Comm_dup: fn(Word, Word))(abi::comm_world(), word(&raw mut own)) };
    (code == SUCCESS && OWN.set(own).is_ok()).then_some(own)
}

/// All members of a call tell each other their values in a step of it: the greatest of each. In `log2` rounds: after
/// each everybody knows of twice as many (dissemination; Hensgen, Finkel, Manber 1988).
pub fn greatest(members: &Members, call: Call, step: u64, values: Values) -> Result<Values, c_int> {
    let (ranks, mut found) = (members.world.len(), values);
    for round in (0..).take_while(|round| 1 << round < ranks) {
        let distance = 1 << round;
        let to = members.world[(members.me + distance) % ranks];
        let from = members.world[(members.me + ranks - distance) % ranks];
        let at = [step, round as u64];
        send(to, [call.comm, call.tag, at[0], at[1], found[0], found[1]])?;
        let other = receive(from, call, at)?;
        found = [found[0].max(other[0]), found[1].max(other[1])];
    }
    Ok(found)
}

fn own() -> Word {
    *OWN.get().expect("who has members has found them by it")
}

fn send(to: c_int, message: Message) -> Result<(), c_int> {
    static KIND: Kind = Kind::new();
    let mut request: RequestBytes = [0];
    let send = pmpi!(Isend: fn(Word, Word, Word, Word, Word, Word, Word));
    let (bytes, place) = (size_of::<Message>(), word(request.as_mut_ptr()));
    // SAFETY: so many bytes, which last until the message is sent, to a rank of our communicator; a place for the
    // request.
    let code = unsafe { send(word(message.as_ptr()), bytes, abi::byte(), to as Word, 0, own(), place) };
    let code = if code == SUCCESS { finish(&KIND, &mut request, None, || false) } else { code };
    if code == SUCCESS { Ok(()) } else { Err(code) }
}

fn receive(from: c_int, call: Call, at: [u64; 2]) -> Result<Values, c_int> {
    static KIND: Kind = Kind::new();
    let mut values: Values = [0; 2];
    let mut question = || match take(from, call, at) {
        Ok(None) => None,
        Ok(Some(found)) => {
            values = found;
            Some(SUCCESS)
        }
        Err(code) => Some(code),
    };
    let code = soon(&KIND, &mut question).unwrap_or_else(|| wait(Wait::Until(&mut question)));
    if code == SUCCESS { Ok(values) } else { Err(code) }
}

/// What that rank has told this call, if it has come. What else has come of it is kept.
fn take(from: c_int, call: Call, at: [u64; 2]) -> Result<Option<Values>, c_int> {
    let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let kept = kept.get_or_insert_default();
    loop {
        let wanted = (from, call, at);
        if let Some(all) = kept.get_mut(&wanted) {
            let values = all.pop_front();
            if all.is_empty() {
                kept.remove(&wanted);
            }
            return Ok(values);
        }
        let Some([comm, tag, step, round, values @ ..]) = next(from)? else { return Ok(None) };
        kept.entry((from, Call { comm, tag }, [step, round])).or_default().push_back(values);
    }
}

/// The next message of that rank.
fn next(from: c_int) -> Result<Option<Message>, c_int> {
    let (mut flag, mut found): (c_int, RequestBytes) = (0, [0]);
    let probe = pmpi!(Improbe: fn(Word, Word, Word, Word, Word, Word));
    let (place, ignore) = (word(found.as_mut_ptr()), abi().ignore);
    // SAFETY: a rank of our communicator, and places for the answers; nobody wants a status.
    let code = unsafe { probe(from as Word, 0, own(), word(&raw mut flag), place, ignore) };
    if code != SUCCESS || flag == 0 {
        return if code == SUCCESS { Ok(None) } else { Err(code) };
    }
    let mut message: Message = [0; 6];
    let receive = pmpi!(Mrecv: fn(Word, Word, Word, Word, Word));
    // SAFETY: room for a message of ours, and the one that was found.
    let code = unsafe { receive(word(message.as_mut_ptr()), size_of::<Message>(), abi::byte(), place, ignore) };
    if code == SUCCESS { Ok(Some(message)) } else { Err(code) }
}
