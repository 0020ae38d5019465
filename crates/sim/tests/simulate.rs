//! Simulated machines: the same seed gives the same figures, and the figures are those of a machine.

use raddle_report::Circumstances;
use raddle_sim::cost::Costs;
use raddle_sim::report;
use raddle_sim::simulate::{Figures, Plan, simulate};
use raddle_sim::workloads::{WORKLOADS, Workload};

fn plan(workload: &str, arguments: &str, policy: &str, cores: usize) -> Plan {
    let workload = Workload::find(workload).unwrap();
    Plan {
        policy: policy.parse().unwrap(),
        cores,
        workload,
        arguments: workload.arguments(arguments).unwrap(),
        costs: Costs::preset("epyc").unwrap(),
        seed: 1,
        steps: 50_000_000,
    }
}

fn figures(workload: &str, arguments: &str, policy: &str, cores: usize) -> Figures {
    simulate(&plan(workload, arguments, policy, cores)).unwrap()
}

const SMALL: [(&str, &str); 16] = [
    ("packet", "n=2000"),
    ("tree", "depth=7"),
    ("fib", "n=10"),
    ("yield", "t=16:total=2000"),
    ("tokenring", "n=10:k=20"),
    ("lock_global", "t=16:total=2000"),
    ("lock_local", "t=16:total=2000"),
    ("locks", "t=6:total=200:hold=50"),
    ("faults", "t=6:total=60:cluster=2:work=500:call=100:load=2"),
    ("radix", "keys=3000:t=8:bits=8"),
    ("city", "n=20:k=5:c=3"),
    ("eratosthenes", "n=60"),
    ("mandelbrot", "n=10:c=30:k=50"),
    ("matrix", "n=20:t=6"),
    ("news", "n=20:m=3:k=2"),
    ("producer", "n=3:c=4:k=50"),
];

#[test]
fn every_workload_ends_under_every_kind_of_policy_and_the_same_seed_gives_the_same_bytes() {
    assert_eq!(SMALL.map(|(name, _)| name), WORKLOADS.map(|workload| workload.name));
    let policies = ["steal", "steal(fifo, victims=neighbours(4))", "fifo", "lifo", "rotator", "multiqueue(2)"];
    let more = ["local(overflow=retry)", "request(ticket)", "clustered(4, steal)", "priority(2, steal)"];
    for policy in policies.into_iter().chain(more) {
        for (workload, arguments) in SMALL {
            for cores in [1, 3, 50] {
                let rows = || {
                    let plan = plan(workload, arguments, policy, cores);
                    let result = simulate(&plan);
                    assert!(result.is_ok(), "{workload} under {policy} on {cores}: {result:?}");
                    [(plan, result)]
                };
                let (a, b) = (rows(), rows());
                assert_eq!(report::json_lines(&a), report::json_lines(&b), "{workload} under {policy} on {cores}");
                let page = |rows: &[report::Row]| report::html(rows, "x", &Circumstances::none());
                assert_eq!(page(&a), page(&b));
            }
        }
    }
}

#[test]
fn another_seed_is_another_run() {
    let mut other = plan("packet", "n=2000", "steal", 8);
    let one = simulate(&other).unwrap();
    other.seed = 2;
    assert_ne!(simulate(&other).unwrap().digest, one.digest);
}

#[test]
fn more_cores_do_parallel_work_sooner_and_serial_work_not() {
    let elapsed = |workload, arguments, cores| figures(workload, arguments, "steal", cores).elapsed as f64;
    let gain = elapsed("tree", "depth=10:leaf=20k", 1) / elapsed("tree", "depth=10:leaf=20k", 8);
    assert!((6.0..=8.0).contains(&gain), "eight cores are {gain} times as fast");
    // A token is in one place at a time.
    let gain = elapsed("tokenring", "n=20:k=50", 1) / elapsed("tokenring", "n=20:k=50", 8);
    assert!(gain <= 1.0, "a token gains {gain}");
}

#[test]
fn no_core_works_more_than_all_the_time_and_all_work_is_done() {
    for cores in [1, 2, 16] {
        let figures = figures("packet", "n=3000:work=600:bytes=0", "steal", cores);
        assert!(figures.utilisation.iter().all(|share| (0.0..=1.0).contains(share)), "{:?}", figures.utilisation);
        let worked = figures.mean_utilisation() * cores as f64 * figures.elapsed as f64;
        let expected = 3000.0 * (250.0 + 1000.0);
        assert!((worked / expected - 1.0).abs() < 1e-6, "{worked} of {expected}");
        assert_eq!(figures.operations, 3000);
        let [p50, p99, p9999] = figures.lives;
        assert!(1000 <= p50 && p50 <= p99 && p99 <= p9999 && p9999 <= figures.elapsed);
    }
}

#[test]
fn with_quanta_threads_come_along_alike_and_no_work_is_lost() {
    // Nine threads on eight cores: one of them is left over, unless all of them take turns.
    let matrix = |quantum| figures("matrix", &format!("n=72:t=9:cache=10k:quantum={quantum}"), "fifo", 8);
    let (never, short) = (matrix(0), matrix(10_000));
    assert!(short.elapsed * 10 < never.elapsed * 7, "{} and {}", short.elapsed, never.elapsed);
    for (workload, arguments) in [("mandelbrot", "n=9:c=30:k=90"), ("news", "n=20:m=3:k=2:look=5k:check=1k")] {
        let worked = |more: &str| {
            let figures = figures(workload, &format!("{arguments}{more}"), "fifo", 3);
            figures.mean_utilisation() * 3.0 * figures.elapsed as f64
        };
        let (never, short) = (worked(""), worked(":quantum=50"));
        assert!((short / never - 1.0).abs() < 1e-6, "{workload}: {short} of {never}");
    }
}

