//! The words of the drop-in library's readers-writer locks, barriers and initialisations in all interleavings: nobody
//! is left asleep, and what was done before is seen.
#![cfg(feature = "loom")]

mod loom_kernel;
mod loom_runtime;

use loom::sync::Arc;
use loom::thread;
use loom_kernel::{Kernel, Kind, TimedOut};
use loom_runtime::{Watched, explore};
use raddle_machine::{Atomic, Loom, Ordering};
use raddle_scheduler::words::barrier::Rounds;
use raddle_scheduler::words::once::OnceWord;
use raddle_scheduler::words::request::Request;
use raddle_scheduler::words::rwlock::{Refused, Roles, RwLockWord, State};
use raddle_scheduler::words::visitors::Visitors;
use raddle_scheduler::words::{HIGH_HALF, Sleepers as _};

#[derive(Clone, Copy, PartialEq)]
enum Role {
    Reader,
    Writer,
}

#[derive(Default)]
struct Lock {
    kernel: Kernel,
    word: RwLockWord<Loom>,
    /// Unlockers leave it for those whom they wake.
    leaves: bool,
}

fn name(lock: usize, role: Role) -> usize {
    lock + HIGH_HALF + 4 * usize::from(role == Role::Writer)
}

impl Roles for Kernel {
    fn writers_may_sleep(&self, _: usize) -> bool {
        self.bucket.may_sleep()
    }
    fn wake_writer(&self, lock: usize) -> usize {
        self.wake(name(lock, Role::Writer), 1)
    }
    fn wake_readers(&self, lock: usize) {
        self.wake(name(lock, Role::Reader), usize::MAX);
    }
}

impl Lock {
    fn sleep(&self, role: Role, state: State, impatient: bool) -> Result<(), TimedOut> {
        let address = std::ptr::from_ref(&self.word).addr();
        let same = || (self.word.word().fetch_or(0, Ordering::Relaxed) >> 32) as u32 == state.gate();
        self.kernel.sleep(Kind::First, name(address, role), impatient, same)
    }

    fn read(&self, may_pass: bool, impatient: bool) -> bool {
        let sleep = |state| self.sleep(Role::Reader, state, impatient);
        match self.word.try_read(false).map(|()| false).or_else(|_| self.word.wait_to_read(|| may_pass, sleep)) {
            Ok(_) => true,
            Err(Refused::GivesUp(TimedOut)) => false,
            Err(Refused::Full) => panic!("there are few readers"),
        }
    }

    fn write(&self, impatient: bool) -> bool {
        let sleep = |state| self.sleep(Role::Writer, state, impatient);
        self.word.try_write().is_ok() || self.word.wait_to_write(&self.kernel, sleep).is_ok()
    }

    fn unlock(&self, writers_first: bool) {
        assert!(self.word.unlock(self.word.state(), writers_first, || self.leaves, &self.kernel));
    }
}

struct Guarded {
    lock: Lock,
    inside: Watched,
    writers_first: bool,
}

impl Guarded {
    fn new(writers_first: bool) -> Arc<Self> {
        Self::leaving(writers_first, false)
    }
    fn leaving(writers_first: bool, leaves: bool) -> Arc<Self> {
        Arc::new(Self { lock: Lock { leaves, ..Lock::default() }, inside: Watched::new(), writers_first })
    }
    fn write(&self, impatient: bool) -> bool {
        let mine = self.lock.write(impatient);
        if mine {
            self.inside.add();
            self.lock.unlock(self.writers_first);
        }
        mine
    }
    fn read(&self, impatient: bool) -> bool {
        let mine = self.lock.read(!self.writers_first, impatient);
        if mine {
            self.inside.get();
            self.lock.unlock(self.writers_first);
        }
        mine
    }
}

type Enter = fn(&Guarded) -> bool;
const READ: Enter = |guarded| guarded.read(false);
const WRITE: Enter = |guarded| guarded.write(false);

/// The first one is held at the beginning, so that the others sleep or not.
fn enter(preemptions: usize, writers_first: bool, others: &'static [Enter], held_for_writing: bool) {
    for leaves in [false, true] {
        enter_leaving(leaves, preemptions, writers_first, others, held_for_writing);
    }
}

fn enter_leaving(
    leaves: bool,
    preemptions: usize,
    writers_first: bool,
    others: &'static [Enter],
    held_for_writing: bool,
) {
    explore(preemptions, &["()"], move || {
        let guarded = Guarded::leaving(writers_first, leaves);
        assert!(if held_for_writing { guarded.lock.write(false) } else { guarded.lock.read(false, false) });
        let threads: Vec<_> = others
            .iter()
            .map(|enter| {
                let guarded = guarded.clone();
                thread::spawn(move || assert!(enter(&guarded)))
            })
            .collect();
        guarded.lock.unlock(writers_first);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(guarded.lock.word.try_write_left().is_ok(), "somebody is inside");
    });
}

#[test]
fn a_writer_and_a_reader_that_come_while_it_is_held_both_get_in() {
    for writers_first in [false, true] {
        for held_for_writing in [false, true] {
            enter(2, writers_first, &[READ, WRITE], held_for_writing);
        }
    }
}

