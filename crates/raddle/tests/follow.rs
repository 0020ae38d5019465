//! A default pool follows what its process is allotted, and loses nothing on the way.
//!
//! Affinity and control groups belong to a whole process: each case runs in a child (this same program, told by an
//! environment variable). Nothing here depends on time: a pool that does not follow makes a test wait for ever.

#[path = "support/child.rs"]
mod child;

use child::in_child;
use raddle::sync::{Mutex, channel};
use raddle_machine::Real;
use raddle_scheduler::{Cause, Local, Notify, Policy, Ready};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn my_cores() -> Vec<usize> {
    // SAFETY: a set of zeroes is valid; the kernel fills it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize).filter(|&core| libc::CPU_ISSET(core, &set)).collect()
    }
}

/// What `taskset --all-tasks --pid` does.
fn run_on(cores: &[usize]) {
    // Those that start meanwhile inherit from those that were told already, or are found in the second round.
    for _ in 0..2 {
        for task in std::fs::read_dir("/proc/self/task").unwrap().flatten() {
            let tid: i32 = task.file_name().to_str().unwrap().parse().unwrap();
            // SAFETY: a set of zeroes is valid; a kernel thread that has ended is an error that nobody minds.
            unsafe {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                cores.iter().for_each(|&core| libc::CPU_SET(core, &mut set));
                libc::sched_setaffinity(tid, size_of_val(&set), &set);
            }
        }
    }
}

/// Some of everything, sleepers with it; answers with a sum that must come out.
fn traffic() -> u64 {
    let total = Mutex::new(0u64);
    let (sender, receiver) = channel::bounded(2);
    raddle::scope(|s| {
        for i in 0..20u64 {
            let (total, sender) = (&total, sender.clone());
            s.spawn(move || {
                for k in 0..50 {
                    *total.lock().unwrap() += 1;
                    match k % 10 {
                        0 => raddle::sleep(Duration::from_micros(300)),
                        1 => *total.lock().unwrap() += raddle::spawn(move || i).join().unwrap(),
                        2 => sender.send(1u64).unwrap(),
                        _ => raddle::yield_now(),
                    }
                }
            });
        }
        drop(sender);
        s.spawn(|| receiver.iter().for_each(|message| *total.lock().unwrap() += message));
    });
    *total.lock().unwrap()
}

/// 20 threads: 50 steps each, 5 children that answer `i`, 5 messages.
const TRAFFIC: u64 = 20 * 50 + 5 * 190 + 20 * 5;

/// Traffic until the pool has so many processors, and some more.
fn traffic_until(pool: &raddle::Pool, processors: usize) {
    while pool.processors() != processors {
        assert_eq!(pool.run(traffic), TRAFFIC);
    }
    for _ in 0..3 {
        assert_eq!(pool.run(traffic), TRAFFIC);
        assert_eq!(pool.processors(), processors);
    }
}

