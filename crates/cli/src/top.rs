//! `raddle top`: what programs under `raddle run --metrics` do, second by second.

use crate::output::{printed, to_be_put};
use crate::screen::is_screen;
use clap::Args;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

const EXAMPLES: &str = "\
Examples:
  raddle run --metrics -- ./server       in one terminal
  raddle top                             in another: all programs of yours that run so
  raddle top 4711                        one of them, in more detail
  raddle top /var/lib/server/metrics     one whose file was named with --metrics=FILE

Exit status: 0; 1 when no program of yours runs so, or the one that was watched has ended; 2 when the process or file named
shows nothing, or the command line is wrong.";

/// Show what programs under `raddle run --metrics` do
#[derive(Args)]
#[command(after_help = crate::screen::examples(EXAMPLES))]
pub struct Options {
    /// A process's number, or its file; all of yours if none is given
    #[arg(value_name = "PID|FILE")]
    which: Option<PathBuf>,
    /// Show it once, and end
    #[arg(long)]
    once: bool,
    /// Seconds between two looks
    #[arg(
        long, allow_negative_numbers = true, default_value_t = 1, value_name = "S",
        value_parser = crate::numbers::whole::<u16>(1..=u64::from(u16::MAX), "--seconds 5")
    )]
    seconds: u16,
}

/// Where a program writes that was given no file.
fn folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let user = rustix::process::geteuid().as_raw();
    variable("XDG_RUNTIME_DIR").map_or_else(
        || variable("TMPDIR").unwrap_or_else(|| "/tmp".into()).join(format!("raddle-{user}")),
        |folder| folder.join("raddle"),
    )
}

/// Whether there is such a process, of whomever: also where `/proc` is not mounted.
fn is_there(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let asked = pid.map(rustix::process::test_kill_process);
    matches!(asked, Some(Ok(()) | Err(rustix::io::Errno::PERM)))
}

/// Where else one of this user's may have written, whose session had other variables, or none: a service, `sudo`.
fn folders() -> Vec<PathBuf> {
    let user = rustix::process::geteuid().as_raw();
    let mut folders = vec![folder()];
    for other in [format!("/run/user/{user}/raddle"), format!("/tmp/raddle-{user}")] {
        folders.extend(Some(PathBuf::from(other)).filter(|other| *other != folders[0]));
    }
    folders
}

/// The files in which a process may write: the one that it was told of when it was started, or one of its number.
fn files(pid: u32) -> Vec<PathBuf> {
    let told = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let told = told.split(|&byte| byte == 0).find_map(|variable| variable.strip_prefix(b"RADDLE_METRICS="));
    let told = told.map(|file| PathBuf::from(String::from_utf8_lossy(file).replace("{pid}", &pid.to_string())));
    told.into_iter().chain(folders().into_iter().map(|folder| folder.join(format!("{pid}.metrics")))).collect()
}

/// The file for `--metrics`.
pub fn file(named: &Path) -> Result<PathBuf, String> {
    if !named.as_os_str().is_empty() {
        let name = named.as_os_str().to_string_lossy();
        let port = name.rsplit_once(':').map(|(_, port)| port).filter(|_| !name.contains('/'));
        if port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())) {
            return Err(format!(
                "--metrics: `{name}` is an address; what is written is a file (./{name}, if it is to be called so), which a collector can read"
            ));
        }
        return to_be_put("--metrics", named);
    }
    let folder = folder();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(|error| format!("--metrics: {}: {error}; name a file: --metrics=FILE", folder.display()))?;
    is_own(&folder).map_err(|why| format!("--metrics: {why}; name a file: --metrics=FILE"))?;
    Ok(folder.join("{pid}.metrics"))
}

/// Refuses what another user could have written.
fn is_own(path: &Path) -> Result<(), String> {
    let data = path.symlink_metadata().map_err(|error| format!("{}: {error}", path.display()))?;
    let user = rustix::process::geteuid().as_raw();
    match (data.uid() == user || user == 0) && data.mode() & 0o022 == 0 && !data.is_symlink() {
        true => Ok(()),
        false => Err(format!(
            "{}: another user's, or others may write it, so it is not read; ask as its user, by `sudo -u NAME raddle top`",
            path.display()
        )),
    }
}

