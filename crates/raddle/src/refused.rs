//! Misuse that does not compile; the rest is the corpus in `tests/safe`. Beside each stands what is meant, which does
//! compile, so that none is refused for another reason.
//!
//! # Borrows end before what they borrow
//!
//! A thread of a scope may borrow from outside, and from nothing inside:
//!
//! ```
//! let outside = 7;
//! raddle::scope(|s| {
//!     s.spawn(|| assert_eq!(outside, 7));
//!     s.fork(|| assert_eq!(outside, 7));
//! });
//! ```
//! ```compile_fail,E0597
//! raddle::scope(|s| {
//!     let inside = 7;
//!     s.spawn(|| assert_eq!(inside, 7));
//! });
//! ```
//! ```compile_fail,E0597
//! raddle::scope(|s| {
//!     let inside = 7;
//!     s.fork(|| assert_eq!(inside, 7));
//! });
//! ```
//!
//! Neither scope nor handle leaves:
//!
//! ```compile_fail
//! let leaked = raddle::scope(|s| s);
//! ```
//! ```compile_fail
//! let handle = raddle::scope(|s| s.spawn(|| 7));
//! ```
//! ```compile_fail,E0521
//! let mut kept = None;
//! raddle::scope(|s| kept = Some(s.spawn(|| 7)));
//! drop(kept);
//! ```
//!
//! A thread without a scope borrows nothing:
//!
//! ```
//! let outside = 7;
//! raddle::spawn(move || assert_eq!(outside, 7)).join().unwrap();
//! ```
//! ```compile_fail,E0373
//! let outside = 7;
//! raddle::spawn(|| assert_eq!(outside, 7)).join().unwrap();
//! ```
//! ```compile_fail,E0597
//! let outside = String::from("a");
//! let borrowed: &'static str = raddle::spawn({ let part = outside.as_str(); move || part }).join().unwrap();
//! ```
//!
//! # One writer
//!
//! ```
//! let (mut left, mut right) = (1, 2);
//! raddle::join(|| left += 1, || right += 1);
//! raddle::scope(|s| s.fork(|| left += right));
//! assert_eq!(left, 5);
//! ```
//! ```compile_fail,E0499
//! let mut both = 1;
//! raddle::join(|| both += 1, || both += 1);
//! ```
//! ```compile_fail,E0499
//! let mut both = 1;
//! raddle::scope(|s| {
//!     s.fork(|| both += 1);
//!     s.fork(|| both += 1);
//! });
//! ```
//!
//! # What stays with its thread
//!
//! ```compile_fail,E0277
//! let own = std::rc::Rc::new(7);
//! raddle::spawn(move || *own);
//! ```
//! ```compile_fail,E0277
//! raddle::join(|| std::rc::Rc::new(7), || ());
//! ```
//! ```compile_fail,E0277
//! let cell = std::cell::Cell::new(7);
//! raddle::scope(|s| s.fork(|| cell.set(8)));
//! ```
//! ```compile_fail,E0277
//! static MUTEX: raddle::sync::Mutex<u32> = raddle::sync::Mutex::new(7);
//! let guard = MUTEX.lock().unwrap();
//! raddle::spawn(move || drop(guard));
//! ```
//! ```compile_fail,E0277
//! let pool = raddle::Builder::new().processors(1).build().unwrap();
//! let own = std::rc::Rc::new(7);
//! pool.run(|| *own);
//! ```
//!
//! # Guards and their locks
//!
//! ```compile_fail,E0505
//! let mutex = raddle::sync::Mutex::new(7);
//! let guard = mutex.lock().unwrap();
//! drop(mutex);
//! drop(guard);
//! ```
//! ```compile_fail,E0502
//! let monitor = raddle::sync::Monitor::new(7);
//! let mut guard = monitor.enter().unwrap();
//! let inside: &u32 = &guard;
//! guard.wait_until(|value| *value > 0);
//! assert_eq!(*inside, 7);
//! ```
//! ```compile_fail,E0382
//! let mutex = raddle::sync::Mutex::new(7);
//! let guard = mutex.lock().unwrap();
//! let again = raddle::sync::Condvar::new().wait(guard);
//! assert_eq!(*guard, 7);
//! ```
//!
//! # Once only
//!
//! ```compile_fail,E0382
//! let handle = raddle::spawn(|| 7);
//! handle.join().unwrap();
//! handle.join().unwrap();
//! ```
//! ```compile_fail,E0382
//! let (promise, _future) = raddle::sync::oneshot::channel();
//! promise.set(1).unwrap();
//! promise.set(2).unwrap();
//! ```
//! ```compile_fail,E0599
//! fn twice(ready: raddle_scheduler::Ready<raddle_machine::Real>) {
//!     let _ = ready.clone();
//! }
//! ```
