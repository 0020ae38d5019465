//! Select, switch, finalize: the path that every thread takes off and onto a processor.
//!
//! A thread that leaves picks its successor and switches straight to it; only when there is none does it switch to its
//! activation's idle context. What must happen once it is safely off its stack is its *finalizer* ([`After`]), run by
//! whatever is resumed (Negele et al., section 3.2, figures 1 to 3). From the entry on one side to the end of the
//! finalizer on the other the activation is inside its mark.
//!
//! The right to all this is an [`Inside`], which a switch consumes and the resumed side makes anew; it asserts the
//! preconditions of every switch in debug builds ([`crate::carry::witness`]).

use crate::carry::activation::Activation;
use crate::carry::descriptor::{Descriptor, FREE};
use crate::carry::first_stack::materialise;
use crate::carry::processor::{bump, bump_release};
use crate::carry::traced::{self, Waker};
use crate::carry::witness::{Inside, Lent, Successor};
use crate::lanes::Kind;
use raddle_context::stack::Slot;
use raddle_context::switch::{current_fs, switch};
use raddle_context::tls;
use raddle_machine::{Machine, Real};
use raddle_scheduler::join::Ended;
use raddle_scheduler::{Epoch, Local, Ready};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// What the resumed context does on behalf of the one that was just suspended: a kind in the low three bits and, for a
/// wait, its epoch above. One word, since it is stored and loaded at each switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct After(u64);

impl After {
    /// Nobody was suspended, or nothing is left to do.
    pub const NOTHING: Self = After(0);
    /// It offered its processor: it is ready again.
    pub const YIELD: Self = After(1);
    /// It ended: its stack is free, its joiner may run.
    pub const EXIT: Self = After(2);
    /// Its activation has lost the processor: the thread goes to the pool's shared queue.
    const SUBMIT: Self = After(3);
    const PARK: u64 = 4;
    /// It leaves its pool for the one that its descriptor names by now.
    const MOVE: Self = After(5);

    /// It offered its processor until threads have started that it spawned.
    const STEP_BACK: Self = After(7);

    /// Its token is out already ([`crate::carry::turns`]). No epoch, so a number above three bits is free.
    const LEFT: Self = After(Self::MOVE.0 | 8);

    /// It ended on a kernel thread of its own ([`crate::carry::dedicated`]), which ends with it.
    const END: Self = After(6);

    /// It waits: it is off its stack now.
    fn park(epoch: Epoch) -> Self {
        After(epoch.to_bits() << 3 | Self::PARK)
    }

