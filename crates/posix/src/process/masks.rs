//! Which signals the runtime's kernel threads block.
//!
//! The kernel gives a signal for the process to any kernel thread that does not block it, the first one preferred. So
//! the ones that carry threads block what all of the program's threads block: the first one, and every lightweight one.
//! Then such a signal stays with the process, as natively, and ends nobody; and what any thread lets in is let in by
//! all of them, who send it on ([`super::process_directed`]), but for one that has met a signal which it leaves to
//! others ([`ahead`]).
//!
//! [`BLOCKED`] is that set. Whoever changes a mask decides about the signals that it changed ([`update`]), and the
//! kernel threads are told by a signal of ours, whose handler changes the mask that it returns to ([`apply`]). Who
//! blocks waits until all have heard, for a while: one that is stopped hears it when it goes on. A thread that starts,
//! and a wait that ends, look again at nothing.
//!
//! A handler restores, when it returns, the mask that it interrupted, which may be from before a change that the kernel
//! thread has heard of inside the handler. So each handler behind ours ends by bringing that mask up to date
//! ([`settle`]), a jump out of one does it with the mask that the jump restores ([`settle_jump`]), and all do it with
//! our signals blocked: a change that comes meanwhile is heard after the return.
//!
//! Events, for one signal: M a thread stores its mask, D it decides and writes the set. Forbidden at the end: a set
//! that differs from what the masks say. All are SeqCst, M precedes D, and who has written the set decides again: the
//! last one to write has seen every M that came before some other's last D.

use super::signals::{self, Set, bit};
use super::{actions, alternate};
use crate::os::{FROZEN_NS, c, now, system_call};
use crate::thread::caller::Caller;
use crate::thread::record::{Held, Record};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

/// What the runtime's kernel threads are to block.
static BLOCKED: AtomicU64 = AtomicU64::new(0);
/// What was ever in it: the rest of a kernel thread's mask is none of our business.
static EVER: AtomicU64 = AtomicU64::new(0);
/// What the program's first thread blocks.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// How often the set has changed. A kernel thread stores the number that it read before it read the set; a count of
/// what was heard would not do, since a kick that arrives inside the runtime is deferred and comes twice.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// What a kernel thread may block before it was decided so: it met a signal that is left with the process (see
/// [`ahead`]).
static AHEAD: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What the thread blocks while handlers of the program run, its own mask included unless they have let that in. A
    /// handler keeps the storage that it began with; its kernel thread, too, unless it waits as its thread
    /// ([`as_thread`]).
    static HANDLING: Cell<Set> = const { Cell::new(0) };
    /// What the thread itself blocks, while a handler of its waits with another mask ([`Waiting`]).
    static OUTSIDE: Cell<Option<Set>> = const { Cell::new(None) };
    /// A handler of this thread's has waited so, and may return on another kernel thread.
    static MOVED: Cell<bool> = const { Cell::new(false) };
    /// What the thread blocks again when its wait with another mask is over.
    static RETURNS: Cell<Option<Set>> = const { Cell::new(None) };
    /// So many handlers run.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Before the first kernel thread of the runtime. `first`: the mask of the process's first thread, if it is the caller.
pub(super) fn prepare(first: Option<Set>) {
    let mask = first.unwrap_or(0) & signals::movable();
    FIRST.store(first.unwrap_or(0), Ordering::SeqCst);
    EVER.fetch_or(mask, Ordering::SeqCst);
    BLOCKED.store(mask, Ordering::SeqCst);
    raddle::drop_in::on_kernel_thread(begin);
}

/// In the child of a fork, whose only thread has that mask.
pub(super) fn forked(mask: Set) {
    // The others are gone, and let nothing in.
    Record::find(|record| {
        // What is pending is the parent's.
        record.pending.clear();
        if !record.is_current() {
            record.mask.store(u64::MAX, Ordering::Relaxed);
        }
        false
    });
    prepare(Some(mask));
}

/// What a kernel thread of the runtime does first, and after a handler that did not return.
pub(crate) fn begin() {
    signals::block_movable();
    let changes = CHANGES.load(Ordering::SeqCst);
    signals::set_kernel_mask(BLOCKED.load(Ordering::SeqCst));
    heard(changes);
}

/// This kernel thread's mask is as the set was after so many changes, or later.
fn heard(changes: u64) {
    if let Some(word) = raddle::drop_in::heard_by_this() {
        word.fetch_max(changes, Ordering::SeqCst);
    }
}

