//! The probes that need threads, as workloads of the simulated machine; who calls runs the same with the library's
//! threads ([`super::OfThreads`]).

use super::AT_ONCE;
use crate::cost::Costs;
use crate::simulate::{Plan, simulate};
use crate::threads::{Simulated, Spawned, spawn_joined, touch};
use crate::workloads::Workload;
use raddle_scheduler::Runtime;
use raddle_scheduler::sync::{Mutex, channel};

/// What a channel costs when nobody waits.
pub(super) static PASSING: Workload = Workload {
    name: "passing",
    about: "a thread sends to itself through a channel",
    parameters: &[("n", 2_000, "words")],
    operations: |arguments| arguments.of("n"),
    main: |arguments| {
        let (sender, receiver) = channel::bounded::<u64, Simulated>(1);
        for word in 0..arguments.of("n") {
            assert!(sender.send(word).is_ok() && receiver.recv() == Ok(word), "the channel is broken");
        }
    },
};

/// What a mutex costs that nobody else wants.
pub(super) static LOCKING: Workload = Workload {
    name: "locking",
    about: "a thread counts under a mutex of its own",
    parameters: &[("n", 2_000, "turns")],
    operations: |arguments| arguments.of("n"),
    main: |arguments| {
        let count = Mutex::<u64, Simulated>::with_value(0);
        for _ in 0..arguments.of("n") {
            let Ok(mut guard) = count.lock() else { panic!("the mutex is poisoned") };
            *guard += 1;
            touch();
        }
    },
};

/// What a thread costs that others are made with.
pub(super) static SPAWNING: Workload = Workload {
    name: "spawning",
    about: "a thread makes some others, and waits for them all",
    parameters: &[("n", 20, "times")],
    operations: |arguments| arguments.of("n") * AT_ONCE,
    main: |arguments| at_once(arguments.of("n"), AT_ONCE, || ()),
};

/// What a thread costs that begins on a stack of its own, beside others.
pub(super) static STARTING: Workload = Workload {
    name: "starting",
    about: "a thread makes some others, which yield, and waits for them all",
    parameters: &[("n", 5, "times")],
    operations: |arguments| arguments.of("n") * AT_ONCE,
    main: |arguments| at_once(arguments.of("n"), AT_ONCE, Simulated::yield_now),
};

/// The same, where it is waited for at once, and others are ready.
pub(super) static PAIRING: Workload = Workload {
    name: "pairing",
    about: "a thread makes some others, of which each makes one more and waits for it",
    parameters: &[("n", 5, "times")],
    operations: |arguments| arguments.of("n") * AT_ONCE,
    main: |arguments| at_once(arguments.of("n"), AT_ONCE / 2, || spawn_joined(|| ()).join()),
};

/// The same, where no other is ready.
pub(super) static JOINING: Workload = Workload {
    name: "joining",
    about: "a thread makes another one, and waits for it",
    parameters: &[("n", 1_000, "threads")],
    operations: |arguments| arguments.of("n"),
    main: |arguments| (0..arguments.of("n")).for_each(|_| spawn_joined(|| ()).join()),
};

/// Makes so many threads at once, so many times, and waits for them.
fn at_once(times: u64, threads: u64, body: fn()) {
    for _ in 0..times {
        let threads: Vec<_> = (0..threads).map(|_| spawn_joined(body)).collect();
        threads.into_iter().for_each(Spawned::join);
    }
}

/// A workload on one simulated core: nanoseconds an operation. What is measured is one of many rounds, whose lines lie
/// in the caches.
pub(super) fn run_alone(costs: &Costs, workload: &'static Workload, arguments: &str) -> Result<f64, String> {
    let plan = Plan {
        policy: Default::default(),
        cores: 1,
        workload,
        arguments: workload.arguments(arguments)?,
        costs: Costs { memory: costs.hit, ..costs.clone() },
        seed: 1,
        steps: 10_000_000,
    };
    let figures = simulate(&plan)?;
    Ok(figures.elapsed as f64 / figures.operations as f64)
}

pub(super) fn yields(costs: &Costs) -> Result<f64, String> {
    run_alone(costs, Workload::find("yield")?, "t=100:total=20k")
}

pub(super) fn spawns(costs: &Costs) -> Result<f64, String> {
    run_alone(costs, &SPAWNING, "")
}
