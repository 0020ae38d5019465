//! What the interleaving tests share: exploring, comparing outcomes, and items whose contents are watched.

#![allow(dead_code, reason = "each test takes what it needs")]

use loom::cell::UnsafeCell;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

/// Runs `body` in every interleaving (with at most `preemptions`, if given), and compares the set of its outcomes with
/// `expected`: an outcome that is never reached is as wrong as one that is not listed.
///
/// Outcomes are written as in Rust's debug output, so that lists of lists stay legible.
pub fn explore<T>(preemptions: Option<usize>, expected: &[&str], body: impl Fn() -> T + Send + Sync + 'static)
where
    T: Debug + 'static,
{
    let seen = Arc::new(Mutex::new(BTreeSet::new()));
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.max_branches = 20_000;
    let collect = seen.clone();
    model.check(move || {
        let outcome = format!("{:?}", body());
        collect.lock().unwrap().insert(outcome);
    });
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let expected: BTreeSet<String> = expected.iter().map(ToString::to_string).collect();
    let missing: Vec<&String> = expected.difference(&seen).collect();
    let surplus: Vec<&String> = seen.difference(&expected).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "never reached: {missing:?}; not listed: {surplus:?}");
}

/// What handles name: item i's content is i, written by whoever pushes it, read by whoever takes it. Loom fails if the
/// writing does not happen before the reading, or if two take the same item.
#[derive(Clone)]
pub struct Items(Arc<Vec<UnsafeCell<usize>>>);

// SAFETY: loom watches each access to the cells.
unsafe impl Send for Items {}
// SAFETY: shared, each access is watched by loom as well.
unsafe impl Sync for Items {}

impl Items {
    /// Items 1 to `count`.
    #[allow(clippy::arc_with_non_send_sync, reason = "the type around it is Sync, and says why")]
    pub fn new(count: usize) -> Self {
        Self(Arc::new((0..=count).map(|_| UnsafeCell::new(0)).collect()))
    }

    /// Fills an item that is to be pushed.
    pub fn fill(&self, item: usize) -> usize {
        // SAFETY: the pusher has it alone; loom checks.
        self.0[item].with_mut(|content| unsafe { *content = item });
        item
    }

    /// Empties an item that was taken.
    pub fn empty(&self, item: usize) -> usize {
        // SAFETY: the taker has it alone; loom checks.
        self.0[item].with_mut(|content| unsafe { assert_eq!(std::mem::take(&mut *content), item, "taken twice") });
        item
    }

    /// All have been taken.
    pub fn all_taken(&self) {
        for (item, cell) in self.0.iter().enumerate() {
            // SAFETY: the others have been joined; loom checks.
            cell.with(|content| unsafe { assert_eq!(*content, 0, "item {item} is lost") });
        }
    }
}
