//! The end of a thread in all interleavings: joiners see what it did and none is left asleep, its result goes to one,
//! and its record is freed once.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_runtime::{Model, Watched, explore};
use raddle_machine::Loom;
use raddle_scheduler::Runtime;
use raddle_scheduler::join::{Dropped, Ended, JoinWord};
use raddle_scheduler::runtime::{Waited, wait_until};
use raddle_scheduler::sync::WaitError;

struct Record {
    word: JoinWord<Loom>,
    result: Watched,
    /// Whoever frees the record writes here.
    freed: Watched,
}

fn record() -> Arc<Record> {
    let word = JoinWord::unused();
    word.begin();
    Arc::new(Record { word, result: Watched::new(), freed: Watched::new() })
}

impl Record {
    /// The thread's last steps; with `drops` its result needs dropping.
    fn ends(&self, drops: bool) {
        self.result.add();
        if drops && self.word.store() {
            self.result.add();
        }
        // SAFETY: the claim was won by the end.
        if self.word.end(|joiner| unsafe { Model::make_ready(joiner) }) == Ended::Detached {
            // Whoever frees it comes after all that the handle did.
            self.result.get();
            self.freed.add();
        }
    }

    /// As [`Record::ends`], by a thread that goes on with its joiner at once if it can; with `first` that one runs
    /// before the end, as where it cannot go on there.
    fn ends_before_its_joiner(&self, first: bool) {
        let mut joiner = if self.word.is_awaited() { self.word.claim_joiner() } else { None };
        // SAFETY: the claim was won, by `claim_joiner` or by the end, and each is made ready once.
        unsafe {
            if first && let Some(joiner) = joiner.take() {
                Model::make_ready(joiner);
            }
            self.ends(false);
            if let Some(joiner) = joiner {
                Model::make_ready(joiner);
            }
        }
    }

    fn wait(&self, deadline: Option<u64>) -> Result<(), WaitError> {
        // SAFETY: the record is there until all have been joined.
        unsafe { self.word.wait::<Model>(deadline, false, || ()) }
    }

    fn takes(&self) -> u32 {
        self.freed.add();
        self.result.add()
    }
}

fn runs(record: &Arc<Record>, drops: bool) -> thread::JoinHandle<()> {
    let record = record.clone();
    thread::spawn(move || record.ends(drops))
}

#[test]
fn a_joiner_sees_what_the_thread_did() {
    explore(3, &["2"], || {
        let record = record();
        let thread = runs(&record, false);
        record.wait(None).unwrap();
        let seen = record.takes();
        thread.join().unwrap();
        seen
    });
}

#[test]
fn of_two_that_wait_none_is_left_asleep() {
    explore(2, &["()"], || {
        let record = record();
        let thread = runs(&record, false);
        let other = {
            let record = record.clone();
            thread::spawn(move || {
                record.wait(None).unwrap();
                assert!(record.word.has_ended());
            })
        };
        record.wait(None).unwrap();
        other.join().unwrap();
        assert_eq!(record.takes(), 2);
        thread.join().unwrap();
    });
}

#[test]
fn one_that_gives_up_beside_another_leaves_nobody_asleep() {
    explore(2, &["Err(TimedOut)", "Ok(())"], || {
        let record = record();
        let thread = runs(&record, false);
        let impatient = {
            let record = record.clone();
            thread::spawn(move || record.wait(Some(0)))
        };
        record.wait(None).unwrap();
        let waited = impatient.join().unwrap();
        assert_eq!(record.takes(), 2);
        thread.join().unwrap();
        waited
    });
}

/// `other`: another one waits at the same time, until that deadline.
fn handed_over(preemptions: usize, first: bool, other: Option<Option<u64>>) {
    let expected: &[&str] = match other {
        Some(Some(_)) => &["Err(TimedOut)", "Ok(())"],
        _ => &["Ok(())"],
    };
    explore(preemptions, expected, move || {
        let record = record();
        let thread = {
            let record = record.clone();
            thread::spawn(move || record.ends_before_its_joiner(first))
        };
        let other = other.map(|deadline| {
            let record = record.clone();
            thread::spawn(move || record.wait(deadline))
        });
        record.wait(None).unwrap();
        let waited = other.map_or(Ok(()), |other| other.join().unwrap());
        assert_eq!(record.takes(), 2);
        thread.join().unwrap();
        waited
    });
}

#[test]
fn a_joiner_that_is_claimed_before_the_end_sees_it() {
    handed_over(3, false, None);
    handed_over(3, true, None);
}

#[test]
fn nor_is_another_one_left_asleep_beside_it() {
    handed_over(2, false, Some(None));
    handed_over(2, true, Some(None));
}

#[test]
fn nor_beside_one_that_gives_up() {
    handed_over(2, false, Some(Some(0)));
}

/// What one that has given up left in the word, and what it looks for again, is of the life that is over.
#[test]
fn an_end_in_the_handles_own_place_wakes_nobody_and_is_seen() {
    explore(3, &["Err(TimedOut)"], || {
        let record = record();
        let impatient = {
            let record = record.clone();
            thread::spawn(move || record.wait(Some(0)))
        };
        // Whoever looks from outside may see either.
        let waited = impatient.join().unwrap();
        let looks = {
            let record = record.clone();
            thread::spawn(move || record.word.has_ended())
        };
        record.result.add();
        record.word.end_here();
        assert!(record.word.has_ended() && record.word.claim_joiner().is_none());
        record.wait(None).unwrap();
        assert_eq!(record.takes(), 2);
        looks.join().unwrap();
        waited
    });
}

#[test]
fn an_end_that_comes_late_ends_no_other_wait() {
    explore(3, &["Retry"], || {
        let record = record();
        let thread = runs(&record, false);
        let _ = record.wait(Some(0));
        let joined = std::cell::Cell::new(Some(thread));
        let ready = || joined.take().is_some_and(|thread| thread.join().is_ok());
        // SAFETY: published nowhere.
        let waited = unsafe { wait_until::<Model>(None, false, |_, _| {}, ready) };
        assert_ne!(waited, Waited::Woken(raddle_scheduler::Wake::Signalled), "somebody else's wake-up");
        record.takes();
        waited
    });
}

fn dropped(drops: bool) {
    explore(3, &["Ended", "Running"], move || {
        let record = record();
        let thread = runs(&record, drops);
        let mut taken = 0;
        let dropped = record.word.detach(|| {
            taken += 1;
            if drops {
                record.result.add();
            }
        });
        if dropped == Dropped::Ended {
            record.freed.add();
        }
        thread.join().unwrap();
        // Stored by the thread, and dropped by one of the two if it needs dropping.
        assert_eq!((record.result.get(), record.freed.get()), (1 + u32::from(drops), 1));
        assert!(taken <= 1);
        dropped
    });
}

#[test]
fn the_result_of_a_thread_without_handle_is_dropped_once() {
    dropped(true);
}

#[test]
fn and_its_record_is_freed_once() {
    dropped(false);
}
