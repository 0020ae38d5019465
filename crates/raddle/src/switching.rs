//! Select, switch, finalize: the path that every thread takes off and onto a processor.
//!
//! A thread that leaves picks its successor and switches straight to it; only when there is none does it switch to its
//! activation's idle context. What must happen once it is safely off its stack is its *finalizer* ([`After`]), run by
//! whatever is resumed (Negele et al., section 3.2, figures 1 to 3). From the entry on one side to the end of the finalizer
//! on the other the activation is inside its mark.
//!
//! Preconditions of every switch, asserted in debug builds: inside the mark; the successor is off its stack (its token is in
//! hand); the predecessor's finalizer is the only one pending.

use crate::activation::Activation;
use crate::descriptor::{Descriptor, EXITED, FREE, Join, unpack_join, wake_joiner};
use crate::processor::{Owned, Processor, bump, bump_release};
use raddle_context::stack::Slot;
use raddle_context::switch::{current_fs, switch, switch_away};
use raddle_context::tls;
use raddle_machine::{Machine, Real};
use raddle_scheduler::{Cause, Epoch, Ready};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// What the resumed context does on behalf of the one that was just suspended: a kind in the low three bits and, for a wait,
/// its epoch above. One word, since it is stored and loaded at each switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct After(u64);

impl After {
    /// Nobody was suspended, or nothing is left to do.
    pub const NOTHING: Self = After(0);
    /// It offered its processor: it is ready again.
    const YIELD: Self = After(1);
    /// It ended: its stack is free, its joiner may run.
    const EXIT: Self = After(2);
    /// Its activation has lost the processor: the thread goes to the pool's shared queue.
    const SUBMIT: Self = After(3);
    const PARK: u64 = 4;
    /// It leaves its pool for the one that its descriptor names by now.
    const MOVE: Self = After(5);

    /// It waits: it is off its stack now.
    fn park(epoch: Epoch) -> Self {
        After(epoch.to_bits() << 3 | Self::PARK)
    }

    pub fn is_submit(self) -> bool {
        self == Self::SUBMIT
    }
}

thread_local! {
    /// The calling thread's descriptor; null on kernel threads that are not running one. It lies in the thread's own
    /// thread-local storage, so it stays right wherever the thread runs.
    static CURRENT: Cell<*const Descriptor> = const { Cell::new(std::ptr::null()) };
}

/// The running thread; `None` on a kernel thread that runs none.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Descriptor> {
    // SAFETY: set to a descriptor (type-stable memory) or null.
    unsafe { CURRENT.get().as_ref() }
}

/// Makes `thread`, or nobody, the running one for all who ask [`current`], and answers with who it was. For signal handlers.
pub(crate) fn show(thread: *const Descriptor) -> *const Descriptor {
    CURRENT.replace(thread)
}

