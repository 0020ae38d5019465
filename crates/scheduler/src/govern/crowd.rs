//! Whether a pool does as much on fewer processors while others use the cores, too.
//!
//! A pool that gets one core's time of two, since clients, or the servers that it asks, run on the same cores, has two
//! kernel threads that take turns. Its threads then go from one core to the other for nothing: what they touch lies in
//! the other one's caches. Two processors served 76,600 requests a second of 10,000 connections, one 90,500 (the echo
//! load of `raddle bench` on the same two cores of a virtual machine, six rounds, 2026-11-24). But who has many rivals
//! gets less of the cores with fewer kernel threads: of a web service that asks three others on the same cores, one
//! processor served a fifth less than two. So it is tried.
//!
//! | state | until |
//! |---|---|
//! | all | it is *crowded*, by the mean of the last `STEADY_WINDOWS` windows: for a fifth of the time in which its processors were not asleep they were not on a core, much of what it does is input and output, and it got so little of the cores that fewer could use all of it, or all but `SPARED_CORES`; then there is a trial of those |
//! | trial | fewer and all have had `TRIAL_PAIRS` windows each, in turns, or twice as many where that leaves a doubt (`DOUBT_RATIO`). If it did hardly less with fewer than with all (`ENOUGH_RATIO`), it goes on with fewer, otherwise with all |
//! | fewer | they sleep in two windows in a row, so there is room: all come back; or some time has passed: a trial. While the answer stays the same, each trial is twice as far off as the last one |
//!
//! *In turns*, since what everybody gets done changes by a quarter from one second to the next on a machine that is
//! shared with others: of the five windows after another five an echo server with a fixed number of processors did as
//! much but for 0.16 to 0.19 (standard deviation of the logarithm; windows of a tenth of a second, four runs of 24
//! seconds, 2026-11-24), of every second one of ten but for 0.04 to 0.07.
//!
//! What it does is counted in switches between threads; but of `epoll_wait` the events that it finds count, and not the
//! switches for its sake: event loops that have kernel threads to themselves do not switch. With fewer processors they
//! are *gathered* on those (`crates/raddle/src/guest/event_loops.rs`).
//!
//! The monitor looks, takes processors out and brings them back (`crates/raddle/src/govern/follow.rs`). A pool with a
//! fixed number (`Builder::processors`) is left alone, and so is one that computes: the events that were fetched have
//! to be a fifth of its switches, or event loops have three quarters of its time on cores. Cost: a system call for each
//! processor and window, and where loops are apart a look at `/proc` for each of both; in a crowd, a second on the
//! wrong number now and then, every minute in the end.
//!
//! Source: the idea is that of T. Anderson et al., "Scheduler Activations" (1992), section 3: who schedules threads has
//! to know how many processors it was given. Differs from the paper: Linux tells nobody, so it is concluded.
//!
//! Pure: windows in, a number of processors out. `raddle` takes the census, and carries the number out.

use super::backoff::Backoff;

/// Windows by which a crowd is told.
const STEADY_WINDOWS: u32 = 5;
/// Windows of fewer in a trial, and of all.
const TRIAL_PAIRS: u32 = 6;
/// How many times as much has to be done on fewer: they leave more of the cores to others, and get better when they
/// last. (In the windows of a trial one processor of an echo server did 80,000 to 130,000 echoes a second, as two did,
/// and from the third or fifth window after it 150,000 to 165,000: the kernel has found a core for it and one for its
/// clients.)
const ENOUGH_RATIO: f64 = 0.92;
/// If it did less than enough, but more than this, a trial goes on until it has had twice as many windows: a host that
/// is shared with others makes errors of a tenth.
const DOUBT_RATIO: f64 = 0.8;
/// Cores' time that fewer processors may spare. (A web service of workers, one core's time of two, spent 75 µs a
/// request on two processors and 63 on one, medians of five rounds in turns, 2026-11-25. One with a thread for each
/// request that got 1.03 to 1.11 cores did three fifths as much on one: a trial then costs a quarter of a second's
/// work.)
const SPARED_CORES: f64 = 0.15;
/// Processors that are awake, and on cores, for less than this part of the time have room.
pub const ROOM_SHARE: f64 = 0.75;
/// Windows until the next trial, after one by which all stay: what has just begun is not yet what it will be, and errs,
const PAUSE_WINDOWS: u32 = 40;
/// and after one by which fewer stay, which cannot be far wrong. Each further one with the same answer comes after
/// twice as many,
const LONGER_WINDOWS: u32 = 120;
/// but not after more than that, so that trials take a twentieth of the time in the end.
const LONGEST_WINDOWS: u32 = 640;

