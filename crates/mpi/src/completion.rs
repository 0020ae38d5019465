//! Waiting for requests that the program has begun itself.

use crate::abi::{self, StatusBytes, UNDEFINED, Word, abi, is_open_mpi, pmpi, wanted, word};
use crate::begun::{int, some_ended};
use crate::engine::{self, wait};
use crate::entries::profiled;
use crate::lengths::{Before, Needed, handle, number};
use crate::soon::{Kind, soon};
use crate::waits::{Single, Wait, take_ended};
use crate::world;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which requests of a call are long.
#[derive(Clone, Copy, Default)]
pub(crate) struct Long {
    pub any: bool,
    pub receive: bool,
}

/// Waits for all of these, null and inactive ones included. The first error, or that the receive among them was taken
/// back. Which are long is asked where they have not ended soon.
pub(crate) fn finish_all(kind: &Kind, singles: &[Single], long: impl FnOnce() -> Long) -> c_int {
    let mut found = abi::SUCCESS;
    let mut note = |code| found = if found == abi::SUCCESS { code } else { found };
    // One after the other: each test makes progress for all.
    let mut first = 0;
    let done = soon(kind, &mut || {
        while let Some(single) = singles.get(first) {
            note(single.ended()?);
            first += 1;
        }
        Some(abi::SUCCESS)
    });
    let mut rest: Vec<&Single> = Vec::new();
    for single in singles.iter().skip(first).filter(|_| done.is_none()) {
        // What is null or inactive does not come to the leader.
        match single.ended() {
            Some(code) => note(code),
            None => rest.push(single),
        }
    }
    if rest.is_empty() {
        return found;
    }
    let long = long();
    let of_rest = |single: &&Single| Single { recall: single.recall && long.receive, ..**single };
    let rest: Vec<Single> = rest.iter().map(of_rest).collect();
    let _needed = long.any.then(Needed::begin);
    let waited = wait(Wait::All(&rest));
    if found == abi::SUCCESS { waited } else { found }
}

/// Waits for all of these, null and inactive ones included; Open MPI's no longer than until one has failed. The first
/// error. Of those that have ended the statuses say with which.
fn finish_several(kind: &Kind, singles: &[Single]) -> c_int {
    let until_error = is_open_mpi();
    let (mut first, mut found) = (0, abi::SUCCESS);
    soon(kind, &mut || {
        while let Some(single) = singles.get(first) {
            let code = single.ended_of_several()?;
            found = if found == abi::SUCCESS { code } else { found };
            first += 1;
            if until_error && code != abi::SUCCESS {
                break;
            }
        }
        Some(found)
    });
    // What is null or inactive does not come to the leader.
    let mut rest: Vec<&Single> = singles.iter().skip(first).collect();
    let code = take_ended(&mut rest);
    found = if found == abi::SUCCESS { code } else { found };
    if rest.is_empty() || until_error && found != abi::SUCCESS {
        return found;
    }
    let rest: Vec<Single> = rest.into_iter().map(|single| Single { ..*single }).collect();
    let waited = wait(Wait::Several(&rest, until_error));
    if found == abi::SUCCESS { waited } else { found }
}

/// Waits until `ask`, told where a flag lies, sets the flag or fails.
pub(crate) fn until(kind: &Kind, ask: impl FnMut(Word) -> c_int) -> c_int {
    let mut question = answering(ask);
    soon(kind, &mut question).unwrap_or_else(|| wait(Wait::Until(&mut question)))
}

/// The same, for a message on a communicator.
pub(crate) fn until_message(comm: Word, kind: &Kind, ask: impl FnMut(Word) -> c_int) -> c_int {
    let mut question = answering(ask);
    soon(kind, &mut question).unwrap_or_else(|| wait(Wait::UntilMessage(comm, &mut question)))
}

