//! Waiting: one of those who wait tests for all, the others sleep.
//!
//! Source: our own. Roles: the *leader*, a thread that waits itself and tests everybody's requests; the *followers*,
//! who sleep; the *newcomer*, who becomes either. A leader whose own wait has ended makes a follower the leader.
//!
//! Who waits alone asks some times itself before it becomes the leader ([`crate::soon`]): between two ranks of one
//! thread each that is all there is.
//!
//! A wait is a set of single requests, handed to the leader, or a question that only the implementation can answer
//! (has one of these ended? is there a message?), which the leader asks. Requests lie in one array, and one call tests
//! all of it.
//!
//! The leader yields between its rounds, so that other threads of its processor run. When nothing has ended for a while
//! it sleeps between them ([`idle`](crate::idle)): a quarter of the time for which nothing has ended, at most some
//! milliseconds, or two hundred rounds where these take long. So what comes late is noticed late by a quarter, and a
//! rank whose threads all wait costs less than a two-hundredth of a core. A newcomer wakes it. It does not sleep while
//! others need its tests: a long message is outstanding, or there is a window ([`lengths`](crate::lengths)).
//!
//! A test makes progress for all that the implementation has begun, and costs as much: Open MPI tries each message
//! again for which there was no room. So of each kind of call one at most tests in vain between two rounds
//! ([`Kind`](crate::soon::Kind)).
//!
//! Invariants:
//! - I1: there is a leader while anybody waits: whoever gives the lead up takes a follower out of the list under the
//!   lock, or says that there is none.
//! - I2: a follower's frame is not left before its state says [`ENDED`], which is the last that the leader does to it.

use crate::abi::{self, StatusBytes, UNDEFINED, Word, abi, pmpi, word};
use crate::idle::Idle;
use crate::lengths;
use crate::uncancelled::Uncancelled;
use crate::waits::{Single, TAKEN_BACK, Wait, directly};
use std::ffi::c_int;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

/// Threads in [`wait`]. Only a hint.
pub static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Rounds of all leaders. Only a hint.
pub static ROUND: AtomicUsize = AtomicUsize::new(0);

/// Held by the leader during a round, and for ever by who ends MPI.
static TURN: Mutex<()> = Mutex::new(());

/// Before the implementation is ended: nobody tests any more. The answer is how many threads wait, and will.
pub fn stop() -> usize {
    // A handler of errors that the leader's test has called has the turn.
    if !leads() {
        std::mem::forget(TURN.lock());
    }
    // Relaxed: a number for people.
    WAITING.load(Ordering::Relaxed)
}

const WAITS: u32 = 0;
const LEADS: u32 = 1;
const ENDED: u32 = 2;

type Question = dyn FnMut() -> Option<c_int>;

/// A thread that waits; on its own stack.
struct Waiter {
    thread: Thread,
    state: AtomicU32,
    /// Requests that have not ended, and the first error. The leader's.
    left: usize,
    result: c_int,
    question: Option<*mut Question>,
    comm: Option<Word>,
    singles: *const [Single],
    /// Those of its requests that may be were taken back, or had found their message.
    recalled: bool,
    /// Where it stands among the followers; under the lock.
    place: usize,
}

/// A waiter in other hands than its own thread's.
#[derive(Clone, Copy, PartialEq)]
struct Listed(*mut Waiter);

// SAFETY: a waiter's frame lasts until it was told that its wait has ended (I2), and one thread at a time has it: its
// own until it is listed, then who leads.
unsafe impl Send for Listed {}

/// What the leader has: all requests in one array for the implementation, and whose each is.
#[derive(Default)]
struct Led {
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
    /// Whose wait has ended in this round; they are told of it together.
    ended: Vec<Listed>,
}

