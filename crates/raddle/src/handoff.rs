//! Whom to tell of a woken thread while other processors are idle.
//!
//! Telling an idle processor costs microseconds and takes the woken thread to cold caches; not telling it may leave the thread
//! waiting while a core idles. A thread that wakes another and then blocks at once (a round trip) wants the former avoided. So
//! each processor keeps a score: a wake-up that was told and was followed by a block within [`SOON`] counts for keeping,
//! any other against. From [`TRUST`] on, woken threads are kept to run next here, in silence; one in [`SAMPLE`] of them is
//! timed, so that the score notices when the pattern ends, and the monitor, which publishes what a computing processor keeps
//! while others idle, resets it. So a kept thread waits at most for the monitor's bound.

use crate::activation::Activation;
use crate::descriptor::Descriptor;
use crate::processor::{Owned, Processor, Queue};
use raddle_machine::{Machine, Real};
use raddle_scheduler::{Cause, Ready};
use std::sync::atomic::Ordering;

/// Nanoseconds between a wake-up and the block that follows it, at most, for the pair to count as one hand-off: about what
/// waking an idle core costs.
const SOON: u64 = 5_000;
/// Score from which woken threads are kept.
const TRUST: u8 = 3;
/// Highest score.
const SURE: u8 = 7;
/// One kept wake-up in so many is timed. A power of two.
const SAMPLE: u32 = 256;

/// The score of one processor.
#[derive(Default)]
pub(crate) struct Handoff {
    score: u8,
    kept: u32,
    /// When the wake-up that is being timed was; 0: none is.
    woke_at: u64,
}

impl Handoff {
    /// The running thread leaves its processor without being ready: how long after its timed wake-up?
    #[inline(always)]
    pub fn blocked(&mut self) {
        if self.woke_at != 0 {
            self.judge();
        }
    }

    #[cold]
    fn judge(&mut self) {
        let soon = Real::now() - self.woke_at < SOON;
        self.score = if soon { (self.score + 1).min(SURE) } else { 0 };
        self.woke_at = 0;
    }

    /// The processor kept what others wanted.
    pub fn distrust(&mut self) {
        *self = Self::default();
    }

    fn keeps(&mut self) -> bool {
        if self.score < TRUST {
            self.woke_at = Real::now();
            return false;
        }
        self.kept = self.kept.wrapping_add(1);
        if self.kept.is_multiple_of(SAMPLE) {
            self.woke_at = Real::now();
        }
        true
    }
}

/// The thread runs next, and the waker still has something to do before: its stack and storage come closer meanwhile.
#[inline(always)]
fn fetch(ready: &Ready<Real>) {
    let descriptor = Descriptor::from_thread(ready.thread());
    // SAFETY: the token is in hand, so nobody runs the thread or writes its context.
    let context = unsafe { &*descriptor.context.get() };
    let sp = context.sp().addr();
    for line in 0..4 {
        Real::prefetch(sp + 64 * line);
    }
    Real::prefetch(context.fs());
    Real::prefetch(context.fs() - 128);
}

/// Queues a thread that this processor's running thread, or its idle context, woke.
#[inline]
pub(crate) fn woken(
    activation: &'static Activation,
    processor: &'static Processor,
    owned: &mut Owned,
    ready: Ready<Real>,
) {
    let pool = processor.pool;
    let Owned { queue, handoff, .. } = owned;
    if !queue.is_default() {
        crate::switching::push_owned(processor, owned, ready, Cause::Woken);
        return;
    }
    let hungry = pool.idle.hungry();
    let notify = match queue {
        Queue::Default(local) if hungry => {
            // The idle context is about to look for work itself.
            let idle = activation.current.load(Ordering::Relaxed).is_null();
            if idle || handoff.keeps() {
                fetch(&ready);
                local.push_next(ready, hungry)
            } else {
                local.push_with(ready, Cause::Woken, hungry)
            }
        }
        queue => queue.push(ready, Cause::Woken, || hungry),
    };
    pool.notify(notify);
}
