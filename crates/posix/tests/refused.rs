//! What the kernel refuses, and what happens to a process from outside, while threads block where nothing tells the
//! runtime: nothing is lost, and there is one clear line at most.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// What a filter does with a call.
#[derive(Clone, Copy)]
enum Filter {
    Refuses,
    Kills,
}

const IDLE: &[libc::c_long] = &[libc::SYS_sched_setscheduler, libc::SYS_sched_setattr];
/// With which a kernel could be asked for its events.
const EVENTS: &[libc::c_long] = &[libc::SYS_perf_event_open, libc::SYS_bpf, libc::SYS_userfaultfd];

/// The program with the library, under a filter of system calls.
fn filtered(program: &Path, calls: &'static [libc::c_long], filter: Filter) -> common::Ended {
    let answer = match filter {
        Filter::Refuses => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        Filter::Kills => libc::SECCOMP_RET_KILL_PROCESS,
    };
    let one = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    // The number of the call is the first word.
    let mut lines = vec![one(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        lines.push(one(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, *call as u32));
        lines.push(one(libc::BPF_RET | libc::BPF_K, 0, 0, answer));
    }
    lines.push(one(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", common::library()).env("RADDLE_PROCESSORS", "1");
    // SAFETY: both calls are async-signal-safe, and read the lines, which lie in memory of the child's own.
    unsafe {
        command.pre_exec(move || {
            let filter = libc::sock_fprog { len: lines.len() as u16, filter: lines.as_ptr().cast_mut() };
            let failed = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) != 0;
            if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
        })
    };
    common::run(command)
}

/// What the library says, line by line.
fn said(ended: &common::Ended) -> Vec<&str> {
    ended.err.lines().filter(|line| line.starts_with("raddle")).collect()
}

#[test]
fn without_the_idle_class_nothing_is_lost_and_one_line_says_so() {
    let program = common::compile("refused.c", &[]);
    let native = common::native(&program, &[]).well();
    for filter in [Filter::Refuses, Filter::Kills] {
        // Before the first block that takes long enough, nobody asks for it.
        let line = common::until("a line", || {
            let ours = filtered(&program, IDLE, filter);
            assert!(ours.status.success(), "{ours:?}");
            assert_eq!(ours.out, native, "{ours:?}");
            assert!(said(&ours).len() <= 1, "{ours:?}");
            said(&ours).first().map(ToString::to_string)
        });
        assert!(line.contains("no standby of the idle class"), "{line}");
        if let Filter::Kills = filter {
            assert!(line.contains("a filter of system calls"), "{line}");
        }
    }
    std::fs::remove_file(program).unwrap();
}

/// A list of what is allowed names `read` and `write` and not what the runtime makes of them.
#[test]
fn where_calls_that_do_not_block_are_refused_reads_and_writes_go_on() {
    const PLAIN: &[libc::c_long] = &[libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_readv, libc::SYS_writev];
    const NO_POLLER: &[libc::c_long] = &[libc::SYS_preadv2, libc::SYS_pwritev2, libc::SYS_epoll_create1];
    let program = common::compile("pipes.c", &[]);
    let native = common::native(&program, &[]).well();
    assert_eq!(native, "12750\n");
    for calls in [PLAIN, NO_POLLER] {
        let ours = filtered(&program, calls, Filter::Refuses);
        assert!(ours.status.success() && said(&ours).is_empty(), "{calls:?}: {ours:?}");
        assert_eq!(ours.out, native, "{calls:?}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn where_perf_and_its_like_are_forbidden_or_deadly_nobody_asks_for_them() {
    let program = common::compile("refused.c", &[]);
    let native = common::native(&program, &[]).well();
    for filter in [Filter::Refuses, Filter::Kills] {
        let ours = filtered(&program, EVENTS, filter);
        assert!(ours.status.success() && said(&ours).is_empty(), "{ours:?}");
        assert_eq!(ours.out, native, "{ours:?}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_debugger_that_attaches_in_the_middle_and_stops_of_the_process_lose_nothing() {
    let program = common::compile("refused.c", &[]);
    for what in ["traced", "stopped"] {
        let native = common::native(&program, &[what]);
        if native.out.contains("failed") {
            println!("skipped: no process may trace another one here: {native:?}");
            continue;
        }
        for processors in ["1", "3"] {
            let ours = common::drop_in(&program, &[what], &[("RADDLE_PROCESSORS", processors)]);
            assert!(said(&ours).is_empty(), "{what} on {processors}: {ours:?}");
            assert_eq!(ours.well(), "0 lost\n", "{what} on {processors}");
        }
    }
    std::fs::remove_file(program).unwrap();
}

/// A user that has no other processes, so that the limit is this one's.
const USER: u32 = 4_000_039;

#[test]
fn with_one_kernel_thread_a_program_hears_what_it_hears_natively() {
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: a limit on kernel threads needs a user of its own, which only root can become");
        return;
    }
    let program = common::compile("one_allowed.c", &[]);
    // Where that user may read.
    let folder = std::env::temp_dir().join(format!("raddle-one-allowed-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    let (own, library) = (folder.join("program"), folder.join("library.so"));
    std::fs::copy(&program, &own).unwrap();
    std::fs::copy(common::library(), &library).unwrap();
    let run = |preload: Option<&Path>| {
        let mut command = Command::new(&own);
        command.envs(preload.map(|library| ("LD_PRELOAD", library)));
        let limit = libc::rlimit { rlim_cur: 1, rlim_max: 1 };
        // SAFETY: both are async-signal-safe, and touch the child only.
        unsafe {
            command.pre_exec(move || {
                let result = libc::setrlimit(libc::RLIMIT_NPROC, &limit) | libc::setuid(USER);
                if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            })
        };
        common::run(command)
    };
    let (native, ours) = (run(None), run(Some(&library)));
    assert!(ours.status.success(), "{ours:?}");
    assert_eq!(ours.out, native.out, "{ours:?}");
    assert!(
        matches!(said(&ours)[..], [line] if line.contains("need a kernel thread, and none can be started")),
        "{ours:?}"
    );
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_file(program).unwrap();
}