#[test]
fn processors_follow_the_affinity_and_nothing_is_lost() {
    if !in_child("processors_follow_the_affinity_and_nothing_is_lost") {
        return;
    }
    let cores = my_cores();
    for policy in ["steal(lifo)", "lifo", "fifo", "priority(2, steal(fifo))"] {
        let pool = raddle::Builder::new().policy(policy).build().unwrap();
        let all = pool.processors();
        let fixed = raddle::Builder::new().processors(3).build().unwrap();
        // Long sleepers, on whichever processor each begins: their deadlines outlive it.
        let woken: &AtomicU64 = Box::leak(Box::default());
        for i in 0..200u64 {
            drop(pool.spawn(move || {
                raddle::sleep(Duration::from_millis(50 + i * 5));
                woken.fetch_add(1, Ordering::Release);
            }));
        }
        // One that only computes, and one that only yields.
        let stop: &AtomicBool = Box::leak(Box::default());
        let computes = pool.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let yields = pool.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                raddle::yield_now();
            }
        });
        let before = raddle::info::stats();
        for _ in 0..3 {
            run_on(&cores[..1]);
            traffic_until(&pool, 1);
            run_on(&cores);
            traffic_until(&pool, all);
        }
        let after = raddle::info::stats();
        println!(
            "{policy}: {all} processors; {} retired, {} returned",
            after.processors_retired - before.processors_retired,
            after.processors_returned - before.processors_returned
        );
        stop.store(true, Ordering::Relaxed);
        computes.join().unwrap();
        yields.join().unwrap();
        while woken.load(Ordering::Acquire) < 200 {
            assert_eq!(pool.run(traffic), TRAFFIC);
        }
        // A pool that sleeps does not look; it does when it runs again.
        run_on(&cores[..1]);
        std::thread::sleep(Duration::from_millis(30));
        traffic_until(&pool, 1);
        assert_eq!(fixed.processors(), 3, "a number that was asked for stays");
        let mut text = Vec::new();
        raddle::info::dump(&mut text, raddle::info::DumpOptions::default()).unwrap();
        assert!(all == 1 || String::from_utf8(text).unwrap().contains("retired"), "the dump says it");
        run_on(&cores);
    }
}

/// Also while the kernel thread that looks at quotas has only begun.
#[test]
fn a_second_pool_has_as_many_processors_as_the_first() {
    if !in_child("a_second_pool_has_as_many_processors_as_the_first") {
        return;
    }
    let [first, second] = [(); 2].map(|()| raddle::Builder::new().build().unwrap());
    assert_eq!(second.processors(), first.processors());
}

#[test]
fn a_pool_that_began_on_one_core_gets_more() {
    if !in_child("a_pool_that_began_on_one_core_gets_more") {
        return;
    }
    let cores = my_cores();
    run_on(&cores[..1]);
    let pool = raddle::Builder::new().build().unwrap();
    assert_eq!(pool.processors(), 1);
    run_on(&cores);
    traffic_until(&pool, cores.len());
}

#[test]
fn the_ring_keeps_its_processors() {
    if !in_child("the_ring_keeps_its_processors") {
        return;
    }
    let cores = my_cores();
    let pool = raddle::Builder::new().policy("rotator").build().unwrap();
    run_on(&cores[..1]);
    for _ in 0..20 {
        assert_eq!(pool.run(traffic), TRAFFIC);
        raddle::sleep(Duration::from_millis(10));
    }
    assert_eq!(pool.processors(), cores.len());
}

/// A control group of its own, which is removed in the end.
struct Group {
    path: PathBuf,
    version_1: bool,
}

impl Group {
    /// `None` where control groups cannot be made or have no CPU quota.
    fn new() -> Option<Group> {
        let root = Path::new("/sys/fs/cgroup");
        let version_1 = root.join("cpu/cpu.cfs_quota_us").exists();
        let path = if version_1 { root.join("cpu") } else { root.to_path_buf() };
        let path = path.join(format!("raddle-test-{}", std::process::id()));
        std::fs::create_dir(&path).ok()?;
        let group = Group { path, version_1 };
        let file = if version_1 { "cpu.cfs_quota_us" } else { "cpu.max" };
        group.path.join(file).exists().then_some(group)
    }

    fn quota(&self, cores: Option<f64>) {
        let micros = cores.map(|cores| (cores * 100_000.0) as i64);
        if self.version_1 {
            std::fs::write(self.path.join("cpu.cfs_quota_us"), micros.unwrap_or(-1).to_string()).unwrap();
        } else {
            let quota = micros.map_or("max".to_string(), |micros| micros.to_string());
            std::fs::write(self.path.join("cpu.max"), format!("{quota} 100000")).unwrap();
        }
    }

    fn enter(&self) -> bool {
        std::fs::write(self.path.join("cgroup.procs"), "0").is_ok()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let above = self.path.parent().unwrap().join("cgroup.procs");
        let _ = std::fs::write(above, "0");
        let _ = std::fs::remove_dir(&self.path);
    }
}

