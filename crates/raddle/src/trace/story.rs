//! What events mean: a state for each thread and each processor, and a span for each state that is over.
//!
//! Events come by time. The first of a thread may be lost, since each lane keeps its last ones only: so every event
//! says by itself who is concerned, and a thread that nobody has spoken of yet begins with what is said of it. A
//! record serves one thread after the other: a spawn begins a new one.

use crate::lanes::Kind;
use crate::lanes::layout::{ENDED, GIVES_WAY, MOVES};
use std::collections::{BTreeMap, HashMap};

/// Waits that no thread ends: events of the kernel's do, or the clock.
const NOBODYS: [&str; 3] = ["a descriptor", "a point in time", "a send, with others"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Said<'a> {
    pub time: u64,
    pub kind: Kind,
    pub place: PoolAndProcessor,
    pub thread: u64,
    pub other: u64,
    pub reason: &'a str,
}

/// Pool and processor.
pub(super) type PoolAndProcessor = (u32, u32);

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State<'a> {
    Ready,
    Runs(PoolAndProcessor),
    Waits(&'a str),
    /// It has no processor, for that reason, and goes on, or is in the kernel.
    Without(&'a str),
}

/// Something that is over.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Told<'a> {
    /// A thread did that from then to then; why it stopped running.
    Span { thread: usize, state: State<'a>, from: u64, to: u64, left: &'a str },
    /// One made another one ready then, and that ran from then on.
    Woke { by: usize, at: u64, thread: usize, ran: u64 },
}

struct Life<'a> {
    number: usize,
    state: State<'a>,
    since: u64,
    /// Who made it ready, and when: until it runs.
    woken: Option<(usize, u64)>,
    /// As above, of the run that goes on.
    came: Option<(usize, u64)>,
}

impl<'a> Life<'a> {
    /// What it did is over. A state that took no time is not told, nor is who brought it about.
    fn over(&mut self, time: u64, left: &'a str, tell: &mut impl FnMut(Told<'a>)) {
        if self.since >= time {
            return;
        }
        let (thread, state, from) = (self.number, self.state, self.since);
        tell(Told::Span { thread, state, from, to: time, left });
        if let State::Runs(_) = state
            && let Some((by, at)) = self.came
        {
            tell(Told::Woke { by, at, thread, ran: from });
        }
    }
}

/// A thread that was spoken of.
pub(super) struct Known {
    pub record: u64,
    pub from: u64,
}

#[derive(Default)]
pub(super) struct Story<'a> {
    lives: HashMap<u64, Life<'a>>,
    on: HashMap<PoolAndProcessor, u64>,
    pub threads: Vec<Known>,
    pub places: Vec<PoolAndProcessor>,
}