fn answering(mut ask: impl FnMut(Word) -> c_int) -> impl FnMut() -> Option<c_int> {
    move || {
        let mut flag: c_int = 0;
        let code = ask(word(&raw mut flag));
        (flag != 0 || code != abi::SUCCESS).then_some(code)
    }
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Wait(request: Word, status: Word) -> c_int {
    static KIND: Kind = Kind::new();
    let before = Before::of(request, 1);
    let single =
        Single { request: std::ptr::with_exposed_provenance_mut(request), status: wanted(status), recall: false };
    // What is null or inactive does not come to the leader.
    let answer = soon(&KIND, &mut || single.ended()).or_else(|| single.ended());
    let code = answer.unwrap_or_else(|| wait(Wait::All(&[single])));
    if code == abi::SUCCESS {
        before.all_ended()
    } else {
        before.changed_ended(request)
    }
    code
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Waitall(count: Word, requests: Word, statuses: Word) -> c_int {
    static KIND: Kind = Kind::new();
    if (count as u32 as c_int) < 0 || requests == 0 {
        // Wrong, or nothing to wait for: it says so, and does not block.
        // SAFETY: the caller's arguments.
        return unsafe { pmpi!(Waitall: fn(Word, Word, Word))(count, requests, statuses) };
    }
    let count = number(count);
    let begun = Before::of(requests, count);
    if world::one_by_one() {
        return waitall_itself(&KIND, count, requests, statuses, &begun);
    }
    let singles: Vec<Single> = (0..count)
        .map(|nth| Single {
            request: std::ptr::with_exposed_provenance_mut(requests + nth * abi().request),
            status: wanted(statuses).map(|first| first.wrapping_add(nth * abi().status)),
            recall: false,
        })
        .collect();
    // Should one fail, the statuses of others say that they have not ended.
    let places = || singles.iter().filter_map(|single| single.status);
    // SAFETY: the caller's statuses.
    let before: Vec<c_int> = places().map(|status| unsafe { abi::error_in(status) }).collect();
    // SAFETY: the caller's statuses, which nobody else uses during the call.
    places().for_each(|status| unsafe { abi::set_error(status, abi().err_pending) });
    if finish_several(&KIND, &singles) == abi::SUCCESS {
        begun.all_ended();
        // SAFETY: the caller's statuses, which nobody else uses during the call.
        places().zip(before).for_each(|(status, error)| unsafe { abi::set_error(status, error) });
        return abi::SUCCESS;
    }
    begun.changed_ended(requests);
    abi().err_in_status
}

/// Looks until all have ended, which ends none of them for the program; the implementation's call then does not wait.
fn waitall_itself(kind: &Kind, count: usize, requests: Word, statuses: Word, begun: &Before) -> c_int {
    let look = pmpi!(Request_get_status: fn(Word, Word, Word));
    let mut first = 0;
    let mut question = || {
        while first < count {
            let (mut flag, mut status): (c_int, StatusBytes) = (0, [0; 4]);
            let request = handle(requests + first * abi().request) as Word;
            // SAFETY: the caller's request, and places for the answers.
            let code = unsafe { look(request, word(&raw mut flag), word(status.as_mut_ptr())) };
            if code == abi::SUCCESS && flag == 0 {
                return None;
            }
            first += 1;
        }
        Some(abi::SUCCESS)
    };
    soon(kind, &mut question).unwrap_or_else(|| wait(Wait::Until(&mut question)));
    // SAFETY: the caller's arguments.
    let code = unsafe { pmpi!(Waitall: fn(Word, Word, Word))(count, requests, statuses) };
    if code == abi::SUCCESS {
        begun.all_ended()
    } else {
        begun.changed_ended(requests)
    }
    code
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Waitany(count: Word, requests: Word, index: Word, status: Word) -> c_int {
    static KIND: Kind = Kind::new();
    let before = Before::of(requests, number(count));
    let test = pmpi!(Testany: fn(Word, Word, Word, Word, Word));
    let code = until(&KIND, |flag| {
        // SAFETY: the caller's arguments, and a place for the flag.
        unsafe { test(count, requests, index, flag, status) }
    });
    if code == abi::SUCCESS {
        before.one_ended(int(index))
    } else {
        before.changed_ended(requests)
    }
    code
}

/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Waitsome(
    count: Word,
    requests: Word,
    finished: Word,
    indices: Word,
    statuses: Word,
) -> c_int {
    static KIND: Kind = Kind::new();
    if (count as u32 as c_int) < 0 || [requests, finished, indices].contains(&0) {
        // As in `MPI_Waitall`. Open MPI's test returns the error, and its wait tells the handler, too.
        // SAFETY: the caller's arguments.
        return unsafe {
            pmpi!(Waitsome: fn(Word, Word, Word, Word, Word))(count, requests, finished, indices, statuses)
        };
    }
    let test = pmpi!(Testsome: fn(Word, Word, Word, Word, Word));
    let mut question = || {
        // SAFETY: the caller's arguments.
        let code = unsafe { test(count, requests, finished, indices, statuses) };
        let some = int(finished);
        (some == UNDEFINED || some > 0 || code != abi::SUCCESS).then_some(code)
    };
    let before = Before::of(requests, number(count));
    let code = soon(&KIND, &mut question).unwrap_or_else(|| wait(Wait::Until(&mut question)));
    if code == abi::SUCCESS {
        some_ended(&before, finished, indices)
    } else {
        before.changed_ended(requests)
    }
    code
}

/// Threads that wait meanwhile are an error of the program's, as natively. It is said here, and nobody tests for
/// them any more.
///
/// # Safety
/// As MPI says.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    static ENDED: AtomicBool = AtomicBool::new(false);
    // Relaxed: a second call is an error of the program's, which the implementation tells.
    let waiting = if ENDED.swap(true, Ordering::Relaxed) { 0 } else { engine::stop() };
    if waiting != 0 {
        eprintln!(
            "raddle: MPI_Finalize while {waiting} of the rank's threads wait in MPI's calls: \
             these never end now; let them end first"
        );
    }
    // SAFETY: the program's own call, at a place where MPI lets it end.
    unsafe { pmpi!(Finalize: fn())() }
}

profiled! {
    MPI_Wait(request, status);
    MPI_Waitall(count, requests, statuses);
    MPI_Waitany(count, requests, index, status);
    MPI_Waitsome(count, requests, finished, indices, statuses);
    MPI_Finalize();
}
