//! The scenarios: small programs of a few threads, and what their runs must have shown.

use super::Subject;
use super::promise::Own;
use crate::machine::Controlled;
use raddle_scheduler::policies::Busy;
use raddle_scheduler::{Cause, Policy};
use std::sync::Arc;

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Act {
    /// Computes.
    Work,
    /// Makes that one ready for the first time.
    Spawn(usize),
    /// Makes that one ready.
    Wake(usize),
    /// Offers its processor until that one has ended.
    YieldUntil(usize),
    /// Has its processor publish what it holds.
    Publish,
    /// Keeps its processor until all others have ended, if that holds nothing that only it can run.
    Hold,
    /// Is blocked outside the runtime until all others have ended; elsewhere than on its first processor it does
    /// nothing.
    Block,
    /// Ends, and stops its processor.
    Stop,
}

/// What a spare does with a processor that it has taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Spare {
    /// It exposes what the processor hides, and sets it free.
    Borrows,
    /// It goes on with it.
    Carries,
    /// The same, and the thread that has lost it waits for its turn on its stack.
    Returns,
    /// The same, but that one goes on beside the others until it enters.
    Beside,
    /// As the first one, and the thread that has lost it finds it free when it enters: it leaves its stack for others.
    Leaves,
}

/// Who does what.
#[derive(Clone, Debug, Default)]
pub(super) struct Script {
    /// Per thread.
    pub acts: Vec<Vec<Act>>,
    /// Per thread.
    pub priorities: Vec<u8>,
    /// Made ready by processor 0 before it begins.
    pub begin: Vec<(usize, Cause)>,
    /// Submitted by somebody outside.
    pub outside: Vec<usize>,
    /// Takes processor 0.
    pub spare: Option<Spare>,
}

/// What runs can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Moved,
    Called,
    SawWork,
    Together,
    Yielded,
    LeftBehind,
    Published,
    Overtook,
    Kept,
    Shared,
    Rescued,
    TakenOver,
    Lost,
    Refused,
    InTurn,
    Missed,
    Left,
}

impl Reach {
    pub fn bit(self) -> u32 {
        1 << self as u32
    }

    pub fn text(self) -> &'static str {
        match self {
            Reach::Moved => "a thread ran on another processor than the one that made it ready",
            Reach::Called => "a processor slept and was called",
            Reach::SawWork => "a processor that was about to sleep saw work",
            Reach::Together => "two processors had a thread each",
            Reach::Yielded => "a thread yielded and ran again later",
            Reach::LeftBehind => "what a processor had made ready before it stopped ran on another one",
            Reach::Published => "what a busy processor published ran on another one",
            Reach::Overtook => "a thread overtook one of a lower priority",
            Reach::Kept => "a woken thread was kept although another processor was idle",
            Reach::Shared => "a processor whose thread left shared what it hid",
            Reach::TakenOver => "a spare went on with a processor",
            Reach::Lost => "a thread came back to a processor that was lost, and waited in the queues",
            Reach::InTurn => "a processor was passed on to a thread that had come back, and waited for its turn",
            Reach::Left => "a thread that had come back left its stack, and its activation carried others",
            Reach::Missed => "a thread that had come back went on beside the others, and its turn passed",
            Reach::Refused => "a spare left a processor to its owner, which was inside the runtime",
            Reach::Rescued => "a busy processor took over what one offered that stood still",
        }
    }
}

/// What a scenario needs of the policy.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Needs {
    Nothing,
    /// It promises an order, which one processor shows.
    Order,
    /// It tells priorities apart, which one processor shows.
    Priorities,
    /// Two processors.
    Two,
    /// Two processors, any of which takes what is not private to another.
    Shares,
    /// Two processors, and that one may stop.
    Stops,
    /// Two processors, and that others do not find what they are not told of.
    Hides,
}

/// A small program that is run in many ways.
#[derive(Debug, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What happens in it.
    pub about: &'static str,
    needs: Needs,
    listed: &'static [Reach],
}