/// The calling kernel thread lets nothing in that can wait, until [`resume`]: nobody waits until it has heard of a
/// change. The answer is its mask before.
pub(super) fn pause() -> Set {
    let before = signals::block_movable();
    if let Some(word) = raddle::drop_in::heard_by_this() {
        word.store(u64::MAX, Ordering::SeqCst);
    }
    before
}

/// The calling kernel thread's mask is that from before [`pause`], up to date.
pub(super) fn resume(before: Set) {
    signals::block_movable();
    let Some(word) = raddle::drop_in::heard_by_this() else {
        signals::set_kernel_mask(before);
        return;
    };
    // Whoever changes the set from here on waits until this has heard of it.
    word.store(0, Ordering::SeqCst);
    let changes = CHANGES.load(Ordering::SeqCst);
    signals::set_kernel_mask(adapted(before, HANDLING.get()));
    word.fetch_max(changes, Ordering::SeqCst);
}

/// Runs `exec`, by which the process may become another program: it begins with what the calling thread blocks.
pub(super) fn with_own(exec: impl FnOnce() -> c_int) -> c_int {
    let Some(me) = Caller::light() else { return exec() };
    let before = pause();
    let mask = me.mask.load(Ordering::Relaxed);
    // What has come of ours is not left to the new program.
    signals::set_kernel_mask(mask & !signals::kicks());
    signals::set_kernel_mask(mask);
    let result = exec();
    resume(before);
    result
}

/// Whether the program's first thread blocks it.
pub(super) fn first_blocks(signal: c_int) -> bool {
    FIRST.load(Ordering::SeqCst) & bit(signal) != 0
}

/// A lightweight thread that does not block it.
pub(super) fn taker(signal: c_int) -> Option<Held> {
    Record::find(|record| record.mask.load(Ordering::SeqCst) & bit(signal) == 0 && !record.ends.load(Ordering::SeqCst))
}

/// The first thread's mask has changed.
pub(super) fn first_changed(before: Set, after: Set) {
    // One of ours, which a fork made the first.
    if let Some(me) = Record::current() {
        me.mask.store(after, Ordering::SeqCst);
    }
    FIRST.store(after, Ordering::SeqCst);
    update(before ^ after);
}

/// The first thread's code has ended, perhaps in a handler: its kernel thread goes on to take what it lets in.
pub(crate) fn first_ends() {
    let mask = signals::own_mask();
    first_changed(!mask, mask);
}

/// The calling thread lets faults in, which end the process where they are blocked.
pub(crate) fn let_faults_in() {
    signals::unblock(!actions::DEFERRABLE & !(bit(32) | bit(33)));
}

/// The mask of a lightweight thread, already stored, has changed, or it ends. The answer is what is blocked everywhere
/// from now on, and was not.
pub(crate) fn changed(before: Set, after: Set) -> Set {
    let mut set = (before ^ after) & FIRST.load(Ordering::SeqCst);
    let goes_on = |main: &&Record| set != 0 && !main.is_current() && !main.ends.load(Ordering::SeqCst);
    if let Some(main) = Record::first().filter(goes_on) {
        // What it lets in is let in, whatever the others do. If it blocks that in a moment, it decides, and sees what
        // this thread has stored.
        set &= main.mask.load(Ordering::SeqCst);
    }
    if set == 0 { 0 } else { update(set) }
}

/// Decides again about these signals. The answer is as for [`changed`].
#[cold]
fn update(set: Set) -> Set {
    let (mut more, mut less) = (0, 0);
    for signal in (1..=64).filter(|signal| set & signals::movable() & bit(*signal) != 0) {
        loop {
            let wanted = first_blocks(signal) && taker(signal).is_none();
            if wanted == (BLOCKED.load(Ordering::SeqCst) & bit(signal) != 0) {
                if !wanted && caught_up(signal) {
                    less |= bit(signal);
                }
                break;
            }
            if wanted {
                EVER.fetch_or(bit(signal), Ordering::SeqCst);
                BLOCKED.fetch_or(bit(signal), Ordering::SeqCst);
                more |= bit(signal);
            } else {
                BLOCKED.fetch_and(!bit(signal), Ordering::SeqCst);
                less |= bit(signal);
            }
        }
    }
    if more | less != 0 {
        tell(more != 0);
    }
    more
}

