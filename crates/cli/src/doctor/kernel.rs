//! What the kernel and the C library offer.

use super::{Finding, State};
use raddle::info::guards_are_lightweight;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{MembarrierCommand, membarrier_query};

/// What lightweight threads stand on.
pub fn threads() -> Vec<Finding> {
    let uname = rustix::system::uname();
    let release = uname.release().to_string_lossy().into_owned();
    let machine = uname.machine().to_string_lossy().into_owned();
    let mut findings = vec![
        Finding::new("kernel", State::Good, format!("Linux {release} on {machine}"), ""),
        thread_local_storage(),
        guards(),
        membarrier(),
    ];
    findings.extend(files_of_processes());
    findings.extend(thread_pointer(&machine));
    findings.extend(shadow_stacks());
    findings.push(standbys());
    findings
}

/// Where the kernel tells what its threads do, if it does not.
fn files_of_processes() -> Option<Finding> {
    let consequence = "a thread that blocks in the kernel where nothing tells of it keeps its processor, and dead-locks \
                       are told among mutexes alone; `mount -t proc proc /proc` before the program starts";
    let is_there = std::path::Path::new("/proc/self/task").exists();
    (!is_there).then(|| Finding::new("/proc", State::Missing, "not mounted", consequence))
}

fn thread_local_storage() -> Finding {
    let name = "own thread-local storage per thread";
    match raddle::info::lightweight() {
        Ok(()) => Finding::new(name, State::Good, format!("the self-check passed on {}", c_library()), ""),
        Err(error) => Finding::new(
            name,
            State::Replaced,
            format!("no, on {}: {error}", c_library()),
            "each thread is a kernel thread; remove that cause to get lightweight ones",
        ),
    }
}

fn c_library() -> String {
    let output = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(|| "the C library".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_string())
}

fn guards() -> Finding {
    let name = "lightweight guard pages";
    match guards_are_lightweight() {
        true => Finding::new(name, State::Good, "yes", "stacks are limited by memory alone"),
        false => Finding::new(
            name,
            State::Replaced,
            "no",
            "guards are made by mprotect, two mappings each: vm.max_map_count limits the stacks; Linux 6.13 has the better way",
        ),
    }
}

fn membarrier() -> Finding {
    let name = "membarrier";
    if membarrier_query().contains_command(MembarrierCommand::PrivateExpedited) {
        return Finding::new(
            name,
            State::Good,
            "private expedited",
            "owners of queues pay no fence; who takes from them does",
        );
    }
    Finding::new(
        name,
        State::Replaced,
        "not offered, or forbidden by a sandbox",
        "fences and time-outs take its place; allow the system call to be rid of them",
    )
}

/// Only x86-64 has two ways to set the thread pointer.
fn thread_pointer(machine: &str) -> Option<Finding> {
    if machine != "x86_64" {
        return None;
    }
    const AT_HWCAP2: u64 = 26;
    let offered = auxiliary(AT_HWCAP2).is_some_and(|bits| bits & 2 != 0);
    let name = "FSGSBASE";
    Some(match offered {
        true => Finding::new(name, State::Good, "yes", "a switch sets the thread pointer without a system call"),
        false => Finding::new(
            name,
            State::Replaced,
            "no",
            "each switch makes the system call arch_prctl; Linux 5.9 on a processor with FSGSBASE does without",
        ),
    })
}

fn shadow_stacks() -> Option<Finding> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let features = status.lines().find_map(|line| line.strip_prefix("x86_Thread_features:"))?;
    let on = features.split_whitespace().any(|feature| feature == "shstk");
    Some(match on {
        true => Finding::new("shadow stacks", State::Noted, "on", "they are switched off at start"),
        false => Finding::new("shadow stacks", State::Good, "off", ""),
    })
}

/// A value of the auxiliary vector, with which the kernel greets a process.
fn auxiliary(wanted: u64) -> Option<u64> {
    let bytes = std::fs::read("/proc/self/auxv").ok()?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut pairs = words.chunks_exact(2).map(|pair| (u64::from_ne_bytes(pair[0]), u64::from_ne_bytes(pair[1])));
    pairs.find_map(|(key, value)| (key == wanted).then_some(value))
}