/// All of them.
pub const SCENARIOS: [Scenario; 19] = [
    Scenario {
        name: "spawn",
        about: "a thread makes all others, and their processors find them",
        needs: Needs::Nothing,
        listed: &[Reach::Moved, Reach::Called, Reach::Together],
    },
    Scenario {
        name: "wake",
        about: "two chains of threads that wake each other",
        needs: Needs::Nothing,
        listed: &[Reach::Moved, Reach::Called],
    },
    Scenario {
        name: "submit",
        about: "somebody outside makes threads ready, while the processors search and go to sleep",
        needs: Needs::Nothing,
        listed: &[Reach::Called, Reach::SawWork],
    },
    Scenario {
        name: "yield",
        about: "threads, as many as processors, yield until the last one has run",
        needs: Needs::Nothing,
        listed: &[Reach::Yielded],
    },
    Scenario {
        name: "patience",
        about: "threads, as many as processors, yield until one has run that comes from outside",
        needs: Needs::Nothing,
        listed: &[Reach::Yielded],
    },
    Scenario {
        name: "stop",
        about: "a processor stops and gives back what it holds",
        needs: Needs::Stops,
        listed: &[Reach::LeftBehind, Reach::Called],
    },
    Scenario {
        name: "publish",
        about: "a processor publishes what it holds and is busy until the others have run it",
        needs: Needs::Two,
        listed: &[Reach::Moved, Reach::Called, Reach::Published],
    },
    Scenario {
        name: "busy",
        about: "a processor pushes threads and is busy until the others have run them, unless they are private",
        needs: Needs::Shares,
        listed: &[Reach::Called],
    },
    Scenario {
        name: "gift",
        about: "threads come from outside, and who selects the first is busy until the others have run the rest",
        needs: Needs::Shares,
        listed: &[Reach::Called, Reach::SawWork],
    },
    Scenario {
        name: "handoff",
        about: "threads are woken and left waiting beside a processor that is idle, by one whose threads leave soon",
        needs: Needs::Hides,
        listed: &[Reach::Kept, Reach::Moved],
    },
    Scenario {
        name: "share",
        about: "a processor hides what it spawns while the other one is busy, and its thread ends when that one is idle",
        needs: Needs::Hides,
        listed: &[Reach::Shared],
    },
    Scenario {
        name: "rescue",
        about: "a processor publishes threads and stands still, and the other one runs threads that yield until these have run",
        needs: Needs::Hides,
        listed: &[Reach::Rescued],
    },
    Scenario {
        name: "borrow",
        about: "a processor hides threads and its thread computes, while a spare exposes what it hides",
        needs: Needs::Hides,
        listed: &[Reach::Published, Reach::Lost, Reach::Refused],
    },
    Scenario {
        name: "takeover",
        about: "a processor's thread blocks and a spare goes on with the processor, until that thread comes back",
        needs: Needs::Hides,
        listed: &[Reach::TakenOver, Reach::Lost, Reach::Refused],
    },
    Scenario {
        name: "return",
        about: "a spare takes a processor over, and the thread that has lost it waits for its turn on its stack",
        needs: Needs::Hides,
        listed: &[Reach::TakenOver, Reach::InTurn],
    },
    Scenario {
        name: "beside",
        about: "a spare takes a processor over, and the thread that has lost it goes on beside the others until it enters",
        needs: Needs::Hides,
        listed: &[Reach::TakenOver, Reach::Missed],
    },
    Scenario {
        name: "leave",
        about: "a spare takes a processor over and sets it free, and the thread that has lost it leaves its stack for others",
        needs: Needs::Hides,
        listed: &[Reach::Left],
    },
    Scenario {
        name: "order",
        about: "one processor is given threads and selects them in the order that the policy promises",
        needs: Needs::Order,
        listed: &[],
    },
    Scenario {
        name: "priority",
        about: "one processor is given threads of several priorities, some of them from outside",
        needs: Needs::Priorities,
        listed: &[Reach::Overtook],
    },
];

/// The scenario of a name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|scenario| scenario.name == name)
}

/// True if the policy keeps threads from others that these are not told of.
fn hides(policy: &dyn Policy<Controlled>) -> bool {
    policy.local(0).hides()
}

impl Scenario {
    /// How many processors it has, where so many are asked for.
    pub(super) fn processors(&self, asked: usize) -> usize {
        if matches!(self.needs, Needs::Order | Needs::Priorities) { 1 } else { asked }
    }

