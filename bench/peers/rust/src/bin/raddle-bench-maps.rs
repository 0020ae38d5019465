//! Concurrent hash maps side by side: our `ReserveMap`, dashmap, papaya, scc and a mutex around std's map, on two
//! kernel threads.
//!
//! ```text
//! cargo run --release -p raddle-bench-peers --bin raddle-bench-maps [ROUNDS]
//! ```
//!
//! Rows of throughput are nanoseconds of processor time for an operation, the middle of the rounds, in which the maps
//! take turns; `a fault` copies 4 KiB of one of 64 pages that it keeps meanwhile. The rows `held` are what the
//! reservation is for: one thread keeps an element for 100 µs (it sleeps, as one that waits for I/O does) again and
//! again, the other one reads and writes other elements; the p99 and p99.9 of its operations are shown, in a map of
//! 1,024 elements and in one of 64 (open files, sessions), each made as its crate makes it by default. An element is
//! kept by what the map has for it: dashmap's `get_mut` (its part waits), scc's `get` (its bucket waits; by `get_async`
//! it is the same lock). papaya has no such thing; it and dashmap are also shown with a mutex in each element
//! (`+ mutex`), of which the map itself knows nothing. How many others share a part or a bucket with the kept element
//! is luck of the hash, new in each round. The last row is what a map that knows of who is kept has to give: one thread
//! keeps an element for 100 µs, takes it out and puts its value back, the other one adds to it meanwhile; of 1,000
//! additions that were told to be done, so many are not in the map. Who waited for a mutex that the map does not know
//! of adds to what has been taken out.
#![forbid(unsafe_code)]

use dashmap::DashMap;
use raddle::lock::ReserveMap;
use raddle_bench::processor_time::ProcessorTime;
use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const KEYS: u64 = 1 << 10;
/// A small map: open files, sessions, pages.
const FEW: u64 = 64;
const PAGE: usize = 4096;
const OPERATIONS: u64 = 1_000_000;
/// Operations beside the kept element, and the sleep before each: without it nearly all would come between two waits.
const SAMPLES: usize = 3_000;
const PAUSE: Duration = Duration::from_micros(20);
/// A map that is kept as a whole gives few samples: then this long.
const LONGEST: Duration = Duration::from_secs(3);
const HOLD: Duration = Duration::from_micros(100);

/// A map of numbers, as far as it is used here.
trait Map: Send + Sync + 'static {
    const NAME: &'static str;
    fn new() -> Self;
    fn insert(&self, key: u64, value: u64);
    fn read(&self, key: u64) -> u64;
    /// False if it is not there.
    fn add(&self, key: u64) -> bool;
    /// Keeps the element while `f` runs, takes it out, and puts its value back.
    fn put_anew(&self, key: u64, f: impl FnOnce());
    /// Keeps the element while `f` runs.
    fn keep(&self, key: u64, f: impl FnOnce());
}

struct Ours(ReserveMap<u64, u64>);

impl Map for Ours {
    const NAME: &'static str = "ReserveMap";
    fn new() -> Self {
        Self(ReserveMap::new())
    }
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        self.0.read(&key).map_or(0, |value| *value)
    }
    fn add(&self, key: u64) -> bool {
        self.0.reserve(&key).map(|mut value| *value += 1).is_some()
    }
    fn put_anew(&self, key: u64, f: impl FnOnce()) {
        let Some(kept) = self.0.reserve(&key) else { return };
        f();
        if let Some(value) = self.0.remove_reserved(&key, kept) {
            self.insert(key, value);
        }
    }
    fn keep(&self, key: u64, f: impl FnOnce()) {
        let _kept = self.0.reserve(&key);
        f();
    }
}

struct Dash(DashMap<u64, u64>);

impl Map for Dash {
    const NAME: &'static str = "dashmap";
    fn new() -> Self {
        Self(DashMap::new())
    }
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        self.0.get(&key).map_or(0, |value| *value)
    }
    fn add(&self, key: u64) -> bool {
        self.0.get_mut(&key).map(|mut value| *value += 1).is_some()
    }
    fn put_anew(&self, key: u64, f: impl FnOnce()) {
        self.keep(key, f);
        if let Some((_, value)) = self.0.remove(&key) {
            self.insert(key, value);
        }
    }
    fn keep(&self, key: u64, f: impl FnOnce()) {
        let _kept = self.0.get_mut(&key);
        f();
    }
}

/// dashmap whose users keep an element by a mutex in it.
struct DashOfMutexes(DashMap<u64, Arc<Mutex<u64>>>);

impl DashOfMutexes {
    fn with<R>(&self, key: u64, f: impl FnOnce(&mut u64) -> R) -> Option<R> {
        let element = self.0.get(&key).map(|element| element.clone())?;
        let mut value = element.lock().ok()?;
        Some(f(&mut value))
    }
}