/// The calling kernel thread, in a handler, is about to leave that signal with the process and to block it by itself,
/// so that it does not meet it again at once. Whoever lets the signal in or takes it ([`taken`]) has it let in here
/// again.
///
/// Events: A this mark, L the look for a taker after it; M a thread stores a mask that lets the signal in, D it
/// decides. Forbidden: L misses M, and D misses A, and the kernel thread stays deaf. All are SeqCst, A precedes L, M
/// precedes D.
pub(super) fn ahead(signal: c_int) {
    EVER.fetch_or(bit(signal), Ordering::SeqCst);
    AHEAD.fetch_or(bit(signal), Ordering::SeqCst);
}

fn caught_up(signal: c_int) -> bool {
    AHEAD.load(Ordering::SeqCst) & bit(signal) != 0
        && AHEAD.fetch_and(!bit(signal), Ordering::SeqCst) & bit(signal) != 0
}

/// Somebody takes that signal, who lets it in.
pub(super) fn taken(signal: c_int) {
    if caught_up(signal) {
        tell(false);
    }
}

/// Tells the runtime's kernel threads, and waits until they have heard.
fn tell(wait: bool) {
    let changes = CHANGES.fetch_add(1, Ordering::SeqCst) + 1;
    // SAFETY: take nothing.
    let (process, own) = unsafe { (system_call(c::SYS_getpid, [0; 6]), system_call(c::SYS_gettid, [0; 6])) };
    raddle::drop_in::kernel_threads(|task, word| {
        if task as isize == own {
            renew(0);
            word.fetch_max(changes, Ordering::SeqCst);
            return;
        }
        signals::kick(task, true);
    });
    let end = now(c::CLOCK_MONOTONIC) + FROZEN_NS;
    while wait && !all_heard(changes, process) && now(c::CLOCK_MONOTONIC) < end {
        // SAFETY: takes nothing.
        unsafe { system_call(c::SYS_sched_yield, [0; 6]) };
    }
}

/// True if each kernel thread of the runtime has heard of so many changes, or has ended. One that begins now looks
/// itself.
fn all_heard(changes: u64, process: isize) -> bool {
    let mut all = true;
    raddle::drop_in::kernel_threads(|task, word| {
        // SAFETY: takes integers; no signal is sent.
        let lives = || unsafe { system_call(c::SYS_tgkill, [process as usize, task as usize, 0, 0, 0, 0]) } == 0;
        all &= word.load(Ordering::SeqCst) >= changes || !lives();
    });
    all
}

/// A kernel thread's mask as it should be; `handling`: what a handler that it runs has blocked.
fn adapted(mask: Set, handling: Set) -> Set {
    mask & !EVER.load(Ordering::SeqCst) | BLOCKED.load(Ordering::SeqCst) | handling
}

/// Brings the calling kernel thread's mask up to date, with these blocked besides unless the threads decide about them.
pub(super) fn renew(more: Set) {
    // No signal of ours comes between the look and the change: one that is on its way looks again.
    let mask = signals::block_movable();
    signals::set_kernel_mask(adapted(mask | more, HANDLING.get()));
}

/// What the calling thread, which is `me`, blocks: its own mask, or what a running handler has made of it.
pub(super) fn blocked(me: &Record) -> Set {
    if is_in_handler() && raddle::drop_in::is_kernel_thread_of_runtime() {
        HANDLING.get()
    } else {
        me.mask.load(Ordering::Relaxed) | HANDLING.get()
    }
}

/// In a record's `handled`, where no program's signal stands: a handler runs, and the rest is all that the thread
/// blocks.
const IN_HANDLER: Set = bit(32);

/// What another thread blocks, racily: its own mask, or what a running handler has made of it.
pub(super) fn seen_to_block(other: &Record) -> Set {
    let handled = other.handled.load(Ordering::Relaxed);
    if handled & IN_HANDLER != 0 { handled } else { other.mask.load(Ordering::Relaxed) }
}

/// What running handlers block from now on: never signals of ours. The answer is what they blocked before.
fn handle(set: Set) -> Set {
    let set = set & !signals::kicks();
    if let Some(me) = Record::current() {
        // For those who send it signals: a hint.
        me.handled.store(set | if is_in_handler() { IN_HANDLER } else { 0 }, Ordering::Relaxed);
    }
    HANDLING.replace(set)
}

/// What the program's handlers that run on this kernel thread block: no change lets that in before they return.
pub(super) fn handling(more: Set) -> Handling {
    DEPTH.set(DEPTH.get() + 1);
    Handling(handle(HANDLING.get() | more))
}

