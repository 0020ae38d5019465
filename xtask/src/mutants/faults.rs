//! The faults that `cargo xtask mutants` puts into policies, queues and the idle protocol.

use crate::shell::{Failure, Outcome};

/// One fault: one expression, or some statements, in place of others.
#[derive(Debug)]
pub struct Fault {
    pub name: &'static str,
    /// What is wrong then.
    pub what: &'static str,
    pub file: &'static str,
    /// What stands before it; with `old` it stands there once.
    before: &'static str,
    old: &'static str,
    new: &'static str,
    /// The arguments of the check that must find it.
    pub check: &'static str,
}

impl Fault {
    /// True if what is changed, and what it is changed to, closes each delimiter that it opens, and no other.
    #[cfg(test)]
    pub fn is_whole(&self) -> bool {
        [self.old, self.new].iter().all(|text| {
            [('(', ')'), ('{', '}'), ('[', ']')].iter().all(|(open, close)| {
                let mut depth = 0_i32;
                let steps = text.chars().map(|c| i32::from(c == *open) - i32::from(c == *close));
                steps
                    .map(|step| {
                        depth += step;
                        depth
                    })
                    .all(|depth| depth >= 0)
                    && depth == 0
            })
        })
    }

    /// The text of the file in which fault `number` can be switched on.
    pub fn applied(&self, text: &str, number: usize) -> Outcome<String> {
        let Fault { before, old, new, .. } = self;
        match text.matches(&format!("{before}{old}")).count() {
            1 => {
                let choice = format!("if raddle_machine::fault({number}) {{ {new} }} else {{ {old} }}");
                let choice = if old.ends_with(';') { choice } else { format!("({choice})") };
                Ok(text.replacen(&format!("{before}{old}"), &format!("{before}{choice}"), 1))
            }
            count => {
                Err(Failure::failed(format!("{}: what `{}` changes stands there {count} times", self.file, self.name)))
            }
        }
    }
}

