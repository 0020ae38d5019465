//! A standby on each core where threads block in the kernel without our knowing: the kernel itself tells of a block, in
//! microseconds.
//!
//! Source: T. E. Anderson et al., "Scheduler Activations: Effective Kernel Support for the User-Level Management of
//! Parallelism" (1991), section 3.1: when an activation blocks, the kernel runs a fresh one on its processor. Differs
//! from the paper: the kernel is not changed. A kernel thread of the idle class, which stands ready on a core, is run
//! there as soon as nothing else of the core can run. If that is because an activation has blocked outside its mark,
//! the standby takes its processor over for a spare.
//!
//! A standby touches nothing that another kernel thread might wait for: no lock, no allocator, no owner-only state. It
//! may be kept from its core for a second at a time while others compute. For the same reason it exists only where it
//! serves: from the monitor's first sight of an unseen block (`serve`) until [`REST_NS`] after the last one that it has
//! caught.
//!
//! The monitor begins and ends standbys and arms them at its looks; so does a processor that begins to run threads
//! after a sleep. The word between them is [`raddle_scheduler::standby`].
//!
//! That an activation which ran on this core last is off it says that it has blocked, or that it moves to another core,
//! or that the standby runs by its own share of the core (0.3 % beside one that computes). So the standby gives the
//! core up before it takes anything: if somebody ran then, the activation has not blocked, or another program uses the
//! core, and the monitor sees what there is to see. The processor of an activation that moves to another core is
//! taken: it finds out at its next entry, as after a slice ([`crate::govern::monitor`]).
//!
//! Progress: [`crate::carry::arming::arm`] is wait-free; a standby that is frozen delays nobody, since the monitor sees
//! the same a little later.

use crate::carry::activation::Activation;
use crate::carry::arming::{MAX_CORES, SERVING, STANDBYS, Standby, arm_on, find};
use crate::carry::pool::{self, Shared};
use crate::os::CoreWord;
use raddle_machine::{Machine, Real};
use raddle_scheduler::standby::Begin;
use raddle_scheduler::takeover::Take;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Nanoseconds without a catch until standbys end: ten times the second for which a standby may be kept from its core
/// while others compute there (docs/decisions/0031), in which it can catch nothing.
const REST_NS: u64 = 10_000_000_000;
/// The kernel refused one: the monitor alone is left.
static REFUSED: AtomicBool = AtomicBool::new(false);
/// Processors taken over by standbys, since the process began; and when, last.
pub(crate) static CATCHES: AtomicU64 = AtomicU64::new(0);
static LAST_CATCH: AtomicU64 = AtomicU64::new(0);
/// Catches that failed for want of a listed spare.
static SHORT: AtomicU64 = AtomicU64::new(0);

/// Why there are none, where the kernel has refused one.
pub(crate) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// The monitor's part.
#[derive(Default)]
pub(crate) struct Standbys {
    short: u64,
    /// How many spares a pool has listed, at least, while standbys serve.
    stock: usize,
}

/// So many spares are kept listed at first, and at most: as many as a pool lists.
const STOCK: (usize, usize) = (2, 64);

impl Standbys {
    /// Whether the core that `activation` is on has no standby, and may have one.
    pub fn are_wanted_for(&self, activation: &Activation) -> bool {
        let core = activation.core().filter(|core| (*core as usize) < MAX_CORES);
        let may = !is_refused() && crate::govern::ways::wanted() == crate::govern::ways::Way::Standby;
        may && core.is_some_and(|core| !find(core).is_some_and(|standby| standby.word.serves()))
    }

    /// The monitor has seen `activation` blocked where no standby told of it: from now on one serves on its core.
    pub fn serve(&mut self, activation: &Activation) {
        let Some(core) = activation.core().filter(|core| (*core as usize) < MAX_CORES) else { return };
        if is_refused() || crate::govern::ways::wanted() != crate::govern::ways::Way::Standby {
            return;
        }
        let standby = find(core).unwrap_or_else(|| {
            let made = Box::leak(Box::new(Standby { core, word: Default::default(), on_core: CoreWord::new() }));
            STANDBYS[core as usize].store(made, Ordering::Release);
            made
        });
        let begin = standby.word.begin();
        if begin == Begin::Serves {
            return;
        }
        self.stock = self.stock.max(STOCK.0);
        LAST_CATCH.store(Real::now(), Ordering::Relaxed);
        SERVING.store(true, Ordering::Relaxed);
        if begin == Begin::Start {
            // Here, since it would have to open a file, for which it has the program's descriptors.
            let filters = crate::os::filters();
            if let Err(error) = crate::os::spawn(format!("raddle-stand{core}"), move || main(standby, filters)) {
                refuse(standby, &error);
            }
        }
    }

