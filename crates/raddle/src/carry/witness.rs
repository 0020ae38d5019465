//! The right to touch what only a processor's owner may touch, as a value.
//!
//! An [`Inside`] exists from the entry into a processor's owner-only region to its end: [`Inside::enter`] and
//! [`Inside::adopt`] make one; [`Inside::leave`], [`Inside::release`] and [`Inside::switch_to`] consume it; after a
//! switch the resumed side makes it anew ([`Inside::resumed`]). It lends the [`Owned`] of its processor, one borrow at
//! a time. A function that works inside takes a [`Lent`], which ends with the call, and so can neither leave nor
//! switch.
//!
//! It compiles to nothing: two addresses in registers. Debug builds check what a switch relies on:
//! 1. the activation is inside its mark and owns the processor;
//! 2. the successor is off its stack: no activation is named in its descriptor;
//! 3. one finalizer is pending at most;
//!
//! and that no `Inside` is dropped: a mark that is never left would keep the processor for ever.

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::processor::{Owned, Processor};
use crate::carry::switching::After;
use raddle_context::switch::{Context, current_fs, switch, switch_away};
use raddle_context::tls;
use raddle_machine::Real;
use std::marker::PhantomData;

/// The calling kernel thread is inside the mark of `activation`, which owns `processor`.
#[must_use = "the mark is left, handed over a switch, or kept for ever"]
pub(crate) struct Inside {
    activation: &'static Activation,
    processor: &'static Processor,
    /// It belongs to the kernel thread.
    here: PhantomData<*const ()>,
}

/// [`Inside`], lent to a function that neither leaves nor switches.
pub(crate) struct Lent<'a> {
    pub activation: &'static Activation,
    pub processor: &'static Processor,
    exclusive: PhantomData<&'a mut Owned>,
    here: PhantomData<*const ()>,
}

impl Inside {
    /// Enters the region of the processor that `activation`, the caller's, carries; `None` if it has lost the
    /// processor.
    #[inline(always)]
    pub fn enter(activation: &'static Activation) -> Option<Self> {
        debug_assert!(!activation.mark.is_inside(), "the runtime was entered from inside itself");
        let processor = activation.processor();
        processor.seat.owner.enter(activation.id, &activation.mark).then(|| Self::new(activation, processor))
    }

    /// As [`Inside::enter`], for a processor that `activation`, the caller's, does not name yet.
    pub fn enter_at(activation: &'static Activation, processor: &'static Processor) -> Option<Self> {
        debug_assert!(!activation.mark.is_inside(), "the runtime was entered from inside itself");
        processor.seat.owner.enter(activation.id, &activation.mark).then(|| Self::new(activation, processor))
    }

    /// `activation`, the caller's, becomes the owner of a free processor, and enters.
    pub fn adopt(activation: &'static Activation, processor: &'static Processor) -> Option<Self> {
        debug_assert!(!activation.mark.is_inside(), "the runtime was entered from inside itself");
        processor.seat.owner.adopt(activation.id, &activation.mark).then(|| Self::new(activation, processor))
    }

    /// `activation`, the caller's, takes back the processor that it carried last, if that is free and takes part in its
    /// pool.
    pub fn come_back(activation: &'static Activation) -> Option<Self> {
        debug_assert!(!activation.mark.is_inside(), "the runtime was entered from inside itself");
        let processor = activation.processor();
        processor.seat.adopt(activation.id, &activation.mark).then(|| Self::new(activation, processor))
    }

    /// `activation`, the caller's, begins to serve the processor that it was ordered to carry, if that is its own
    /// still, or free, and takes part in its pool.
    pub fn begin(activation: &'static Activation) -> Option<Self> {
        debug_assert!(!activation.mark.is_inside(), "the runtime was entered from inside itself");
        let processor = activation.processor();
        processor.seat.begin(activation.id, &activation.mark).then(|| Self::new(activation, processor))
    }

    /// The monitor becomes the owner if nobody uses the processor at this instant.
    pub fn seize(me: &'static Activation, processor: &'static Processor) -> Option<Self> {
        debug_assert!(!me.mark.is_inside(), "the runtime was entered from inside itself");
        // Without the heavy fence its owner might enter unseen: it retires when it is idle.
        let find =
            |owner| Some(&crate::carry::activations::find(owner).filter(|_| Real::heavy_fence_available())?.mark);
        processor.seat.seize(me.id, &me.mark, find).then(|| Self::new(me, processor))
    }

    /// What a context that was resumed finds: the `Inside` that [`Inside::switch_to`] consumed.
    ///
    /// # Safety
    /// The caller was resumed on `activation` just now, by a switch that consumed an `Inside`, and calls this once.
    #[inline(always)]
    pub unsafe fn resumed(activation: &'static Activation) -> Self {
        let inside = Self::new(activation, activation.processor());
        inside.check();
        inside
    }

    #[inline(always)]
    fn new(activation: &'static Activation, processor: &'static Processor) -> Self {
        Self { activation, processor, here: PhantomData }
    }

    #[inline(always)]
    fn check(&self) {
        debug_assert!(self.activation.mark.is_inside(), "outside the mark");
        debug_assert_eq!(self.processor.seat.owner.owner(), self.activation.id, "the processor is another's");
    }

