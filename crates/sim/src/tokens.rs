//! Threads that never run: the tokens that a policy is checked with.

use crate::machine::Controlled;
use crate::published::Published;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::{Ready, Thread};
use std::cell::RefCell;
use std::ptr::NonNull;

thread_local! {
    /// Records that nobody refers to any more, by how many there are.
    static SPARE: RefCell<Vec<NonNull<[Thread<Controlled>]>>> = const { RefCell::new(Vec::new()) };
}

/// The records of `count` threads, and where the token of each is. One at a time exists of each: that is what it
/// checks, besides the order between pushing one and taking it.
#[derive(Debug)]
pub struct Tokens {
    records: NonNull<[Thread<Controlled>]>,
    /// True while the token is out. What a thread has on its stack, as it were: who takes the token goes on with it.
    states: Vec<Published<()>>,
    out: RefCell<Vec<bool>>,
}

impl Tokens {
    /// Threads 0 to `count`, all of priority 0, none of them ready. Make it in the setup, and keep it until the run is
    /// over.
    pub fn new(count: usize) -> Self {
        // SAFETY: no runtime is involved; records are never freed, only written anew when nobody refers to them.
        let records: Vec<_> = (0..count).map(|_| unsafe { Thread::new(0, 0) }).collect();
        let spare = SPARE.with_borrow_mut(|spare| {
            spare.iter().position(|records| records.len() == count).map(|at| spare.swap_remove(at))
        });
        let records = match spare {
            Some(place) => {
                for (index, record) in records.into_iter().enumerate() {
                    // SAFETY: leaked below in an earlier life, of this length; nobody refers to it (see `drop`).
                    unsafe { place.cast::<Thread<Controlled>>().add(index).write(record) };
                }
                place
            }
            None => NonNull::from(Box::leak(records.into_boxed_slice())),
        };
        let states = (0..count).map(|_| Published::new(())).collect();
        Self { records, states, out: RefCell::new(vec![false; count]) }
    }

    /// How many threads there are.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    fn record(&self, number: usize) -> NonNull<Thread<Controlled>> {
        assert!(number < self.count(), "there is no thread {number}");
        // SAFETY: within the slice.
        unsafe { self.records.cast::<Thread<Controlled>>().add(number) }
    }

    /// Makes thread `number` ready.
    ///
    /// # Panics
    /// If it is ready already.
    #[track_caller]
    pub fn ready(&self, number: usize) -> Ready<Controlled> {
        let record = self.record(number);
        assert!(!std::mem::replace(&mut self.out.borrow_mut()[number], true), "thread {number} is ready already");
        self.states[number].with_mut(|()| ());
        // SAFETY: the record is readable for ever, and this is its only token: `out` tells.
        unsafe { Ready::new(record) }
    }

    /// As [`Tokens::ready`], at a priority.
    #[track_caller]
    pub fn ready_at(&self, number: usize, priority: u8) -> Ready<Controlled> {
        // SAFETY: readable for ever.
        let record = unsafe { self.record(number).as_ref() };
        <Controlled as Machine>::Atomic::<u8>::store(&record.priority, priority, Ordering::Relaxed);
        self.ready(number)
    }

    /// Runs the thread of a token, which is used up: its number.
    ///
    /// # Panics
    /// If the thread came out twice, or what its pusher did does not happen before this.
    #[track_caller]
    pub fn take(&self, ready: Ready<Controlled>) -> usize {
        let address = ready.into_thread().as_ptr().addr();
        let first = self.records.cast::<Thread<Controlled>>().as_ptr().addr();
        let number = address.wrapping_sub(first) / size_of::<Thread<Controlled>>();
        assert!(number < self.count(), "a token of none of these threads came out");
        assert!(std::mem::replace(&mut self.out.borrow_mut()[number], false), "thread {number} came out twice");
        self.states[number].with_mut(|()| ());
        number
    }

    /// The threads that are ready: at the end of a run, those that are lost.
    pub fn out(&self) -> Vec<usize> {
        let out = self.out.borrow();
        (0..self.count()).filter(|&number| out[number]).collect()
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        // Without a token outside, nobody refers to a record: policies hold tokens, and nothing else of a thread.
        if self.out.borrow().iter().all(|out| !out) && self.count() > 0 {
            let _ = SPARE.try_with(|spare| spare.borrow_mut().push(self.records));
        }
    }
}
