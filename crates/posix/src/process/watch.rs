//! What handlers do to waits: whether one has run, and what ends the waits of handlers themselves.

use super::masks;
use super::signals::{self, Set};
use crate::os::c;
use crate::thread::record::Record;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

const EINTR: isize = -(c::EINTR as isize);

/// What a wait compares to learn whether handlers ran meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct Watch {
    interruptions: u64,
    endings: u64,
}

/// Some thread of ours has run a handler. Until then all counts are zero, and the records, which have often left the
/// caches, need not be looked at. Relaxed: who compares is the thread that counts.
static EVER: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Handlers that ran here: what counts in a handler, which may have interrupted no thread.
    static HERE: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread, if it is one, runs a handler: waits that it is in end.
pub(super) fn count_handler(me: Option<&Record>, restarts: bool) {
    HERE.set(HERE.get().wrapping_add(1));
    let Some(me) = me else { return };
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

/// The caller is a handler of the program on a kernel thread of the runtime: what it waits for there is the kernel's,
/// and signals of ours may come meanwhile, whatever it blocks.
pub(crate) fn is_handler_here() -> bool {
    masks::is_in_handler() && raddle::drop_in::is_kernel_thread_of_runtime()
}

/// In such a handler: repeats `call`, a system call that waits and that no handler restarts, while nothing but a signal
/// of ours has ended it.
pub(crate) fn uncut(mut call: impl FnMut() -> isize) -> isize {
    let handlers = HERE.get();
    loop {
        let kicks = signals::kicks_here();
        let result = call();
        // A cancellation answers something else.
        if result != EINTR || HERE.get() != handlers || signals::kicks_here() == kicks {
            return result;
        }
    }
}

/// `call`, of the calling lightweight thread, waits with the signal mask at `mask`, where there is one, and sees by
/// itself that a handler has run.
pub(crate) fn with_thread_mask(mask: usize, call: impl FnOnce() -> isize) -> isize {
    // SAFETY: null or the caller's set.
    let wanted = unsafe { std::ptr::with_exposed_provenance::<Set>(mask).as_ref() }.copied();
    let (Some(wanted), Some(me)) = (wanted, Record::current()) else { return call() };
    let wanted = wanted & !signals::UNBLOCKABLE;
    let before = me.mask.swap(wanted, Ordering::SeqCst);
    masks::changed(before, wanted);
    signals::deliver();
    let result = call();
    me.mask.store(before, Ordering::SeqCst);
    masks::changed(wanted, before);
    signals::deliver();
    result
}

/// In such a handler: `call` waits with the signal mask at `mask`, where there is one, and is told where the kernel
/// finds it.
pub(crate) fn with_mask(mask: usize, call: impl FnOnce(usize) -> isize) -> isize {
    // SAFETY: null or the caller's set.
    let Some(wanted) = (unsafe { std::ptr::with_exposed_provenance::<Set>(mask).as_ref() }).copied() else {
        return call(0);
    };
    let handlers = HERE.get();
    // Until the kernel waits: what comes meanwhile ends its wait at once.
    let before = signals::block_movable();
    let handled = masks::replace_handled(wanted);
    signals::deliver();
    let kernels = wanted & !signals::kicks();
    let result = if HERE.get() != handlers { EINTR } else { call((&raw const kernels).expose_provenance()) };
    masks::replace_handled(handled);
    signals::set_kernel_mask(before);
    result
}
