//! Which processors belong together, as the machine tells, or as one asks.
//!
//! # Example
//! ```
//! use raddle::lock::{Clusters, Grouping, Topology};
//! let topology = Topology::new(Grouping::Size(1));
//! assert!(topology.count() >= 1 && topology.members(0) == 1);
//! assert!(topology.here().cluster < topology.count());
//! assert!("l3".parse() == Ok(Grouping::Cache(3)) && "oops".parse::<Grouping>().is_err());
//! ```

use raddle_scheduler::lock::{Clusters, OwnCluster, Seat};
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

/// What makes processors a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grouping {
    /// They are hardware threads of one core.
    Core,
    /// They share a cache of this level.
    Cache(u8),
    /// They share the last cache that any two share.
    #[default]
    LastCache,
    /// They are near one part of the memory.
    Numa,
    /// They are in one package.
    Package,
    /// So many in the order of their numbers.
    Size(usize),
    /// All are together.
    One,
}

impl FromStr for Grouping {
    type Err = String;

    /// `core`, `l2` (or another level), `cache`, `numa`, `package`, `one`, or how many.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim().to_ascii_lowercase();
        let level = |level: &str| level.parse().ok().filter(|level| (1..=9).contains(level));
        match text.as_str() {
            "core" => Ok(Self::Core),
            "cache" => Ok(Self::LastCache),
            "numa" => Ok(Self::Numa),
            "package" => Ok(Self::Package),
            "one" => Ok(Self::One),
            other => match (other.parse(), other.strip_prefix('l').and_then(level)) {
                (Ok(size), _) if size > 0 => Ok(Self::Size(size)),
                (_, Some(level)) => Ok(Self::Cache(level)),
                _ => Err(format!(
                    "{text:?}: clusters are `core`, `l2`, `l3`, `cache`, `numa`, `package`, `one` or a number"
                )),
            },
        }
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Core => f.write_str("core"),
            Self::Cache(level) => write!(f, "l{level}"),
            Self::LastCache => f.write_str("cache"),
            Self::Numa => f.write_str("numa"),
            Self::Package => f.write_str("package"),
            Self::Size(size) => write!(f, "{size}"),
            Self::One => f.write_str("one"),
        }
    }
}

/// The processors of this machine in clusters.
#[derive(Debug, PartialEq, Eq)]
pub struct Topology {
    /// The numbers of each cluster's processors.
    clusters: Vec<Vec<usize>>,
    /// By a processor's number.
    seats: Vec<Option<Seat>>,
}

const ROOT: &str = "/sys/devices/system";

impl Topology {
    /// The machine's, grouped so. What the machine does not tell puts all that it says nothing of into one cluster.
    pub fn new(grouping: Grouping) -> Self {
        Self::read(Path::new(ROOT), grouping)
    }

    /// The machine's, as the environment variable `RADDLE_CLUSTERS` asks, or by the last cache; read once.
    ///
    /// # Panics
    /// If the variable has something else than [`Grouping`]'s words.
    pub fn machine() -> Arc<Self> {
        Self::shared().clone()
    }

    /// As [`Topology::machine`], for who would rather say what is wrong than panic.
    ///
    /// # Errors
    /// The variable has something else than [`Grouping`]'s words: its name, what it has, and what it may have.
    pub fn try_machine() -> Result<Arc<Self>, String> {
        Self::asked().clone()
    }

    fn shared() -> &'static Arc<Self> {
        Self::asked().as_ref().unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    fn asked() -> &'static Result<Arc<Self>, String> {
        static MACHINE: OnceLock<Result<Arc<Topology>, String>> = OnceLock::new();
        MACHINE.get_or_init(|| {
            let asked = std::env::var("RADDLE_CLUSTERS").ok().filter(|text| !text.is_empty());
            let grouping = asked.map_or(Ok(Grouping::default()), |text| text.parse());
            grouping.map(|grouping| Arc::new(Self::new(grouping))).map_err(|wrong| format!("RADDLE_CLUSTERS={wrong}"))
        })
    }

    /// The numbers of each cluster's processors, as the system counts them.
    pub fn clusters(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        self.clusters.iter().map(Vec::as_slice)
    }

    fn read(root: &Path, grouping: Grouping) -> Self {
        let online = list(&root.join("cpu/online")).filter(|cpus| !cpus.is_empty());
        let cpus = online.unwrap_or_else(|| (0..crate::os::online()).collect());
        let mut clusters: Vec<Vec<usize>> = match grouping {
            Grouping::One => vec![cpus.clone()],
            Grouping::Size(size) => cpus.chunks(size.max(1)).map(<[usize]>::to_vec).collect(),
            Grouping::Numa => nodes(root),
            Grouping::Core => together(&cpus, |cpu| list(&topology(root, cpu, "thread_siblings_list"))),
            Grouping::Package => together(&cpus, |cpu| list(&topology(root, cpu, "core_siblings_list"))),
            Grouping::Cache(level) => together(&cpus, |cpu| cache(root, cpu, Some(level))),
            Grouping::LastCache => together(&cpus, |cpu| cache(root, cpu, None)),
        };
        clusters.iter_mut().for_each(|cluster| cluster.retain(|cpu| cpus.contains(cpu)));
        let told: Vec<usize> = clusters.concat();
        let rest = cpus.iter().copied().filter(|cpu| !told.contains(cpu)).collect();
        clusters.push(rest);
        clusters.retain(|cluster| !cluster.is_empty());
        Self::of(clusters)
    }

    fn of(clusters: Vec<Vec<usize>>) -> Self {
        let last = clusters.iter().flatten().copied().max().unwrap_or(0);
        let mut seats = vec![None; last + 1];
        for (cluster, members) in clusters.iter().enumerate() {
            for (member, &cpu) in members.iter().enumerate() {
                seats[cpu] = Some(Seat { cluster, member });
            }
        }
        Self { clusters, seats }
    }

    /// The seat of a processor; one that came later sits with the others of its number, modulo.
    fn seat(&self, cpu: usize) -> Seat {
        let known = self.seats.get(cpu).copied().flatten();
        known.unwrap_or(Seat { cluster: cpu % self.clusters.len(), member: cpu / self.clusters.len() })
    }
}

