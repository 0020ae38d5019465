//! The workloads on this project's lightweight threads, under any policy.

use crate::bodies::shared::Requests;
use crate::bodies::{self, Api, Coarse, Counted, Element, Elements, Faults, Locked, OwnMutex, Turns, contend, faults};
use crate::program::{self, Outcome};
use raddle::lock::{self, Algorithm, Busy, Clustered, Lock, ReserveMap, Topology};
use raddle::stage::Stages;
use raddle::sync::channel::{self, Receiver, Sender};
use raddle::sync::{Condvar, Mutex, MutexGuard, Once, Semaphore, oneshot};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::time::Instant;

/// How many processors were asked for.
static PROCESSORS: OnceLock<usize> = OnceLock::new();
/// The lowest priority of the pool that the workload runs in.
static LOWEST: OnceLock<u8> = OnceLock::new();

struct Raddle;

impl Api for Raddle {
    type Handle<T: Send + 'static> = raddle::JoinHandle<T>;
    type Mutex<T: Send + 'static> = Mutex<T>;
    type Guard<'a, T: Send + 'static> = MutexGuard<'a, T>;
    type Condvar = Condvar;
    type Gate = Once;
    type Sender<T: Send + 'static> = Sender<T>;
    type Receiver<T: Send + 'static> = Receiver<T>;
    type Buffer<T: Send + 'static> = (Sender<T>, Receiver<T>);
    type Semaphore = Semaphore;
    type Promise<T: Send + 'static> = oneshot::Promise<T>;
    type Future<T: Send + 'static> = oneshot::Future<T>;

