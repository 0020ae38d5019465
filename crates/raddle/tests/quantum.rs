//! What a quantum check that the compiler has put in does in a program that is linked with the library: the tests call
//! what such a check calls when the count is used up; and what a tick of the drop-in library's timer asks.

mod undisturbed;

use raddle::Preempt;
use raddle::drop_in::preemption;
use raddle::sync::{Mutex, RwLock, Semaphore};
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use undisturbed::undisturbed;

unsafe extern "C" {
    fn raddle_quantum_used(word: *mut i64);
}

/// A check whose count is used up; what the count is then.
fn used_up() -> i64 {
    let mut word = -1;
    // SAFETY: a word of this thread's own.
    unsafe { raddle_quantum_used(&raw mut word) };
    word
}

fn one_processor() -> raddle::Builder {
    raddle::Builder::new().processors(1)
}

/// Whether another thread of the same priority has come to run before so many checks were made.
fn another_ran(pool: &raddle::Pool, checks: usize) -> bool {
    let ran = Arc::new(AtomicBool::new(false));
    pool.run(|| {
        let runs = ran.clone();
        let other = raddle::spawn(move || runs.store(true, Ordering::Relaxed));
        let before = (0..checks).any(|_| {
            used_up();
            ran.load(Ordering::Relaxed)
        });
        other.join().unwrap();
        before
    })
}

#[test]
fn a_thread_whose_quantum_is_over_gives_way() {
    assert!(another_ran(&one_processor().quantum(Duration::ZERO).build().unwrap(), 1_000_000));
}

#[test]
fn a_thread_goes_on_as_long_as_its_quantum_lasts() {
    let quantum = Duration::from_secs(1);
    let pool = one_processor().quantum(quantum).build().unwrap();
    let (ran, _) = std::iter::repeat_with(|| {
        let begun = Instant::now();
        (undisturbed(|| another_ran(&pool, 10)), begun.elapsed())
    })
    .find(|(_, took)| *took < quantum)
    .unwrap();
    assert!(!ran);
}

/// Also where nobody was there to whom it could give way at the end of the one before.
#[test]
fn when_a_quantum_is_over_a_whole_one_begins() {
    const QUANTUM: Duration = Duration::from_millis(2);
    let pool = one_processor().quantum(QUANTUM).build().unwrap();
    let second = || {
        used_up();
        let begun = Instant::now();
        while begun.elapsed() < QUANTUM {
            std::hint::spin_loop();
        }
        let begun = Instant::now();
        // The first one is over.
        used_up();
        static RAN: AtomicBool = AtomicBool::new(false);
        RAN.store(false, Ordering::Relaxed);
        let other = raddle::spawn(|| RAN.store(true, Ordering::Relaxed));
        let ran = (0..10).any(|_| {
            used_up();
            RAN.load(Ordering::Relaxed)
        });
        let took = begun.elapsed();
        other.join().unwrap();
        (ran, took)
    };
    let runs = std::iter::repeat_with(|| undisturbed(|| pool.run(second)));
    let (ran, _) = runs.into_iter().find(|(_, took)| *took < QUANTUM).unwrap();
    assert!(!ran);
}

#[test]
fn where_nobody_is_to_give_way_nobody_does() {
    let pool = one_processor().quantum(Duration::ZERO).preempt(Preempt::Never).build().unwrap();
    assert!(!undisturbed(|| another_ran(&pool, 10)));
}

#[test]
fn within_a_section_a_thread_does_not_give_way() {
    let pool = one_processor().quantum(Duration::ZERO).build().unwrap();
    let ran = undisturbed(|| {
        static RAN: AtomicUsize = AtomicUsize::new(0);
        RAN.store(0, Ordering::Relaxed);
        pool.run(|| {
            let other = raddle::spawn(|| RAN.fetch_add(1, Ordering::Relaxed));
            let ran = {
                let _outer = raddle::thread::hold();
                drop(raddle::thread::hold());
                used_up();
                used_up();
                RAN.load(Ordering::Relaxed)
            };
            used_up();
            used_up();
            let after = RAN.load(Ordering::Relaxed);
            other.join().unwrap();
            (ran, after)
        })
    });
    assert_eq!(ran, (0, 1));
}

/// A look comes after a quarter of a short quantum: so the count tells the quantum.
#[test]
fn a_quantum_is_the_threads_own_or_its_prioritys() {
    let micros = Duration::from_micros;
    let pool = one_processor().policy("priority(3, steal)").quanta([micros(4), micros(8)]).build().unwrap();
    let at = |priority: u8, own: Option<Duration>| {
        let builder = raddle::thread::Builder::new().priority(priority);
        let builder = own.into_iter().fold(builder, |builder, own| builder.quantum(own));
        builder.spawn_into(&pool, used_up).unwrap().join().unwrap()
    };
    assert_eq!([0, 1, 2].map(|priority| at(priority, None)), [1000, 2000, 2000]);
    assert_eq!(at(2, Some(micros(12))), 3000);
    let named = raddle::thread::Builder::new().name("named".into()).quantum(micros(16)).spawn_into(&pool, move || {
        let spawned_with = used_up();
        raddle::thread::set_quantum(Some(micros(20)));
        let set = used_up();
        raddle::thread::set_quantum(None);
        (spawned_with, set, used_up(), raddle::thread::current().name().map(str::to_owned))
    });
    assert_eq!(named.unwrap().join().unwrap(), (4000, 5000, 4000, Some("named".into())));
}

