//! How far the fitted model meets the probes.
#![forbid(unsafe_code)]

use super::of_threads::{JOINING, LOCKING, PAIRING, PASSING, STARTING, run_alone, spawns, yields};
use super::{Measured, alone, exchanges, fences, queue, stores, two};
use crate::cost::Costs;
use crate::machine::Controlled;

/// Of these three share one figure, the step, and the others another one, a thread's beginning: some are dearer here,
/// some cheaper.
pub(super) const OF_SEVERAL: [&str; 6] =
    ["push and pop", "send and receive", "lock and unlock", "spawn, yield", "spawn in pairs", "spawn and join"];

/// A probe that takes so many times as long on one side as on the other is not met.
const FAR: f64 = 1.5;

/// What each probe took on the host, and takes on the simulated machine: name, measured, simulated.
pub type Probe = (&'static str, f64, f64);

/// The probes that costs are fitted by. Where the two times differ, the cost that stands for the probe would have to be
/// negative: the model charges more for what surrounds it.
///
/// # Errors
/// As for [`super::fit`].
pub fn probes(costs: &Costs, measured: &Measured) -> Result<Vec<Probe>, String> {
    Ok(vec![
        ("push and pop", measured.queue, alone(costs, queue::<Controlled>)?),
        ("send and receive", measured.threads.passing, run_alone(costs, &PASSING, "")?),
        ("lock and unlock", measured.threads.locking, run_alone(costs, &LOCKING, "")?),
        ("exchange", measured.exchange, alone(costs, exchanges::<Controlled>)?),
        ("store, exchange", measured.stores, alone(costs, stores::<Controlled>)?),
        ("store and fence", measured.fence, alone(costs, fences::<Controlled>)?),
        ("round trip", measured.round_trip, two(costs)?),
        ("yield", measured.threads.yielding, yields(costs)?),
        ("spawn", measured.threads.spawning, spawns(costs)?),
        ("spawn, yield", measured.threads.starting, run_alone(costs, &STARTING, "")?),
        ("spawn in pairs", measured.threads.pairing, run_alone(costs, &PAIRING, "")?),
        ("spawn and join", measured.threads.joining, run_alone(costs, &JOINING, "")?),
    ])
}

/// What to tell of probes that the model does not meet; nothing if it meets all that have a figure of their own.
pub fn warning(probes: &[Probe]) -> Option<String> {
    let met = |measured: f64, simulated: f64| measured <= FAR * simulated && simulated <= FAR * measured;
    let unmet =
        probes.iter().filter(|(name, measured, simulated)| !OF_SEVERAL.contains(name) && !met(*measured, *simulated));
    let unmet: Vec<String> = unmet
        .map(|(name, measured, simulated)| format!("{name} ({measured:.1} ns measured, {simulated:.1} simulated)"))
        .collect();
    (!unmet.is_empty()).then(|| {
        format!(
            "the model does not meet what was measured: {}; what is simulated with these costs will be off: try again on a machine that does less beside",
            unmet.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_off_is_named_unless_its_figure_stands_for_several() {
        let met =
            [("exchange", 6.0, 8.9), ("yield", 60.0, 41.0), ("push and pop", 1.0, 9.0), ("spawn in pairs", 90.0, 9.0)];
        assert_eq!(warning(&met), None);
        let unmet =
            [("exchange", 6.0, 9.1), ("yield", 60.0, 39.0), ("spawn", 60.0, 59.0), ("store and fence", 5.0, f64::NAN)];
        let told = warning(&unmet).unwrap();
        for name in
            ["exchange (6.0 ns measured, 9.1 simulated)", "yield (", "store and fence (", "a machine that does less"]
        {
            assert!(told.contains(name), "{told}");
        }
        assert!(!told.contains("spawn"), "{told}");
    }
}