impl Map for DashOfMutexes {
    const NAME: &'static str = "dashmap + mutex";
    fn new() -> Self {
        Self(DashMap::new())
    }
    fn insert(&self, key: u64, value: u64) {
        self.0.insert(key, Arc::new(Mutex::new(value)));
    }
    fn read(&self, key: u64) -> u64 {
        self.with(key, |value| *value).unwrap_or(0)
    }
    fn add(&self, key: u64) -> bool {
        self.with(key, |value| *value += 1).is_some()
    }
    fn put_anew(&self, key: u64, f: impl FnOnce()) {
        self.with(key, |value| {
            f();
            self.0.remove(&key);
            self.insert(key, *value);
        });
    }
    fn keep(&self, key: u64, f: impl FnOnce()) {
        self.with(key, |_| f());
    }
}

struct Papaya(papaya::HashMap<u64, Arc<Mutex<u64>>>);

impl Papaya {
    fn with<R>(&self, key: u64, f: impl FnOnce(&mut u64) -> R) -> Option<R> {
        let element = self.0.pin().get(&key).cloned()?;
        let mut value = element.lock().ok()?;
        Some(f(&mut value))
    }
}

impl Map for Papaya {
    const NAME: &'static str = "papaya + mutex";
    fn new() -> Self {
        Self(papaya::HashMap::new())
    }
    fn insert(&self, key: u64, value: u64) {
        self.0.pin().insert(key, Arc::new(Mutex::new(value)));
    }
    fn read(&self, key: u64) -> u64 {
        self.with(key, |value| *value).unwrap_or(0)
    }
    fn add(&self, key: u64) -> bool {
        self.with(key, |value| *value += 1).is_some()
    }
    fn put_anew(&self, key: u64, f: impl FnOnce()) {
        self.with(key, |value| {
            f();
            self.0.pin().remove(&key);
            self.insert(key, *value);
        });
    }
    fn keep(&self, key: u64, f: impl FnOnce()) {
        self.with(key, |_| f());
    }
}

struct Scc(scc::HashMap<u64, u64>);

impl Map for Scc {
    const NAME: &'static str = "scc";
    fn new() -> Self {
        Self(scc::HashMap::new())
    }
    fn insert(&self, key: u64, value: u64) {
        self.0.upsert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        self.0.read(&key, |_, value| *value).unwrap_or(0)
    }
    fn add(&self, key: u64) -> bool {
        self.0.update(&key, |_, value| *value += 1).is_some()
    }
    fn put_anew(&self, key: u64, f: impl FnOnce()) {
        self.keep(key, f);
        if let Some((_, value)) = self.0.remove(&key) {
            self.insert(key, value);
        }
    }
    fn keep(&self, key: u64, f: impl FnOnce()) {
        let _kept = self.0.get(&key);
        f();
    }
}

struct Std(Mutex<HashMap<u64, u64>>);

impl Map for Std {
    const NAME: &'static str = "std, one mutex";
    fn new() -> Self {
        Self(Mutex::default())
    }
    fn insert(&self, key: u64, value: u64) {
        if let Ok(mut map) = self.0.lock() {
            map.insert(key, value);
        }
    }
    fn read(&self, key: u64) -> u64 {
        self.0.lock().map_or(0, |map| map.get(&key).copied().unwrap_or(0))
    }
    fn add(&self, key: u64) -> bool {
        self.0.lock().is_ok_and(|mut map| map.get_mut(&key).map(|value| *value += 1).is_some())
    }
    fn put_anew(&self, key: u64, f: impl FnOnce()) {
        self.keep(key, f);
        if let Ok(mut map) = self.0.lock()
            && let Some(value) = map.remove(&key)
        {
            map.insert(key, value);
        }
    }
    fn keep(&self, key: u64, f: impl FnOnce()) {
        let map = self.0.lock();
        black_box(map.as_ref().map_or(0, |map| map.get(&key).copied().unwrap_or(0)));
        f();
    }
}

fn filled<M: Map>(keys: u64) -> Arc<M> {
    let map = M::new();
    (0..keys).for_each(|key| map.insert(key, 0));
    Arc::new(map)
}

/// Keys without a pattern, the same for all maps.
fn keys(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed * 2 + 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    })
}

