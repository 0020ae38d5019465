//! A pool of the policy under check: what its processors do, and what is watched.
//!
//! A processor does here what an activation of the library does: it takes what is at hand, else searches, else sleeps, with the
//! same calls of the policy and of [`Idle`] in the same order. Counts that the watching needs are plain cells: no steps.

use super::promise::{self, Own, Passage, Promises};
use super::scenario::{Act, Reach, Scenario, Script};
use super::{Subject, scenario};
use crate::execution::{start, work};
use crate::machine::Controlled;
use crate::tokens::Tokens;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::idle::{Idle, Woken};
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// How many selections show the order of a stack: its policies take the oldest now and then.
const SHOWN: usize = 6;

/// Where a thread is.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// How far it has come in its script.
    done: usize,
    ended: bool,
    /// Since when and by whom it is ready.
    push: (u64, u64),
    pusher: Option<usize>,
    cause: Option<Cause>,
    /// It was made ready by a processor that is busy after it published it.
    published: bool,
}

/// The pool.
pub(super) struct Pool {
    idle: Arc<Idle<Controlled>>,
    policy: Box<dyn Policy<Controlled>>,
    locals: Vec<RefCell<Box<dyn Local<Controlled>>>>,
    directed: bool,
    promises: Promises,
    tokens: Tokens,
    scenario: &'static Scenario,
    script: Script,
    states: Vec<Cell<State>>,
    left: Cell<usize>,
    stopped: Vec<Cell<bool>>,
    /// Processors that have a thread.
    busy: Cell<usize>,
    /// What a thread that keeps its processor waits on, and whether one does.
    held: <Controlled as Machine>::Atomic<u32>,
    /// The processor of the thread that holds.
    holding: Cell<Option<usize>>,
    clock: Rc<Cell<u64>>,
    reached: Cell<u32>,
    passages: RefCell<Vec<Passage>>,
    told: bool,
    events: RefCell<Vec<(u64, String, String)>>,
}

/// Who does something.
type Who = Option<usize>;

impl Pool {
    /// Makes it, in the setup of a run, and starts its processors.
    pub fn new(
        subject: &Subject,
        scenario: &'static Scenario,
        processors: usize,
        threads: usize,
        clock: Rc<Cell<u64>>,
        told: bool,
    ) -> Result<Rc<Self>, String> {
        let idle = Arc::new(Idle::new(processors));
        let policy = (subject.build)(processors, idle.clone())?;
        let script = scenario.script(processors, threads, policy.priorities());
        let pool = Rc::new(Self {
            idle,
            locals: (0..processors).map(|index| RefCell::new(policy.local(index))).collect(),
            directed: policy.ring(),
            policy,
            promises: subject.promises,
            tokens: Tokens::new(threads),
            scenario,
            script,
            states: (0..threads).map(|_| Cell::default()).collect(),
            left: Cell::new(threads),
            stopped: (0..processors).map(|_| Cell::new(false)).collect(),
            busy: Cell::new(0),
            held: Atomic::new(0),
            holding: Cell::new(None),
            clock,
            reached: Cell::new(0),
            passages: RefCell::default(),
            told,
            events: RefCell::default(),
        });
        for index in 0..processors {
            let pool = pool.clone();
            start(format!("processor {index}"), move || pool.process(index));
        }
        if !pool.script.outside.is_empty() {
            let pool = pool.clone();
            start("outside", move || pool.outside());
        }
        Ok(pool)
    }

    /// What coroutine `core` is called.
    pub fn name(&self, core: usize) -> String {
        self.who((core < self.locals.len()).then_some(core))
    }

    fn who(&self, who: Who) -> String {
        who.map_or("outside".to_string(), |index| format!("processor {index}"))
    }

    /// The listed outcomes that were reached, as bits.
    pub fn reached(&self) -> u32 {
        let overtook = |(a, b): (&Passage, &Passage)| {
            a.priority < b.priority && b.push.1 < a.push.0 && a.selection.1 < b.selection.0
        };
        let passages = self.passages.borrow();
        if passages.iter().any(|a| passages.iter().any(|b| overtook((a, b)))) {
            self.reach(Reach::Overtook);
        }
        self.reached.get()
    }

    /// What was meant by the steps: before which, by whom, what.
    pub fn events(&self) -> Vec<(u64, String, String)> {
        self.events.borrow().clone()
    }

    fn tell(&self, who: Who, what: impl FnOnce() -> String) {
        if self.told {
            self.events.borrow_mut().push((self.clock.get(), self.who(who), what()));
        }
    }

    fn reach(&self, reach: Reach) {
        self.reached.set(self.reached.get() | reach.bit());
    }

    fn over(&self) -> bool {
        self.left.get() == 0
    }

