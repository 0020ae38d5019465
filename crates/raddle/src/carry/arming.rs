//! The standbys of cores, as who begins to run threads sees them: armed after a sleep, and where a processor has
//! changed hands. What they are and do: [`crate::govern::standby`].

use crate::carry::activation::Activation;
use raddle_machine::Real;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Cores that may have a standby: one with a higher number has none.
pub(crate) const MAX_CORES: usize = 1024;

pub(crate) struct Standby {
    pub core: u32,
    pub word: raddle_scheduler::standby::Standby<Real>,
    /// What the kernel tells the kernel thread about its own core.
    pub on_core: crate::os::CoreWord,
}

/// By core; null where there never was one. Never freed: others may be about to arm it.
pub(crate) static STANDBYS: [AtomicPtr<Standby>; MAX_CORES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; MAX_CORES];

/// Some exist, or did until a moment ago.
pub(crate) static SERVING: AtomicBool = AtomicBool::new(false);

/// Arms the standby of the core on which `activation` runs, if that has one. Called where a processor begins to run
/// threads after a sleep, or on another kernel thread: on this core a standby may have looked in vain since.
#[inline]
pub(crate) fn arm(activation: &Activation) {
    if SERVING.load(Ordering::Relaxed) {
        arm_on(activation);
    }
}

#[cold]
pub(crate) fn arm_on(activation: &Activation) {
    if let Some(standby) = activation.core().and_then(find) {
        standby.word.arm();
    }
}

/// Standbys that sleep until a processor runs threads again.
pub(crate) fn asleep() -> usize {
    (0..MAX_CORES as u32).filter_map(find).filter(|standby| standby.word.is_asleep()).count()
}

pub(crate) fn find(core: u32) -> Option<&'static Standby> {
    // SAFETY: null, or a standby, which are never freed.
    unsafe { STANDBYS.get(core as usize)?.load(Ordering::Acquire).as_ref() }
}