/// The quantum of the thread that takes the lock again and again ends while it holds it, so those who wait for it run
/// only then, and each is too late. `again` and `once` take the lock, and call what they are given meanwhile.
#[track_caller]
fn who_waits_has_it<L: Send + Sync + 'static>(
    lock: L,
    again: fn(&L, &mut dyn FnMut()),
    once: fn(&L, &mut dyn FnMut()),
) {
    const MOST: usize = 2_000;
    let pool = one_processor().quantum(Duration::ZERO).build().unwrap();
    let turns = pool.run(move || {
        let shared = Arc::new((lock, AtomicUsize::new(0)));
        let waiters: Vec<_> = (0..5)
            .map(|_| {
                let shared = shared.clone();
                raddle::spawn(move || once(&shared.0, &mut || _ = shared.1.fetch_add(1, Ordering::Relaxed)))
            })
            .collect();
        let turn = |_: &usize| {
            again(&shared.0, &mut || _ = used_up());
            shared.1.load(Ordering::Relaxed) < 5
        };
        let turns = (0..MOST).take_while(turn).count();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
        turns
    });
    assert!(turns < MOST, "not within {turns} turns of another one");
}

#[test]
fn who_waits_for_a_mutex_behind_one_that_gives_way_with_it_has_it() {
    let lock: fn(&Mutex<()>, &mut dyn FnMut()) = |mutex, inside| {
        let _held = mutex.lock().unwrap();
        inside();
    };
    who_waits_has_it(Mutex::new(()), lock, lock);
}

#[test]
fn who_waits_to_read_or_write_behind_a_writer_that_gives_way_does_so() {
    let write: fn(&RwLock<()>, &mut dyn FnMut()) = |lock, inside| {
        let _held = lock.write().unwrap();
        inside();
    };
    let read: fn(&RwLock<()>, &mut dyn FnMut()) = |lock, inside| {
        let _held = lock.read().unwrap();
        inside();
    };
    who_waits_has_it(RwLock::new(()), write, write);
    who_waits_has_it(RwLock::new(()), write, read);
    // One that waits to write keeps readers out.
    who_waits_has_it(RwLock::new(()), read, write);
}

#[test]
fn who_waits_for_a_permit_behind_one_that_gives_way_with_it_has_it() {
    let acquire: fn(&Semaphore, &mut dyn FnMut()) = |semaphore, inside| {
        let _permit = semaphore.enter(1);
        inside();
    };
    who_waits_has_it(Semaphore::new(1), acquire, acquire);
}

#[test]
fn on_a_kernel_thread_a_check_asks_seldom() {
    let begun = Instant::now();
    assert!(used_up() > 500_000, "{:?}", begun.elapsed());
}

/// A thread that a tick of the timer has interrupted where it can give way.
struct Interrupted {
    is_over: bool,
    may: bool,
    is_blocked: bool,
}

impl preemption::Interrupted for Interrupted {
    fn is_over(&self) -> bool {
        self.is_over
    }
    fn spins(&self) -> preemption::Spins {
        preemption::Spins::No
    }
    fn may(&self) -> bool {
        self.may
    }
    fn is_blocked(&self) -> bool {
        self.is_blocked
    }
}

const COMPUTES: Interrupted = Interrupted { is_over: true, may: true, is_blocked: false };

/// What the second of two ticks in a row asks: by the first one it is known that the thread has run on.
fn is_due(interrupted: &Interrupted) -> bool {
    preemption::is_due(interrupted);
    preemption::is_due(interrupted)
}

/// Whoever is ready, is due, or has something to read.
#[test]
fn a_tick_makes_who_computes_give_way_to_whoever_waits() {
    const SLEEP: Duration = Duration::from_micros(200);
    let pool = one_processor().build().unwrap();
    let due = undisturbed(|| {
        pool.run(|| {
            let alone = is_due(&COMPUTES);
            let other = raddle::spawn(|| ());
            let to_ready = is_due(&COMPUTES);
            other.join().unwrap();

            let sleeper = raddle::spawn(|| raddle::sleep(SLEEP));
            while raddle::thread::yield_softly() {}
            let begun = Instant::now();
            while begun.elapsed() < 2 * SLEEP {
                std::hint::spin_loop();
            }
            let to_sleeper = is_due(&COMPUTES);
            sleeper.join().unwrap();

            let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
            let reader = raddle::spawn(move || raddle::io::wait(reader.as_fd(), raddle::io::Interest::Read, None));
            while raddle::thread::yield_softly() {}
            (&writer).write_all(&[1]).unwrap();
            // Who has looked a moment ago does not look again.
            let begun = Instant::now();
            while begun.elapsed() < SLEEP {
                std::hint::spin_loop();
            }
            let to_reader = is_due(&COMPUTES);
            reader.join().unwrap().unwrap();
            [alone, to_ready, to_sleeper, to_reader]
        })
    });
    assert_eq!(
        due,
        [false, true, true, true],
        "alone, beside one that is ready, that is due, that has something to read"
    );
}

#[test]
fn a_tick_asks_nobody_who_has_just_begun_is_blocked_or_cannot_give_way() {
    let pool = one_processor().build().unwrap();
    let due = undisturbed(|| {
        pool.run(|| {
            let other = raddle::spawn(|| ());
            let first = preemption::is_due(&COMPUTES);
            let within_its_quantum = is_due(&Interrupted { is_over: false, ..COMPUTES });
            let blocked = is_due(&Interrupted { is_blocked: true, ..COMPUTES });
            let (_, before) = preemption::counts();
            let elsewhere = is_due(&Interrupted { may: false, ..COMPUTES });
            let put_off = preemption::counts().1 - before;
            let due = is_due(&COMPUTES);
            other.join().unwrap();
            (first, within_its_quantum, blocked, elsewhere, put_off, due)
        })
    });
    assert_eq!(due, (false, false, false, false, 2, true));
    assert!(!preemption::is_due(&COMPUTES), "a kernel thread");
}
