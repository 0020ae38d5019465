//! Event loops: threads that wait for many descriptors again and again, and keep a kernel thread to themselves while
//! they do.
//!
//! Such a thread shares its kernel thread among connections already. Waiting in the reactor costs it a look, a wait, a
//! set of epoll within another, and a switch for each round, and it gains nothing by it. So after [`FIRST_WAITS`] such
//! waits it goes *apart* ([`raddle::drop_in::go_apart`]): a spare kernel thread goes on with its processor, and from
//! then on its waits are the kernel's. (The set is taken out of the reactor's, whose watch it would wake each time.) It
//! comes back by itself as soon as it waits or yields in any other way (a lock it waits for in the kernel too), as a
//! thread whose processor was taken while it was blocked does; so it does when it has waited for locks only for a while
//! ([`MOST_WORDS`]). Who comes back after fewer than [`WORTH_WAITS`] waits stays twice as long the next time. So a
//! change costs two wake-ups of a kernel thread, and pays for itself or becomes rare.
//!
//! While others use the cores, too, and the program is seen to do as much on fewer processors, such threads
//! are *gathered* instead: they share those processors and look in turn ([`raddle::drop_in::Gathered`]).
//!
//! Who waits in other ways, too (for one descriptor, or for another thread) between most of his waits for many
//! descriptors is no event loop: a client whose library has a set of epoll's for a single connection, such as the
//! postgres crate, and who works on requests. He stays among the others.
//!
//! About twice as many threads as processors may be apart at once, under the default policy only.
//!
//! A cancellation ends the wait by a signal of ours to the kernel thread, unless the thread sees it before. A signal
//! that comes between its look and the call finds the thread about to make the call, which it then does not make.

use super::{CANCELLED, EINTR, Pause, at};
use crate::os::{c, now};
use crate::process::{kernel_waits, signals};
use crate::thread::caller::Caller;
use crate::thread::record::Record;
use raddle_machine::Atomic as _;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Waits in the reactor before a thread goes apart for the first time. (These four: memcached -t 4 with 50
/// connections takes as much processor time for a request with a fourth and with four times of each, 5.4 to 5.7 µs.
/// `serve` of docs/constants.md)
const FIRST_WAITS: u32 = 16;
/// So many waits apart pay for going. A wait in the reactor costs a microsecond or two more, going and coming ten to
/// thirty.
const WORTH_WAITS: u32 = 32;
/// So many waits for a word in a row, without one for descriptors, and the thread is no event loop any more. One that
/// is seldom has to wait for two locks between two rounds.
const MOST_WORDS: u32 = 8;
/// Waits in the reactor at most until the next try.
const MOST_WAITS: u32 = 1 << 16;
/// So many more before a thread goes apart, for each wait in another way since the last one: a loop is who does nothing
/// else two times of three.
const OTHER_WAITS: u32 = 2;

/// A thread has waited for many descriptors. Until then nobody's other waits are of interest. Hint only.
static ANY: AtomicBool = AtomicBool::new(false);

/// What a thread's record knows of it. Written by the thread itself.
#[derive(Default)]
pub(crate) struct Apart {
    /// It went apart, and has not noticed since that it came back.
    chosen: AtomicBool,
    /// Waits apart since it went.
    stint: AtomicU32,
    /// Waits for a word since the last one for descriptors.
    words: AtomicU32,
    /// It has waited in other ways since its last wait for many descriptors; and it had done so before that one.
    otherwise: AtomicBool,
    mixes: AtomicBool,
    /// Waits in the reactor until the next try, and how many there were to be.
    left: AtomicU32,
    pause: AtomicU32,
}

impl Apart {
    /// A thread begins with the record.
    pub fn begin(&self) {
        self.chosen.store(false, Ordering::Relaxed);
        self.left.store(FIRST_WAITS, Ordering::Relaxed);
        self.pause.store(FIRST_WAITS, Ordering::Relaxed);
        self.otherwise.store(false, Ordering::Relaxed);
        self.mixes.store(false, Ordering::Relaxed);
    }

    /// The caller, a lightweight thread, is about to wait, and not for many descriptors.
    #[inline]
    pub fn waits_otherwise() {
        if ANY.load(Ordering::Relaxed)
            && let Some(me) = Record::current()
        {
            me.apart.otherwise.store(true, Ordering::Relaxed);
        }
    }

    /// True if the caller had waited in other ways, too, between its last two waits for many descriptors.
    pub fn caller_mixes() -> bool {
        Record::current().is_some_and(|me| me.apart.mixes.load(Ordering::Relaxed))
    }

    /// A wait for many descriptors begins.
    fn note_wait(&self) {
        if !ANY.load(Ordering::Relaxed) {
            ANY.store(true, Ordering::Relaxed);
        }
        let mixes = self.otherwise.load(Ordering::Relaxed);
        self.otherwise.store(false, Ordering::Relaxed);
        self.mixes.store(mixes, Ordering::Relaxed);
        if mixes {
            let most = self.pause.load(Ordering::Relaxed).max(FIRST_WAITS);
            let left = self.left.load(Ordering::Relaxed) + 1 + OTHER_WAITS;
            self.left.store(left.min(most), Ordering::Relaxed);
        }
    }

    /// True if the caller, which is about to wait for a word, is a lightweight thread that is apart and stays so.
    pub fn stays_for_a_word() -> bool {
        Record::current().is_some_and(|me| me.apart.is() && me.apart.words.fetch_add(1, Ordering::Relaxed) < MOST_WORDS)
    }

    fn is(&self) -> bool {
        self.chosen.load(Ordering::Relaxed) && raddle::drop_in::is_apart()
    }

    /// The caller's record if its next wait, of so many milliseconds, is to be the kernel's. Before each wait for many
    /// descriptors.
    #[inline]
    pub fn of_caller(caller: Caller, milliseconds: c_int) -> Option<&'static Record> {
        let Caller::Light(Some(me)) = caller else { return None };
        if milliseconds != 0 {
            me.apart.note_wait();
        }
        // One who cannot be cancelled now might have to be while it waits.
        let may = me.request.word().load(Ordering::Relaxed) == 0;
        if raddle::drop_in::gather().is_some() {
            me.apart.rests();
            return None;
        }
        (may && (me.apart.is() || milliseconds != 0 && me.apart.goes())).then_some(me)
    }

    /// Loops are gathered for now: the thread comes back with this wait, if it was apart, and goes again with the first
    /// one after that.
    fn rests(&self) {
        if self.chosen.load(Ordering::Relaxed) {
            self.chosen.store(false, Ordering::Relaxed);
            self.left.store(0, Ordering::Relaxed);
        }
    }

    /// True if the thread, which is not apart, goes now.
    fn goes(&self) -> bool {
        let pause = self.pause.load(Ordering::Relaxed);
        let rest = |pause: u32| {
            let pause = pause.clamp(FIRST_WAITS, MOST_WAITS);
            self.pause.store(pause, Ordering::Relaxed);
            self.left.store(pause, Ordering::Relaxed);
        };
        if self.chosen.load(Ordering::Relaxed) {
            self.chosen.store(false, Ordering::Relaxed);
            rest(if self.stint.load(Ordering::Relaxed) < WORTH_WAITS { 2 * pause } else { 0 });
        }
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
            return false;
        }
        let gone = raddle::drop_in::go_apart();
        if gone {
            self.stint.store(0, Ordering::Relaxed);
            self.words.store(0, Ordering::Relaxed);
            self.chosen.store(true, Ordering::Relaxed);
        } else {
            rest(2 * pause);
        }
        gone
    }
}

