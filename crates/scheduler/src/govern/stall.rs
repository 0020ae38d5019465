//! A processor that does not switch: what the monitor does about it, and when the monitor looks again.
//!
//! Silence alone means nothing: a processor that computes is not one that is blocked. So a processor that has stood
//! still for [`PATIENCE_PERIODS`] is asked about, and the answer decides:
//!
//! | it | others | order |
//! |---|---|---|
//! | has no activation: that computes on without it | | a spare carries it after another while |
//! | is blocked in the kernel | | a spare takes it over, at once |
//! | computes | some are idle | what it holds is made takeable, once |
//! | computes for [`SLICE_PERIODS`] | are busy, or have been told | a spare goes on beside it; two after as long each, then two after twice as long, and so on |
//!
//! A thread that computes while nobody is idle may be spinning for one that waits for its processor. It is asked now
//! and then ([`Stall::is_to_be_asked`]), where threads can be asked, and gives way if it spins, so that no spare comes.
//!
//! The monitor looks again after a period, or after [`SETTLED_PERIODS`] where nothing needs it: each processor
//! switches, or each computes and has been seen to. It sleeps after [`REST_AFTER_PERIODS`] with nothing busy.

/// Periods without a switch until a processor is asked about: one may be on its way.
pub const PATIENCE_PERIODS: u32 = 2;

/// Periods of computing until a spare goes on with the processor, if others wait for it. Kernel threads that share a
/// core end later than threads that take turns, and the kernel leaves cores idle meanwhile: `mandelbrot`, 100 threads
/// of 10 ms each, took 566 ms with 10 and 559 with 20 (medians of 22 interleaved rounds; 557 and 548 in 14 earlier
/// ones, 545 without spares).
pub const SLICE_PERIODS: u32 = 20;

/// Spares beside a processor with which one more does not come at once for the sake of a thread that has stepped back
/// behind those that it spawned, and is perhaps what the running thread waits for. With 300 threads that spin for their
/// spawner two come so; 4 was not measured against other numbers.
pub const AT_ONCE_SPARES: usize = 4;

/// Periods until the next look where nothing needs one. A look costs a server about 12 us of a core, its wake-up by the
/// kernel included: 1.2 % of the core in each period, 0.3 % so. `mandelbrot` took 563 ms with looks in each period, 555
/// so (medians of 20).
pub const SETTLED_PERIODS: u32 = 4;

/// Periods without anything busy until the monitor sleeps. By the figure of a look, which has a wake-up in it, to wake
/// it again costs at most 0.1 % of these; the number itself was not measured.
pub const REST_AFTER_PERIODS: u32 = 16;

/// What a processor's kernel thread does that does not switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// The processor has none.
    Without,
    /// It waits in the kernel.
    Blocked,
    /// It is on a core, or wants one.
    Computes,
    /// The kernel does not say.
    Unknown,
}

/// What is to be done about a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// It is left alone.
    Nothing,
    /// A spare carries it, which is nobody's.
    Carry,
    /// A spare takes it over.
    TakeOver,
    /// What it holds privately is published, if it can be taken for a moment; then [`Stall::has_published`].
    Publish,
    /// The same, and a spare goes on with it if threads wait.
    Share,
}

/// What the monitor remembers of one processor.
#[derive(Debug, Default)]
pub struct Stall {
    switches: u64,
    still_periods: u32,
    published: bool,
    /// How still it is when the next spare is due.
    share_at_periods: u32,
    /// How still it is when its thread is asked next whether it spins.
    ask_at_periods: u32,
    /// How often a thread had stepped back there behind those that it had spawned, and whether one has done so since
    /// the look before.
    retries: u64,
    stepped_back: bool,
}

impl Stall {
    /// A look, so many periods after the last one, by which it has switched so often, and threads have stepped back
    /// there so often: whether it does not go on.
    pub fn stands_still(&mut self, switches: u64, retries: u64, periods: u32) -> bool {
        if self.switches != switches {
            *self = Self { switches, retries, stepped_back: retries != self.retries, ..Self::default() };
            return false;
        }
        self.still_periods += periods;
        true
    }

    /// For so long that it is asked about.
    pub fn is_due(&self) -> bool {
        self.still_periods >= PATIENCE_PERIODS
    }

    /// What to do, where other processors of the pool are idle or not, and `beside` kernel threads compute on without
    /// this one.
    pub fn order(&mut self, doing: Doing, others_idle: bool, beside: usize) -> Order {
        match doing {
            // The others have their chance first.
            Doing::Without if self.still_periods >= 4 * PATIENCE_PERIODS => Order::Carry,
            Doing::Blocked => Order::TakeOver,
            Doing::Computes if others_idle && !self.published => Order::Publish,
            Doing::Computes => self.share(beside),
            Doing::Without | Doing::Unknown => Order::Nothing,
        }
    }

    /// Whether the thread that is known to compute there is to be asked now if it spins: at once, and whenever it has
    /// stood still for twice as long as the last time, so that one that computes is seldom interrupted.
    pub fn is_to_be_asked(&mut self) -> bool {
        let due = self.still_periods >= self.ask_at_periods;
        if due {
            self.ask_at_periods = self.still_periods.saturating_mul(2);
        }
        due
    }

