//! What the processors do while one of their kernel threads is stopped, and the counts that must come out exactly.
//!
//! *Walkers* are independent of each other: each yields, spawns and joins a child of its own, locks a mutex and sends
//! through a channel that nobody else uses, splits work. A stopped kernel thread holds a bounded number of threads, so
//! of enough walkers some must go on. *Groups* share: contended mutexes, channels, condition variables, sleepers. A
//! group may have to wait for one thread that is held, so of groups only the counts are judged. *Probes* are made while
//! nobody is stopped and set going while one is: nobody who is stopped holds anything of theirs.

use raddle::sync::{Condvar, Mutex, channel};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// More than a stopped processor may hold under any policy but the rotator, which holds a share of all.
const WALKERS: usize = 640;
const GROUPS: usize = 6;
const MEMBERS: u64 = 4;

/// A step in a fixed pseudo-random sequence (Knuth's 64-bit multiplier): the traffic's mixture, not its timing.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = raddle::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Steps of walkers, and of groups.
    walked: AtomicU64,
    grouped: AtomicU64,
    /// Children spawned, and begun, by walkers that did not wait for them.
    strewn: AtomicU64,
    begun: AtomicU64,
}

impl Shared {
    fn goes_on(&self, counter: &AtomicU64) -> bool {
        counter.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Traffic that runs until it is stopped.
pub struct Traffic {
    shared: Arc<Shared>,
    handles: Vec<raddle::JoinHandle<()>>,
}

impl Traffic {
    /// Starts all walkers and groups in `pool`.
    pub fn start(pool: &raddle::Pool, seed: u64) -> Self {
        let shared = Arc::new(Shared::default());
        let mut handles = Vec::new();
        for index in 0..WALKERS {
            let shared = shared.clone();
            handles.push(pool.spawn(move || walk(&shared, seed ^ index as u64)));
        }
        for _ in 0..GROUPS {
            lockers(pool, &shared, &mut handles);
            pipe(pool, &shared, &mut handles);
            ping_pong(pool, &shared, &mut handles);
            let shared = shared.clone();
            handles.push(pool.spawn(move || {
                while shared.goes_on(&shared.grouped) {
                    raddle::sleep(Duration::from_micros(200));
                }
            }));
        }
        Self { shared, handles }
    }

    /// Steps made by walkers so far.
    pub fn walked(&self) -> u64 {
        self.shared.walked.load(Ordering::Relaxed)
    }

    /// Steps made by groups so far.
    pub fn grouped(&self) -> u64 {
        self.shared.grouped.load(Ordering::Relaxed)
    }

    /// Tells all threads to end.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// How many threads have ended, of how many.
    pub fn ended(&self) -> (usize, usize) {
        (self.handles.iter().filter(|handle| handle.is_finished()).count(), self.handles.len())
    }

    /// Joins all threads: each has checked its own counts. Returns how many children were strewn and how many of them
    /// began.
    pub fn join(self) -> (u64, impl Fn() -> u64) {
        self.handles.into_iter().for_each(|handle| handle.join().expect("every count is exact"));
        let shared = self.shared;
        (shared.strewn.load(Ordering::Relaxed), move || shared.begun.load(Ordering::Relaxed))
    }
}

fn walk(shared: &Arc<Shared>, seed: u64) {
    let mut state = seed;
    let own = Mutex::new(0u64);
    let (sender, receiver) = channel::bounded(2);
    let ran = Arc::new(AtomicU64::new(0));
    let (mut locked, mut joined) = (0, 0);
    while shared.goes_on(&shared.walked) {
        match mix(&mut state) % 8 {
            0 => {
                let ran = ran.clone();
                let answer =
                    raddle::spawn(move || ran.fetch_add(1, Ordering::Relaxed)).join().expect("no child panics");
                assert_eq!(answer, joined, "a child ran twice or never");
                joined += 1;
            }
            1 => {
                *own.lock().unwrap() += 1;
                locked += 1;
            }
            2 => {
                sender.send(state).unwrap();
                assert_eq!(receiver.recv().unwrap(), state);
            }
            3 => assert_eq!(fib(6), 8),
            4 => {
                shared.strewn.fetch_add(1, Ordering::Relaxed);
                let shared = shared.clone();
                drop(raddle::spawn(move || shared.begun.fetch_add(1, Ordering::Relaxed)));
            }
            _ => raddle::yield_now(),
        }
        raddle::yield_now();
    }
    assert_eq!((ran.load(Ordering::Relaxed), *own.lock().unwrap()), (joined, locked));
}

/// Threads that add to one number under one mutex, now and then yielding inside.
fn lockers(pool: &raddle::Pool, shared: &Arc<Shared>, handles: &mut Vec<raddle::JoinHandle<()>>) {
    let number = Arc::new((Mutex::new(0u64), AtomicU64::new(0), AtomicU32::new(0)));
    for _ in 0..MEMBERS {
        let (shared, number) = (shared.clone(), number.clone());
        handles.push(pool.spawn(move || {
            let (value, expected, ended) = &*number;
            while shared.goes_on(&shared.grouped) {
                let mut guard = value.lock().unwrap();
                let before = *guard;
                if before % 3 == 0 {
                    raddle::yield_now();
                }
                *guard = before + 1;
                drop(guard);
                expected.fetch_add(1, Ordering::Relaxed);
            }
            if ended.fetch_add(1, Ordering::AcqRel) + 1 == MEMBERS as u32 {
                assert_eq!(*value.lock().unwrap(), expected.load(Ordering::Relaxed), "an update was lost");
            }
        }));
    }
}

/// A producer and a consumer that sees each message once and in order.
fn pipe(pool: &raddle::Pool, shared: &Arc<Shared>, handles: &mut Vec<raddle::JoinHandle<()>>) {
    let (sender, receiver) = channel::bounded(3);
    let ours = shared.clone();
    handles.push(pool.spawn(move || {
        let mut sent = 0u64;
        while ours.goes_on(&ours.grouped) {
            sender.send(sent).expect("the consumer stays");
            sent += 1;
        }
    }));
    handles.push(pool.spawn(move || {
        let mut expected = 0;
        while let Ok(message) = receiver.recv() {
            assert_eq!(message, expected, "a message was lost, doubled or overtaken");
            expected += 1;
        }
    }));
}

/// Two threads that take turns.
fn ping_pong(pool: &raddle::Pool, shared: &Arc<Shared>, handles: &mut Vec<raddle::JoinHandle<()>>) {
    let table = Arc::new((Mutex::new((0u64, false)), Condvar::new()));
    for me in 0..2 {
        let (shared, table) = (shared.clone(), table.clone());
        handles.push(pool.spawn(move || {
            let (turn, changed) = &*table;
            let mut played = me;
            loop {
                let mut guard = turn.lock().unwrap();
                while guard.0 != played && !guard.1 {
                    guard = changed.wait(guard).unwrap();
                }
                guard.1 |= !shared.goes_on(&shared.grouped);
                let over = guard.1;
                guard.0 += u64::from(!over);
                drop(guard);
                changed.notify_all();
                if over {
                    break;
                }
                played += 2;
            }
        }));
    }
}

/// Threads that exist before a kernel thread is stopped, and are set going while it is. What they need is allocated
/// before, since the C library's allocator has locks, which the stopped one may hold.
pub struct Probe {
    number: Arc<Mutex<u64>>,
    channel: (channel::Sender<u64>, channel::Receiver<u64>),
    handle: Option<raddle::JoinHandle<u64>>,
    children: u64,
}

const CHILDREN: u64 = 8;

impl Probe {
    pub fn new() -> Self {
        Self { number: Arc::new(Mutex::new(0)), channel: channel::bounded(1), handle: None, children: CHILDREN }
    }

    /// Sets it going: children that lock, send, yield and sleep, joined by their parent.
    pub fn start(&mut self, pool: &raddle::Pool) {
        let (number, (sender, receiver)) = (self.number.clone(), self.channel.clone());
        self.handle = Some(pool.spawn(move || {
            let children: [_; CHILDREN as usize] = std::array::from_fn(|index| {
                let (number, sender) = (number.clone(), sender.clone());
                raddle::spawn(move || {
                    *number.lock().unwrap() += 1;
                    raddle::yield_now();
                    if index % 4 == 0 {
                        raddle::sleep(Duration::from_micros(50));
                    }
                    sender.send(index as u64).unwrap();
                })
            });
            let sum: u64 = (0..CHILDREN).map(|_| receiver.recv().unwrap()).sum();
            children.into_iter().for_each(|child| child.join().unwrap());
            sum + *number.lock().unwrap()
        }));
    }

    pub fn is_started(&self) -> bool {
        self.handle.is_some()
    }

    pub fn is_finished(&self) -> bool {
        self.handle.as_ref().is_some_and(raddle::JoinHandle::is_finished)
    }

    /// Sets one thread going that yields, and waits for nobody.
    pub fn start_alone(&mut self, pool: &raddle::Pool) {
        self.children = 0;
        self.handle = Some(pool.spawn(|| {
            (0..4).for_each(|_| raddle::yield_now());
            0
        }));
    }

    /// Checks its result.
    pub fn check(self) {
        let handle = self.handle.expect("a probe is started before it is checked");
        let n = self.children;
        assert_eq!(handle.join().unwrap(), n * (n + 1) / 2);
    }
}