#[test]
fn one_queue_for_all_is_contended_and_queues_of_their_own_are_less() {
    let stalls = |policy| figures("yield", "t=64:total=5000", policy, 32).stalls();
    let (shared, own) = (stalls("fifo"), stalls("steal"));
    assert!(shared > 2.0 * own, "{shared} and {own} for each instruction");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    for cores in [0, 257, 100_000] {
        let why = simulate(&Plan { cores, ..plan("packet", "", "steal", 1) }).unwrap_err();
        assert!(why.contains(&cores.to_string()) && why.contains("1 to 256"), "{why}");
    }
    let why = simulate(&Plan { steps: 1000, ..plan("packet", "", "steal", 2) }).unwrap_err();
    assert!(why.contains("`steal`") && why.contains("without end"), "{why}");
}

#[test]
fn fib_says_how_many_threads_it_is() {
    let n = |n| Workload::find("fib").unwrap().arguments(&format!("n={n}")).unwrap();
    let operations = |number| Workload::find("fib").unwrap().operations(&n(number));
    assert_eq!([1, 2, 3, 10].map(operations), [1, 1, 2, 88]);
    assert!(Workload::find("fib").unwrap().arguments("n=60").is_err());
}

#[test]
fn what_moves_between_cores_costs_and_computing_together_costs() {
    let costs = Costs { together: 1.5, ..Costs::preset("epyc").unwrap() };
    let of = |arguments: &str, costs: &Costs, cores| {
        let plan = Plan { costs: costs.clone(), ..plan("packet", arguments, "fifo", cores) };
        simulate(&plan).unwrap().elapsed
    };
    let epyc = Costs::preset("epyc").unwrap();
    assert!(of("n=500:bytes=100k", &epyc, 2) > of("n=500:bytes=0", &epyc, 2));
    assert_eq!(of("n=500:bytes=100k", &epyc, 1), of("n=500:bytes=0", &epyc, 1));
    assert!(of("n=500:body=5k", &costs, 2) > of("n=500:body=5k", &epyc, 2));
    assert_eq!(of("n=500:body=5k", &costs, 1), of("n=500:body=5k", &epyc, 1));
}

#[test]
fn a_sort_does_all_its_work_whichever_way_its_threads_meet() {
    for policy in ["steal", "fifo", "rotator", "waiver", "local(overflow=retry)"] {
        for meeting in ["", "barrier=1", "slice=300", "slice=300:barrier=1", "make=7:barrier=1"] {
            for cores in [1, 5] {
                let figures = figures("radix", &format!("bits=8:keys=1000:t=16:{meeting}"), policy, cores);
                let made = if meeting.starts_with("make") { 7 * 1000 } else { 0 };
                // Four passes: the keys counted and moved, 16 counts of 256 cells summed up.
                let work = made + 4 * (1000 * 1500 + 16 * 256 * 100);
                let worked = figures.mean_utilisation() * cores as f64 * figures.elapsed as f64;
                assert!((worked / work as f64 - 1.0).abs() < 1e-6, "{policy} {meeting} {cores}: {worked} of {work}");
            }
        }
    }
}

#[test]
fn a_kernel_that_is_asked_for_each_wake_up_takes_longer() {
    let elapsed = |ready, workload, arguments| {
        let costs = Costs { ready, ..Costs::preset("supersparc").unwrap() };
        simulate(&Plan { costs, ..plan(workload, arguments, "fifo", 4) }).unwrap().elapsed
    };
    // Of 32 threads 31 wait at each of 8 barriers; who comes last wakes them one after the other.
    let sort = "bits=8:keys=1000:t=32:barrier=1";
    let longer = elapsed(1e6, "radix", sort) - elapsed(0.0, "radix", sort);
    assert!(longer >= 8 * 31 * 1_000_000, "{longer} ns");
    // Nobody waits here.
    let alone = "n=10:bytes=0";
    assert_eq!(elapsed(1e6, "packet", alone), elapsed(0.0, "packet", alone));
}

#[test]
fn memory_that_all_share_is_the_limit_where_the_factor_leaves_the_cache() {
    let elapsed = |stream, threads, cache| {
        let costs = Costs { stream, ..Costs::preset("opteron").unwrap() };
        let arguments = format!("n=128:t={threads}:cache={cache}");
        simulate(&Plan { costs, ..plan("matrix", &arguments, "fifo", 16) }).unwrap().elapsed as f64
    };
    // 128 rows, each of 128 x 128 multiplications of 12.5 ns and of as many numbers of 8 bytes, in lines of 64.
    let (computing, lines) = (128.0 * 128.0 * 128.0 * 12.5, 128.0 * 2048.0);
    let near = |time: f64, expected: f64| (expected..1.1 * expected).contains(&time);
    for threads in [1, 16] {
        assert!(near(elapsed(0.0, threads, 0), computing / threads as f64), "without a limit, {threads} threads");
        assert!(near(elapsed(1e3, threads, 129), computing / threads as f64), "in the cache, {threads} threads");
    }
    // A line each 50 ns: half of what one core computes meanwhile, eight times what 16 do.
    assert!(near(elapsed(50.0, 1, 128), computing), "{}", elapsed(50.0, 1, 128));
    assert!(near(elapsed(50.0, 16, 128), 50.0 * lines), "{} of {}", elapsed(50.0, 16, 128), 50.0 * lines);
}