    fn change(&self, thread: usize, change: impl FnOnce(&mut State)) {
        let mut state = self.states[thread].get();
        change(&mut state);
        self.states[thread].set(state);
    }

    /// What broke in a run in which all came to their ends.
    pub fn broken(&self) -> Option<String> {
        let lost = self.tokens.out();
        if !lost.is_empty() || self.left.get() > 0 {
            return Some(format!("lost: {}", self.ready_ones(&lost)));
        }
        if self.idle.hungry() {
            return Some("all processors have ended, and some count as searching or asleep".to_string());
        }
        let passages = self.passages.borrow();
        if self.scenario.name == "order" {
            let selected: Vec<usize> = passages.iter().map(|passage| passage.thread).take(SHOWN).collect();
            let count = self.states.len();
            let (expected, what): (Vec<usize>, _) = match self.promises.own {
                Own::Oldest => ((0..count).take(SHOWN).collect(), "the oldest first"),
                Own::Newest => ((0..count).rev().take(SHOWN).collect(), "the newest first"),
                Own::None => (selected.clone(), ""),
            };
            if selected != expected {
                return Some(format!(
                    "{what}: of threads 0 to {} these were selected in turn: {selected:?}",
                    count - 1
                ));
            }
        }
        promise::broken(&self.promises, &passages, self.locals.len() == 1)
    }

    /// What it means that these are asleep for ever.
    pub fn asleep(&self, names: &[String]) -> String {
        let ready = self.tokens.out();
        let names = names.join(" and ");
        match ready.is_empty() {
            false => format!("asleep for ever beside work ({names}): {}", self.ready_ones(&ready)),
            true => format!("asleep for ever ({names}), although no thread is left"),
        }
    }

