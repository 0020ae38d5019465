//! A pool of the policy under check: what its processors do, and what is watched.
//!
//! A processor does here what an activation of the library does: its dispatcher ([`raddle_scheduler::dispatch`]), which
//! decides what is pushed, selected, shared, found and rescued, is the library's own. Counts that the watching needs
//! are plain cells: no steps.

mod acts;

use super::owners::Owners;
use super::promise::{self, Own, Passage, Promises};
use super::scenario::{Act, Reach, Scenario, Script};
use super::{Subject, scenario};
use crate::execution::start;
use crate::machine::Controlled;
use crate::tokens::Tokens;
use raddle_machine::{Atomic, Machine, Ordering};
use raddle_scheduler::dispatch::{self, Dispatcher, Occasions, Resting, rest};
use raddle_scheduler::idle::{Idle, Woken};
use raddle_scheduler::turn::Turn;
use raddle_scheduler::whereabouts::Whereabouts;
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::cell::{Cell, RefCell, RefMut};
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
    dispatchers: Vec<RefCell<Dispatch>>,
    owners: Owners,
    /// The turn of the one activation that may lose its processor, the thread that is on it meanwhile with its
    /// coroutine, and what stands for each processor.
    turn: Turn<Controlled, u8>,
    returned: Cell<Option<(usize, usize)>>,
    /// Whether that thread is on its stack.
    stack: Whereabouts<Controlled, u8>,
    places: Box<[u8]>,
    /// How often each has switched, and the thread that it is pushing, with the step at which that began.
    switches: Vec<Cell<u64>>,
    pushing: Vec<Cell<Option<(usize, u64)>>>,
    /// What each is at, if it may tell others of what it holds without pushing anything.
    at: Vec<Cell<Option<At>>>,
    /// It has exposed what it hid, and no thread has left it since.
    exposed: Vec<Cell<bool>>,
    /// How often a processor began or ended to search: the others were idle all the time between two looks that find
    /// the same.
    turns: Cell<u64>,
    /// What is hidden against the hand-off's law.
    hidden: RefCell<Option<String>>,
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

type Part = Box<dyn Local<Controlled>>;
type Dispatch = Dispatcher<Controlled, Part>;

/// What a processor is at, besides pushing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Its thread leaves.
    Selecting,
    /// It looks after another one.
    Rescuing,
}

