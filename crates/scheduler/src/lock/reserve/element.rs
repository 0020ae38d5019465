//! An element of a [`super::ReserveMap`], and who covers those that wait for it.

use super::names::Names;
use super::{Reservation, Waits};
use raddle_machine::Machine;
use std::cell::UnsafeCell;
use std::sync::Arc;

pub(super) type World<W> = <W as Waits>::Machine;

pub(super) struct Element<V, M: Machine> {
    pub(super) reservation: Reservation<M>,
    /// Who holds it, to find out who waits for itself.
    pub(super) names: Names<M>,
    pub(super) value: UnsafeCell<Option<V>>,
}

impl<V, M: Machine> Element<V, M> {
    pub(super) fn new(reservation: Reservation<M>, value: Option<V>) -> Arc<Self> {
        Arc::new(Self { reservation, names: Names::new(), value: UnsafeCell::new(value) })
    }
}

// SAFETY: the value is used under reservations (I1): by one alone, or by many for reading.
unsafe impl<V: Send + Sync, M: Machine> Sync for Element<V, M> {}
// SAFETY: an element that goes elsewhere takes its value along, which is Send.
unsafe impl<V: Send + Sync, M: Machine> Send for Element<V, M> {}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Exclusive,
    Shared,
}

/// The element for which the caller has waited, while it covers the others who do (I2 of [`super`]).
pub(super) struct Covered<'a, V, W: Waits> {
    waits: &'a W,
    element: Option<Arc<Element<V, World<W>>>>,
}

impl<'a, V, W: Waits> Covered<'a, V, W> {
    /// The caller has not waited.
    pub(super) fn new(waits: &'a W) -> Self {
        Self { waits, element: None }
    }

    /// True if the caller covers who waits for this one.
    pub(super) fn is(&self, element: &Arc<Element<V, World<W>>>) -> bool {
        self.element.as_ref().is_some_and(|covered| Arc::ptr_eq(covered, element))
    }

    /// The caller has marked this one, to wait for it; another one is out of the map.
    pub(super) fn waits_for(&mut self, element: &Arc<Element<V, World<W>>>) {
        if self.is(element) {
            self.element = None;
        }
        self.gone();
    }

    /// The caller has waited for this one.
    pub(super) fn has_waited(&mut self, element: Arc<Element<V, World<W>>>) {
        self.element = W::MARKS.then_some(element);
    }

    /// The caller has this one.
    pub(super) fn has(&mut self, element: &Arc<Element<V, World<W>>>, kind: Kind) {
        if self.is(element) {
            self.element = None;
            if kind == Kind::Shared {
                element.reservation.pass_on(self.waits);
            }
        }
    }

    /// Nobody finds it any more: all who wait for it search again.
    fn gone(&mut self) {
        if let Some(element) = self.element.take() {
            element.reservation.wake_all(self.waits);
        }
    }
}

impl<V, W: Waits> Drop for Covered<'_, V, W> {
    fn drop(&mut self) {
        self.gone();
    }
}
