//! What the service under load asks: a Redis server, a PostgreSQL server and another web service, started for the run
//! on ports of their own, in a folder that goes with them.

use super::server::{ANSWERS_WITHIN, free_port, leash};
use super::upstream::Upstream;
use crate::processor_time::ProcessorTime;
use rustix::process::{Pid, Signal, getuid, kill_process};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// How many items there are.
pub const ITEMS: u32 = 10_000;

/// What PostgreSQL says of an item: its name and its price.
pub fn row(id: u32) -> (String, u64) {
    (format!("item number {id}"), u64::from(id) * 7919 % 10_000)
}

/// What Redis says of an item: how many there are in stock.
pub fn stock(id: u32) -> u64 {
    u64::from(id) * 104_729 % 1000
}

/// What the other service says of an item.
pub fn rate(id: u32) -> u64 {
    u64::from(id) % 17 + 1
}

/// The same as [`row`], in SQL; a statement a line.
const TABLE: &str = "\
CREATE TABLE items AS SELECT id, 'item number ' || id AS name, (id::bigint * 7919 % 10000) AS cents FROM generate_series(1, 10000) id;
ALTER TABLE items ADD PRIMARY KEY (id);
ANALYZE items;
";

/// All three, running.
#[derive(Debug)]
pub struct Backends {
    redis: Process,
    postgres: Process,
    upstream: Upstream,
    // After the processes, which live in it.
    _folder: Folder,
}

impl Backends {
    /// Starts them and fills them. PostgreSQL admits `connections`.
    pub fn start(connections: u64) -> Result<Backends, String> {
        let folder = Folder::new()?;
        let postgres = postgres(&folder.0, connections)?;
        let redis = redis(&folder.0)?;
        fill(redis.address)?;
        Ok(Backends { redis, postgres, upstream: Upstream::start()?, _folder: folder })
    }

    /// What a service has to be told to find them.
    pub fn words(&self) -> Vec<String> {
        let SocketAddr::V4(postgres) = self.postgres.address else { return Vec::new() };
        let parameters = format!("host={} port={} user=postgres dbname=postgres", postgres.ip(), postgres.port());
        let redis = self.redis.address.to_string();
        let upstream = self.upstream.address.to_string();
        let words = ["--redis", &redis, "--postgres", &parameters, "--upstream", &upstream];
        words.map(String::from).to_vec()
    }

    /// How many views Redis has counted.
    pub fn views(&self) -> Result<u64, String> {
        let answers = ask_redis(self.redis.address, "GET views\r\n", 2)?;
        answers.get(1).and_then(|text| text.parse().ok()).ok_or_else(|| format!("Redis answered {answers:?}"))
    }

    /// Nanoseconds that the two servers spent on processors.
    pub fn cpu_ns(&self) -> u64 {
        let own = ProcessorTime::of(self.redis.child.id()).own_ns;
        // A process for each connection; the first child's parent is the server.
        let parent = self.postgres.child.id().to_string();
        let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let of_postgres = pids.filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
            after_name.split_whitespace().nth(1) == Some(parent.as_str())
        });
        own + of_postgres.map(|pid| ProcessorTime::of(pid).own_ns).sum::<u64>()
    }
}

/// A folder that goes when dropped.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, String> {
        let path = std::env::temp_dir().join(format!("raddle-service-{}", std::process::id()));
        let failed = |error| format!("cannot make {}: {error}", path.display());
        std::fs::create_dir_all(&path).map_err(failed)?;
        // The servers run as somebody else.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).map_err(failed)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed lies in the system's folder for such things.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server; asked to end, and waited for, when dropped.
#[derive(Debug)]
struct Process {
    child: Child,
    address: SocketAddr,
}