/// How often a processor looks after another one: seldom enough for few steps, and often enough for short runs.
const OCCASIONS: Occasions = Occasions { rounds: 3, alone: 3 };

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
            dispatchers: (0..processors)
                .map(|index| RefCell::new(Dispatcher::with_occasions(policy.local(index), OCCASIONS)))
                .collect(),
            owners: Owners::new(processors, script.spare.is_some()),
            turn: Turn::default(),
            returned: Cell::new(None),
            stack: Whereabouts::nowhere(),
            places: vec![0; processors].into_boxed_slice(),
            switches: (0..processors).map(|_| Cell::new(0)).collect(),
            pushing: (0..processors).map(|_| Cell::new(None)).collect(),
            at: (0..processors).map(|_| Cell::new(None)).collect(),
            exposed: (0..processors).map(|_| Cell::new(false)).collect(),
            turns: Cell::new(0),
            hidden: RefCell::default(),
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
        if let Some(spare) = pool.script.spare {
            let pool = pool.clone();
            start("spare", move || pool.spare(spare));
        }
        if !pool.script.outside.is_empty() {
            let pool = pool.clone();
            start("outside", move || pool.outside());
        }
        Ok(pool)
    }

    /// What coroutine `core` is called.
    pub fn name(&self, core: usize) -> String {
        match (self.script.spare, core == self.dispatchers.len()) {
            (Some(_), true) => "the spare".to_string(),
            _ => self.who((core < self.dispatchers.len()).then_some(core)),
        }
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
        if let Some(hidden) = self.hidden.borrow().clone() {
            return Some(hidden);
        }
        if self.idle.hungry() {
            return Some("all processors have ended, and some count as searching or asleep".to_string());
        }
        if self.owners.kept() {
            return Some("a processor was set free, and nobody can have it".to_string());
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
        promise::broken(&self.promises, &passages, self.dispatchers.len() == 1)
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
        self.script.outside.iter().for_each(|&thread| self.submit(None, thread));
    }

    /// Gives the policy a thread from outside.
    fn submit(&self, who: Who, thread: usize) {
        let (ready, begin) = self.ready(who, thread, Cause::Submitted);
        let notify = self.policy.submit(ready);
        self.pushed(thread, begin);
        self.notify(who, notify);
    }

    /// The token of a thread that is about to be made ready, and the step.
    fn ready(&self, who: Who, thread: usize, cause: Cause) -> (Ready<Controlled>, u64) {
        let ready = self.tokens.ready_at(thread, self.script.priorities[thread]);
        let begin = self.clock.get();
        self.change(thread, |state| {
            (state.pusher, state.cause) = (who, Some(cause));
            state.push = (begin, u64::MAX);
        });
        let verb = if who.is_some() { "pushes" } else { "submits" };
        self.tell(who, || format!("{verb} thread {thread} ({})", format!("{cause:?}").to_lowercase()));
        (ready, begin)
    }

    /// A thread whose push began at that step is pushed.
    fn pushed(&self, thread: usize, begin: u64) {
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
        let (ready, begin) = self.ready(Some(me), thread, cause);
        self.pushing[me].set(Some((thread, begin)));
        let mut dispatcher = self.dispatchers[me].borrow_mut();
        match cause {
            Cause::Woken => {
                let (others, kept) = (self.others(), Cell::new(false));
                dispatcher.woken(self, ready, false, |_| {
                    self.tell(Some(me), || format!("keeps thread {thread}, although others are idle"));
                    self.reach(Reach::Kept);
                    kept.set(true);
                });
                if self.were_idle(others)
                    && !kept.get()
                    && dispatcher.local().hides()
                    && dispatcher.local().hidden() > 0
                {
                    self.hides(me, "a woken thread that was not to be kept");
                }
                if kept.get() && self.exposed[me].get() {
                    self.hides(me, "a thread, although what it hid before had to be exposed");
                }
            }
            Cause::Yielded => dispatcher.yielded(self, ready),
            Cause::Spawned | Cause::Submitted => {
                let others = self.others();
                dispatcher.push(self, ready, cause);
                if self.were_idle(others) && dispatcher.local().hides() && dispatcher.local().hides_unstarted() {
                    self.hides(me, "a thread that was spawned");
                }
            }
        }
        self.pushing[me].set(None);
    }

    /// Whether others are idle, for [`Pool::were_idle`].
    fn others(&self) -> Option<u64> {
        self.idle.hungry().then(|| self.turns.get())
    }

    /// True if others were idle then, and all the time since.
    fn were_idle(&self, then: Option<u64>) -> bool {
        then.is_some_and(|turns| self.turns.get() == turns)
    }

    fn turn(&self) {
        self.turns.set(self.turns.get() + 1);
    }

    /// What `me` hides, it must not.
    fn hides(&self, me: usize, what: &str) {
        let text = format!("processor {me} hides {what} from one that is idle");
        self.tell(Some(me), || text.clone());
        self.hidden.borrow_mut().get_or_insert(text);
    }

    /// What the processor's thread leaves for, by `select`; or what one finds that has none.
    fn select(
        &self,
        me: usize,
        how: &str,
        select: impl FnOnce(&mut Dispatch) -> Option<Ready<Controlled>>,
    ) -> Option<usize> {
        let begin = self.clock.get();
        let ready = select(&mut self.dispatchers[me].borrow_mut())?;
        self.exposed[me].set(false);
        Some(self.selected(me, how, begin, ready))
    }

    fn selected(&self, me: usize, how: &str, begin: u64, ready: Ready<Controlled>) -> usize {
        let end = self.clock.get();
        let thread = self.tokens.take(ready);
        self.switches[me].set(self.switches[me].get() + 1);
        let state = self.states[thread].get();
        self.passages.borrow_mut().push(Passage {
            thread,
            priority: self.script.priorities[thread],
            pushed: state.cause != Some(Cause::Submitted),
            push: state.push,
            selection: (begin, end),
        });
        self.tell(Some(me), || format!("{how} thread {thread}"));
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
        thread
    }

    /// A processor, until all threads have ended or it stops.
    fn process(&self, me: usize) {
        if me == 0 {
            self.script.begin.iter().for_each(|&(thread, cause)| self.push(me, thread, cause));
        }
        let mut mine = me;
        loop {
            self.go_on(mine, || self.over());
            if self.over() || self.stopped[mine].get() {
                return;
            }
            mine = match self.owners.mine() {
                Some(passed_on) => passed_on,
                None if self.owners.regain(me, || self.over()) => {
                    self.tell(Some(me), || "comes back to its processor".to_string());
                    me
                }
                None => return,
            };
        }
    }

    /// Runs what it finds until it is over, or stops.
    fn go_on(&self, me: usize, over: impl Fn() -> bool) {
        while !over() && !self.stopped[me].get() && self.owners.carries(me) {
            let next = self.select(me, "takes", Dispatcher::at_hand).or_else(|| self.rest(me, &over));
            let mut next = next.map(|thread| (me, thread));
            // A thread that has lost this processor may have gone on with another one.
            while let Some((mine, thread)) = next.filter(|&(mine, thread)| self.may_run(mine, thread)) {
                next = self.run(mine, thread);
            }
        }
    }

    /// A thread for a processor that has nothing at hand.
    fn rest(&self, me: usize, over: &dyn Fn() -> bool) -> Option<usize> {
        self.tell(Some(me), || "begins to search".to_string());
        self.turn();
        let dispatcher = self.dispatchers[me].borrow_mut();
        let mut idling = Idling { pool: self, me, over, dispatcher, began: self.clock.get() };
        let found = rest(&self.idle, me, &mut idling);
        let began = idling.began;
        drop(idling);
        self.turn();
        found.map(|ready| self.selected(me, "finds", began, ready))
    }

    /// Goes on with a thread until it ends or yields; the next one.
    fn run(&self, mut me: usize, thread: usize) -> Option<(usize, usize)> {
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
                let floor = self.script.priorities[thread];
                let next = self.select(me, "yields to", |dispatcher| dispatcher.offer(floor));
                if next.is_some() {
                    self.busy.set(self.busy.get() - 1);
                    self.push(me, thread, Cause::Yielded);
                    self.housekeeping(me);
                } else if self.dispatchers[me].borrow_mut().nobody_else() {
                    self.rescue(me);
                }
                // It offers its processor: a schedule in which only yields go on is not one.
                Controlled::spin_hint();
                if let Some(next) = next {
                    return Some((me, next));
                }
                continue;
            }
            self.change(thread, |state| state.done += 1);
            me = self.act(me, thread, act)?;
        }
        let next = if self.stopped[me].get() {
            None
        } else {
            self.at[me].set(Some(At::Selecting));
            let others = self.others();
            let next = self.select(me, "selects", |dispatcher| dispatcher.select(self));
            self.at[me].set(None);
            let dispatcher = self.dispatchers[me].borrow();
            if self.were_idle(others) && !dispatcher.shares_enough() {
                self.hides(me, "more than is worth no wake-up");
            }
            next
        };
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
            (0..self.dispatchers.len()).for_each(|index| self.idle.tell(Notify::Processor(index)));
            self.owners.ring();
        }
        if next.is_some() {
            self.housekeeping(me);
        }
        next.map(|next| (me, next))
    }

    /// What a processor does once in so many switches.
    fn housekeeping(&self, me: usize) {
        if self.dispatchers[me].borrow_mut().round() {
            self.rescue(me);
        }
    }

    fn rescue(&self, me: usize) {
        self.at[me].set(Some(At::Rescuing));
        if self.dispatchers[me].borrow_mut().rescue(self, me) {
            self.tell(Some(me), || "has taken over of one that stands still".to_string());
            self.reach(Reach::Rescued);
        }
        self.at[me].set(None);
    }
}