    fn spawn<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        raddle::spawn(body)
    }
    fn spawn_low<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        let lowest = LOWEST.get().copied().unwrap_or(0);
        raddle::thread::Builder::new().priority(lowest).spawn(body).unwrap()
    }
    fn join<T: Send + 'static>(handle: Self::Handle<T>) -> T {
        handle.join().unwrap()
    }
    fn fork<A: Send, B: Send>(a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
        raddle::join(a, b)
    }
    fn scope<T: Send>(items: impl Iterator<Item = T>, each: impl Fn(T) + Send + Sync) {
        let each = &each;
        raddle::scope(|scope| items.for_each(|item| scope.fork(move || each(item))));
    }
    fn scope_beside(piece: impl FnOnce() + Send, here: impl FnOnce()) {
        raddle::scope(|scope| {
            scope.fork(piece);
            here();
        });
    }
    fn yield_now() {
        raddle::yield_now();
    }

    fn mutex<T: Send + 'static>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
    #[inline(always)]
    fn lock<T: Send + 'static>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
    fn condvar() -> Condvar {
        Condvar::new()
    }
    fn wait<'a, T: Send + 'static>(condvar: &Condvar, guard: Self::Guard<'a, T>) -> Self::Guard<'a, T> {
        condvar.wait(guard).unwrap()
    }
    fn notify_one(condvar: &Condvar) {
        condvar.notify_one();
    }
    fn notify_all(condvar: &Condvar) {
        condvar.notify_all();
    }

    fn gate() -> Self::Gate {
        Once::new()
    }
    fn pass(gate: &Self::Gate) {
        gate.wait();
    }
    fn open(gate: &Self::Gate) {
        gate.call_once(|| ());
    }

    fn channel<T: Send + 'static>(slots: usize) -> (Sender<T>, Receiver<T>) {
        channel::bounded(slots)
    }
    fn send<T: Send + 'static>(sender: &Sender<T>, value: T) {
        assert!(sender.send(value).is_ok(), "the receiver is gone");
    }
    fn recv<T: Send + 'static>(receiver: &Receiver<T>) -> T {
        receiver.recv().unwrap()
    }

    fn buffer<T: Send + 'static>(slots: usize) -> Self::Buffer<T> {
        channel::bounded(slots)
    }
    fn put<T: Send + 'static>(buffer: &Self::Buffer<T>, value: T) {
        Self::send(&buffer.0, value);
    }
    fn take<T: Send + 'static>(buffer: &Self::Buffer<T>) -> T {
        Self::recv(&buffer.1)
    }

    fn semaphore(permits: usize) -> Self::Semaphore {
        Semaphore::new(permits as u32)
    }
    fn acquire(semaphore: &Self::Semaphore) {
        semaphore.acquire(1);
    }
    fn release(semaphore: &Self::Semaphore) {
        semaphore.release(1);
    }

    fn promise<T: Send + 'static>() -> (Self::Promise<T>, Self::Future<T>) {
        oneshot::channel()
    }
    fn set<T: Send + 'static>(promise: Self::Promise<T>, value: T) {
        // Whoever does not want it any more has dropped the future.
        let _ = promise.set(value);
    }
    fn get<T: Send + 'static>(future: Self::Future<T>) -> T {
        future.get().unwrap()
    }
    fn sleep(time: std::time::Duration) {
        raddle::sleep(time);
    }

    fn in_stages(requests: &'static Requests, stages: usize) -> Result<Outcome, String> {
        // All processors for the requests, as one pool has them; who offers has this pool for itself.
        let processors = PROCESSORS.get().copied().unwrap_or(2).max(stages);
        let mut builder = Stages::builder().processors(processors);
        for stage in &["first", "second"][..stages] {
            builder = builder.stage(*stage, requests.places / stages);
        }
        let line = builder.build().map_err(|error| error.to_string())?;
        let (first, second) = (line.stage("first").expect("named above"), line.stage("second"));
        let start = Instant::now();
        requests.offer::<Self>(|number, due| match first.try_place() {
            Err(_) => requests.refused(number),
            Ok(place) => {
                let work = move || {
                    requests.first();
                    match second {
                        // Waits while the second one is full, and has its place in the first one meanwhile.
                        Some(second) => drop(second.spawn(move || requests.second(number, due)).unwrap()),
                        None => requests.second(number, due),
                    }
                };
                drop(place.spawn(work).unwrap());
            }
        });
        let moves = line.moves();
        drop(line);
        Ok(requests.outcome(start.elapsed()).with("processors_moved", moves))
    }

    fn locks(by: &str, turns: Turns) -> Result<Outcome, String> {
        Ok(match by {
            "mutex" => contend::<Self, OwnMutex<Self>>(turns),
            "barging" => contend::<Self, Behind<lock::Barging>>(turns),
            "fair" => contend::<Self, Behind<lock::Fair>>(turns),
            "spin" => contend::<Self, Behind<lock::Spin>>(turns),
            "mcs" => contend::<Self, Behind<lock::Mcs>>(turns),
            "h1" => contend::<Self, Behind<lock::H1Mcs>>(turns),
            "h2" => contend::<Self, Behind<lock::H2Mcs>>(turns),
            "hemlock" => contend::<Self, Behind<lock::Hemlock>>(turns),
            "cna" => contend::<Self, Behind<lock::Cna>>(turns),
            "reciprocating" => contend::<Self, Behind<lock::Reciprocating>>(turns),
            "try" => contend::<Self, Behind<lock::TryMcs>>(turns),
            other => return Err(format!("not offered: there is no lock `{other}`")),
        })
    }

    fn faults(by: &str, asked: Faults) -> Result<Outcome, String> {
        match by {
            "coarse" => faults::<Self, Coarse<Self>>(asked),
            "elements" => faults::<Self, Locked<Self>>(asked),
            "hybrid" => faults::<Self, Reservable>(asked),
            "clustered" => faults::<Self, InClusters>(asked),
            other => Err(format!("not offered: nothing keeps elements by `{other}`")),
        }
    }

    fn counters() -> Vec<(&'static str, u64)> {
        let stats = raddle::info::stats();
        vec![
            ("steals_tried", stats.steals_tried),
            ("steals_won", stats.steals_won),
            ("spawn_retries", stats.spawn_retries),
        ]
    }
}