/// What was seen of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Window {
    /// Processors that did not sleep.
    pub awake: f64,
    /// Cores that they were on.
    pub on_core: f64,
    /// Switches between threads, and events that event loops found for themselves, in a second.
    pub work: f64,
    /// Events of descriptors for each switch; 1 where event loops had nearly all of the time on cores.
    pub events: f64,
}

impl Window {
    /// What was seen in several, taken together.
    fn mean(windows: &[Window]) -> Window {
        let of = |what: fn(&Window) -> f64| windows.iter().map(what).sum::<f64>() / windows.len().max(1) as f64;
        Window {
            awake: of(|window| window.awake),
            on_core: of(|window| window.on_core),
            work: of(|window| window.work),
            events: of(|window| window.events),
        }
    }

    /// More were awake than could use what it got, and they often waited for a core.
    pub fn is_crowded(&self) -> bool {
        self.awake > self.fits() as f64 && self.on_core <= 0.8 * self.awake && self.is_of_events()
    }

    /// Much of what it does is input and output: it does not compute.
    fn is_of_events(&self) -> bool {
        self.events >= 0.2
    }

    /// So many processors could use all that it gets, if it spends less on the same work with them.
    fn fits(&self) -> usize {
        (self.on_core - SPARED_CORES).ceil().max(1.0) as usize
    }

    /// So many processors sleep a good deal. (The monitor, which looks who is awake, gets to run while they sleep: so
    /// the time on cores has to agree.)
    fn has_room(&self, processors: usize) -> bool {
        self.awake.max(self.on_core) < ROOM_SHARE * processors as f64
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    All,
    Fewer(usize),
    Trial(Trial),
}

/// Fewer and all in turns.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Trial {
    few: usize,
    /// It was all before, not fewer.
    from_all: bool,
    windows: u32,
    /// Work with fewer, and with all.
    sums: [f64; 2],
}

impl Trial {
    fn new(few: usize, from_all: bool) -> Trial {
        Trial { few, from_all, windows: 0, sums: [0.0; 2] }
    }

    /// Whose turn it is: fewer, all, all, fewer and so on. What changes steadily weighs the same on both.
    fn is_fewers(&self) -> bool {
        matches!(self.windows % 4, 0 | 3)
    }

    /// After one more window: whether fewer are to stay, if that is known.
    fn count(&mut self, window: &Window) -> Option<bool> {
        self.sums[usize::from(!self.is_fewers())] += window.work;
        self.windows += 1;
        let [few, all] = self.sums;
        let enough = few >= ENOUGH_RATIO * all;
        let known = match self.windows {
            windows if windows == 2 * TRIAL_PAIRS => enough || few < DOUBT_RATIO * all,
            windows => windows == 4 * TRIAL_PAIRS,
        };
        known.then_some(enough)
    }
}

/// Chooses how many processors take part.
#[derive(Debug)]
pub struct Choice {
    state: State,
    /// Windows with all, and the last `STEADY_WINDOWS` of them.
    windows: u32,
    recent: [Window; STEADY_WINDOWS as usize],
    /// The last window had room.
    had_room: bool,
    /// Windows until there may be another trial.
    pause: Backoff,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            state: State::All,
            windows: 0,
            recent: [Window::default(); _],
            had_room: false,
            pause: Backoff::new(PAUSE_WINDOWS),
        }
    }
}

impl Choice {
    /// A trial goes on: each window counts.
    pub fn is_in_trial(&self) -> bool {
        matches!(self.state, State::Trial(_))
    }

