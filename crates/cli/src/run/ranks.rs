//! How many cores a rank of MPI's is to use when nobody has said it.
//!
//! `mpirun` may leave all ranks of a machine free to run on all of its cores (MPICH does, Open MPI where there are more
//! ranks than cores). Then each would have as many processors as the machine has cores, and these wait for each other
//! while the kernel runs other ranks'. So each gets its share.
//!
//! Seen on two virtual cores of an Intel Xeon with other load beside, 2026-11-28, MPICH 4.0.2: five ranks of five
//! threads that exchange messages of up to 64 KB and meet at a barrier, as in its test `multisend4`, took 7.3 to 15.6 s
//! with two processors a rank, 0.7 to 1.0 s with one (three runs each, in turns), natively 1.9 to 2.0. The stencil of
//! two ranks with sixteen tiles: 452 to 897 and 377 to 641 µs a step, Open MPI's 1,151 to 2,387 and 529 to 609.

/// Where launchers say how many ranks of the program are on this machine: MPICH's and its relatives', Open MPI's,
/// MVAPICH's.
const RANKS_HERE: [&str; 3] = ["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"];
/// What Slurm's `srun` says: how many ranks of this start each machine has, and which of them this is. `sbatch` says
/// the same of the whole job by other names, also to a script that starts one program.
const RANKS_OF_MACHINES: &str = "SLURM_STEP_TASKS_PER_NODE";
const MACHINE: &str = "SLURM_NODEID";

/// The processors of this rank, if it is to have fewer than the cores that it may use.
pub(super) fn processors() -> Option<usize> {
    if std::env::var_os("RADDLE_PROCESSORS").is_some_and(|value| !value.is_empty()) {
        return None;
    }
    share(
        ranks_here(|name| std::env::var(name).ok())?,
        rustix::thread::sched_getaffinity(None).ok()?.count() as usize,
        online(),
    )
}

fn ranks_here(variable: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let here = RANKS_HERE.iter().find_map(|name| variable(name)?.parse().ok());
    here.or_else(|| nth_of(&variable(RANKS_OF_MACHINES)?, variable(MACHINE)?.parse().ok()?))
}

/// The number that a list such as `2(x3),1` has at a place.
fn nth_of(list: &str, place: usize) -> Option<usize> {
    let mut left = place;
    for item in list.split(',') {
        let (number, times) = match item.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (item, 1),
        };
        if left < times {
            return number.parse().ok();
        }
        left -= times;
    }
    None
}

/// Cores of the machine.
fn online() -> usize {
    std::fs::read_to_string("/sys/devices/system/cpu/online").ok().and_then(|list| count(&list)).unwrap_or(0)
}

/// How many a list such as `0-3,6` names.
fn count(list: &str) -> Option<usize> {
    list.trim().split(',').try_fold(0usize, |count, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(count + last.checked_sub(first)? + 1)
    })
}

/// A rank that may not use all cores of the machine is bound to its own, and has those.
fn share(ranks: usize, usable: usize, online: usize) -> Option<usize> {
    (ranks > 1 && usable == online).then(|| (usable / ranks).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_are_not_bound_share_the_cores() {
        assert_eq!(share(5, 2, 2), Some(1));
        assert_eq!(share(2, 2, 2), Some(1));
        assert_eq!(share(3, 16, 16), Some(5));
        assert_eq!(share(1, 16, 16), None);
        assert_eq!(share(4, 4, 16), None);
        assert_eq!(share(4, 4, 0), None);
    }

    #[test]
    fn launchers_tell_how_many_ranks_are_here() {
        let here = |set: &[(&str, &str)]| {
            ranks_here(|name| set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string()))
        };
        assert_eq!(here(&[("MPI_LOCALNRANKS", "5")]), Some(5));
        assert_eq!(here(&[("OMPI_COMM_WORLD_LOCAL_SIZE", "3")]), Some(3));
        assert_eq!(here(&[("MV2_COMM_WORLD_LOCAL_SIZE", "4")]), Some(4));
        let slurm = |node| here(&[("SLURM_STEP_TASKS_PER_NODE", "2(x3),7"), ("SLURM_NODEID", node)]);
        assert_eq!(["0", "2", "3", "4", "x"].map(slurm), [Some(2), Some(2), Some(7), None, None]);
        // An `mpirun` within a job of Slurm's says it of its own ranks.
        let both = [("SLURM_STEP_TASKS_PER_NODE", "1"), ("SLURM_NODEID", "0"), ("MPI_LOCALNRANKS", "8")];
        assert_eq!(here(&both), Some(8));
        assert_eq!(here(&[("SLURM_STEP_TASKS_PER_NODE", "2(x3"), ("SLURM_NODEID", "0")]), None);
        assert_eq!(here(&[("SLURM_NTASKS_PER_NODE", "8"), ("SLURM_NODEID", "0")]), None);
        assert_eq!(here(&[]), None);
    }

    #[test]
    fn a_list_of_cores_is_counted() {
        assert_eq!(["0", "0-1\n", "0-3,6", "1,3,8-11"].map(count), [Some(1), Some(2), Some(5), Some(6)]);
        assert_eq!(["", "x", "3-1"].map(count), [None; 3]);
    }
}