/// `epoll_wait` of the thread `me`, which is apart and the caller, in the kernel.
pub(super) fn wait(me: &Record, set: c_int, events: *mut c_void, count: c_int, milliseconds: c_int) -> isize {
    let apart = &me.apart;
    apart.words.store(0, Ordering::Relaxed);
    let pause = Pause::begin();
    // As coarse as the kernel's ticks: it is needed only after a signal of ours.
    let start = now(c::CLOCK_MONOTONIC_COARSE);
    let mut left = milliseconds;
    let result = loop {
        let kicks = signals::kicks_here();
        let arguments = [set as usize, at(events), count as usize, left as usize, 0, 0];
        // SAFETY: the caller's room for events; the kernel checks it.
        let result = unsafe {
            kernel_waits::call_while_zero(crate::futex::plain(me.request.word()), c::SYS_epoll_pwait, arguments)
        };
        if result != EINTR && result != kernel_waits::CANCELLED {
            break result;
        }
        if me.request.word().load(Ordering::Relaxed) != 0 {
            break CANCELLED;
        }
        // Another thread may have named it: it is dedicated then.
        crate::thread::dedicated::dedicate_if_asked();
        // A handler of the program's has run, by our signal or by itself.
        if pause.is_interrupted() || signals::kicks_here() == kicks {
            break EINTR;
        }
        let spent = now(c::CLOCK_MONOTONIC_COARSE).saturating_sub(start) / 1_000_000;
        left = if milliseconds < 0 { -1 } else { milliseconds.saturating_sub(spent as c_int).max(0) };
    };
    if result > 0 {
        raddle::drop_in::note_events_apart(result as u64);
    }
    if apart.stint.fetch_add(1, Ordering::Relaxed) == 0 && result >= 0 {
        // It is a set of epoll's, for which nobody waits but in a loop.
        raddle::io::disarm(set);
    }
    result
}
