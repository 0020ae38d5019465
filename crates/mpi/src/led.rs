//! What the leader tests: requests in one array, and questions.
//!
//! Of the threads that wait one has it, the leader ([`engine`](crate::engine)).

use crate::abi::{self, StatusBytes, UNDEFINED, Word, abi, is_open_mpi, pmpi, word};
use crate::waits::{Single, TAKEN_BACK};
use std::ffi::c_int;
use std::sync::atomic::AtomicU32;
use std::thread::Thread;

/// Requests that one call of `MPI_Testany` is given, which looks at all of them for each that has ended.
///
/// With 1,000 outstanding a look in vain takes 10.9 µs, and the end of one 0.07. With 1,000 in a call these are 9.2
/// and 1.8, with 8 in a call 21.9 and 0.05. `MPI_Testsome` takes 13.8 and 0.03 (MPICH 4.0.2, Xeon, 2026-11-28).
const REQUESTS_A_CALL: usize = 16;

pub const WAITS: u32 = 0;
pub const LEADS: u32 = 1;
pub const ENDED: u32 = 2;

pub type Question = dyn FnMut() -> Option<c_int>;

/// A thread that waits; on its own stack.
pub struct Waiter {
    pub thread: Thread,
    pub state: AtomicU32,
    /// Requests that have not ended, and the first error. The leader's.
    pub left: usize,
    pub result: c_int,
    pub question: Option<*mut Question>,
    pub comm: Option<Word>,
    pub singles: *const [Single],
    /// Statuses say of each that has ended with which error, and not only where there is one.
    pub several: bool,
    /// It waits no longer than until the first of them fails.
    pub until_error: bool,
    /// Those of its requests that may be were taken back, or had found their message.
    pub recalled: bool,
    /// Where it stands among the followers; under the lock.
    pub place: usize,
}

/// A waiter in other hands than its own thread's.
#[derive(Clone, Copy, PartialEq)]
pub struct Listed(pub *mut Waiter);

// SAFETY: a waiter's frame lasts until it was told that its wait has ended (I2), and one thread at a time has it: its
// own until it is listed, then who leads.
unsafe impl Send for Listed {}

/// What the leader has: all requests in one array for the implementation, and whose each is.
#[derive(Default)]
pub struct Led {
    requests: Vec<u8>,
    owners: Vec<(Listed, usize)>,
    /// With each that has been asked the communicator of whose messages it asks, if it does: those who have none are
    /// not touched.
    questions: Vec<(Listed, Option<Word>)>,
    /// Some may have to be taken back.
    recallable: bool,
    /// Room for what a test answers.
    indices: Vec<c_int>,
    statuses: Vec<u8>,
    /// Waits have ended whose requests have not.
    abandoned: bool,
    /// Whose wait has ended in this round; they are told of it together.
    pub ended: Vec<Listed>,
}

impl Led {
    pub fn admit(&mut self, listed: Listed) {
        // SAFETY: listed, so its frame lasts, and it is the leader's.
        let waiter = unsafe { &*listed.0 };
        if waiter.question.is_some() {
            self.questions.push((listed, None));
        }
        // SAFETY: the slice lies in a frame that lasts as long.
        let singles = unsafe { &*waiter.singles };
        for (index, single) in singles.iter().enumerate() {
            // SAFETY: the caller's handle.
            let handle = unsafe { std::slice::from_raw_parts(single.request, abi().request) };
            self.requests.extend_from_slice(handle);
            self.owners.push((listed, index));
            self.recallable |= single.recall;
        }
    }

    /// Takes back what may be, each once. What has found its message stays: parts of it move.
    pub fn recall(&mut self) {
        if !std::mem::take(&mut self.recallable) {
            return;
        }
        let cancel = pmpi!(Cancel: fn(Word));
        let size = abi().request;
        for (nth, &(listed, index)) in self.owners.iter().enumerate() {
            // SAFETY: listed: frame and slice; the mark is the leader's.
            unsafe {
                let waiter = &mut *listed.0;
                if (&*waiter.singles)[index].recall && !waiter.recalled {
                    waiter.recalled = true;
                    // A request that has not ended. It stays among those that are tested.
                    cancel(word(self.requests[nth * size..].as_ptr()));
                }
            }
        }
    }