    fn ready_ones(&self, threads: &[usize]) -> String {
        let one = |&thread: &usize| {
            let State { pusher, cause, .. } = self.states[thread].get();
            let cause = cause.map_or(String::new(), |cause| format!("{cause:?}").to_lowercase());
            format!("thread {thread} is ready ({cause}, by {})", self.who(pusher))
        };
        threads.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn outside(&self) {
        for &thread in &self.script.outside {
            let notify = self.ready(None, thread, Cause::Submitted, |ready| self.policy.submit(ready));
            self.notify(None, notify);
        }
    }

    /// Makes a thread ready by what `push` does.
    fn ready(&self, who: Who, thread: usize, cause: Cause, push: impl FnOnce(Ready<Controlled>) -> Notify) -> Notify {
        let ready = self.tokens.ready_at(thread, self.script.priorities[thread]);
        let begin = self.clock.get();
        self.change(thread, |state| {
            (state.pusher, state.cause) = (who, Some(cause));
            state.push = (begin, u64::MAX);
        });
        let verb = if who.is_some() { "pushes" } else { "submits" };
        self.tell(who, || format!("{verb} thread {thread} ({})", format!("{cause:?}").to_lowercase()));
        let notify = push(ready);
        let end = self.clock.get();
        // Unless it has been selected meanwhile, and pushed again.
        self.change(thread, |state| {
            if state.push.0 == begin {
                state.push.1 = end;
            }
        });
        for passage in self.passages.borrow_mut().iter_mut() {
            if passage.thread == thread && passage.push == (begin, u64::MAX) {
                passage.push.1 = end;
            }
        }
        notify
    }

    fn notify(&self, who: Who, whom: Notify) {
        self.tell(who, || match whom {
            Notify::Nobody => "tells nobody".to_string(),
            Notify::Anyone => "tells anyone".to_string(),
            Notify::Processor(index) => format!("tells processor {index}"),
        });
        self.idle.tell(whom);
    }

    fn push(&self, me: usize, thread: usize, cause: Cause) {
        let notify = self.ready(Some(me), thread, cause, |ready| self.locals[me].borrow_mut().push(ready, cause));
        self.notify(Some(me), notify);
    }

    /// What the policy selects.
    fn select(&self, me: usize, searching: bool) -> Option<usize> {
        let begin = self.clock.get();
        let ready = {
            let mut local = self.locals[me].borrow_mut();
            if searching { local.search() } else { local.next(u8::MAX) }
        }?;
        let end = self.clock.get();
        let thread = self.tokens.take(ready);
        let state = self.states[thread].get();
        self.passages.borrow_mut().push(Passage {
            thread,
            priority: self.script.priorities[thread],
            pushed: state.cause != Some(Cause::Submitted),
            push: state.push,
            selection: (begin, end),
        });
        self.tell(Some(me), || format!("{} thread {thread}", if searching { "finds" } else { "selects" }));
        if state.pusher.is_some_and(|pusher| pusher != me) {
            self.reach(Reach::Moved);
            if state.pusher.is_some_and(|pusher| self.stopped[pusher].get()) {
                self.reach(Reach::LeftBehind);
            }
            if state.published {
                self.reach(Reach::Published);
            }
        }
        self.change(thread, |state| state.published = false);
        Some(thread)
    }

    /// A processor, until all threads have ended or it stops.
    fn process(&self, me: usize) {
        if me == 0 {
            self.script.begin.iter().for_each(|&(thread, cause)| self.push(me, thread, cause));
        }
        self.go_on(me, || self.over());
    }

    /// Runs what it finds until it is over, or stops.
    fn go_on(&self, me: usize, over: impl Fn() -> bool) {
        let idle = &self.idle;
        while !over() && !self.stopped[me].get() {
            if let Some(thread) = self.select(me, false) {
                self.run(me, thread);
                continue;
            }
            self.tell(Some(me), || "begins to search".to_string());
            idle.begin_search(me);
            loop {
                if let Some(thread) = self.select(me, false).or_else(|| self.select(me, true)) {
                    idle.found(me);
                    self.run(me, thread);
                    break;
                }
                if over() {
                    idle.found(me);
                    break;
                }
                self.tell(Some(me), || "found nothing and is about to sleep".to_string());
                let look = || over() || self.locals[me].borrow().has_work();
                let woken = idle.sleep(me, None, self.directed, look);
                self.tell(Some(me), || match woken {
                    Woken::Called => "was called".to_string(),
                    _ => "sees work and does not sleep".to_string(),
                });
                match woken {
                    _ if over() => {}
                    Woken::Called => self.reach(Reach::Called),
                    _ => {
                        self.reach(Reach::SawWork);
                        // Whoever is just bringing it must come to it.
                        Controlled::spin_hint();
                    }
                }
            }
        }
    }

    /// Goes on with a thread until it ends or yields.
    fn run(&self, me: usize, thread: usize) {
        self.busy.set(self.busy.get() + 1);
        if self.busy.get() > 1 {
            self.reach(Reach::Together);
        }
        let acts = &self.script.acts[thread];
        loop {
            let done = self.states[thread].get().done;
            let Some(&act) = acts.get(done) else { break };
            if let Act::YieldUntil(other) = act
                && !self.states[other].get().ended
            {
                self.reach(Reach::Yielded);
                self.busy.set(self.busy.get() - 1);
                self.push(me, thread, Cause::Yielded);
                // It offers its processor: a schedule in which only yields go on is not one.
                Controlled::spin_hint();
                return;
            }
            self.change(thread, |state| state.done += 1);
            self.act(me, act);
        }
        self.busy.set(self.busy.get() - 1);
        self.tell(Some(me), || format!("thread {thread} ends"));
        self.change(thread, |state| state.ended = true);
        self.left.set(self.left.get() - 1);
        if let Some(holder) = self.holding.get()
            && self.left.get() == 1
        {
            self.held.fetch_add(1, Ordering::Relaxed);
            Controlled::wake(&self.held, 1);
            self.idle.tell(Notify::Processor(holder));
        }
        if self.over() {
            (0..self.locals.len()).for_each(|index| self.idle.tell(Notify::Processor(index)));
        }
    }

    fn act(&self, me: usize, act: Act) {
        match act {
            Act::Work => work(1),
            Act::Spawn(other) => self.push(me, other, Cause::Spawned),
            Act::Wake(other) => self.push(me, other, Cause::Woken),
            Act::YieldUntil(_) => {}
            Act::Publish => {
                self.tell(Some(me), || "publishes".to_string());
                let notify = self.locals[me].borrow_mut().publish();
                self.tokens.out().into_iter().for_each(|thread| self.change(thread, |state| state.published = true));
                self.notify(Some(me), notify);
            }
            Act::Hold => {
                if self.locals[me].borrow().holds_private() {
                    return;
                }
                self.tell(Some(me), || "is busy until the others have ended".to_string());
                self.holding.set(Some(me));
                if self.directed {
                    // What was passed on may come round to it again, and wait for this processor alone: then the runtime has a spare go on
                    // with the processor.
                    self.tell(Some(me), || "is taken over by a spare".to_string());
                    self.go_on(me, || self.left.get() == 1);
                }
                while self.left.get() > 1 {
                    Controlled::wait(&self.held, 0, None);
                }
            }
            Act::Stop => {
                self.tell(Some(me), || "stops, and gives back what it holds".to_string());
                self.stopped[me].set(true);
                let mut given = Vec::new();
                self.locals[me].borrow_mut().drain(&mut |ready| given.push(ready));
                for ready in given {
                    let thread = self.tokens.take(ready);
                    let notify = self.ready(Some(me), thread, Cause::Submitted, |ready| self.policy.submit(ready));
                    self.notify(Some(me), notify);
                }
            }
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scenario::Scenario { name, .. } = self.scenario;
        write!(f, "Pool({name})")
    }
}
