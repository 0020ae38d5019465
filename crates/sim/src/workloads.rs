//! What runs on a simulated machine: programs of lightweight threads, after the definitions of `raddle bench`.
//!
//! # Example
//! ```
//! use raddle_sim::workloads::{Workload, number};
//! let tree = Workload::find("tree").unwrap();
//! let arguments = tree.arguments("depth=10").unwrap();
//! assert_eq!(arguments.to_string(), "depth=10:leaf=500");
//! assert_eq!((tree.operations(&arguments), number("3k")), (1024, Some(3000)));
//! assert!(tree.arguments("height=10").unwrap_err().contains("`height`"));
//! ```
#![forbid(unsafe_code)]

mod locks;
pub(crate) mod programs;
mod radix;

use crate::hurricane::clusters::LOADS;
use crate::threads::{Simulated, compute, fetch, me, spawn, spawn_joined, touch};
use raddle_scheduler::Runtime;
use raddle_scheduler::expression::nearest;
use raddle_scheduler::sync::{Mutex, channel};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A parameter of a workload: name, default value, meaning.
type Parameter = (&'static str, u64, &'static str);

const CHECK: &str = "picoseconds more, for a check of a quantum each time";
const QUANTUM: &str = "nanoseconds after which a thread that computes gives way; 0: never";

/// A workload.
#[derive(Debug)]
pub struct Workload {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What can be said about it.
    pub parameters: &'static [Parameter],
    /// How many operations it is, of these arguments.
    pub(crate) operations: fn(&Arguments) -> u64,
    pub(crate) main: fn(Arguments),
}