    /// Tests all requests with one call.
    pub fn test(&mut self) -> bool {
        if self.owners.is_empty() {
            return false;
        }
        let count = self.owners.len();
        if count == 1 {
            return self.test_one();
        }
        if !is_open_mpi() {
            return self.test_each();
        }
        self.indices.resize(count, 0);
        self.statuses.resize(count * abi().status, 0);
        let mut finished: c_int = 0;
        let test = pmpi!(Testsome: fn(Word, Word, Word, Word, Word));
        // SAFETY: an array of `count` requests, which stay alive until they are removed here, and room for as many
        // answers.
        let code = unsafe {
            test(
                count,
                word(self.requests.as_mut_ptr()),
                word(&raw mut finished),
                word(self.indices.as_mut_ptr()),
                word(self.statuses.as_mut_ptr()),
            )
        };
        if code != abi::SUCCESS && code != abi().err_in_status {
            // Nothing is known of any of them: all are told.
            return self.fail(code);
        }
        if finished == UNDEFINED || finished <= 0 {
            return false;
        }
        let mut done: Vec<usize> = self.indices[..finished as usize].iter().map(|index| *index as usize).collect();
        for (nth, &index) in done.iter().enumerate() {
            let status = self.statuses[nth * abi().status..].as_ptr();
            // SAFETY: a status that the test has filled.
            let error = if code == abi().err_in_status { unsafe { abi::error_in(status) } } else { abi::SUCCESS };
            self.tell(index, status, error);
        }
        done.sort_unstable();
        done.into_iter().rev().for_each(|index| self.remove(index));
        self.forget_abandoned();
        true
    }

    /// Tests all, with a call for each that has ended, which tells the handler its error. Of several at once MPICH
    /// tells the handler only that a status has one. Open MPI's call would free all that have failed.
    fn test_each(&mut self) -> bool {
        let test = pmpi!(Testany: fn(Word, Word, Word, Word, Word));
        let (mut any, mut first) = (false, 0);
        while first < self.owners.len() {
            let count = REQUESTS_A_CALL.min(self.owners.len() - first);
            let (mut index, mut flag, mut status): (c_int, c_int, StatusBytes) = (UNDEFINED, 0, [0; 4]);
            let requests = word(self.requests[first * abi().request..].as_mut_ptr());
            let (at, ended, told) = (word(&raw mut index), word(&raw mut flag), word(status.as_mut_ptr()));
            // SAFETY: an array of so many requests, which stay alive until they are removed here, and places for the
            // answers.
            let code = unsafe { test(count, requests, at, ended, told) };
            match usize::try_from(index) {
                Ok(index) if (flag != 0 || code != abi::SUCCESS) && index < count => {
                    self.tell(first + index, status.as_ptr().cast(), code);
                    // Another takes its place, so those before `first` stay the ones that have not ended.
                    self.remove(first + index);
                    any = true;
                }
                // Nothing is known of any of them: all are told.
                _ if code != abi::SUCCESS => return self.fail(code),
                _ => first += count,
            }
        }
        self.forget_abandoned();
        any
    }

    /// Those whose wait has ended without them are the program's again.
    fn forget_abandoned(&mut self) {
        if !std::mem::take(&mut self.abandoned) {
            return;
        }
        for index in (0..self.owners.len()).rev() {
            // SAFETY: listed: who is told of the end of its wait is told after this.
            if unsafe { (*self.owners[index].0.0).left } == 0 {
                self.remove(index);
            }
        }
    }

