//! A join that finds its thread not started runs it in its own place: as a call, on the joiner's stack.
//!
//! The joiner has nothing else to do, and cannot go on before that thread has ended. So the thread needs no stack of
//! its own, and nobody has to be woken at its end: it returns. What makes it a thread is that it has a descriptor, a
//! thread pointer and storage of its own: it may wait, yield and be stolen, be cancelled, and end on another processor
//! than it began; then the joiner, whose frames lie below its own, comes along.
//!
//! Of two threads a plain join needs two switches, a wait and a wake-up; trees of threads that join their children are
//! mostly that.
//!
//! Only where nobody can tell:
//! 1. The policy would start that thread next ([`raddle_scheduler::Local::next_is`]), and nobody is idle.
//! 2. The stack has room: seven eighths of what a thread of its class has ([`SPENT_PART`]).
//! 3. Nothing can want the joiner meanwhile: it has no scope open and no half or task that waits, to which it would
//!    have to hand on a cancellation, and interruptions run nothing (they do under the drop-in library).
//! 4. Nothing counts or traces switches.
//!
//! A thread that has moved to another pool ends there, and its joiner with it: that one is counted there, too, until it
//! is back in its own.
//!
//! State of the joiner: its wait is armed and never parked, so a claim of it ([`raddle_scheduler::Thread::claim`])
//! leaves the push to a finalizer that does not come; the joiner looks for what was asked of it when it goes on. It is
//! on no activation. Its saved context is that of its last switch, and its stack is in use above that, so nobody may
//! visit it: dumps visit parked threads only.

use crate::carry::above;
use crate::carry::activation::Activation;
use crate::carry::descriptor::{Descriptor, FREE, PAYLOAD_WORDS, Payload};
use crate::carry::note::note_wait;
use crate::carry::pool;
use crate::carry::processor::bump;
use crate::carry::switching::{self, After, current, enter};
use crate::carry::witness::{Inside, Lent};
use raddle_context::stack::Arena;
use raddle_context::switch::{self, Modes};
use raddle_context::tls;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

/// At most one part in so many of the joiner's stack is spent where a thread runs on it: a promise of
/// [`crate::thread::Builder::stack_size`], not a tuned number.
const SPENT_PART: usize = 8;

/// What a note calls the wait of a joiner.
pub(crate) const END: &str = "the end of a thread";

/// The calling thread, which has no scope open, is about to wait for the end of `child`, whose only handle it has. The
/// packed result, if the thread was run here: then its descriptor is free.
#[inline]
pub(crate) fn join_unstarted(child: &'static Descriptor) -> Option<Payload> {
    let me = current()?;
    if cfg!(raddle_tsan) || above::interruptions_run() || above::halves_wait() || crate::pace::sees_all() {
        return None;
    }
    let mut result = [MaybeUninit::uninit(); PAYLOAD_WORDS];
    // SAFETY: no scope is open, and the caller has the only handle.
    unsafe { run_here(me, child, &mut result) }.then_some(result)
}

/// Bytes of stack below the caller's frame, on a stack of `arena`; 0 elsewhere.
#[inline(always)]
fn room(arena: &Arena) -> usize {
    let here = 0u8;
    let sp = (&raw const here).addr();
    arena.room(sp)
}

