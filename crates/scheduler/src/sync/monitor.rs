//! Monitors: data that one thread at a time is inside of, and waiting inside for a condition *on the data*.
//!
//! Source: the exclusive regions and `AWAIT` of Active Oberon, on which the lock-free scheduler's programs are built
//! (Negele et al., *On the Design and Implementation of an Efficient Lock-Free Scheduler*, section 5). Nobody notifies:
//! whoever leaves, by dropping its guard or by waiting, looks whose condition has come true and hands the monitor to
//! the one that has waited longest among them. As the monitor is handed over (C. A. R. Hoare, *Monitors: An Operating
//! System Structuring Concept*, 1974), the condition still holds when the thread goes on, and those that wait inside
//! come before those that enter.
//!
//! Conditions are evaluated by other threads, so they are `Fn(&T) -> bool + Sync`, and they cost the one who leaves:
//! for many conditions that rarely change, [`super::Condvar`] is cheaper. One that panics wakes its thread, which
//! evaluates it itself.
//!
//! Invariants:
//! - I1: the list of conditions is accessed only by the thread inside.
//! - I2: a condition in the list is alive: its thread is in `wait_until`, and leaves it only after it was taken out of
//!   the list, by whoever granted it the monitor, or by itself, inside.
//!
//! Progress: as [`super::Mutex`].
//!
//! # Example
//! ```
//! # use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! # type Monitor<T> = raddle_scheduler::sync::Monitor<T, KernelThreads>;
//! static STOCK: Monitor<u32> = Monitor::new(0);
//! let consumer = std::thread::spawn(|| {
//!     let mut stock = STOCK.enter().unwrap();
//!     stock.wait_until(|stock| *stock >= 3);
//!     *stock -= 3;
//! });
//! for _ in 0..3 {
//!     *STOCK.enter().unwrap() += 1;
//! }
//! consumer.join().unwrap();
//! assert_eq!(*STOCK.enter().unwrap(), 0);
//! ```

