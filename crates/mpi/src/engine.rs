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

use crate::abi::{self, abi};
use crate::idle::Idle;
use crate::led::{ENDED, LEADS, Led, Listed, Question, WAITS, Waiter};
use crate::lengths;
use crate::uncancelled::Uncancelled;
use crate::waits::{Wait, by_own_tests, directly};
use crate::world;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

/// Threads in [`wait`]. Only a hint.
pub static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Rounds of all leaders. Only a hint.
pub static ROUND: AtomicUsize = AtomicUsize::new(0);

/// Held by the leader during a round, and for ever by who ends MPI.
static TURN: Mutex<()> = Mutex::new(());

/// Who ends MPI, and has the turn.
static ENDS: OnceLock<ThreadId> = OnceLock::new();

/// Before the implementation is ended: nobody else tests any more. The answer is how many threads wait, and will.
///
/// The implementation calls functions of the program's while it ends (what deletes attributes of `MPI_COMM_SELF`), and
/// these may wait.
pub fn stop() -> usize {
    // A handler of errors that the leader's test has called has the turn.
    if !leads() {
        std::mem::forget(TURN.lock());
    }
    // Set once: who ends MPI stops it once.
    _ = ENDS.set(thread::current().id());
    // Relaxed: a number for people.
    WAITING.load(Ordering::Relaxed)
}

/// Whether nobody would test for this thread: it has the turn.
fn has_turn() -> bool {
    ENDS.get().is_some_and(|ends| *ends == thread::current().id()) || leads()
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
    match wait {
        Wait::All(singles) if world::tests_are_own() => by_own_tests(singles, None, until),
        Wait::Several(singles, error) if world::tests_are_own() => by_own_tests(singles, Some(error), until),
        wait => wait_by_leader(wait),
    }
}

fn until(question: &mut dyn FnMut() -> Option<c_int>) -> c_int {
    wait_by_leader(Wait::Until(question))
}

fn wait_by_leader(wait: Wait) -> c_int {
    // Relaxed: a counter.
    let others = WAITING.fetch_add(1, Ordering::Relaxed) != 0;
    let alone = (others || ENDS.get().is_some()) && has_turn();
    let code = if alone { directly(wait) } else { wait_among(wait) };
    WAITING.fetch_sub(1, Ordering::Relaxed);
    code
}

fn wait_among(wait: Wait) -> c_int {
    let comm = if let Wait::UntilMessage(comm, _) = wait { Some(abi().handle(comm)) } else { None };
    let (several, until_error) =
        if let Wait::Several(_, until_error) = wait { (true, until_error) } else { (false, false) };
    let (singles, question) = match wait {
        Wait::All(singles) | Wait::Several(singles, _) => (singles, None),
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
        several,
        until_error,
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
        let ended = round(&mut led, me);
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

/// One look at everything. True if something has ended.
fn round(led: &mut Led, me: Listed) -> bool {
    let asked = led.ask();
    let tested = led.test();
    let mut ended = std::mem::take(&mut led.ended);
    if ended.iter().any(|listed| *listed != me) {
        with(|shared| ended.iter().filter(|listed| **listed != me).for_each(|listed| shared.unfollow(*listed)));
    }
    ended.drain(..).for_each(|listed| tell_end(listed, me));
    led.ended = ended;
    asked || tested
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
