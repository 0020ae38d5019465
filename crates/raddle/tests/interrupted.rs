//! Interruptions, as signals for a thread make them: one that meets a thread between two processors is not forgotten
//! (its activation has lost its processor, and a policy that holds it back gives the time for that), and one that meets
//! a sleeper does not shorten its sleep.

use raddle_machine::Real;
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What fails here never happens; the limit is no measurement.
const LIMIT: Duration = Duration::from_secs(60);

/// One queue for all; what is submitted while `holds` is set waits until `goes`.
#[derive(Clone, Default)]
struct Holding {
    common: Arc<Mutex<VecDeque<Ready<Real>>>>,
    held: Arc<Mutex<Option<Ready<Real>>>>,
    holds: Arc<AtomicBool>,
    goes: Arc<AtomicBool>,
}

impl Policy<Real> for Holding {
    fn local(&self, _: usize) -> Box<dyn Local<Real>> {
        Box::new(self.clone())
    }
    fn submit(&self, thread: Ready<Real>) -> Notify {
        if self.holds.swap(false, Ordering::SeqCst) {
            *self.held.lock().unwrap() = Some(thread);
            return Notify::Nobody;
        }
        self.common.lock().unwrap().push_back(thread);
        Notify::Anyone
    }
    fn describe(&self) -> String {
        "holding".into()
    }
    fn offers(&self) -> bool {
        !self.common.lock().unwrap().is_empty()
    }
    fn strands(&self) -> &'static str {
        "what it holds"
    }
}

impl Local<Real> for Holding {
    fn push(&mut self, thread: Ready<Real>, _: Cause) -> Notify {
        self.common.lock().unwrap().push_back(thread);
        Notify::Anyone
    }
    fn next(&mut self, _: u8) -> Option<Ready<Real>> {
        let held = || if self.goes.load(Ordering::SeqCst) { self.held.lock().unwrap().take() } else { None };
        held().or_else(|| self.common.lock().unwrap().pop_front())
    }
    fn search(&mut self) -> Option<Ready<Real>> {
        self.next(u8::MAX)
    }
    fn has_work(&self) -> bool {
        self.offers()
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<Real>)) {
        self.common.lock().unwrap().drain(..).for_each(out);
    }
}

fn pipe() -> (std::fs::File, std::fs::File) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two descriptors, which become the files' own.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (std::fs::File::from_raw_fd(ends[0]), std::fs::File::from_raw_fd(ends[1]))
    }
}

#[test]
fn a_thread_that_comes_back_on_another_processor_sees_that_it_was_interrupted() {
    static SEEN: AtomicBool = AtomicBool::new(false);
    raddle::drop_in::on_interruption(|_| SEEN.store(true, Ordering::SeqCst));
    let policy = Holding::default();
    let own = policy.clone();
    let pool = raddle::Builder::new().processors(1).own_policy(move |_, _| Box::new(own.clone())).build().unwrap();
    let (mut reader, mut writer) = pipe();
    let thread = pool.spawn(move || {
        reader.read_exact(&mut [0]).unwrap();
        // Its processor goes on without it by now: this is where it finds out.
        raddle::yield_now();
        // From here on it computes.
        let begun = Instant::now();
        while !SEEN.load(Ordering::SeqCst) && begun.elapsed() < LIMIT {
            std::hint::spin_loop();
        }
        SEEN.load(Ordering::SeqCst)
    });
    // The one processor runs this: it was taken from the thread that is blocked.
    pool.run(|| ());
    // One that computes keeps the processor until the other has come back to find it gone.
    let busy = pool.spawn({
        let held = policy.held.clone();
        move || {
            while held.lock().unwrap().is_none() {
                std::hint::spin_loop();
            }
        }
    });
    policy.holds.store(true, Ordering::SeqCst);
    // Its start was submitted before that.
    writer.write_all(&[1]).unwrap();
    busy.join().unwrap();
    let raw = thread.into_raw();
    // SAFETY: the handle is neither joined nor dropped until it is made anew below.
    let met = unsafe { raddle::drop_in::interrupt(raw) };
    assert_eq!(met, raddle::drop_in::Met::OffProcessor);
    policy.goes.store(true, Ordering::SeqCst);
    drop(pool.spawn(|| ()));
    // SAFETY: of a handle of this type, once.
    let thread = unsafe { raddle::JoinHandle::<bool>::from_raw(raw) };
    assert!(thread.join().unwrap(), "it computes on and has not heard of it");
}

#[test]
fn an_interruption_does_not_shorten_a_sleep() {
    let pool = raddle::Builder::new().processors(1).build().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let ends = over.clone();
    let sleeper = pool.spawn(move || {
        let (begun, time) = (Instant::now(), Duration::from_millis(50));
        raddle::sleep(time);
        let long_enough = begun.elapsed() >= time;
        ends.store(true, Ordering::SeqCst);
        long_enough
    });
    let raw = sleeper.into_raw();
    while !over.load(Ordering::SeqCst) {
        // SAFETY: the handle is neither joined nor dropped until it is made anew below.
        let _ = unsafe { raddle::drop_in::interrupt(raw) };
        std::thread::yield_now();
    }
    // SAFETY: of a handle of this type, once.
    let sleeper = unsafe { raddle::JoinHandle::<bool>::from_raw(raw) };
    assert!(sleeper.join().unwrap());
}
