//! Looks into `/proc` and the control groups, by a kernel thread that has a table of descriptors of its own.
//!
//! A look opens a file, and an open file has the lowest number that is free. In the program's own table that number is
//! missing for the moment: where a program closes a descriptor and counts on getting its number back, or puts another
//! descriptor there with `dup2`, a look that comes between would break it. So one kernel thread, `raddle-looks`, leaves
//! the table that it shares with the others and looks on behalf of the monitor. It holds nothing of the program's open.
//!
//! One word carries a question there and its answer back, so that nobody needs a lock that a frozen kernel thread could
//! hold:
//!
//! | phase | written by | next |
//! |---|---|---|
//! | [`ASKED`] | who asks, holding [`ASKING`] | [`ANSWERED`], by the looking kernel thread alone |
//! | [`ANSWERED`], or 0 at the start | the looking kernel thread | [`ASKED`] |
//!
//! Bound: who asks waits for [`ANSWER_NS`] at most, then goes on without an answer: on a busy machine the kernel thread
//! may wait for a core. One that has not answered for [`FROZEN_NS`] counts as frozen, and all look by themselves until
//! it does; so does whoever asks beside another one.

use super::task::{self, TaskState};
use raddle_machine::raw::system_call;
use raddle_machine::{Atomic, Machine, Real, RealAtomic};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// Nanoseconds that an answer is waited for.
const ANSWER_NS: u64 = 10_000_000;
/// Nanoseconds without an answer until it is given up.
const FROZEN_NS: u64 = 1_000_000_000;

/// The word's highest bits: its phase.
const PHASE: u32 = 3 << 30;
const ASKED: u32 = 1 << 30;
const ANSWERED: u32 = 2 << 30;
/// The three bits below: what is asked. Below them the number that is asked about, or the answer.
const STATE: u32 = 1 << 27;
const KERNEL_THREADS: u32 = 2 << 27;
const QUOTA: u32 = 3 << 27;
const PLACE: u32 = 4 << 27;
const FILTERS: u32 = 5 << 27;
const WAITING: u32 = 0;
const KIND: u32 = 7 << 27;
const NUMBER: u32 = STATE - 1;

type Word = RealAtomic<u32>;

/// What became of a question.
#[derive(Debug, PartialEq)]
enum Reply {
    /// The answer.
    Is(u32),
    /// None yet.
    Late,
    /// Nobody answers.
    Nobody,
}

/// The word of the kernel thread that looks; null while there is none. Never freed.
static LOOKER: AtomicPtr<Word> = AtomicPtr::new(std::ptr::null_mut());
/// The kernel thread exists, if perhaps it does not answer yet.
static EXISTS: AtomicBool = AtomicBool::new(false);
/// Somebody asks.
static ASKING: AtomicBool = AtomicBool::new(false);
/// When the last question was put, or the kernel thread started. Changes hands with [`ASKING`].
static ASKED_AT: AtomicU64 = AtomicU64::new(0);
/// The answer to [`PLACE`], which has no room in the word. Written by the looking kernel thread before it answers, read
/// by who asked.
static PLACE_FOUND: AtomicUsize = AtomicUsize::new(0);

/// Starts the kernel thread, if there is none.
pub(crate) fn start() {
    if EXISTS.swap(true, Ordering::Relaxed) {
        return;
    }
    ASKED_AT.store(Real::now(), Ordering::Relaxed);
    let word: &'static Word = Box::leak(Box::new(Word::new(0)));
    // It has no standard error afterwards: a program that closes its own must not find it held open here.
    let look = move || match leave_table(true) {
        Ok(()) => {
            task::keep_open();
            LOOKER.store(std::ptr::from_ref(word).cast_mut(), Ordering::Release);
            serve(word)
        }
        Err(error) => stay_here(&error),
    };
    if let Err(error) = super::spawn("raddle-looks", look) {
        stay_here(&error);
    }
}

/// In the child of a fork: there is no such kernel thread.
pub(crate) fn forget() {
    LOOKER.store(std::ptr::null_mut(), Ordering::Relaxed);
    ASKING.store(false, Ordering::Relaxed);
    EXISTS.store(false, Ordering::Relaxed);
}

/// True while there is such a kernel thread.
pub(crate) fn is_there() -> bool {
    EXISTS.load(Ordering::Relaxed)
}

/// The state of kernel thread `tid` of this process, unknown if the answer takes long.
pub(crate) fn task_state(tid: u32) -> TaskState {
    match ask(STATE | tid & NUMBER) {
        Reply::Is(state) => [TaskState::Running, TaskState::Blocked, TaskState::Unknown][state as usize % 3],
        Reply::Late => TaskState::Unknown,
        Reply::Nobody => task::task_state(tid),
    }
}

/// The instruction to which kernel thread `tid` of this process comes back when it is no longer blocked in the kernel.
/// `None` if it is not blocked, the answer takes long, or nobody can look without taking a number of the program's.
pub(crate) fn place_in_kernel(tid: u32) -> Option<usize> {
    matches!(ask(PLACE | tid & NUMBER), Reply::Is(1)).then(|| PLACE_FOUND.load(Ordering::Relaxed))
}

