//! Threads that wait for their turn on their stacks, and those who select their tokens, in all interleavings within
//! stated bounds: each token is answered once, by a processor or without one, and whoever goes on sees what the other
//! did.
#![cfg(feature = "loom")]

mod loom_runtime;

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use loom_runtime::{Watched, explore};
use raddle_machine::{Atomic, Loom, Machine, Ordering};
use raddle_scheduler::turn::{Came, Found, Settled, Turn, find, is_on};
use raddle_scheduler::whereabouts::Whereabouts;
use std::cell::Cell;

/// What its owner touches; its number.
struct Processor(Watched, usize);

impl std::fmt::Debug for Processor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "processor {}", self.1)
    }
}

struct Activation {
    turn: Turn<Loom, Processor>,
    carries: <Loom as Machine>::Atomic<usize>,
    /// Its thread goes on beside the others, and has not entered yet.
    beside: <Loom as Machine>::Atomic<u32>,
}

struct Thread {
    at: Whereabouts<Loom, Activation>,
    /// What only its token's holder may touch, or the thread itself while no token is out.
    slot: Watched,
    /// Of its stack, written where it leaves that.
    context: Watched,
}

/// What is in the run queue.
#[derive(Clone, Copy, PartialEq)]
enum Token {
    Of(usize),
    /// For a giver who would wait for ever.
    Nobody,
}

struct World {
    activation: &'static Activation,
    threads: [Thread; 2],
    processors: [&'static Processor; 3],
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    tokens: Vec<Token>,
    /// Of threads that were on their way off their stacks: nobody selects them in vain for ever, which loom would try.
    later: Vec<Token>,
    is_off: bool,
}

const NOBODY: usize = 9;
/// The processor that is free.
const FREE: usize = 2;

impl World {
    /// Thread 0 has lost its processor, and is on the activation.
    fn new() -> Arc<Self> {
        let thread = || Thread { at: Whereabouts::nowhere(), slot: Watched::new(), context: Watched::new() };
        let (carries, beside) = (Atomic::new(NOBODY), Atomic::new(0));
        let activation = Activation { turn: Turn::default(), carries, beside };
        let processor = |number| &*Box::leak(Box::new(Processor(Watched::new(), number)));
        let world = Arc::new(World {
            activation: Box::leak(Box::new(activation)),
            threads: [thread(), thread()],
            processors: [processor(0), processor(1), processor(FREE)],
            queue: Mutex::new(Queue::default()),
            more: Condvar::new(),
        });
        world.install(0);
        world
    }

    fn install(&self, thread: usize) {
        self.threads[thread].at.install(std::ptr::from_ref(self.activation).cast_mut());
        self.activation.carries.store(thread, Ordering::Relaxed);
    }

    fn submit(&self, token: Token) {
        self.queue.lock().unwrap().tokens.push(token);
        self.more.notify_one();
    }

    /// Selected too early.
    fn submit_later(&self, token: Token) {
        let mut queue = self.queue.lock().unwrap();
        let list = if queue.is_off { &mut queue.tokens } else { &mut queue.later };
        list.push(token);
    }

    /// Whoever was selected too early is off its stack.
    fn off(&self) {
        let mut queue = self.queue.lock().unwrap();
        let mut later = std::mem::take(&mut queue.later);
        queue.is_off = true;
        queue.tokens.append(&mut later);
        self.more.notify_all();
    }

    /// The thread comes back: its token goes out.
    fn queue(&self, thread: usize) {
        if self.activation.turn.queue() {
            self.threads[thread].slot.add();
            self.submit(Token::Of(thread));
        }
    }

    /// The thread has the processor that it was given.
    fn take(&self, thread: usize, given: *mut Processor) -> usize {
        let processor = self.processors.iter().find(|known| std::ptr::eq(**known, given)).expect("it was given one");
        processor.0.add();
        self.threads[thread].slot.add();
        self.activation.turn.close();
        processor.1
    }

    /// It waits for as long as it takes.
    fn wait(&self, thread: usize) -> usize {
        match self.activation.turn.wait(None, || false) {
            Came::Given(processor) => self.take(thread, processor),
            other => panic!("{other:?}"),
        }
    }

