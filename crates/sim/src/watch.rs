//! A kernel thread that watches a long simulation: it shows that it goes on, and ends the process when a simulated
//! program, or a policy, loops without a step: nothing else could stop it.
//!
//! # Example
//! ```
//! use raddle_sim::watch::{STUCK_AFTER, Watchdog};
//! let watch = Watchdog::start(STUCK_AFTER, |what, steps| eprintln!("{what}, {steps} steps"));
//! watch.now("a large machine".into());
//! // Simulate.
//! watch.end();
//! ```
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Steps of all runs of the process, in thousands at least. A counter only: Relaxed.
static STEPS: AtomicU64 = AtomicU64::new(0);

/// For so long a simulation may go on without a step until its policy or its workload is said to loop.
pub const STUCK_AFTER: Duration = Duration::from_secs(20);

/// One step in so many is told. A power of two.
pub(crate) const TOLD: u64 = 1024;

/// That it goes on, though it may take long until the next step.
pub(crate) fn tell() {
    STEPS.fetch_add(TOLD, Ordering::Relaxed);
}

#[derive(Default)]
struct State {
    what: String,
    began: u64,
    over: bool,
}

/// The watching kernel thread.
pub struct Watchdog {
    shared: Arc<(Mutex<State>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watchdog {
    /// Watches from now on. `show` is told four times a second what is simulated and how far it has come; after
    /// `patience` without a step the process ends with status 1 and says what was simulated. What follows a step is
    /// stopped with the process (a stopped process does not lose its patience).
    pub fn start(patience: Duration, show: impl Fn(&str, u64) + Send + 'static) -> Self {
        let shared = Arc::<(Mutex<State>, Condvar)>::default();
        let theirs = shared.clone();
        let watch = move || {
            let (state, bell) = &*theirs;
            let mut state = state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let (mut seen, mut idle) = (0, Duration::ZERO);
            const PERIOD: Duration = Duration::from_millis(250);
            loop {
                let before = Instant::now();
                let waited = bell.wait_timeout(state, PERIOD).unwrap_or_else(|poisoned| poisoned.into_inner());
                state = waited.0;
                if state.over {
                    return;
                }
                let steps = STEPS.load(Ordering::Relaxed);
                // A period that took much longer was spent stopped.
                idle = if steps == seen { idle + before.elapsed().min(2 * PERIOD) } else { Duration::ZERO };
                seen = steps;
                show(&state.what, steps - state.began);
                if idle >= patience && !state.what.is_empty() {
                    // Also where nobody can read it.
                    let _ = writeln!(
                        std::io::stderr(),
                        "\nraddle: {}: no step for {} seconds: the policy or the workload loops without one",
                        state.what,
                        patience.as_secs()
                    );
                    std::process::exit(1);
                }
            }
        };
        let thread = std::thread::Builder::new().name("watch".into()).spawn(watch).ok();
        Self { shared, thread }
    }

    /// Says what is simulated now.
    pub fn now(&self, what: String) {
        let mut state = self.shared.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.what = what;
        state.began = STEPS.load(Ordering::Relaxed);
        tell();
    }

    /// Ends the watch.
    pub fn end(self) {}
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).over = true;
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
