//! A bounded buffer of cells between two rings: the free cells and the full ones, in order.
//!
//! A sender takes a free cell, writes the message, puts the cell's number into the full ring; a receiver does it the
//! other way round. A cell belongs to whoever has taken its number out of a ring. A kernel thread frozen in between
//! holds that one cell: the others see a channel with one place less (sender) or go on receiving what came after it
//! (receiver).

use super::index_ring::IndexRing;
use raddle_machine::Machine;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;

pub(super) struct Buffer<T, M: Machine> {
    free: IndexRing<M>,
    full: IndexRing<M>,
    cells: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a cell is reached only by the thread that holds its number, and numbers pass through the rings with release
// and acquire; so messages need Send and no more.
unsafe impl<T: Send, M: Machine> Sync for Buffer<T, M> {}
// SAFETY: messages go with the buffer: T: Send; the rest is atomics.
unsafe impl<T: Send, M: Machine> Send for Buffer<T, M> {}

impl<T, M: Machine> Buffer<T, M> {
    /// `capacity` is not 0 and fits an index. (One of 1 works, but [`super::single`] is quicker.)
    pub fn new(capacity: usize) -> Self {
        Self {
            free: IndexRing::new(capacity, capacity),
            full: IndexRing::new(capacity, 0),
            cells: (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
        }
    }

    /// Adds a message; gives it back when there is no place.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let Some(number) = self.free.dequeue() else { return Err(value) };
        // SAFETY: this call took the number out of the free ring, so the cell is its own, and holds no message.
        unsafe { (*self.cells[number as usize].get()).write(value) };
        self.full.enqueue(number);
        Ok(())
    }

    /// Takes the oldest message.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        self.full.dequeue().map(|number| self.take(number))
    }

    fn take(&self, number: u32) -> T {
        // SAFETY: the caller took the number out of the full ring, so the cell is its own, and a sender has written it.
        let value = unsafe { (*self.cells[number as usize].get()).assume_init_read() };
        self.free.enqueue(number);
        value
    }

    pub fn is_empty(&self) -> bool {
        self.full.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    pub fn len(&self) -> usize {
        self.full.len()
    }

    pub fn capacity(&self) -> usize {
        self.cells.len()
    }
}

impl<T, M: Machine> Drop for Buffer<T, M> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
