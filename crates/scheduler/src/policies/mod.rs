//! The policies: one file each, all in safe code over queues of [`tokens`](crate::tokens).
//!
//! [`build`] makes the policy that an [`Expression`] names. The default, [`steal`], is a type of its own in
//! [`AnyPolicy`], so that a runtime can call it statically.
//!
//! # Example
//! ```
//! use raddle_machine::Real;
//! use raddle_scheduler::expression::Expression;
//! use raddle_scheduler::policies::{self, AnyPolicy, Busy};
//! use raddle_scheduler::Policy;
//! let expression: Expression = "steal(batch=one)".parse().unwrap();
//! let policy: AnyPolicy<Real> = policies::build(&expression, 4, std::sync::Arc::new(Busy)).unwrap();
//! assert_eq!(policy.describe(), "steal(batch=one)");
//! assert!(matches!(policy, AnyPolicy::Steal(_)));
//! ```

pub mod apart;
pub mod clustered;
mod common;
pub mod fifo;
pub mod hybrid;
pub mod lifo;
pub mod local;
pub mod multiqueue;
pub mod priority;
pub mod request;
pub mod rotator;
pub mod steal;
mod victims;
pub mod waiver;

use crate::expression::Expression;
use crate::policy::{Cause, Local, Notify, Policy};
use crate::ready::{Ready, Upcoming};
use crate::thread::Thread;
use raddle_machine::Machine;
use raddle_queues::Full;
use std::sync::Arc;

/// What a policy may ask about the processors; answered by the runtime (see [`crate::idle::Idle`]).
pub trait Others: Send + Sync {
    /// True while some processor sleeps or searches (racy): sharing work is worth it.
    fn hungry(&self) -> bool;

    /// True while that processor sleeps (racy).
    fn asleep(&self, processor: usize) -> bool;

    /// What a push answers, for [`Local::next`] and [`Local::search`], which answer with a thread: a selection moved
    /// others to where those take them whom it concerns. The runtime looks (after a light fence) and wakes as after a
    /// push.
    fn wake(&self, whom: Notify);
}

/// [`Others`] that neither sleep nor search: for tests and examples.
#[derive(Clone, Copy, Debug)]
pub struct Busy;

impl Others for Busy {
    fn hungry(&self) -> bool {
        false
    }
    fn asleep(&self, _processor: usize) -> bool {
        false
    }
    fn wake(&self, _whom: Notify) {}
}

/// The most processors that a pool may have.
pub const MAX_PROCESSORS: usize = 4096;

/// The most that is stolen at once. Half of a million threads takes longer to copy than their owner needs until it
/// claims its next batch; then the copy is lost, again and again: of `park` with a million threads one processor
/// released most while the other copied. With 256, 1024, 4096 and 16,384 release took 732, 717, 711 and 700 ns a
/// thread, with no bound 832 (medians of 5).
const AT_ONCE: u64 = 1024;

/// Why a policy could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// A pool needs from one to [`MAX_PROCESSORS`] processors.
    Processors(usize),
    /// No memory for the queues of so many processors.
    Memory(usize),
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BuildError::Processors(n) => {
                write!(f, "a policy for {n} processors: give it at least 1 and at most {MAX_PROCESSORS}")
            }
            BuildError::Memory(n) => {
                write!(
                    f,
                    "no memory for the queues of {n} processors: ask for fewer, or raise the process's memory limit"
                )
            }
        }
    }
}

impl std::error::Error for BuildError {}

/// Any policy, the default one known by its type.
pub enum AnyPolicy<M: Machine> {
    /// The default.
    Steal(steal::Steal<M>),
    /// Any other.
    Other(Box<dyn Policy<M>>),
}

impl<M: Machine> AnyPolicy<M> {
    fn get(&self) -> &dyn Policy<M> {
        match self {
            AnyPolicy::Steal(steal) => steal,
            AnyPolicy::Other(other) => &**other,
        }
    }
}

impl<M: Machine> Policy<M> for AnyPolicy<M> {
    fn local(&self, index: usize) -> Box<dyn Local<M>> {
        self.get().local(index)
    }
    fn submit(&self, thread: Ready<M>) -> Notify {
        self.get().submit(thread)
    }
    fn describe(&self) -> String {
        self.get().describe()
    }
    fn priorities(&self) -> u8 {
        self.get().priorities()
    }
    fn ring(&self) -> bool {
        self.get().ring()
    }
    fn offers(&self) -> bool {
        self.get().offers()
    }
    fn takes_anywhere(&self) -> bool {
        self.get().takes_anywhere()
    }
    fn strands(&self) -> &'static str {
        self.get().strands()
    }
}

