//! The freeze test: any kernel thread of the runtime may be stopped at any instruction, and every other processor goes
//! on with all threads that the stopped one does not hold; nothing is lost or run twice.
//!
//! A kernel thread (an activation, a spare or the monitor) is stopped at random while traffic runs, and stays so until
//! the others have made a stated amount of progress: walkers have made [`STEPS`] steps, and threads that were made
//! ready meanwhile have run to their end. A runtime in which one frozen kernel thread stops the others never gets
//! there, and is reported by the watchdog; no other judgement depends on time. Then the kernel thread goes on, and at
//! the end every count must be exact.
//!
//! What a stopped processor holds may be late. Under `rotator` that includes threads that arrive at it while it stands
//! still (its inbox, its neighbour's Waiver queue), and a Protect queue without a bound of its own: so there walkers
//! need not go on, and of many probes only one must end meanwhile.
//!
//! A policy that locks ([`LOCKING`]) may stand still while the frozen kernel thread is within the lock: there only the
//! counts are judged, and it is said how often it stood.
//!
//! One that is stopped within the C library's allocator may keep the test itself from memory: `warden` lets it go on.
//!
//! `RADDLE_SEED` repeats a choice of victims and traffic (not the instructions at which they are hit). The campaign:
//! `cargo xtask freeze --count 1000 --millis 1000`.

mod icebox;
mod traffic;
mod warden;

use icebox::{Frozen, Task, freeze, place_of, tasks};
use std::io::Write as _;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use traffic::{Probe, Traffic};

/// Steps of walkers that must happen while one is stopped.
const STEPS: u64 = 500;
/// Probes under `rotator`: twice as many as a Waiver queue holds that nobody empties.
const ROTATED: usize = 512;
/// Without progress for so long the test has failed. No correct runtime comes near, on however busy a machine.
const GOES_ON_WITHIN: Duration = Duration::from_secs(180);

/// What the names of policies begin with in which a frozen kernel thread may keep the others from a lock.
const LOCKING: [&str; 5] = ["waiver", "stochastic", "alternate", "reverse", "local(overflow=locked"];
/// How long others under such a policy may take until they count as held up. Not judged.
const HELD_AFTER: Duration = Duration::from_millis(100);

const PREFIX: &str = "ice-";
const MONITOR: &str = "raddle-monitor";

/// One run: a policy, processors, so many freezes of at least so long.
struct Plan {
    policy: &'static str,
    processors: usize,
    count: u64,
    least: Duration,
}

impl Plan {
    fn locks(&self) -> bool {
        LOCKING.iter().any(|name| self.policy.contains(name))
    }
}

/// A small generator for choices (xorshift64).
struct Choices(u64);

impl Choices {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// What a run saw, for the reader of a campaign.
#[derive(Default)]
struct Seen {
    monitors: u64,
    in_program: u64,
    groups_moved: u64,
    walked: u64,
    held_up: u64,
}

fn seed() -> u64 {
    let seed = match std::env::var("RADDLE_SEED") {
        Ok(text) => text.parse().expect("RADDLE_SEED is a number"),
        Err(_) => std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |t| t.as_nanos() as u64),
    };
    // Not captured by the test harness, so that it is there when the process is killed.
    let _ = writeln!(std::io::stderr(), "freeze: RADDLE_SEED={seed}");
    seed | 1
}

/// One run at a time: the list of kernel threads is the process's.
static ONE: Mutex<()> = Mutex::new(());

