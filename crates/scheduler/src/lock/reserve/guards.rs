//! The rights to elements of a [`super::ReserveMap`].

use super::Waits;
use super::element::{Element, Kind, World};
use super::names::Place;
#[cfg(debug_assertions)]
use super::order::Leaves;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A reservation, which ends when this is dropped.
pub(super) struct Held<'a, V, W: Waits> {
    pub(super) element: Arc<Element<V, World<W>>>,
    pub(super) kind: Kind,
    /// Where the name of who took it stands, if it has one.
    pub(super) place: Option<Place>,
    pub(super) waits: &'a W,
    /// Its class, in an order, and who took it.
    #[cfg(debug_assertions)]
    pub(super) entered: Option<(&'a dyn Leaves, usize)>,
}

impl<V, W: Waits> Held<'_, V, W> {
    /// False for a place-holder that its maker could not take out.
    pub(super) fn has_value(&self) -> bool {
        // SAFETY: reserved, alone or for reading (I1).
        unsafe { &*self.element.value.get() }.is_some()
    }

    fn value(&self) -> &V {
        // SAFETY: reserved, alone or for reading (I1).
        let value = unsafe { &*self.element.value.get() };
        value.as_ref().unwrap_or_else(|| unreachable!("what can be found has a value, or is reserved (I2)"))
    }
}

impl<V, W: Waits> Drop for Held<'_, V, W> {
    fn drop(&mut self) {
        #[cfg(debug_assertions)]
        if let Some((class, thread)) = self.entered {
            class.leave(thread);
        }
        // A name goes before what it stands for.
        if let Some(place) = &self.place {
            self.element.names.leave(place);
        }
        match self.kind {
            Kind::Exclusive => self.element.reservation.end_exclusive(self.waits),
            Kind::Shared => self.element.reservation.end_shared(self.waits),
        }
    }
}

/// The right to use an element alone; dropping it ends the reservation.
#[must_use = "dropping it ends the reservation at once"]
pub struct Reserved<'a, V, W: Waits>(pub(super) Held<'a, V, W>);

impl<'a, V, W: Waits> Reserved<'a, V, W> {
    /// Goes on as a reader, together with others.
    pub fn downgrade(mut self) -> Shared<'a, V, W> {
        self.0.kind = Kind::Shared;
        self.0.element.reservation.downgrade(self.0.waits);
        Shared(self.0)
    }
}

impl<V, W: Waits> Deref for Reserved<'_, V, W> {
    type Target = V;
    fn deref(&self) -> &V {
        self.0.value()
    }
}

impl<V, W: Waits> DerefMut for Reserved<'_, V, W> {
    fn deref_mut(&mut self) -> &mut V {
        // SAFETY: reserved alone (I1), and `&mut self` is the only way to it.
        let value = unsafe { &mut *self.0.element.value.get() };
        value.as_mut().unwrap_or_else(|| unreachable!("what can be found has a value, or is reserved (I2)"))
    }
}

/// The right to read an element; dropping it ends the reservation.
#[must_use = "dropping it ends the reservation at once"]
pub struct Shared<'a, V, W: Waits>(pub(super) Held<'a, V, W>);

impl<V, W: Waits> Deref for Shared<'_, V, W> {
    type Target = V;
    fn deref(&self) -> &V {
        self.0.value()
    }
}