/// The running handler, if there is one, has changed its mask: until it returns. True if there is one.
pub(super) fn handler_changes(how: c_int, set: Set) -> bool {
    let before = HANDLING.get();
    if is_in_handler() {
        handle(match how {
            c::SIG_BLOCK => before | set,
            c::SIG_UNBLOCK => before & !set,
            _ => set,
        });
    }
    is_in_handler()
}

/// A handler of the program runs on this kernel thread.
pub(crate) fn is_in_handler() -> bool {
    DEPTH.get() != 0
}

/// The running handler waits with a mask of its own: that is all that its thread blocks, until this is dropped.
#[must_use]
pub(super) struct Waiting {
    handled: Set,
    /// What the thread blocked, and whether that was its own mask; `None` where the kernel knows the thread's.
    before: Option<(Set, bool)>,
}

impl Waiting {
    /// Begins it.
    pub fn with(wanted: Set) -> Self {
        let wanted = wanted & !signals::UNBLOCKABLE;
        let me = Record::current().filter(|me| {
            raddle::drop_in::is_kernel_thread_of_runtime() && crate::thread::dedicated::task(me).is_none()
        });
        let Some(me) = me else { return Self { handled: handle(wanted), before: None } };
        let own = me.mask.swap(wanted, Ordering::SeqCst);
        changed(own, wanted);
        let outermost = OUTSIDE.get().is_none();
        if outermost {
            OUTSIDE.set(Some(own));
        }
        Self { handled: handle(wanted), before: Some((own, outermost)) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((own, outermost)) = self.before {
            if outermost {
                OUTSIDE.set(None);
            }
            blocks_again(own);
        }
        handle(self.handled);
    }
}

/// The calling thread's own mask is that one again.
fn blocks_again(own: Set) {
    if let Some(me) = Record::current() {
        let waited_with = me.mask.swap(own, Ordering::SeqCst);
        changed(waited_with, own);
    }
}

/// In a handler that may wait as its thread does: runs `wait` as the thread, which blocks `wanted` meanwhile. False if
/// it cannot.
pub(super) fn as_thread(wanted: Set, wait: impl FnOnce()) -> bool {
    if alternate::is_on_kernels() {
        return false;
    }
    let before = signals::block_movable();
    let waited = raddle::signal::as_interrupted(|| {
        let waiting = Waiting::with(wanted);
        MOVED.set(true);
        // Others run here meanwhile.
        begin();
        wait();
        signals::block_movable();
        drop(waiting);
    });
    resume(before);
    waited.is_some()
}

/// In the handler of a tick, on the interrupted thread's own stack, with all blocked that can wait and no handler of
/// the program's running: runs `give_way`, from which the thread may return on another kernel thread. If that says so,
/// the thread is told of a signal of ours after the handler.
///
/// # Safety
/// `context` is what the kernel passed to the handler, which returns after this.
pub(super) unsafe fn give_way(context: *mut c_void, give_way: impl FnOnce() -> bool) {
    let moved = MOVED.replace(true);
    // Others run here meanwhile.
    begin();
    let looks = give_way();
    // SAFETY: the context of the handler that the caller is, which goes on with it.
    unsafe { settle(context, 0) };
    MOVED.set(moved);
    if looks {
        // SAFETY: takes nothing.
        signals::kick(unsafe { system_call(c::SYS_gettid, [0; 6]) } as u32, true);
    }
}

/// No handler runs any more. The answer is what was blocked.
fn handlers_are_left() -> Set {
    if let Some(own) = OUTSIDE.take() {
        blocks_again(own);
    }
    RETURNS.set(None);
    super::masked_waits::forget();
    super::ending::forget();
    super::jumps::forget();
    alternate::restore();
    DEPTH.set(0);
    handle(0)
}

/// A handler of the program runs until [`Handling::end`].
#[must_use]
pub(super) struct Handling(Set);

impl Handling {
    /// It has returned.
    pub fn end(self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
        handle(self.0);
    }
}

/// The calling thread, which is `me`, waits with another mask, by `wait`; handlers that run meanwhile return to what it
/// blocked before, or what they make of that.
pub(super) fn waiting_with<T>(me: &Record, wanted: Set, wait: impl FnOnce() -> T) -> T {
    let wanted = wanted & !signals::UNBLOCKABLE;
    let before = me.mask.swap(wanted, Ordering::SeqCst);
    let outside = RETURNS.replace(Some(before));
    changed(before, wanted);
    signals::deliver();
    let result = wait();
    let returns = RETURNS.replace(outside).unwrap_or(before);
    if crate::thread::dedicated::task(me).is_some() {
        // It has become so meanwhile, and the kernel has its mask.
        signals::set_kernel_mask(returns & !signals::kicks());
    } else {
        me.mask.store(returns, Ordering::SeqCst);
        changed(wanted, returns);
        signals::deliver();
    }
    result
}

/// The mask in the context of a handler of the program: what its thread has blocked, and will block again as the
/// handler leaves it there. The kernel's is that of the kernel thread, for which the thread may not matter.
#[must_use]
pub(super) struct Told {
    whose: Whose,
    /// The handler has run.
    ran: bool,
    /// What the handler finds there, and what it has left.
    told: Set,
    left: Set,
    /// What the kernel has put there.
    kernels: Set,
}

#[derive(Clone, Copy, PartialEq)]
enum Whose {
    /// That of a kernel thread, which the kernel keeps.
    Kernels,
    /// That of a thread of ours.
    Thread,
    /// That of the handler which this one has interrupted.
    Handler,
}

/// The mask in a handler's context.
///
/// # Safety
/// `context` is what the kernel passed to the handler that the caller is.
unsafe fn saved(context: *mut c_void) -> *mut Set {
    // SAFETY: the saved context; the kernel's set is the first word of the C library's.
    unsafe { (&raw mut (*context.cast::<c::ucontext_t>()).uc_sigmask).cast::<Set>() }
}

impl Told {
    /// Before what the handler blocks counts ([`handling`]).
    pub fn begin() -> Told {
        let ours = |me: &&Record| {
            raddle::drop_in::is_kernel_thread_of_runtime() && crate::thread::dedicated::task(me).is_none()
        };
        let (whose, told) = match Record::current().filter(ours) {
            Some(_) if is_in_handler() => (Whose::Handler, HANDLING.get()),
            Some(me) => (Whose::Thread, RETURNS.get().unwrap_or_else(|| me.mask.load(Ordering::Relaxed))),
            None => (Whose::Kernels, 0),
        };
        Told { whose, ran: false, told, left: told, kernels: 0 }
    }