/// Waits until `done`, or reports and ends the process: threads that wait for ever cannot be joined.
fn await_or_report(plan: &Plan, what: &str, frozen: Option<&Frozen>, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > GOES_ON_WITHIN {
            report(plan, what, frozen);
            // The dump woke every waiter for no reason: did one of them miss a wake-up before?
            std::thread::sleep(Duration::from_millis(500));
            let _ = writeln!(std::io::stderr(), "after the dump: {}", if done() { "done" } else { "not done" });
            std::process::exit(101);
        }
        warden::beat();
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn report(plan: &Plan, what: &str, frozen: Option<&Frozen>) {
    let mut text = format!("\nfreeze: {} on {} processors: {what}\n", plan.policy, plan.processors);
    if let Some(frozen) = frozen {
        text += &format!("frozen: {} ({}), {}\n", frozen.task.name, frozen.task.tid, place_of(frozen.at));
    }
    text += &format!("{:?}\n", raddle::info::stats());
    for task in tasks(&[""]) {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/self/task/{}/{file}", task.tid)).unwrap_or_default();
        text += &format!("{:8} {:16} {:24} {}\n", task.tid, task.name, read("wchan"), read("syscall").trim_end());
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
    if frozen.is_none() {
        // What is left is what was lost. A frozen kernel thread may hold what the dump needs.
        let _ = raddle::info::dump(&mut std::io::stderr(), raddle::info::DumpOptions::default());
    }
    if std::env::var_os("RADDLE_FREEZE_HOLD").is_some() {
        // For a debugger.
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// As [`tasks`], some at least: a kernel thread gives itself its name when it starts, which takes its time where many
/// run.
fn named(prefixes: &[&str]) -> Vec<Task> {
    loop {
        match tasks(prefixes) {
            none if none.is_empty() => std::thread::yield_now(),
            some => return some,
        }
    }
}

fn victim(choices: &mut Choices) -> Task {
    let all = named(&[PREFIX, MONITOR]);
    all[choices.below(all.len() as u64) as usize].clone()
}

/// A processor passes threads on to a frozen neighbour until that has its fill, and works for itself when it has run
/// dry: so threads arrive one by one, until one has found a processor that keeps it.
fn start_until_one_ends(probes: &mut [Probe], pool: &raddle::Pool) {
    for index in 0..probes.len() {
        probes[index].start_alone(pool);
        std::thread::sleep(Duration::from_micros(200));
        if probes[..=index].iter().any(Probe::is_finished) {
            break;
        }
    }
}

/// Runs a plan. Every assertion about counts is in `traffic`.
fn run(plan: &Plan, seed: u64) -> Seen {
    warden::watch();
    let builder = raddle::Builder::new().processors(plan.processors).kernel_thread_prefix(PREFIX);
    let pool = builder.policy(plan.policy).build().unwrap();
    let mut choices = Choices(seed);
    let traffic = Traffic::start(&pool, seed);
    let bounded = plan.policy != "rotator";
    let mut seen = Seen::default();
    let mut frozen = 0;
    while frozen < plan.count {
        let until = traffic.walked() + choices.below(STEPS);
        await_or_report(plan, "no traffic although nobody is frozen", None, || traffic.walked() >= until);
        let (probes, enough) = if bounded { (4, 4) } else { (ROTATED, 1) };
        let mut probes: Vec<Probe> = (0..probes).map(|_| Probe::new()).collect();
        if plan.locks() {
            // Whoever starts them would have to wait for the frozen one too, and is the one who thaws it.
            probes.iter_mut().for_each(|probe| probe.start(&pool));
        }
        let Some(one) = freeze(&victim(&mut choices)) else {
            probes.retain(Probe::is_started);
            await_or_report(plan, "probes are lost", None, || probes.iter().all(Probe::is_finished));
            probes.into_iter().for_each(Probe::check);
            continue;
        };
        let start = Instant::now();
        frozen += 1;
        let (walked, grouped) = (traffic.walked(), traffic.grouped());
        if plan.locks() {
            // They are under way.
        } else if bounded {
            probes.iter_mut().for_each(|probe| probe.start(&pool));
        } else {
            start_until_one_ends(&mut probes, &pool);
        }
        let probes_end = || probes.iter().filter(|probe| probe.is_finished()).count() >= enough;
        let walkers_go_on = || traffic.walked() >= walked + STEPS;
        if plan.locks() {
            let go_on = || probes_end() && walkers_go_on();
            while !go_on() && start.elapsed() < plan.least.max(HELD_AFTER) {
                warden::beat();
                std::thread::sleep(Duration::from_micros(50));
            }
            seen.held_up += u64::from(!go_on());
        } else {
            await_or_report(plan, "probes do not end", Some(&one), probes_end);
            if bounded {
                await_or_report(plan, "walkers stand still", Some(&one), walkers_go_on);
            }
        }
        std::thread::sleep(plan.least.saturating_sub(start.elapsed()));
        seen.monitors += u64::from(one.task.name == MONITOR);
        seen.groups_moved += u64::from(traffic.grouped() > grouped);
        seen.walked += traffic.walked() - walked;
        let at = one.at;
        drop(one);
        seen.in_program += u64::from(place_of(at).starts_with("freeze"));
        probes.retain(Probe::is_started);
        await_or_report(plan, "probes are lost", None, || probes.iter().all(Probe::is_finished));
        probes.into_iter().for_each(Probe::check);
    }
    traffic.stop();
    await_or_report(plan, "threads are lost", None, || {
        let (ended, all) = traffic.ended();
        ended == all
    });
    let (strewn, begun) = traffic.join();
    await_or_report(plan, "detached threads are lost", None, || begun() >= strewn);
    await_or_report(plan, "threads live on", None, || pool.live_threads() == 0);
    assert_eq!(begun(), strewn, "a detached thread ran twice");
    seen
}

fn short(policy: &'static str) {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let seed = seed();
    for processors in [2, 3] {
        let plan = Plan { policy, processors, count: 12, least: Duration::from_millis(3) };
        run(&plan, seed);
    }
}

#[test]
fn steal_goes_on_beside_a_frozen_kernel_thread() {
    short("steal(lifo)");
}

#[test]
fn fifo_goes_on_beside_a_frozen_kernel_thread() {
    short("fifo");
}

#[test]
fn lifo_goes_on_beside_a_frozen_kernel_thread() {
    short("lifo");
}

#[test]
fn priorities_go_on_beside_a_frozen_kernel_thread() {
    short("priority(3, steal)");
}

#[test]
fn rotator_goes_on_beside_a_frozen_kernel_thread() {
    short("rotator");
}

#[test]
fn local_queues_go_on_beside_a_frozen_kernel_thread() {
    short("local");
    short("local(overflow=retry, batch=one)");
    short("local(overflow=tickets, share=50)");
}

#[test]
fn requests_go_on_beside_a_frozen_kernel_thread() {
    short("request(ticket)");
    short("request(sticky)");
}

#[test]
fn multiqueue_goes_on_beside_a_frozen_kernel_thread() {
    short("multiqueue(2)");
}

#[test]
fn clusters_go_on_beside_a_frozen_kernel_thread() {
    short("clustered(1, steal)");
}

#[test]
fn what_locks_loses_nothing_beside_a_frozen_kernel_thread() {
    for policy in ["waiver", "alternate(2)", "stochastic(50)", "reverse(32)", "local(overflow=locked)"] {
        short(policy);
    }
}

/// Where nothing runs, whoever is woken first may be the frozen one: then the next must be woken too.
#[test]
fn a_quiet_pool_goes_on_when_the_one_it_would_wake_is_frozen() {
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for policy in ["steal(lifo)", "fifo", "lifo", "priority(3, steal)"] {
        let plan = Plan { policy, processors: 3, count: 0, least: Duration::ZERO };
        let builder = raddle::Builder::new().processors(plan.processors).kernel_thread_prefix(PREFIX);
        let pool = builder.policy(policy).build().unwrap();
        for index in 0..2 * plan.processors {
            // Long enough for all, the monitor included, to fall asleep; whether they do is not judged.
            std::thread::sleep(Duration::from_millis(40));
            let activations = named(&[PREFIX]);
            let mut probes: Vec<Probe> = (0..4).map(|_| Probe::new()).collect();
            let Some(one) = freeze(&activations[index % activations.len()]) else { continue };
            probes.iter_mut().for_each(|probe| probe.start(&pool));
            await_or_report(&plan, "probes in a quiet pool do not end", Some(&one), || {
                probes.iter().all(Probe::is_finished)
            });
            drop(one);
            probes.into_iter().for_each(Probe::check);
        }
    }
}

/// Sleepers whose processors sleep too: a kernel thread is frozen when their time comes, and another processor runs
/// them. One that was not asleep holds them up, so each is frozen until it was found asleep.
#[test]
fn deadlines_come_though_the_kernel_thread_that_sleeps_until_them_is_frozen() {
    const TRIES: u32 = 20;
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for policy in ["steal(lifo)", "fifo", "priority(3, steal)", "local(overflow=lockfree)"] {
        let plan = Plan { policy, processors: 3, count: 0, least: Duration::ZERO };
        let builder = raddle::Builder::new().processors(plan.processors).kernel_thread_prefix(PREFIX);
        let pool = builder.policy(policy).build().unwrap();
        let (mut index, mut held_up) = (0, 0);
        while index < plan.processors {
            assert!(held_up < TRIES, "{policy}: frozen {held_up} times, number {index} held up the others each time");
            let begun = Arc::new(AtomicU32::new(0));
            let sleeps = |number: u64| {
                let begun = begun.clone();
                pool.spawn(move || {
                    begun.fetch_add(1, Ordering::Relaxed);
                    raddle::sleep(Duration::from_millis(100 + number));
                })
            };
            let sleepers: Vec<_> = (0..12).map(sleeps).collect();
            await_or_report(&plan, "sleepers do not begin", None, || begun.load(Ordering::Relaxed) == 12);
            // Until the processors sleep, or most of them.
            std::thread::sleep(Duration::from_millis(30));
            let activations = named(&[PREFIX]);
            let Some(one) = freeze(&activations[index % activations.len()]) else { continue };
            let since = Instant::now();
            let all_awake = || sleepers.iter().all(|sleeper| sleeper.is_finished());
            while !all_awake() && since.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // Still, or again, on its way to sleep: what it holds inside waits for it.
            (index, held_up) = if all_awake() { (index + 1, 0) } else { (index, held_up + 1) };
            drop(one);
            await_or_report(&plan, "sleepers do not wake", None, || sleepers.iter().all(|s| s.is_finished()));
            sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        }
    }
}

/// The same of a sleeper beside whom nothing runs, so that the monitor sleeps too when its time comes: that has to wake
/// for what the frozen one oversleeps.
#[test]
fn a_deadline_comes_though_nobody_is_awake_beside_the_frozen_kernel_thread() {
    const TRIES: u32 = 20;
    let _one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let plan = Plan { policy: "steal", processors: 2, count: 0, least: Duration::ZERO };
    let builder = raddle::Builder::new().processors(plan.processors).kernel_thread_prefix(PREFIX);
    let pool = builder.policy(plan.policy).build().unwrap();
    for _ in 0..TRIES {
        let on = Arc::new(AtomicI32::new(0));
        let theirs = on.clone();
        let sleeper = pool.spawn(move || {
            theirs.store(icebox::own_task(), Ordering::Relaxed);
            raddle::sleep(Duration::from_millis(200));
        });
        await_or_report(&plan, "the sleeper does not begin", None, || on.load(Ordering::Relaxed) != 0);
        // Until all sleep, the monitor too. Whether they do is not judged.
        std::thread::sleep(Duration::from_millis(100));
        let task = named(&[PREFIX]).into_iter().find(|task| task.tid == on.load(Ordering::Relaxed));
        let Some(one) = task.and_then(|task| freeze(&task)) else { continue };
        let since = Instant::now();
        while !sleeper.is_finished() && since.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let woken = sleeper.is_finished();
        drop(one);
        sleeper.join().unwrap();
        if woken {
            return;
        }
    }
    panic!("frozen {TRIES} times, and the sleeper slept until its kernel thread went on");
}

/// What `cargo xtask freeze` runs; nothing without its settings.
#[test]
fn campaign() {
    if std::env::var_os("RADDLE_FREEZE_COUNT").is_none() {
        return;
    }
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (count, millis) = (number("RADDLE_FREEZE_COUNT", 1000), number("RADDLE_FREEZE_MILLIS", 1000));
    let only = std::env::var("RADDLE_FREEZE_POLICY").ok();
    let seed = seed();
    let all = [
        "steal(lifo)",
        "fifo",
        "lifo",
        "priority(3, steal)",
        "rotator",
        "local",
        "local(overflow=retry, batch=one)",
        "local(overflow=locked)",
        "request(ticket)",
        "request(sticky)",
        "multiqueue(2)",
        "waiver",
        "alternate(2)",
        "stochastic(50)",
        "reverse(32)",
        "clustered(1, steal)",
        "apart(steal, fifo)",
    ];
    let policies = only.map_or(all.to_vec(), |only| vec![&*only.leak()]);
    for policy in policies {
        for (round, processors) in [2, 3].into_iter().enumerate() {
            let count = count.div_ceil(2) - round as u64 * (count % 2);
            let plan = Plan { policy, processors, count, least: Duration::from_millis(millis) };
            let start = Instant::now();
            let seen = run(&plan, seed);
            println!(
                "{policy}, {processors} processors: {count} freezes of {millis} ms, {} of the monitor, {} outside libc and kernel; \
                 others made {} steps meanwhile, the groups too in {}, and were held up in {}; nothing lost or run twice; {:.0} s",
                seen.monitors,
                seen.in_program,
                seen.walked,
                seen.groups_moved,
                seen.held_up,
                start.elapsed().as_secs_f64()
            );
        }
    }
}