/// All of them.
pub const WORKLOADS: [Workload; 16] = [
    Workload {
        name: "packet",
        about: "spawners copy packets, and spawn a thread for each that looks through it",
        parameters: &[
            ("n", 50_000, "packets"),
            ("work", 0, "nanoseconds more that each thread works"),
            ("spawners", 1, "threads that spawn"),
            ("copy", 250, "nanoseconds that a spawner takes for a packet"),
            ("body", 400, "nanoseconds that a thread takes for a packet"),
            ("bytes", 2_507, "bytes of a packet, which move between cores"),
            ("copy_far", 0, "nanoseconds more for a copy to where another core has used the memory"),
            ("body_far", 0, "nanoseconds more for a packet that another core has copied"),
        ],
        operations: |arguments| arguments.of("n"),
        main: packet,
    },
    Workload {
        name: "tree",
        about: "a binary tree of threads, each of which spawns one half and computes the other in place",
        parameters: &[("depth", 12, "levels"), ("leaf", 500, "nanoseconds of work in a leaf")],
        operations: |arguments| 1 << arguments.of("depth"),
        main: |arguments| tree(arguments.of("depth"), arguments.of("leaf")),
    },
    Workload {
        name: "fib",
        about: "Fibonacci numbers: a thread for the larger of two calls, the other one in place",
        parameters: &[("n", 18, "which number")],
        operations: |arguments| threads_of_fib(arguments.of("n")),
        main: |arguments| {
            fib(arguments.of("n"));
        },
    },
    Workload {
        name: "yield",
        about: "threads that yield",
        parameters: &[
            ("t", 64, "threads"),
            ("total", 100_000, "yields of all together"),
            ("work", 0, "nanoseconds between them"),
        ],
        operations: |arguments| arguments.of("total"),
        main: yields,
    },
    Workload {
        name: "tokenring",
        about: "threads in a ring pass a token",
        parameters: &[("n", 100, "threads"), ("k", 100, "rounds")],
        operations: |arguments| arguments.of("n") * arguments.of("k"),
        main: |arguments| tokenring(arguments.of("n"), arguments.of("k")),
    },
    Workload {
        name: "lock_global",
        about: "threads count under one mutex",
        parameters: &[
            ("t", 64, "threads"),
            ("total", 100_000, "turns of all together"),
            ("hold", 0, "nanoseconds inside"),
        ],
        operations: |arguments| arguments.of("total"),
        main: |arguments| locks(&arguments, arguments.of("hold"), true),
    },
    Workload {
        name: "lock_local",
        about: "threads that each count under a mutex of their own",
        parameters: &[("t", 64, "threads"), ("total", 100_000, "turns of all together")],
        operations: |arguments| arguments.of("total"),
        main: |arguments| locks(&arguments, 0, false),
    },
    Workload {
        name: "locks",
        about: "a thread on each core takes one lock that spins, in turns; as many threads as cores, please",
        parameters: &[
            ("t", 16, "threads"),
            ("total", 20_000, "turns of all together"),
            ("lock", 4, locks::ABOUT),
            ("hold", 0, "nanoseconds inside"),
            ("think", 100, "nanoseconds between two turns of a thread"),
            ("cap", 64, "the longest pause of a spin lock, in spin hints"),
            ("patience", 64, "CNA's hand-overs within a cluster before another one's turn"),
        ],
        operations: |arguments| arguments.of("total"),
        main: |arguments| locks::locks(&arguments),
    },
    Workload {
        name: "faults",
        about: "a thread on each core faults on pages whose descriptors are replicated in clusters, or has other requests of that kind",
        parameters: &[
            ("t", 16, "threads; as many as cores, please"),
            ("total", 320, "requests of all together, each thread as many"),
            ("load", 1, locks::LOADS_ABOUT),
            ("cluster", 4, "cores of a cluster"),
            ("pages", 4, "pages, parents of programs, or threads in the registry"),
            ("work", 80_000, "nanoseconds of computing for a request"),
            ("call", 27_000, "nanoseconds of a null call to another cluster"),
            ("protocol", 0, "0 optimistic, 1 pessimistic"),
            ("change", 0, "what becomes of replicas: 0 they are dropped, 1 they are renewed"),
        ],
        operations: |arguments| arguments.of("total").div_ceil(arguments.of("t")) * arguments.of("t"),
        main: |arguments| locks::faults(&arguments),
    },
    Workload {
        name: "radix",
        about: "a radix sort: threads count their keys, one sums up, threads move their keys",
        parameters: &[
            ("bits", 4, "bits of the radix; a key has 32"),
            ("keys", 1_000_000, "keys"),
            ("t", 64, "threads of a parallel part"),
            ("key", 500, "nanoseconds to count a key; to move it takes twice as long"),
            ("cell", 100, "nanoseconds to sum up a count, of which each thread has 2^bits"),
            ("make", 0, "nanoseconds that the first thread takes to make a key"),
            ("slice", 0, "nanoseconds after which a thread that computes gives way to others; 0: never"),
            (
                "barrier",
                0,
                "0: new threads for each part, 1: threads that wait at a barrier of a mutex and a condition variable",
            ),
        ],
        operations: |arguments| arguments.of("keys"),
        main: |arguments| radix::radix(&arguments),
    },
    Workload {
        name: "city",
        about: "houses use units of power and of water; a plant stores some, and makes each from water of the river",
        parameters: &[("n", 1_000, "houses"), ("k", 10, "units for each"), ("c", 100, "units that the plant stores")],
        operations: |arguments| arguments.of("n") * arguments.of("k"),
        main: |arguments| programs::city(&arguments),
    },
    Workload {
        name: "eratosthenes",
        about: "a pipeline of one thread for each prime, with channels of 16",
        parameters: &[("n", 10_000, "the largest number"), ("divide", 10, "nanoseconds to try a divisor")],
        operations: |arguments| arguments.of("n"),
        main: |arguments| programs::eratosthenes(&arguments),
    },
    Workload {
        name: "mandelbrot",
        about: "rows of points of the Mandelbrot set, a thread for each row",
        parameters: &[
            ("n", 100, "rows"),
            ("c", 2_000, "points of a row"),
            ("k", 5_000, "iterations of a point at most"),
            ("iteration", 6_000, "picoseconds that an iteration takes"),
            ("check", 0, CHECK),
            ("quantum", 0, QUANTUM),
        ],
        operations: |arguments| arguments.of("n") * arguments.of("c"),
        main: |arguments| programs::mandelbrot(&arguments),
    },
    Workload {
        name: "matrix",
        about: "two square matrices multiplied, each thread some rows of the result",
        parameters: &[
            ("n", 1_000, "rows and columns"),
            ("t", 64, "threads"),
            ("multiply", 12_500, "picoseconds to multiply and add two numbers"),
            ("check", 0, CHECK),
            ("quantum", 0, QUANTUM),
            (
                "cache",
                8_192,
                "KiB: a factor of 8 bytes a number that is no smaller comes from memory again for each row",
            ),
        ],
        operations: |arguments| arguments.of("n") * arguments.of("n"),
        main: |arguments| programs::matrix(&arguments),
    },
    Workload {
        name: "news",
        about: "reporters publish on one board, where an item stays until all customers have read it",
        parameters: &[
            ("n", 1_000, "customers"),
            ("m", 10, "reporters"),
            ("k", 10, "items of each"),
            (
                "look",
                0,
                "picoseconds to look whether a customer has read, at all of them after each reading; 0: a count is kept",
            ),
            ("check", 0, CHECK),
            ("quantum", 0, QUANTUM),
        ],
        operations: |arguments| arguments.of("n") * arguments.of("m") * arguments.of("k"),
        main: |arguments| programs::news(&arguments),
    },
    Workload {
        name: "producer",
        about: "pairs of producers and consumers share one buffer",
        parameters: &[("n", 1, "pairs"), ("c", 10, "places of the buffer"), ("k", 10_000, "messages of a pair")],
        operations: |arguments| arguments.of("n") * arguments.of("k"),
        main: |arguments| programs::producer(&arguments),
    },
];