    /// It waits, but not for long.
    fn wait_a_little(&self, thread: usize) -> Option<usize> {
        let looks = Cell::new(0);
        let is_over = || looks.replace(looks.get() + 1) > 0;
        match self.activation.turn.wait(Some(0), is_over) {
            Came::Given(processor) => Some(self.take(thread, processor)),
            Came::Beside => {
                self.activation.beside.store(1, Ordering::Relaxed);
                None
            }
            Came::Nothing => panic!("it was no longer queued"),
        }
    }

    /// It enters the runtime, where a processor may be free. What came of it.
    fn settle(&self, thread: usize, free: &Cell<bool>) -> Settled<Processor, &'static Processor> {
        self.activation.beside.store(0, Ordering::Relaxed);
        let settled =
            self.activation.turn.settle(|| free.replace(false).then_some(self.processors[FREE]), |_| free.set(true));
        match &settled {
            Settled::Given(processor) => {
                self.take(thread, *processor);
            }
            Settled::Missed => {
                self.threads[thread].slot.add();
                self.activation.turn.close();
            }
            Settled::Leaves(processor) => {
                processor.0.add();
                self.threads[thread].context.add();
                self.activation.carries.store(NOBODY, Ordering::Relaxed);
                self.activation.turn.off(&self.threads[thread].at);
                self.off();
            }
            Settled::Nothing | Settled::Taken => {}
        }
        settled
    }

    fn pop(&self) -> Token {
        let mut queue = self.queue.lock().unwrap();
        loop {
            match queue.tokens.pop() {
                Some(token) => return token,
                None => queue = self.more.wait(queue).unwrap(),
            }
        }
    }

    /// The owner of a processor selects, until it has done with one token. What it did.
    fn serve(&self, processor: usize) -> &'static str {
        let mine = self.processors[processor];
        mine.0.add();
        loop {
            let Token::Of(selected) = self.pop() else { return "nothing" };
            let thread = &self.threads[selected];
            thread.slot.add();
            if !is_on(&thread.at) {
                // It is off its stack: it goes on here.
                assert!(thread.context.get() > 0);
                return "resumed";
            }
            // SAFETY: null, or an activation, which are leaked.
            let at = || unsafe { thread.at.get().cast_const().as_ref() };
            let carries = |at: &Activation| at.carries.load(Ordering::Relaxed) == selected;
            match find(at, |at| &at.turn, carries) {
                Found::Waits(to) => {
                    assert_eq!(to.beside.swap(0, Ordering::Relaxed), 0, "a processor rests with one that computes on");
                    mine.0.add();
                    to.turn.give(std::ptr::from_ref(mine).cast_mut());
                    return "gave";
                }
                Found::Missed => {
                    mine.0.add();
                    return "kept";
                }
                Found::Leaves => self.submit_later(Token::Of(selected)),
            }
        }
    }

    fn giver(world: &Arc<Self>, processor: usize) -> thread::JoinHandle<&'static str> {
        let world = world.clone();
        thread::spawn(move || world.serve(processor))
    }
}

#[test]
fn whoever_waits_gets_the_processor_of_the_one_that_selects_it() {
    explore(3, &["\"gave\""], || {
        let world = World::new();
        let giver = World::giver(&world, 1);
        world.queue(0);
        assert_eq!(world.wait(0), 1);
        giver.join().unwrap()
    });
}

#[test]
fn of_two_that_select_one_has_the_token() {
    explore(2, &["(\"gave\", \"nothing\")", "(\"nothing\", \"gave\")"], || {
        let world = World::new();
        let givers = [0, 1].map(|processor| World::giver(&world, processor));
        world.queue(0);
        world.wait(0);
        world.submit(Token::Nobody);
        let [first, second] = givers.map(|giver| giver.join().unwrap());
        (first, second)
    });
}

/// It goes on beside the others, and enters the runtime later: it has been given a processor, or has missed one.
#[test]
fn whoever_goes_on_beside_the_others_has_its_token_answered_once() {
    explore(3, &["(\"at once\", \"gave\")", "(\"later\", \"gave\")", "(\"missed\", \"kept\")"], || {
        let world = World::new();
        let giver = World::giver(&world, 1);
        world.queue(0);
        let came = match world.wait_a_little(0) {
            Some(processor) => {
                assert_eq!(processor, 1);
                "at once"
            }
            None => match world.settle(0, &Cell::new(false)) {
                Settled::Given(_) => "later",
                Settled::Missed => "missed",
                other => panic!("{other:?}"),
            },
        };
        assert!(!world.activation.turn.is_open());
        (came, giver.join().unwrap())
    });
}

