//! Park and unpark (`thread`, `runtime::wait_until`) in all interleavings: each epoch has one winner, a thread is
//! pushed at most once per epoch, never sleeps with its condition true, and whoever runs it sees its stack and its
//! waker's data.
#![cfg(feature = "loom")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_queues::wait_list::NodePool;
use raddle_scheduler::runtime::{self, Waited};
use raddle_scheduler::{Claim, Epoch, Runtime, Thread, Wake};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering as Std};

type Cell<T> = <Loom as Machine>::Atomic<T>;

/// One thread with what its wakers and its successors touch.
struct Model {
    thread: Thread<Loom>,
    /// What only the thread, or whoever holds its token, may touch.
    stack: UnsafeCell<u32>,
    /// What a waker leaves for the thread that it wakes.
    gift: UnsafeCell<u32>,
    /// Where the thread publishes its wait.
    published: Cell<u64>,
    pushes: Cell<u32>,
}

// SAFETY: loom itself checks each access of `stack`: that check is what the tests are for.
unsafe impl Sync for Model {}
// SAFETY: sent to other threads only for loom to check what they do with it.
unsafe impl Send for Model {}

impl Model {
    fn new() -> Self {
        Self {
            // SAFETY: the runtime of these tests knows no descriptors; leaked.
            thread: unsafe { Thread::new(0, 0) },
            stack: UnsafeCell::new(0),
            gift: UnsafeCell::new(0),
            published: Cell::new(0),
            pushes: Cell::new(0),
        }
    }

    /// The token: its holder runs the thread from where it left.
    fn push(&self) -> Wake {
        // SAFETY: the holder of the token owns the stack; loom fails the test if it does not.
        self.stack.with_mut(|stack| unsafe { *stack += 1 });
        assert_eq!(self.pushes.fetch_add(1, Ordering::Relaxed), 0, "pushed twice in one epoch");
        self.thread.outcome()
    }

    fn epoch(&self) -> Option<Epoch> {
        let bits = self.published.load(Ordering::Acquire);
        (bits != 0).then(|| Epoch::from_bits(bits))
    }
}

/// Runs `model` in each interleaving and compares the outcomes that it records with those that must be possible.
fn explore(
    preemptions: Option<usize>,
    expected: &[&str],
    model: impl Fn(&'static Mutex<BTreeSet<String>>) + Sync + Send + 'static,
) {
    let seen: &'static Mutex<BTreeSet<String>> = Box::leak(Box::default());
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(move || model(seen));
    let seen = seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        expected.iter().map(|s| s.to_string()).collect(),
        "reached outcomes differ from the possible ones"
    );
}

#[test]
fn two_claimants_and_a_finalizer_push_exactly_once() {
    let expected = ["Signalled by claimant", "Signalled by finalizer", "TimedOut by claimant", "TimedOut by finalizer"];
    explore(None, &expected, |seen| {
        let model = Arc::new(Model::new());
        let epoch = model.thread.arm();
        model.published.store(epoch.to_bits(), Ordering::Release);
        let claimants: Vec<_> = [Wake::Signalled, Wake::TimedOut]
            .into_iter()
            .map(|reason| {
                let model = model.clone();
                loom::thread::spawn(move || {
                    let claim = model.thread.claim(epoch, reason);
                    if claim == Claim::WonParked {
                        assert_eq!(model.push(), reason);
                        seen.lock().unwrap().insert(format!("{reason:?} by claimant"));
                    }
                    claim
                })
            })
            .collect();
        // SAFETY: the thread still runs: the stack is its own.
        model.stack.with_mut(|stack| unsafe { *stack += 1 });
        if model.thread.finish_park(epoch).is_err() {
            let reason = model.push();
            seen.lock().unwrap().insert(format!("{reason:?} by finalizer"));
        }
        let won = claimants.into_iter().map(|c| c.join().unwrap()).filter(|&claim| claim != Claim::Lost).count();
        assert_eq!(won, 1, "one claim wins");
        assert_eq!(model.pushes.load(Ordering::Relaxed), 1);
        assert!(model.thread.current_wait().is_none());
        // What belongs to an epoch that is over fails, also after the next wait began.
        let next = model.thread.arm();
        assert_eq!(model.thread.claim(epoch, Wake::Signalled), Claim::Lost);
        assert_eq!(model.thread.claim(next, Wake::Signalled), Claim::WonArming);
    });
}

