//! An order among classes of elements, checked where assertions are compiled in.
//!
//! Source: Unrau et al., section 2.3: reservations are held long, and across classes of elements, so a dead-lock is
//! kept out by an order of the classes; who meets a reservation against the order gives up what it has and tries again
//! ([`super::optimistic`], [`super::ReserveMap::reserve_all`]).
//!
//! Rule: who holds an element may call what waits for elements of later classes alone, in all maps that are in the
//! order. To *try* needs no order. A call against the rule panics at once, whether or not anybody is in the way that
//! time; so a test finds it that never meets the dead-lock. A guard counts for the thread that took it, wherever it is
//! dropped.
//!
//! Without assertions nothing is kept and nothing is checked.
//!
//! # Example
//! ```
//! use raddle_scheduler::lock::{Barging, Order, Parking, ReserveMap};
//! use raddle_scheduler::sync::kernel_threads::KernelThreads;
//! use std::sync::Arc;
//! type Map = ReserveMap<u32, u32, Barging<KernelThreads>, Parking<KernelThreads>>;
//! let order = Arc::new(Order::new());
//! let (programs, pages) = (Map::new().in_order(&order, 1), Map::new().in_order(&order, 2));
//! programs.insert(0, 0);
//! pages.insert(0, 0);
//! let program = programs.reserve(&0);
//! // In order: a page after its program. The other way round it would have to be tried.
//! let page = pages.reserve(&0);
//! drop((program, page));
//! let page = pages.reserve(&0);
//! assert!(programs.try_reserve(&0).is_ok());
//! ```

use crate::lock::Algorithm;
use raddle_machine::Machine;

#[cfg(debug_assertions)]
use crate::lock::Lock;
#[cfg(debug_assertions)]
use std::collections::HashMap;

/// See the module.
pub struct Order<A, M> {
    /// The classes that threads hold elements of, by what the waits call a thread.
    #[cfg(debug_assertions)]
    held: Lock<HashMap<usize, Vec<u32>>, A, M>,
    #[cfg(not(debug_assertions))]
    nothing: std::marker::PhantomData<fn() -> (A, M)>,
}

impl<A: Algorithm<M>, M: Machine> Order<A, M> {
    /// In which nothing is held.
    pub fn new() -> Self {
        Self {
            #[cfg(debug_assertions)]
            held: Lock::new(HashMap::new()),
            #[cfg(not(debug_assertions))]
            nothing: std::marker::PhantomData,
        }
    }
}

impl<A: Algorithm<M>, M: Machine> Default for Order<A, M> {
    fn default() -> Self {
        Self::new()
    }
}

/// A map's place in an order.
#[cfg(debug_assertions)]
pub(super) struct Class<A, M> {
    order: std::sync::Arc<Order<A, M>>,
    number: u32,
}

#[cfg(debug_assertions)]
impl<A: Algorithm<M>, M: Machine> Class<A, M> {
    pub(super) fn new(order: std::sync::Arc<Order<A, M>>, number: u32) -> Self {
        Self { order, number }
    }

    /// # Panics
    /// If the thread holds an element of the same class or a later one.
    pub(super) fn assert_may_wait(&self, thread: usize) {
        let latest = self.order.held.with(|held| held.get(&thread).and_then(|classes| classes.iter().max().copied()));
        if let Some(latest) = latest.filter(|latest| *latest >= self.number) {
            panic!(
                "a thread waits for an element of class {} while it holds one of class {latest}: others may come the \
                 other way; reserve in the order of the classes, or try, and give up what is held (`reserve_all`)",
                self.number
            );
        }
    }
}

/// Told when an element has been given back.
#[cfg(debug_assertions)]
pub(super) trait Leaves: Send + Sync {
    fn enter(&self, thread: usize);
    fn leave(&self, thread: usize);
}

#[cfg(debug_assertions)]
impl<A: Algorithm<M>, M: Machine> Leaves for Class<A, M> {
    fn enter(&self, thread: usize) {
        self.order.held.with(|held| held.entry(thread).or_default().push(self.number));
    }

    fn leave(&self, thread: usize) {
        self.order.held.with(|held| {
            let Some(classes) = held.get_mut(&thread) else { return };
            if let Some(at) = classes.iter().position(|class| *class == self.number) {
                classes.swap_remove(at);
            }
            if classes.is_empty() {
                held.remove(&thread);
            }
        });
    }
}
