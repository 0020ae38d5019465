//! Scoped kernel threads, joined by their handles: `std::thread::scope` waits for its threads inside the standard
//! library, where ThreadSanitizer does not see it, and would report what they did as concurrent with what follows.
#![allow(dead_code)] // Each test file uses its part.

use std::cell::RefCell;
use std::thread::{Scope, ScopedJoinHandle};

/// A scope that joins what it spawned.
pub struct Joining<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
    joins: RefCell<Vec<Box<dyn FnOnce() + 'scope>>>,
}

impl<'scope, 'env> Joining<'scope, 'env> {
    /// A thread that is joined at the end of the scope; its panic is passed on.
    pub fn spawn<T: Send + 'scope>(&self, body: impl FnOnce() -> T + Send + 'scope) {
        let thread = self.handle(body);
        self.joins.borrow_mut().push(Box::new(move || match thread.join() {
            Ok(_) => {}
            Err(panic) => std::panic::resume_unwind(panic),
        }));
    }

    /// A thread that the caller joins.
    #[must_use = "join it"]
    pub fn handle<T: Send + 'scope>(&self, body: impl FnOnce() -> T + Send + 'scope) -> ScopedJoinHandle<'scope, T> {
        self.scope.spawn(body)
    }
}

/// As `std::thread::scope`.
pub fn scope<'env, T>(body: impl for<'scope> FnOnce(&Joining<'scope, 'env>) -> T) -> T {
    std::thread::scope(|scope| {
        let joining = Joining { scope, joins: RefCell::default() };
        let result = body(&joining);
        joining.joins.take().into_iter().for_each(|join| join());
        result
    })
}
