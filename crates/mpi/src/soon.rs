//! Asking before a wait: what ends soon is answered as fast as natively.

use crate::abi::RequestBytes;
use crate::engine::{ROUND, WAITING, wait};
use crate::giving_way;
use crate::lengths::Needed;
use crate::uncancelled::Uncancelled;
use crate::waits::{Single, Wait};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Questions of the only thread that waits before it makes itself the leader: some 15 µs.
const QUESTIONS: u32 = 200;
/// After so many of them others may run.
const YIELD_EACH: u32 = 16;

/// Whether a thread asks again and again, in [`soon`]. Only a hint.
static ASKING: AtomicBool = AtomicBool::new(false);

/// A kind of call, such as `MPI_Send`: the round in which one of it has last not ended at once.
pub struct Kind(AtomicUsize);

impl Kind {
    /// None has.
    pub const fn new() -> Kind {
        Kind(AtomicUsize::new(usize::MAX))
    }
}

/// Waits for one request that was begun just now, in `request`, by a call of that kind. Whether it is long is asked
/// where it has not ended soon.
pub fn finish(kind: &Kind, request: &mut RequestBytes, status: Option<*mut u8>, long: impl FnOnce() -> bool) -> c_int {
    finish_one(kind, Single { request: request.as_mut_ptr().cast(), status, recall: false }, long)
}

/// The same of a receive, which may be taken back: the answer is [`TAKEN_BACK`](crate::waits::TAKEN_BACK) then.
pub fn finish_receive(
    kind: &Kind,
    request: &mut RequestBytes,
    status: Option<*mut u8>,
    long: impl FnOnce() -> bool,
) -> c_int {
    finish_one(kind, Single { request: request.as_mut_ptr().cast(), status, recall: true }, long)
}

fn finish_one(kind: &Kind, single: Single, long: impl FnOnce() -> bool) -> c_int {
    soon(kind, &mut || single.ended()).unwrap_or_else(|| {
        let long = long();
        let _needed = long.then(Needed::begin);
        wait(Wait::All(&[Single { recall: single.recall && long, ..single }]))
    })
}

/// Asks at once, unless one of the kind has been in vain since the last round; and, where no other thread waits, some
/// times more: what comes soon is answered as fast as natively.
pub fn soon(kind: &Kind, question: &mut dyn FnMut() -> Option<c_int>) -> Option<c_int> {
    // Relaxed, as all here: hints.
    let round = ROUND.load(Ordering::Relaxed);
    let others = || WAITING.load(Ordering::Relaxed) != 0;
    let among = others() || ASKING.load(Ordering::Relaxed);
    if among && kind.0.load(Ordering::Relaxed) == round {
        return None;
    }
    let _whole = Uncancelled::begin();
    let answer = question();
    if answer.is_some() {
        return answer;
    }
    kind.0.store(round, Ordering::Relaxed);
    if among || ASKING.swap(true, Ordering::Relaxed) {
        return None;
    }
    let mut answer = None;
    for nth in 2..=QUESTIONS {
        answer = question();
        if answer.is_some() || others() {
            break;
        }
        if nth % YIELD_EACH == 0 {
            giving_way::to_threads();
        }
    }
    ASKING.store(false, Ordering::Relaxed);
    answer
}