struct Shared {
    /// Present while nobody leads.
    led: Option<Led>,
    /// On its way to a follower that was made the leader.
    handed: Option<Led>,
    newcomers: Vec<Listed>,
    /// Who may lead next.
    followers: Vec<Listed>,
    /// Who leads.
    leader: Option<ThreadId>,
    /// The leader, while it sleeps.
    asleep: Option<Thread>,
}

impl Shared {
    fn follow(&mut self, listed: Listed) {
        // SAFETY: listed, and the place is the lock's, which is held.
        unsafe { (*listed.0).place = self.followers.len() };
        self.followers.push(listed);
    }

    fn unfollow(&mut self, listed: Listed) {
        // SAFETY: as above, of both: the last one goes where this one stood.
        unsafe {
            let place = (*listed.0).place;
            self.followers.swap_remove(place);
            if let Some(moved) = self.followers.get(place) {
                (*moved.0).place = place;
            }
        }
    }
}

static SHARED: Mutex<Option<Shared>> = Mutex::new(None);

fn with<T>(f: impl FnOnce(&mut Shared) -> T) -> T {
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    f(shared.get_or_insert_with(|| Shared {
        led: Some(Led::default()),
        handed: None,
        newcomers: Vec::new(),
        followers: Vec::new(),
        leader: None,
        asleep: None,
    }))
}

/// Whether this thread is the leader, and is here again: its test has called a handler of errors.
fn leads() -> bool {
    let me = thread::current().id();
    with(|shared| shared.leader == Some(me))
}

/// Blocks until what is waited for has ended. The answer is its error code.
pub fn wait(wait: Wait) -> c_int {
    let _whole = Uncancelled::begin();
    // Relaxed: a counter.
    let others = WAITING.fetch_add(1, Ordering::Relaxed) != 0;
    // For a leader nobody would test.
    let code = if others && leads() { directly(wait) } else { wait_among(wait) };
    WAITING.fetch_sub(1, Ordering::Relaxed);
    code
}