#[test]
fn of_two_writers_none_is_left_asleep() {
    enter(2, false, &[WRITE, WRITE], true);
}

#[test]
fn of_two_readers_none_is_left_asleep() {
    enter(2, true, &[READ, READ], true);
}

/// Readers wait for a writer that waits, and it goes away: they are woken though no writer comes.
#[test]
fn readers_go_on_when_the_writer_that_they_waited_for_gives_up() {
    explore(2, &["false", "true"], || {
        let guarded = Guarded::new(true);
        assert!(guarded.lock.read(false, false));
        let writer = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.write(true))
        };
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || assert!(guarded.read(false)))
        };
        // Not before the others have got where they may get.
        thread::yield_now();
        guarded.lock.unlock(true);
        reader.join().unwrap();
        writer.join().unwrap()
    });
}

/// As above, but the lock is held until the reader is inside.
#[test]
fn a_reader_goes_on_beside_another_when_the_writer_between_them_gives_up() {
    explore(3, &["false"], || {
        let guarded = Guarded::new(true);
        assert!(guarded.lock.read(false, false));
        let writer = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.write(true))
        };
        assert!(guarded.lock.read(false, false));
        let wrote = writer.join().unwrap();
        guarded.lock.unlock(true);
        guarded.lock.unlock(true);
        wrote
    });
}

#[test]
fn a_writer_that_gives_up_takes_nobodys_wake_up() {
    explore(2, &["false", "true"], || {
        let guarded = Guarded::new(false);
        assert!(guarded.lock.write(false));
        let impatient = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.write(true))
        };
        let patient = {
            let guarded = guarded.clone();
            thread::spawn(move || assert!(guarded.write(false)))
        };
        guarded.lock.unlock(false);
        patient.join().unwrap();
        impatient.join().unwrap()
    });
}

/// Where writers go first the reader stays asleep for a writer's sake that has left by the time it is to be woken.
#[test]
fn readers_that_stay_asleep_for_a_writer_are_woken_when_it_has_left() {
    explore(2, &["(false, true)", "(true, true)"], || {
        let guarded = Guarded::new(true);
        assert!(guarded.lock.write(false));
        let writer = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.write(true))
        };
        let reader = {
            let guarded = guarded.clone();
            thread::spawn(move || guarded.read(false))
        };
        guarded.lock.unlock(true);
        (writer.join().unwrap(), reader.join().unwrap())
    });
}

struct Meeting {
    kernel: Kernel,
    rounds: Rounds<Loom>,
    visitors: Visitors<Loom>,
    gifts: [Watched; 2],
}

impl Meeting {
    fn new() -> Arc<Self> {
        let (rounds, visitors) = (Rounds::default(), Visitors::default());
        Arc::new(Self { kernel: Kernel::default(), rounds, visitors, gifts: [Watched::new(), Watched::new()] })
    }

    fn pass(&self) -> bool {
        let sleep = |rounds: &Rounds<Loom>, round| {
            let name = std::ptr::from_ref(rounds).addr() + HIGH_HALF;
            let same = || (rounds.word().fetch_or(0, Ordering::Relaxed) >> 32) as u32 == round;
            self.kernel.sleep(Kind::First, name, false, same).unwrap();
        };
        self.rounds.pass(&self.visitors, 2, sleep, &self.kernel)
    }

    fn destroy(&self) {
        self.visitors.destroy(|word, inside| self.kernel.sleep_at(Kind::First, word, inside, false).unwrap());
    }
}

#[test]
fn one_of_two_is_the_last_in_each_round_and_both_see_what_was_done_before() {
    explore(2, &["1"], || {
        let meeting = Meeting::new();
        let come = |meeting: &Meeting, mine: usize| {
            meeting.gifts[mine].add();
            let first = meeting.pass();
            assert_eq!(meeting.gifts[1 - mine].get(), 1);
            u32::from(first) + 10 * u32::from(meeting.pass())
        };
        let other = {
            let meeting = meeting.clone();
            thread::spawn(move || come(&meeting, 1))
        };
        let mine = come(&meeting, 0);
        let theirs = other.join().unwrap();
        assert_eq!(mine + theirs, 11);
        1
    });
}

#[test]
fn a_barrier_is_destroyed_when_the_last_has_left() {
    explore(3, &["()"], || {
        let meeting = Meeting::new();
        let other = {
            let meeting = meeting.clone();
            thread::spawn(move || {
                meeting.gifts[0].add();
                meeting.pass();
            })
        };
        meeting.pass();
        meeting.destroy();
        assert!(!meeting.visitors.any());
        assert_eq!(meeting.gifts[0].get(), 1);
        other.join().unwrap();
    });
}

#[test]
fn who_gives_the_memory_another_use_sees_that_visitors_are_through_with_it() {
    explore(3, &["2"], || {
        let visited = Arc::new((Kernel::default(), Visitors::<Loom>::default(), Watched::new()));
        visited.1.arrive();
        let visitor = {
            let visited = visited.clone();
            thread::spawn(move || {
                visited.2.add();
                visited.1.leave(&visited.0);
            })
        };
        visited.1.destroy(|word, inside| visited.0.sleep_at(Kind::First, word, inside, false).unwrap());
        let seen = visited.2.add();
        visitor.join().unwrap();
        seen
    });
}

