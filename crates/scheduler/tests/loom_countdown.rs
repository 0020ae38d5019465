//! The end of a scope in all interleavings: its owner goes on only when all threads have finished, is not left asleep
//! then, and no other wait of its is ended.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Model, Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::countdown::{Countdown, LIMIT};
use raddle_scheduler::runtime::{self, Waited, wait_until};
use raddle_scheduler::{Runtime, Thread, Wake};

struct Scope {
    count: Countdown<Model>,
    /// What each thread borrows.
    borrowed: [Watched; 2],
}

fn scope() -> Arc<Scope> {
    Arc::new(Scope { count: Countdown::new(), borrowed: [Watched::new(), Watched::new()] })
}

fn me() -> &'static Thread<Loom> {
    // SAFETY: given to those who finish, and to who cancels.
    unsafe { Model::current() }
}

/// A thread of the scope that uses what it borrows.
fn spawn(scope: &Arc<Scope>, which: usize) -> thread::JoinHandle<()> {
    assert!(scope.count.add(LIMIT));
    let (scope, owner) = (scope.clone(), me());
    thread::spawn(move || {
        scope.borrowed[which].add();
        // SAFETY: the owner's record, once for what was added.
        unsafe { scope.count.finish(owner) };
    })
}

/// The owner at the end of the scope: what was borrowed is its own again.
fn end(scope: &Scope, threads: usize) {
    // SAFETY: called by the owner.
    unsafe { scope.count.wait() };
    assert!(scope.count.is_over());
    scope.borrowed[..threads].iter().for_each(|borrowed| assert_eq!(borrowed.add(), 2));
}

#[test]
fn the_owner_goes_on_when_all_have_finished() {
    explore(3, &["()"], || {
        let scope = scope();
        let threads = [spawn(&scope, 0), spawn(&scope, 1)];
        end(&scope, 2);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_cancellation_of_the_owner_does_not_end_its_scope() {
    explore(3, &["()"], || {
        let scope = scope();
        let owner = me();
        let canceller = thread::spawn(move || runtime::cancel::<Model>(owner));
        let thread = spawn(&scope, 0);
        end(&scope, 1);
        thread.join().unwrap();
        canceller.join().unwrap();
    });
}

#[test]
fn who_finishes_last_ends_no_other_wait_of_the_owner() {
    explore(3, &["Retry"], || {
        let scope = scope();
        let thread = spawn(&scope, 0);
        end(&scope, 1);
        let joined = std::cell::Cell::new(Some(thread));
        // The owner's next wait, which it ends itself once the other has done all.
        let ready = || joined.take().is_some_and(|thread| thread.join().is_ok());
        // SAFETY: published nowhere.
        let waited = unsafe { wait_until::<Model>(None, false, |_, _| {}, ready) };
        assert_ne!(waited, Waited::Woken(Wake::Signalled), "somebody else's wake-up");
        waited
    });
}

#[test]
fn a_thread_of_the_scope_may_add_another() {
    explore(2, &["()"], || {
        let scope = scope();
        let owner = me();
        assert!(scope.count.add(LIMIT));
        let first = {
            let scope = scope.clone();
            thread::spawn(move || {
                assert!(scope.count.add(LIMIT));
                let second = {
                    let scope = scope.clone();
                    thread::spawn(move || {
                        scope.borrowed[1].add();
                        // SAFETY: the owner's record, once for what was added.
                        unsafe { scope.count.finish(owner) };
                    })
                };
                scope.borrowed[0].add();
                // SAFETY: the owner of this scope, once for the thread that was counted above.
                unsafe { scope.count.finish(owner) };
                second
            })
        };
        end(&scope, 2);
        first.join().unwrap().join().unwrap();
    });
}