fn wait_among(wait: Wait) -> c_int {
    let comm = if let Wait::UntilMessage(comm, _) = wait { Some(abi().handle(comm)) } else { None };
    let (singles, question) = match wait {
        Wait::All(singles) => (singles, None),
        Wait::Until(question) | Wait::UntilMessage(_, question) => {
            let question: *mut (dyn FnMut() -> Option<c_int> + '_) = question;
            // SAFETY: only the lifetime changes: the frame that it lives in is not left before the wait has ended (I2).
            let question =
                unsafe { std::mem::transmute::<*mut (dyn FnMut() -> Option<c_int> + '_), *mut Question>(question) };
            (&[][..], Some(question))
        }
    };
    let mut waiter = Waiter {
        thread: thread::current(),
        state: AtomicU32::new(WAITS),
        left: singles.len(),
        result: abi::SUCCESS,
        question,
        comm,
        singles,
        recalled: false,
        place: 0,
    };
    let me = Listed(&raw mut waiter);
    let (led, asleep) = with(|shared| {
        shared.newcomers.push(me);
        let led = shared.led.take();
        if led.is_none() {
            shared.follow(me);
        }
        (led, shared.asleep.take())
    });
    if let Some(leader) = asleep {
        leader.unpark();
    }
    let state = || {
        // SAFETY: the state alone is looked at, which is atomic.
        unsafe { (*me.0).state.load(Ordering::Acquire) }
    };
    let led = match led {
        Some(led) => led,
        None => {
            while state() == WAITS {
                thread::park();
            }
            if state() == ENDED {
                // SAFETY: nobody has it any more (I2).
                return unsafe { (*me.0).result };
            }
            with(|shared| shared.handed.take()).expect("who was made the leader is handed the lead")
        }
    };
    lead(led, me);
    // SAFETY: its wait has ended, and who leads now does not have it.
    unsafe { (*me.0).result }
}

/// Tests for all until the wait of `me` has ended, and hands the lead on.
fn lead(mut led: Led, me: Listed) {
    let mut idle = Idle::default();
    let myself = thread::current().id();
    loop {
        let newcomers = with(|shared| {
            shared.leader = Some(myself);
            std::mem::take(&mut shared.newcomers)
        });
        let came = !newcomers.is_empty();
        newcomers.into_iter().for_each(|waiter| led.admit(waiter));
        let began = Instant::now();
        let turn = TURN.lock();
        let ended = led.round(me);
        drop(turn);
        let took = began.elapsed();
        // Relaxed: a hint.
        ROUND.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the leader's own waiter.
        if unsafe { (*me.0).state.load(Ordering::Relaxed) } == ENDED {
            break;
        }
        if ended || came {
            idle = Idle::default();
            thread::yield_now();
        } else if lengths::needed() {
            if idle.needed_long(began) {
                led.recall();
            }
            thread::yield_now();
        } else if let Some(longest) = idle.rest(began, took) {
            sleep(longest);
        }
    }
    let next = with(|shared| {
        shared.leader = None;
        let next = shared.followers.pop();
        let place = if next.is_some() { &mut shared.handed } else { &mut shared.led };
        *place = Some(led);
        next
    });
    if let Some(next) = next {
        // SAFETY: it was in the list, so its wait has not ended.
        let thread = unsafe { (*next.0).thread.clone() };
        // SAFETY: as above. Release: the lead lies ready.
        unsafe { (*next.0).state.store(LEADS, Ordering::Release) };
        thread.unpark();
    }
}

/// Wakes the leader, if it sleeps.
pub fn rouse() {
    if let Some(leader) = with(|shared| shared.asleep.take()) {
        leader.unpark();
    }
}

/// Until a newcomer comes.
fn sleep(longest: Duration) {
    let alone = with(|shared| {
        let alone = shared.newcomers.is_empty() && !lengths::needed();
        shared.asleep = alone.then(thread::current);
        alone
    });
    if alone {
        thread::park_timeout(longest);
        with(|shared| shared.asleep = None);
    }
}

impl Led {
    fn admit(&mut self, listed: Listed) {
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
    fn recall(&mut self) {
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

    /// One look at everything. True if something has ended.
    fn round(&mut self, me: Listed) -> bool {
        let asked = self.ask();
        let tested = self.test();
        let mut ended = std::mem::take(&mut self.ended);
        if ended.iter().any(|listed| *listed != me) {
            with(|shared| ended.iter().filter(|listed| **listed != me).for_each(|listed| shared.unfollow(*listed)));
        }
        ended.drain(..).for_each(|listed| tell_end(listed, me));
        self.ended = ended;
        asked || tested
    }

    /// Tests all requests with one call.
    fn test(&mut self) -> bool {
        if self.owners.is_empty() {
            return false;
        }
        let count = self.owners.len();
        if count == 1 {
            return self.test_one();
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
        true
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
    fn ask(&mut self) -> bool {
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
                let before = if error == abi::SUCCESS { abi::error_in(place) } else { error };
                std::ptr::copy_nonoverlapping(status, place, abi().status);
                abi::set_error(place, before);
            }
            let taken_back = waiter.recalled && single.recall && error == abi::SUCCESS && abi::is_cancelled(status);
            if error != abi::SUCCESS && matches!(waiter.result, abi::SUCCESS | TAKEN_BACK) {
                waiter.result = error;
            } else if taken_back && waiter.result == abi::SUCCESS {
                waiter.result = TAKEN_BACK;
            }
            waiter.left -= 1;
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

/// The wait of `listed` has ended. It is no follower any more, so it cannot be made the leader.
fn tell_end(listed: Listed, me: Listed) {
    // SAFETY: listed, so its frame lasts until the state below is stored (I2).
    unsafe {
        let thread = (listed != me).then(|| (*listed.0).thread.clone());
        // Point of no return: its frame may be gone after this. Release: result and statuses.
        (*listed.0).state.store(ENDED, Ordering::Release);
        if let Some(thread) = thread {
            thread.unpark();
        }
    }
}
