//! A value that is made when it is first used.

use super::{Mutex, OnceLock};
use raddle_scheduler::code_of_program;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// As [`std::sync::LazyLock`]: who comes while the value is made waits, and its processor runs others.
///
/// ```
/// use raddle::sync::LazyLock;
/// static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| vec!["raddle".to_string()]);
/// let pool = raddle::Builder::new().processors(2).build().unwrap();
/// pool.run(|| {
///     let threads: Vec<_> = (0..10).map(|_| raddle::spawn(|| NAMES[0].len())).collect();
///     assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 6));
/// });
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    make: Mutex<Option<F>>,
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// A value that `make` makes.
    pub const fn new(make: F) -> Self {
        Self { value: OnceLock::new(), make: Mutex::new(Some(make)) }
    }

    /// The value, made now if it is not there.
    ///
    /// # Panics
    /// If `make` panicked, now or at an earlier use.
    pub fn force(this: &Self) -> &T {
        this.value.get_or_init(|| {
            let make = this.make.lock().unwrap_or_else(super::PoisonError::into_inner).take();
            code_of_program::call(make.expect("what makes the value of this LazyLock has panicked before"))
        })
    }

    /// As [`LazyLock::force`], to change it.
    ///
    /// # Panics
    /// As [`LazyLock::force`].
    pub fn force_mut(this: &mut Self) -> &mut T {
        Self::force(this);
        this.value.get_mut().expect("just made")
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been made.
    pub fn get(this: &Self) -> Option<&T> {
        this.value.get()
    }

    /// The value, to change it, if it has been made.
    pub fn get_mut(this: &mut Self) -> Option<&mut T> {
        this.value.get_mut()
    }
}

impl<T, F: FnOnce() -> T> DerefMut for LazyLock<T, F> {
    fn deref_mut(&mut self) -> &mut T {
        Self::force_mut(self)
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;
    fn deref(&self) -> &T {
        Self::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.get() {
            Some(value) => f.debug_tuple("LazyLock").field(value).finish(),
            None => f.write_str("LazyLock(<not made yet>)"),
        }
    }
}
