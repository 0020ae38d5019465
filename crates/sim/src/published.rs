//! Plain data that coroutines hand to each other, watched.

use crate::clock::Clock;
use crate::execution::{current, is_after, name_of, stamp};
use std::cell::RefCell;

/// A value that must not be raced for: whoever reads it must come after its last writing, and whoever writes it after
/// its last writing and all readings since, in the happens-before relation; otherwise the coroutine panics. So a queue
/// that hands it over with too weak an ordering is found, although every execution here is sequentially consistent.
#[derive(Debug)]
pub struct Published<T>(RefCell<Inner<T>>);

#[derive(Debug)]
struct Inner<T> {
    value: T,
    writer: Option<usize>,
    written: Clock,
    reads: Vec<(Option<usize>, Clock)>,
}

impl<T> Published<T> {
    /// A value that the caller has written.
    pub fn new(value: T) -> Self {
        Self(RefCell::new(Inner { value, writer: current(), written: stamp(), reads: Vec::new() }))
    }

    /// Reads it.
    ///
    /// # Panics
    /// If its writing does not happen before.
    #[track_caller]
    pub fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let mut inner = self.0.borrow_mut();
        inner.check_writing("read");
        let me = current();
        let now = stamp();
        inner.reads.retain(|(reader, _)| *reader != me);
        inner.reads.push((me, now));
        read(&inner.value)
    }

    /// Writes it.
    ///
    /// # Panics
    /// If its last writing, or a reading since, does not happen before.
    #[track_caller]
    pub fn with_mut<R>(&self, write: impl FnOnce(&mut T) -> R) -> R {
        let mut inner = self.0.borrow_mut();
        inner.check_writing("written");
        let unordered = inner.reads.iter().find(|(_, read)| !is_after(read)).map(|(reader, _)| *reader);
        if let Some(reader) = unordered {
            panic!("unordered: written without a happens-before from its reading by {}", who(reader));
        }
        inner.reads.clear();
        inner.writer = current();
        inner.written = stamp();
        write(&mut inner.value)
    }
}

impl<T> Inner<T> {
    #[track_caller]
    fn check_writing(&self, how: &str) {
        if !is_after(&self.written) {
            panic!("unordered: {how} without a happens-before from its writing by {}", who(self.writer));
        }
    }
}

fn who(core: Option<usize>) -> String {
    core.map_or_else(|| "the setup".to_string(), |core| format!("`{}`", name_of(core)))
}