    fn enter(&mut self, state: State) {
        (self.state, self.windows) = (state, 0);
    }

    /// After one more window: how many of `all`.
    pub fn after(&mut self, window: &Window, all: usize) -> usize {
        self.pause.pass();
        let has_room = matches!(self.state, State::Fewer(few) if window.has_room(few));
        let had_room = std::mem::replace(&mut self.had_room, has_room);
        match &mut self.state {
            State::Fewer(_) if has_room && had_room => self.make_room(),
            State::Trial(trial) if trial.is_fewers() && window.has_room(trial.few) => self.make_room(),
            State::All => {
                self.recent[self.windows as usize % self.recent.len()] = *window;
                self.windows += 1;
                let mean = Window::mean(&self.recent);
                if self.windows >= STEADY_WINDOWS && self.pause.is_over() && mean.is_crowded() && mean.fits() < all {
                    self.enter(State::Trial(Trial::new(mean.fits(), true)));
                }
            }
            State::Fewer(few) if self.pause.is_over() => self.state = State::Trial(Trial::new(*few, false)),
            State::Fewer(_) => {}
            State::Trial(trial) if !trial.is_fewers() && !window.is_of_events() => self.make_room(),
            State::Trial(trial) => {
                if let Some(fewer_stay) = trial.count(window) {
                    let trial = *trial;
                    self.conclude(&trial, fewer_stay);
                }
            }
        }
        match self.state {
            State::Fewer(few) => few.min(all),
            State::Trial(trial) if trial.is_fewers() => trial.few.min(all),
            _ => all,
        }
    }

    fn make_room(&mut self) {
        self.enter(State::All);
        self.pause.restart(PAUSE_WINDOWS);
        self.pause.pause(PAUSE_WINDOWS);
    }