/// As above, but it blocks again and comes back, before it has entered the runtime.
#[test]
fn whoever_comes_back_again_has_one_token_out() {
    let expected = ["(1, \"gave\", \"nothing\")", "(2, \"gave\", \"nothing\")", "(2, \"kept\", \"gave\")"];
    explore(2, &expected, || {
        let world = World::new();
        let served = {
            let world = world.clone();
            thread::spawn(move || {
                let first = world.serve(1);
                (first, world.serve(0))
            })
        };
        world.queue(0);
        let rounds = match world.wait_a_little(0) {
            Some(_) => 1,
            None => {
                world.activation.beside.store(0, Ordering::Relaxed);
                world.queue(0);
                match world.activation.turn.wait(None, || false) {
                    Came::Given(processor) => {
                        world.take(0, processor);
                    }
                    Came::Nothing => {
                        // Missed meanwhile; the thread goes on, and waits once more.
                        world.queue(0);
                        world.wait(0);
                    }
                    Came::Beside => unreachable!("it has all the time"),
                }
                2
            }
        };
        world.submit(Token::Nobody);
        let (first, second) = served.join().unwrap();
        (rounds, first, second)
    });
}

/// A processor is free where it enters: the activation carries others, and the thread is resumed when it is off.
#[test]
fn one_that_leaves_is_resumed_when_it_is_off_its_stack() {
    explore(3, &["(\"given\", \"gave\")", "(\"left\", \"resumed\")", "(\"missed\", \"kept\")"], || {
        let world = World::new();
        let giver = World::giver(&world, 1);
        world.queue(0);
        let came = match world.wait_a_little(0) {
            Some(_) => "given",
            None => match world.settle(0, &Cell::new(true)) {
                Settled::Leaves(_) => "left",
                Settled::Given(_) => "given",
                Settled::Missed => "missed",
                other => panic!("{other:?}"),
            },
        };
        (came, giver.join().unwrap())
    });
}

/// The activation that a thread has left carries another one, which waits there too, while somebody who has the first
/// one's token looks. `second` is what the other one does; answers with what came of the three.
fn used_again(second: fn(&World) -> &'static str) -> (&'static str, &'static str, &'static str) {
    let world = World::new();
    world.queue(0);
    let carrier = {
        let world = world.clone();
        thread::spawn(move || match world.settle(0, &Cell::new(true)) {
            Settled::Given(_) => {
                world.submit(Token::Nobody);
                "given"
            }
            Settled::Leaves(_) => {
                world.install(1);
                world.queue(1);
                second(&world)
            }
            other => panic!("{other:?}"),
        })
    };
    let other = World::giver(&world, 1);
    let first = world.serve(0);
    (carrier.join().unwrap(), first, other.join().unwrap())
}

#[test]
fn an_activation_used_again_is_given_to_whom_it_carries() {
    let expected = [
        // The first thread was given a processor; there was no second one.
        "(\"given\", \"gave\", \"nothing\")",
        "(\"given\", \"nothing\", \"gave\")",
        "(\"left, given\", \"gave\", \"resumed\")",
        "(\"left, given\", \"resumed\", \"gave\")",
    ];
    explore(2, &expected, || {
        used_again(|world| {
            world.wait(1);
            "left, given"
        })
    });
}

/// As above, but the second thread goes on beside the others: a look by mistake ends no wait, and takes no token.
#[test]
fn an_activation_used_again_by_one_that_goes_on_beside() {
    let expected = [
        "(\"given\", \"gave\", \"nothing\")",
        "(\"given\", \"nothing\", \"gave\")",
        "(\"left, given\", \"gave\", \"resumed\")",
        "(\"left, given\", \"resumed\", \"gave\")",
        // The other way round with one preemption more, which takes twenty times as long.
        "(\"left, missed\", \"resumed\", \"kept\")",
    ];
    explore(2, &expected, || {
        used_again(|world| match world.wait_a_little(1) {
            Some(_) => "left, given",
            None => match world.settle(1, &Cell::new(false)) {
                Settled::Given(_) => "left, given",
                Settled::Missed => "left, missed",
                other => panic!("{other:?}"),
            },
        })
    });
}
