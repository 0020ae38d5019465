//! The kernel's events for an executor of one's own: processors that are added and taken away, activations that block
//! and come back.
//!
//! Source: T. E. Anderson et al., "Scheduler Activations: Effective Kernel Support for the User-Level Management of
//! Parallelism" (1991), table 2 and section 3.1. An executor that runs tasks of any kind on kernel threads loses a
//! processor whenever a task blocks in the kernel. Here it has *processors*, never more at work than it asked for: when
//! the task that an *activation* runs blocks, whatever it blocks in, a fresh activation has the processor and tells
//! which one has blocked; when that comes back it has its turn again.
//!
//! | event of the paper | here |
//! |---|---|
//! | add this processor | [`Executor::added`], on an activation that has one |
//! | processor has been preempted | [`Executor::preempted`]: it computes on, but on no processor of yours |
//! | activation has blocked | [`Executor::blocked`], before `added` on the processor that it has lost |
//! | activation has unblocked | [`Executor::unblocked`] |
//!
//! | call of the paper's table 3 | here |
//! |---|---|
//! | add more processors | [`Processors::add`] |
//! | this processor is idle | returning from [`Executor::added`] |
//!
//! Differs from the paper: nobody is interrupted for a notice. An activation that has come back waits for its turn, and
//! one that is at work gives way where its executor asks [`Processor::goes_on`], between two tasks. An activation's
//! stack and registers stay its own: it goes on by itself.
//!
//! When it is told: of a block, in some microseconds where a standby serves, in milliseconds otherwise
//! (docs/kernel-events.md); but while no processor has anything to do and nothing is asked of them, later. Of a
//! return, at the next [`Processor::goes_on`] of any activation.
//!
//! # Example
//! ```
//! use raddle::events::{ActivationId, Executor, Processor};
//! use std::collections::VecDeque;
//! use std::io::{Read, Write};
//! use std::sync::{Arc, Mutex, mpsc};
//!
//! type Task = Box<dyn FnOnce() + Send>;
//!
//! #[derive(Clone, Default)]
//! struct Queue(Arc<Mutex<VecDeque<Task>>>);
//!
//! impl Queue {
//!     fn pop(&self) -> Option<Task> {
//!         self.0.lock().unwrap().pop_front()
//!     }
//! }
//!
//! impl Executor for Queue {
//!     fn added(&self, processor: &Processor<'_>) {
//!         while let Some(task) = self.pop() {
//!             task();
//!             if !processor.goes_on() {
//!                 return;
//!             }
//!         }
//!     }
//!     fn blocked(&self, activation: ActivationId) {
//!         println!("{activation:?} has blocked");
//!     }
//! }
//!
//! // One processor: the second task runs although the first one blocks in the kernel.
//! let queue = Queue::default();
//! let processors = raddle::events::start(queue.clone(), 1).unwrap();
//! let (mut wait, mut wake) = std::io::pipe().unwrap();
//! let (done, is_done) = mpsc::channel();
//! let tasks: [Task; 2] = [
//!     Box::new(move || {
//!         wait.read_exact(&mut [0]).unwrap();
//!         done.send(()).unwrap();
//!     }),
//!     Box::new(move || wake.write_all(&[1]).unwrap()),
//! ];
//! for task in tasks {
//!     queue.0.lock().unwrap().push_back(task);
//!     processors.add();
//! }
//! is_done.recv().unwrap();
//! processors.stop();
//! ```

use crate::carry::activation::Activation;
use crate::carry::descriptor::Descriptor;
use crate::carry::switching;
use crate::os::{TaskState, task_state};
use crate::sync::{Mutex, MutexGuard};
use crate::{BuildError, Builder, JoinHandle, Pool};
use raddle_machine::Real;
use raddle_scheduler::notices::{Notices, Wanted};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

/// Names an activation of one [`Processors`]. Used again for another task when its executor has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ActivationId(usize);

/// What hears of the events. All are called on activations, several at once if there are several processors; they may
/// block and use all of this library.
pub trait Executor: Send + Sync + 'static {
    /// The calling activation has a processor: it runs tasks while there are some and [`Processor::goes_on`] says so,
    /// then it returns. Without tasks it returns at once.
    fn added(&self, processor: &Processor<'_>);

    /// The activation is blocked in the kernel and has no processor.
    fn blocked(&self, activation: ActivationId) {
        let _ = activation;
    }

    /// The activation has lost its processor, and computes on where the kernel lets it: its task has computed for long
    /// without [`Processor::goes_on`], or the machine is busy.
    fn preempted(&self, activation: ActivationId) {
        let _ = activation;
    }

    /// One of which either was told has come back: it has a processor, or the next one that is given up.
    fn unblocked(&self, activation: ActivationId) {
        let _ = activation;
    }
}