    /// Runs the program's handler. All is blocked that can wait when this returns.
    ///
    /// # Safety
    /// `context` is what the kernel passed to the handler that the caller is.
    pub unsafe fn to<T>(&mut self, context: *mut c_void, handler: impl FnOnce() -> T) -> T {
        // SAFETY: what the kernel has passed to the handler that the caller is, by its promise.
        let place = unsafe { saved(context) };
        // SAFETY: the kernel's frame, which lies there as long as this handler runs.
        self.kernels = unsafe { place.read() };
        if self.whose == Whose::Kernels {
            self.told = self.kernels;
        } else {
            // SAFETY: the frame of this handler, from which the kernel reads the mask only when it returns.
            unsafe { place.write(self.told) };
        }
        let result = handler();
        self.ran = true;
        signals::block_movable();
        // SAFETY: the frame of this handler, which has not returned.
        self.left = unsafe { place.read() } & !signals::UNBLOCKABLE;
        if self.whose != Whose::Kernels {
            // SAFETY: the frame of this handler, which nobody else writes to now.
            unsafe { place.write(self.kernels) };
        } else if crate::thread::dedicated::is_here() {
            // SAFETY: the frame of this handler, which nobody else writes to any more.
            unsafe { place.write(self.left & !signals::kicks()) };
        }
        result
    }