pub(super) const fn fault(
    name: &'static str,
    what: &'static str,
    file: &'static str,
    (before, old, new): (&'static str, &'static str, &'static str),
    check: &'static str,
) -> Fault {
    Fault { name, what, file, before, old, new, check }
}

const IDLE: &str = "crates/scheduler/src/idle.rs";
const DISPATCH: &str = "crates/scheduler/src/dispatch/mod.rs";
const RESCUE: &str = "crates/scheduler/src/dispatch/rescue.rs";
const TAKEOVER: &str = "crates/scheduler/src/takeover.rs";
const TURN: &str = "crates/scheduler/src/turn.rs";
const REST: &str = "crates/scheduler/src/dispatch/rest.rs";
const FIFO: &str = "crates/scheduler/src/policies/fifo.rs";
const STEAL: &str = "crates/scheduler/src/policies/steal.rs";
const PRIORITY: &str = "crates/scheduler/src/policies/priority.rs";
const ROTATOR: &str = "crates/scheduler/src/policies/rotator.rs";

/// All of them. No two change the same words.
pub const FAULTS: &[Fault] = &[
    // The dispatcher.
    fault(
        "dispatch-push-untold",
        "a thread that is spawned is hidden from an idle processor",
        DISPATCH,
        ("cause: Cause) {\n        let tell = ", "pool.idle().hungry()", "false"),
        "steal",
    ),
    fault(
        "dispatch-push-silent",
        "a push tells nobody whom it concerns",
        DISPATCH,
        ("let whom = self.local.push_told(thread, cause, tell);\n            ", "return pool.tell(whom);", "return;"),
        "steal",
    ),
    fault(
        "dispatch-woken-untold",
        "a woken thread is hidden whatever it is worth",
        DISPATCH,
        ("self.push_told(pool, thread, Cause::Woken, ", "!keeps", "false"),
        "steal",
    ),
    fault(
        "dispatch-handoff-lawless",
        "a thread is kept however long it will wait",
        "crates/scheduler/src/govern/handoff.rs",
        ("", "(waiting + self.kept) * self.pace < WAKE_UP_NS", "waiting < WAKE_UP_NS"),
        "steal",
    ),
    fault(
        "dispatch-select-unshared",
        "a processor whose thread leaves shares nothing",
        DISPATCH,
        ("if ", "self.local.hides_unstarted() || !self.handoff.bears(hidden)", "false"),
        "steal",
    ),
    fault(
        "dispatch-expose-hides",
        "what a stuck processor holds stays hidden",
        DISPATCH,
        ("self.handoff.distrust();\n        ", "self.local.expose()", "Notify::Nobody"),
        "steal",
    ),
    fault(
        "dispatch-never-searches",
        "a processor that has nothing does not search",
        DISPATCH,
        ("self.local.next(LOWEST).or_else(|| ", "self.local.search()", "None"),
        "steal",
    ),
    fault(
        "dispatch-drain-nothing",
        "a processor that stops gives back nothing",
        DISPATCH,
        ("", "self.local.drain(out);", ""),
        "steal",
    ),
    fault(
        "dispatch-rescue-nobody",
        "a stalled processor keeps what it offers",
        DISPATCH,
        ("match ", "self.local.relieve(whom)", "None"),
        "steal",
    ),
    fault(
        "dispatch-rescue-loses",
        "what is taken of a stalled processor is put nowhere",
        DISPATCH,
        ("Some(thread) => {\n                ", "self.push(pool, thread, Cause::Submitted);", "thread.into_thread();"),
        "steal",
    ),
    fault(
        "dispatch-rescue-self",
        "a processor looks after itself only",
        RESCUE,
        ("self.whom = ", "next.unwrap_or(me)", "me"),
        "steal",
    ),
    fault(
        "dispatch-rescue-lively",
        "a processor that switches is taken for stalled, and a stalled one is not",
        RESCUE,
        ("self.seen.is_some() && ", "pool.switches(whom) == self.seen", "pool.switches(whom) != self.seen"),
        "steal",
    ),
    fault(
        "dispatch-no-last-look",
        "a processor does not look for work before it sleeps",
        REST,
        ("self.over() || ", "self.local().has_work()", "false"),
        "steal",
    ),
    fault(
        "dispatch-search-endless",
        "a processor that has found work counts as searching",
        REST,
        ("if let Some(next) = processor.dispatcher().find() {\n                ", "idle.found(me);", ""),
        "steal",
    ),
    fault(
        "dispatch-stop-searching",
        "a processor that stops counts as searching",
        REST,
        ("if processor.over() {\n            ", "idle.found(me);", ""),
        "steal",
    ),
    fault(
        "dispatch-share-silent",
        "what is shared where a thread leaves concerns nobody",
        DISPATCH,
        ("let whom = self.local.publish();\n        ", "pool.tell(whom);", "let _ = whom;"),
        "steal",
    ),
    fault(
        "dispatch-expose-trusts",
        "a processor that was exposed goes on hiding as before",
        DISPATCH,
        ("pub fn expose(&mut self) -> Notify {\n        ", "self.handoff.distrust();", ""),
        "steal",
    ),
    fault(
        "dispatch-take-inside",
        "a processor is taken from an owner that is inside",
        TAKEOVER,
        ("if ", "mark.0.load(Ordering::Acquire) == 0", "true"),
        "steal",
    ),
    fault(
        "dispatch-take-retracted",
        "a processor counts as taken although its owner has retracted",
        TAKEOVER,
        ("Err(_) => ", "Take::Lost", "Take::Taken"),
        "steal",
    ),
    fault(
        "dispatch-enter-lost",
        "an owner enters although a spare has its processor",
        TAKEOVER,
        ("if ", "owner_in(owner) != me", "false"),
        "steal",
    ),
    fault(
        "dispatch-enter-unseen",
        "an owner that enters does not look whether it still is one",
        TAKEOVER,
        ("if ", "self.0.load(Ordering::Acquire) == pack(me, 0)", "true"),
        "steal",
    ),
    fault(
        "dispatch-mark-relaxed",
        "an owner leaves its mark without a release",
        TAKEOVER,
        ("self.0.store(0, ", "Ordering::Release", "Ordering::Relaxed"),
        "steal",
    ),
    fault(
        "dispatch-release-keeps",
        "a processor that is set free stays its owner's",
        TAKEOVER,
        ("compare_exchange(owner, ", "pack(0, 0)", "pack(me, 0)"),
        "steal",
    ),
    fault(
        "dispatch-adopt-held",
        "a processor is adopted that is not free",
        TAKEOVER,
        ("let won = self.0.compare_exchange(", "pack(0, 0)", "self.0.load(Ordering::Relaxed)"),
        "steal",
    ),
    fault(
        "dispatch-pass-away",
        "a processor that is passed on is nobody's",
        TAKEOVER,
        ("compare_exchange(owner, ", "pack(to, 0)", "pack(0, 0)"),
        "steal",
    ),
    fault(
        "dispatch-turn-silent",
        "a thread that has come back is not submitted",
        TURN,
        ("self.word.store(QUEUED, Ordering::Release);\n                ", "true", "false"),
        "steal",
    ),
    fault(
        "dispatch-turn-asleep",
        "an activation that is given a processor is not woken",
        TURN,
        ("self.word.swap(GIVEN, Ordering::Release);\n        ", "M::wake(&self.word, 1);", ""),
        "steal",
    ),
    fault(
        "dispatch-turn-untold",
        "an activation that has missed its turn is not told",
        TURN,
        ("", "turn.word.swap(MISSED, Ordering::Release);", ""),
        "steal",
    ),
    fault(
        "dispatch-turn-on",
        "a thread that has left its stack is held to be on it",
        TURN,
        ("", "thread.leave();", ""),
        "steal",
    ),
    // Wake-ups.
    fault(
        "notify-silent",
        "who makes work takeable wakes nobody",
        IDLE,
        ("if word != 0 && word >> SEARCHING_SHIFT == 0 {\n                ", "self.notify_slow();", ""),
        "fifo",
    ),
    fault(
        "no-second-look",
        "the last searcher sleeps without looking again",
        IDLE,
        ("if ", "look() && self.leave_set(me)", "false"),
        "fifo",
    ),
    fault(
        "wrong-last",
        "the last searcher does not know that it is the last",
        IDLE,
        ("if directed || ", "before >> SEARCHING_SHIFT == 1", "before >> SEARCHING_SHIFT == 0"),
        "steal",
    ),
    fault("bell-unrung", "the bell is changed and nobody woken", IDLE, ("", "M::wake(bell, 1);", ""), "fifo"),
    fault(
        "bell-after-bit",
        "a sleeper reads its bell after it has looked at its bit",
        IDLE,
        ("if block(bell, ", "rung", "bell.load(Ordering::Relaxed)"),
        "fifo",
    ),
    fault(
        "uncounted-call",
        "who is called does not count as searching",
        IDLE,
        ("let new = ", "(word & !bit) + SEARCHING_ONE", "word & !bit"),
        "fifo",
    ),
    fault(
        "found-silent",
        "the last searcher that finds something wakes no other",
        IDLE,
        ("Ordering::AcqRel);\n        if ", "word >> SEARCHING_SHIFT == 1", "false"),
        "'fifo' --processors 3",
    ),
    fault(
        "fifo-push-silent",
        "a push concerns nobody",
        FIFO,
        ("            self.shared.inbox.push(thread);\n        }\n        ", "Notify::Anyone", "Notify::Nobody"),
        "fifo",
    ),
    fault(
        "fifo-submit-silent",
        "a thread from outside concerns nobody",
        FIFO,
        ("        self.0.inbox.push(thread);\n        ", "Notify::Anyone", "Notify::Nobody"),
        "fifo",
    ),
    fault(
        "fifo-inbox-silent",
        "who empties the inbox for all tells nobody",
        FIFO,
        ("if ", "moved > 1", "false"),
        "fifo",
    ),
    fault(
        "fifo-inbox-unseen",
        "before it sleeps a processor does not look for threads from outside",
        FIFO,
        ("!self.end.is_empty() || ", "!self.shared.inbox.is_empty()", "false"),
        "fifo",
    ),
    fault(
        "steal-inbox-unseen",
        "the same under `steal`",
        STEAL,
        ("fn offers(&self) -> bool {\n        ", "!self.inbox.is_empty()", "false"),
        "steal",
    ),
    fault(
        "clustered-inbox-unseen",
        "the same under `clustered`",
        "crates/scheduler/src/policies/clustered.rs",
        ("self.home.has_work() || ", "self.shared.offers()", "false"),
        "'clustered(1, steal)'",
    ),
    fault(
        "apart-new-unseen",
        "before it sleeps a processor does not look for threads that have not started",
        "crates/scheduler/src/policies/apart.rs",
        ("self.started.has_work() || ", "self.new.has_work()", "false"),
        "'apart(fifo, fifo)'",
    ),
    fault(
        "apart-new-unsearched",
        "nobody fetches threads that have not started from others",
        "crates/scheduler/src/policies/apart.rs",
        ("self.started.search().or_else(|| ", "self.new.search()", "None"),
        "'apart(steal, steal)'",
    ),
    fault(
        "rotator-push-silent",
        "the neighbour is not told of what is passed on to it",
        ROTATOR,
        ("self.keeper.settle(thread) { ", "Notify::Processor(self.keeper.forward)", "Notify::Nobody"),
        "rotator --processors 3",
    ),
    fault(
        "rotator-pass-silent",
        "nor of what is passed on at a selection",
        ROTATOR,
        ("", "keeper.shared.others.wake(Notify::Processor(keeper.forward));", ""),
        "rotator --processors 3 --threads 6",
    ),
    // Order.
    fault(
        "priority-wrong-level",
        "a push puts each thread into the highest level",
        PRIORITY,
        ("let level = level_of(&thread, self.levels.len());\n        self.levels[", "level", "0"),
        "'priority(2, fifo)'",
    ),
    fault(
        "priority-submit-high",
        "so does a submission",
        PRIORITY,
        ("self.levels[", "level_of(&thread, self.levels.len())", "0"),
        "'priority(2, fifo)'",
    ),
    fault(
        "priority-mixed-up",
        "a thread of the highest priority is taken for one of the lowest",
        PRIORITY,
        ("    ", "usize::from(thread.priority()).min(levels - 1)", "(usize::from(thread.priority()) + 1) % levels"),
        "'priority(2, steal)'",
    ),
    fault(
        "priority-search-silent",
        "who looks elsewhere within a selection tells nobody of what it brought",
        PRIORITY,
        ("        ", "others.wake(Notify::Anyone);", ""),
        "'priority(1, steal)' --processors 4 --threads 9 --scenario gift",
    ),
    fault(
        "lifo-oldest",
        "the oldest is selected where the newest is promised",
        STEAL,
        ("if NEWEST && let Some(thread) = ", "self.pop_newest()", "self.lifo.pop_oldest()"),
        "lifo",
    ),
    fault(
        "rotator-newest",
        "a thread that yields is selected at once again",
        ROTATOR,
        ("let thread = ", "self.keeper.protect.pop_front()?", "self.keeper.protect.pop_back()?"),
        "rotator",
    ),
    fault(
        "hybrid-yields-mixed",
        "threads that yield are put among the newest",
        "crates/scheduler/src/policies/hybrid.rs",
        ("(Cause::Yielded, _) => ", "self.yielded.push_back(thread)", "self.threads.push_back(thread)"),
        "'reverse(100000)'",
    ),
    // Threads lost, and run twice.
    fault(
        "overflow-forgotten",
        "a thread that finds its queue full is forgotten",
        "crates/scheduler/src/policies/local.rs",
        ("Some(thread) => ", "self.common.push(thread)", "std::mem::forget(thread)"),
        "'local(capacity=2)'",
    ),
    fault(
        "drain-incomplete",
        "a processor that stops keeps its threads that have not started",
        STEAL,
        (".or_else(|| self.fifo.pop()).or_else(|| ", "self.lifo.pop()", "None"),
        "steal",
    ),
    fault(
        "inbox-in-two-steps",
        "the inbox is read and emptied in two steps",
        "crates/queues/src/inbox.rs",
        (
            "let mut young = ",
            "self.top.swap(null_mut(), Ordering::Acquire)",
            "let top = self.top.load(Ordering::Acquire); self.top.store(null_mut(), Ordering::Release); top",
        ),
        "fifo",
    ),
    fault(
        "fifo-ring-unclaimed",
        "a thief of a first-in first-out ring stores the head instead of exchanging it",
        "crates/queues/src/fifo_ring.rs",
        (
            "",
            "self.head.compare_exchange(head, head + n, Ordering::Release, Ordering::Relaxed).is_ok()",
            "self.head.store(head + n, Ordering::Release); true",
        ),
        "'steal(fifo)' --threads 6",
    ),
    fault(
        "lifo-ring-unclaimed",
        "a thief of a last-in first-out ring stores the head instead of exchanging it",
        "crates/queues/src/lifo_ring.rs",
        (
            "",
            "self.head.compare_exchange(head.word(), head.taken(n).word(), Ordering::Release, Ordering::Relaxed).is_ok()",
            "self.head.store(head.taken(n).word(), Ordering::Release); true",
        ),
        "lifo --threads 6",
    ),
    fault(
        "lifo-ring-untagged",
        "the owner takes threads back without a new tag",
        "crates/queues/src/lifo_ring.rs",
        ("                ", "head.reclaimed().word()", "head.word()"),
        "lifo --threads 6",
    ),
    fault(
        "lifo-ring-not-lowered",
        "the owner takes threads back before it says so",
        "crates/queues/src/lifo_ring.rs",
        ("Store-buffer models cannot show it.)\n            ", "self.ring.split.store(split, Ordering::Release);", ""),
        "lifo --threads 6",
    ),
    // Orderings.
    fault(
        "inbox-push-relaxed",
        "a thread is put into the inbox without a release",
        "crates/queues/src/inbox.rs",
        ("compare_exchange_weak(top, item.as_ptr(), ", "Ordering::Release", "Ordering::Relaxed"),
        "fifo",
    ),
    fault(
        "inbox-take-relaxed",
        "the inbox is taken without an acquire",
        "crates/queues/src/inbox.rs",
        ("swap(null_mut(), ", "Ordering::Acquire", "Ordering::Relaxed"),
        "waiver",
    ),
    fault(
        "spsc-push-relaxed",
        "the tail of a Waiver queue is stored without a release",
        "crates/queues/src/spsc.rs",
        ("self.shared.tail.store(self.tail, ", "Ordering::Release", "Ordering::Relaxed"),
        "rotator",
    ),
    fault(
        "spsc-take-relaxed",
        "and loaded without an acquire",
        "crates/queues/src/spsc.rs",
        ("self.shared.tail.load(", "Ordering::Acquire", "Ordering::Relaxed"),
        "rotator",
    ),
    fault(
        "unlock-relaxed",
        "a lock is given up without a release",
        "crates/queues/src/locked.rs",
        ("self.0.swap(0, ", "Ordering::Release", "Ordering::Relaxed"),
        "'alternate(1)'",
    ),
    fault(
        "lock-relaxed",
        "and taken without an acquire",
        "crates/queues/src/locked.rs",
        ("compare_exchange(0, 1, ", "Ordering::Acquire", "Ordering::Relaxed"),
        "'alternate(1)'",
    ),
    fault(
        "fifo-tail-relaxed",
        "the tail of a first-in first-out ring is stored without a release",
        "crates/queues/src/fifo_ring.rs",
        ("self.ring.tail.store(tail, ", "Ordering::Release", "Ordering::Relaxed"),
        "'local(capacity=128)'",
    ),
    fault(
        "lifo-split-relaxed",
        "what is published of a last-in first-out ring is so without a release",
        "crates/queues/src/lifo_ring.rs",
        (
            "Makes visible: slots, items, array.\n        self.ring.split.store(split, ",
            "Ordering::Release",
            "Ordering::Relaxed",
        ),
        "lifo",
    ),
];