struct Carrier {
    id: usize,
    notices: Notices<Real>,
    /// Who it is; null before it has run.
    thread: AtomicPtr<Descriptor>,
}

impl Carrier {
    /// The activation that it is on, and itself; `None` while it is on none.
    fn on(&self) -> Option<(&'static Activation, &'static Descriptor)> {
        // Acquire: pairs with `Shared::live`.
        // SAFETY: null or a descriptor, which are type-stable.
        let thread: &'static Descriptor = unsafe { self.thread.load(Ordering::Acquire).as_ref()? };
        // SAFETY: null or an activation, which are never freed.
        let activation: &'static Activation = unsafe { thread.activation.get().as_ref()? };
        std::ptr::eq(activation.current.load(Ordering::Relaxed), thread).then_some((activation, thread))
    }

    /// The activation that it is on without a processor (racy).
    fn is_without(&self) -> Option<&'static Activation> {
        let (activation, _) = self.on()?;
        (crate::carry::turns::runs_without(activation) && !activation.turn.comes()).then_some(activation)
    }

    /// It was lost, and waits for a processor (racy).
    fn comes(&self) -> bool {
        self.notices.is_lost() && self.waits()
    }

    fn waits(&self) -> bool {
        self.on().is_none_or(|(activation, _)| activation.turn.waits())
    }
}

struct Shared {
    executor: Box<dyn Executor>,
    pool: Pool,
    /// With what wakes each, once it has run.
    carriers: Mutex<Vec<(Arc<Carrier>, Option<crate::park::Thread>)>>,
    handles: Mutex<Vec<JoinHandle<()>>>,
    /// Processors that were asked for and not added yet.
    wanted: Wanted<Real>,
    /// Carriers of which a loss was told and the end of it not seen.
    lost: AtomicUsize,
    stopping: AtomicBool,
}

/// Its thread ends, by a panic or not.
struct Life<'a>(&'a Carrier);

impl Drop for Life<'_> {
    fn drop(&mut self) {
        self.0.notices.end();
    }
}

/// A processor, on the activation that has it.
pub struct Processor<'a> {
    shared: &'a Arc<Shared>,
    carrier: &'a Carrier,
}

/// The processors of an executor. Dropping them is as [`Processors::stop`].
pub struct Processors(Arc<Shared>);

/// Begins with so many processors, each of which is added once. Kernel threads are made as activations block.
pub fn start(executor: impl Executor, processors: usize) -> Result<Processors, BuildError> {
    let pool = Builder::new().processors(processors).build()?;
    let wanted = Wanted::new(pool.processors());
    let shared = Arc::new(Shared {
        executor: Box::new(executor),
        pool,
        carriers: Mutex::default(),
        handles: Mutex::default(),
        wanted,
        lost: AtomicUsize::new(0),
        stopping: AtomicBool::new(false),
    });
    shared.ready_one();
    Ok(Processors(shared))
}

impl Processors {
    /// There are more tasks than processors at work: one that is idle is added. Nothing if none is. From any thread.
    pub fn add(&self) {
        self.0.want();
        self.0.ready_one();
    }

    /// Ends when all activations have returned from [`Executor::added`], which they are asked to do by
    /// [`Processor::goes_on`].
    ///
    /// # Panics
    /// If a method of the executor has panicked.
    pub fn stop(self) {
        if self.0.end() {
            panic!("an executor's method has panicked");
        }
    }
}

impl Drop for Processors {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Processor<'_> {
    /// The calling activation.
    pub fn activation(&self) -> ActivationId {
        ActivationId(self.carrier.id)
    }