    /// With each further spare that was slower, not with each second one, the last of 16 threads that spin for it on
    /// two processors came after 2.5 s (seven further ones on each), so after half a second.
    fn share(&mut self, beside: usize) -> Order {
        let length = SLICE_PERIODS << (beside / 2).min(6);
        let at_once = self.stepped_back && beside < AT_ONCE_SPARES;
        if self.still_periods < self.share_at_periods.max(length) && !at_once {
            return Order::Nothing;
        }
        (self.share_at_periods, self.stepped_back) = (self.still_periods + length, false);
        Order::Share
    }

    /// It was taken for a moment.
    pub fn has_published(&mut self) {
        self.published = true;
    }
}

/// How far the monitor's next look is off.
#[derive(Debug)]
pub struct Pace {
    quiet_periods: u32,
    periods: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { quiet_periods: 0, periods: 1 }
    }
}

impl Pace {
    /// Periods since the last look.
    pub fn periods(&self) -> u32 {
        self.periods
    }

    /// After a look: something is `busy`, nothing needs a look soon (`settled`). Periods until the next look; `None` if
    /// the monitor may sleep.
    pub fn after(&mut self, busy: bool, settled: bool) -> Option<u32> {
        self.quiet_periods = if busy { 0 } else { self.quiet_periods + self.periods };
        self.periods = if settled { SETTLED_PERIODS } else { 1 };
        (self.quiet_periods < REST_AFTER_PERIODS).then_some(self.periods)
    }

    /// It has slept, and is to look once, or until nothing is busy for a while.
    pub fn wakes(&mut self, once: bool) {
        *self = Self { quiet_periods: if once { REST_AFTER_PERIODS - 1 } else { 0 }, periods: 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor that has stood still for so long.
    fn still(periods: u32) -> Stall {
        let mut stall = Stall::default();
        assert!(!stall.stands_still(7, 0, 1) && (periods == 0 || stall.stands_still(7, 0, periods)));
        stall
    }

    #[test]
    fn one_that_switches_is_left_alone() {
        let mut stall = still(100);
        assert!(stall.is_due() && !stall.stands_still(8, 0, 1) && !stall.is_due());
        assert!(!still(PATIENCE_PERIODS - 1).is_due() && still(PATIENCE_PERIODS).is_due());
    }

    #[test]
    fn one_that_is_blocked_is_taken_over_and_a_free_one_carried_later() {
        assert_eq!(still(2).order(Doing::Blocked, true, 0), Order::TakeOver);
        assert_eq!(still(7).order(Doing::Without, true, 0), Order::Nothing);
        assert_eq!(still(8).order(Doing::Without, true, 0), Order::Carry);
        assert_eq!(still(1_000).order(Doing::Unknown, true, 0), Order::Nothing);
    }

    #[test]
    fn what_one_holds_that_computes_is_published_once_for_the_idle() {
        let mut stall = still(2);
        assert_eq!(stall.order(Doing::Computes, false, 0), Order::Nothing);
        // Until it could be taken.
        assert_eq!([(); 2].map(|()| stall.order(Doing::Computes, true, 0)), [Order::Publish; 2]);
        stall.has_published();
        assert_eq!(stall.order(Doing::Computes, true, 0), Order::Nothing);
    }

    #[test]
    fn spares_beside_one_that_computes_come_more_and_more_seldom() {
        let (mut stall, mut beside, mut times) = (still(0), 0, Vec::new());
        for period in 1..=500 {
            assert!(stall.stands_still(7, 0, 1));
            if stall.order(Doing::Computes, false, beside) == Order::Share {
                (beside, times) = (beside + 1, [times, vec![period]].concat());
            }
        }
        assert_eq!(times, [20, 40, 60, 100, 140, 220, 300, 460]);
    }

    #[test]
    fn one_that_computes_is_asked_more_and_more_seldom_whether_it_spins() {
        let mut stall = still(0);
        let asked: Vec<_> =
            (1..=100).filter(|_| stall.stands_still(7, 0, 1) && stall.is_due() && stall.is_to_be_asked()).collect();
        assert_eq!(asked, [2, 4, 8, 16, 32, 64]);
        assert!(!stall.stands_still(8, 0, 1) && stall.stands_still(8, 0, 4) && stall.is_to_be_asked());
    }

    #[test]
    fn a_spare_comes_at_once_where_a_thread_has_stepped_back() {
        let mut stall = still(2);
        assert!(!stall.stands_still(8, 1, 1) && stall.stands_still(8, 1, 2));
        assert_eq!([(); 2].map(|()| stall.order(Doing::Computes, false, 0)), [Order::Share, Order::Nothing]);
        assert!(!stall.stands_still(9, 2, 1) && stall.stands_still(9, 2, 2));
        assert_eq!(stall.order(Doing::Computes, false, AT_ONCE_SPARES), Order::Nothing);
    }

    #[test]
    fn looks_are_far_apart_where_nothing_needs_them_and_end() {
        let mut pace = Pace::default();
        assert_eq!((pace.after(true, false), pace.after(true, true), pace.periods()), (Some(1), Some(4), 4));
        let quiet: Vec<_> = (0..5).map(|_| pace.after(false, true)).collect();
        assert_eq!(quiet, [Some(4), Some(4), Some(4), None, None]);
        pace.wakes(true);
        assert_eq!(pace.after(false, true), None);
        pace.wakes(false);
        assert_eq!((pace.after(false, false), pace.after(true, false)), (Some(1), Some(1)));
    }
}