use super::mutex::RawMutex;
use super::{LockResult, Patience, PoisonError, WaitError};
use crate::discard::discard;
use crate::runtime::{Runtime, Waited, wait_until};
use crate::thread::{Epoch, Thread, Wake};
use core::time::Duration;
use raddle_machine::Real;
use std::cell::{Cell, UnsafeCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A condition, the lifetime of which is forgotten (I2).
type Condition<T> = *const (dyn Fn(&T) -> bool + Sync);

struct Waiting<T, R: Runtime> {
    thread: &'static Thread<R::Machine>,
    epoch: Epoch,
    condition: Condition<T>,
}

/// See the module.
pub struct Monitor<T, R: Runtime> {
    raw: RawMutex<R>,
    waiting: UnsafeCell<VecDeque<Waiting<T, R>>>,
    data: UnsafeCell<T>,
}

// SAFETY: the data is reached by the thread inside only, and by conditions that it evaluates; conditions are Sync. The
// list is the monitor's own.
unsafe impl<T: Send, R: Runtime> Send for Monitor<T, R> {}
// SAFETY: shared, it lets one inside at a time, of any thread: T: Send.
unsafe impl<T: Send, R: Runtime> Sync for Monitor<T, R> {}

impl<T, R: Runtime> std::panic::UnwindSafe for Monitor<T, R> {}
impl<T, R: Runtime> std::panic::RefUnwindSafe for Monitor<T, R> {}

impl<T, R: Runtime<Machine = Real>> Monitor<T, R> {
    /// Nobody inside.
    pub const fn new(value: T) -> Self {
        Self { raw: RawMutex::new(), waiting: UnsafeCell::new(VecDeque::new()), data: UnsafeCell::new(value) }
    }
}

impl<T, R: Runtime> Monitor<T, R> {
    /// Nobody inside, on any machine.
    pub fn with_value(value: T) -> Self {
        Self { raw: RawMutex::default(), waiting: UnsafeCell::new(VecDeque::new()), data: UnsafeCell::new(value) }
    }

    fn guard(&self, poisoned: bool) -> LockResult<MonitorGuard<'_, T, R>> {
        let guard = MonitorGuard { monitor: self, was_panicking: raddle_machine::panicking(), not_send: PhantomData };
        if poisoned { Err(PoisonError::new(guard)) } else { Ok(guard) }
    }

    /// Waits until nobody is inside, and goes in. Masked from cancellation.
    ///
    /// # Errors
    /// If a thread panicked inside; the guard is in the error.
    ///
    /// # Panics
    /// If the calling thread is inside.
    pub fn enter(&self) -> LockResult<MonitorGuard<'_, T, R>> {
        self.guard(self.raw.lock_masked())
    }

    /// As [`Monitor::enter`], until the thread is cancelled.
    ///
    /// # Errors
    /// If the thread was cancelled; inside, as for [`Monitor::enter`].
    pub fn enter_cancellable(&self) -> Result<LockResult<MonitorGuard<'_, T, R>>, WaitError> {
        Ok(self.guard(self.raw.lock(Patience::CANCELLABLE)?))
    }

    /// True if a thread panicked inside.
    pub fn is_poisoned(&self) -> bool {
        self.raw.is_poisoned()
    }

    /// Declares the data sound again.
    pub fn clear_poison(&self) {
        self.raw.clear_poison();
    }

    /// The value, by taking the monitor apart.
    pub fn into_inner(self) -> LockResult<T> {
        let poisoned = self.is_poisoned();
        let value = self.data.into_inner();
        if poisoned { Err(PoisonError::new(value)) } else { Ok(value) }
    }

    /// Leaves: to the first thread whose condition holds, or to whoever comes.
    ///
    /// # Safety
    /// The calling thread is inside and holds no reference to the data or the list.
    unsafe fn leave(&self, poison: bool) {
        if poison {
            self.raw.poison();
        }
        let mut from = 0;
        // SAFETY: the caller is inside.
        while let Some(next) = unsafe { self.heir(from) } {
            // A wait that has just ended otherwise does not take the grant: go on with the next.
            from = next;
            // SAFETY: as above; nothing is touched after a grant.
            if unsafe { self.grant(next) } {
                return;
            }
        }
        // SAFETY: the caller is inside.
        unsafe { self.raw.unlock(false) };
    }

    /// The place of the first thread, from `from` on, whose condition holds. Calls code of the program, which may wait:
    /// so not between the beginning of a wait and its end.
    ///
    /// # Safety
    /// The calling thread is inside and holds no reference to the list, and no `&mut` to the data.
    unsafe fn heir(&self, from: usize) -> Option<usize> {
        let mut at = from;
        loop {
            // SAFETY: the caller is inside, so it has the list to itself (I1); the reference ends with the statement.
            let condition = unsafe { &*self.waiting.get() }.get(at)?.condition;
            // SAFETY: inside, with no `&mut` to the data; conditions in the list are alive (I2).
            if unsafe { evaluate(&*condition, &*self.data.get()) } {
                return Some(at);
            }
            at += 1;
        }
    }

    /// Takes the thread at `place` out of the list and hands it the monitor; false if it waits no more.
    ///
    /// # Safety
    /// The calling thread is inside and holds no reference to the list. If this returns true, it is not inside any
    /// more.
    unsafe fn grant(&self, place: usize) -> bool {
        // SAFETY: the caller is inside (I1); the reference ends with the statement.
        let entry = unsafe { &mut *self.waiting.get() }.remove(place);
        // SAFETY: the caller is inside. Point of no return: nothing is touched after a grant.
        entry.is_some_and(|Waiting { thread, epoch, .. }| unsafe { self.raw.grant_to(thread, epoch) })
    }
}

/// True if the condition holds, or panics: then its own thread shall see to it.
fn evaluate<T>(condition: &dyn Fn(&T) -> bool, data: &T) -> bool {
    catch_unwind(AssertUnwindSafe(|| condition(data))).unwrap_or_else(|payload| {
        discard(payload);
        true
    })
}

/// The right to be inside; leaves when it is dropped.
#[must_use = "dropping the guard leaves the monitor at once"]
pub struct MonitorGuard<'a, T, R: Runtime> {
    monitor: &'a Monitor<T, R>,
    was_panicking: bool,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives `&T` only.
unsafe impl<T: Sync, R: Runtime> Sync for MonitorGuard<'_, T, R> {}

