//! A policy of one's own that does what none should.

use crate::harness::On;
use raddle_machine::Real;
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// One queue for all, oldest first; what is odd about it, it asks these.
#[derive(Clone, Default)]
pub struct Odd {
    queue: Arc<Mutex<VecDeque<Ready<Real>>>>,
    /// So many times it says that it is crowded.
    pub crowded: Arc<AtomicU32>,
    /// So many times it has nothing to offer right after it has said so, as if another processor had been faster.
    pub dry: Arc<AtomicU32>,
    withheld: Arc<AtomicU32>,
    /// So many selections later it panics.
    pub panics_after: Arc<AtomicU32>,
}

/// One less, if there is any left.
fn use_up(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl Odd {
    pub fn builder(&self, processors: usize) -> raddle::Builder {
        let policy = self.clone();
        raddle::Builder::new().processors(processors).own_policy(move |_, _| Box::new(policy.clone()))
    }
}

impl Policy<Real> for Odd {
    fn local(&self, _: usize) -> Box<dyn Local<Real>> {
        Box::new(self.clone())
    }

    fn submit(&self, thread: Ready<Real>) -> Notify {
        self.queue.lock().unwrap().push_back(thread);
        Notify::Anyone
    }

    fn describe(&self) -> String {
        "odd".into()
    }

    fn offers(&self) -> bool {
        !self.queue.lock().unwrap().is_empty()
    }

    fn strands(&self) -> &'static str {
        "everything, frozen within the lock"
    }
}

impl Local<Real> for Odd {
    fn push(&mut self, thread: Ready<Real>, _: Cause) -> Notify {
        self.queue.lock().unwrap().push_back(thread);
        Notify::Anyone
    }

    fn next(&mut self, _: u8) -> Option<Ready<Real>> {
        if use_up(&self.panics_after) && self.panics_after.load(Ordering::Relaxed) == 0 {
            panic!("odd");
        }
        if self.withheld.swap(0, Ordering::Relaxed) > 0 {
            return None;
        }
        self.queue.lock().unwrap().pop_front()
    }

    fn search(&mut self) -> Option<Ready<Real>> {
        None
    }

    fn has_work(&self) -> bool {
        self.offers()
    }

    fn crowded(&self) -> bool {
        let crowded = use_up(&self.crowded);
        if crowded && use_up(&self.dry) {
            self.withheld.store(1, Ordering::Relaxed);
        }
        crowded
    }

    fn drain(&mut self, out: &mut dyn FnMut(Ready<Real>)) {
        while let Some(thread) = self.next(u8::MAX) {
            out(thread);
        }
    }
}

case!(a_policy_that_panics_ends_the_process, On::Lightweight, aborts "the policy `odd` panicked", {
    let odd = Odd::default();
    let pool = odd.builder(1).build().unwrap();
    pool.run(|| {
        odd.panics_after.store(10, Ordering::Relaxed);
        loop {
            raddle::yield_now();
        }
    });
});

case!(a_policy_that_hands_tokens_to_another_pool, On::Lightweight, {
    // Both pools share one queue: either may select the other's threads.
    let odd = Odd::default();
    let (one, other) = (odd.builder(1).build().unwrap(), odd.builder(1).build().unwrap());
    static RAN: AtomicU32 = AtomicU32::new(0);
    for _ in 0..20 {
        let count = |pool: &raddle::Pool| {
            let inner: Vec<_> = (0..50)
                .map(|_| {
                    pool.spawn(|| {
                        raddle::yield_now();
                        RAN.fetch_add(1, Ordering::Relaxed);
                        raddle::yield_now();
                    })
                })
                .collect();
            inner.into_iter().for_each(|thread| thread.join().unwrap());
        };
        count(&one);
        count(&other);
        // Ends while the other one selects.
        let third = odd.builder(1).build().unwrap();
        count(&third);
        drop(third);
    }
    assert_eq!(RAN.load(Ordering::Relaxed), 20 * 150);
    assert_eq!((one.live_threads(), other.live_threads()), (0, 0));
});