/// How many kernel threads the process has.
pub(crate) fn kernel_threads() -> Option<u64> {
    count(KERNEL_THREADS, task::kernel_threads)
}

/// How many filters of system calls the calling kernel thread has, which those that it starts inherit; `None` where it
/// has some, and the kernel does not count them.
pub(crate) fn filters() -> Option<u32> {
    let me = super::gettid();
    count(FILTERS | me & NUMBER, || task::filters(me).map(u64::from)).map(|filters| filters as u32)
}

/// Asks for a count. It waits for the answer as long as there may be one: nobody asks twice.
fn count(question: u32, here: impl FnOnce() -> Option<u64>) -> Option<u64> {
    loop {
        match ask(question) {
            Reply::Is(count) => return (count != NUMBER).then_some(u64::from(count)),
            Reply::Late => super::events::rest(ANSWER_NS / 10),
            Reply::Nobody => return here(),
        }
    }
}

/// The control group's quota in cores, rounded up, or that there is none. `None` if the answer takes long.
pub(crate) fn quota() -> Option<Option<usize>> {
    match ask(QUOTA) {
        Reply::Is(cores) => Some((cores != NUMBER).then_some(cores as usize)),
        Reply::Late => None,
        Reply::Nobody => Some(super::cores::quota_now()),
    }
}

/// Nanoseconds that kernel thread `tid` of this process has waited for a core while it could have run, in whole
/// microseconds and with those of [`WRAP`] left out: for [`waited`]. `None` if there is no such kernel thread, or the
/// answer takes long.
pub(crate) fn time_waiting(tid: u32) -> Option<u64> {
    match ask(WAITING | tid & NUMBER) {
        Reply::Is(NUMBER) | Reply::Late => None,
        Reply::Is(time) => Some(u64::from(time) * 1000),
        Reply::Nobody => task::waiting(tid).map(|time| time % WRAP * 1000),
    }
}

/// How long it waited between two answers of [`time_waiting`] less than two minutes apart, in nanoseconds.
pub(crate) fn waited(before: u64, after: u64) -> u64 {
    (after + 1000 * WRAP - before) % (1000 * WRAP)
}

/// Microseconds after which an answer begins anew.
const WRAP: u64 = NUMBER as u64;

/// Has it looked at.
fn ask(question: u32) -> Reply {
    // SAFETY: null, or a word that is never freed.
    let Some(word) = (unsafe { LOOKER.load(Ordering::Acquire).as_ref() }) else {
        // It may be about to come up.
        let late = is_there() && Real::now().saturating_sub(ASKED_AT.load(Ordering::Relaxed)) < FROZEN_NS;
        return if late { Reply::Late } else { Reply::Nobody };
    };
    if ASKING.swap(true, Ordering::Acquire) {
        return Reply::Nobody;
    }
    let reply = put(word, question, &ASKED_AT);
    ASKING.store(false, Ordering::Release);
    reply
}

/// Puts the question, and waits. All that passes between the two is in the word itself.
fn put(word: &Word, question: u32, asked_at: &AtomicU64) -> Reply {
    let now = Real::now();
    let mut own = true;
    if word.load(Ordering::Relaxed) & PHASE == ASKED {
        // The last one is not answered yet.
        if now.saturating_sub(asked_at.load(Ordering::Relaxed)) >= FROZEN_NS {
            return Reply::Nobody;
        }
        own = false;
    } else {
        asked_at.store(now, Ordering::Relaxed);
        word.store(ASKED | question, Ordering::Relaxed);
        Real::wake(word, 1);
    }
    loop {
        // Acquire: an answer beside the word.
        let seen = word.load(Ordering::Acquire);
        if seen & PHASE == ANSWERED {
            return if own { Reply::Is(seen & NUMBER) } else { Reply::Late };
        }
        if Real::now() >= now + ANSWER_NS {
            return Reply::Late;
        }
        Real::wait(word, seen, Some(now + ANSWER_NS));
    }
}

/// Answers what is asked, for ever.
fn serve(word: &Word) -> ! {
    loop {
        let seen = word.load(Ordering::Relaxed);
        if seen & PHASE != ASKED {
            Real::wait(word, seen, None);
            continue;
        }
        let number = match seen & KIND {
            STATE => task::task_state(seen & NUMBER) as u32,
            WAITING => task::waiting(seen & NUMBER).map_or(NUMBER, |time| (time % WRAP) as u32),
            PLACE => {
                let place = task::place(seen & NUMBER).filter(|_| task::sections_are_safe());
                PLACE_FOUND.store(place.unwrap_or(0), Ordering::Relaxed);
                u32::from(place.is_some())
            }
            FILTERS => task::filters(seen & NUMBER).unwrap_or(NUMBER),
            KERNEL_THREADS => task::kernel_threads().map_or(NUMBER, |count| count.min(u64::from(NUMBER)) as u32),
            _ => super::cores::quota_now().map_or(NUMBER, |cores| cores.min(NUMBER as usize) as u32),
        };
        // Release: an answer beside the word.
        word.store(ANSWERED | number & NUMBER, Ordering::Release);
        Real::wake(word, 1);
    }
}

