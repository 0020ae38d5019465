//! Claims about what the paper's locks and clusters are used for beyond page faults, and about what they replace.

use super::super::Claim;
use super::{
    Asked, Contention, HOLD, Kind, Load, Table, alone, clustered, clustered_by_size, contend, record, text, time,
};
use crate::cost::Costs;
use crate::records::notes;
use raddle_queues::slab::TOGETHER;

pub(super) const ADAPTIVE: Claim = Claim {
    figure: "3.1",
    says: "with the two changes no lock is needed that first spins and then queues",
    rule: "H2 at most 3 % slower than one alone, and at most 5 % slower with 16 processors, held for 25 µs; with 4 tries (with 16, whose newcomers overtake more, it was 7 %)",
    judge: |machine, size| {
        let of = |kind| {
            let asked =
                Contention { kind, processors: 16, time: time(HOLD, size), hold: HOLD, ..Contention::default() };
            Ok::<_, String>(contend(&machine.costs()?, &asked)?.mean / 1e3)
        };
        let (h2, spins) = (alone(machine, Kind::H2)?, alone(machine, Kind::SpinThenQueue)?);
        let (many, spin_many) = (of(Kind::H2)?, of(Kind::SpinThenQueue)?);
        let seen = format!("alone {h2:.2} and {spins:.2} µs, with 16 {many:.0} and {spin_many:.0}");
        Ok((h2 <= 1.03 * spins && many <= 1.05 * spin_many, seen))
    },
    why: None,
};

pub(super) const MESSAGES: Claim = Claim {
    figure: "4.2",
    says: "message passing, the library's clusters: as with shared faults, moderate ones are best",
    rule: "16 processes in programs of 4: the best size is 2, 4 or 8, and both ends are at least 5 % slower",
    judge: |machine, size| {
        let points = clustered_by_size(machine, Load::Messages, size)?;
        let middle = points[1..4].iter().map(|point| point.1).fold(f64::MAX, f64::min);
        Ok((points[0].1 > 1.05 * middle && points[4].1 > 1.05 * middle, text(&points)))
    },
    why: None,
};

pub(super) const FILES: Claim = Claim {
    figure: "5.1",
    says: "a file server, the library's clusters: it benefits from them, too",
    rule: "16 processors: at least 5 % quicker in clusters of 4 than in one of 16",
    judge: |machine, size| {
        let points = clustered_by_size(machine, Load::Files, size)?;
        Ok((1.05 * points[2].1 <= points[4].1, text(&points)))
    },
    why: None,
};

pub(super) const APART: Claim = Claim {
    figure: "2.5",
    says: "two structures with different locking in one entity: the family tree apart from messages would have avoided retries",
    rule: "16 processors in clusters of 4 that end programs and send messages: at least a tenth fewer retries for a request, and quicker",
    judge: |machine, size| {
        let of = |load| {
            let seen = clustered(machine, Asked { load, ..Asked::default() }, size)?;
            Ok::<_, String>((seen.stats.retries as f64 / seen.requests as f64, seen.mean / 1e3))
        };
        let ((together, slow), (apart, quick)) = (of(Load::Together)?, of(Load::Apart)?);
        let seen = format!("{apart:.2} retries and {quick:.0} µs; in one record {together:.2} and {slow:.0}");
        Ok((apart <= 0.9 * together && quick < slow, seen))
    },
    why: None,
};

pub(super) const DEPOTS: Claim = Claim {
    figure: "5.2",
    says: "our own tables of threads: a depot for each cluster of processors pays",
    rule: "128 cores of an EPYC, as above: a record at least 1.5 times as quick as with one depot for all; so is a C thread's, which is had without an instance",
    judge: |_, size| {
        // Who asks for so many in one cluster asks for one depot.
        let all = usize::MAX;
        let (one, clusters) = (record(Table::Instances, size)?, record(Table::Clusters(TOGETHER), size)?);
        let (c_one, c_clusters) = (record(Table::Singly(all), size)?, record(Table::Singly(TOGETHER), size)?);
        let seen = format!(
            "clusters of {TOGETHER}: {:.1} µs for a record, with one depot {:.1}; a C thread's {:.0}, with one depot {:.0}",
            clusters / 1e3,
            one / 1e3,
            c_clusters / 1e3,
            c_one / 1e3
        );
        Ok((one >= 1.5 * clusters && c_one >= 1.5 * c_clusters, seen))
    },
    why: None,
};

pub(super) const NOTES: Claim = Claim {
    figure: "5.2",
    says: "our own statistics and timers: a count and a heap for each processor pay",
    rule: "128 cores of an EPYC, each with an event and a timer a microsecond: a turn at least 1.5 times as quick as with one of each for all",
    judge: |_, size| {
        let costs = Costs::preset("epyc").ok_or("the preset is gone")?;
        let turn = |one| notes(&costs, one, costs.cores, size.of(40, 6));
        let (one, own) = (turn(true)?, turn(false)?);
        Ok((one >= 1.5 * own, format!("{:.1} µs, with one of each for all {:.0}", own / 1e3, one / 1e3)))
    },
    why: None,
};
