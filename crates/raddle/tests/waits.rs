//! What waits cost where many threads wait for the same, counted in switches.

mod undisturbed;

use raddle::sync::{Condvar, Mutex};
use std::sync::Arc;
use undisturbed::undisturbed;

const THREADS: u64 = 150;
const NOTIFICATIONS: u64 = 20;

/// A wait may begin with a yield, which is lost if nothing has come meanwhile. Of many that come to wait for the same
/// one tries, and the others park at once: about one switch a wait.
#[test]
fn of_many_that_wait_for_the_same_one_tries_to_yield_first() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let switches = undisturbed(|| {
        let before = raddle::info::stats().switches;
        pool.run(|| {
            // What was notified of, and how many are still to see it.
            let board = Arc::new((Mutex::new((0, 0)), Condvar::new(), Condvar::new()));
            let readers: Vec<_> = (0..THREADS)
                .map(|_| {
                    let board = board.clone();
                    raddle::spawn(move || {
                        let (state, fresh, all_read) = &*board;
                        for seen in 0..NOTIFICATIONS {
                            let mut state = fresh.wait_while(state.lock().unwrap(), |state| state.0 == seen).unwrap();
                            state.1 -= 1;
                            if state.1 == 0 {
                                drop(state);
                                all_read.notify_one();
                            }
                        }
                    })
                })
                .collect();
            let (state, fresh, all_read) = &*board;
            for _ in 0..NOTIFICATIONS {
                let mut state = all_read.wait_while(state.lock().unwrap(), |state| state.1 > 0).unwrap();
                *state = (state.0 + 1, THREADS);
                drop(state);
                fresh.notify_all();
            }
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
        raddle::info::stats().switches - before
    });
    let waits = THREADS * NOTIFICATIONS;
    println!("{switches} switches for {waits} waits");
    assert!(switches < waits * 5 / 4, "{switches} switches for {waits} waits");
}