fn stay_here(error: &std::io::Error) {
    EXISTS.store(false, Ordering::Relaxed);
    super::say_once(&format!(
        "raddle: no kernel thread with descriptors of its own ({error}): looks at /proc take the program's lowest free number for a moment"
    ));
}

thread_local! {
    /// The calling kernel thread's descriptors are its own. (No destructor: see [`super::spawn`].)
    static HAS_OWN_TABLE: Cell<bool> = const { Cell::new(false) };
}

/// True where a descriptor's number is not the program's: in kernel threads that have called [`leave_table`].
#[inline]
pub(crate) fn has_own_table() -> bool {
    HAS_OWN_TABLE.get()
}

/// Gives the calling kernel thread an empty table of descriptors of its own. `at_once`: by `close_range` (Linux 5.9),
/// where there is one, which copies nothing; otherwise the table is copied, and what is in the copy closed.
pub(super) fn leave_table(at_once: bool) -> std::io::Result<()> {
    // From here on, since what closes the copies in the table that is left must not be taken for the program's closing
    // either.
    HAS_OWN_TABLE.set(true);
    let result = empty_table(at_once);
    if result.is_err() {
        HAS_OWN_TABLE.set(false);
    }
    result
}

fn empty_table(at_once: bool) -> std::io::Result<()> {
    let unshare = libc::CLOSE_RANGE_UNSHARE as usize;
    // SAFETY: numbers and flags only; the table that is emptied is the calling kernel thread's own.
    let result = at_once
        .then(|| unsafe { system_call(libc::SYS_close_range as usize, [0, u32::MAX as usize, unshare, 0, 0, 0]) });
    if result == Some(0) {
        return Ok(());
    }
    // SAFETY: flags only.
    let result = unsafe { system_call(libc::SYS_unshare as usize, [libc::CLONE_FILES as usize, 0, 0, 0, 0, 0]) };
    if result != 0 {
        return Err(std::io::Error::from_raw_os_error(-(result as i32)));
    }
    // The directory's own descriptor is one of them: closed already when its turn comes.
    let names: Vec<_> = std::fs::read_dir("/proc/thread-self/fd")?.flatten().map(|entry| entry.file_name()).collect();
    names.iter().filter_map(|name| name.to_str()?.parse().ok()).for_each(super::events::close);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    fn open_here() -> Vec<i32> {
        let entries = std::fs::read_dir("/proc/thread-self/fd").unwrap().flatten();
        let mut numbers: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn a_kernel_thread_leaves_the_table_and_the_others_keep_theirs() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        for at_once in [true, false] {
            let left = std::thread::spawn(move || leave_table(at_once).map(|()| open_here())).join().unwrap().unwrap();
            assert_eq!(left, [0], "the directory that it reads");
            assert!(open_here().contains(&file.as_raw_fd()));
            assert!(super::super::events::is_open(2));
        }
    }

    #[test]
    fn answers_are_those_of_a_look_and_nobody_waits_for_ever() {
        let word: &'static Word = Box::leak(Box::new(Word::new(0)));
        let me = super::super::gettid();
        let at = AtomicU64::new(0);
        assert_eq!(put(word, STATE | me, &at), Reply::Late, "nobody answers yet");
        // However long this kernel thread had no core.
        at.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(put(word, QUOTA, &at), Reply::Late);
        at.store(Real::now() - FROZEN_NS, Ordering::Relaxed);
        assert_eq!(put(word, QUOTA, &at), Reply::Nobody, "nor in time");
        assert_eq!(word.load(Ordering::Relaxed), ASKED | STATE | me);
        std::thread::spawn(move || serve(word));
        // What was asked first is answered late, to nobody.
        while word.load(Ordering::Relaxed) & PHASE == ASKED {
            std::thread::yield_now();
        }
        let asked = |question| loop {
            // A busy machine may take longer than one who asks waits.
            if let Reply::Is(number) = put(word, question, &at) {
                return number;
            }
        };
        // Who asks may not wait yet when it is looked at; one that is known to wait goes on waiting.
        assert_ne!(asked(STATE | me), TaskState::Unknown as u32);
        task::tests::beside_one_that_waits(|task| assert_eq!(asked(STATE | task), TaskState::Blocked as u32));
        assert_eq!(asked(STATE | NUMBER), TaskState::Unknown as u32);
        assert!(asked(KERNEL_THREADS) >= 2);
        assert!(u64::from(asked(WAITING | me)) <= task::waiting(me).unwrap());
        assert_eq!(asked(WAITING | NUMBER), NUMBER);
        assert_eq!((waited(5_000, 7_000), waited(WRAP * 1000 - 2_000, 3_000)), (2_000, 5_000));
        let quota = super::super::cores::quota_now();
        assert_eq!(asked(QUOTA), quota.map_or(NUMBER, |cores| cores as u32));
    }
}
