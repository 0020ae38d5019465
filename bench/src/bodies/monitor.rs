//! A semaphore and a bounded buffer as monitors, for runtimes whose library has neither.

use super::Api;
use std::collections::VecDeque;

/// A counting semaphore made of a lock and a condition variable.
pub struct MonitorSemaphore<A: Api> {
    permits: A::Mutex<usize>,
    released: A::Condvar,
}

impl<A: Api> MonitorSemaphore<A> {
    /// A semaphore with so many permits.
    pub fn new(permits: usize) -> Self {
        MonitorSemaphore { permits: A::mutex(permits), released: A::condvar() }
    }

    /// Takes a permit, waiting while there is none.
    pub fn acquire(&self) {
        let mut permits = A::lock(&self.permits);
        while *permits == 0 {
            permits = A::wait(&self.released, permits);
        }
        *permits -= 1;
    }

    /// Gives a permit back.
    pub fn release(&self) {
        *A::lock(&self.permits) += 1;
        A::notify_one(&self.released);
    }
}

/// A bounded buffer made of a lock and two condition variables.
pub struct MonitorBuffer<A: Api, T: Send + 'static> {
    values: A::Mutex<VecDeque<T>>,
    slots: usize,
    not_full: A::Condvar,
    not_empty: A::Condvar,
}

impl<A: Api, T: Send + 'static> MonitorBuffer<A, T> {
    /// A buffer that holds at most `slots` values.
    pub fn new(slots: usize) -> Self {
        MonitorBuffer {
            values: A::mutex(VecDeque::with_capacity(slots)),
            slots,
            not_full: A::condvar(),
            not_empty: A::condvar(),
        }
    }

    /// Puts a value in, waiting while the buffer is full.
    pub fn put(&self, value: T) {
        let mut values = A::lock(&self.values);
        while values.len() == self.slots {
            values = A::wait(&self.not_full, values);
        }
        values.push_back(value);
        drop(values);
        A::notify_one(&self.not_empty);
    }

    /// Takes a value out, waiting while the buffer is empty.
    pub fn take(&self) -> T {
        let mut values = A::lock(&self.values);
        let value = loop {
            match values.pop_front() {
                Some(value) => break value,
                None => values = A::wait(&self.not_empty, values),
            }
        };
        drop(values);
        A::notify_one(&self.not_full);
        value
    }
}