/// Enters the owner-only region of the processor that runs `me`, which moves to another activation first if this one has
/// lost its processor.
#[inline(always)]
pub(crate) fn enter(me: &'static Descriptor) -> &'static Activation {
    loop {
        let activation = activation_of(me);
        debug_assert!(!activation.mark.is_inside(), "the runtime was entered from inside itself");
        if activation.processor().owner.enter(activation.id, &activation.mark) {
            return activation;
        }
        migrate(me, activation);
    }
}

/// As [`enter`]; `None` if the thread has gone apart: it has no processor, and keeps its kernel thread for what needs none.
#[inline(always)]
pub(crate) fn enter_unless_apart(me: &'static Descriptor) -> Option<&'static Activation> {
    (!activation_of(me).apart.load(Ordering::Relaxed)).then(|| enter(me))
}

/// The activation that runs `me`.
#[inline(always)]
pub(crate) fn activation_of(me: &'static Descriptor) -> &'static Activation {
    let activation = me.activation.load(Ordering::Relaxed);
    debug_assert!(!activation.is_null(), "a running thread has an activation");
    // SAFETY: `me` is the running thread, whose activation was set when it was resumed; activations are never freed.
    unsafe { &*activation }
}

/// The activation has lost its processor while the thread was outside the runtime (it was blocked, or computed while others
/// wanted what the processor held). Takes the processor back if it is free; otherwise the thread goes on elsewhere.
#[cold]
#[inline(never)]
fn migrate(me: &'static Descriptor, activation: &'static Activation) {
    // Here every way back ends.
    activation.apart.store(false, Ordering::Relaxed);
    let processor = activation.processor();
    if processor.is_active() && processor.owner.adopt(activation.id, &activation.mark) {
        // It may have been retired between the look and the adoption: then the monitor is through with it.
        if processor.is_active() {
            activation.leave();
            return;
        }
        processor.owner.release(activation.id, &activation.mark);
    }
    activation.previous.set(me);
    activation.after.set(After::SUBMIT);
    // SAFETY: the running thread switches to its activation's idle context, which is suspended (it is only resumed by the
    // threads of this activation, one at a time). The finalizer submits `me` after it is off its stack.
    unsafe {
        tls::move_malloc_words(current_fs(), activation.fs.get());
        let by = switch(me.context.get(), activation.idle.get(), std::ptr::from_ref(activation) as usize);
        resumed(by);
    }
    // Whoever interrupted it meanwhile found it on no kernel thread, and it may compute for ever from here. (A wait that is about to begin ends.)
    if me.thread.is_interrupted() && !me.thread.is_in_wait() {
        // It is in the middle of something.
        crate::drop_in::interrupted(me, false);
    }
}

/// First thing after a switch returns: finish what the predecessor left, and leave the mark.
#[inline(always)]
unsafe fn resumed(by: usize) {
    // SAFETY: `by` is the address of the activation that resumed this thread, inside its mark.
    unsafe {
        let activation = &*(by as *const Activation);
        finalize(activation);
        activation.leave();
    }
}

/// Offers the processor to threads of the same or a higher priority. True if another one ran.
#[inline]
pub(crate) fn yield_now(me: &'static Descriptor) -> bool {
    let activation = enter(me);
    // SAFETY: inside the mark.
    unsafe { yield_inside(activation, me) }
}

/// Looks for events if nobody has lately, and yields. True if another thread ran.
pub(crate) fn take_turns(me: &'static Descriptor) -> bool {
    let activation = enter(me);
    // SAFETY: inside the mark of the owner; the reference ends with the statement.
    crate::io::look_in_turn(activation, unsafe { activation.processor().owned() });
    // SAFETY: inside the mark.
    unsafe { yield_inside(activation, me) }
}

/// As [`yield_now`], unless others are idle and the yield would wake one of them for the yielding thread's sake: then nothing
/// happens.
#[inline]
pub(crate) fn yield_in_silence(me: &'static Descriptor) -> bool {
    let activation = enter(me);
    let processor = activation.processor();
    if processor.pool.idle.hungry() {
        // SAFETY: inside the mark of the owner; the reference ends with the block.
        let owned = unsafe { processor.owned() };
        let quiet = owned.queue.is_default() && owned.handoff.bears(owned.queue.hidden().0 + 1);
        if !quiet {
            activation.leave();
            return false;
        }
    }
    // SAFETY: inside the mark.
    unsafe { yield_inside(activation, me) }
}

/// Yields, and leaves the mark.
///
/// # Safety
/// Inside the mark of the processor's owner, which runs `me`.
#[inline(always)]
unsafe fn yield_inside(activation: &'static Activation, me: &'static Descriptor) -> bool {
    let processor = activation.processor();
    // SAFETY: inside the mark of the owner; the reference ends with the statement.
    let owned = unsafe { processor.owned() };
    let floor = me.thread.priority_now();
    match owned.queue.next(floor) {
        // SAFETY: inside the mark, `next` is a token.
        Some(next) => unsafe {
            owned.handoff.leaves();
            leave_to(activation, me, next, After::YIELD);
            true
        },
        None => {
            owned.handoff.alone();
            crate::time::fire_due(activation, owned);
            if owned.relief.alone() {
                crate::relief::look(processor, owned);
            }
            activation.leave();
            // A half that waits on this thread's stack is ready work too.
            crate::forkjoin::offer_to_yield() && yield_now(me)
        }
    }
}

/// A thread of a higher priority waits for this processor.
#[cold]
pub(crate) fn preempted(me: &'static Descriptor) {
    activation_of(me).processor().preempt.store(false, Ordering::Relaxed);
    yield_now(me);
}

/// Leaves the processor until `me`'s wait `epoch` is claimed.
#[inline(always)]
pub(crate) fn park(me: &'static Descriptor, epoch: Epoch, deadline: Option<u64>) {
    crate::forkjoin::about_to_block();
    let activation = enter(me);
    let processor = activation.processor();
    // SAFETY: inside the mark of the owner; the reference ends before the switch.
    let owned = unsafe { processor.owned() };
    if let Some(time) = deadline {
        owned.timers.add(time, &me.thread, epoch);
    }
    match select(processor, owned) {
        // SAFETY: inside the mark, `next` is a token.
        Some(next) => unsafe { leave_to(activation, me, next, After::park(epoch)) },
        // SAFETY: inside the mark.
        None => unsafe { leave_to_idle(activation, me, After::park(epoch)) },
    }
}

/// Leaves the processor, and the pool, for `pool`, which counts `me` by now.
pub(crate) fn move_to(me: &'static Descriptor, pool: &'static crate::pool::Shared) {
    crate::forkjoin::about_to_block();
    let activation = enter(me);
    let processor = activation.processor();
    me.set_tag(crate::pool::tag(pool, crate::pool::class_of(me)));
    // SAFETY: inside the mark of the owner; the reference ends before the switch.
    let owned = unsafe { processor.owned() };
    match select(processor, owned) {
        // SAFETY: inside the mark, `next` is a token.
        Some(next) => unsafe { leave_to(activation, me, next, After::MOVE) },
        // SAFETY: inside the mark.
        None => unsafe { leave_to_idle(activation, me, After::MOVE) },
    }
}

/// The next thread of a processor whose running one leaves without coming back to the queue. When others are hungry, what is
/// left is shared with them, unless it is worth no wake-up ([`crate::handoff`]); a yield does that with its push.
#[inline(always)]
fn select(processor: &'static Processor, owned: &mut Owned) -> Option<Ready<Real>> {
    owned.handoff.leaves();
    let next = owned.queue.next(crate::activation::LOWEST);
    if processor.pool.idle.hungry() {
        let (hidden, unstarted) = owned.queue.hidden();
        if hidden == 0 {
            owned.handoff.alone();
        }
        if unstarted || !owned.handoff.bears(hidden) {
            share(processor, owned);
        }
    }
    next
}

#[cold]
#[inline(never)]
fn share(processor: &'static Processor, owned: &mut Owned) {
    owned.handoff.alone();
    processor.pool.notify(owned.queue.share());
}

/// What a processor does once in a while: timers, events, and a sample of how long the thread that `yields` will wait.
#[cold]
#[inline(never)]
fn housekeeping(activation: &'static Activation, yields: Option<&'static Descriptor>) {
    if let Some(thread) = yields {
        crate::delays::follow(activation.processor(), thread);
    }
    // SAFETY: called on the way to a switch, inside the mark of the owner; the reference ends with the function.
    let owned = unsafe { activation.processor().owned() };
    crate::time::fire_due(activation, owned);
    crate::io::look(activation, owned, true);
    if owned.relief.round() {
        crate::relief::look(activation.processor(), owned);
    }
}

/// A switch in so many looks at the timers, and for events. A power of two.
const HOUSEKEEPING: u64 = 64;

/// Suspends `me` and continues `next`. Returns when `me` is resumed, outside the mark.
///
/// # Safety
/// Inside the mark of the processor's owner, which runs `me`.
#[inline(always)]
unsafe fn leave_to(activation: &'static Activation, me: &'static Descriptor, next: Ready<Real>, after: After) {
    let processor = activation.processor();
    let next = Descriptor::from_thread(next.into_thread());
    if is_unusual(next) {
        attend(processor, next);
    }
    let yields = (after == After::YIELD).then_some(me);
    installed(activation, processor, next, yields);
    activation.previous.set(me);
    activation.after.set(after);
    // SAFETY: `next` is off its stack and nobody else resumes it (its token was consumed); `me` is published only by the
    // finalizer; both contexts differ, since the token of a running thread does not exist.
    unsafe {
        tls::move_malloc_words(current_fs(), (*next.context.get()).fs());
        let by = switch(me.context.get(), next.context.get(), std::ptr::from_ref(activation) as usize);
        resumed(by);
    }
}

/// Suspends `me` and continues the activation's idle context.
///
/// # Safety
/// As for [`leave_to`].
#[inline(never)]
unsafe fn leave_to_idle(activation: &'static Activation, me: &'static Descriptor, after: After) {
    activation.previous.set(me);
    activation.after.set(after);
    // SAFETY: the idle context is suspended while a thread runs here; the rest as in `leave_to`.
    unsafe {
        tls::move_malloc_words(current_fs(), activation.fs.get());
        let by = switch(me.context.get(), activation.idle.get(), std::ptr::from_ref(activation) as usize);
        resumed(by);
    }
}

/// From the idle context: continues `next`. Returns when a thread of this activation switched back; its finalizer is pending.
///
/// # Safety
/// On the activation's idle context, inside the mark.
pub(crate) unsafe fn resume(activation: &'static Activation, next: Ready<Real>) {
    let processor = activation.processor();
    let next = Descriptor::from_thread(next.into_thread());
    if is_unusual(next) {
        attend(processor, next);
    }
    installed(activation, processor, next, None);
    activation.after.set(After::NOTHING);
    // SAFETY: as in `leave_to`; the idle context is saved here and resumed by whichever thread finds nothing to run.
    unsafe {
        tls::move_malloc_words(activation.fs.get(), (*next.context.get()).fs());
        switch(activation.idle.get(), next.context.get(), std::ptr::from_ref(activation) as usize);
    }
    activation.current.store(std::ptr::null_mut(), Ordering::Relaxed);
}

#[inline(always)]
fn installed(
    activation: &'static Activation,
    processor: &'static Processor,
    next: &'static Descriptor,
    yields: Option<&'static Descriptor>,
) {
    let pointer = std::ptr::from_ref(activation).cast_mut();
    next.activation.store(pointer, Ordering::Relaxed);
    activation.current.store(std::ptr::from_ref(next).cast_mut(), Ordering::Relaxed);
    processor.running.store(next.thread.priority_now(), Ordering::Relaxed);
    if bump(&processor.counters.switches).is_multiple_of(HOUSEKEEPING) {
        housekeeping(activation, yields);
    }
    // Where many wait, their descriptors and stacks have left the caches: fetch them ahead.
    // SAFETY: inside the mark of the owner; the reference ends with the statement.
    let queue = unsafe { &processor.owned().queue };
    if let Some(far) = queue.upcoming(FETCH_DESCRIPTOR) {
        Real::prefetch(far);
        if let Some(near) = queue.upcoming(FETCH_STACK) {
            // SAFETY: a token's word is the address of a type-stable descriptor; the context, made of
            // atomics, is read, perhaps stale, as an address to prefetch only.
            let context = unsafe { &*(*std::ptr::with_exposed_provenance::<Descriptor>(near)).context.get() };
            Real::prefetch(context.sp().addr());
            Real::prefetch(context.sp().addr() + 64);
            Real::prefetch(context.fs());
        }
    }
}

/// How many selections ahead descriptors and stacks are fetched; nothing is, while fewer threads wait near.
const FETCH_DESCRIPTOR: u32 = 24;
const FETCH_STACK: u32 = 6;

/// Brings a parked thread closer that is about to be made ready: its descriptor, or (`deep`, when that is near) its stack and storage.
/// Hints only: the thread may be running by now.
pub(crate) fn approach(thread: &'static raddle_scheduler::Thread<Real>, deep: bool) {
    if thread.is_kernel_thread() {
        return;
    }
    let descriptor = Descriptor::of(thread);
    if !deep {
        let start = std::ptr::from_ref(descriptor).addr();
        Real::prefetch(start);
        return Real::prefetch(start + 64);
    }
    // SAFETY: a type-stable descriptor; the context, made of atomics, is read, perhaps stale, as addresses to prefetch only.
    let context = unsafe { &*descriptor.context.get() };
    (0..STACK_LINES).for_each(|line| Real::prefetch(context.sp().addr() + 64 * line));
    crate::pool::tls().approach(context.fs());
}

/// Cache lines of a thread that waits for a descriptor, from its stack pointer up: what it touches on its way back to its own code. Read off a
/// call of `read` under the drop-in library.
const STACK_LINES: usize = 14;

/// True for a thread that has not started, or is followed (see [`crate::delays`]): its top bit is set.
#[inline(always)]
fn is_unusual(next: &Descriptor) -> bool {
    next.slot.get() as isize <= 0
}

#[cold]
fn attend(processor: &'static Processor, next: &'static Descriptor) {
    if crate::delays::is_marked(next) {
        crate::delays::arrived(processor, next);
    }
    if next.slot.get() == 0 {
        materialise(processor, next);
    }
}

/// Gives a thread that starts its stack, thread-local storage and first context. Never fails: the right to a slot was
/// reserved when it was spawned.
#[cold]
fn materialise(processor: &'static Processor, next: &'static Descriptor) {
    let arena = crate::pool::arena_of(next);
    // SAFETY: inside the mark of the owner (all callers are); the reference ends with the block.
    let owned = unsafe { processor.owned() };
    let slot = match owned.kept.of(crate::pool::class_of(next)).take_stack(arena) {
        Some(slot) => {
            // SAFETY: the former thread is gone (its finalizer kept the slot), the block was prepared by the arena.
            unsafe { crate::pool::tls().renew(slot.fs()) };
            slot
        }
        None => arena.take(),
    };
    // SAFETY: the slot is exclusively ours; `thread_entry` never returns and lets no panic out.
    unsafe { (*next.context.get()).prepare(slot.top(), slot.fs(), thread_entry) };
    next.slot.set(slot.into_raw());
}

/// Does what the suspended context asked for.
///
/// # Safety
/// Called by the context that was just resumed on `activation`, inside the mark (for `Submit`: outside, nothing owner-only).
#[inline(always)]
pub(crate) unsafe fn finalize(activation: &'static Activation) {
    let after = activation.after.get();
    if after == After::NOTHING {
        return;
    }
    // SAFETY: set with `after` by whoever was suspended; descriptors are type-stable.
    let previous: &'static Descriptor = unsafe { &*activation.previous.get() };
    let thread = NonNull::from(&previous.thread);
    if after == After::YIELD {
        previous.activation.store(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: the thread was suspended off its stack just now and nobody else has its token.
        unsafe {
            let processor = activation.processor();
            crate::handoff::yielded(processor, processor.owned(), Ready::new(thread));
        }
    } else if after.0 & 7 == After::PARK {
        previous.activation.store(std::ptr::null_mut(), Ordering::Relaxed);
        if previous.thread.finish_park(Epoch::from_bits(after.0 >> 3)).is_err() {
            let processor = activation.processor();
            // SAFETY: inside the mark of the owner; claimed while arming: the claimant left the push to this finalizer (thread I2).
            unsafe { crate::handoff::woken(activation, processor, processor.owned(), Ready::new(thread)) };
        }
    } else if after == After::EXIT {
        // SAFETY: inside the mark; `previous` is off its stack for ever.
        unsafe { exited(activation, previous) };
    } else {
        previous.activation.store(std::ptr::null_mut(), Ordering::Relaxed);
        if after == After::MOVE {
            // The other pool has counted it already, so that neither is taken for empty meanwhile.
            bump_release(&activation.processor().counters.moved);
        }
        // SAFETY: as for a yield.
        crate::pool::submit(unsafe { Ready::new(thread) });
    }
}

/// Puts a ready thread into this processor's queue and wakes whoever should know. Inside the mark of the owner.
#[inline(always)]
pub(crate) fn push_owned(processor: &'static Processor, owned: &mut Owned, ready: Ready<Real>, cause: Cause) {
    let pool = processor.pool;
    let priority = if pool.priorities > 1 { Some(ready.priority()) } else { None };
    let notify = owned.queue.push(ready, cause, || pool.idle.hungry());
    pool.notify(notify);
    if let Some(priority) = priority {
        pool.outrank(priority);
    }
}

/// A thread has ended and is off its stack (or has handed its stack on): the stack is kept for the next one, the joiner runs.
///
/// # Safety
/// Inside the mark of the owner; nobody runs on the stack any more.
unsafe fn exited(activation: &'static Activation, ended: &'static Descriptor) {
    let processor = activation.processor();
    let raw = ended.slot.replace(0);
    if raw != 0 {
        // SAFETY: the word came from `into_raw` when the thread started and is given back once.
        let slot = unsafe { Slot::from_raw(raw) };
        // SAFETY: inside the mark of the owner; the reference ends with the statement.
        unsafe { processor.owned() }.kept.of(crate::pool::class_of(ended)).keep_stack(slot);
    }
    crate::thread::give_right(processor, ended);
    bump_release(&processor.counters.exited);
    ended.activation.store(std::ptr::null_mut(), Ordering::Relaxed);
    let info = ended.info.replace(std::ptr::null_mut());
    if !info.is_null() {
        // SAFETY: made by `Box::into_raw` at the spawn; the thread has ended, so nobody reads it any more.
        drop(unsafe { Box::from_raw(info) });
    }
    // Point of no return: with the exchange a joiner may free the descriptor.
    match unpack_join(ended.join.swap(EXITED, Ordering::AcqRel)) {
        Join::Running | Join::Exited => {}
        Join::Waiting(joiner, epoch) => wake_joiner(joiner, epoch, |thread| {
            // SAFETY: inside the mark of the owner.
            unsafe { crate::host::ready_inside(activation, thread) }
        }),
        // SAFETY: inside the mark of the owner; nobody joins a detached thread, so the descriptor is ours.
        Join::Detached => unsafe {
            ended.set_tag(FREE);
            processor.owned().descriptors.free(NonNull::from(ended));
        },
    }
}

/// Where a thread's stack begins: runs threads one after the other, as long as the next one to run has not started either
/// and can use the same stack.
unsafe extern "C" fn thread_entry(by: usize) -> ! {
    // SAFETY: the argument of the switch is the activation, inside its mark.
    let activation: &'static Activation = unsafe { &*(by as *const Activation) };
    let mut me: &'static Descriptor = {
        // SAFETY: `installed` stored the thread that was switched to.
        unsafe { &*activation.current.load(Ordering::Relaxed) }
    };
    CURRENT.set(me);
    // SAFETY: just resumed (for the first time) by `activation`.
    unsafe { resumed(by) };
    loop {
        // SAFETY: the thread's own block, before any code of its program; outside the mark, since the loader may be asked.
        if unsafe { crate::pool::tls().begin(current_fs()) } {
            // Where this library itself was loaded at run time, its variable is as new.
            CURRENT.with(|current| std::hint::black_box(current).set(me));
        }
        // SAFETY: the closure was put into the descriptor by the spawn and is run once.
        unsafe { me.run.get()(me) };
        // SAFETY: on the thread itself, which runs no user code after this.
        unsafe { crate::pool::tls().run_destructors() };
        // SAFETY: nothing on this stack is used again unless `last` hands it on.
        me = unsafe { last(me) };
    }
}

/// The end of a thread: hands its stack to the next thread if that has not started, and returns it; otherwise leaves.
///
/// # Safety
/// `me` is the running thread and runs no user code any more.
unsafe fn last(me: &'static Descriptor) -> &'static Descriptor {
    let activation = enter(me);
    let processor = activation.processor();
    // SAFETY: inside the mark of the owner; the reference ends with the statement.
    let owned = unsafe { processor.owned() };
    let Some(next) = select(processor, owned) else {
        activation.previous.set(me);
        activation.after.set(After::EXIT);
        // SAFETY: inside the mark; the finalizer frees the stack once it is off it.
        unsafe {
            tls::move_malloc_words(current_fs(), activation.fs.get());
            switch_away(activation.idle.get(), std::ptr::from_ref(activation) as usize)
        }
    };
    let next = Descriptor::from_thread(next.into_thread());
    if crate::delays::is_marked(next) {
        crate::delays::arrived(processor, next);
    }
    if next.slot.get() != 0 || crate::pool::class_of(next) != crate::pool::class_of(me) {
        if next.slot.get() == 0 {
            materialise(processor, next);
        }
        installed(activation, processor, next, None);
        activation.previous.set(me);
        activation.after.set(After::EXIT);
        // SAFETY: as above; `next` is off its stack and its token was consumed.
        unsafe {
            tls::move_malloc_words(current_fs(), (*next.context.get()).fs());
            switch_away(next.context.get(), std::ptr::from_ref(activation) as usize)
        }
    }
    // The stack goes on with the next thread, without a switch.
    next.slot.set(me.slot.replace(0));
    installed(activation, processor, next, None);
    // SAFETY: inside the mark; `me` has handed its stack on.
    unsafe { exited(activation, me) };
    // SAFETY: the storage of the ended thread, whose destructors have run; nothing of it is referenced.
    unsafe { crate::pool::tls().renew(current_fs()) };
    raddle_context::switch::reset_modes();
    // The copy above wrote the variable behind the compiler's back.
    CURRENT.with(|current| std::hint::black_box(current).set(next));
    activation.leave();
    next
}
