//! Building a pool, and why it cannot be built.

use super::*;
use crate::carry::above::{ABOVE, Above};
use crate::carry::kept::Kept;
use crate::carry::loops::Wish;
use crate::carry::pool::{Plan, TLS, arena, default_class, descriptors, rescue};
use crate::carry::processor::{Dispatcher, Foreign, Owned};
use crate::carry::quanta::{Preempt, Quanta};
use raddle_context::tls::{self, Tls, Unsupported};
use raddle_machine::Real;
use raddle_scheduler::Policy;
use raddle_scheduler::expression::Expression;
use raddle_scheduler::idle::Idle;
use raddle_scheduler::policies::{self, AnyLocal, AnyPolicy, Others};
use std::sync::Arc;
use std::time::Duration;

/// What makes a policy that no expression names, for at most so many processors.
type Maker = dyn Fn(usize, Arc<dyn Others>) -> Box<dyn Policy<Real>> + Send + Sync;

/// Makes a [`Pool`].
#[derive(Clone, Default)]
pub struct Builder {
    processors: Option<usize>,
    policy: Expression,
    /// What is wrong with the expression's text.
    wrong: Option<String>,
    /// Instead of the expression.
    own: Option<Arc<Maker>>,
    prefix: Option<String>,
    /// How many processors it may come to have, where stages move them.
    room: Option<usize>,
    /// None of them rests for others' sake.
    all: bool,
    event_loops: Wish,
    quanta: Quanta,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processors, policy, wrong: _, own, prefix, room, all, event_loops, quanta } = self;
        let policy: &dyn fmt::Debug = if own.is_some() { &"a policy of the program's own" } else { policy };
        let mut shown = f.debug_struct("Builder");
        shown.field("processors", processors).field("policy", policy);
        shown.field("prefix", prefix).field("room", room).field("all", all).field("event_loops", event_loops);
        shown.field("quanta", quanta).finish()
    }
}

impl Builder {
    /// One processor per core that the process is allotted (affinity and the control group's quota), the default
    /// policy. While it runs, the pool follows changes of both within about a tenth of a second: its kernel threads'
    /// affinity and the quota say how many processors take part. Some of these may rest, see [`Builder::at_most`].
    /// (Under `rotator`, whose ring must stay closed, the number stays as it was.)
    pub fn new() -> Self {
        Self::default()
    }

    /// So many processors, whatever happens.
    pub fn processors(mut self, count: usize) -> Self {
        (self.processors, self.all) = (Some(count), true);
        self
    }

    /// At most so many processors: while others use the same cores, and the pool, which waits for descriptors a lot,
    /// was seen to do about as much on fewer, some rest. It looks ten times a second, and tries now and then;
    /// [`crate::govern::info::Stats`] counts the changes. For a server whose clients, or whatever it asks, run on the
    /// same machine. (Not under `rotator`.)
    pub fn at_most(mut self, count: usize) -> Self {
        (self.processors, self.all) = (Some(count), false);
        self
    }

    /// As many as there are now, or as are allotted.
    pub(crate) fn all_of_them(self) -> Self {
        Self { all: true, ..self }
    }

    /// What becomes of threads of the drop-in library that are event loops.
    pub(crate) fn event_loops(self, event_loops: Wish) -> Self {
        Self { event_loops, ..self }
    }

    /// This policy: a text such as `steal(lifo)`, or an [`Expression`]. If the text is wrong, [`Builder::build`] says
    /// where.
    ///
    /// ```
    /// use raddle::policy::Expression;
    /// let pool = raddle::Builder::new().policy("steal(lifo)").build().unwrap();
    /// assert_eq!(pool.run(|| 6 * 7), 42);
    /// let read: Expression = "steal(lifo)".parse().unwrap();
    /// assert_eq!(raddle::Builder::new().policy(read).build().unwrap().policy(), pool.policy());
    ///
    /// let wrong = raddle::Builder::new().policy("steal(life)").build().unwrap_err();
    /// assert!(format!("{wrong:?}").contains("column 7"));
    /// ```
    pub fn policy<P>(self, policy: P) -> Self
    where
        P: TryInto<Expression>,
        P::Error: fmt::Display,
    {
        match policy.try_into() {
            Ok(policy) => Self { policy, wrong: None, own: None, ..self },
            Err(error) => Self { wrong: Some(error.to_string()), own: None, ..self },
        }
    }

