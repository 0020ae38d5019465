//! `raddle sim` as its user meets it.

use std::process::{Command, Output};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_raddle")).arg("sim").args(arguments).output().expect("the command runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SMALL: [&str; 6] = ["--workload", "packet:n=2k", "--cores", "1,2,16", "--policy", "steal(fifo)"];

#[test]
fn the_same_command_line_gives_the_same_bytes_in_every_format() {
    for format in ["table", "json", "html"] {
        let run = || sim(&[&SMALL[..], &["--format", format, "--seed", "7"]].concat());
        let (a, b) = (run(), run());
        assert!(a.status.success(), "{}", text(&a.stderr));
        assert!(a.stdout.len() > 300 && a.stdout == b.stdout, "{}\n{}", text(&a.stdout), text(&b.stdout));
    }
}

#[test]
fn each_line_of_json_is_a_run_with_the_keys_of_bench() {
    let output = sim(&[&SMALL[..], &["--format", "json"]].concat());
    let rows: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.iter().map(|row| row["processors"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 16]);
    for row in &rows {
        for key in
            ["workload", "args", "runtime", "policy", "ops", "ns_median", "latency_p9999", "steals_won", "utilisation"]
        {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
        assert!(row["simulated"] == true && row["error"].is_null(), "{row}");
        assert_eq!(row["utilisation"].as_array().unwrap().len() as u64, row["processors"].as_u64().unwrap());
    }
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    let folder = std::env::temp_dir().join(format!("raddle-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("costs.json");
    std::fs::write(&file, "{\"hits\": 3}").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, named) in [
        (&["--cores", "0"][..], "`0`: from 1 to 256"),
        (&["--cores", "100000"], "`100000`: from 1 to 256"),
        (&["--machine", "vax"], "no machine `vax`"),
        (&["--machine", "no/such/file.json"], "cannot read the costs"),
        (&["--machine", file], "`hits` is no cost"),
        (&["--workload", "pocket"], "no simulated workload `pocket`"),
        (&["--workload", "packet:m=3"], "no argument `m`"),
        (&["--policy", "steel"], "did you mean `steal`?"),
    ] {
        let output = sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains(named), "{arguments:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
    let looping = sim(&["--cores", "2", "--steps", "1000"]);
    assert_eq!(looping.status.code(), Some(1));
    assert!(text(&looping.stderr).contains("goes on without end"), "{}", text(&looping.stderr));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_work() {
    let file = std::env::temp_dir().join(format!("raddle-absent-{}", std::process::id())).join("file");
    let out = ["--out", file.to_str().unwrap()];
    let of: [&[&str]; 5] = [&[], &["--calibrate"], &["predict"], &["report"], &["report", "--paper", "lesser-bear"]];
    for arguments in of {
        let output = sim(&[arguments, &out].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let told = text(&output.stderr);
        assert!(
            told.contains("cannot write") && told.contains("name another file with --out"),
            "{arguments:?}: {told}"
        );
        assert!(!told.contains("calibrating") && !told.contains("part 1"), "{arguments:?}: {told}");
    }
}

#[test]
fn a_paper_with_a_machine_of_its_own_takes_none() {
    for (arguments, named) in [
        (&["--machine", "opteron"][..], "leave out --machine"),
        (&["--seed", "1", "--packets", "50k"], "leave out --packets, --seed"),
        (&["--many", "9"], "leave out --many"),
    ] {
        for paper in ["lock-free", "lesser-bear"] {
            let output = sim(&[&["report", "--paper", paper], arguments].concat());
            let told = text(&output.stderr);
            assert!(output.status.code() == Some(2) && told.contains(named) && told.contains(paper), "{told}");
        }
    }
}

/// Simulates where the address space has so many KiB.
fn within(kib: u64) -> Output {
    let line = format!("ulimit -v {kib} && exec \"$0\" sim --workload packet:n=10 --cores 1,256");
    Command::new("sh").args(["-c", &line, env!("CARGO_BIN_EXE_raddle")]).output().expect("a shell runs")
}

#[test]
fn little_address_space_means_fewer_stacks_or_an_error() {
    let output = within(8_000_000);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = within(150_000);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.contains("no room for the stacks") && told.contains("ulimit -v") && !told.contains("panicked"),
        "{told}"
    );
}

#[test]
fn workloads_and_machines_are_listed() {
    let output = sim(&["--list"]);
    assert!(output.status.success());
    for name in ["packet", "lock_global", "hector", "epyc"] {
        assert!(text(&output.stdout).contains(name), "{name}");
    }
}

#[test]
fn what_was_measured_here_is_a_machine_to_simulate_on() {
    let file = std::env::temp_dir().join(format!("raddle-costs-{}.json", std::process::id()));
    let file = file.to_str().unwrap();
    let output = sim(&["--calibrate", "--out", file]);
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        assert!(text(&output.stderr).contains("one processor"), "{}", text(&output.stderr));
        return;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let costs: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    for key in ["step", "switch", "spawn", "wake", "wake_latency", "memory", "levels", "together"] {
        assert!(!costs[key].is_null(), "{key}: {costs}");
    }
    let output = sim(&["--machine", file, "--workload", "fib:n=10", "--cores", "1,2"]);
    assert!(output.status.success() && text(&output.stdout).contains("calibrated"), "{}", text(&output.stderr));
    std::fs::remove_file(file).unwrap();
    assert_eq!(sim(&["--calibrate", "--cores", "3"]).status.code(), Some(2));
}

#[test]
fn a_report_has_the_claims_beside_ours_in_every_format() {
    for (format, named) in [("table", "NOT HELD"), ("json", "\"held\":"), ("html", "<h1>Claims</h1>")] {
        let output = sim(&["report", "--packets", "200", "--many", "300", "--format", format]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let text = text(&output.stdout);
        assert!(text.contains(named) && text.contains("LIFO is fastest at 20 domains"), "{text}");
        assert!(!text.contains("few cores keep up with one spawner"), "an explanation of another run: {text}");
    }
    let output = sim(&["report", "--paper", "lesser-bear", "--format", "html"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    assert!(page.contains("<td>Table 3</td>") && page.contains("23 % less time than with Solaris threads"), "{page}");
    for figure in ["Figure 7:", "Figure 8:", "Figure 9:"] {
        assert!(page.contains(&format!("<h2>{figure}")), "{figure} is not drawn: {page}");
    }
    let output = sim(&["report", "--machine", "vax"]);
    assert_eq!(output.status.code(), Some(2));
}