/// Nanoseconds of processor time for an operation of two threads.
fn throughput<M: Map>(operations: u64, turn: fn(&M, u64, u64)) -> f64 {
    let map = filled::<M>(KEYS);
    let before = ProcessorTime::of(std::process::id()).own_ns;
    let threads: Vec<_> = (0..2)
        .map(|thread| {
            let map = map.clone();
            raddle_bench_peers::spawn(move || {
                (0..operations).zip(keys(thread + 1)).for_each(|(number, key)| turn(&map, number, key % KEYS));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| assert!(thread.join().is_ok(), "a thread panicked"));
    (ProcessorTime::of(std::process::id()).own_ns - before) as f64 / (2 * operations) as f64
}

/// The p99 and p99.9 of operations beside one that is kept, in a map of so many.
fn held<M: Map>(all: u64) -> [f64; 2] {
    let map = filled::<M>(all);
    let state = Arc::new((AtomicBool::new(false), AtomicU64::new(0)));
    let keeper = {
        let (map, state) = (map.clone(), state.clone());
        raddle_bench_peers::spawn(move || {
            while !state.0.load(Ordering::Relaxed) {
                map.keep(0, || {
                    state.1.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(HOLD);
                });
            }
        })
    };
    while state.1.load(Ordering::Relaxed) == 0 {
        std::thread::yield_now();
    }
    let mut times = Vec::with_capacity(SAMPLES);
    let until = Instant::now() + LONGEST;
    for (number, key) in keys(7).enumerate() {
        std::thread::sleep(PAUSE);
        let began = Instant::now();
        let key = 1 + key % (all - 1);
        if number % 2 == 0 {
            _ = black_box(map.read(key))
        } else {
            _ = map.add(key)
        }
        times.push(began.elapsed());
        if times.len() >= SAMPLES || Instant::now() > until {
            break;
        }
    }
    state.0.store(true, Ordering::Relaxed);
    assert!(keeper.join().is_ok(), "the keeper panicked");
    // A keeper that was never there would make any map look good.
    assert!(state.1.load(Ordering::Relaxed) > 50, "few holds: {state:?}");
    times.sort_unstable();
    [990, 999].map(|share| times[(times.len() * share).div_ceil(1000) - 1].as_nanos() as f64)
}

/// Of 1,000 additions to an element that is kept, taken out and put back meanwhile, those that are lost.
fn lost<M: Map>() -> f64 {
    let map = filled::<M>(1);
    let ends = Arc::new(AtomicBool::new(false));
    let keeper = {
        let (map, ends) = (map.clone(), ends.clone());
        raddle_bench_peers::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                map.put_anew(0, || std::thread::sleep(HOLD));
            }
        })
    };
    let (mut done, until) = (0, Instant::now() + LONGEST);
    while done < 1_000 && Instant::now() < until {
        done += u64::from(map.add(0));
        std::thread::sleep(PAUSE);
    }
    ends.store(true, Ordering::Relaxed);
    assert!(keeper.join().is_ok(), "the keeper panicked");
    (done - map.read(0)) as f64 * 1_000.0 / done.max(1) as f64
}

/// All rows of a map.
type Measure = fn() -> [f64; ROWS.len()];

const ROWS: [&str; 10] = [
    "read",
    "write",
    "9 reads : 1 write",
    "one hot key",
    "a fault (copies 4 KiB)",
    "held, of 1,024: p99",
    "held, of 1,024: p99.9",
    "held, of 64: p99",
    "held, of 64: p99.9",
    "lost of 1,000",
];

fn rows<M: Map>() -> [f64; ROWS.len()] {
    let of = throughput::<M>;
    let [many, many_longest] = held::<M>(KEYS);
    let [few, few_longest] = held::<M>(FEW);
    [
        of(OPERATIONS, |map, _, key| _ = black_box(map.read(key))),
        of(OPERATIONS, |map, _, key| _ = map.add(key)),
        of(
            OPERATIONS,
            |map, number, key| if number % 10 == 0 { _ = map.add(key) } else { _ = black_box(map.read(key)) },
        ),
        of(OPERATIONS, |map, _, _| _ = map.add(0)),
        of(OPERATIONS / 10, |map, _, key| {
            let (page, mut own) = ([key as u8; PAGE], [0; PAGE]);
            map.keep(key % FEW, || own.copy_from_slice(black_box(&page)));
            black_box(&own);
        }),
        many,
        many_longest,
        few,
        few_longest,
        lost::<M>(),
    ]
}

/// How many rounds the words ask for.
fn rounds_of(words: &[String]) -> Result<usize, String> {
    match words {
        [] => Ok(5),
        [word] => match word.parse() {
            Ok(rounds) if rounds > 0 => Ok(rounds),
            _ => Err(format!("`{word}` is no number of rounds: pass a whole number of at least 1, or nothing for 5")),
        },
        _ => Err("pass a number of rounds, or nothing for 5".into()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = match rounds_of(&words) {
        Ok(rounds) => rounds,
        Err(error) => {
            eprintln!("raddle-bench-maps: {error}");
            return ExitCode::from(2);
        }
    };
    let maps: [(&str, Measure); 6] = [
        (Ours::NAME, rows::<Ours>),
        (Dash::NAME, rows::<Dash>),
        (DashOfMutexes::NAME, rows::<DashOfMutexes>),
        (Papaya::NAME, rows::<Papaya>),
        (Scc::NAME, rows::<Scc>),
        (Std::NAME, rows::<Std>),
    ];
    let mut seen = vec![vec![Vec::new(); ROWS.len()]; maps.len()];
    for _ in 0..rounds {
        for (map, (_, rows)) in maps.iter().enumerate() {
            rows().into_iter().enumerate().for_each(|(row, value)| seen[map][row].push(value));
        }
    }
    println!("{:<24}{}", "nanoseconds", maps.map(|(name, _)| format!("{name:>17}")).concat());
    for (row, name) in ROWS.iter().enumerate() {
        let middle = |map: &mut Vec<Vec<f64>>| {
            map[row].sort_by(f64::total_cmp);
            map[row][map[row].len() / 2]
        };
        let cells: String = seen.iter_mut().map(|map| format!("{:>17.0}", middle(map))).collect();
        println!("{name:<24}{cells}");
    }
    ExitCode::SUCCESS
}