    fn conclude(&mut self, trial: &Trial, fewer_stay: bool) {
        if fewer_stay == trial.from_all {
            self.pause.restart(if fewer_stay { LONGER_WINDOWS } else { PAUSE_WINDOWS });
        }
        self.enter(if fewer_stay { State::Fewer(trial.few) } else { State::All });
        self.pause.pause(LONGEST_WINDOWS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(processors: usize, work: f64) -> Window {
        Window { awake: 0.98 * processors as f64, on_core: 0.97, work, events: 1.0 }
    }

    /// A server on two cores that it shares with its clients; `rates` are its switches with one and with two
    /// processors, window by window.
    fn run(choice: &mut Choice, windows: u32, rates: impl Fn(u32) -> [f64; 2]) -> Vec<usize> {
        let mut processors = 2;
        let mut one = |turn| {
            processors = choice.after(&busy(processors, rates(turn)[processors - 1]), 2);
            processors
        };
        (0..windows).map(&mut one).collect()
    }

    #[test]
    fn a_trial_takes_turns_and_fewer_stay_that_do_more() {
        let mut choice = Choice::default();
        let seen = run(&mut choice, 50, |_| [69.0, 61.0]);
        assert_eq!(seen[..17], [2, 2, 2, 2, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2, 1, 1]);
        assert_eq!((seen[17..].iter().max(), choice.state), (Some(&1), State::Fewer(1)));
        let later = run(&mut choice, 2_000, |_| [69.0, 61.0]);
        let tried = later.iter().filter(|&&processors| processors == 2).count();
        assert!((18..50).contains(&tried), "{tried} of 2000");
        // The clients have gone elsewhere: now two do more.
        let last = run(&mut choice, LONGEST_WINDOWS + 20, |_| [69.0, 120.0]);
        assert_eq!(last.last(), Some(&2), "{last:?}");
    }

    #[test]
    fn fewer_stay_that_do_about_as_much() {
        let mut choice = Choice::default();
        assert_eq!(run(&mut choice, 30, |_| [60.0, 61.0]).last(), Some(&1));
        let later = run(&mut choice, 2_000, |_| [60.0, 63.0]);
        let tried = later.iter().filter(|&&processors| processors == 2).count();
        assert!((18..100).contains(&tried), "{tried} of 2000");
    }

    #[test]
    fn all_come_back_where_fewer_do_less_and_trials_become_rare() {
        let mut choice = Choice::default();
        let seen = run(&mut choice, 2_000, |_| [41.0, 52.0]);
        let tried = seen.iter().filter(|&&processors| processors == 1).count();
        assert!((18..50).contains(&tried), "{tried} of 2000");
        assert_eq!((choice.state, seen[17..50].iter().min()), (State::All, Some(&2)));
    }

    #[test]
    fn a_host_that_is_slow_now_and_then_decides_nothing() {
        // Rates that fall to two thirds, and rise again, over a second or two, and grow all the time.
        for phase in 0..40 {
            let drift = |turn: u32| (1.0 + 0.2 * (0.35 * f64::from(turn + phase)).sin()) * 1.01f64.powi(turn as i32);
            let mut choice = Choice::default();
            assert_eq!(
                run(&mut choice, 30, |turn| [66.0, 60.0].map(|rate| rate * drift(turn))).last(),
                Some(&1),
                "{phase}"
            );
            let mut choice = Choice::default();
            assert_eq!(
                run(&mut choice, 30, |turn| [52.0, 60.0].map(|rate| rate * drift(turn))).last(),
                Some(&2),
                "{phase}"
            );
        }
    }

    #[test]
    fn there_is_a_trial_again_under_a_load_that_comes_and_goes() {
        let mut choice = Choice::default();
        run(&mut choice, 20, |_| [69.0, 61.0]);
        assert_eq!(choice.state, State::Fewer(1));
        assert!((0..2 * LONGER_WINDOWS).any(|turn| choice.after(&busy(1, [10.0, 90.0][turn as usize % 2]), 2) == 2));
    }

    #[test]
    fn with_room_on_the_cores_all_take_part() {
        let mut choice = Choice::default();
        run(&mut choice, 20, |_| [69.0, 61.0]);
        assert_eq!(choice.state, State::Fewer(1));
        let idle = Window { awake: 0.5, on_core: 0.5, work: 30.0, events: 1.0 };
        // One window tells little.
        assert_eq!((choice.after(&idle, 2), choice.after(&busy(1, 69.0), 2), choice.after(&idle, 2)), (1, 1, 1));
        assert!((0..100).all(|_| choice.after(&idle, 2) == 2));
        // One that only seems to sleep, since whoever looks runs while it does, has none.
        run(&mut choice, 20, |_| [69.0, 61.0]);
        assert_eq!((choice.state, choice.after(&Window { on_core: 0.95, ..idle }, 2)), (State::Fewer(1), 1));
        // In the midst of a trial, too.
        let mut choice = Choice::default();
        run(&mut choice, 5, |_| [69.0, 61.0]);
        assert_eq!((choice.after(&idle, 2), choice.state), (2, State::All));
    }

    #[test]
    fn what_computes_is_left_alone_and_so_is_what_has_the_cores() {
        let crowded = Window { awake: 2.0, on_core: 1.0, work: 1e5, events: 1.0 };
        for other in
            [Window { events: 0.1, ..crowded }, Window { on_core: 1.9, ..crowded }, Window { awake: 0.99, ..crowded }]
        {
            let mut choice = Choice::default();
            assert!(crowded.is_crowded() && !other.is_crowded());
            assert!((0..1000).all(|_| choice.after(&other, 2) == 2), "{other:?}");
        }
        // Who gets a good deal more than a core needs two processors.
        for on_core in [1.2, 1.5] {
            let more = Window { on_core, ..crowded };
            let mut choice = Choice::default();
            assert!((0..1000).all(|_| choice.after(&more, 2) == 2));
        }
    }

    #[test]
    fn of_many_processors_as_many_stay_as_it_gets_cores() {
        let window = Window { awake: 15.5, on_core: 4.3, work: 1e6, events: 0.5 };
        let mut choice = Choice::default();
        assert_eq!((0..5).map(|_| choice.after(&window, 16)).last(), Some(5));
    }
}
