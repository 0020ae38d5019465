//! Processors that a kernel multiplexes its kernel threads over: fewer than there are coroutines.
//!
//! A coroutine is a kernel thread. One that can go on takes a free processor, or waits in the kernel's queue, first
//! come first served; at the end of its quantum it goes to the queue's end if somebody waits. One that sleeps until a
//! time is blocked in the kernel, and leaves its processor. One that sleeps without a deadline has nothing to run: it
//! leaves its processor too or, where the user level spins ([`Sharing::idle_spins`]), keeps it until its quantum ends.
//!
//! Two kinds of coroutines need no such processor, told by their names: [`KERNEL`], whose time is charged elsewhere,
//! and [`DAEMON`], whose work makes the one that it interrupts late.

use std::collections::VecDeque;

/// The name of a coroutine that stands for the kernel itself.
pub const KERNEL: &str = "kernel";
/// The name of one that stands for a daemon, which interrupts whom it meets.
pub const DAEMON: &str = "daemon";

/// What the kernel does with its processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// How many it has.
    pub processors: usize,
    /// Nanoseconds after which a kernel thread gives way to one that waits.
    pub quantum: u64,
    /// Who has nothing to run keeps its processor, since it looks for work at the user level.
    pub idle_spins: bool,
    /// A daemon takes an idle processor if there is one; otherwise, and where this is false, whichever comes.
    pub daemon_takes_idle: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Processor {
    holder: Option<usize>,
    free_at: u64,
    quantum_ends: u64,
    /// An end of quantum is noted for one that spins.
    ticks: bool,
}

/// Who has which processor, in picoseconds.
#[derive(Debug)]
pub(super) struct Processors {
    sharing: Sharing,
    all: Vec<Processor>,
    waiting: VecDeque<usize>,
    /// Whom the next daemon meets.
    random: u64,
}

/// What becomes of a coroutine whose time has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It goes on.
    Goes,
    /// It gets its processor then.
    Later(u64),
    /// It waits for a processor.
    Waits,
    /// It has given way to this one.
    GivesWayTo(usize),
}

impl Processors {
    pub(super) fn new(sharing: Sharing) -> Self {
        let all = vec![Processor::default(); sharing.processors.max(1)];
        Self { sharing, all, waiting: VecDeque::new(), random: 0x9e37_79b9_7f4a_7c15 }
    }

    fn of(&self, coroutine: usize) -> Option<usize> {
        self.all.iter().position(|processor| processor.holder == Some(coroutine))
    }

    fn quantum(&self) -> u64 {
        self.sharing.quantum.saturating_mul(1_000)
    }

    /// A coroutine that can go on, at its time.
    pub(super) fn turn(&mut self, coroutine: usize, at: u64) -> Turn {
        let quantum_ends = at + self.quantum();
        if let Some(mine) = self.of(coroutine) {
            if at < self.all[mine].quantum_ends {
                return Turn::Goes;
            }
            let Some(next) = self.waiting.pop_front() else {
                self.all[mine].quantum_ends = quantum_ends;
                return Turn::Goes;
            };
            self.waiting.push_back(coroutine);
            self.all[mine].holder = Some(next);
            self.all[mine].quantum_ends = quantum_ends;
            return Turn::GivesWayTo(next);
        }
        let free = (0..self.all.len()).filter(|&index| self.all[index].holder.is_none());
        let Some(free) = free.min_by_key(|&index| self.all[index].free_at) else {
            if !self.waiting.contains(&coroutine) {
                self.waiting.push_back(coroutine);
            }
            return Turn::Waits;
        };
        let processor = &mut self.all[free];
        let begins = at.max(processor.free_at);
        *processor =
            Processor { holder: Some(coroutine), quantum_ends: begins + self.sharing.quantum * 1_000, ..*processor };
        if begins > at { Turn::Later(begins) } else { Turn::Goes }
    }

    /// A coroutine sleeps or has ended; who gets its processor.
    pub(super) fn left(&mut self, coroutine: usize, at: u64, idle: bool) -> Option<usize> {
        if idle && self.sharing.idle_spins {
            return None;
        }
        let mine = self.of(coroutine)?;
        let next = self.waiting.pop_front();
        let quantum_ends = at + self.quantum();
        self.all[mine] = Processor { holder: next, free_at: at, quantum_ends, ..self.all[mine] };
        next
    }

