//! Blocks in the kernel of which nothing tells the runtime: no processor is lost to them, and a thread that is back
//! waits for its turn.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const RESOLVER: &[&str] = &["-lresolv"];

#[test]
fn while_a_thread_blocks_in_any_way_another_one_has_its_processor() {
    let program = common::compile("unseen.c", RESOLVER);
    let native = common::native(&program, &[]).well();
    for processors in ["1", "3"] {
        let ours = common::drop_in(&program, &[], &[("RADDLE_PROCESSORS", processors)]);
        assert_eq!(ours.well(), native, "on {processors}");
    }
    // Nobody told of them: without the events the other thread would never have run.
    for kind in ["fault", "flock", "fgets", "name", "fifo", "futex"] {
        let settings = [("RADDLE_PROCESSORS", "1"), ("RADDLE_STATS", "json")];
        let ours = common::drop_in(&program, &[kind], &settings);
        assert!(ours.status.success(), "{kind}: {ours:?}");
        let is_lacking = ours.out.contains("userfaultfd");
        // On a busy machine the answer of `/proc` may be late: then the processor is taken as from one that computes.
        let taken = count(&ours.err, "takeovers") + count(&ours.err, "slices");
        assert!(taken > 0 || is_lacking, "{kind}: {ours:?}");
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn threads_back_from_the_kernel_find_their_turn_whatever_handlers_do_meanwhile() {
    let program = common::compile("turns.c", &[]);
    let native = common::native(&program, &[]).well();
    // The policies that say that they take a thread wherever it is.
    let steal = ["1", "2"].map(|processors| (processors, "steal"));
    for (processors, policy) in
        [steal[0], steal[1], ("2", "lifo"), ("1", "priority(3, steal)"), ("2", "apart(steal, lifo)")]
    {
        // How many of the returns are told of is the machine's affair, that some are is ours.
        let in_turn = common::until("a return in turn", || {
            let settings = [("RADDLE_PROCESSORS", processors), ("RADDLE_STATS", "json"), ("RADDLE_POLICY", policy)];
            let ours = common::drop_in(&program, &[], &settings);
            assert!(ours.status.success(), "{policy}: {ours:?}");
            assert_eq!(ours.out, native, "{policy} on {processors}: {}", ours.err);
            let told = cfg!(target_arch = "x86_64");
            let count = count(&ours.err, "returns_in_turn");
            (count > 0 || !told).then_some(count)
        });
        println!("{policy} on {processors}: {in_turn} returns in turn");
    }
    std::fs::remove_file(program).unwrap();
}

/// A user that has no other processes, so that the limit is this one's.
const USER: u32 = 4_000_038;

#[test]
fn without_kernel_threads_for_spares_it_says_so_once_and_goes_on_when_one_is_back() {
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: a limit on kernel threads needs a user of its own, which only root can become");
        return;
    }
    let program = common::compile("turns.c", &[]);
    let native = common::native(&program, &[]).well();
    // Where that user may read.
    let folder = std::env::temp_dir().join(format!("raddle-no-spares-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o755)).unwrap();
    let (own, library) = (folder.join("turns"), folder.join("library.so"));
    std::fs::copy(&program, &own).unwrap();
    std::fs::copy(common::library(), &library).unwrap();
    for processors in [1, 2] {
        // The program's own, the runtime's three beside the processors, and few more.
        for kernel_threads in [4, 5, 7].map(|more| more + processors) {
            let mut command = Command::new(&own);
            command.arg("6").env("LD_PRELOAD", &library).env("RADDLE_PROCESSORS", processors.to_string());
            let limit = libc::rlimit { rlim_cur: kernel_threads, rlim_max: kernel_threads };
            // SAFETY: both are async-signal-safe, and touch the child only.
            unsafe {
                command.pre_exec(move || {
                    let result = libc::setrlimit(libc::RLIMIT_NPROC, &limit) | libc::setuid(USER);
                    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
                })
            };
            let ended = common::run(command);
            assert!(ended.status.success(), "{kernel_threads} for {processors}: {ended:?}");
            assert_eq!(ended.out, native, "{kernel_threads} for {processors}");
            assert!(ended.err.matches("no kernel thread for a spare").count() <= 1, "{ended:?}");
        }
    }
    std::fs::remove_dir_all(folder).unwrap();
    std::fs::remove_file(program).unwrap();
}

/// A number of the statistics.
fn count(report: &str, key: &str) -> u64 {
    let (_, rest) = report.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key} in {report}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}