/// What sets an end to the number of threads.
pub fn limits() -> Vec<Finding> {
    let mut findings = vec![overcommit(), mappings(), address_space()];
    findings.extend(kernel_threads());
    findings
}

fn setting(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

fn overcommit() -> Finding {
    let name = "vm.overcommit_memory";
    match setting("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => Finding::new(
            name,
            State::Noted,
            "2 (strict)",
            "reserved stacks may count as used: when spawns fail for memory, set it to 0 or 1",
        ),
        Some(value) => Finding::new(name, State::Good, value, ""),
        None => Finding::new(name, State::Noted, "unreadable", ""),
    }
}

fn mappings() -> Finding {
    let found = setting("/proc/sys/vm/max_map_count").unwrap_or_else(|| "unreadable".into());
    let matters = !guards_are_lightweight();
    let (state, consequence) = match found.parse::<u64>() {
        Ok(limit) if matters => (
            State::Noted,
            format!("at most about {} lightweight threads with guards at once; raise it for more", limit / 2),
        ),
        _ => (State::Good, "does not limit lightweight threads here; kernel threads take two each".into()),
    };
    Finding::new("vm.max_map_count", state, found, consequence)
}

fn address_space() -> Finding {
    match getrlimit(Resource::As).current {
        None => Finding::new("address space (ulimit -v)", State::Good, "unlimited", ""),
        Some(bytes) => Finding::new(
            "address space (ulimit -v)",
            State::Noted,
            format!("{} MiB", bytes >> 20),
            "stacks are reserved in one piece: when a pool cannot be built, raise it",
        ),
    }
}

fn kernel_threads() -> Option<Finding> {
    let read = |path: &str| setting(path)?.parse::<u64>().ok();
    let own = getrlimit(Resource::Nproc).current;
    let group = setting("/proc/self/cgroup").and_then(|text| {
        let group = text.lines().find_map(|line| line.strip_prefix("0::"))?.to_string();
        read(&format!("/sys/fs/cgroup{group}/pids.max"))
    });
    let limits = [own, group, read("/proc/sys/kernel/threads-max"), read("/proc/sys/kernel/pid_max")];
    let least = limits.into_iter().flatten().min()?;
    let consequence = "limits the std, parking_lot and crossbeam rows of `raddle bench`; lightweight threads need one per processor and spares";
    Some(Finding::new("kernel threads at most", State::Noted, least.to_string(), consequence))
}

/// How the runtime hears of threads that block in the kernel where nothing tells it.
fn standbys() -> Finding {
    const NAME: &str = "blocked threads";
    match raddle::info::standbys() {
        Ok(()) => Finding::new(
            NAME,
            State::Good,
            "a standby of class SCHED_IDLE tells of them",
            "where a program's threads block unseen, their processors go on within microseconds",
        ),
        Err(why) => Finding::new(
            NAME,
            State::Replaced,
            format!("no standby: {why}"),
            "the monitor looks instead, and their processors go on after milliseconds; allow SCHED_IDLE and rseq (the sandbox)",
        ),
    }
}

/// What sends of several threads go through in one call.
pub fn ring() -> Finding {
    let (name, gain) = ("io_uring", "sends that threads make at about the same time go through one system call");
    match io_uring::IoUring::new(2) {
        Ok(_) => Finding::new(name, State::Good, "offered", gain),
        Err(error) => {
            let instead =
                "each thread sends by a call of its own; allow io_uring_setup (kernel.io_uring_disabled, the sandbox)";
            Finding::new(name, State::Replaced, format!("refused: {error}"), instead)
        }
    }
}

/// What later versions may use.
pub fn unused() -> Vec<Finding> {
    let level = setting("/proc/sys/kernel/perf_event_paranoid");
    let level = level.map_or(String::new(), |level| format!(" (kernel.perf_event_paranoid = {level})"));
    let events = match raddle::info::kernel_events() {
        Ok(()) => format!("offered{level}"),
        Err(error) => format!("refused{level}: {error}"),
    };
    let events =
        Finding::new("perf events", State::Noted, events, "would tell a program of its own kernel-level switches");
    vec![events]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_auxiliary_vector_has_the_page_size() {
        const AT_PAGESZ: u64 = 6;
        assert_eq!(auxiliary(AT_PAGESZ), Some(rustix::param::page_size() as u64));
        assert_eq!(auxiliary(1 << 40), None);
    }
}