    /// True if one that is woken waits for a processor already, as one that spins.
    pub(super) fn is_waiting(&self, coroutine: usize) -> bool {
        self.waiting.contains(&coroutine)
    }

    /// The ends of quantums to be noted: of processors that idle ones keep from others.
    pub(super) fn ticks(&mut self, idle: impl Fn(usize) -> bool) -> Vec<(usize, u64)> {
        if self.waiting.is_empty() || !self.sharing.idle_spins {
            return Vec::new();
        }
        let mut due = Vec::new();
        for (index, processor) in self.all.iter_mut().enumerate() {
            if !processor.ticks && processor.holder.is_some_and(&idle) {
                processor.ticks = true;
                due.push((index, processor.quantum_ends));
            }
        }
        due
    }

    /// The quantum of a processor ends: who gets it from the idle one that has it.
    pub(super) fn tick(&mut self, index: usize, at: u64, idle: impl Fn(usize) -> bool) -> Option<usize> {
        self.all[index].ticks = false;
        let holder = self.all[index].holder.filter(|&holder| idle(holder) && at >= self.all[index].quantum_ends)?;
        let next = self.waiting.pop_front()?;
        self.waiting.push_back(holder);
        self.all[index].holder = Some(next);
        self.all[index].quantum_ends = at + self.quantum();
        Some(next)
    }

    /// A daemon runs for so long: whom it makes late.
    pub(super) fn interrupted(&mut self, at: u64, lasts: u64) -> Option<usize> {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let any = (self.random >> 33) as usize % self.all.len();
        let idle = (0..self.all.len()).find(|&index| self.all[index].holder.is_none() && self.all[index].free_at <= at);
        let index = idle.filter(|_| self.sharing.daemon_takes_idle).unwrap_or(any);
        let processor = &mut self.all[index];
        processor.quantum_ends += lasts;
        if processor.holder.is_none() {
            processor.free_at = processor.free_at.max(at) + lasts;
        }
        processor.holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two(idle_spins: bool) -> Processors {
        Processors::new(Sharing { processors: 2, quantum: 10, idle_spins, daemon_takes_idle: true })
    }

    #[test]
    fn who_comes_too_late_waits_until_a_quantum_ends() {
        let mut processors = two(false);
        assert_eq!(
            [processors.turn(0, 0), processors.turn(1, 0), processors.turn(2, 0)],
            [Turn::Goes, Turn::Goes, Turn::Waits]
        );
        assert_eq!(processors.turn(0, 9_999), Turn::Goes);
        assert_eq!(processors.turn(0, 10_000), Turn::GivesWayTo(2));
        assert_eq!(processors.left(1, 12_000, true), Some(0));
        // Nobody waits: a quantum begins again.
        assert_eq!(processors.turn(2, 30_000), Turn::Goes);
    }

    #[test]
    fn one_that_spins_keeps_its_processor_for_its_quantum() {
        let mut processors = two(true);
        assert_eq!(
            [processors.turn(0, 0), processors.turn(1, 0), processors.turn(2, 1)],
            [Turn::Goes, Turn::Goes, Turn::Waits]
        );
        assert_eq!(processors.left(0, 5_000, true), None);
        let idle = |coroutine| coroutine == 0;
        assert_eq!(processors.ticks(idle), [(0, 10_000)]);
        assert_eq!(processors.ticks(idle), []);
        assert_eq!(processors.tick(0, 10_000, idle), Some(2));
        assert!(processors.is_waiting(0));
    }

    #[test]
    fn a_daemon_takes_an_idle_processor_where_the_kernel_knows_it() {
        let mut processors = two(false);
        assert_eq!(processors.turn(0, 0), Turn::Goes);
        assert!((0..50).all(|turn| processors.interrupted(turn * 1_000, 10).is_none()));
        assert_eq!(processors.turn(1, 60_000), Turn::Goes);
        let met: Vec<_> = (0..50).map(|turn| processors.interrupted(70_000 + turn, 10)).collect();
        assert!(met.contains(&Some(0)) && met.contains(&Some(1)));
    }
}