#[test]
fn who_claims_only_what_is_parked_owns_the_stack() {
    let expected = ["Granted by claimant", "TimedOut by claimant", "TimedOut by finalizer"];
    explore(None, &expected, |seen| {
        let model = Arc::new(Model::new());
        let epoch = model.thread.arm();
        let other = {
            let model = model.clone();
            loom::thread::spawn(move || {
                if model.thread.claim_parked(epoch, Wake::Granted) == Claim::WonParked {
                    seen.lock().unwrap().insert(format!("{:?} by claimant", model.push()));
                }
            })
        };
        let timer = {
            let model = model.clone();
            loom::thread::spawn(move || {
                if model.thread.claim(epoch, Wake::TimedOut) == Claim::WonParked {
                    seen.lock().unwrap().insert(format!("{:?} by claimant", model.push()));
                }
            })
        };
        // SAFETY: the thread still runs: the stack is its own.
        model.stack.with_mut(|stack| unsafe { *stack += 1 });
        if model.thread.finish_park(epoch).is_err() {
            seen.lock().unwrap().insert(format!("{:?} by finalizer", model.push()));
        }
        other.join().unwrap();
        timer.join().unwrap();
        assert_eq!(model.pushes.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn who_sleeps_on_its_token_is_rung() {
    explore(None, &["Signalled"], |seen| {
        let model = Arc::new(Model::new());
        // A thread's first wait returns for no reason, with a yield, after which loom shows no older value again.
        Loom::wait(&Cell::<u32>::new(0), 0, None);
        let epoch = model.thread.arm();
        let waker = {
            let model = model.clone();
            loom::thread::spawn(move || {
                if model.thread.claim(epoch, Wake::Signalled) == Claim::WonParked {
                    model.thread.ring_token();
                }
            })
        };
        if model.thread.finish_park(epoch).is_ok() {
            model.thread.sleep_on_token(epoch, None);
        }
        seen.lock().unwrap().insert(format!("{:?}", model.thread.outcome()));
        waker.join().unwrap();
    });
}

/// The runtime of the next tests: suspending runs the finalizer and then waits for the token.
#[derive(Clone, Copy)]
struct Suspender;

/// The two tests that use [`MODEL`] take turns.
static TURN: Mutex<()> = Mutex::new(());
static MODEL: AtomicPtr<Model> = AtomicPtr::new(std::ptr::null_mut());

fn current() -> &'static Model {
    // SAFETY: the test whose turn it is stores a leaked model at the start of each execution.
    unsafe { &*MODEL.load(Std::Relaxed) }
}

// SAFETY: one record, of the one thread that waits here; a wait ends by its claim.
unsafe impl Runtime for Suspender {
    type Machine = Loom;
    unsafe fn current() -> &'static Thread<Loom> {
        &current().thread
    }
    unsafe fn suspend(epoch: Epoch, _deadline: Option<u64>) -> Wake {
        let model = current();
        // SAFETY: the thread still runs: the stack is its own.
        model.stack.with_mut(|stack| unsafe { *stack += 1 });
        if model.thread.finish_park(epoch).is_err() {
            // SAFETY: claimed while arming.
            unsafe { Self::make_ready(&model.thread) };
        }
        while model.pushes.load(Ordering::Acquire) == 0 {
            loom::thread::yield_now();
        }
        // SAFETY: the token came back to this thread.
        model.stack.with_mut(|stack| unsafe { *stack += 1 });
        model.thread.outcome()
    }
    unsafe fn make_ready(_thread: &'static Thread<Loom>) {
        let model = current();
        // SAFETY: the holder of the token owns the stack; loom fails the test if it does not.
        model.stack.with_mut(|stack| unsafe { *stack += 1 });
        assert_eq!(model.pushes.fetch_add(1, Ordering::Release), 0, "pushed twice in one epoch");
    }
    fn nodes() -> &'static NodePool<Loom> {
        unreachable!("this test publishes in a word of its own")
    }
    fn yield_now() {
        loom::thread::yield_now();
    }
    fn is_running(_thread: &'static Thread<Loom>) -> bool {
        false
    }
}

#[test]
fn nobody_sleeps_with_its_condition_true_or_cancelled() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let expected = ["Retry", "Woken(Cancelled)", "Woken(Signalled)"];
    // Three preemptions: whoever waits for its token loops, which multiplies the interleavings.
    explore(Some(3), &expected, |seen| {
        // Leaked with its loom cells: a few hundred bytes per execution.
        MODEL.store(Box::leak(Box::new(Model::new())), Std::Relaxed);
        let condition = Arc::new(Cell::<u32>::new(0));
        let waker = {
            let condition = condition.clone();
            loom::thread::spawn(move || {
                // SAFETY: the thread reads it only after it was woken by this waker; loom fails the test otherwise.
                current().gift.with_mut(|gift| unsafe { *gift = 1 });
                condition.store(1, Ordering::Relaxed);
                Loom::fence(Ordering::SeqCst);
                if let Some(epoch) = current().epoch() {
                    runtime::wake::<Suspender>(&current().thread, epoch, Wake::Signalled);
                }
            })
        };
        let canceller = loom::thread::spawn(|| runtime::cancel::<Suspender>(&current().thread));
        let publish =
            |_: &'static Thread<Loom>, epoch: Epoch| current().published.store(epoch.to_bits(), Ordering::Release);
        let ready = || condition.load(Ordering::Relaxed) == 1;
        // SAFETY: waker and canceller follow the protocol.
        let waited = unsafe { runtime::wait_until::<Suspender>(None, true, publish, ready) };
        seen.lock().unwrap().insert(format!("{waited:?}"));
        if waited == Waited::Woken(Wake::Signalled) {
            // SAFETY: as where it is written.
            assert_eq!(current().gift.with(|gift| unsafe { *gift }), 1);
        }
        assert_ne!(waited, Waited::Woken(Wake::TimedOut));
        waker.join().unwrap();
        canceller.join().unwrap();
        assert!(current().pushes.load(Ordering::Relaxed) <= 1);
    });
}

#[test]
fn a_cancellation_is_seen_before_the_sleep_or_ends_it() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    explore(None, &["Woken(Cancelled)"], |seen| {
        MODEL.store(Box::leak(Box::new(Model::new())), Std::Relaxed);
        let canceller = loom::thread::spawn(|| runtime::cancel::<Suspender>(&current().thread));
        // SAFETY: published nowhere.
        let waited = unsafe { runtime::wait_until::<Suspender>(None, true, |_, _| (), || false) };
        seen.lock().unwrap().insert(format!("{waited:?}"));
        canceller.join().unwrap();
    });
}