impl Process {
    fn start(mut command: Command, port: u16, log: &Path) -> Result<Process, String> {
        let name = format!("{:?}", command.get_program());
        let file = std::fs::File::create(log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let errors = file.try_clone().map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = command.spawn().map_err(|e| format!("cannot start {name}: {e}"))?;
        let mut process = Process { child, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        let start = Instant::now();
        while TcpStream::connect(process.address).is_err() {
            if process.child.try_wait().is_ok_and(|status| status.is_some()) || start.elapsed() > ANSWERS_WITHIN {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                return Err(format!("{name} does not come up: {said}"));
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(process)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Both fail only when it has ended by itself, which is what is wanted.
            let _ = kill_process(pid, Signal::INT);
            let _ = self.child.wait();
        }
    }
}

/// The first of the programs that is there.
fn program(name: &str, package: &str) -> Result<PathBuf, String> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| format!("{name} is missing; install Debian's package {package}"))
}

fn redis(folder: &Path) -> Result<Process, String> {
    let port = free_port()?;
    let mut command = leash(&program("redis-server", "redis-server")?);
    command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port", &port.to_string()]);
    command.arg("--dir").arg(folder);
    Process::start(command, port, &folder.join("redis.log"))
}

fn ask_redis(address: SocketAddr, request: &str, lines: usize) -> Result<Vec<String>, String> {
    let failed = |error| format!("Redis does not answer: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN)).map_err(failed)?;
    stream.write_all(request.as_bytes()).map_err(failed)?;
    BufReader::new(stream).lines().take(lines).collect::<Result<_, _>>().map_err(failed)
}

fn fill(redis: SocketAddr) -> Result<(), String> {
    let sets: String = (1..=ITEMS).map(|id| format!("SET stock:{id} {}\r\n", stock(id))).collect();
    let answers = ask_redis(redis, &(sets + "SET views 0\r\n"), ITEMS as usize + 1)?;
    match answers.iter().find(|answer| *answer != "+OK") {
        None => Ok(()),
        Some(other) => Err(format!("Redis answered {other}")),
    }
}

/// PostgreSQL refuses to run as root; it then runs as nobody.
fn unprivileged(program: &Path) -> Command {
    if !getuid().is_root() {
        return leash(program);
    }
    let mut command = leash(Path::new("/usr/bin/setpriv"));
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "--pdeathsig=INT", "--"]).arg(program);
    command
}

fn postgres(folder: &Path, connections: u64) -> Result<Process, String> {
    let data = folder.join("postgres");
    std::fs::create_dir_all(&data).map_err(|e| format!("cannot make {}: {e}", data.display()))?;
    if getuid().is_root() {
        // Debian's nobody and nogroup.
        std::os::unix::fs::chown(&data, Some(65534), Some(65534))
            .map_err(|e| format!("cannot give {} to nobody: {e}", data.display()))?;
    }
    let mut init = unprivileged(&program("initdb", "postgresql")?);
    init.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C", "-D"]).arg(&data);
    finish(init, "")?;
    let server = program("postgres", "postgresql")?;
    let mut alone = unprivileged(&server);
    alone.args(["--single", "-D"]).arg(&data).arg("postgres");
    finish(alone, TABLE)?;
    let port = free_port()?;
    let mut command = unprivileged(&server);
    command.arg("-D").arg(&data);
    let (port_setting, most) = (format!("port={port}"), format!("max_connections={}", connections + 10));
    for setting in [port_setting.as_str(), &most, "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
    {
        command.args(["-c", setting]);
    }
    Process::start(command, port, &folder.join("postgres.log"))
}

/// Runs a command to its end, with this text as its input.
fn finish(mut command: Command, input: &str) -> Result<(), String> {
    command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        pipe.write_all(input.as_bytes()).map_err(|error| format!("cannot tell {command:?} what to do: {error}"))?;
    }
    let output = child.wait_with_output().map_err(|error| format!("cannot wait for {command:?}: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && !errors.contains("ERROR") {
        return Ok(());
    }
    Err(format!("{command:?} failed ({}): {errors}", output.status))
}
