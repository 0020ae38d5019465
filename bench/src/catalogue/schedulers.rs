//! The workloads of the schedulers report: packets, option prices, a mixer of conferences.

use super::{Args, Unit, Workload, nanos};
use crate::bodies::shared::Hall;
use crate::bodies::{expected_of_options, expected_of_packets, expected_of_staged};

const PACKETS: &[(&str, &str)] = &[("N", "50k"), ("spawners", "1"), ("work", "0"), ("gap", "0")];

fn packets_slow(args: &Args) -> f64 {
    nanos(args, &["N"], 1e4) + nanos(args, &["N", "work"], 1.0) + nanos(args, &["N", "gap"], 1.0)
}

/// In the order of the report.
pub(super) static WORKLOADS: &[Workload] = &[
    Workload {
        name: "packet",
        about: "spawners copy N packets of 2 to 3 KB, a thread for each counts its newlines, works so many ns, and frees it",
        unit: Unit::Each("packet"),
        defaults: PACKETS,
        cases: &["50k", "10M", "50k:work=500", "50k:spawners=2", "50k:spawners=4"],
        also_on_one: false,
        expected: |a| expected_of_packets("packet", a),
        slow: packets_slow,
    },
    Workload {
        name: "packet-copy",
        about: "as packet, but the thread copies its packet, not the spawner",
        unit: Unit::Each("packet"),
        defaults: PACKETS,
        cases: &["50k"],
        also_on_one: false,
        expected: |a| expected_of_packets("packet-copy", a),
        slow: packets_slow,
    },
    Workload {
        name: "packet-cache",
        about: "as packet, and each reads a random 64 KiB of a state of 32 MiB",
        unit: Unit::Each("packet"),
        defaults: PACKETS,
        cases: &["50k"],
        also_on_one: false,
        expected: |a| expected_of_packets("packet-cache", a),
        slow: |a| packets_slow(a) + nanos(a, &["N"], 5e4),
    },
    Workload {
        name: "packet-bimodal",
        about: "as packet, 99 of 100 work 1 µs, one 500 µs, with low=1 of the lowest priority; latencies of the short",
        unit: Unit::Each("packet"),
        defaults: &[("N", "50k"), ("spawners", "1"), ("work", "0"), ("gap", "0"), ("low", "0")],
        cases: &["50k", "50k:gap=5000"],
        also_on_one: false,
        expected: |a| expected_of_packets("packet-bimodal", a),
        slow: |a| packets_slow(a) + nanos(a, &["N"], 1e4),
    },
    Workload {
        name: "options",
        about: "an American put in n steps, a thread for each block of B x B, which awaits its two predecessors' promises",
        unit: Unit::Run,
        defaults: &[("n", "8192"), ("B", "128"), ("by", "spawn")],
        cases: &["by=spawn", "by=sequential"],
        also_on_one: false,
        expected: expected_of_options,
        slow: |a| nanos(a, &["n", "n"], 20.0),
    },
    Workload {
        name: "mixer",
        about: "C conferences of P legs, a thread for each and for each leg: decode a frame, sum up the others, encode; F frames a leg",
        unit: Unit::Each("frame"),
        defaults: MIXER,
        cases: &["by=promise", "by=yield", "by=promise:pace_us=20000", "by=yield:pace_us=20000"],
        also_on_one: false,
        expected: |a| Hall::new(a).ok().map(|hall| hall.expected()),
        slow: |a| nanos(a, &["C", "P", "F"], 1e5) + nanos(a, &["F", "pace_us"], 1e3),
    },
    Workload {
        name: "mixer-load",
        about: "the mixer with a frame every pace_us: how many conferences keep p99 under 20 ms, beginning with C",
        unit: Unit::Each("frame at the largest load"),
        defaults: &[("C", "1000"), ("P", "2"), ("F", "50"), ("by", "promise"), ("pace_us", "20000")],
        cases: &["by=promise", "by=yield"],
        also_on_one: false,
        expected: |_| Some(1),
        slow: |a| nanos(a, &["F", "pace_us"], 5e4),
    },
    Workload {
        name: "staged",
        about: "a request each gap ns, of two parts, a thread each: in one pool, or refused where a stage has no place",
        unit: Unit::Each("accepted request"),
        defaults: &[
            ("N", "50k"),
            ("gap", "10000"),
            ("by", "stages"),
            ("first", "10000"),
            ("second", "10000"),
            ("places", "256"),
        ],
        cases: &[
            "gap=20000:by=pool",
            "gap=20000:by=bounded",
            "gap=20000:by=stages",
            "gap=5000:by=pool",
            "gap=5000:by=bounded",
            "gap=5000:by=stages",
        ],
        also_on_one: false,
        expected: expected_of_staged,
        slow: |a| nanos(a, &["N", "gap"], 1.0) + nanos(a, &["N"], 5e4),
    },
];

const MIXER: &[(&str, &str)] = &[("C", "1000"), ("P", "2"), ("F", "100"), ("by", "promise"), ("pace_us", "0")];
