//! A thread is a thread, and safe code cannot break it.

use raddle_machine::Real;
use raddle_scheduler::idle::Idle;

unsafe extern "C" {
    safe fn fesetround(mode: i32) -> i32;
    safe fn fegetround() -> i32;
}
const UPWARD: i32 = 0x800;

/// An exiting thread hands its stack to the next one without a switch: its floating-point modes must not go with it.
#[test]
#[cfg(target_arch = "x86_64")]
fn floating_point_modes_end_with_their_thread() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let modes = pool.run(|| {
        // The newest starts first.
        let after = raddle::spawn(|| fegetround());
        let before = raddle::spawn(|| fesetround(UPWARD));
        before.join().unwrap();
        (after.join().unwrap(), raddle::spawn(|| fegetround()).join().unwrap())
    });
    assert_eq!(modes, (0, 0), "a thread started with the rounding mode of one that had ended");
}

/// A pool of more than one group of processors: what one searcher leaves must reach a sleeper of another group.
#[test]
fn the_last_searcher_of_a_group_wakes_a_sleeper_of_another() {
    let idle = std::sync::Arc::new(Idle::<Real>::new(96));
    let theirs = idle.clone();
    // Processor 48 sleeps; all of the first group are busy, but for processor 0, which searches.
    idle.begin_search(48);
    let sleeper = std::thread::spawn(move || theirs.sleep(48, None, false, || false));
    while !idle.is_sleeping(48) {
        std::thread::yield_now();
    }
    idle.begin_search(0);
    // Two threads become ready; both pushers rely on the searcher, who finds the first.
    idle.notify();
    idle.notify();
    idle.found(0);
    let woken = !idle.is_sleeping(48);
    idle.kick();
    sleeper.join().unwrap();
    assert!(woken, "a ready thread and a sleeping processor, and nobody searches");
}