impl<T, R: Runtime> MonitorGuard<'_, T, R> {
    /// Leaves, waits until `condition` holds, and is inside again. Masked from cancellation. That another thread
    /// panicked inside meanwhile shows in [`Monitor::is_poisoned`].
    pub fn wait_until(&mut self, condition: impl Fn(&T) -> bool + Sync) {
        self.wait_patiently(&condition, Patience::MASKED).expect("a masked wait without a deadline ended early");
    }

    /// As [`MonitorGuard::wait_until`], at most so long, or until the thread is cancelled. Inside again in any case.
    ///
    /// # Errors
    /// If `condition` does not hold.
    pub fn wait_until_timeout(
        &mut self,
        condition: impl Fn(&T) -> bool + Sync,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        self.wait_patiently(&condition, Patience::timeout::<R::Machine>(timeout))
    }

    /// As [`MonitorGuard::wait_until`], until the thread is cancelled. Inside again in any case.
    ///
    /// # Errors
    /// If `condition` does not hold.
    pub fn wait_until_cancellable(&mut self, condition: impl Fn(&T) -> bool + Sync) -> Result<(), WaitError> {
        self.wait_patiently(&condition, Patience::CANCELLABLE)
    }

    fn wait_patiently(&mut self, condition: &(dyn Fn(&T) -> bool + Sync), patience: Patience) -> Result<(), WaitError> {
        while !condition(self) {
            let ended = self.wait_once(condition, patience);
            match ended {
                Waited::Woken(Wake::TimedOut) if !condition(self) => return Err(WaitError::TimedOut),
                Waited::Woken(Wake::Cancelled) if !condition(self) => return Err(WaitError::Cancelled),
                _ => {}
            }
        }
        Ok(())
    }

    fn wait_once(&mut self, condition: &(dyn Fn(&T) -> bool + Sync), patience: Patience) -> Waited {
        let monitor = self.monitor;
        let published = Cell::new(None);
        let left = Cell::new(false);
        // SAFETY: only the lifetime changes; the entry is gone from the list before this function returns (I2).
        let condition = unsafe { std::mem::transmute::<&(dyn Fn(&T) -> bool + Sync), Condition<T>>(condition) };
        let publish = |thread, epoch| {
            // SAFETY: inside (I1).
            let waiting = unsafe { &mut *monitor.waiting.get() };
            if waiting.try_reserve(1).is_ok() {
                waiting.push_back(Waiting { thread, epoch, condition });
                published.set(Some(epoch));
            }
        };
        // Asked before the wait begins, which is no place for the conditions' own waits; inside, nothing changes until
        // then.
        // SAFETY: inside, with no reference to data and list.
        let heir = unsafe { monitor.heir(0) };
        let ready = || {
            if published.get().is_some() {
                // SAFETY: inside, and `self` is not used before it is inside again.
                unsafe {
                    left.set(heir.is_none_or(|place| monitor.grant(place)));
                    if heir.is_none() {
                        monitor.raw.unlock(false);
                    }
                }
            }
            // An heir that waits no more: look for another one.
            !left.get()
        };
        // SAFETY: the list is private to the monitor, which claims the epochs that it finds there.
        let waited = unsafe { wait_until::<R>(patience.deadline, patience.cancellable, publish, ready) };
        match waited {
            Waited::Woken(Wake::Granted) => drop(monitor.raw.accept_grant()),
            _ => {
                if left.get() {
                    monitor.raw.lock_masked();
                }
                if let Some(epoch) = published.get() {
                    // SAFETY: compared only.
                    let me = unsafe { R::current() };
                    // SAFETY: inside (I1).
                    let waiting = unsafe { &mut *monitor.waiting.get() };
                    waiting.retain(|entry| entry.epoch != epoch || !std::ptr::eq(entry.thread, me));
                } else if waited == Waited::Retry {
                    // No memory to wait in: let others in, and ask again.
                    // SAFETY: inside, and `self` is not used before it is inside again.
                    unsafe { monitor.leave(false) };
                    R::yield_now();
                    monitor.raw.lock_masked();
                }
            }
        }
        waited
    }
}

impl<T, R: Runtime> Deref for MonitorGuard<'_, T, R> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard's thread is inside.
        unsafe { &*self.monitor.data.get() }
    }
}

impl<T, R: Runtime> DerefMut for MonitorGuard<'_, T, R> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard's thread is inside, and `&mut self` makes this the only way to the data.
        unsafe { &mut *self.monitor.data.get() }
    }
}

impl<T, R: Runtime> Drop for MonitorGuard<'_, T, R> {
    fn drop(&mut self) {
        let poisons = !self.was_panicking && raddle_machine::panicking();
        // SAFETY: the guard's thread is inside, and the guard ends here.
        unsafe { self.monitor.leave(poisons) };
    }
}
