//! What handlers do to waits: whether one has run, and what ends the waits of handlers themselves.

use super::signals::{self, Set};
use super::{dump_signal, ending, kernel_waits, masks};
use crate::os::c;
use crate::thread::caller::Caller;
use crate::thread::cancel;
use crate::thread::record::Record;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

const EINTR: isize = -(c::EINTR as isize);

/// What a wait compares to learn whether handlers ran meanwhile.
#[derive(Clone, Copy)]
pub(crate) struct HandlersSeen {
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
    if crate::thread::dedicated::task(me).is_some() {
        // A wait that began before it was dedicated, and looks only when it ends.
        raddle::drop_in::end_own_wait();
    }
}

/// From now on.
pub(crate) fn begin() -> HandlersSeen {
    if !EVER.load(Ordering::Relaxed) {
        return HandlersSeen { interruptions: 0, endings: 0 };
    }
    let count = |me: &'static Record| HandlersSeen {
        interruptions: me.interruptions.load(Ordering::Relaxed),
        endings: me.endings.load(Ordering::Relaxed),
    };
    Record::current().map_or(HandlersSeen { interruptions: 0, endings: 0 }, count)
}

impl HandlersSeen {
    /// A handler ran: calls that are never restarted (sleeps, `poll` and its kin, waits for signals) end with EINTR.
    pub fn interrupted(self) -> bool {
        begin().interruptions != self.interruptions
    }

    /// A handler ran that does not restart system calls: others (reads, semaphores) end with EINTR too.
    pub fn ended(self) -> bool {
        begin().endings != self.endings
    }
}

/// What a wait tells the program: `result`, as the kernel answers, or [`kernel_waits::CANCELLED`]. All waits that a
/// handler can end come by here, since that handler may have ended the thread, too: then it ends here.
#[inline]
pub(crate) fn tell(result: isize) -> isize {
    match result {
        kernel_waits::CANCELLED => cancel::point(),
        EINTR => cancel::ending_point(),
        result => return result,
    }
    EINTR
}

/// In a handler of the program ([`Caller::Handler`]), if it has interrupted its thread where that may wait: `wait` runs
/// as the thread, which holds no kernel thread meanwhile and blocks `mask`, or what it blocks anyway. It is told
/// whether a handler has run because of the mask. `None` elsewhere.
pub(crate) fn as_thread<T>(caller: Caller, mask: Option<Set>, wait: impl FnOnce(bool) -> T) -> Option<T> {
    let Caller::Handler(Some(me)) = caller else { return None };
    if !ending::may_wait() || cancel::is_requested_here() {
        return None;
    }
    let mask = mask.unwrap_or_else(|| masks::blocked(me));
    let mut result = None;
    masks::as_thread(mask, || {
        let handlers = HERE.get();
        signals::deliver();
        result = Some(wait(HERE.get() != handlers));
    });
    result
}

/// A wait with the signal mask at `mask`, where there is one, that ends with EINTR after any handler: `as_thread`, of a
/// lightweight thread, also of one whose handler calls; or `in_kernel`, where a handler's thread may not wait. That is
/// told where the kernel finds the mask.
pub(crate) fn wait(
    caller: Caller,
    mask: usize,
    as_thread: impl FnOnce() -> isize,
    in_kernel: impl FnOnce(usize) -> isize,
) -> isize {
    let Caller::Handler(_) = caller else { return with_thread_mask(mask, as_thread) };
    // SAFETY: null or the caller's set.
    let own = unsafe { std::ptr::with_exposed_provenance::<Set>(mask).as_ref() }.copied();
    let waited = self::as_thread(caller, own, |handler_ran| if handler_ran { EINTR } else { as_thread() });
    waited.unwrap_or_else(|| with_mask(mask, in_kernel))
}

/// In such a handler, or on a kernel thread of the program's own: repeats `call`, which waits in the kernel and is
/// restarted by no handler, while nothing but a signal of ours has ended it.
pub(crate) fn uncut(mut call: impl FnMut() -> isize) -> isize {
    let handlers = HERE.get();
    loop {
        let ours = || (signals::kicks_here(), dump_signal::times());
        let before = ours();
        let result = call();
        // A cancellation answers something else.
        if result != EINTR || HERE.get() != handlers || ours() == before {
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
    masks::waiting_with(me, wanted, call)
}

/// In such a handler: `call` waits with the signal mask at `mask`, where there is one, and is told where the kernel
/// finds it.
fn with_mask(mask: usize, call: impl FnOnce(usize) -> isize) -> isize {
    // SAFETY: null or the caller's set.
    let Some(wanted) = (unsafe { std::ptr::with_exposed_provenance::<Set>(mask).as_ref() }).copied() else {
        return call(0);
    };
    let handlers = HERE.get();
    // Until the kernel waits: what comes meanwhile ends its wait at once.
    let before = signals::block_movable();
    let waiting = masks::Waiting::with(wanted);
    signals::deliver();
    let kernels = wanted & !signals::kicks();
    let result = if HERE.get() != handlers { EINTR } else { call((&raw const kernels).expose_provenance()) };
    drop(waiting);
    signals::set_kernel_mask(before);
    result
}
