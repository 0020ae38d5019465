//! All interleavings, within stated bounds, of those who tell a poller of a descriptor with its closes and removals, as
//! `raddle::io` does it. The poller is a lock around whether the descriptor is open and whether it is known.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::{Arc, Mutex};
use loom::thread;
use loom_runtime::explore;
use raddle_machine::Loom;
use raddle_scheduler::lives::{Lives, Registration};

#[derive(Default)]
struct Kernel {
    open: bool,
    known: bool,
}

#[derive(Default)]
struct Number {
    kernel: Mutex<Kernel>,
    lives: Lives<Loom>,
    registration: Registration<Loom>,
}

impl Number {
    /// A number that the program's call has made.
    fn open() -> Arc<Self> {
        let number = Arc::new(Self::default());
        number.kernel.lock().unwrap().open = true;
        number.lives.born(|| {});
        number
    }

    /// What a wait does that has to tell the poller.
    fn tell(&self) {
        let life = self.lives.now();
        {
            let mut kernel = self.kernel.lock().unwrap();
            if !kernel.open {
                return;
            }
            kernel.known = true;
        }
        self.registration.note(life);
    }

    fn remove(&self) {
        self.lives.unregister(|| {}, || self.kernel.lock().unwrap().known = false);
    }

    /// The program closes it, and gets the number again.
    fn close_and_open(&self) {
        self.lives.begin(|| {});
        *self.kernel.lock().unwrap() = Kernel::default();
        self.kernel.lock().unwrap().open = true;
        self.lives.born(|| {});
    }

    /// When nobody moves: whether a wait would rely on what was told, which must be true then (L1).
    fn relies(&self) -> bool {
        let holds = self.registration.holds(&self.lives);
        assert!(!holds || self.kernel.lock().unwrap().known, "a wait would rely on a poller that knows nothing");
        holds
    }
}

/// Who tells is always the one beside: loom remembers one access of a word, and would not try a telling before a look
/// by the other that is followed by its addition.
fn beside(number: &Arc<Number>, act: impl FnOnce(&Number) + Send + 'static) -> thread::JoinHandle<()> {
    let number = number.clone();
    thread::spawn(move || act(&number))
}

#[test]
fn what_is_told_beside_a_removal_is_relied_on_only_if_it_came_after() {
    explore(4, &["false", "true"], || {
        let number = Number::open();
        let teller = beside(&number, Number::tell);
        number.remove();
        teller.join().unwrap();
        number.relies()
    });
}

#[test]
fn what_is_told_beside_a_close_is_relied_on_only_if_it_came_after() {
    explore(4, &["false", "true"], || {
        let number = Number::open();
        let teller = beside(&number, Number::tell);
        number.close_and_open();
        teller.join().unwrap();
        number.relies()
    });
}

#[test]
fn removal_and_close_at_once_leave_nothing_to_rely_on_wrongly() {
    explore(3, &["(false, false)", "(false, true)", "(true, true)"], || {
        let number = Number::open();
        let teller = beside(&number, Number::tell);
        let closer = beside(&number, Number::close_and_open);
        number.remove();
        teller.join().unwrap();
        closer.join().unwrap();
        let before = number.relies();
        // Told with nobody beside, it is relied on if the birth is known.
        number.tell();
        (before, number.relies())
    });
}
