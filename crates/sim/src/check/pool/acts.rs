//! What a thread does, step by step of its script, and what the spare does with a processor that it takes.

use super::Pool;
use crate::check::scenario::{Act, Reach, Spare};
use crate::execution::{current, work};
use crate::machine::Controlled;
use raddle_machine::Machine;
use raddle_scheduler::takeover::Take;
use raddle_scheduler::turn::{Came, Found, Settled, find, is_on};
use raddle_scheduler::{Cause, Local};

/// How often the spare tries to take a processor whose thread is not blocked.
const EARLY_TAKES: u32 = 2;

impl Pool {
    /// The processor that the thread goes on with; `None` if it was lost meanwhile.
    pub(super) fn act(&self, me: usize, thread: usize, act: Act) -> Option<usize> {
        match act {
            Act::Work => return self.compute(me, thread, || work(1)),
            Act::Spawn(other) => self.push(me, other, Cause::Spawned),
            Act::Wake(other) => self.push(me, other, Cause::Woken),
            Act::YieldUntil(_) => {}
            Act::Publish => self.publish(me),
            Act::Hold => {
                if self.holding.get().is_some() || self.dispatchers[me].borrow().local().holds_private() {
                    return Some(me);
                }
                self.tell(Some(me), || "is busy until the others have ended".to_string());
                self.holding.set(Some(me));
                if self.directed {
                    // What was passed on may come round to it again, and wait for this processor alone: then the
                    // runtime has a spare go on with the processor.
                    self.tell(Some(me), || "is taken over by a spare".to_string());
                    self.go_on(me, || self.left.get() == 1);
                }
                self.until_alone();
            }
            // If it does so elsewhere, nobody takes its processor.
            Act::Block if me > 0 || !self.owners.is_first(me) => {}
            Act::Block => {
                self.tell(Some(me), || "is blocked until the others have ended".to_string());
                self.holding.set(Some(me));
                return self.compute(me, thread, || self.until_alone());
            }
            Act::Stop => {
                self.tell(Some(me), || "stops, and gives back what it holds".to_string());
                self.stopped[me].set(true);
                let mut given = Vec::new();
                self.dispatchers[me].borrow_mut().drain(&mut |ready| given.push(ready));
                for ready in given {
                    let thread = self.tokens.take(ready);
                    self.submit(Some(me), thread);
                }
            }
        }
        Some(me)
    }

    fn until_alone(&self) {
        while self.left.get() > 1 {
            Controlled::wait(&self.held, 0, None);
        }
    }

    /// All that processor `me` hides becomes takeable.
    fn publish(&self, me: usize) {
        self.tell(Some(me), || "publishes".to_string());
        let mut dispatcher = self.dispatchers[me].borrow_mut();
        let notify = dispatcher.expose();
        self.exposed[me].set(true);
        let local = dispatcher.local();
        if local.hides() && (local.hidden() > 0 || local.hides_unstarted()) {
            self.hides(me, "what it was to expose");
        }
        drop(dispatcher);
        self.tokens.out().into_iter().for_each(|thread| self.change(thread, |state| state.published = true));
        self.notify(Some(me), notify);
    }

    /// The spare takes processor 0 now and then, and once more when its thread is blocked: for a moment, or to go on
    /// with it.
    pub(super) fn spare(&self, spare: Spare) {
        let (mut early, mut done) = (EARLY_TAKES, false);
        while !self.over() {
            if spare == Spare::Leaves {
                // As the monitor does while a processor is free.
                self.turn.call();
            }
            let blocked = self.holding.get().is_some();
            if !done && (blocked || early > 0) {
                early -= u32::from(!blocked);
                match self.owners.take(0) {
                    Take::Inside => self.reach(Reach::Refused),
                    Take::Lost => {}
                    Take::Taken if matches!(spare, Spare::Borrows | Spare::Leaves) => {
                        self.publish(0);
                        self.owners.release(0);
                        if blocked && spare == Spare::Borrows {
                            return;
                        }
                        done = blocked;
                    }
                    Take::Taken => {
                        self.tell(Some(0), || "is carried by the spare".to_string());
                        self.reach(Reach::TakenOver);
                        // Until it has passed it on to the thread that has lost it: that may lose it again.
                        self.go_on(0, || self.over());
                    }
                }
            }
            Controlled::spin_hint();
        }
    }

