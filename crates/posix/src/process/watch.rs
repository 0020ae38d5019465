//! What handlers do to waits: whether one has run, and what ends the waits of handlers themselves.

use super::masks;
use super::signals;
use crate::os::c;
use crate::thread::record::Record;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a wait compares to learn whether handlers ran meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    interruptions: u64,
    endings: u64,
}

/// Some thread of ours has run a handler. Until then all counts are zero, and the records, which have often left the caches,
/// need not be looked at. Relaxed: who compares is the thread that counts.
static EVER: AtomicBool = AtomicBool::new(false);

/// The calling thread runs a handler: waits that it is in end.
pub(super) fn count_handler(me: &Record, restarts: bool) {
    EVER.store(true, Ordering::Relaxed);
    me.interruptions.fetch_add(1, Ordering::Relaxed);
    me.endings.fetch_add(u64::from(!restarts), Ordering::Relaxed);
}

/// From now on.
pub(crate) fn begin() -> Watch {
    if !EVER.load(Ordering::Relaxed) {
        return Watch { interruptions: 0, endings: 0 };
    }
    let count = |me: &'static Record| Watch {
        interruptions: me.interruptions.load(Ordering::Relaxed),
        endings: me.endings.load(Ordering::Relaxed),
    };
    Record::current().map_or(Watch { interruptions: 0, endings: 0 }, count)
}

impl Watch {
    /// A handler ran: calls that are never restarted (sleeps, `poll` and its kin, waits for signals) end with EINTR.
    pub fn interrupted(self) -> bool {
        begin().interruptions != self.interruptions
    }

    /// A handler ran that does not restart system calls: others (reads, semaphores) end with EINTR too.
    pub fn ended(self) -> bool {
        begin().endings != self.endings
    }
}

/// The caller is a handler of the program on a kernel thread of the runtime: what it waits for there is the kernel's, and signals of ours may come
/// meanwhile, whatever it blocks.
pub(crate) fn is_handler_here() -> bool {
    masks::is_in_handler() && raddle::drop_in::is_kernel_thread_of_runtime()
}

/// In such a handler: repeats `call`, a system call that waits and that no handler restarts, while nothing but a signal of ours has ended it.
pub(crate) fn uncut(mut call: impl FnMut() -> isize) -> isize {
    let watch = begin();
    loop {
        let kicks = signals::kicks_here();
        let result = call();
        if result != -(c::EINTR as isize) || watch.interrupted() || signals::kicks_here() == kicks {
            return result;
        }
    }
}