/// What a program's file says.
#[derive(Clone, Debug, Default, PartialEq)]
struct Look {
    program: String,
    pid: u32,
    /// When it was written.
    written: Option<SystemTime>,
    values: BTreeMap<String, f64>,
    /// How many cores the process used since the look before.
    cores: Option<f64>,
    /// Threads by the share of a core that they used since then, the busiest first.
    busy: Vec<(f64, String)>,
    /// How many threads wait for what.
    waiting: Vec<(f64, String)>,
    /// Threads by the seconds that they have waited, and for what.
    waits: Vec<(f64, String)>,
}

impl Look {
    fn at(path: &Path) -> Result<Look, String> {
        is_own(path)?;
        let read = |error| format!("{}: {error}", path.display());
        // Of the file that is read: another one may take its place.
        let file = std::fs::File::open(path).map_err(read)?;
        let text = std::io::read_to_string(&file).map_err(read)?;
        let look = Look::read(&text).ok_or_else(|| format!("{} holds no metrics of raddle's", path.display()))?;
        Ok(Look { written: file.metadata().and_then(|data| data.modified()).ok(), ..look })
    }

    fn read(text: &str) -> Option<Look> {
        let mut lines = text.lines();
        let (program, pid) = lines.next()?.strip_prefix("# program ")?.rsplit_once(' ')?;
        let value = |line: &str| {
            let (name, value) = line.strip_prefix("raddle_")?.rsplit_once(' ')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        // What is no series stands in comments, which Prometheus's collectors pass over.
        let told = |line: &str, what: &str| {
            let (value, rest) = line.strip_prefix(what)?.split_once(' ').unwrap_or((&line[what.len()..], ""));
            Some((value.parse().ok()?, rest.to_string()))
        };
        let all = |what: &str| text.lines().filter_map(|line| told(line, what)).collect::<Vec<(f64, String)>>();
        Some(Look {
            program: program.into(),
            pid: pid.parse().ok()?,
            written: None,
            values: lines.filter_map(value).collect(),
            cores: all("# cores ").first().map(|(cores, _)| *cores),
            busy: all("# busy "),
            waiting: all("# waiting "),
            waits: all("# waits "),
        })
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// The sum over all labels.
    fn sum(&self, name: &str, label: &str) -> f64 {
        let is_it =
            |key: &str| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') && rest.contains(label));
        self.values.iter().filter(|(key, _)| is_it(key)).map(|(_, value)| value).sum()
    }

    fn is_alive(&self) -> bool {
        is_there(self.pid)
    }
}

/// Runs the subcommand.
pub fn run(options: &Options) -> Result<ExitCode, String> {
    let mut seen = BTreeMap::new();
    let is_shown_again = is_screen(&std::io::stdout()) && !options.once;
    loop {
        let looks = looks(options.which.as_deref())?;
        if looks.is_empty() {
            eprintln!("raddle: {}", nothing(options.which.as_deref()));
            return Ok(ExitCode::FAILURE);
        }
        seen = follow(seen, looks);
        // Each time, since a terminal's size changes.
        let screen = is_shown_again.then(|| crate::screen::size(std::io::stdout()).unwrap_or((24, 80)));
        let text = match (options.which.is_some(), seen.values().next()) {
            (true, Some((look, before))) => one(look, before.as_ref(), screen),
            _ => all(&seen),
        };
        let is_read = printed(&screen.map_or_else(|| text.clone(), |screen| on_screen(&text, screen)))?;
        if options.once || !is_read {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs(options.seconds.into()));
    }
}

/// Programs by number, each as it is now, and as it was when its file was written before.
type Seen = BTreeMap<u32, (Look, Option<Look>)>;

fn follow(mut seen: Seen, looks: Vec<Look>) -> Seen {
    let follow = |look: Look| {
        let before = match seen.remove(&look.pid) {
            Some((same, before)) if same.written == look.written => before,
            Some((earlier, _)) => Some(earlier),
            None => None,
        };
        (look.pid, (look, before))
    };
    looks.into_iter().map(follow).collect()
}

/// Why nothing is shown, and what to do.
fn nothing(which: Option<&Path>) -> String {
    let how = "start it by `raddle run --metrics -- PROGRAM`";
    match which {
        Some(which) => format!("the program of {} has ended", which.display()),
        None => format!("no program of yours runs with metrics; {how}, and leave it running"),
    }
}

/// In the place of what stood on the terminal before, and no more than its lines: without flicker, line by line.
fn on_screen(text: &str, (rows, columns): (usize, usize)) -> String {
    let all = text.lines().count();
    // The last row is the cursor's.
    let (shown, cut) = if all < rows { (all, None) } else { (rows - 2, Some(all + 2 - rows)) };
    let cut = cut.map(|cut| format!("  {cut} more lines: enlarge the terminal"));
    let lines = text.lines().take(shown).chain(cut.as_deref());
    let lines = lines.map(|line| line.chars().take(columns).collect::<String>() + "\x1b[K\n");
    format!("\x1b[H{}\x1b[J", lines.collect::<String>())
}

fn looks(which: Option<&Path>) -> Result<Vec<Look>, String> {
    let Some(which) = which else {
        let entries = folders().into_iter().filter_map(|folder| std::fs::read_dir(folder).ok());
        let entries = entries.flatten().flatten().map(|entry| entry.path());
        let files = entries.filter(|path| path.extension().is_some_and(|ending| ending == "metrics"));
        let mut looks = Vec::new();
        for path in files {
            match Look::at(&path) {
                Ok(look) if look.is_alive() => looks.push(look),
                // Left behind by a program that has ended.
                Ok(_) => drop(std::fs::remove_file(&path)),
                Err(_) => {}
            }
        }
        looks.sort_by_key(|look| look.pid);
        return Ok(looks);
    };
    let pid = which.to_str().and_then(|text| text.parse::<u32>().ok());
    let files = pid.map_or_else(|| vec![which.to_path_buf()], files);
    // A file that several programs were given tells of another one.
    let is_its = |look: &Look| pid.is_none_or(|pid| look.pid == pid);
    let path = files.iter().find(|file| file.exists()).unwrap_or(&files[0]);
    let look = match files.iter().find_map(|file| Look::at(file).ok().filter(is_its)) {
        Some(look) => Ok(look),
        None => Look::at(path).and_then(|look| match is_its(&look) {
            true => Ok(look),
            false => Err(format!("{} is process {}'s", path.display(), look.pid)),
        }),
    };
    let look = look.map_err(|why| match pid.is_some() && !path.exists() {
        true if !pid.is_some_and(is_there) => format!("there is no process {}", which.display()),
        true => of_another(which).unwrap_or_else(|| {
            format!(
                "process {} writes no metrics: {} is not there; start it by `raddle run --metrics -- PROGRAM`",
                which.display(),
                path.display()
            )
        }),
        false => format!("{why}; name the file that `raddle run --metrics=FILE` was given, or the process's number"),
    })?;
    Ok(if look.is_alive() { vec![look] } else { Vec::new() })
}

/// What to do about a process of another user's, whose file lies where that user looks.
fn of_another(pid: &Path) -> Option<String> {
    let owner = std::fs::metadata(Path::new("/proc").join(pid)).ok()?.uid();
    if owner == rustix::process::geteuid().as_raw() {
        return None;
    }
    let name = user_name(owner).unwrap_or_else(|| format!("#{owner}"));
    let pid = pid.display();
    Some(format!(
        "process {pid} is user {name}'s, and a user's metrics are shown to that user alone: `sudo -u '{name}' raddle top {pid}`"
    ))
}

/// A user's name, if the file of users has it.
fn user_name(number: u32) -> Option<String> {
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let of = |line: &str| {
        let mut parts = line.split(':');
        let (name, of) = (parts.next()?, parts.nth(1)?);
        (of == number.to_string()).then(|| name.to_string())
    };
    users.lines().find_map(of)
}

/// How much a counter grew a second.
fn rate(look: &Look, before: Option<&Look>, name: &str) -> String {
    let grown = before.and_then(|before| {
        let seconds = look.written?.duration_since(before.written?).ok()?.as_secs_f64();
        Some((look.get(name)? - before.get(name)?) / seconds).filter(|grown| grown.is_finite())
    });
    grown.map_or_else(|| "-".into(), count)
}

fn count(value: f64) -> String {
    match value {
        value if value >= 1e8 => format!("{:.0}M", value / 1e6),
        value if value >= 1e6 => format!("{:.1}M", value / 1e6),
        value if value >= 1e5 => format!("{:.0}k", value / 1e3),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

fn time(seconds: Option<f64>) -> String {
    match seconds {
        None => "-".into(),
        Some(seconds) => raddle_bench::report::nanoseconds(seconds * 1e9),
    }
}

/// A line for each program, in 80 columns.
fn all(seen: &Seen) -> String {
    let mut text = format!(
        "{:>7} {:<14} {:>7} {:^17} {:^13} {:^17}\n{:>7} {:<14} {:>7} {:>5} {:>5} {:>5} {:>6} {:>6} {:>8} {:>8}\n",
        "",
        "",
        "",
        "THREADS",
        "A SECOND",
        "RUN-QUEUE DELAY",
        "PID",
        "PROGRAM",
        "PROC",
        "RUN",
        "READY",
        "WAIT",
        "SWITCH",
        "CREATE",
        "P50",
        "P99"
    );
    seen.values().for_each(|(look, before)| text += &line(look, before.as_ref()));
    text
}

fn line(look: &Look, before: Option<&Look>) -> String {
    let awake = look.sum("processors", "\"awake\"");
    let all = awake + look.sum("processors", "\"asleep\"");
    let state = |name: &str| count(look.sum("threads", name));
    let delay = |quantile: &str| time(look.get(&format!("run_queue_delay_seconds{{quantile=\"{quantile}\"}}")));
    format!(
        "{:>7} {:<14} {:>7} {:>5} {:>5} {:>5} {:>6} {:>6} {:>8} {:>8}\n",
        look.pid,
        look.program.chars().take(14).collect::<String>(),
        format!("{awake:.0}/{all:.0}"),
        state("running"),
        state("ready"),
        state("waiting"),
        rate(look, before, "switches_total"),
        rate(look, before, "threads_created_total"),
        delay("0.5"),
        delay("0.99")
    )
}

/// A figure's name for people: `threads{state="ready"}` as `threads, ready`.
fn label(name: &str) -> String {
    let (name, labels) = name.split_once('{').unwrap_or((name, ""));
    let mut text = name.trim_end_matches("_total").trim_end_matches("_seconds").replace('_', " ");
    for (key, value) in labels.trim_end_matches('}').split("\",").filter_map(|label| label.split_once('=')) {
        let value = value.trim_matches('"');
        text += &match (key, value.parse::<f64>()) {
            ("quantile", Ok(part)) if part < 1.0 => format!(", {}th percentile", (part * 1e6).round() / 1e4),
            ("quantile", _) => ", the longest".to_string(),
            ("state", _) => format!(", {value}"),
            _ => format!(", {key} {value}"),
        };
    }
    text
}

/// The threads that use the cores, and those that wait.
fn threads(look: &Look) -> String {
    let mut text = String::new();
    let cores = look.cores.map_or_else(String::new, |cores| format!("; the process used {cores:.2} cores"));
    if !look.busy.is_empty() || look.cores.is_some() {
        let _ = writeln!(text, "\n  busiest threads in the last second, of one core{cores}");
    }
    for (share, thread) in &look.busy {
        let _ = writeln!(text, "  {:>9.1} %  {thread}", share * 100.0);
    }
    if !look.waiting.is_empty() {
        text += "\n  threads that have waited for a second or longer, for what, and the longest\n";
    }
    let mut waiting = look.waiting.clone();
    waiting.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (threads, what) in &waiting {
        let ending = format!(" for {what}");
        let longest = look.waits.iter().filter_map(|(waited, thread)| Some((waited, thread.strip_suffix(&ending)?)));
        let longest: Vec<_> = longest.map(|(waited, thread)| format!("{waited:>9.1} s  {thread}")).collect();
        let _ = writeln!(text, "  {:>11}  {what:<26}{}", count(*threads), longest.join(&format!("\n{:41}", "")));
    }
    text
}

/// One program, with all that is known: what is asked first, then the threads, then each figure. Figures stand closer
/// together where a screen's rows would not do.
fn one(look: &Look, before: Option<&Look>, screen: Option<(usize, usize)>) -> String {
    let mut text = format!("{} ({})\n\n", look.program, look.pid);
    text += &all(&BTreeMap::new());
    text += &line(look, before);
    text += &threads(look);
    let figures = listed(look, before);
    let fits = |text: &str| screen.is_none_or(|(rows, _)| text.lines().count() < rows);
    let full = format!("{text}{figures}");
    if fits(&full) {
        return full;
    }
    let close = text + &close(look, before, screen.map_or(80, |(_, columns)| columns));
    if fits(&close) { close } else { close.replace("\n\n", "\n") }
}

/// A figure, and how much it grows a second, if it is one that only grows.
fn figure(look: &Look, before: Option<&Look>, name: &str, value: f64) -> (String, String) {
    let shown = if name.contains("_seconds{") { time(Some(value)) } else { count(value) };
    (shown, if name.ends_with("_total") { rate(look, before, name) } else { String::new() })
}

/// A line for each figure.
fn listed(look: &Look, before: Option<&Look>) -> String {
    let mut text = format!("\n  {:<44} {:>12} {:>12}\n", "", "now, or all", "a second");
    for (name, value) in &look.values {
        let (shown, grown) = figure(look, before, name, *value);
        let _ = writeln!(text, "  {:<44} {shown:>12} {grown:>12}", label(name));
    }
    text
}

/// The same figures on fewer lines: two to a line, and those that have a name in common on one.
fn close(look: &Look, before: Option<&Look>, columns: usize) -> String {
    let mut single = Vec::new();
    let mut common: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in &look.values {
        let (shown, grown) = figure(look, before, name, *value);
        let label = label(name);
        match label.rsplit_once(", ").filter(|_| !name.contains("{function=")) {
            Some((of, which)) => {
                let which = which.strip_suffix("th percentile").map_or(which.to_string(), |part| format!("p{part}"));
                common.entry(of.to_string()).or_default().push(format!("{which} {shown}"));
            }
            None if name.contains('{') => common.entry(label).or_default().push(shown),
            None => single.push(format!("  {label:<23} {shown:>6} {grown:>6}")),
        }
    }
    let head = format!("  {:<23} {:>6} {:>6}", "", "value", "/s");
    let a_line = if columns < 2 * head.len() { 1 } else { 2 };
    let mut text = format!("\n{}\n", head.repeat(a_line));
    // Down, then across, as they are read.
    let rows = single.len().div_ceil(a_line).max(1);
    for row in 0..rows.min(single.len()) {
        let cells: String = single.iter().skip(row).step_by(rows).map(String::as_str).collect();
        let _ = writeln!(text, "{cells}");
    }
    for (of, values) in common {
        let _ = writeln!(text, "  {of}: {}", values.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# program my server 42\n# HELP raddle_x y\nraddle_switches_total 1000\nraddle_threads{state=\"waiting\"} 7\n\
                        raddle_processors{pool=\"0\",state=\"awake\"} 1\nraddle_processors{pool=\"1\",state=\"awake\"} 2\n\
                        raddle_quantum_gap_longest_seconds{function=\"so_slow\"} 0.0021\n\
                        # cores 1.5000\n# busy 0.9800 3 \"hot loop\"\n# busy 0.5 4 <unnamed>\n\
                        # waiting 2 a descriptor\n# waiting 70 a mutex\n# waits 61.250 9 \"x\" for a mutex\n";

    #[test]
    fn a_file_is_read() {
        let look = Look::read(TEXT).unwrap();
        assert_eq!((look.program.as_str(), look.pid, look.get("switches_total")), ("my server", 42, Some(1000.0)));
        assert_eq!((look.sum("processors", "\"awake\""), look.sum("threads", "waiting")), (3.0, 7.0));
        assert_eq!(Look::read("something else"), None);
    }

    #[test]
    fn rates_are_of_what_was_seen_before() {
        let at = |seconds: u64| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let look = Look { written: at(7), ..Look::read(TEXT).unwrap() };
        let mut before = Look { written: at(5), ..look.clone() };
        before.values.insert("switches_total".into(), 400.0);
        assert_eq!(rate(&look, Some(&before), "switches_total"), "300");
        assert_eq!([None, Some(&look)].map(|before| rate(&look, before, "switches_total")), ["-", "-"]);
        // A file that was not written again tells nothing new.
        let seen =
            [&before, &look, &look].into_iter().fold(BTreeMap::new(), |seen, look| follow(seen, vec![look.clone()]));
        assert!(seen[&42] == (look.clone(), Some(before)) && all(&seen).contains("my server"), "{seen:?}");
        let shown = one(&look, None, None);
        assert!(shown.contains("  threads, waiting "), "{shown}");
        let gap = shown.lines().find(|line| line.contains(", function so_slow"));
        assert!(gap.is_some_and(|line| line.contains("2.1")), "{shown}");
        // What stands in labels is the program's: names of functions.
        assert_eq!(label("x{function=\"f<a, b_c>\"}"), "x, function f<a, b_c>");
        assert_eq!(label("processors{pool=\"0\",state=\"awake\"}"), "processors, pool 0, awake");
        assert_eq!(label("run_queue_delay_seconds{quantile=\"0.999\"}"), "run queue delay, 99.9th percentile");
        let at = |part: &str| shown.find(part).unwrap_or_else(|| panic!("{part}: {shown}"));
        // The kinds by how many wait for each.
        assert!(at("98.0 %  3 \"hot loop\"") < at("70  a mutex") && at("70  a mutex") < at("2  a descriptor"));
        assert!(shown.contains("61.2 s  9 \"x\"\n") && shown.contains("used 1.50 cores"), "{shown}");
        let ends = [label("switches_total"), label("x_seconds{quantile=\"1\"}")];
        assert_eq!(ends, ["switches", "x, the longest"]);
    }

    /// What a program's file has, with the widest values.
    fn full() -> Look {
        let counters = ["switches", "steals", "steals_tried", "sleeps", "takeovers", "slices", "threads_created"];
        let more = ["threads_ended", "run_queue_delay_samples"];
        let counters = counters.iter().chain(&more).map(|name| format!("raddle_{name}_total 123456\n"));
        let states =
            ["running", "ready", "waiting"].map(|state| format!("raddle_threads{{state=\"{state}\"}} 123456\n"));
        let delays = ["0.5", "0.99", "0.999", "1"]
            .map(|part| format!("raddle_run_queue_delay_seconds{{quantile=\"{part}\"}} 0.0410\n"));
        let rest = "raddle_spare_kernel_threads 1\nraddle_processors{pool=\"0\",state=\"asleep\"} 64\n\
                    raddle_processors{pool=\"0\",state=\"awake\"} 64\n# cores 63.50\n# busy 0.98 3 \"hot loop\"\n\
                    # busy 0.9 4 a\n# busy 0.8 5 b\n# waiting 19 a pthread mutex\n# waits 9.0 9 \"x\" for a pthread mutex\n\
                    # waits 9.0 8 \"y\" for a pthread mutex\n# waits 9.0 7 \"z\" for a pthread mutex\n";
        let text: String = counters.chain(states).chain(delays).collect();
        Look::read(&format!("# program a-server-of-mine 4194304\n{text}{rest}")).unwrap()
    }

    #[test]
    fn a_small_terminal_shows_every_figure() {
        let look = full();
        let list = all(&BTreeMap::from([(look.pid, (look.clone(), None))]));
        assert!(list.lines().all(|line| line.chars().count() <= 80), "{list}");
        assert!(list.lines().last().is_some_and(|line| line.ends_with(" 41.0 ms  41.0 ms")), "{list}");
        for screen in [(24, 80), (45, 100)] {
            let text = one(&look, None, Some(screen));
            assert!(text.lines().count() < screen.0, "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= screen.1), "{text}");
            for value in look.values.keys().map(|name| label(name)) {
                let (first, last) = value.split_once(", ").unwrap_or((&value, ""));
                let last = last.split_once(", ").map_or(last, |(_, last)| last).trim_end_matches("th percentile");
                assert!(text.lines().any(|line| line.contains(first) && line.contains(last)), "{value}: {text}");
            }
            assert!(!on_screen(&text, screen).contains("more lines"));
        }
        let (low, high) = (one(&look, None, Some((24, 80))), one(&look, None, Some((45, 100))));
        assert!(low.contains("  threads: ready 123k, running 123k, waiting 123k\n"), "{low}");
        assert_eq!(high, one(&look, None, None));
    }

    #[test]
    fn what_a_terminal_cuts_is_said() {
        let text: String = (0..30).map(|line| format!("line {line}\n")).collect();
        let shown = on_screen(&text, (24, 80));
        assert_eq!(shown.lines().count(), 24);
        assert!(shown.contains("line 21\x1b[K\n  8 more lines: enlarge the terminal\x1b[K\n\x1b[J"), "{shown}");
        assert!(on_screen(&text, (31, 80)).contains("line 29") && on_screen(&text, (2, 4)).contains("  30"));
        assert!(!on_screen(&text, (31, 80)).contains("more lines"));
    }

    #[test]
    fn what_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let path = std::env::temp_dir().join(format!("raddle-top-{}", std::process::id()));
        std::fs::write(&path, TEXT).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert_eq!(Look::at(&path).unwrap().pid, 42);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o622)).unwrap();
        assert!(Look::at(&path).is_err());
        std::fs::remove_file(path).unwrap();
    }
}
