//! Which threads use the cores, and which wait for long, and for what: for `raddle top`, beside the [metrics].
//!
//! The kernel counts the time of kernel threads, and a switch has no room for a clock. So time is sampled: at each look
//! the time that a kernel thread has had since the look before is charged to the thread that it runs now. Shares are
//! right over many looks, as those of a profiler; a thread that is on a core between looks only is not seen. The time
//! between looks varies, so that threads which move in step with the looks are seen as well.
//!
//! A wait is known by its epoch: a thread that is in the same wait at two texts has waited since the first. What it
//! waits for is its own note ([`crate::carry::note`]), read by the kernel, and once for each wait. So threads that wait
//! shortly cost two loads a text each, and no switch knows of any of this.
//!
//! Bound: [`KERNEL_THREADS_AT_ONCE`] kernel threads a look, [`NOTES_AT_ONCE`] notes a text. A program that rests is
//! looked at no more often than it is written of.
//!
//! [metrics]: crate::govern::metrics

use crate::carry::activation::Activation;
use crate::carry::pool::descriptors;
use crate::govern::dump::circles::name_of;
use crate::govern::metrics::MOST_LOOKED_AT;
use raddle_machine::{Machine as _, Real};
use raddle_scheduler::Epoch;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// Nanoseconds between two looks, at least; up to as much again is added. A hundred looks a second tell shares of some
/// percent apart within a second. What they cost was not measured.
const LOOK_NS: u64 = 7_000_000;
/// Each costs a system call at each look.
const KERNEL_THREADS_AT_ONCE: usize = 64;
/// Each costs two system calls.
const NOTES_AT_ONCE: usize = 1000;
/// Busy threads that are named.
const BUSY: usize = 10;
/// Threads that are named of those that wait for the same kind of thing.
const OF_A_KIND: usize = 3;

/// A kernel thread's clock at the last look.
#[derive(Clone, Copy, Default)]
struct Clock {
    task: u32,
    nanoseconds: u64,
}

/// The wait in which a thread was seen.
struct Wait {
    epoch: Epoch,
    since: u64,
    /// Read at the second text that finds the thread in it.
    kind: Option<String>,
}

/// What was seen of the threads since the last text, and of waits before.
#[derive(Default)]
pub(crate) struct Busiest {
    clocks: HashMap<u32, Clock>,
    /// The kernel thread to look at first.
    cursor: u32,
    looks: u64,
    /// Nanoseconds to the next look.
    pause: u64,
    /// Nanoseconds, by a thread's index.
    charged: HashMap<u32, u64>,
    waits: HashMap<u32, Wait>,
    /// When the last text was made; 0: never.
    written: u64,
    /// Nanoseconds that the process had had then.
    process_time: u64,
}

impl Busiest {
    /// One look; how many nanoseconds the next one can wait.
    pub fn look(&mut self) -> u64 {
        self.looks += 1;
        let from = std::mem::take(&mut self.cursor);
        let mut rests = true;
        let live = crate::carry::activations::all().filter(|activation| activation.id >= from);
        for (count, activation) in live.enumerate() {
            if count == KERNEL_THREADS_AT_ONCE {
                self.cursor = activation.id;
                rests = false;
                break;
            }
            rests &= !self.charge(activation);
        }
        let pause = LOOK_NS + self.looks * 1_618_033 % LOOK_NS;
        self.pause = if rests { self.pause.max(pause).saturating_mul(2) } else { pause };
        self.pause
    }

    /// True if the kernel thread was on a core since its last look.
    fn charge(&mut self, activation: &'static Activation) -> bool {
        let task = match activation.tid.load(Ordering::Relaxed) {
            0 => activation.task.load(Ordering::Relaxed),
            task => task,
        };
        let Some(now) = crate::os::time_on_core(task).filter(|_| task != 0) else { return false };
        let clock = self.clocks.entry(activation.id).or_default();
        let same = clock.task == task;
        let had = now.saturating_sub(clock.nanoseconds);
        *clock = Clock { task, nanoseconds: now };
        // Of a kernel thread that is seen first it is not known when it had its time.
        if !same || had == 0 {
            return !same;
        }
        if let Some(thread) = NonNull::new(activation.current.load(Ordering::Relaxed)) {
            // SAFETY: an activation runs descriptors of the slab only, which live for ever.
            let index = unsafe { descriptors().index_of(thread) };
            *self.charged.entry(index).or_default() += had;
        }
        true
    }

    /// What was seen since the last text, as comments in Prometheus's format: a thread is no series.
    pub fn text(&mut self) -> String {
        let (now, used) = (Real::now(), crate::os::process_time_on_core());
        let began = std::mem::replace(&mut self.written, now);
        let used_before = std::mem::replace(&mut self.process_time, used);
        let mut text = String::new();
        if began != 0 {
            let elapsed = now.saturating_sub(began).max(1) as f64;
            let _ = writeln!(text, "# cores {:.4}", used.saturating_sub(used_before) as f64 / elapsed);
            let mut charged: Vec<_> = self.charged.drain().map(|(index, ns)| (ns, index)).collect();
            charged.sort_unstable_by(|a, b| b.cmp(a));
            for (ns, index) in charged.into_iter().take(BUSY) {
                let Some(name) = descriptors().get(index).map(name_of) else { continue };
                let _ = writeln!(text, "# busy {:.4} {index} {name}", ns as f64 / elapsed);
            }
        }
        self.walk(now);
        self.waiting(now, &mut text);
        text
    }