    /// A policy of the program's own, which `make` makes for at most so many processors; what it is given besides
    /// answers who sleeps. It may be called more than once. How to write, check and simulate one:
    /// `docs/write-your-own-policy.md`.
    pub fn own_policy(
        mut self,
        make: impl Fn(usize, Arc<dyn Others>) -> Box<dyn Policy<Real>> + Send + Sync + 'static,
    ) -> Self {
        self.own = Some(Arc::new(make));
        self
    }

    fn make_policy(&self, room: usize, idle: &Arc<Idle<Real>>) -> Result<AnyPolicy<Real>, BuildError> {
        if let Some(wrong) = &self.wrong {
            return Err(BuildError::Policy(wrong.clone()));
        }
        match &self.own {
            Some(make) => Ok(AnyPolicy::Other(make(room, idle.clone()))),
            None => {
                let wrong = std::cell::RefCell::new(None);
                let policy = self.policy.clone().in_clusters_of(&|| {
                    of_the_machine().unwrap_or_else(|error| {
                        wrong.replace(Some(error));
                        1
                    })
                });
                if let Some(wrong) = wrong.into_inner() {
                    return Err(BuildError::Policy(wrong));
                }
                policies::build(&policy, room, idle.clone()).map_err(|error| BuildError::Policy(error.to_string()))
            }
        }
    }

    /// How long a thread runs on, once others wait, before it gives way at a quantum check: 1 ms if nothing is said, at
    /// most a second. Such checks are in programs that were built with `raddle cargo` (`docs/preemptible.md`); others
    /// give way where they wait, yield, or call [`crate::check`].
    ///
    /// ```
    /// use std::time::Duration;
    /// let pool = raddle::Builder::new().processors(1).quantum(Duration::from_micros(200)).build().unwrap();
    /// assert_eq!(pool.run(|| 6 * 7), 42);
    /// ```
    pub fn quantum(self, quantum: Duration) -> Self {
        self.quanta([quantum])
    }

    /// As [`Builder::quantum`], one for each priority from the most urgent on; those below have the last. A thread's
    /// own ([`crate::thread::Builder::quantum`]) comes before it.
    pub fn quanta(mut self, quanta: impl IntoIterator<Item = Duration>) -> Self {
        self.quanta.set(quanta);
        self
    }

    /// Whether threads give way at quantum checks at all: they do if nothing is said.
    pub fn preempt(mut self, preempt: Preempt) -> Self {
        self.quanta.preempt = preempt;
        self
    }

