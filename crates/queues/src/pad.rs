//! Spacing that keeps words of different writers out of one another's cache lines.

use std::ops::Deref;

/// A value alone on its pair of cache lines (128 bytes: x86 prefetches lines in pairs, some aarch64 lines are that
/// long).
///
/// # Example
/// ```
/// use raddle_queues::pad::Padded;
/// assert_eq!(std::mem::align_of_val(&Padded(1u8)), 128);
/// assert_eq!(*Padded(7), 7);
/// ```
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