    /// Tests the only one, by the call that tells its handler the error itself: of several at once MPICH tells it that
    /// the error stands in a status.
    fn test_one(&mut self) -> bool {
        let (mut flag, mut status): (c_int, StatusBytes) = (0, [0; 4]);
        let test = pmpi!(Test: fn(Word, Word, Word));
        // SAFETY: a request that stays alive until it is removed here, and places for the answers.
        let code = unsafe { test(word(self.requests.as_mut_ptr()), word(&raw mut flag), word(status.as_mut_ptr())) };
        if flag == 0 && code == abi::SUCCESS {
            return false;
        }
        self.tell(0, status.as_ptr().cast(), code);
        self.remove(0);
        true
    }

    /// Asks what only the implementation can answer.
    pub fn ask(&mut self) -> bool {
        let ended = &mut self.ended;
        // Of the communicator that was last looked at, whether there is any message.
        let mut last: Option<(Word, bool)> = None;
        self.questions.retain_mut(|&mut (listed, ref mut comm)| {
            if let Some(comm) = *comm {
                if last.is_none_or(|(of, _)| of != comm) {
                    last = Some((comm, abi::may_have_message(comm)));
                }
                if last.is_some_and(|(_, any)| !any) {
                    return true;
                }
            }
            // SAFETY: listed: its frame lasts, and the question in it is the leader's to ask.
            let answer = unsafe { (*listed.0).question.and_then(|question| (*question)()) };
            if let Some(code) = answer {
                // SAFETY: as above; the result is the leader's.
                unsafe { (*listed.0).result = code };
                ended.push(listed);
            } else {
                // SAFETY: as above. What is wrong with the call itself was told by now.
                *comm = unsafe { (*listed.0).comm };
            }
            answer.is_none()
        });
        !ended.is_empty()
    }

    /// Request `index` has ended.
    fn tell(&mut self, index: usize, status: *const u8, error: c_int) {
        let (listed, nth) = self.owners[index];
        let size = abi().request;
        // SAFETY: listed: frame, slice, and what the caller of MPI passed last. The handle is as the test left it:
        // null, or inactive.
        unsafe {
            let waiter = &mut *listed.0;
            let single = &(&*waiter.singles)[nth];
            std::ptr::copy_nonoverlapping(self.requests[index * size..].as_ptr(), single.request, size);
            if let Some(place) = single.status {
                // Calls that end one request leave its place for an error alone.
                let keeps = error == abi::SUCCESS && !waiter.several;
                let before = if keeps { abi::error_in(place) } else { error };
                std::ptr::copy_nonoverlapping(status, place, abi().status);
                abi::set_error(place, before);
            }
            let taken_back = waiter.recalled && single.recall && error == abi::SUCCESS && abi::is_cancelled(status);
            if error != abi::SUCCESS && matches!(waiter.result, abi::SUCCESS | TAKEN_BACK) {
                waiter.result = error;
            } else if taken_back && waiter.result == abi::SUCCESS {
                waiter.result = TAKEN_BACK;
            }
            if waiter.left == 0 {
                // Its wait has ended in this round, by another's error.
                return;
            }
            waiter.left -= 1;
            // A send beside a receive that was taken back goes on: the other rank may do as we.
            if taken_back || waiter.until_error && error != abi::SUCCESS {
                self.abandoned |= std::mem::take(&mut waiter.left) != 0;
            }
            if waiter.left == 0 {
                self.ended.push(listed);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        let (size, last) = (abi().request, self.owners.len() - 1);
        self.owners.swap_remove(index);
        self.requests.copy_within(last * size..(last + 1) * size, index * size);
        self.requests.truncate(last * size);
    }

    /// The test itself has failed: everybody who waits for a request is told so.
    fn fail(&mut self, code: c_int) -> bool {
        let mut owners: Vec<Listed> = self.owners.drain(..).map(|(listed, _)| listed).collect();
        self.requests.clear();
        owners.sort_unstable_by_key(|listed| listed.0.addr());
        owners.dedup();
        for listed in owners {
            // SAFETY: listed, and the result is the leader's.
            unsafe { (*listed.0).result = code };
            self.ended.push(listed);
        }
        true
    }
}
