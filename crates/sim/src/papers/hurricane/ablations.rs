//! What is changed where a claim does not hold, one thing each, to see whether that is to blame.

use super::super::{Ablation, Changes};
use super::LONG;
use crate::cost::Costs;
use crate::hurricane::faults::Faults;
use crate::hurricane::locks::{Contention, Kind};

/// An access takes its station's bus, and across the ring the other station's and the ring, until it ends.
const PATHS: &str = "buses and a ring that an access takes from its beginning to its end";
const WITH_PATHS: Changes = Changes { costs: |costs| Costs { paths: 1.0, ..costs }, ..Changes::NONE };

/// 0.25 ms, in spin hints.
const SHORTER_HINTS: u32 = 500;

const fn ablation(claim: &'static str, change: &'static str, changes: Changes) -> Ablation {
    Ablation { claim, change, changes }
}

/// The long cap, shorter.
fn shorter(asked: Contention) -> Contention {
    let kind = if asked.kind == LONG { Kind::Spin { first: 1, cap: SHORTER_HINTS } } else { asked.kind };
    Contention { kind, ..asked }
}

pub const ABLATIONS: [Ablation; 7] = [
    ablation(
        "with compare-and-swap the difference would be significantly lower, but not gone",
        "processors that wait for the whole of a swap",
        Changes { costs: |costs| Costs { posted: 0.0, ..costs }, ..Changes::NONE },
    ),
    ablation("spin locks with a cap of 35 µs are worse than distributed locks", PATHS, WITH_PATHS),
    ablation(
        "but starve: over 13 % of the acquisitions took longer than 2 ms",
        "pauses of 0.25 ms at most",
        Changes { contention: shorter, ..Changes::NONE },
    ),
    ablation("with 16, over twice as long", PATHS, WITH_PATHS),
    ablation("with faults on shared pages the difference is much smaller, and there is some", PATHS, WITH_PATHS),
    ablation(
        "smaller clusters are better for independent faults, and with 4 or less nothing degrades under contention",
        "a fault that visits the table of page descriptors twice, to reserve one and to give it up",
        Changes { faults: |asked| Faults { often: false, ..asked }, ..Changes::NONE },
    ),
    ablation(
        "retries are rarely required",
        "processes that begin with different pages, and compute up to 2 ms before each fault",
        Changes { faults: |asked| Faults { apart: 2_000_000, ..asked }, ..Changes::NONE },
    ),
];