/// True if it has run `child`, whose packed result it leaves in `result`.
///
/// # Safety
/// `me` is the running thread, and the caller has the only handle of `child`, which it does not use when it has got the
/// result.
#[inline(never)]
unsafe fn run_here(me: &'static Descriptor, child: &'static Descriptor, result: &mut Payload) -> bool {
    let mut inside = enter(me);
    let pool = inside.processor().pool;
    let class = pool::class_of(child);
    let arena = pool::arena_of_class(class);
    let size = 1usize << class;
    if room(arena) < size - size / SPENT_PART {
        inside.leave();
        return false;
    }
    let Some(token) = inside.owned().dispatcher.next_is(pool, child.record()) else {
        inside.leave();
        return false;
    };
    // From here on the token is this call: nobody else starts the thread.
    let token = token.into_thread();
    debug_assert!(std::ptr::eq(token.as_ptr(), child.record()) && crate::carry::delays::address(child.slot.get()) == 0);
    if crate::carry::delays::is_marked(child) {
        crate::carry::delays::arrived(inside.processor(), child);
    }
    let slot = crate::carry::first_stack::take_slot(inside.lend(), arena, class);
    let (own, fs) = (switch::current_fs(), slot.fs());
    child.slot.set(slot.into_raw());
    // SAFETY: the token was consumed, so nobody else touches it (descriptor rule 2).
    unsafe { (*child.context.get()).run_under(fs) };
    note_wait(END, std::ptr::from_ref(child).addr(), Some(child.record()));
    me.thread.arm();
    me.activation.leave();
    // None that has run waits here ([`raddle_scheduler::Local::next_is`]): there is nothing to fetch ahead.
    switching::counted(inside.lend(), child, After::NOTHING);
    let mut modes = Modes::default();
    modes.save();
    switch::reset_modes();
    let activation = inside.activation();
    std::mem::forget(inside);
    // SAFETY: both blocks are live: the running thread's own, and that of the slot, which is the child's alone. Between
    // the two changes of the thread pointer nothing is called here but what is not inlined. Inside the mark no code
    // that allocates interrupts the caller. The `Inside` was given up, and is made anew once.
    let mut inside = unsafe {
        tls::move_malloc_words(own, fs);
        switch::set_fs(fs);
        let activation = live_inside(child, activation);
        tls::move_malloc_words(fs, own);
        switch::set_fs(own);
        Inside::resumed(activation)
    };
    modes.restore();
    child.activation.leave();
    let there = inside.processor().pool;
    debug_assert_eq!(me.pool(), pool.index, "a running thread is one of its processor's pool");
    let strayed = !std::ptr::eq(there, pool);
    if strayed {
        // The child has moved. Until `me` is back it is counted there, too: before the child is so no more.
        there.moved_in.fetch_add(1, Ordering::Release);
        me.set_tag(pool::tag(there, pool::class_of(me)));
    }
    if crate::pace::sees_all() {
        switching::installed(inside.lend(), me, After::EXIT);
    } else {
        switching::named(inside.lend(), me);
    }
    // SAFETY: the child's code has returned, and the caller runs under its own thread pointer again.
    unsafe { switching::leave_slot(inside.lend(), child, class) };
    child.join.end_here();
    child.set_tag(FREE);
    child.forget_info();
    // SAFETY: the thread has ended, so its result lies there, and goes to the handle, which is not used again: the
    // descriptor, which is of the slab that all caches are of, is ours.
    unsafe {
        *result = *child.payload.get();
        inside.owned().descriptors.free(NonNull::from(child));
    }
    me.thread.disarm();
    inside.leave();
    if strayed {
        // Nobody there could tell that it was there at all.
        switching::move_to(me, pool);
    }
    if me.goes_on_interrupted() {
        above::interrupted(me, true);
    }
    true
}

/// As [`switching::live`], of a thread that begins inside the mark of `activation`; answers on which it ended, inside
/// its mark. Not inlined, since its caller runs under another thread pointer, and lets no panic out.
///
/// # Safety
/// As for [`switching::live`]; the caller is inside, under the thread pointer of `me`, and its activation names `me`.
#[inline(never)]
unsafe extern "C" fn live_inside(me: &'static Descriptor, activation: &'static Activation) -> &'static Activation {
    switching::show(me);
    // SAFETY: the caller is inside, and has given up its `Inside`.
    unsafe { Inside::resumed(activation) }.leave();
    // SAFETY: `me` runs from here on, under its thread pointer, and has run nothing.
    unsafe { switching::live(me) };
    let inside = enter(me);
    let activation = inside.activation();
    std::mem::forget(inside);
    activation
}

/// The thread that waits for the end of `me` and goes on here at once, if the policy says so; its wait is claimed.
#[inline(always)]
pub(crate) fn heir(mut inside: Lent<'_>, me: &'static Descriptor) -> Option<&'static Descriptor> {
    let pool = inside.processor.pool;
    // It counts as a selection, so it is asked only where somebody waits. A trace shows each wake-up.
    if !me.join.is_awaited() || crate::pace::sees_all() || !inside.owned().dispatcher.hands_over(pool) {
        return None;
    }
    let joiner = me.join.claim_joiner()?;
    let at_hand = !joiner.is_kernel_thread() && {
        let joiner = Descriptor::of(joiner);
        joiner.pool() == pool.index && !switching::is_unusual(joiner)
    };
    if !at_hand {
        crate::carry::ready::ready_inside_by(inside, joiner, crate::carry::traced::Waker::Is(me));
        return None;
    }
    bump(&inside.processor.counters.woken);
    Some(Descriptor::of(joiner))
}
