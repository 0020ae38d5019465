//! Pools: a set of processors under one policy.
//!
//! # Example
//! ```
//! let pool = raddle::Builder::new().processors(2).policy("steal(lifo)").build().unwrap();
//! let data = vec![1, 2, 3, 4];
//! let sum: i32 = pool.run(|| {
//!     raddle::scope(|s| {
//!         let left = s.spawn(|| data[..2].iter().sum::<i32>());
//!         data[2..].iter().sum::<i32>() + left.join().unwrap()
//!     })
//! });
//! assert_eq!(sum, 10);
//! ```

use crate::carry::pool::Shared;
use crate::carry::processor::Processor;
use crate::carry::witness::Inside;
use crate::os;
use raddle_scheduler::expression::Expression;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

mod builder;
mod moving;

pub use crate::carry::errors::BuildError;
pub use crate::carry::pool::{DEFAULT_STACK, MAX_PROCESSORS};
pub use builder::Builder;
pub use moving::{MoveError, blocking, move_to};

/// Null until it is needed, and again in the child of a fork.
static DEFAULT_POOL: AtomicPtr<Result<Pool, String>> = AtomicPtr::new(std::ptr::null_mut());

/// As the first who needed the default pool wanted it.
static DEFAULTS: OnceLock<Settings> = OnceLock::new();

/// What the environment says of the default pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `RADDLE_PROCESSORS`: at most so many.
    pub processors: Option<String>,
    /// `RADDLE_POLICY`.
    pub policy: Option<String>,
    /// `RADDLE_ALL_PROCESSORS=1`: none rests where others use the cores, too ([`crate::Builder::at_most`]).
    pub all_processors: bool,
    /// `RADDLE_EVENT_LOOPS`: `apart` or `gathered`, if it is not to be found out which is better.
    pub event_loops: Option<String>,
    /// `RADDLE_DIRECT_SENDS=1`: each thread sends by itself at once.
    pub direct_sends: bool,
}

impl Settings {
    /// With what tells a variable of the environment.
    pub fn read(variable: impl Fn(&'static str) -> Option<String>) -> Self {
        Self {
            processors: variable("RADDLE_PROCESSORS"),
            policy: variable("RADDLE_POLICY"),
            all_processors: variable("RADDLE_ALL_PROCESSORS").is_some_and(|value| value == "1"),
            event_loops: variable("RADDLE_EVENT_LOOPS"),
            direct_sends: variable("RADDLE_DIRECT_SENDS").is_some_and(|value| value == "1"),
        }
    }
}

/// A set of processors under one policy. Dropping it waits until its threads have ended, then ends its kernel threads.
pub struct Pool {
    shared: &'static Shared,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("processors", &self.processors()).field("policy", &self.shared.describe()).finish()
    }
}

impl Pool {
    pub(crate) fn shared(&self) -> &'static Shared {
        self.shared
    }

    /// How many processors it has now (0 where threads are kernel threads).
    pub fn processors(&self) -> usize {
        self.shared.active()
    }

    /// The expression of its policy.
    pub fn policy(&self) -> String {
        self.shared.describe().to_owned()
    }

    /// Runs `f` as a thread of this pool and blocks the caller until it has ended. A panic of `f` goes on in the
    /// caller.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let spawned = crate::threads::scope::scope(|scope| {
            let handle = crate::threads::thread::Builder::new().spawn_in_scope(self.shared, scope, f);
            handle.unwrap_or_else(|error| panic!("raddle: {error}")).join()
        });
        spawned.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Spawns a thread into this pool.
    ///
    /// # Panics
    /// When no thread can be had; [`crate::threads::thread::Builder::spawn_into`] returns the error instead.
    pub fn spawn<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> crate::JoinHandle<T> {
        crate::threads::thread::Builder::new().spawn_into(self, f).unwrap_or_else(|error| panic!("raddle: {error}"))
    }

    /// The largest number that is a priority under its policy: the least urgent one.
    pub fn lowest_priority(&self) -> u8 {
        self.shared.priorities - 1
    }

    /// True if the calling thread is one of this pool's.
    pub fn is_current(&self) -> bool {
        crate::carry::switching::current().is_some_and(|me| me.pool() == self.shared.index)
            || crate::threads::fallback::is_of(self.shared)
    }

    /// Threads of this pool that have not ended.
    pub fn live_threads(&self) -> u64 {
        let sum = |pick: fn(&Processor) -> &AtomicU64| -> u64 {
            self.shared.processors().iter().map(|p| pick(p).load(Ordering::Acquire)).fold(0, u64::wrapping_add)
        };
        // Ends and leaves first: each was preceded by its spawn, which the later reads see (Release at the end, Acquire
        // here).
        let exited = sum(|p| &p.counters.exited).wrapping_add(sum(|p| &p.counters.moved));
        let exited = exited.wrapping_add(self.shared.ended_alone.load(Ordering::Acquire));
        let outside = self.shared.outside_spawned.load(Ordering::Acquire);
        let came = outside.wrapping_add(self.shared.moved_in.load(Ordering::Acquire));
        sum(|p| &p.counters.spawned).wrapping_add(came).wrapping_sub(exited)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.is_current() {
            // It would wait for its own end.
            os::say_once("raddle: a pool was dropped by one of its own threads: it stays until the process ends");
            return;
        }
        // Rare and not urgent: polling spares every exit a shared counter.
        let mut pause = std::time::Duration::from_micros(50);
        while self.live_threads() != 0 {
            crate::sleep(pause);
            pause = (pause * 2).min(std::time::Duration::from_millis(10));
        }
        self.shared.stop();
        // Nobody but the monitor can still have a processor, and that for an instant.
        if let Some(me) = crate::carry::activations::claim(None) {
            for processor in self.shared.processors() {
                let mut inside = loop {
                    match Inside::adopt(me, processor) {
                        Some(inside) => break inside,
                        None => std::thread::yield_now(),
                    }
                };
                inside.owned().give_back();
                processor.sends.give_back();
                inside.release();
            }
            me.give_back();
        }
        self.shared.unregister();
    }
}

