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

/// Two ways to write a policy are one line of a plot, which went to and fro.
#[test]
fn a_policy_that_is_named_twice_is_simulated_once() {
    let output = sim(&["--policy", "steal", "--policy", "steal(lifo)", "--cores", "1,2", "--format", "json"]);
    assert_eq!(text(&output.stdout).lines().count(), 2, "{output:?}");
    assert_eq!(text(&output.stderr), "raddle: `steal(lifo)` is `steal`, which is there already\n");
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    let folder = std::env::temp_dir().join(format!("raddle-sim-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("costs.json");
    std::fs::write(&file, "{\"hits\": 3}").unwrap();
    let file = file.to_str().unwrap();
    for (arguments, named) in [
        (&["--cores", "0"][..], "--cores 0: so many cores as `0` cannot be simulated; give numbers from 1 to 256"),
        (&["--cores", "100000"], "--cores 100000: so many"),
        (&["--cores", "5..1"], "`5..1` goes downwards; give numbers from 1 to 256, as in `16`"),
        (&["--seed", "1..x"], "--seed 1..x: `x` is no seed; give whole numbers"),
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
    let told = text(&looping.stderr);
    assert!(told.contains("goes on without end") && told.contains("`--steps`"), "{told}");
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

/// An installed command: no program of the benchmark lies beside it, and no sources.
#[test]
fn a_command_alone_holds_the_model_against_its_machine() {
    use std::io::BufRead as _;
    let folder = std::env::temp_dir().join(format!("raddle-alone-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let alone = folder.join("raddle");
    let ours = env!("CARGO_BIN_EXE_raddle");
    std::fs::hard_link(ours, &alone).or_else(|_| std::fs::copy(ours, &alone).map(drop)).unwrap();
    let mut command = Command::new(&alone);
    command.args(["sim", "predict", "--machine", "epyc"]).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let told: Vec<String> = lines.take_while(|line| !line.starts_with("raddle: part 1 of")).collect();
    // What it does from there on takes minutes.
    let is_measuring = child.try_wait().unwrap().is_none();
    let _ = child.kill();
    child.wait().unwrap();
    assert!(is_measuring && !told.iter().any(|line| line.contains("is not there")), "{told:?}");
    std::fs::remove_dir_all(&folder).unwrap();
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
    for (format, named) in [("table", "NOT HELD"), ("json", "\"held\":"), ("html", "<h2>Claims</h2>")] {
        let output = sim(&["report", "--packets", "200", "--many", "300", "--format", format]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let text = text(&output.stdout);
        assert!(text.contains(named) && text.contains("LIFO is fastest at 20 domains"), "{text}");
        assert!(!text.contains("few cores keep up with one spawner"), "an explanation of another run: {text}");
    }
    let output = sim(&["report", "--paper", "lesser-bear", "--format", "html"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = text(&output.stdout);
    assert!(
        page.contains("<td class=\"text\">Table 3</td>") && page.contains("23 % less time than with Solaris threads"),
        "{page}"
    );
    for figure in ["Figure 7:", "Figure 8:", "Figure 9:"] {
        assert!(page.contains(&format!("<h2>{figure}")), "{figure} is not drawn: {page}");
    }
    let output = sim(&["report", "--machine", "vax"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_campaign_in_parts_gives_the_bytes_of_one_process() {
    let folder = std::env::temp_dir().join(format!("raddle-sim-parts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let named = |name: &str| folder.join(name).to_str().unwrap().to_string();
    let campaign = [&SMALL[..], &["--seed", "1..3"]].concat();
    let with = |more: &[&str]| sim(&[&campaign[..], more].concat());
    let whole = with(&["--format", "json"]);
    assert_eq!(text(&whole.stdout).lines().count(), 9);

    // By ranks, and by numbers; lines in any order.
    for rank in ["0", "1"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.arg("sim").args(&campaign).args(["--shard", "rank", "--out", &named("part-{shard}")]);
        assert!(command.env("PMI_RANK", rank).env("PMI_SIZE", "2").status().unwrap().success());
    }
    for part in 0..4 {
        let output = with(&["--shard", &format!("{part}/4")]);
        let backwards: Vec<String> = text(&output.stdout).lines().rev().map(str::to_string).collect();
        std::fs::write(named(&format!("fourth-{part}")), backwards.join("\n") + "\n").unwrap();
    }
    for files in [
        &["part-1", "part-0"][..],
        &["fourth-3", "fourth-0", "fourth-2", "fourth-1"],
        &["part-0", "fourth-1", "fourth-3", "part-0"],
    ] {
        let files: Vec<String> = files.iter().map(|file| named(file)).collect();
        let merged = with(&[&["--merge"][..], &files.iter().map(String::as_str).collect::<Vec<_>>()].concat());
        assert!(merged.status.success() && merged.stdout == whole.stdout, "{files:?}: {}", text(&merged.stderr));
    }

    // A part that was ended while it wrote its second line: what is missing is named, and run alone.
    let part = std::fs::read_to_string(named("part-1")).unwrap();
    let torn: usize = part.lines().take(2).map(|line| line.len() + 1).sum::<usize>() - 20;
    std::fs::write(named("torn"), &part[..torn]).unwrap();
    let merged = with(&["--merge", &named("part-0"), &named("torn")]);
    let told = text(&merged.stderr);
    assert_eq!((merged.status.code(), merged.stdout.len()), (Some(1), 0));
    assert!(told.contains("3 of 9 simulations are missing") && told.contains("--only 3,5,7"), "{told}");
    assert!(told.contains("body_far=0 under `steal(fifo)` on 2 cores, seed 1"), "{told}");
    assert!(told.contains("torn, line 2: no whole line"), "{told}");
    std::fs::write(named("other"), "some\nother\nfile\n").unwrap();
    let merged = with(&["--merge", &named("part-0"), &named("other")]);
    assert!(text(&merged.stderr).contains("other: no line of it is a simulation's"), "{}", text(&merged.stderr));
    std::fs::write(named("rest"), with(&["--only", "3,5,7"]).stdout).unwrap();
    let merged = with(&["--merge", &named("part-0"), &named("torn"), &named("rest")]);
    assert!(merged.stdout == whole.stdout && text(&merged.stderr).contains("torn, line 2"), "{}", text(&merged.stderr));

    // Not of this campaign, or not what came out before.
    let other = sim(&[&SMALL[..], &["--seed", "1..4", "--merge", &named("part-0")]].concat());
    assert!(text(&other.stderr).contains("of another campaign"), "{}", text(&other.stderr));
    std::fs::write(named("wrong"), part.replacen("\"ops\":", "\"ops\":1", 1)).unwrap();
    let merged = with(&["--merge", &named("part-1"), &named("wrong")]);
    assert!(text(&merged.stderr).contains("has come out otherwise"), "{}", text(&merged.stderr));
    for (wrong, why) in [
        (&["--shard", "4/4"][..], "from 0/N"),
        (&["--only", "9"], "from 0 to 8"),
        (&["--shard", "0/2", "--format", "html"], "JSON alone"),
    ] {
        let output = with(wrong);
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The ending of a file's name chooses; where it asks for what there is not, that is told before the work.
#[test]
fn a_file_holds_what_its_name_says() {
    let folder = std::env::temp_dir().join(format!("raddle-endings-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let named = |name: &str| folder.join(name).display().to_string();
    for (name, begins) in [("page.html", "<!doctype html>"), ("rows.json", "{\""), ("rows", "packet n=100:")] {
        let file = named(name);
        for (more, begins) in [(&[][..], begins), (&["--format", "html"], "<!doctype html>")] {
            let words = ["--cores", "1", "--workload", "packet:n=100", "--out", &file];
            assert!(sim(&[&words, more].concat()).status.success());
            let there = std::fs::read_to_string(named(name)).unwrap();
            assert!(there.trim_start().to_ascii_lowercase().starts_with(begins), "{name}: {there}");
        }
    }
    for (words, name, why) in [
        (&["predict"][..], "absent.html", "there is no html of this, table alone"),
        (&["predict"], "absent.json", "there is no json of this, table alone"),
        (&["--calibrate"], "absent.html", "there is no html of this, json alone"),
        (&["--only", "0"], "absent.html", "there is no html of this, json alone"),
    ] {
        let file = named(name);
        let output = sim(&[words, &["--out", &file]].concat());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains(why), "{words:?}: {told}");
        assert!(!std::path::Path::new(&file).exists());
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_report_that_is_ended_early_leaves_what_it_has() {
    let file = std::env::temp_dir().join(format!("raddle-sim-cut-{}.jsonl", std::process::id()));
    // The last series would take hours.
    let words = ["sim", "report", "--packets", "200", "--many", "10M", "--format", "json", "--out"];
    let mut report = Command::new(env!("CARGO_BIN_EXE_raddle"));
    let mut report =
        report.args(words).arg(&file).stderr(std::process::Stdio::null()).spawn().expect("the command runs");
    let lines = || std::fs::read_to_string(&file).unwrap_or_default();
    while lines().lines().count() < 3 {
        assert!(report.try_wait().unwrap().is_none(), "it has ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    report.kill().unwrap();
    report.wait().unwrap();
    let kept = lines();
    std::fs::remove_file(&file).unwrap();
    for line in kept.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(row["workload"], "packet", "{row}");
    }
}

/// Who is tired of a long simulation keeps what the short ones have told.
#[test]
fn a_simulation_that_is_ended_early_has_shown_its_rows() {
    use std::io::BufRead as _;
    let path = std::env::temp_dir().join(format!("raddle-sim-early-{}", std::process::id()));
    let begun = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.args(["sim", "--cores", "1", "--workload", "packet:n=100", "--workload", "packet:n=100M"]).args(words);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap()
    };
    for (words, row) in [(&[][..], "     1 "), (&["--format", "json"], "{\"")] {
        let mut child = begun(words);
        let lines = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.starts_with(row)), "{words:?}");
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for (format, part) in [("table", "packet n=100:"), ("json", "\"packet\""), ("html", "Cores busy")] {
        let mut child = begun(&["--format", format, "--out", path.to_str().unwrap()]);
        while !std::fs::read_to_string(&path).is_ok_and(|text| text.contains(part)) {
            assert!(child.try_wait().unwrap().is_none());
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