/// A processor's part of [`AnyPolicy`]: of the default one by its type, so that its calls are direct and inlined behind
/// one predicted branch; any other costs one indirect call.
///
/// With a tag of its own: one in the unused values of a field's is a constant of 64 bits, to be loaded at each call.
#[allow(clippy::large_enum_variant, reason = "one a processor, and the large one is the usual one")]
#[repr(u8)]
pub enum AnyLocal<M: Machine, O = Box<dyn Local<M>>> {
    /// Of the default.
    Steal(steal::StealLocal<M>),
    /// Of any other.
    Other(O),
}

impl<M: Machine> AnyPolicy<M> {
    /// [`Policy::local`], of the default one by its type; `other` wraps the part of any other.
    pub fn part<O>(&self, index: usize, other: impl FnOnce(Box<dyn Local<M>>) -> O) -> AnyLocal<M, O> {
        match self {
            AnyPolicy::Steal(steal) => AnyLocal::Steal(steal.local_part(index)),
            AnyPolicy::Other(policy) => AnyLocal::Other(other(policy.local(index))),
        }
    }
}

impl<M: Machine, O: Local<M>> Local<M> for AnyLocal<M, O> {
    #[inline(always)]
    fn push(&mut self, thread: Ready<M>, cause: Cause) -> Notify {
        match self {
            AnyLocal::Steal(local) => local.push(thread, cause),
            AnyLocal::Other(local) => local.push(thread, cause),
        }
    }
    #[inline(always)]
    fn push_told(&mut self, thread: Ready<M>, cause: Cause, tell: bool) -> Notify {
        match self {
            AnyLocal::Steal(local) => local.push_told(thread, cause, tell),
            AnyLocal::Other(local) => local.push_told(thread, cause, tell),
        }
    }
    #[inline(always)]
    fn hides(&self) -> bool {
        match self {
            AnyLocal::Steal(local) => local.hides(),
            AnyLocal::Other(local) => local.hides(),
        }
    }
    #[inline(always)]
    fn hidden(&self) -> u64 {
        match self {
            AnyLocal::Steal(local) => local.hidden(),
            AnyLocal::Other(local) => local.hidden(),
        }
    }
    #[inline(always)]
    fn hides_unstarted(&self) -> bool {
        match self {
            AnyLocal::Steal(local) => local.hides_unstarted(),
            AnyLocal::Other(local) => local.hides_unstarted(),
        }
    }
    #[inline(always)]
    fn upcoming(&self, n: u32) -> Option<Upcoming> {
        match self {
            AnyLocal::Steal(local) => local.upcoming(n),
            AnyLocal::Other(local) => local.upcoming(n),
        }
    }
    #[inline(always)]
    fn has_own(&self) -> bool {
        match self {
            AnyLocal::Steal(local) => local.has_own(),
            AnyLocal::Other(local) => local.has_own(),
        }
    }
    #[inline(always)]
    fn next(&mut self, floor: u8) -> Option<Ready<M>> {
        match self {
            AnyLocal::Steal(local) => local.next(floor),
            AnyLocal::Other(local) => local.next(floor),
        }
    }
    fn search(&mut self) -> Option<Ready<M>> {
        match self {
            AnyLocal::Steal(local) => local.search(),
            AnyLocal::Other(local) => local.search(),
        }
    }
    fn has_work(&self) -> bool {
        match self {
            AnyLocal::Steal(local) => local.has_work(),
            AnyLocal::Other(local) => local.has_work(),
        }
    }
    fn holds_private(&self) -> bool {
        match self {
            AnyLocal::Steal(local) => local.holds_private(),
            AnyLocal::Other(local) => local.holds_private(),
        }
    }
    #[inline(always)]
    fn crowded(&self) -> bool {
        match self {
            AnyLocal::Steal(local) => local.crowded(),
            AnyLocal::Other(local) => local.crowded(),
        }
    }
    fn step_back(&mut self, thread: Ready<M>) -> Result<(), Ready<M>> {
        match self {
            AnyLocal::Steal(local) => local.step_back(thread),
            AnyLocal::Other(local) => local.step_back(thread),
        }
    }
    #[inline(always)]
    fn next_is(&mut self, thread: &'static Thread<M>) -> Option<Ready<M>> {
        match self {
            AnyLocal::Steal(local) => local.next_is(thread),
            AnyLocal::Other(local) => local.next_is(thread),
        }
    }
    #[inline(always)]
    fn hands_over(&mut self) -> bool {
        match self {
            AnyLocal::Steal(local) => local.hands_over(),
            AnyLocal::Other(local) => local.hands_over(),
        }
    }
    fn relieve(&mut self, victim: usize) -> Option<Ready<M>> {
        match self {
            AnyLocal::Steal(local) => local.relieve(victim),
            AnyLocal::Other(local) => local.relieve(victim),
        }
    }
    fn publish(&mut self) -> Notify {
        match self {
            AnyLocal::Steal(local) => local.publish(),
            AnyLocal::Other(local) => local.publish(),
        }
    }
    fn expose(&mut self) -> Notify {
        match self {
            AnyLocal::Steal(local) => local.expose(),
            AnyLocal::Other(local) => local.expose(),
        }
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<M>)) {
        match self {
            AnyLocal::Steal(local) => local.drain(out),
            AnyLocal::Other(local) => local.drain(out),
        }
    }
    fn steals(&self) -> (u64, u64) {
        match self {
            AnyLocal::Steal(local) => local.steals(),
            AnyLocal::Other(local) => local.steals(),
        }
    }
}