/// A number behind one of `raddle::lock`'s.
struct Behind<A>(Lock<u64, A>);

impl<A: Algorithm<raddle::lock::Machine> + 'static> Counted for Behind<A> {
    fn new() -> Self {
        Self(Lock::new(0))
    }
    #[inline(always)]
    fn add(&self, inside: impl FnOnce()) {
        self.0.with(|count| {
            *count += 1;
            inside();
        });
    }
    fn count(&self) -> u64 {
        self.0.with(|count| *count)
    }
}

/// A lock for the search, and a reservation in each element.
struct Reservable(ReserveMap<u64, Element>);

impl Elements for Reservable {
    fn new() -> Self {
        Self(ReserveMap::new())
    }
    fn insert(&self, number: u64, element: Element) {
        self.0.insert(number, element);
    }
    fn keep(&self, number: u64, f: impl FnMut(&mut Element)) -> bool {
        self.0.reserve(&number).as_deref_mut().map(f).is_some()
    }
    /// The optimistic protocol: gives up the child if somebody has the parent, and waits there.
    fn end(&self, child: u64, parent: u64, f: impl FnMut(&mut Element)) -> u64 {
        let mut again = 0;
        while let Some(kept) = self.0.reserve(&child) {
            match self.0.try_reserve(&parent) {
                Ok(mut found) => {
                    _ = found.as_deref_mut().map(f);
                    self.0.remove_reserved(&child, kept);
                    break;
                }
                Err(Busy { .. }) => {
                    drop(kept);
                    again += 1;
                    drop(self.0.reserve(&parent));
                }
            }
        }
        again
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

/// A table in each cluster of the machine's topology (`RADDLE_CLUSTERS` names another): the parent is where it is
/// changed, and whoever ends tells it by a call.
struct InClusters(Clustered<u64, Element>);

impl Elements for InClusters {
    fn new() -> Self {
        Self(Clustered::over(Topology::machine()))
    }
    fn insert(&self, number: u64, element: Element) {
        self.0.insert(number, element);
    }
    fn keep(&self, number: u64, mut f: impl FnMut(&mut Element)) -> bool {
        self.0.update(&number, &mut f).is_some()
    }
    fn end(&self, child: u64, parent: u64, mut f: impl FnMut(&mut Element)) -> u64 {
        let before = self.0.stats().retries;
        self.0.update(&parent, &mut f);
        self.0.remove(&child);
        // Racy: others' are counted, too, where there are several clusters.
        self.0.stats().retries.saturating_sub(before)
    }
    fn count(&self) -> usize {
        self.0.len()
    }
}

/// The program: these words are its command line. Not generic, so that the workloads are compiled with this package,
/// not with each program.
pub fn main_of(words: &[String]) -> ExitCode {
    program::main_of(words.iter().cloned(), |request| {
        PROCESSORS.get_or_init(|| request.processors);
        let mut builder = raddle::Builder::new().processors(request.processors);
        if let Some(policy) = &request.policy {
            let policy: raddle::policy::Expression =
                policy.parse().map_err(|error| format!("the policy `{policy}` is wrong: {error}"))?;
            builder = builder.policy(policy);
        }
        if request.delays {
            raddle::info::sample_delays(true);
        }
        let pool = builder.build().map_err(|error| error.to_string())?;
        LOWEST.get_or_init(|| pool.lowest_priority());
        let mut outcome = pool.run(|| bodies::run::<Raddle>(request))?;
        if let Some(delay) = raddle::info::run_queue_delay() {
            outcome = outcome.with("delay_p50_ns", delay.p50).with("delay_p99_ns", delay.p99);
        }
        Ok((outcome, format!("processors={}, policy {}", pool.processors(), pool.policy())))
    })
}