impl dispatch::Pool<Controlled> for Pool {
    fn idle(&self) -> &Idle<Controlled> {
        &self.idle
    }

    fn tell(&self, whom: Notify) {
        let me = self.owners.mine();
        if let Some(me) = me {
            if let Some((thread, begin)) = self.pushing[me].take() {
                self.pushed(thread, begin);
            }
            if self.at[me].get() == Some(At::Selecting) && whom != Notify::Nobody {
                self.reach(Reach::Shared);
            }
        }
        self.notify(me, whom);
    }

    fn switches(&self, index: usize) -> Option<u64> {
        self.switches.get(index).map(Cell::get)
    }
}

/// A processor that has nothing to run.
struct Idling<'a> {
    pool: &'a Pool,
    me: usize,
    over: &'a dyn Fn() -> bool,
    dispatcher: RefMut<'a, Dispatch>,
    /// When the last look began.
    began: u64,
}

impl Resting<Controlled> for Idling<'_> {
    type Local = Part;

    /// A second look says nothing that other interleavings of the first one do not say.
    const ROUNDS: u32 = 1;

    fn dispatcher(&mut self) -> &mut Dispatch {
        &mut self.dispatcher
    }

    fn local(&self) -> &Part {
        self.dispatcher.local()
    }

    fn over(&self) -> bool {
        (self.over)()
    }

    fn duties(&mut self) {
        self.began = self.pool.clock.get();
    }

    fn pause(&mut self) {}

    fn sleep(&mut self) -> Woken {
        let pool = self.pool;
        pool.tell(Some(self.me), || "found nothing and is about to sleep".to_string());
        let woken = pool.idle.sleep(self.me, None, pool.directed, || self.last_look());
        pool.tell(Some(self.me), || match woken {
            Woken::Called => "was called".to_string(),
            _ => "sees work and does not sleep".to_string(),
        });
        match woken {
            _ if self.over() => {}
            Woken::Called => pool.reach(Reach::Called),
            _ => {
                pool.reach(Reach::SawWork);
                // Whoever is just bringing it must come to it.
                Controlled::spin_hint();
            }
        }
        woken
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scenario::Scenario { name, .. } = self.scenario;
        write!(f, "Pool({name})")
    }
}