    /// When what the handler has blocked counts no more, with all blocked that can wait, and before [`settle`].
    pub fn end(self) {
        let told = self.told & !signals::UNBLOCKABLE;
        // As in the kernel, a handler that ends a wait with another mask returns to what was blocked before.
        let ends_wait = self.ran && self.whose == Whose::Thread && RETURNS.get().is_some();
        if self.left == told && !ends_wait {
            return;
        }
        match (self.whose, Record::current()) {
            (Whose::Kernels, _) if crate::thread::exit::is_first() => first_changed(told, self.left),
            (Whose::Handler, _) => _ = handle(self.left),
            (Whose::Thread, Some(me)) => {
                if RETURNS.get().is_some() {
                    RETURNS.set(Some(self.left));
                }
                let before = me.mask.swap(self.left, Ordering::SeqCst);
                changed(before, self.left);
            }
            _ => {}
        }
    }
}

/// In the handler of a signal of ours, with all blocked that can wait: the mask to which it returns is up to date.
/// Nothing happens on kernel threads that are not the runtime's.
///
/// # Safety
/// `context` is what the kernel passed to the handler.
pub(super) unsafe fn apply(context: *mut c_void) {
    // SAFETY: the context of the handler that the caller is, which has blocked nothing more.
    unsafe { apply_with(context, 0) }
}

/// As [`apply`], with these blocked besides.
///
/// # Safety
/// As for [`apply`].
unsafe fn apply_with(context: *mut c_void, more: Set) {
    let Some(word) = raddle::drop_in::heard_by_this() else { return };
    let changes = CHANGES.load(Ordering::SeqCst);
    // SAFETY: the saved context of the handler that the caller is.
    unsafe { adapt(saved(context), HANDLING.get() | more) };
    word.fetch_max(changes, Ordering::SeqCst);
}

/// The last that a handler does: the mask to which it returns is up to date, and blocks `more`. All that can wait is
/// blocked from here on.
///
/// # Safety
/// `context` is what the kernel passed to the handler, which was not put off.
pub(super) unsafe fn settle(context: *mut c_void, more: Set) {
    signals::block_movable();
    // SAFETY: passed on; the saved context, from which the kernel also takes the alternate stack of the kernel thread
    // that returns.
    unsafe {
        apply_with(context, more);
        if MOVED.get() {
            (*context.cast::<c::ucontext_t>()).uc_stack = alternate::kernels();
        }
    }
}

/// The thread leaves the handler otherwise than by returning: the mask becomes what the return would have made it.
///
/// # Safety
/// As for [`settle`].
pub(crate) unsafe fn settle_now(context: *mut c_void) {
    handlers_are_left();
    // SAFETY: passed on; the saved context.
    unsafe {
        settle(context, 0);
        signals::set_kernel_mask(saved(context).read());
    }
}

/// Before a jump that may leave a handler, with what `sigsetjmp` saved: if it restores a mask, that one is up to date;
/// else the thread goes on to block what the handler blocked.
///
/// # Safety
/// `saved` is what the program jumps to.
pub(super) unsafe fn settle_jump(saved: *mut c_void) {
    let returns = RETURNS.get();
    let handled = handlers_are_left();
    let (me, ours) = (Record::current(), raddle::drop_in::is_kernel_thread_of_runtime());
    // SAFETY: passed on from the caller.
    let to = unsafe { super::jumps::read(saved) };
    let Some(mask) = to.kernels else {
        if handled != 0 {
            goes_on_blocking(handled);
        }
        return;
    };
    if me.is_none() && !ours {
        return;
    }
    let own = to.own.filter(|_| me.is_some());
    // Not while the runtime's signals are blocked, since that waits for others who may wait likewise.
    if let Some(own) = own {
        blocks_again(own);
    }
    // Until the jump restores its mask.
    signals::block_movable();
    if let Some(returns) = returns.filter(|_| own.is_none()) {
        // What was saved is the kernel thread's: this is from before the wait that is left.
        blocks_again(returns);
    }
    // SAFETY: the mask lies in the buffer that the program jumps by.
    unsafe {
        if ours {
            adapt(mask, 0);
        } else if let Some(own) = own {
            // It has become dedicated since.
            mask.write(own & !signals::kicks());
        }
    }
    signals::deliver_after();
}

/// The calling thread has left its handlers without a mask to restore: it goes on to block what they blocked.
fn goes_on_blocking(handled: Set) {
    match Record::current() {
        Some(me) if raddle::drop_in::is_kernel_thread_of_runtime() => {
            let before = me.mask.fetch_or(handled & signals::movable(), Ordering::SeqCst);
            changed(before, me.mask.load(Ordering::SeqCst));
            begin();
            signals::deliver_after();
        }
        _ if crate::thread::exit::is_first() => first_changed(FIRST.load(Ordering::SeqCst), signals::own_mask()),
        _ => {}
    }
}

/// While a handler runs: an exception that is thrown in it and passes by here leaves it, and all handlers below.
pub(super) struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        raddle::signal::left_by_a_jump();
        goes_on_blocking(handlers_are_left());
    }
}

/// # Safety
/// The caller may change the set.
unsafe fn adapt(set: *mut Set, handling: Set) {
    // SAFETY: the caller may change the set, so it may be read and written.
    unsafe { set.write(adapted(set.read(), handling)) };
}