    #[inline(always)]
    pub fn activation(&self) -> &'static Activation {
        self.activation
    }

    #[inline(always)]
    pub fn processor(&self) -> &'static Processor {
        self.processor
    }

    /// The owner-only state.
    #[inline(always)]
    pub fn owned(&mut self) -> &mut Owned {
        // SAFETY: inside the mark of the owner; the borrow of `self` is the only one of the only `Inside`.
        unsafe { &mut *self.processor.owned() }
    }

    #[inline(always)]
    pub fn lend(&mut self) -> Lent<'_> {
        Lent { activation: self.activation, processor: self.processor, exclusive: PhantomData, here: PhantomData }
    }

    /// Leaves; signals that came meanwhile are delivered now.
    #[inline(always)]
    pub fn leave(self) {
        self.check();
        self.activation.leave();
        std::mem::forget(self);
    }

    /// Gives the processor up: it is free, and the caller outside.
    pub fn release(self) {
        self.check();
        self.processor.seat.owner.release(self.activation.id, &self.activation.mark);
        std::mem::forget(self);
    }

    /// The processor, which the monitor has emptied, retires: it is free, and the caller outside.
    pub fn retire(self) {
        self.check();
        self.processor.seat.retire(self.activation.id, &self.activation.mark);
        std::mem::forget(self);
    }

    /// Passes the processor on to `to`, which is outside its mark and waits for it.
    pub fn pass(self, to: &'static Activation) {
        self.check();
        self.processor.seat.owner.pass(self.activation.id, to.id, &self.activation.mark);
        std::mem::forget(self);
    }

    /// The finalizer that whoever is resumed next runs, for `previous`.
    #[inline(always)]
    fn hand_over(self, previous: Option<&'static Descriptor>, after: After) -> &'static Activation {
        let activation = self.activation;
        self.check();
        debug_assert_eq!(activation.after.get(), After::NOTHING, "a finalizer is pending already");
        if let Some(previous) = previous {
            activation.previous.set(previous);
        }
        activation.after.set(after);
        std::mem::forget(self);
        activation
    }

    /// Suspends `me` in favour of `to`, whoever is resumed runs `after` for it. Returns the activation on which `me`
    /// was resumed.
    ///
    /// # Safety
    /// `me` is the running thread. `to` is off its stack and nobody else resumes it.
    #[inline(always)]
    pub unsafe fn switch_to(self, me: &'static Descriptor, to: Successor, after: After) -> &'static Activation {
        let (context, fs) = to.of(self.activation);
        let activation = self.hand_over(Some(me), after);
        // SAFETY: both contexts differ, since `me` runs and `to` does not; `me` is published by the finalizer only.
        unsafe {
            tls::move_malloc_words(current_fs(), fs);
            let by = switch(me.context.get(), context, std::ptr::from_ref(activation) as usize);
            &*(by as *const Activation)
        }
    }

    /// As [`Inside::switch_to`], for ever: `me` has ended.
    ///
    /// # Safety
    /// As for [`Inside::switch_to`]; nothing on the caller's stack is used again.
    #[inline(always)]
    pub unsafe fn end_in_favour_of(self, me: &'static Descriptor, to: Successor) -> ! {
        let (context, fs) = to.of(self.activation);
        let activation = self.hand_over(Some(me), After::EXIT);
        // SAFETY: as for `switch_to`.
        unsafe {
            tls::move_malloc_words(current_fs(), fs);
            switch_away(context, std::ptr::from_ref(activation) as usize)
        }
    }

    /// Continues `to` from the idle context. Returns when a thread of this activation has switched back; its finalizer
    /// is pending.
    ///
    /// # Safety
    /// On the activation's idle context. `to` is off its stack and nobody else resumes it.
    pub unsafe fn resume(self, to: Successor) {
        let (context, fs) = to.of(self.activation);
        // A finalizer of the time before is done, or was never pending.
        self.activation.after.set(After::NOTHING);
        let activation = self.hand_over(None, After::NOTHING);
        // SAFETY: the idle context is saved here and resumed by whichever thread finds nothing to run.
        unsafe {
            tls::move_malloc_words(activation.fs.get(), fs);
            switch(activation.idle.get(), context, std::ptr::from_ref(activation) as usize);
        }
    }
}

#[cfg(debug_assertions)]
impl Drop for Inside {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("the mark of activation {} is never left", self.activation.id);
        }
    }
}

impl Lent<'_> {
    /// The owner-only state.
    #[inline(always)]
    pub fn owned(&mut self) -> &mut Owned {
        // SAFETY: inside the mark of the owner; the borrow of `self` is the only one that is used.
        unsafe { &mut *self.processor.owned() }
    }

    /// The owner-only state, to look at.
    #[inline(always)]
    pub fn get(&self) -> &Owned {
        // SAFETY: as above, shared.
        unsafe { &*self.processor.owned() }
    }

    #[inline(always)]
    pub fn lend(&mut self) -> Lent<'_> {
        Lent { activation: self.activation, processor: self.processor, exclusive: PhantomData, here: PhantomData }
    }
}

/// Who goes on after a switch.
#[derive(Clone, Copy)]
pub(crate) enum Successor {
    /// The activation's idle context.
    Idle,
    /// A thread whose token was consumed.
    Thread(&'static Descriptor),
}

impl Successor {
    /// Its context and its thread pointer.
    #[inline(always)]
    fn of(self, activation: &'static Activation) -> (*mut Context, usize) {
        match self {
            Successor::Idle => (activation.idle.get(), activation.fs.get()),
            Successor::Thread(next) => {
                let context = next.context.get();
                // SAFETY: the thread is off its stack and its token is in hand: nobody writes its context.
                (context, unsafe { (*context).fs() })
            }
        }
    }
}
