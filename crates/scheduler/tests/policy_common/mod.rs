//! What every policy is held to, and the threads to do it with.
#![allow(dead_code)] // Each test file uses its part.

#[path = "../joined/mod.rs"]
mod joined;

use raddle_machine::Real;
use raddle_scheduler::policies::{self, AnyPolicy, Others};
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready, Thread};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Threads that never run: records with a number.
#[derive(Clone, Copy)]
pub struct Threads(&'static [Thread<Real>]);

impl Threads {
    pub fn new(count: usize) -> Self {
        // SAFETY: no runtime is involved; leaked.
        Threads(Vec::leak((0..count).map(|_| unsafe { Thread::new(0, 0) }).collect()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The token of thread `number`; the caller sees to it that there is one at a time.
    pub fn ready(&self, number: usize) -> Ready<Real> {
        // SAFETY: the records are leaked; the tests hold at most one token of each at a time, and check that.
        unsafe { Ready::new(NonNull::from(&self.0[number])) }
    }

    pub fn ready_at(&self, number: usize, priority: u8) -> Ready<Real> {
        self.0[number].priority.store_priority(priority);
        self.ready(number)
    }

    /// Takes out what a test leaves behind.
    pub fn discard(&self, local: &mut dyn Local<Real>) {
        local.drain(&mut |ready| {
            self.number(ready);
        });
    }

    /// The number of the thread whose token this was.
    pub fn number(&self, ready: Ready<Real>) -> usize {
        let address = ready.into_thread().as_ptr().addr();
        (address - self.0.as_ptr().addr()) / std::mem::size_of::<Thread<Real>>()
    }
}

trait StorePriority {
    fn store_priority(&self, priority: u8);
}

impl StorePriority for <Real as raddle_machine::Machine>::Atomic<u8> {
    fn store_priority(&self, priority: u8) {
        raddle_machine::Atomic::store(self, priority, Ordering::Relaxed);
    }
}

/// Processors as the test says.
#[derive(Default)]
pub struct Says {
    pub hungry: AtomicBool,
    pub asleep: AtomicUsize,
    /// Who was to be woken.
    pub woken: AtomicUsize,
}

impl Others for Says {
    fn hungry(&self) -> bool {
        self.hungry.load(Ordering::Relaxed)
    }
    fn asleep(&self, processor: usize) -> bool {
        self.asleep.load(Ordering::Relaxed) & 1 << processor != 0
    }
    fn wake(&self, whom: Notify) {
        let woken = match whom {
            Notify::Nobody => 0,
            Notify::Anyone => usize::MAX,
            Notify::Processor(index) => 1 << index,
        };
        self.woken.fetch_or(woken, Ordering::Relaxed);
    }
}

pub fn make(expression: &str, processors: usize) -> (AnyPolicy<Real>, Arc<Says>) {
    let says = Arc::new(Says::default());
    let policy = policies::build(&expression.parse().unwrap(), processors, says.clone()).unwrap();
    (policy, says)
}

/// A seeded sequence (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

const CAUSES: [Cause; 4] = [Cause::Spawned, Cause::Woken, Cause::Yielded, Cause::Submitted];

/// Under Miri, tests of policies are made of fewer threads and operations: `normally`, or at most so many.
pub const fn few(normally: usize, under_miri: usize) -> usize {
    if cfg!(miri) && normally > under_miri { under_miri } else { normally }
}

/// Random operations on `processors` locals in one kernel thread: each pushed thread comes out once, none is invented,
/// and what a push announced is seen by whom it concerns.
pub fn conserves(expression: &str, processors: usize, seed: u64) {
    let (policy, says) = make(expression, processors);
    let threads = Threads::new(few(300, 40));
    let levels = policy.priorities() as usize;
    let mut locals: Vec<_> = (0..processors).map(|i| policy.local(i)).collect();
    let mut random = Random(seed);
    let mut outside: Vec<usize> = (0..threads.len()).collect();
    let mut inside = vec![false; threads.len()];
    let receive = |ready: Ready<Real>, inside: &mut Vec<bool>, outside: &mut Vec<usize>| {
        let number = threads.number(ready);
        assert!(inside[number], "{expression}, seed {seed}: thread {number} came out twice");
        inside[number] = false;
        outside.push(number);
    };
    for _ in 0..few(4000, 100) {
        let i = random.below(processors);
        match random.below(16) {
            // Bursts, so that batches, growth and overflow take place.
            0..=4 if !outside.is_empty() => {
                for _ in 0..1 + random.below(8) {
                    let Some(number) = outside.pop() else { break };
                    inside[number] = true;
                    let ready = threads.ready_at(number, random.below(levels) as u8);
                    let notify = if random.below(8) == 0 {
                        policy.submit(ready)
                    } else {
                        locals[i].push(ready, CAUSES[random.below(4)])
                    };
                    let seen = |p: usize| assert!(locals[p].has_work(), "{expression}, seed {seed}: {p} sees no work");
                    match notify {
                        Notify::Nobody => seen(i),
                        Notify::Anyone => (0..processors).for_each(seen),
                        Notify::Processor(p) => seen(p),
                    }
                }
            }
            5 => says.hungry.store(random.below(2) == 0, Ordering::Relaxed),
            6 => says.asleep.store(random.below(1 << processors), Ordering::Relaxed),
            7 => {
                let _ = locals[i].publish();
            }
            12 => {
                if let Some(ready) = locals[i].relieve(random.below(processors)) {
                    receive(ready, &mut inside, &mut outside);
                }
            }
            8 if random.below(20) == 0 => locals[i].drain(&mut |ready| receive(ready, &mut inside, &mut outside)),
            9..=11 => {
                if let Some(ready) = locals[i].next(u8::MAX).or_else(|| locals[i].search()) {
                    receive(ready, &mut inside, &mut outside);
                }
            }
            _ => {
                if let Some(ready) = locals[i].next(u8::MAX) {
                    receive(ready, &mut inside, &mut outside);
                }
            }
        }
    }
    // Everybody awake and looking: all comes out.
    says.asleep.store(0, Ordering::Relaxed);
    let mut idle_rounds = 0;
    while idle_rounds < 2 * processors + 2 {
        idle_rounds += 1;
        for local in &mut locals {
            if let Some(ready) = local.next(u8::MAX).or_else(|| local.search()) {
                receive(ready, &mut inside, &mut outside);
                idle_rounds = 0;
            }
        }
    }
    let lost: Vec<usize> = (0..threads.len()).filter(|&n| inside[n]).collect();
    assert!(lost.is_empty(), "{expression}, seed {seed}: {lost:?} never came out");
    assert!(locals.iter().all(|local| !local.has_work()), "{expression}, seed {seed}: work where there is none");
}

/// `drain` of all processors gives back all that was pushed and not taken.
pub fn drains(expression: &str, processors: usize) {
    let (policy, _) = make(expression, processors);
    let threads = Threads::new(few(500, 40));
    let mut locals: Vec<_> = (0..processors).map(|i| policy.local(i)).collect();
    for number in 0..threads.len() {
        let ready = threads.ready_at(number, (number % policy.priorities() as usize) as u8);
        let _ = match number % 5 {
            4 => policy.submit(ready),
            cause => locals[number % processors].push(ready, CAUSES[cause]),
        };
    }
    let mut back: Vec<usize> = Vec::new();
    for local in &mut locals {
        local.drain(&mut |ready| back.push(threads.number(ready)));
    }
    back.sort_unstable();
    assert_eq!(back, (0..threads.len()).collect::<Vec<_>>(), "{expression}");
    assert!(locals.iter().all(|local| !local.has_work() && !local.holds_private()), "{expression}");
}

/// Processor 0 made everything takeable and then froze; the other, whose own thread yields for ever, runs all of it.
pub fn relieves(expression: &str) {
    let (policy, says) = make(expression, 2);
    let threads = Threads::new(few(300, 60));
    let (mut frozen, mut local) = (policy.local(0), policy.local(1));
    let _ = local.push(threads.ready(0), Cause::Woken);
    says.hungry.store(true, Ordering::Relaxed);
    (1..threads.len()).for_each(|number| _ = frozen.push(threads.ready(number), CAUSES[number % 4]));
    let _ = frozen.publish();
    says.hungry.store(false, Ordering::Relaxed);
    let mut missing: std::collections::BTreeSet<_> = (0..threads.len()).collect();
    for selection in 1..=200 * threads.len() {
        if selection % 100 == 0
            && let Some(ready) = local.relieve(0)
        {
            let _ = local.push(ready, Cause::Submitted);
        }
        let Some(ready) = local.next(u8::MAX) else { panic!("{expression}: a thread that yields is lost") };
        let number = threads.number(ready);
        missing.remove(&number);
        let _ = local.push(threads.ready(number), Cause::Yielded);
    }
    assert!(missing.is_empty(), "{expression}: {missing:?} wait for the frozen processor");
    threads.discard(&mut *local);
    threads.discard(&mut *frozen);
}

/// Kernel threads as processors: each thread runs `runs` times in all, never twice at once, and all of them end.
pub fn survives(expression: &str, processors: usize, count: usize, runs: usize) {
    let (policy, says) = make(expression, processors);
    let threads = Threads::new(count);
    let running: Vec<AtomicBool> = (0..count).map(|_| AtomicBool::new(false)).collect();
    let left: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(runs)).collect();
    let ended = AtomicUsize::new(0);
    let mut locals: Vec<_> = (0..processors).map(|i| policy.local(i)).collect();
    for number in 0..count {
        let _ = match number % 3 {
            0 => policy.submit(threads.ready(number)),
            _ => locals[0].push(threads.ready(number), Cause::Spawned),
        };
    }
    let start = Instant::now();
    joined::scope(|scope| {
        for (i, mut local) in locals.into_iter().enumerate() {
            let (policy, says, running, left, ended) = (&policy, &says, &running, &left, &ended);
            scope.spawn(move || {
                let mut random = Random(i as u64);
                while ended.load(Ordering::Acquire) < count {
                    let relief = if random.below(64) == 0 { local.relieve(random.below(processors)) } else { None };
                    let Some(ready) = relief.or_else(|| local.next(u8::MAX)).or_else(|| local.search()) else {
                        says.hungry.store(true, Ordering::Relaxed);
                        assert!(start.elapsed() < Duration::from_secs(120), "{expression}: threads were lost");
                        std::thread::yield_now();
                        continue;
                    };
                    let number = threads.number(ready);
                    assert!(!running[number].swap(true, Ordering::AcqRel), "{expression}: {number} runs twice");
                    let more = left[number].fetch_sub(1, Ordering::Relaxed) > 1;
                    assert!(running[number].swap(false, Ordering::AcqRel), "{expression}: {number} ran twice");
                    if !more {
                        ended.fetch_add(1, Ordering::Release);
                        continue;
                    }
                    if random.below(16) == 0 {
                        says.hungry.store(random.below(2) == 0, Ordering::Relaxed);
                    }
                    let _ = match random.below(16) {
                        0 => policy.submit(threads.ready(number)),
                        n => local.push(threads.ready(number), CAUSES[n % 4]),
                    };
                    if random.below(64) == 0 {
                        let _ = local.publish();
                    }
                }
            });
        }
    });
    assert!(left.iter().all(|n| n.load(Ordering::Relaxed) == 0), "{expression}");
}

/// With one processor, threads that yield for ever let each other ready thread run within `bound` selections.
pub fn yields_are_fair(expression: &str, yielders: usize, waiting: usize, bound: usize) {
    for cause in [Some(Cause::Spawned), Some(Cause::Woken), Some(Cause::Submitted), None] {
        for hungry in [false, true] {
            let (policy, says) = make(expression, 1);
            says.hungry.store(hungry, Ordering::Relaxed);
            let threads = Threads::new(yielders + waiting);
            let mut local = policy.local(0);
            for number in 0..threads.len() {
                let ready = threads.ready(number);
                let _ = match cause {
                    Some(cause) => local.push(ready, cause),
                    None => policy.submit(ready),
                };
            }
            let mut missing: Vec<usize> = (yielders..threads.len()).collect();
            for _ in 0..bound {
                let ready = local.next(0).or_else(|| local.search()).expect("yielding threads are ready");
                let number = threads.number(ready);
                missing.retain(|&n| n != number);
                if number < yielders {
                    let _ = local.push(threads.ready(number), Cause::Yielded);
                }
            }
            assert!(missing.is_empty(), "{expression}, {cause:?}, hungry {hungry}: {missing:?} did not run");
            threads.discard(&mut *local);
        }
    }
}

/// On every processor a thread yields until another one has run that nobody blocks: it runs within `bound` rounds,
/// wherever it was made ready.
pub fn yield_loops_end(expression: &str, processors: usize, bound: usize) {
    for cause in [Some(Cause::Spawned), Some(Cause::Woken), Some(Cause::Submitted), None] {
        for hungry in [false, true] {
            let (policy, says) = make(expression, processors);
            says.hungry.store(hungry, Ordering::Relaxed);
            let threads = Threads::new(processors + 1);
            let mut locals: Vec<_> = (0..processors).map(|i| policy.local(i)).collect();
            for (number, local) in locals.iter_mut().enumerate() {
                let _ = local.push(threads.ready(number), Cause::Woken);
            }
            let waiting = threads.ready(processors);
            let _ = match cause {
                Some(cause) => locals[0].push(waiting, cause),
                None => policy.submit(waiting),
            };
            let ran = (0..bound).any(|_| {
                locals.iter_mut().any(|local| {
                    let Some(ready) = local.next(0).or_else(|| local.search()) else { return false };
                    let number = threads.number(ready);
                    if number < processors {
                        let _ = local.push(threads.ready(number), Cause::Yielded);
                    }
                    number == processors
                })
            });
            assert!(ran, "{expression}, {processors} processors, {cause:?}, hungry {hungry}: it did not run");
            locals.iter_mut().for_each(|local| threads.discard(&mut **local));
        }
    }
}

/// The tests that every policy must pass. Under Miri only those that move tokens about: fairness is not what it can
/// see.
pub fn holds(expression: &str, fair_within: usize) {
    if cfg!(miri) {
        conserves(expression, 1, 0);
        conserves(expression, 3, 1);
        drains(expression, 3);
        survives(expression, 2, 12, 4);
        return;
    }
    for processors in 1..=4 {
        for seed in 0..20 {
            conserves(expression, processors, seed);
        }
        drains(expression, processors);
        yield_loops_end(expression, processors, fair_within * 4);
    }
    // A rotator's frozen neighbour, and a waiver's, keeps what arrives at it.
    if !expression.contains("rotator") && !expression.contains("waiver") {
        relieves(expression);
    }
    survives(expression, 1, 100, 20);
    survives(expression, 2, 400, 100);
    survives(expression, 4, 400, 50);
    yields_are_fair(expression, 1, 1, fair_within);
    yields_are_fair(expression, 3, 4, fair_within * 8);
    yields_are_fair(expression, 100, 100, fair_within * 400);
}