    /// The names of the kernel threads begin so (as shown by `ps -L` and debuggers). A NUL, of which the kernel's names
    /// know none, is shown as `?`.
    pub fn kernel_thread_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = Some(prefix.into());
        self
    }

    /// As [`Builder::build`], for a pool that may come to have `room` processors; `None` if its policy is a ring, which
    /// cannot.
    pub(crate) fn build_with_room(self, room: usize) -> Result<Option<Pool>, BuildError> {
        match self.make_policy(1, &Arc::new(Idle::<Real>::new(1)))?.ring() && room > 1 {
            true => Ok(None),
            false => Builder { room: Some(room), ..self }.build().map(Some),
        }
    }

    /// Starts the pool's processors.
    ///
    /// Where the C library is not as the self-check wants it, this says so once on standard error, and threads are
    /// kernel threads from then on.
    ///
    /// # Errors
    /// [`BuildError`]: nothing was started then.
    pub fn build(self) -> Result<Pool, BuildError> {
        let count = self.processors.unwrap_or_else(os::default_processors);
        if count == 0 || count > MAX_PROCESSORS {
            return Err(BuildError::Processors(count));
        }
        let wanders = crate::carry::wander::is_wanted().map_err(BuildError::Policy)?;
        raddle_scheduler::ready::set_drop_hook(rescue);
        ABOVE.get_or_init(|| Above {
            see_to_scopes: crate::threads::members::pass_on_cancellation,
            promote_oldest: crate::threads::forkjoin::promote_oldest,
        });
        crate::govern::monitor::BESIDES.requests.get_or_init(|| crate::threads::requests::looks);
        match lightweight() {
            Ok(tls) => TLS.get_or_init(|| tls),
            Err(error) => {
                os::say_once(&format!("raddle: {error}"));
                return kernel_pool().map(|shared| Pool { shared });
            }
        };
        if !Real::heavy_fence_available() {
            os::say_once(
                "raddle: membarrier is forbidden here: idle processors look for work every millisecond instead, and a thread \
                 that blocks in the kernel keeps its processor",
            );
        }
        install_overflow_report();
        arena(default_class())?;
        // A closed ring cannot lose a member.
        let ring = self.make_policy(1, &Arc::new(Idle::<Real>::new(1)))?.ring();
        let follows = self.processors.is_none() && !ring;
        let may_have_fewer = !self.all && !ring;
        let room = if follows { count.max(os::online()) } else { self.room.unwrap_or(count) };
        let room = room.clamp(count, MAX_PROCESSORS);
        let idle = Arc::new(Idle::with_alarm(room, crate::carry::events::watch::alarm));
        // What a policy of the program's own does from here to the registration may panic: nothing is lost then.
        let policy = self.make_policy(room, &idle)?;
        let name: Arc<str> = policy.describe().into();
        let foreign = |local| Foreign::new(local, name.clone());
        let wanders = wanders && room > 1 && self.own.is_none() && !ring;
        let part = |index| match wanders {
            true => AnyLocal::Other(foreign(Box::new(crate::carry::wander::Wanderer::new(policy.local(index), index)))),
            false => policy.part(index, foreign),
        };
        let mut parts: Vec<_> = (0..room).map(part).collect();
        let prefix = self.prefix.clone().unwrap_or_else(|| "raddle-".into());
        let quanta = self.quanta.clone();
        let plan = Plan {
            idle,
            policy,
            name,
            prefix,
            follows,
            may_have_fewer,
            wanders,
            event_loops: self.event_loops,
            quanta,
        };
        let shared = plan.register()?;
        let make = |(index, mut part): (usize, AnyLocal<Real, Foreign>)| {
            if let AnyLocal::Other(foreign) = &mut part {
                foreign.belong_to(shared.index);
            }
            let owned = Owned {
                dispatcher: Dispatcher::new(part),
                descriptors: descriptors().cache_of(index),
                kept: Kept::new(),
                timers: Default::default(),
                held: None,
                bed: None,
                looked: 0,
            };
            let processor = Processor::new(index, shared, 0, owned);
            if index >= count {
                processor.seat.begin_retired();
            }
            processor
        };
        let processors = shared.with_processors(|| parts.drain(..).enumerate().map(make).collect());
        let pool = Pool { shared };
        for processor in &processors[..count] {
            // On an error `pool` is dropped, which stops those that started.
            shared.start_activation(Some(processor))?;
        }
        shared.set_open();
        crate::govern::monitor::start();
        Ok(pool)
    }
}

/// Installs the report of stack overflows, with the names of threads.
fn install_overflow_report() {
    static DONE: std::sync::Once = std::sync::Once::new();
    DONE.call_once(|| {
        let name_of = |_: usize, out: &mut dyn std::fmt::Write| {
            let mut say = |name: Option<&str>| _ = out.write_str(name.unwrap_or("<unnamed>"));
            match crate::carry::switching::current() {
                Some(me) => me.with_name(say),
                None => say(None),
            }
        };
        if let Err(error) = raddle_context::overflow::install(name_of) {
            os::say_once(&format!("raddle: stack overflows will not be reported by name: {error}"));
        }
    });
}

/// Whether lightweight threads can be had; the environment variable `RADDLE_KERNEL_THREADS=1` says no.
fn lightweight() -> Result<&'static Tls, Unsupported> {
    if std::env::var_os("RADDLE_KERNEL_THREADS").is_some_and(|value| value == "1") {
        return Err(Unsupported { reason: tls::KERNEL_THREADS_ASKED_FOR.into() });
    }
    tls::init()
}

/// A pool whose threads are kernel threads: it has no processor.
fn kernel_pool() -> Result<&'static Shared, BuildError> {
    let idle = Arc::new(Idle::<Real>::new(1));
    let policy = policies::build(&Expression::default(), 1, idle.clone()).expect("the default policy");
    let name = policy.describe().into();
    let event_loops = Wish::Either;
    Plan {
        idle,
        policy,
        name,
        prefix: String::new(),
        follows: false,
        may_have_fewer: false,
        wanders: false,
        event_loops,
        quanta: Quanta::default(),
    }
    .register()
}

/// How many processors the machine has in its largest cluster, by the last cache or as `RADDLE_CLUSTERS` says.
fn of_the_machine() -> Result<u32, String> {
    let topology = crate::topology::Topology::try_machine()?;
    Ok(topology.clusters().map(<[usize]>::len).max().and_then(|most| u32::try_from(most).ok()).unwrap_or(1))
}