impl Clusters for Topology {
    fn count(&self) -> usize {
        self.clusters.len()
    }

    fn members(&self, cluster: usize) -> usize {
        self.clusters[cluster].len()
    }

    #[inline]
    fn here(&self) -> Seat {
        self.seat(crate::os::core())
    }
}

/// As [`Topology::machine`] says, for locks that are told nothing else.
impl OwnCluster for Topology {
    #[inline]
    fn cluster() -> usize {
        let machine = Self::shared();
        if machine.count() == 1 { 0 } else { machine.here().cluster }
    }
}

/// Groups of those that name each other.
fn together(cpus: &[usize], of: impl Fn(usize) -> Option<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for &cpu in cpus {
        let Some(group) = of(cpu).filter(|group| group.contains(&cpu)) else { continue };
        if !groups.iter().flatten().any(|known| group.contains(known)) {
            groups.push(group);
        }
    }
    groups
}

fn topology(root: &Path, cpu: usize, file: &str) -> std::path::PathBuf {
    root.join(format!("cpu/cpu{cpu}/topology/{file}"))
}

/// Who shares a cache with this processor: of a level, or of the last level.
fn cache(root: &Path, cpu: usize, wanted: Option<u8>) -> Option<Vec<usize>> {
    let mut best: Option<(u8, Vec<usize>)> = None;
    for index in 0..16 {
        let folder = root.join(format!("cpu/cpu{cpu}/cache/index{index}"));
        let Some(level) = number(&folder.join("level")) else { break };
        let kind = std::fs::read_to_string(folder.join("type")).unwrap_or_default();
        if kind.trim() == "Instruction" || wanted.is_some_and(|wanted| wanted != level) {
            continue;
        }
        if let Some(shared) = list(&folder.join("shared_cpu_list"))
            && best.as_ref().is_none_or(|(known, _)| level > *known)
        {
            best = Some((level, shared));
        }
    }
    best.map(|(_, shared)| shared)
}

fn number(file: &Path) -> Option<u8> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Processors of each node of memory, in the order of the nodes.
fn nodes(root: &Path) -> Vec<Vec<usize>> {
    let numbers = list(&root.join("node/online")).unwrap_or_default();
    let cpus = |node| list(&root.join(format!("node/node{node}/cpulist")));
    let mut clusters: Vec<Vec<usize>> = Vec::new();
    for mut cpus in numbers.into_iter().filter_map(cpus) {
        cpus.retain(|cpu| !clusters.iter().flatten().any(|known| known == cpu));
        clusters.push(cpus);
    }
    clusters
}