#[derive(Default)]
struct Once {
    kernel: Kernel,
    word: OnceWord<Loom>,
}

impl Once {
    fn call(&self, initialise: impl FnOnce() -> bool) {
        let begun = self.word.begin(|| 0, |word, state| self.kernel.sleep_at(Kind::First, word, state, false).unwrap());
        if begun {
            let done = initialise();
            self.word.end(done, |address| {
                self.kernel.wake(address, usize::MAX);
            });
        }
    }
}

#[test]
fn an_initialiser_runs_once_and_all_see_what_it_did() {
    explore(2, &["1"], || {
        let once = Arc::new((Once::default(), Watched::new()));
        let call = |once: &(Once, Watched)| {
            once.0.call(|| once.1.add() == 1);
            assert!(once.0.word.is_done());
            once.1.get()
        };
        let others = [0, 1].map(|_| {
            let once = once.clone();
            thread::spawn(move || assert_eq!(call(&once), 1))
        });
        let seen = call(&once);
        others.into_iter().for_each(|other| other.join().unwrap());
        seen
    });
}

/// Either way to learn of it is enough by itself.
#[test]
fn who_learns_that_it_is_done_sees_what_the_initialiser_did() {
    explore(3, &["0", "1"], || {
        let once = Arc::new((Once::default(), Watched::new()));
        let other = {
            let once = once.clone();
            thread::spawn(move || if once.0.word.is_done() { once.1.get() } else { 0 })
        };
        once.0.call(|| once.1.add() == 1);
        other.join().unwrap()
    });
    explore(3, &["()"], || {
        let once = Arc::new((Once::default(), Watched::new()));
        let initialiser = {
            let once = once.clone();
            thread::spawn(move || once.0.call(|| once.1.add() == 1))
        };
        once.0.call(|| once.1.add() == 1);
        assert_eq!(once.1.get(), 1);
        initialiser.join().unwrap();
    });
}

#[test]
fn when_an_initialiser_leaves_another_one_begins_and_sees_what_it_did() {
    explore(3, &["1", "2"], || {
        let once = Arc::new((Once::default(), Watched::new()));
        let other = {
            let once = once.clone();
            thread::spawn(move || {
                once.0.call(|| {
                    once.1.add();
                    false
                });
            })
        };
        once.0.call(|| {
            once.1.add();
            true
        });
        other.join().unwrap();
        // The other one came later, or its attempt came before.
        assert!(once.0.word.is_done());
        once.1.get()
    });
}

/// In the child of a fork: what another thread was at is not in progress any more.
#[test]
fn an_initialisation_in_progress_before_a_fork_begins_again() {
    explore(1, &["()"], || {
        let word = OnceWord::<Loom>::default();
        let nobody = |_: &loom_kernel::Word, _| panic!("there is nobody to wait for");
        assert!(word.begin(|| 0, nobody));
        assert!(word.begin(|| 1, nobody));
        word.end(true, |_| ());
        assert!(!word.begin(|| 1, nobody));
    });
}

/// Whichever comes first, the asker or the creator, one of the two wakes the thread.
#[test]
fn a_request_before_the_handle_is_stored_is_not_lost() {
    explore(3, &["1", "2"], || {
        let request = Arc::new(Request::<Loom>::default());
        let handle = std::ptr::without_provenance_mut(8);
        let asker = {
            let request = request.clone();
            thread::spawn(move || {
                let mut woken = 0;
                assert!(request.ask(|_| woken += 1));
                assert!(!request.ask(|_| unreachable!("it was asked before")));
                woken
            })
        };
        let mut woken = 0;
        let wake = |raw| {
            assert_eq!(raw, handle);
            woken += 1;
        };
        let asked = request.created(handle, wake, &Kernel::default());
        assert_eq!(asked, woken == 1);
        let woken = woken + asker.join().unwrap();
        assert_eq!((request.handle(), request.take_handle()), (handle, handle));
        woken
    });
}

/// Who joins may know the thread before its creator has stored the handle.
#[test]
fn who_waits_for_the_handle_goes_on_when_it_is_stored() {
    explore(3, &["false", "true"], || {
        let kernel = Arc::new((Kernel::default(), Request::<Loom>::default()));
        let handle = std::ptr::without_provenance_mut(8);
        let waiter = {
            let kernel = kernel.clone();
            thread::spawn(move || {
                let (mut slept, mut patience) = (false, 2);
                let found = kernel.1.await_handle(|word, expected| {
                    slept = true;
                    patience -= 1;
                    assert!(patience > 0, "it was woken, and the handle is not there");
                    kernel.0.sleep_at(Kind::First, word, expected, false)
                });
                assert_eq!(found, Ok(handle));
                slept
            })
        };
        assert!(!kernel.1.created(handle, |_| unreachable!("nobody asks"), &kernel.0));
        waiter.join().unwrap()
    });
}