    /// One look of the monitor while something runs: standbys are armed on the cores where the pools' processors run,
    /// and spares are there for them.
    pub fn arm(&mut self) {
        if !SERVING.load(Ordering::Relaxed) {
            return;
        }
        if Real::now().saturating_sub(LAST_CATCH.load(Ordering::Relaxed)) > REST_NS {
            return self.end();
        }
        let short = SHORT.load(Ordering::Relaxed);
        if std::mem::replace(&mut self.short, short) != short {
            self.stock = (self.stock * 2).min(STOCK.1);
        }
        for pool in pool::pools().filter(|pool| pool.is_open() && !pool.is_stopping()) {
            let mut runs = false;
            for owner in running_owners(pool) {
                arm_on(owner);
                runs = true;
            }
            if runs {
                pool.stock(self.stock);
            }
        }
    }

    fn end(&mut self) {
        SERVING.store(false, Ordering::Relaxed);
        (0..MAX_CORES as u32).filter_map(find).for_each(|standby| standby.word.end());
        self.stock = 0;
    }
}

/// In the child of a fork: there are none.
pub(crate) fn forget() {
    SERVING.store(false, Ordering::Relaxed);
    STANDBYS.iter().for_each(|slot| slot.store(std::ptr::null_mut(), Ordering::Relaxed));
}

fn refuse(standby: &'static Standby, error: &std::io::Error) {
    REFUSED.store(true, Ordering::Relaxed);
    standby.word.was_refused();
    crate::os::say_once(&format!(
        "raddle: no standby of the idle class ({error}): that a thread blocks where nothing tells us is noticed after milliseconds"
    ));
}

/// The owners of a pool's processors that do not sleep, outside their marks and with a thread to run.
fn running_owners(pool: &'static Shared) -> impl Iterator<Item = &'static Activation> {
    let awake = pool.processors().iter().filter(|p| p.seat.is_active() && !pool.idle.is_sleeping(p.index));
    awake.filter_map(|p| crate::carry::activations::find(p.seat.owner.owner()))
}

fn main(standby: &'static Standby, filters: Option<u32>) {
    if let Err(error) = crate::os::stand_by_on(standby.core, filters) {
        return refuse(standby, &error);
    }
    // Where it is refused no standby is begun either: an activation's core is not known there.
    standby.on_core.register();
    standby.word.serve(|| catch(standby));
    standby.on_core.unregister();
}

/// Takes over the processors whose activations have blocked on this core. True if there was one.
fn catch(standby: &'static Standby) -> bool {
    let mut caught = false;
    // Asked once, when there is something to take.
    let mut nobody_runs_here = None;
    for pool in pool::pools().filter(|pool| pool.is_open() && !pool.is_stopping()) {
        for processor in pool.processors() {
            if !processor.seat.is_active() || pool.idle.is_sleeping(processor.index) {
                continue;
            }
            let Some(owner) = crate::carry::activations::find(processor.seat.owner.owner()) else { continue };
            let off_here = owner.core() == Some(standby.core)
                && owner.runs_a_thread()
                && !owner.mark.is_inside()
                && !owner.turn.comes();
            if !off_here {
                continue;
            }
            if !*nobody_runs_here.get_or_insert_with(|| standby.on_core.yields_to_nobody()) {
                return false;
            }
            let Some(spare) = pool.waiting_spare() else {
                SHORT.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if spare.id() != owner.id && processor.seat.owner.take(spare.id(), owner.id, &owner.mark) == Take::Taken {
                CATCHES.fetch_add(1, Ordering::Relaxed);
                crate::carry::traced::taken(processor, owner, crate::carry::traced::BLOCKED);
                LAST_CATCH.store(Real::now(), Ordering::Relaxed);
                spare.carry(processor);
                caught = true;
            }
        }
    }
    caught
}