    /// Why there is nothing to try with this policy.
    pub(super) fn fits(
        &self,
        subject: &Subject,
        (processors, _): (usize, usize),
    ) -> Result<Option<&'static str>, String> {
        let policy = (subject.build)(processors, Arc::new(Busy))?;
        Ok(match self.needs {
            Needs::Order if subject.promises.own == Own::None => Some("the policy promises no order"),
            Needs::Priorities if policy.priorities() < 2 => Some("the policy has one priority"),
            Needs::Two | Needs::Shares | Needs::Stops | Needs::Hides if processors < 2 => Some("one processor alone"),
            Needs::Hides if !hides(&*policy) => Some("the policy hides no threads"),
            Needs::Stops if policy.ring() => Some("the policy keeps its processors"),
            Needs::Shares if policy.ring() => Some("the policy has each thread wait for one processor"),
            _ => None,
        })
    }

    /// What its runs must show, of this policy.
    pub(super) fn outcomes(&self, subject: &Subject, processors: usize) -> Vec<Reach> {
        let alone = |reach: &Reach| !matches!(reach, Reach::Moved | Reach::Together);
        let with_others = |reach: &Reach| processors > 1 || alone(reach) && self.outside_calls(*reach);
        // Where all processors select from the same queues, nobody has to be rescued.
        let own_queues = || (subject.build)(processors, Arc::new(Busy)).is_ok_and(|policy| hides(&*policy));
        let there = |reach: &Reach| with_others(reach) && (*reach != Reach::Rescued || own_queues());
        self.listed.iter().copied().filter(there).collect()
    }

    /// True if a single processor can show it: nobody inside can call it.
    fn outside_calls(&self, reach: Reach) -> bool {
        !matches!(reach, Reach::Called | Reach::SawWork) || self.name == "submit"
    }

    pub(super) fn script(&self, processors: usize, threads: usize, priorities: u8) -> Script {
        let last = threads - 1;
        let mut script = Script { acts: vec![Vec::new(); threads], priorities: vec![0; threads], ..Script::default() };
        let spawn_all = || (1..threads).map(Act::Spawn);
        match self.name {
            "spawn" => {
                script.acts = vec![vec![Act::Work]; threads];
                script.acts[0] = spawn_all().chain([Act::Work]).collect();
                script.begin = vec![(0, Cause::Spawned)];
            }
            "wake" => {
                for thread in 0..threads {
                    script.acts[thread].push(Act::Work);
                    let next = if thread == 0 { 1..3 } else { thread + 2..thread + 3 };
                    script.acts[thread].extend(next.filter(|next| *next < threads).map(Act::Wake));
                }
                script.begin = vec![(0, Cause::Woken)];
            }
            "submit" => script.outside = (0..threads).collect(),
            "yield" | "patience" => {
                let yielding = processors.min(last);
                (0..yielding).for_each(|thread| script.acts[thread] = vec![Act::YieldUntil(last)]);
                script.begin = (0..last).map(|thread| (thread, Cause::Spawned)).collect();
                match self.name {
                    "yield" => script.acts[0].insert(0, Act::Spawn(last)),
                    _ => script.outside = vec![last],
                }
            }
            "stop" => {
                script.acts[0] = spawn_all().chain([Act::Stop]).collect();
                script.begin = vec![(0, Cause::Woken)];
            }
            "publish" => {
                script.acts[0] = spawn_all().chain([Act::Publish, Act::Hold]).collect();
                script.begin = vec![(0, Cause::Woken)];
            }
            "busy" => {
                script.acts[0] = spawn_all().chain([Act::Hold]).collect();
                script.begin = vec![(0, Cause::Woken)];
            }
            "gift" => {
                script.acts[0] = vec![Act::Hold];
                script.outside = (0..threads).collect();
            }
            "handoff" => {
                // It yields, so that it is known how soon threads leave; then all is exposed, and nothing known.
                (1..threads).for_each(|thread| script.acts[thread].push(Act::Work));
                let one = |next| [Act::Wake(next), Act::YieldUntil(next)];
                let then = (2..last).flat_map(one).chain([Act::Wake(last)]);
                script.acts[0] = one(1).into_iter().chain([Act::Publish]).chain(then).collect();
                script.begin = vec![(0, Cause::Woken)];
            }
            "share" | "borrow" | "takeover" | "return" | "beside" | "leave" => {
                let works = [Act::Work; 2];
                script.acts[1] = works.to_vec();
                let spawns = (2..threads).map(Act::Spawn);
                script.acts[0] = [Act::Wake(1)].into_iter().chain(works).chain(spawns).chain(works).collect();
                script.begin = vec![(0, Cause::Woken)];
                match self.name {
                    // The first of them to be selected is busy until the others have run the rest.
                    "share" => (2..threads).for_each(|thread| script.acts[thread] = vec![Act::Hold]),
                    "borrow" => script.spare = Some(Spare::Borrows),
                    "return" => script.spare = Some(Spare::Returns),
                    "beside" => script.spare = Some(Spare::Beside),
                    "leave" => script.spare = Some(Spare::Leaves),
                    _ => script.spare = Some(Spare::Carries),
                }
                if script.spare.is_some() {
                    script.acts[0].push(Act::Block);
                }
            }
            "rescue" => {
                script.acts[0] = spawn_all().chain([Act::Publish, Act::Hold]).collect();
                // Some yield until the next one has ended.
                (1..last).take(processors).for_each(|thread| script.acts[thread] = vec![Act::YieldUntil(thread + 1)]);
                script.begin = vec![(0, Cause::Woken)];
            }
            "order" => script.begin = (0..threads).map(|thread| (thread, Cause::Woken)).collect(),
            "priority" => {
                // The lowest first, so that the others have somebody to overtake.
                let levels = usize::from(priorities.max(1));
                script.priorities = (0..threads).map(|thread| (levels - 1 - thread % levels) as u8).collect();
                script.begin = (0..threads / 2).map(|thread| (thread, Cause::Woken)).collect();
                script.outside = (threads / 2..threads).collect();
            }
            other => unreachable!("no script for `{other}`"),
        }
        script
    }
}