#[test]
fn processors_follow_the_quota_of_a_real_control_group() {
    if !in_child("processors_follow_the_quota_of_a_real_control_group") {
        return;
    }
    let Some(group) = Group::new() else {
        println!("no control group can be made here: the reading of quotas has a unit test");
        return;
    };
    if !group.enter() {
        println!("the control group cannot be entered here: the reading of quotas has a unit test");
        return;
    }
    let pool = raddle::Builder::new().build().unwrap();
    let all = pool.processors();
    for _ in 0..2 {
        group.quota(Some(1.0));
        traffic_until(&pool, 1);
        group.quota(Some(1.5));
        traffic_until(&pool, all.min(2));
        group.quota(None);
        traffic_until(&pool, all);
    }
    let version = if group.version_1 { 1 } else { 2 };
    println!("followed the quota of a control group, version {version}");
}

/// One queue for all, but what is spawned on other processors than the first one, while it keeps, comes out by
/// [`Local::drain`] alone.
#[derive(Clone, Default)]
struct Keeping {
    common: std::sync::Arc<std::sync::Mutex<VecDeque<Ready<Real>>>>,
    keeps: std::sync::Arc<AtomicBool>,
    kept: std::sync::Arc<AtomicU64>,
}

struct Keeper {
    policy: Keeping,
    index: usize,
    mine: Vec<Ready<Real>>,
}

impl Policy<Real> for Keeping {
    fn local(&self, index: usize) -> Box<dyn Local<Real>> {
        Box::new(Keeper { policy: self.clone(), index, mine: Vec::new() })
    }
    fn submit(&self, thread: Ready<Real>) -> Notify {
        self.common.lock().unwrap().push_back(thread);
        Notify::Anyone
    }
    fn describe(&self) -> String {
        "keeping".into()
    }
    fn offers(&self) -> bool {
        !self.common.lock().unwrap().is_empty()
    }
    fn strands(&self) -> &'static str {
        "what it keeps"
    }
}

impl Local<Real> for Keeper {
    fn push(&mut self, thread: Ready<Real>, cause: Cause) -> Notify {
        if self.index > 0 && cause == Cause::Spawned && self.policy.keeps.load(Ordering::SeqCst) {
            self.mine.push(thread);
            self.policy.kept.fetch_add(1, Ordering::SeqCst);
            return Notify::Nobody;
        }
        self.policy.submit(thread)
    }
    fn next(&mut self, _: u8) -> Option<Ready<Real>> {
        self.policy.common.lock().unwrap().pop_front()
    }
    fn search(&mut self) -> Option<Ready<Real>> {
        self.next(u8::MAX)
    }
    fn has_work(&self) -> bool {
        self.policy.offers()
    }
    fn drain(&mut self, out: &mut dyn FnMut(Ready<Real>)) {
        self.mine.drain(..).for_each(out);
    }
}

#[test]
fn what_a_retired_processor_kept_for_itself_goes_to_the_others() {
    if !in_child("what_a_retired_processor_kept_for_itself_goes_to_the_others") {
        return;
    }
    let cores = my_cores();
    if cores.len() < 2 {
        println!("on one core no processor retires");
        return;
    }
    let policy = Keeping::default();
    let own = policy.clone();
    let pool = raddle::Builder::new().own_policy(move |_, _| Box::new(own.clone())).build().unwrap();
    let ran: &AtomicU64 = Box::leak(Box::default());
    policy.keeps.store(true, Ordering::SeqCst);
    let mut spawned = 0;
    while policy.kept.load(Ordering::SeqCst) == 0 {
        spawned += 1;
        pool.spawn(|| drop(raddle::spawn(|| ran.fetch_add(1, Ordering::SeqCst)))).join().unwrap();
    }
    policy.keeps.store(false, Ordering::SeqCst);
    run_on(&cores[..1]);
    // It looks while something runs.
    while ran.load(Ordering::SeqCst) < spawned {
        pool.run(raddle::yield_now);
    }
}
