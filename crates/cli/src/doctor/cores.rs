//! How many cores this process may use.

use super::{Finding, State};
use std::path::{Path, PathBuf};

/// Affinity, quota, and what follows from both.
pub fn cores() -> Vec<Finding> {
    let affinity = affinity();
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let quota = quota(Path::new("/sys/fs/cgroup"), &groups);
    let processors = quota.map_or(affinity, |quota| affinity.min(quota.ceil() as usize).max(1));
    let quota_finding = match quota {
        Some(quota) => Finding::new(
            "CPU quota of the control group",
            State::Noted,
            format!("{quota:.2} cores"),
            "more processors than that would be throttled by the kernel",
        ),
        None => Finding::new("CPU quota of the control group", State::Good, "none", ""),
    };
    vec![
        native_switch(),
        Finding::new("cores by affinity", State::Good, affinity.to_string(), ""),
        quota_finding,
        Finding::new(
            "processors by default",
            State::Good,
            processors.to_string(),
            "Builder::processors sets another number; a pool that was built without one follows affinity and quota while it runs, \
             within about 0.1 s (not under `rotator`)",
        ),
    ]
}

/// What latencies here are multiples of.
fn native_switch() -> Finding {
    const NAME: &str = "switch to another kernel thread on one core";
    match raddle_bench::native_switch::measure(2000) {
        Ok(seen) => Finding::new(
            NAME,
            State::Noted,
            format!("{:.1} us, p99 {:.1} us", seen.quantile(0.5) as f64 / 1e3, seen.quantile(0.99) as f64 / 1e3),
            "`raddle bench blocked` measures in multiples of it how soon another thread runs when one blocks in the kernel",
        ),
        Err(error) => Finding::new(NAME, State::Noted, format!("not measured: {error}"), ""),
    }
}

fn affinity() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize)
}

/// The smallest quota, in cores, of the process's control group and those above it; version 2 and version 1.
fn quota(root: &Path, groups: &str) -> Option<f64> {
    let mut least: Option<f64> = None;
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, group) = (fields.next()?, fields.next()?);
        let read = match controllers {
            "" => version_2,
            list if list.split(',').any(|name| name == "cpu") => version_1,
            _ => continue,
        };
        let base = if controllers.is_empty() { root.to_path_buf() } else { root.join("cpu") };
        for folder in base.join(group.trim_start_matches('/')).ancestors().take_while(|path| path.starts_with(&base)) {
            let here = read(folder.to_path_buf());
            least = here.map(|here| least.map_or(here, |least| least.min(here))).or(least);
        }
    }
    least
}

fn version_2(folder: PathBuf) -> Option<f64> {
    let text = std::fs::read_to_string(folder.join("cpu.max")).ok()?;
    let (quota, period) = text.trim().split_once(' ')?;
    ratio(quota, period)
}

fn version_1(folder: PathBuf) -> Option<f64> {
    let read = |name| std::fs::read_to_string(folder.join(name)).ok();
    ratio(read("cpu.cfs_quota_us")?.trim(), read("cpu.cfs_period_us")?.trim())
}

/// Nothing when the quota is `max` or -1, which both mean none.
fn ratio(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_as_the_kernel_writes_them() {
        assert_eq!(ratio("150000", "100000"), Some(1.5));
        assert_eq!(ratio("max", "100000"), None);
        assert_eq!(ratio("-1", "100000"), None);
    }

    #[test]
    fn the_smallest_quota_on_the_way_up_counts() {
        let root = std::env::temp_dir().join(format!("raddle-doctor-{}", std::process::id()));
        let leaf = root.join("a/b");
        std::fs::create_dir_all(&leaf).unwrap();
        std::fs::write(root.join("a/cpu.max"), "50000 100000\n").unwrap();
        std::fs::write(leaf.join("cpu.max"), "max 100000\n").unwrap();
        let found = quota(&root, "0::/a/b\n");
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Some(0.5));
    }

    #[test]
    fn version_1_names_its_controllers() {
        let root = std::env::temp_dir().join(format!("raddle-doctor-v1-{}", std::process::id()));
        let group = root.join("cpu/job");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("cpu.cfs_quota_us"), "300000\n").unwrap();
        std::fs::write(group.join("cpu.cfs_period_us"), "100000\n").unwrap();
        let found = quota(&root, "5:memory:/other\n4:cpu,cpuacct:/job\n");
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, Some(3.0));
    }
}