/// A list as the kernel writes it, such as `0-3,8`.
fn list(file: &Path) -> Option<Vec<usize>> {
    let text = std::fs::read_to_string(file).ok()?;
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        // The kernel knows at most 8192.
        if last > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, remove_dir_all, write};

    /// A machine of two packages, each with two caches of the third level over two cores of two threads, as sysfs
    /// tells of it.
    fn machine(name: &str) -> std::path::PathBuf {
        let root = std::env::temp_dir().join(format!("raddle-topology-{name}-{}", std::process::id()));
        let put = |file: String, text: String| {
            let file = root.join(file);
            create_dir_all(file.parent().unwrap()).unwrap();
            write(file, text + "\n").unwrap();
        };
        put("cpu/online".into(), "0-15".into());
        // Threads of one core have numbers that are 8 apart, as many machines count.
        for cpu in 0..16usize {
            let core = cpu % 8;
            let pair = |first: usize, last: usize| format!("{first}-{last},{}-{}", first + 8, last + 8);
            put(format!("cpu/cpu{cpu}/topology/thread_siblings_list"), format!("{core},{}", core + 8));
            put(format!("cpu/cpu{cpu}/topology/core_siblings_list"), pair(core / 4 * 4, core / 4 * 4 + 3));
            let caches = [
                ("1", "Data", format!("{core},{}", core + 8)),
                ("1", "Instruction", format!("{core},{}", core + 8)),
                ("2", "Unified", format!("{core},{}", core + 8)),
                ("3", "Unified", pair(core / 2 * 2, core / 2 * 2 + 1)),
            ];
            for (index, (level, kind, shared)) in caches.into_iter().enumerate() {
                put(format!("cpu/cpu{cpu}/cache/index{index}/level"), level.into());
                put(format!("cpu/cpu{cpu}/cache/index{index}/type"), kind.into());
                put(format!("cpu/cpu{cpu}/cache/index{index}/shared_cpu_list"), shared);
            }
        }
        put("node/online".into(), "0-2".into());
        put("node/node0/cpulist".into(), "0-3,8-11".into());
        put("node/node1/cpulist".into(), "4-7,12-15".into());
        // A node of memory alone.
        put("node/node2/cpulist".into(), String::new());
        root
    }

    #[test]
    fn the_machine_is_grouped_as_it_is_built() {
        let root = machine("whole");
        let of = |grouping| Topology::read(&root, grouping).clusters;
        let halves = vec![vec![0, 1, 2, 3, 8, 9, 10, 11], vec![4, 5, 6, 7, 12, 13, 14, 15]];
        assert_eq!((of(Grouping::Numa), of(Grouping::Package)), (halves.clone(), halves));
        let caches = vec![vec![0, 1, 8, 9], vec![2, 3, 10, 11], vec![4, 5, 12, 13], vec![6, 7, 14, 15]];
        assert_eq!((of(Grouping::LastCache), of(Grouping::Cache(3))), (caches.clone(), caches));
        let cores: Vec<_> = (0..8).map(|core| vec![core, core + 8]).collect();
        assert_eq!((of(Grouping::Core), of(Grouping::Cache(2))), (cores.clone(), cores));
        assert_eq!(of(Grouping::Size(7)), [(0..7).collect(), (7..14).collect(), vec![14, 15]]);
        assert_eq!(of(Grouping::One), [(0..16).collect::<Vec<_>>()]);
        // No cache of that level is told of.
        assert_eq!(of(Grouping::Cache(4)), [(0..16).collect::<Vec<_>>()]);
        remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_is_not_online_or_not_told_is_no_cluster_of_its_own() {
        let root = machine("partly");
        write(root.join("cpu/online"), "0-2,4,99\n").unwrap();
        let of = |grouping| Topology::read(&root, grouping).clusters;
        assert_eq!(of(Grouping::LastCache), [vec![0, 1], vec![2], vec![4], vec![99]]);
        assert_eq!(of(Grouping::Numa), [vec![0, 1, 2], vec![4], vec![99]]);
        let seats = Topology::read(&root, Grouping::LastCache);
        assert_eq!(seats.seat(1), Seat { cluster: 0, member: 1 });
        assert_eq!(seats.seat(4), Seat { cluster: 2, member: 0 });
        assert_eq!(seats.seat(7), Seat { cluster: 3, member: 1 });
        assert_eq!(seats.seat(500), Seat { cluster: 0, member: 125 });
        write(root.join("cpu/online"), "0-\n").unwrap();
        assert!(Topology::read(&root, Grouping::Numa).count() >= 1);
        remove_dir_all(root).unwrap();
        // A machine that tells nothing.
        let nothing = Topology::read(Path::new("/nowhere"), Grouping::LastCache);
        assert_eq!(nothing.clusters().map(<[usize]>::len).collect::<Vec<_>>(), [crate::os::online()]);
    }

    #[test]
    fn words_are_read_and_written() {
        for word in ["core", "l2", "l3", "cache", "numa", "package", "one", "4"] {
            assert_eq!(word.parse::<Grouping>().unwrap().to_string(), word);
        }
        for wrong in ["", "0", "-1", "l", "l0", "l10", "node"] {
            assert!(wrong.parse::<Grouping>().unwrap_err().contains("`numa`"), "{wrong}");
        }
    }

    #[test]
    fn this_machine_is_read() {
        let topology = Topology::machine();
        let all: usize = topology.clusters().map(<[usize]>::len).sum();
        assert!(all >= 1 && (0..topology.count()).all(|cluster| topology.members(cluster) > 0));
        assert!(topology.here().cluster < topology.count());
        assert!(Topology::cluster() < topology.count());
    }
}
