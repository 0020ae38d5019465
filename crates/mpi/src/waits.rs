//! What is waited for, and waiting for it without anybody's help.

use crate::abi::{self, StatusBytes, Word, abi, pmpi, word};
use crate::giving_way;
use crate::idle::AWAKE;
use crate::lengths::handle;
use std::ffi::c_int;
use std::time::Instant;

/// A request to be tested, and where the ends of it are told.
pub struct Single {
    /// The caller's handle, read when the wait begins and written when it ends.
    pub request: *mut u8,
    /// Where its status goes, if anybody wants it.
    pub status: Option<*mut u8>,
    /// The leader may take it back: a receive of a long message, of a call that is the only one to know of it. Then the
    /// wait's answer is [`TAKEN_BACK`].
    pub recall: bool,
}

/// No code of MPI's.
pub const TAKEN_BACK: c_int = -1;

/// What a thread waits for.
pub enum Wait<'a> {
    /// All of these, none of them null or inactive. The answer is the first error.
    All(&'a [Single]),
    /// The same; statuses say of each that has ended with which error. With the mark it ends when one has failed.
    Several(&'a [Single], bool),
    /// Until this answers.
    Until(&'a mut dyn FnMut() -> Option<c_int>),
    /// The same; it does not where no message waits on this communicator.
    UntilMessage(Word, &'a mut dyn FnMut() -> Option<c_int>),
}

impl Single {
    /// Tests it: its error, or success, if it has ended.
    pub fn ended(&self) -> Option<c_int> {
        let mut flag: c_int = 0;
        let mut unwanted: StatusBytes = [0; 4];
        let told = self.status.map_or_else(|| word(unwanted.as_mut_ptr()), |place| word(place));
        // SAFETY: a request of the program's.
        if !self.request.is_null() && unsafe { abi().has_ended(self.request) } {
            // SAFETY: as above, and a place for the answer.
            return Some(unsafe { pmpi!(Wait: fn(Word, Word))(word(self.request), told) });
        }
        let test = pmpi!(Test: fn(Word, Word, Word));
        // SAFETY: a request of the program's, and places for the answers.
        let code = unsafe { test(word(self.request), word(&raw mut flag), told) };
        (flag != 0 || code != abi::SUCCESS).then_some(code)
    }

    /// Whether it has ended, which ends it for nobody and tells no handler.
    pub fn is_over(&self) -> bool {
        let (mut flag, mut unwanted): (c_int, StatusBytes) = (0, [0; 4]);
        let ask = pmpi!(Request_get_status: fn(Word, Word, Word));
        let handle = handle(self.request.expose_provenance()) as Word;
        // SAFETY: a request of the program's, and places for the answers.
        let code = unsafe { ask(handle, word(&raw mut flag), word(unwanted.as_mut_ptr())) };
        flag != 0 || code != abi::SUCCESS
    }

    /// The same for one of several, whose statuses say which have failed.
    pub fn ended_of_several(&self) -> Option<c_int> {
        let code = self.ended()?;
        if let Some(place) = self.status {
            // SAFETY: a status of the caller's, which it passed for this.
            unsafe { abi::set_error(place, code) };
        }
        Some(code)
    }
}

/// Takes those out that have ended. The first error.
pub fn take_ended(singles: &mut Vec<&Single>) -> c_int {
    let mut first = abi::SUCCESS;
    singles.retain(|single| {
        let ended = single.ended_of_several();
        first = ended.filter(|_| first == abi::SUCCESS).unwrap_or(first);
        ended.is_none()
    });
    first
}

/// Waits for these so that the caller's own tests end them, which tell handlers of errors: others only look, by
/// `until`. One of several, with the mark, ends the wait when it has failed. As with the leader, a receive that may be
/// is taken back once nothing has ended for a while.
pub fn by_own_tests(
    singles: &[Single],
    several: Option<bool>,
    until: impl Fn(&mut dyn FnMut() -> Option<c_int>) -> c_int,
) -> c_int {
    let mut rest: Vec<&Single> = singles.iter().collect();
    let (mut first, mut was_taken_back) = (abi::SUCCESS, false);
    let mut recalled = !singles.iter().any(|single| single.recall);
    loop {
        rest.retain(|single| {
            let mut unwanted: StatusBytes = [0; 4];
            let place = single.status.unwrap_or(unwanted.as_mut_ptr().cast());
            let told = Single { status: Some(place), ..**single };
            let ended = if several.is_some() { told.ended_of_several() } else { told.ended() };
            let Some(code) = ended else { return true };
            // SAFETY: a status that the test has filled.
            was_taken_back |= recalled && single.recall && code == abi::SUCCESS && unsafe { abi::is_cancelled(place) };
            first = if first == abi::SUCCESS { code } else { first };
            false
        });
        if rest.is_empty() || was_taken_back || several == Some(true) && first != abi::SUCCESS {
            return if was_taken_back && first == abi::SUCCESS { TAKEN_BACK } else { first };
        }
        let began = Instant::now();
        until(&mut || {
            if rest.iter().any(|single| single.is_over()) {
                return Some(abi::SUCCESS);
            }
            if !recalled && began.elapsed() >= AWAKE {
                recalled = true;
                let cancel = pmpi!(Cancel: fn(Word));
                for single in rest.iter().filter(|single| single.recall) {
                    // SAFETY: a request that has not ended for the program. It stays among those that are looked at.
                    unsafe { cancel(word(single.request)) };
                }
            }
            None
        });
    }
}

/// Waits as it is, among tests of its own.
pub fn directly(wait: Wait) -> c_int {
    match wait {
        Wait::All(singles) => {
            let mut first = abi::SUCCESS;
            for single in singles {
                let code = until(&mut || single.ended());
                first = if first == abi::SUCCESS { code } else { first };
            }
            first
        }
        Wait::Several(singles, until_error) => {
            let mut rest: Vec<&Single> = singles.iter().collect();
            let mut first = abi::SUCCESS;
            until(&mut || {
                let code = take_ended(&mut rest);
                first = if first == abi::SUCCESS { code } else { first };
                (rest.is_empty() || until_error && first != abi::SUCCESS).then_some(first)
            })
        }
        Wait::Until(question) | Wait::UntilMessage(_, question) => until(question),
    }
}

fn until(question: &mut dyn FnMut() -> Option<c_int>) -> c_int {
    loop {
        match question() {
            Some(code) => return code,
            None => giving_way::to_threads(),
        }
    }
}