/// The pool that [`crate::spawn`] uses from kernel threads: made on first use, with the processors that the process is
/// allotted, or as the environment says ([`crate::guest::Settings`]).
///
/// # Panics
/// When it cannot be built: the message names cause and remedy.
#[inline]
pub fn default_pool() -> &'static Pool {
    // SAFETY: null, or never freed once it is stored.
    match unsafe { DEFAULT_POOL.load(Ordering::Acquire).as_ref() } {
        Some(Ok(pool)) => pool,
        _ => first_default_pool(),
    }
}

/// The environment is read once: a program may change it while threads are created.
#[cold]
#[inline(never)]
fn first_default_pool() -> &'static Pool {
    let set = |name| std::env::var(name).ok();
    start_default(&Settings::read(set)).unwrap_or_else(|error| panic!("raddle: {error}"))
}

/// The default pool, built as the first caller's settings say unless it is there already, or its building has failed
/// before.
///
/// Two that come at once both build one, and the later one's ends again: so nobody waits for anybody, nor for one whom
/// a fork left behind.
pub(crate) fn start_default(settings: &Settings) -> Result<&'static Pool, &'static str> {
    let mut there = DEFAULT_POOL.load(Ordering::Acquire);
    if there.is_null() {
        let made = Box::into_raw(Box::new(build_default(DEFAULTS.get_or_init(|| settings.clone()))));
        let null = std::ptr::null_mut();
        there = match DEFAULT_POOL.compare_exchange(null, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(first) => {
                // SAFETY: made above and shown to nobody.
                drop(unsafe { Box::from_raw(made) });
                first
            }
        };
    }
    // SAFETY: not null, and never freed once it is stored.
    unsafe { &*there }.as_ref().map_err(String::as_str)
}

fn build_default(settings: &Settings) -> Result<Pool, String> {
    let mut builder = Builder::new();
    if let Some(text) = &settings.processors {
        let count = text.parse().map_err(|_| format!("RADDLE_PROCESSORS={text}: give a number of processors"))?;
        builder = builder.at_most(count);
    }
    if settings.all_processors {
        builder = builder.all_of_them();
    }
    if let Some(text) = &settings.event_loops {
        let wish = text.parse().map_err(|()| format!("RADDLE_EVENT_LOOPS={text}: give `apart` or `gathered`"))?;
        builder = builder.event_loops(wish);
    }
    if let Some(text) = &settings.policy {
        builder = builder.policy(Expression::try_from(text).map_err(|error| format!("RADDLE_POLICY: {error}"))?);
    }
    builder.build().map_err(|error| error.to_string())
}

/// In the child of a fork: there is none.
pub(crate) fn forget() {
    DEFAULT_POOL.store(std::ptr::null_mut(), Ordering::Relaxed);
}