    /// Why the thread leaves, for a trace: asked on the thread.
    pub fn reason(self) -> &'static str {
        match self {
            After::NOTHING => "",
            After::YIELD | After::STEP_BACK | After::SUBMIT | After::LEFT => traced::GIVES_WAY,
            After::EXIT | After::END => traced::ENDED,
            After::MOVE => traced::MOVES,
            _ => crate::carry::note::own_wait(),
        }
    }

    pub fn is_submit(self) -> bool {
        self == Self::SUBMIT
    }

    /// The activation has none.
    pub fn is_without_processor(self) -> bool {
        self == Self::SUBMIT || self == Self::END
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

/// Makes `thread`, or nobody, the running one for all who ask [`current`], and answers with who it was. For signal
/// handlers.
pub(crate) fn show(thread: *const Descriptor) -> *const Descriptor {
    CURRENT.replace(thread)
}

/// Enters the owner-only region of the processor that runs `me`, which moves to another activation first if this one
/// has lost its processor.
#[inline(always)]
pub(crate) fn enter(me: &'static Descriptor) -> Inside {
    loop {
        let activation = activation_of(me);
        if let Some(inside) = Inside::enter(activation) {
            return inside;
        }
        migrate(me, activation);
    }
}

/// As [`enter`]; `None` if the thread is inside the runtime already, or has gone apart: it has no processor, and keeps
/// its kernel thread for what needs none.
#[inline(always)]
pub(crate) fn enter_from_outside(me: &'static Descriptor) -> Option<Inside> {
    // SAFETY: activations are never freed. Null for an instant at a thread's end: its stack is the runtime's then.
    let activation: &'static Activation = unsafe { me.activation.get().as_ref()? };
    if activation.mark.is_inside() || activation.apart.load(Ordering::Relaxed) {
        return None;
    }
    Inside::enter(activation).or_else(|| Some(enter_elsewhere(me, activation)))
}

/// As [`enter`], of a thread whose activation has lost its processor.
#[cold]
#[inline(never)]
fn enter_elsewhere(me: &'static Descriptor, activation: &'static Activation) -> Inside {
    migrate(me, activation);
    enter(me)
}

/// The activation that runs `me`.
#[inline(always)]
pub(crate) fn activation_of(me: &'static Descriptor) -> &'static Activation {
    let activation = me.activation.get();
    debug_assert!(!activation.is_null(), "a running thread has an activation");
    // SAFETY: `me` is the running thread, whose activation was set when it was resumed; activations are never freed.
    unsafe { &*activation }
}

/// The activation has lost its processor while the thread was outside the runtime (it was blocked, or computed while
/// others wanted what the processor held). Takes the processor back if it is free; otherwise the thread goes on
/// elsewhere.
#[cold]
#[inline(never)]
fn migrate(me: &'static Descriptor, activation: &'static Activation) {
    if activation.dedicated.load(Ordering::Relaxed) {
        // It would take along what it alone is to have, or leave it to whoever comes.
        crate::os::or_abort(|| "a dedicated thread entered the runtime".into(), || panic!());
    }
    // Here every way back ends.
    activation.apart.store(false, Ordering::Relaxed);
    if crate::carry::turns::settle(activation, me) {
        return;
    }
    if let Some(inside) = Inside::come_back(activation) {
        traced::back_on(inside.processor(), me);
        return inside.leave();
    }
    crate::carry::clocks::account(activation);
    traced::outside(Kind::Back, me);
    activation.previous.set(me);
    activation.after.set(After::SUBMIT);
    // SAFETY: the running thread switches to its activation's idle context, which is suspended (it is only resumed by
    // the threads of this activation, one at a time). The finalizer submits `me` after it is off its stack.
    unsafe {
        tls::move_malloc_words(current_fs(), activation.fs.get());
        let by = switch(me.context.get(), activation.idle.get(), std::ptr::from_ref(activation) as usize);
        resumed(&*(by as *const Activation));
    }
    heed_interruption(me);
}

/// A thread whose token is out already leaves the processor to the others. Returns when that token was selected.
pub(crate) fn leave_with_token_out(inside: Inside, me: &'static Descriptor) {
    leave_to_idle(inside, me, After::LEFT);
    heed_interruption(me);
}

/// Whoever interrupted `me` while it changed over found it on no kernel thread, and it may compute for ever from here.
/// (A wait that is about to begin ends.)
fn heed_interruption(me: &'static Descriptor) {
    if me.goes_on_interrupted() && !me.thread.is_in_wait() {
        // It is in the middle of something.
        crate::carry::above::interrupted(me, false);
    }
}

/// First thing after a switch returns: finish what the predecessor left, and leave the mark.
///
/// # Safety
/// The calling thread was resumed on `activation` just now.
#[inline(always)]
unsafe fn resumed(activation: &'static Activation) {
    // SAFETY: as promised; whoever switched here was inside, and left the rest to this side.
    let mut inside = unsafe { Inside::resumed(activation) };
    finalize(inside.lend());
    inside.leave();
}

/// Offers the processor to threads of the same or a higher priority. True if another one ran.
#[inline]
pub(crate) fn yield_now(me: &'static Descriptor) -> bool {
    yield_inside(enter(me), me)
}

/// Looks for events if nobody has lately, and yields. True if another thread ran.
pub(crate) fn take_turns(me: &'static Descriptor) -> bool {
    let mut inside = enter(me);
    crate::carry::events::watch::poll_in_turn(inside.lend());
    yield_inside(inside, me)
}

/// As [`yield_now`], unless others are idle and the yield would wake one of them for the yielding thread's sake: then
/// nothing happens.
#[inline]
pub(crate) fn yield_in_silence(me: &'static Descriptor) -> bool {
    let mut inside = enter(me);
    let pool = inside.processor().pool;
    if inside.owned().dispatcher.yields_in_silence(pool) {
        return yield_inside(inside, me);
    }
    inside.leave();
    false
}

/// Yields, and leaves the mark.
#[inline(always)]
pub(super) fn yield_inside(mut inside: Inside, me: &'static Descriptor) -> bool {
    let floor = me.thread.priority_now();
    match inside.owned().dispatcher.offer(floor) {
        Some(next) => {
            leave_to(inside, me, next, After::YIELD);
            true
        }
        None => {
            crate::carry::duties::alone(inside.lend());
            if inside.processor().pool.wanders {
                leave_to_idle(inside, me, After::YIELD);
                return true;
            }
            inside.leave();
            // A half that waits on this thread's stack is ready work too.
            crate::carry::duties::alone_outside() && yield_now(me)
        }
    }
}

/// Offers the processor to the threads that `me` has spawned, since there are many.
#[cold]
#[inline(never)]
pub(crate) fn step_back(me: &'static Descriptor) {
    // One that waits already is on its way to leave anyway.
    if !me.thread.is_in_wait() {
        let mut inside = enter(me);
        if let Some(next) = inside.owned().dispatcher.offer(me.thread.priority_now()) {
            return leave_to(inside, me, next, After::STEP_BACK);
        }
        inside.leave();
    }
    yield_now(me);
}

/// Leaves the processor until `me`'s wait `epoch` is claimed.
#[inline(always)]
pub(crate) fn park(me: &'static Descriptor, epoch: Epoch, deadline: Option<u64>) {
    crate::carry::duties::before_block();
    let mut inside = enter(me);
    if let Some(time) = deadline {
        inside.owned().timers.add(time, &me.thread, epoch);
    }
    match select(inside.lend()) {
        Some(next) => leave_to(inside, me, next, After::park(epoch)),
        None => leave_to_idle(inside, me, After::park(epoch)),
    }
}

/// Leaves the processor, and the pool, for `pool`, which counts `me` by now.
pub(crate) fn move_to(me: &'static Descriptor, pool: &'static crate::carry::pool::Shared) {
    crate::carry::duties::before_block();
    let mut inside = enter(me);
    me.set_tag(crate::carry::pool::tag(pool, crate::carry::pool::class_of(me)));
    match select(inside.lend()) {
        Some(next) => leave_to(inside, me, next, After::MOVE),
        None => leave_to_idle(inside, me, After::MOVE),
    }
}

/// The next thread of a processor whose running one leaves without coming back to the queue.
#[inline(always)]
fn select(mut inside: Lent<'_>) -> Option<Ready<Real>> {
    let pool = inside.processor.pool;
    inside.owned().dispatcher.select(pool)
}

/// Suspends `me`, which runs here, and continues `next`. Returns when `me` is resumed, outside the mark.
#[inline(always)]
fn leave_to(mut inside: Inside, me: &'static Descriptor, next: Ready<Real>, after: After) {
    let next = Descriptor::from_thread(next.into_thread());
    if is_unusual(next) {
        if crate::carry::turns::is_held(next) {
            inside.owned().held = Some(next);
            return leave_to_idle(inside, me, after);
        }
        attend(inside.lend(), next);
    }
    installed(inside.lend(), next, after);
    // SAFETY: `me` runs; `next` is off its stack and nobody else resumes it (its token was consumed).
    unsafe { resumed(inside.switch_to(me, Successor::Thread(next), after)) };
}

/// Suspends `me`, which runs here, and continues the activation's idle context.
#[inline(never)]
fn leave_to_idle(inside: Inside, me: &'static Descriptor, after: After) {
    if crate::pace::sees_all() {
        traced::stopped(inside.processor(), after.reason());
        crate::carry::clocks::account(inside.activation());
    }
    // SAFETY: `me` runs; the idle context is suspended while a thread runs here, and resumed by threads of this
    // activation only.
    unsafe { resumed(inside.switch_to(me, Successor::Idle, after)) };
}

/// From the idle context: continues `next`. Returns when a thread of this activation switched back; its finalizer is
/// pending.
///
/// # Safety
/// On the activation's idle context.
pub(crate) unsafe fn resume(mut inside: Inside, next: Ready<Real>) {
    let activation = inside.activation();
    let next = Descriptor::from_thread(next.into_thread());
    if is_unusual(next) {
        attend(inside.lend(), next);
    }
    installed(inside.lend(), next, After::NOTHING);
    // SAFETY: as promised; `next` is off its stack and nobody else resumes it (its token was consumed).
    unsafe { inside.resume(Successor::Thread(next)) };
    activation.current.store(std::ptr::null_mut(), Ordering::Relaxed);
}

/// `next` is the one that runs on the activation from here on.
#[inline(always)]
pub(crate) fn named(inside: Lent<'_>, next: &'static Descriptor) {
    let (activation, processor) = (inside.activation, inside.processor);
    debug_assert!(next.activation.get().is_null(), "the successor is on its stack");
    let pointer = std::ptr::from_ref(activation).cast_mut();
    next.activation.install(pointer);
    activation.current.store(std::ptr::from_ref(next).cast_mut(), Ordering::Relaxed);
    processor.running.store(next.thread.priority_now(), Ordering::Relaxed);
}

/// As [`named`], with what is done at each change of threads, or now and then.
#[inline(always)]
pub(crate) fn counted(mut inside: Lent<'_>, next: &'static Descriptor, after: After) {
    named(inside.lend(), next);
    let switches = bump(&inside.processor.counters.switches);
    if crate::pace::is_time_for_switch(switches) {
        crate::carry::duties::each_round(inside, next, after, switches);
    }
}

/// As [`counted`], with what is done at each switch.
#[inline(always)]
pub(crate) fn installed(mut inside: Lent<'_>, next: &'static Descriptor, after: After) {
    counted(inside.lend(), next, after);
    // Where many wait, their descriptors and stacks have left the caches: fetch them ahead.
    let queue = inside.get().dispatcher.local();
    if let Some(far) = queue.upcoming(FETCH_DESCRIPTOR) {
        Real::prefetch(far.address());
        if let Some(near) = queue.upcoming(FETCH_STACK) {
            // SAFETY: the address of a thread's record, made of a token, which is that of a type-stable descriptor; the
            // context, made of atomics, is read, perhaps stale, as an address to prefetch only.
            let context = unsafe { &*(*std::ptr::with_exposed_provenance::<Descriptor>(near.address())).context.get() };
            Real::prefetch(context.sp().addr());
            Real::prefetch(context.sp().addr() + 64);
            Real::prefetch(context.fs());
        }
    }
}

/// How many selections ahead descriptors and stacks are fetched; nothing is, while fewer threads wait near.
const FETCH_DESCRIPTOR: u32 = 24;
const FETCH_STACK: u32 = 6;

/// Brings a parked thread closer that is about to be made ready: its descriptor, or (`deep`, when that is near) its
/// stack and storage. Hints only: the thread may be running by now.
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
    // SAFETY: a type-stable descriptor; the context, made of atomics, is read, perhaps stale, as addresses to prefetch
    // only.
    let context = unsafe { &*descriptor.context.get() };
    (0..STACK_LINES).for_each(|line| Real::prefetch(context.sp().addr() + 64 * line));
    crate::carry::pool::tls().approach(context.fs());
}

/// Cache lines of a thread that waits for a descriptor, from its stack pointer up: what it touches on its way back to
/// its own code. Read off a call of `read` under the drop-in library.
const STACK_LINES: usize = 14;

/// True for a thread that has not started, or is followed (see [`crate::carry::delays`]): its top bit is set.
#[inline(always)]
pub(crate) fn is_unusual(next: &Descriptor) -> bool {
    next.slot.get() as isize <= 0
}

#[cold]
fn attend(inside: Lent<'_>, next: &'static Descriptor) {
    if crate::carry::delays::is_marked(next) {
        crate::carry::delays::arrived(inside.processor, next);
    }
    if next.slot.get() == 0 {
        materialise(inside, next);
    }
}

/// Does what the context asked for that was suspended in favour of the calling one, which was resumed just now.
#[inline(always)]
pub(crate) fn finalize(mut inside: Lent<'_>) {
    let activation = inside.activation;
    let after = activation.after.get();
    if after == After::NOTHING {
        return;
    }
    if cfg!(debug_assertions) {
        activation.after.set(After::NOTHING);
    }
    // SAFETY: set with `after` by whoever was suspended; descriptors are type-stable.
    let previous: &'static Descriptor = unsafe { &*activation.previous.get() };
    let thread = NonNull::from(&previous.thread);
    if after == After::YIELD {
        previous.activation.leave();
        // SAFETY: the thread was suspended off its stack just now and nobody else has its token.
        let ready = unsafe { Ready::new(thread) };
        let pool = inside.processor.pool;
        inside.owned().dispatcher.yielded(pool, ready);
    } else if after.0 & 7 == After::PARK {
        previous.activation.leave();
        if previous.thread.finish_park(Epoch::from_bits(after.0 >> 3)).is_err() {
            // SAFETY: claimed while arming: the claimant left the push to this finalizer (thread I2).
            crate::carry::ready::woken(inside, unsafe { Ready::new(thread) }, Waker::Nobody);
        }
    } else if after == After::EXIT {
        // SAFETY: `previous` is off its stack for ever.
        unsafe { exited(inside, previous) };
    } else if after == After::STEP_BACK {
        previous.activation.leave();
        let pool = inside.processor.pool;
        // SAFETY: as for a yield.
        inside.owned().dispatcher.stepped_back(pool, unsafe { Ready::new(thread) });
    } else if after == After::LEFT {
        crate::carry::turns::is_off(activation, previous);
    } else {
        debug_assert!(after == After::MOVE, "no thread is resumed by an activation that has lost its processor");
        previous.activation.leave();
        // The other pool has counted it already, so that neither is taken for empty meanwhile.
        bump_release(&inside.processor.counters.moved);
        // SAFETY: as for a yield.
        crate::carry::pool::submit(unsafe { Ready::new(thread) });
    }
}

/// As [`finalize`], on the idle context of an activation that has lost its processor: the thread goes to the pool's
/// shared queue, or was dedicated and has ended.
pub(crate) fn finalize_lost(activation: &'static Activation) {
    let after = activation.after.get();
    debug_assert!(after.is_without_processor());
    // SAFETY: set with `after` by whoever was suspended; descriptors are type-stable.
    let previous: &'static Descriptor = unsafe { &*activation.previous.get() };
    if after == After::END {
        // SAFETY: it is off its stack for ever.
        unsafe { exited_alone(activation, previous) };
        return;
    }
    previous.activation.leave();
    // SAFETY: the thread was suspended off its stack just now and nobody else has its token.
    crate::carry::pool::submit(unsafe { Ready::new(NonNull::from(&previous.thread)) });
}

/// A thread has ended and is off its stack (or has handed its stack on): the stack is kept for the next one, the joiner
/// runs.
///
/// # Safety
/// Nobody runs on the stack any more.
unsafe fn exited(mut inside: Lent<'_>, ended: &'static Descriptor) {
    // SAFETY: nobody runs on its stack any more, and its storage went with its code.
    unsafe { leave_slot(inside.lend(), ended, crate::carry::pool::class_of(ended)) };
    // SAFETY: the thread has ended.
    let detached = unsafe {
        leave_result(ended, |thread| crate::carry::ready::ready_inside_by(inside.lend(), thread, Waker::Is(ended)))
    };
    if detached {
        // SAFETY: nobody joins a detached thread, so the descriptor, which is of the slab that all caches are of, is
        // ours.
        unsafe { inside.owned().descriptors.free(NonNull::from(ended)) };
    }
}

/// A thread of `class` has ended: its slot and the right to it are kept for the next one.
///
/// # Safety
/// Nobody runs on its stack, or under its thread pointer, any more.
#[inline(always)]
pub(crate) unsafe fn leave_slot(mut inside: Lent<'_>, ended: &'static Descriptor, class: u32) {
    let raw = crate::carry::delays::address(ended.slot.replace(0));
    let kept = inside.owned().kept.of(class);
    if raw != 0 {
        // SAFETY: the word came from `into_raw` when the thread started and is given back once.
        kept.keep_stack(unsafe { Slot::from_raw(raw) });
    }
    kept.give_right(class);
    bump_release(&inside.processor.counters.exited);
}

/// As [`exited`], of a thread that was dedicated: its kernel thread has no processor.
///
/// # Safety
/// On the idle context of its activation; nobody runs on the stack any more.
#[cold]
#[inline(never)]
unsafe fn exited_alone(activation: &'static Activation, ended: &'static Descriptor) {
    traced::outside(Kind::Ended, ended);
    let arena = crate::carry::pool::arena_of(ended);
    let raw = crate::carry::delays::address(ended.slot.replace(0));
    if raw != 0 {
        // SAFETY: the word came from `into_raw` when the thread started and is given back once.
        arena.give(unsafe { Slot::from_raw(raw) });
    }
    arena.unreserve();
    // Release: as the counters of processors.
    activation.processor().pool.ended_alone.fetch_add(1, Ordering::Release);
    // SAFETY: the thread has ended.
    let detached = unsafe { leave_result(ended, crate::carry::ready::ready_outside) };
    if detached {
        // SAFETY: nobody joins a detached thread, so the descriptor is ours.
        unsafe { crate::carry::pool::descriptors().free_near(NonNull::from(ended), crate::os::core) };
    }
}

/// The last that is done with an ended thread: its joiner runs, by `ready`. True if it was detached: then its
/// descriptor is to be freed.
///
/// # Safety
/// The thread is off its stack for ever, and the caller the only one that does this.
#[inline(always)]
unsafe fn leave_result(
    ended: &'static Descriptor,
    ready: impl FnOnce(&'static raddle_scheduler::Thread<Real>),
) -> bool {
    ended.activation.leave();
    // Point of no return: a joiner may free the descriptor.
    let detached = ended.join.end(ready) == Ended::Detached;
    if detached {
        ended.set_tag(FREE);
        ended.forget_info();
    }
    detached
}

/// A thread's life, on its stack and under its thread pointer, from where the mark was left on.
///
/// # Safety
/// `me` is the running thread, and has run nothing yet.
#[inline(always)]
pub(crate) unsafe fn live(me: &'static Descriptor) {
    let tls = crate::carry::pool::tls();
    // SAFETY: the thread's own block, before any code of its program; outside the mark, since the loader may be asked.
    if unsafe { tls.begin(current_fs()) } {
        show_again(me);
    }
    // SAFETY: the closure was put into the descriptor by the spawn and is run once.
    unsafe { me.run.get()(me) };
    // SAFETY: on the thread itself, which runs no user code after this.
    unsafe { tls.run_destructors() };
}

/// Where this library itself was loaded at run time, its variable is as new once the thread's block has caught up.
#[cold]
#[inline(never)]
fn show_again(me: &'static Descriptor) {
    CURRENT.with(|current| std::hint::black_box(current).set(me));
}

/// Where a thread's stack begins: runs threads one after the other, as long as the next one to run has not started
/// either and can use the same stack.
pub(super) unsafe extern "C" fn thread_entry(by: usize) -> ! {
    // SAFETY: the argument of the switch is the activation, inside its mark.
    let activation: &'static Activation = unsafe { &*(by as *const Activation) };
    let mut me: &'static Descriptor = {
        // SAFETY: `installed` stored the thread that was switched to.
        unsafe { &*activation.current.load(Ordering::Relaxed) }
    };
    CURRENT.set(me);
    // SAFETY: just resumed (for the first time) by `activation`.
    unsafe { resumed(activation) };
    loop {
        // SAFETY: the running thread, which begins.
        unsafe { live(me) };
        // SAFETY: nothing on this stack is used again unless `last` hands it on.
        me = unsafe { last(me) };
    }
}

/// The end of a dedicated thread, whose kernel thread ends with it.
///
/// # Safety
/// As for [`last`].
#[cold]
#[inline(never)]
unsafe fn end_alone(activation: &'static Activation, me: &'static Descriptor) -> ! {
    // No handler of the program's comes to what is left of it.
    crate::os::signals::block_all();
    activation.previous.set(me);
    activation.after.set(After::END);
    // SAFETY: the idle context is suspended while a thread runs here; the finalizer frees the stack once it is off it.
    unsafe {
        tls::move_malloc_words(current_fs(), activation.fs.get());
        raddle_context::switch::switch_away(activation.idle.get(), std::ptr::from_ref(activation) as usize)
    }
}

/// The end of a thread: hands its stack to the next thread if that has not started, and returns it; otherwise leaves.
///
/// # Safety
/// `me` is the running thread and runs no user code any more.
unsafe fn last(me: &'static Descriptor) -> &'static Descriptor {
    if let Some(activation) = crate::carry::dedicated::own_activation(me) {
        // SAFETY: the caller is the running thread, this activation is its own, and no code of its runs any more.
        unsafe { end_alone(activation, me) }
    }
    let mut inside = enter(me);
    crate::carry::clocks::forget(inside.activation());
    if let Some(joiner) = crate::carry::in_place::heir(inside.lend(), me) {
        installed(inside.lend(), joiner, After::EXIT);
        // SAFETY: `me` runs, and ends; the joiner is off its stack and its claim was won. It runs when the finalizer
        // has stored the end.
        unsafe { inside.end_in_favour_of(me, Successor::Thread(joiner)) }
    }
    let Some(next) = select(inside.lend()) else {
        // SAFETY: `me` runs, and ends; the idle context is suspended while a thread runs here. The finalizer frees the
        // stack once it is off it.
        unsafe { inside.end_in_favour_of(me, Successor::Idle) }
    };
    let next = Descriptor::from_thread(next.into_thread());
    if crate::carry::delays::is_marked(next) {
        if crate::carry::turns::is_held(next) {
            inside.owned().held = Some(next);
            // SAFETY: `me` runs and ends here; the idle context is suspended while a thread runs on this activation.
            unsafe { inside.end_in_favour_of(me, Successor::Idle) }
        }
        crate::carry::delays::arrived(inside.processor(), next);
    }
    if next.slot.get() != 0 || crate::carry::pool::class_of(next) != crate::carry::pool::class_of(me) {
        if next.slot.get() == 0 {
            materialise(inside.lend(), next);
        }
        installed(inside.lend(), next, After::EXIT);
        // SAFETY: as above; `next` is off its stack and its token was consumed.
        unsafe { inside.end_in_favour_of(me, Successor::Thread(next)) }
    }
    // The stack goes on with the next thread, without a switch.
    next.slot.set(crate::carry::delays::address(me.slot.replace(0)));
    installed(inside.lend(), next, After::EXIT);
    // SAFETY: `me` has handed its stack on.
    unsafe { exited(inside.lend(), me) };
    // SAFETY: the storage of the ended thread, whose destructors have run; nothing of it is referenced.
    unsafe { crate::carry::pool::tls().renew(current_fs()) };
    raddle_context::switch::reset_modes();
    // The copy above wrote the variable behind the compiler's back.
    CURRENT.with(|current| std::hint::black_box(current).set(next));
    inside.leave();
    next
}