/// The values of a workload's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments(Vec<(&'static str, u64)>);

impl Arguments {
    /// The value of a parameter.
    pub fn of(&self, name: &str) -> u64 {
        self.0.iter().find(|(known, _)| *known == name).map_or(0, |(_, value)| *value)
    }
}

impl std::fmt::Display for Arguments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
        f.write_str(&pairs.join(":"))
    }
}

/// A number, with k for thousands and M for millions.
pub fn number(text: &str) -> Option<u64> {
    let (digits, factor) =
        match text.strip_suffix('k').map(|t| (t, 1_000)).or(text.strip_suffix('M').map(|t| (t, 1_000_000))) {
            Some(scaled) => scaled,
            None => (text, 1),
        };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

impl Workload {
    /// The one of a name.
    ///
    /// # Errors
    /// There is none; those that there are.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        WORKLOADS.iter().find(|workload| workload.name == name).ok_or_else(|| {
            let names: Vec<&str> = WORKLOADS.iter().map(|workload| workload.name).collect();
            let meant = nearest(name, &names).map_or_else(String::new, |near| format!("do you mean `{near}`? "));
            format!("there is no simulated workload `{name}`; {meant}there are {}", names.join(", "))
        })
    }

    /// Reads `n=50k:work=500`; what is not named has its default value.
    ///
    /// # Errors
    /// Which pair is wrong.
    pub fn arguments(&self, text: &str) -> Result<Arguments, String> {
        const MOST: u64 = 100_000_000;
        let mut arguments = Arguments(self.parameters.iter().map(|&(name, value, _)| (name, value)).collect());
        let mut given = Vec::new();
        for pair in text.split(':').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}`: write KEY=VALUE"))?;
            let Some((_, place)) = arguments.0.iter_mut().find(|(name, _)| *name == key) else {
                let names: Vec<&str> = self.parameters.iter().map(|&(name, ..)| name).collect();
                return Err(format!("{} has no argument `{key}`; it has {}", self.name, names.join(", ")));
            };
            if given.contains(&key) {
                return Err(format!("`{pair}`: `{key}` has been given before"));
            }
            given.push(key);
            let value = number(value).filter(|&value| value <= MOST);
            *place = value.ok_or_else(|| format!("`{pair}`: a number of at most {MOST}, such as 50k or 1M"))?;
        }
        for (name, value) in &arguments.0 {
            let least =
                if ["n", "k", "m", "c", "t", "total", "spawners", "bits", "keys", "cluster", "pages"].contains(name) {
                    1
                } else {
                    0
                };
            let most = match *name {
                "depth" => 24,
                "bits" => 16,
                "barrier" | "protocol" | "change" => 1,
                "load" => LOADS.len() as u64 - 1,
                "lock" => locks::LAST,
                "n" if self.name == "matrix" => 10_000,
                "n" if self.name == "fib" => 32,
                _ => MOST,
            };
            if !(least..=most).contains(value) {
                return Err(format!("{name}={value}: from {least} to {most}"));
            }
        }
        Ok(arguments)
    }

    /// How many operations it is.
    pub fn operations(&self, arguments: &Arguments) -> u64 {
        (self.operations)(arguments)
    }

    /// The workload's first thread.
    pub fn main(&'static self, arguments: &Arguments) -> impl FnOnce() + 'static {
        let (main, arguments) = (self.main, arguments.clone());
        move || main(arguments)
    }
}

fn packet(arguments: Arguments) {
    let [n, work, spawners, copy, body] = ["n", "work", "spawners", "copy", "body"].map(|name| arguments.of(name));
    let [bytes, copy_far, body_far] = ["bytes", "copy_far", "body_far"].map(|name| arguments.of(name));
    let far = |from: usize, nanoseconds: u64| if from == me() { 0 } else { nanoseconds };
    // Who used the buffers last that are free; a spawner takes the one that was freed last.
    let free: Rc<RefCell<Vec<usize>>> = Rc::default();
    for spawner in 0..spawners {
        let count = n / spawners + u64::from(spawner < n % spawners);
        let free = free.clone();
        let feed = move || {
            for _ in 0..count {
                let last = free.borrow_mut().pop().unwrap_or(me());
                fetch(bytes, last);
                compute(copy + far(last, copy_far));
                let (free, from) = (free.clone(), me());
                spawn(move || {
                    fetch(bytes, from);
                    compute(body + work + far(from, body_far));
                    free.borrow_mut().push(me());
                });
            }
        };
        if spawner + 1 == spawners { feed() } else { spawn(feed) }
    }
}

/// As `fib`: spawns the one half, walks the other in place, and joins.
fn tree(depth: u64, leaf: u64) {
    if depth == 0 {
        return compute(leaf);
    }
    let half = spawn_joined(move || tree(depth - 1, leaf));
    tree(depth - 1, leaf);
    half.join();
}

fn yields(arguments: Arguments) {
    let [threads, total, work] = ["t", "total", "work"].map(|name| arguments.of(name));
    for thread in 0..threads {
        let count = total / threads + u64::from(thread < total % threads);
        spawn(move || {
            for _ in 0..count {
                if work > 0 {
                    compute(work);
                }
                Simulated::yield_now();
            }
        });
    }
}

/// Threads that the number takes.
fn threads_of_fib(n: u64) -> u64 {
    (0..n).fold((0u64, 1u64), |(a, b), _| (b, a + b)).1.saturating_sub(1).max(1)
}

fn fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let left = Rc::new(Cell::new(0));
    let result = left.clone();
    let thread = spawn_joined(move || result.set(fib(n - 1)));
    let right = fib(n - 2);
    thread.join();
    left.get() + right
}

fn tokenring(threads: u64, rounds: u64) {
    let (mut into, out): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel::bounded::<u64, Simulated>(1)).unzip();
    let _ = into[0].send(0);
    // Thread i writes the slot of thread i + 1; the last one writes the first slot.
    into.rotate_left(1);
    // A thread's ends of the channels outlive it, so that a late sender does not meet a closed channel.
    let ends: Rc<RefCell<Vec<_>>> = Rc::default();
    for (index, (input, output)) in (0..threads).zip(out.into_iter().zip(into)) {
        let ends = ends.clone();
        spawn(move || {
            for round in 0..rounds {
                let Ok(token) = input.recv() else { panic!("the ring is broken") };
                // Nobody would take the token's last hop from the slot.
                if round + 1 < rounds || index + 1 < threads {
                    let _ = output.send(token + 1);
                }
            }
            ends.borrow_mut().push((input, output));
        });
    }
}

fn locks(arguments: &Arguments, hold: u64, shared: bool) {
    let [threads, total] = ["t", "total"].map(|name| arguments.of(name));
    let make = || Rc::new(Mutex::<u64, Simulated>::with_value(0));
    let global = make();
    for thread in 0..threads {
        let count = total / threads + u64::from(thread < total % threads);
        let counter = if shared { global.clone() } else { make() };
        spawn(move || {
            for _ in 0..count {
                let Ok(mut guard) = counter.lock() else { panic!("the mutex is poisoned") };
                if hold > 0 {
                    compute(hold);
                }
                *guard += 1;
                touch();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_and_refused() {
        let packet = Workload::find("packet").unwrap();
        assert_eq!(
            packet.arguments("n=2k:work=500").unwrap().to_string(),
            "n=2000:work=500:spawners=1:copy=250:body=400:bytes=2507:copy_far=0:body_far=0"
        );
        for (text, named) in [
            ("n", "KEY=VALUE"),
            ("m=3", "no argument `m`"),
            ("n=three", "`n=three`"),
            ("n=0", "n=0: from 1"),
            ("n=9999999999M", "at most"),
        ] {
            assert!(packet.arguments(text).unwrap_err().contains(named), "{text}");
        }
        assert!(Workload::find("tree").unwrap().arguments("depth=60").is_err());
        // Each load that `--list` names, and no other.
        let faults = Workload::find("faults").unwrap();
        let taken = |load| faults.arguments(&format!("load={load}")).is_ok();
        let named = |load| locks::LOADS_ABOUT.split(&[',', ' '][..]).any(|word| word == format!("{load}"));
        assert_eq!((0..12).map(taken).collect::<Vec<_>>(), (0..12).map(named).collect::<Vec<_>>());
        let twice = Workload::find("packet").unwrap().arguments("n=1:n=2").unwrap_err();
        assert!(twice.contains("`n` has been given before"), "{twice}");
        assert!(Workload::find("pocket").unwrap_err().contains("tokenring"));
    }
}