/// Makes the policy that `expression` names, for a pool of at most `processors` processors.
pub fn build<M: Machine>(
    expression: &Expression,
    processors: usize,
    others: Arc<dyn Others>,
) -> Result<AnyPolicy<M>, BuildError> {
    if !(1..=MAX_PROCESSORS).contains(&processors) {
        return Err(BuildError::Processors(processors));
    }
    let full = |_: Full| BuildError::Memory(processors);
    Ok(match expression {
        Expression::Fifo => AnyPolicy::Other(Box::new(fifo::Fifo::new(processors, others).map_err(full)?)),
        Expression::Steal(options) => AnyPolicy::Steal(steal::Steal::new(*options, processors, others).map_err(full)?),
        Expression::Lifo => AnyPolicy::Other(Box::new(lifo::lifo(processors, others).map_err(full)?)),
        Expression::Rotator => AnyPolicy::Other(Box::new(rotator::Rotator::new(processors, others).map_err(full)?)),
        Expression::Waiver => AnyPolicy::Other(Box::new(waiver::Waiver::new(processors, others).map_err(full)?)),
        Expression::Hybrid(mix) => AnyPolicy::Other(Box::new(hybrid::Hybrid::new(*mix))),
        Expression::Multiqueue(queues) => {
            let queues = *queues as usize * processors;
            AnyPolicy::Other(Box::new(multiqueue::Multiqueue::new(queues, processors, others).map_err(full)?))
        }
        Expression::Local(options) => {
            AnyPolicy::Other(Box::new(local::LocalPolicy::new(*options, processors, others).map_err(full)?))
        }
        Expression::Request(how, options) => {
            AnyPolicy::Other(Box::new(request::Request::new(*how, *options, processors, others).map_err(full)?))
        }
        Expression::Clustered { size, inner } => {
            // One more takes part in each: a visitor.
            let size = size.unwrap_or(processors as u32);
            let members = (size as usize).min(processors).min(MAX_PROCESSORS - 1);
            let cluster = |number| {
                let others = clustered::members(others.clone(), number, members, processors);
                build(inner, members + 1, others)
            };
            let clusters: Result<Vec<_>, _> = (0..processors.div_ceil(members)).map(cluster).collect();
            AnyPolicy::Other(Box::new(clustered::Clustered::new(clusters?, members, size, others)))
        }
        Expression::Apart { started, new, turn } => {
            let of = |inner| build(inner, processors, others.clone());
            AnyPolicy::Other(Box::new(apart::Apart::new(of(started)?, of(new)?, *turn)))
        }
        Expression::Priority { levels, inner, aging } => {
            let levels: Result<Vec<_>, _> = (0..*levels).map(|_| build(inner, processors, others.clone())).collect();
            AnyPolicy::Other(Box::new(priority::Priority::new(levels?, *aging, others)))
        }
    })
}