    /// The caller's thread computes. The processor that it goes on with; `None` if it has lost it, and waits in the
    /// queues.
    fn compute(&self, me: usize, thread: usize, compute: impl FnOnce()) -> Option<usize> {
        if self.owners.outside(me, compute) {
            return Some(me);
        }
        self.tell(None, || format!("thread {thread} has lost processor {me}"));
        self.reach(Reach::Lost);
        self.busy.set(self.busy.get() - 1);
        match self.script.spare {
            Some(spare @ (Spare::Returns | Spare::Beside | Spare::Leaves)) => {
                self.wait_for_turn(thread, spare == Spare::Returns)
            }
            _ => {
                self.submit(None, thread);
                None
            }
        }
    }

    /// As an activation of the library whose thread comes back: the thread keeps its stack, and its token goes out. The
    /// processor that it is passed, or that it is given when it enters; `None` if it had its turn before that.
    fn wait_for_turn(&self, thread: usize, patient: bool) -> Option<usize> {
        let core = current()?;
        self.returned.set(Some((thread, core)));
        self.stack.install(std::ptr::from_ref(&self.places[0]).cast_mut());
        if self.turn.queue() {
            self.submit(None, thread);
        }
        let given = match self.turn.wait(None, || !patient) {
            Came::Given(given) => given,
            Came::Nothing => panic!("thread {thread} waits for nothing"),
            Came::Beside => {
                work(3);
                let free = || (self.script.spare == Some(Spare::Leaves) && self.owners.adopt(0)).then_some(0);
                match self.turn.settle(free, |me: usize| self.owners.release(me)) {
                    Settled::Given(given) => given,
                    Settled::Leaves(me) => {
                        self.tell(Some(me), || format!("is free, and thread {thread} leaves its stack for it"));
                        self.reach(Reach::Left);
                        self.turn.off(&self.stack);
                        self.returned.set(None);
                        // The caller goes on with it, and whoever selects the thread with that.
                        return None;
                    }
                    Settled::Missed => {
                        self.reach(Reach::Missed);
                        self.returned.set(None);
                        self.turn.close();
                        self.submit(None, thread);
                        return None;
                    }
                    other => panic!("thread {thread} was to wait, and found {other:?}"),
                }
            }
        };
        let me = self.places.iter().position(|place| std::ptr::eq(place, given)).expect("it is a processor");
        self.returned.set(None);
        self.turn.close();
        if !self.owners.receive(me) {
            self.tell(None, || format!("thread {thread} has lost processor {me} as soon as it had it"));
            return self.wait_for_turn(thread, patient);
        }
        self.reach(Reach::InTurn);
        self.tell(Some(me), || format!("is thread {thread}'s, which had come back"));
        self.busy.set(self.busy.get() + 1);
        Some(me)
    }

    /// The caller has selected a thread: if that waits on its stack, the processor is passed on to it. False if the
    /// caller has it no more, or the thread runs already.
    pub(super) fn may_run(&self, me: usize, thread: usize) -> bool {
        let Some((_, core)) = self.returned.get().filter(|(returned, _)| *returned == thread) else { return true };
        if !is_on(&self.stack) {
            return true;
        }
        let carries = |_| self.returned.get().is_some_and(|(returned, _)| returned == thread);
        let at = || (!self.stack.get().is_null()).then_some(core);
        match find(at, |_| &self.turn, carries) {
            Found::Waits(core) => {
                self.tell(Some(me), || format!("is passed on to thread {thread}"));
                self.owners.pass(me, core);
                self.turn.give(std::ptr::from_ref(&self.places[me]).cast_mut());
            }
            Found::Missed => self.tell(Some(me), || format!("finds thread {thread} at work")),
            Found::Leaves => {
                self.tell(Some(me), || format!("finds thread {thread} on its way off its stack"));
                self.submit(Some(me), thread);
                Controlled::spin_hint();
            }
        }
        false
    }
}