impl<'a> Story<'a> {
    /// The thread of a record, which is new from `time` on if nobody has spoken of it.
    fn life(&mut self, record: u64, time: u64, state: State<'a>) -> &mut Life<'a> {
        let threads = &mut self.threads;
        self.lives.entry(record).or_insert_with(|| {
            threads.push(Known { record, from: time });
            Life { number: threads.len() - 1, state, since: time, woken: None, came: None }
        })
    }

    fn change(&mut self, record: u64, time: u64, state: State<'a>, left: &'a str, tell: &mut impl FnMut(Told<'a>)) {
        let life = self.life(record, time, state);
        if life.state == state {
            return;
        }
        life.over(time, left, tell);
        (life.state, life.since) = (state, time);
        if let State::Runs(_) = state {
            life.came = life.woken.take();
        }
    }

    fn end(&mut self, record: u64, time: u64, tell: &mut impl FnMut(Told<'a>)) {
        if let Some(mut life) = self.lives.remove(&record) {
            life.over(time, ENDED, tell);
        }
    }

    /// Whoever still counts as running there has left unseen: it has ended.
    fn clear(&mut self, place: PoolAndProcessor, but: u64, time: u64, tell: &mut impl FnMut(Told<'a>)) {
        match self.on.get(&place) {
            Some(&record) if record == but => {}
            Some(&record) => {
                self.on.remove(&place);
                if self.lives.get(&record).is_some_and(|life| life.state == State::Runs(place)) {
                    self.end(record, time, tell);
                }
            }
            None => {}
        }
    }

    /// A thread leaves the processor on which it ran.
    fn leave(
        &mut self,
        record: u64,
        place: PoolAndProcessor,
        time: u64,
        reason: &'a str,
        tell: &mut impl FnMut(Told<'a>),
    ) {
        if !self.lives.contains_key(&record) {
            return;
        }
        self.clear(place, record, time, tell);
        self.on.remove(&place);
        match reason {
            ENDED => self.end(record, time, tell),
            GIVES_WAY | MOVES => self.change(record, time, State::Ready, reason, tell),
            wait => self.change(record, time, State::Waits(wait), wait, tell),
        }
    }

    /// The next event.
    pub fn hear(&mut self, said: Said<'a>, tell: &mut impl FnMut(Told<'a>)) {
        let Said { time, kind, place, thread, other, reason } = said;
        let on_processor = matches!(kind, Kind::Runs | Kind::Stops | Kind::Idle | Kind::Taken);
        if on_processor && !self.places.contains(&place) {
            self.places.push(place);
        }
        match kind {
            Kind::Spawned => {
                self.end(thread, time, tell);
                self.ready(thread, other, time, tell);
            }
            Kind::Ready => self.ready(thread, other, time, tell),
            Kind::Runs => {
                if other != 0 {
                    self.leave(other, place, time, reason, tell);
                }
                self.clear(place, thread, time, tell);
                self.change(thread, time, State::Runs(place), "", tell);
                self.on.insert(place, thread);
            }
            Kind::Stops => self.leave(thread, place, time, reason, tell),
            Kind::Idle => self.clear(place, 0, time, tell),
            Kind::Taken => {
                self.clear(place, thread, time, tell);
                self.on.remove(&place);
                if thread != 0 {
                    self.change(thread, time, State::Without(reason), reason, tell);
                }
            }
            Kind::Beside => self.change(thread, time, State::Without(reason), reason, tell),
            Kind::Back => self.change(thread, time, State::Ready, "", tell),
            Kind::Ended => self.end(thread, time, tell),
        }
    }

    fn ready(&mut self, thread: u64, other: u64, time: u64, tell: &mut impl FnMut(Told<'a>)) {
        let by = self.lives.get(&other).map(|life| life.number);
        let life = self.life(thread, time, State::Ready);
        let by = by.filter(|_| !matches!(life.state, State::Waits(wait) if NOBODYS.contains(&wait)));
        life.woken = by.map(|by| (by, time));
        // One that runs is on its way off its processor: it says itself when.
        if !matches!(life.state, State::Runs(_)) {
            self.change(thread, time, State::Ready, "", tell);
        }
    }

    /// The trace ends.
    pub fn over(&mut self, time: u64, tell: &mut impl FnMut(Told<'a>)) {
        // An order that is looked up at each comparison made 32 KiB of code in each program.
        let left: BTreeMap<_, u64> = self.lives.iter().map(|(&record, life)| (life.number, record)).collect();
        for record in left.into_values() {
            if let Some(life) = self.lives.get_mut(&record) {
                life.over(time, "", tell);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(time: u64, kind: Kind, thread: u64, other: u64, reason: &'static str) -> Said<'static> {
        Said { time, kind, place: (0, 0), thread, other, reason }
    }

    #[test]
    fn a_thread_is_spawned_runs_waits_is_woken_and_ends() {
        let mut told = Vec::new();
        let mut story = Story::default();
        for event in [
            said(1, Kind::Runs, 10, 0, ""),
            said(2, Kind::Spawned, 20, 10, ""),
            said(3, Kind::Runs, 20, 10, "the end of a thread"),
            said(5, Kind::Stops, 20, 0, "a mutex"),
            said(6, Kind::Ready, 20, 10, ""),
            said(7, Kind::Runs, 20, 0, ""),
            // Its record serves another one: it has ended without a word.
            said(9, Kind::Idle, 0, 0, ""),
            said(10, Kind::Spawned, 20, 0, ""),
        ] {
            story.hear(event, &mut |t| told.push(t));
        }
        story.over(12, &mut |t| told.push(t));
        let span = |thread, state, from, to, left| Told::Span { thread, state, from, to, left };
        let runs = State::Runs((0, 0));
        let expected = [
            span(0, runs, 1, 3, "the end of a thread"),
            span(1, State::Ready, 2, 3, ""),
            span(1, runs, 3, 5, "a mutex"),
            Told::Woke { by: 0, at: 2, thread: 1, ran: 3 },
            span(1, State::Waits("a mutex"), 5, 6, ""),
            span(1, State::Ready, 6, 7, ""),
            span(1, runs, 7, 9, ENDED),
            Told::Woke { by: 0, at: 6, thread: 1, ran: 7 },
            span(0, State::Waits("the end of a thread"), 3, 12, ""),
            span(2, State::Ready, 10, 12, ""),
        ];
        assert_eq!(told, expected);
        assert_eq!((story.threads.len(), story.places.as_slice()), (3, &[(0, 0)][..]));
    }

    #[test]
    fn a_processor_that_is_taken_leaves_its_thread_in_the_kernel() {
        use crate::lanes::layout::BLOCKED;
        let mut told = Vec::new();
        let mut story = Story::default();
        for event in [
            said(1, Kind::Runs, 10, 0, ""),
            said(4, Kind::Taken, 10, 0, BLOCKED),
            said(5, Kind::Runs, 20, 0, ""),
            said(8, Kind::Back, 10, 0, ""),
            said(9, Kind::Runs, 10, 20, GIVES_WAY),
        ] {
            story.hear(event, &mut |t| told.push(t));
        }
        let of_first: Vec<_> = told.iter().filter(|t| matches!(t, Told::Span { thread: 0, .. })).collect();
        let span = |state, from, to, left| Told::Span { thread: 0, state, from, to, left };
        let expected = [
            span(State::Runs((0, 0)), 1, 4, BLOCKED),
            span(State::Without(BLOCKED), 4, 8, ""),
            span(State::Ready, 8, 9, ""),
        ];
        assert_eq!(of_first, expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn a_run_that_took_no_time_has_no_arrow_and_one_that_is_woken_as_it_runs_has_its_own() {
        let mut told = Vec::new();
        let mut story = Story::default();
        for event in [
            said(1, Kind::Runs, 10, 0, ""),
            said(2, Kind::Spawned, 20, 10, ""),
            said(3, Kind::Runs, 20, 10, "a mutex"),
            // It is on its way off the processor.
            said(4, Kind::Ready, 20, 30, ""),
            said(4, Kind::Ready, 10, 20, ""),
            said(5, Kind::Runs, 10, 20, GIVES_WAY),
        ] {
            story.hear(event, &mut |t| told.push(t));
        }
        story.over(5, &mut |t| told.push(t));
        let arrows: Vec<_> = told.iter().filter(|told| matches!(told, Told::Woke { .. })).collect();
        assert_eq!(arrows, [&Told::Woke { by: 0, at: 2, thread: 1, ran: 3 }]);
    }

    #[test]
    fn one_that_left_unseen_is_not_on_a_processor_with_the_next() {
        let mut told = Vec::new();
        let mut story = Story::default();
        for event in [
            said(1, Kind::Runs, 10, 0, ""),
            said(3, Kind::Taken, 20, 0, crate::lanes::layout::BLOCKED),
            said(5, Kind::Runs, 30, 0, ""),
            said(6, Kind::Beside, 20, 0, crate::lanes::layout::COMPUTES),
            said(8, Kind::Runs, 20, 30, GIVES_WAY),
        ] {
            story.hear(event, &mut |t| told.push(t));
        }
        story.over(9, &mut |t| told.push(t));
        let ran = |told: &Told<'_>| match told {
            Told::Span { thread, state: State::Runs(_), from, to, .. } => Some((*thread, *from, *to)),
            _ => None,
        };
        assert_eq!(told.iter().filter_map(ran).collect::<Vec<_>>(), [(0, 1, 3), (2, 5, 8), (1, 8, 9)]);
    }

    #[test]
    fn no_arrow_comes_from_who_happened_to_look_for_events() {
        let mut told = Vec::new();
        let mut story = Story::default();
        for event in [
            said(1, Kind::Runs, 10, 0, ""),
            said(2, Kind::Runs, 20, 10, "a descriptor"),
            said(3, Kind::Ready, 10, 20, ""),
            said(4, Kind::Runs, 10, 20, GIVES_WAY),
        ] {
            story.hear(event, &mut |t| told.push(t));
        }
        assert!(!told.iter().any(|t| matches!(t, Told::Woke { .. })), "{told:?}");
    }
}
