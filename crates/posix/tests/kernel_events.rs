//! Blocks in the kernel of which nothing tells the runtime: no processor is lost to them, and a thread that is back
//! waits for its turn.

mod common;

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
    for processors in ["1", "2"] {
        // How many of the returns are told of is the machine's affair, that some are is ours.
        let in_turn = common::until("a return in turn", || {
            let settings = [("RADDLE_PROCESSORS", processors), ("RADDLE_STATS", "json")];
            let ours = common::drop_in(&program, &[], &settings);
            assert!(ours.status.success(), "{ours:?}");
            assert_eq!(ours.out, native, "on {processors}: {}", ours.err);
            let told = cfg!(target_arch = "x86_64");
            let count = count(&ours.err, "returns_in_turn");
            (count > 0 || !told).then_some(count)
        });
        println!("on {processors}: {in_turn} returns in turn");
    }
    std::fs::remove_file(program).unwrap();
}

/// A number of the statistics.
fn count(report: &str, key: &str) -> u64 {
    let (_, rest) = report.split_once(&format!("\"{key}\":")).unwrap_or_else(|| panic!("no {key} in {report}"));
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}