    /// Notes which threads wait, and what those wait for that waited before.
    fn walk(&mut self, now: u64) {
        let mut before = std::mem::take(&mut self.waits);
        let stats = crate::govern::info::stats();
        if stats.spawned.saturating_sub(stats.exited) > MOST_LOOKED_AT {
            return;
        }
        let mut notes = NOTES_AT_ONCE;
        for (index, descriptor) in descriptors().iterate() {
            if !descriptor.is_in_use() || descriptor.thread.is_kernel_thread() {
                continue;
            }
            let Some(epoch) = descriptor.thread.current_wait() else { continue };
            let seen = before.remove(&index).filter(|wait| wait.epoch == epoch);
            let is_seen_again = seen.is_some();
            let mut wait = seen.unwrap_or(Wait { epoch, since: now, kind: None });
            if is_seen_again && wait.kind.is_none() && notes > 0 {
                notes -= 1;
                // SAFETY: the words of a context are atomics that may be read at any time.
                let pointer = unsafe { &*descriptor.context.get() }.fs();
                let kind = crate::carry::note::kind_under(pointer);
                wait.kind = kind.filter(|_| descriptor.thread.current_wait() == Some(epoch));
            }
            self.waits.insert(index, wait);
        }
    }

    fn waiting(&self, now: u64, text: &mut String) {
        let mut kinds: BTreeMap<&str, Vec<(u64, u32)>> = BTreeMap::new();
        for (index, wait) in &self.waits {
            if let Some(kind) = &wait.kind {
                kinds.entry(kind).or_default().push((wait.since, *index));
            }
        }
        for (kind, mut threads) in kinds {
            let _ = writeln!(text, "# waiting {} {kind}", threads.len());
            threads.sort_unstable();
            for (since, index) in threads.into_iter().take(OF_A_KIND) {
                let Some(name) = descriptors().get(index).map(name_of) else { continue };
                let seconds = now.saturating_sub(since) as f64 / 1e9;
                let _ = writeln!(text, "# waits {seconds:.3} {index} {name} for {kind}");
            }
        }
    }
}

impl crate::os::published::Published for (fn() -> String, Busiest) {
    fn look(&mut self) -> u64 {
        self.1.look()
    }

    fn text(&mut self) -> String {
        (self.0)() + &self.1.text()
    }

    fn failed(&mut self, why: String) {
        *FAILED.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        crate::carry::pool::hint();
    }
}

/// Why the file cannot be written any more, until the monitor has said so.
static FAILED: Mutex<Option<String>> = Mutex::new(None);

/// The monitor's part.
pub(crate) fn say_if_failed() {
    let why = FAILED.try_lock().ok().and_then(|mut why| why.take());
    why.iter().for_each(|why| crate::os::say(&format!("raddle: {why}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// A kernel thread that is seen first, or that has taken another one's place, has had its time at other times.
    #[test]
    fn no_thread_is_charged_with_more_than_was_used_between_two_looks() {
        static STOP: AtomicBool = AtomicBool::new(false);
        struct Stop;
        impl Drop for Stop {
            fn drop(&mut self) {
                STOP.store(true, Ordering::Relaxed);
            }
        }
        let pool = crate::Builder::new().processors(1).build().unwrap();
        let computes = pool.spawn(|| {
            while !STOP.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        // A pool ends when its threads have, also where the test fails.
        let stop = Stop;
        let index = || {
            let descriptor = std::ptr::from_ref(computes.descriptor()).cast_mut();
            // SAFETY: a descriptor of the slab.
            unsafe { descriptors().index_of(NonNull::new(descriptor).unwrap()) }
        };
        let mut busiest = Busiest::default();
        let mut looks = |others: bool| {
            if others {
                busiest.clocks.values_mut().for_each(|clock| clock.task = u32::MAX);
            }
            let begun = crate::os::process_time_on_core();
            // Until it has had some time, which it has on a busy machine, too, if late.
            while crate::os::process_time_on_core() < begun + 10_000_000 {
                std::thread::yield_now();
            }
            let before = busiest.charged.values().sum::<u64>();
            busiest.look();
            (busiest.charged.values().sum::<u64>() - before, busiest.charged.get(&index()).copied().unwrap_or(0))
        };
        let process = crate::os::process_time_on_core();
        assert_eq!(looks(false), (0, 0), "at the first look");
        // Meanwhile other tests of this process compute as well.
        while looks(false).1 == 0 {}
        assert_eq!(looks(true).0, 0, "of others");
        let (_, all) = looks(false);
        assert!(all > 0 && all <= crate::os::process_time_on_core() - process, "{all}");
        drop(stop);
        computes.join().unwrap();
    }
}
