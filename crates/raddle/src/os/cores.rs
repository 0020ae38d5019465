//! How many cores the process is allotted: affinity, and the control group's quota (v2, or v1).

use std::path::{Path, PathBuf};

/// Cores by number, room for 8192: the kernel refuses a smaller mask than it has.
type Cores = [u64; 128];

/// One processor per core that the process may use, at least one.
pub(crate) fn default_processors() -> usize {
    // Looked at by the caller itself, once: who builds a pool needs the answer, however long another one would take.
    within([0].into_iter(), quota_now()).unwrap_or(1)
}

/// How many processors the kernel threads `tasks` (0: the caller) are allotted together: as many as there are cores on
/// which one of them may run, but no more than the control group's quota, rounded up. `None` if none of them exists any
/// more, or that cannot be said now.
pub(crate) fn allotted(tasks: impl Iterator<Item = u32>) -> Option<usize> {
    within(tasks, super::looks::quota()?)
}

/// The cores on which one of these may run, but no more than the quota.
fn within(tasks: impl Iterator<Item = u32>, quota: Option<usize>) -> Option<usize> {
    let mut union: Cores = [0; 128];
    for cores in tasks.filter_map(affinity) {
        union.iter_mut().zip(cores).for_each(|(all, more)| *all |= more);
    }
    let cores = union.iter().map(|word| word.count_ones() as usize).sum::<usize>();
    if cores == 0 {
        return None;
    }
    Some(quota.map_or(cores, |quota| cores.min(quota).max(1)))
}

/// The control group's quota in cores, rounded up; opens files.
pub(super) fn quota_now() -> Option<usize> {
    let membership = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    quota(Path::new("/sys/fs/cgroup"), &membership).map(|quota| quota.ceil() as usize)
}

/// Cores that the system has running: no affinity can name more.
pub(crate) fn online() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

/// Cores on which the caller may run, whatever its control group's quota; opens no file.
pub fn usable() -> usize {
    affinity(0).map_or(1, |cores| cores.iter().map(|word| word.count_ones() as usize).sum::<usize>().max(1))
}

/// The affinity mask of a kernel thread of this process.
fn affinity(task: u32) -> Option<Cores> {
    let mut mask: Cores = [0; 128];
    // SAFETY: the kernel writes at most the given number of bytes.
    let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, task, size_of_val(&mask), mask.as_mut_ptr()) };
    (written > 0).then_some(mask)
}

/// The smallest quota on the way from the process's control group to the root, in cores.
fn quota(root: &Path, membership: &str) -> Option<f64> {
    let mut least: Option<f64> = None;
    let mut note = |cores: Option<f64>| {
        if let Some(cores) = cores {
            least = Some(least.map_or(cores, |l| l.min(cores)));
        }
    };
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, group) = (fields.next(), fields.next().unwrap_or(""), fields.next().unwrap_or("/"));
        let v1 = controllers.split(',').any(|c| c == "cpu");
        if !v1 && !controllers.is_empty() {
            continue;
        }
        let base = if v1 { root.join("cpu") } else { root.to_path_buf() };
        for directory in ancestors(&base, group) {
            note(if v1 { quota_v1(&directory) } else { quota_v2(&directory) });
        }
    }
    least
}

fn ancestors(base: &Path, group: &str) -> Vec<PathBuf> {
    let full = base.join(group.trim_start_matches('/'));
    full.ancestors().take_while(|p| p.starts_with(base)).map(Path::to_path_buf).collect()
}

fn quota_v2(directory: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(directory.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (period > 0.0).then_some(quota / period)
}

fn quota_v1(directory: &Path) -> Option<f64> {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok()?.trim().parse::<f64>().ok();
    let (quota, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_not_exist_is_allotted_nothing() {
        assert_eq!(within([].into_iter(), None), None);
        assert_eq!(within([u32::MAX >> 1].into_iter(), Some(1)), None);
        assert!(within([0, 0].into_iter(), None).is_some_and(|n| n <= online()));
        assert_eq!(within([0].into_iter(), Some(1)), Some(1));
    }

    #[test]
    fn the_smallest_quota_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("raddle-cgroup-{}", std::process::id()));
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::create_dir_all(root.join("cpu/x")).unwrap();
        std::fs::write(root.join("a/cpu.max"), "150000 100000\n").unwrap();
        std::fs::write(root.join("a/b/cpu.max"), "max 100000\n").unwrap();
        assert_eq!(quota(&root, "0::/a/b\n"), Some(1.5));
        std::fs::write(root.join("cpu/x/cpu.cfs_quota_us"), "50000").unwrap();
        std::fs::write(root.join("cpu/x/cpu.cfs_period_us"), "100000").unwrap();
        assert_eq!(quota(&root, "3:cpu,cpuacct:/x\n0::/a/b\n"), Some(0.5));
        assert_eq!(quota(&root, "0::/elsewhere\n"), None);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