    /// Between two tasks: whether the activation keeps the processor. If not, it returns from [`Executor::added`]: one
    /// that has come back waits for the processor, or all is to end. Where the activation has lost its processor, it
    /// waits for another one here.
    pub fn goes_on(&self) -> bool {
        if let Some(me) = switching::current() {
            let inside = switching::enter(me);
            // To the monitor, one that goes from task to task does not stand still.
            crate::carry::processor::bump(&inside.processor().counters.switches);
            inside.leave();
        }
        self.shared.has_processor(self.carrier);
        if self.shared.gives_way(self.carrier) {
            // It has tasks left, should there be another processor.
            self.shared.want();
            return false;
        }
        !self.shared.stopping.load(Ordering::Relaxed)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn want(&self) {
        self.wanted.ask(self.pool.processors());
    }

    /// Somebody is ready to hear what happens to the others, and to go on with their processors.
    fn ready_one(self: &Arc<Self>) {
        let mut carriers = locked(&self.carriers);
        if carriers.iter().any(|(carrier, _)| carrier.notices.is_ready()) {
            return;
        }
        if let Some((_, thread)) = carriers.iter().find(|(carrier, _)| carrier.notices.call()) {
            return thread.iter().for_each(crate::park::Thread::unpark);
        }
        if self.stopping.load(Ordering::Relaxed) {
            return;
        }
        let thread = AtomicPtr::new(std::ptr::null_mut());
        let carrier = Arc::new(Carrier { id: carriers.len(), notices: Notices::new(), thread });
        let (shared, own) = (self.clone(), carrier.clone());
        let handle = self.pool.spawn(move || shared.live(&own));
        carriers.push((carrier, None));
        drop(carriers);
        locked(&self.handles).push(handle);
    }

    fn live(self: &Arc<Self>, me: &Carrier) {
        let thread = switching::current().map_or(std::ptr::null(), std::ptr::from_ref);
        // Release: pairs with `Carrier::on`.
        me.thread.store(thread.cast_mut(), Ordering::Release);
        locked(&self.carriers)[me.id].1 = Some(crate::current());
        let _life = Life(me);
        while !self.stopping.load(Ordering::Relaxed) {
            let found = self.tell_lost(me);
            if !found && self.others(me).iter().any(|other| other.comes()) {
                // Its token is in the queue, and this one hears of it when it blocks again.
                crate::yield_now();
                continue;
            }
            if found || self.wanted.take() {
                me.notices.work();
                let worked = catch_unwind(AssertUnwindSafe(|| {
                    self.ready_one();
                    self.executor.added(&Processor { shared: self, carrier: me });
                }));
                // By a panic or not: a loss that was told has its end.
                while !me.notices.rests_from_work() {
                    if !self.has_processor(me) {
                        crate::yield_now();
                    }
                }
                if let Err(panic) = worked {
                    resume_unwind(panic);
                }
                continue;
            }
            {
                // Under the lock: whoever asks has seen a ready one before, or sees an idle one after.
                let _carriers = locked(&self.carriers);
                if self.wanted.is_any() {
                    continue;
                }
                me.notices.rest();
            }
            while me.notices.is_idle() && !self.stopping.load(Ordering::Relaxed) {
                crate::park();
            }
        }
    }

    fn others(&self, me: &Carrier) -> Vec<Arc<Carrier>> {
        let carriers = locked(&self.carriers);
        carriers.iter().map(|(carrier, _)| carrier.clone()).filter(|carrier| carrier.id != me.id).collect()
    }

    /// Tells of those that have lost their processors since. True if there was one.
    fn tell_lost(&self, me: &Carrier) -> bool {
        let mut found = false;
        for other in self.others(me) {
            let is_without = || {
                let activation = other.is_without()?;
                Some(task_state(activation.tid.load(Ordering::Relaxed)) == TaskState::Running)
            };
            found |= other.notices.tell(is_without, |computes| {
                self.lost.fetch_add(1, Ordering::Relaxed);
                if computes {
                    self.executor.preempted(ActivationId(other.id));
                } else {
                    self.executor.blocked(ActivationId(other.id));
                }
            });
        }
        found
    }

    /// The caller has a processor. True if it had lost one, and that is over.
    fn has_processor(self: &Arc<Self>, me: &Carrier) -> bool {
        let was_lost = me.notices.comes_back(|| self.executor.unblocked(ActivationId(me.id)));
        if was_lost {
            self.lost.fetch_sub(1, Ordering::Relaxed);
            self.ready_one();
        }
        was_lost
    }

    /// Whether the caller's processor is for another one that has come back, of which it tells.
    fn gives_way(&self, me: &Carrier) -> bool {
        if self.lost.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let unblocked = |other: &Carrier| self.executor.unblocked(ActivationId(other.id));
        self.others(me).iter().any(|other| other.notices.give_way(|| other.waits(), || unblocked(other)))
    }

    /// True if a carrier has panicked.
    fn end(&self) -> bool {
        self.stopping.store(true, Ordering::Relaxed);
        let mut panicked = false;
        loop {
            let handles = std::mem::take(&mut *locked(&self.handles));
            if handles.is_empty() {
                return panicked;
            }
            locked(&self.carriers)
                .iter()
                .filter_map(|(_, thread)| thread.as_ref())
                .for_each(crate::park::Thread::unpark);
            for handle in handles {
                panicked |= handle.join().is_err();
            }
        }
    }
}
