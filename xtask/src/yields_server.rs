//! memcached with quantum checks, under load: what clients wait while the server also computes for one of them.
//!
//! Clients set and get on connections of their own. One more has all items looked through, again and again, by
//! `lru_crawler crawl all`: a thread of the server computes then, and makes no call that waits. All threads of the
//! server share one processor. Rounds with that request and without it take turns, and the median of their 99th
//! percentiles is compared; a second server, whose checks never switch, shows what is gained, and a third, on kernel
//! threads of one core, what the kernel makes of it.
//!
//! memcached deals connections out to its four workers in turn. So some of the clients share the worker of the heavy
//! request, which waits for the thread that looks through the items, and they wait with it, natively, too. They are
//! counted like the others.

use crate::shell::{Failure, Outcome};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ITEMS: u64 = 300_000;
const CLIENTS: u64 = 16;
/// Of each client: with 1,500 a round was over on a quiet machine before all items had been looked through once.
const REQUESTS: u64 = 5_000;
const ROUNDS: usize = 7;
/// With the heavy request at most so many times what it is without.
const LIMIT: f64 = 2.0;

type Tried<T> = std::io::Result<T>;

struct Server {
    process: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Connection {
    out: TcpStream,
    replies: BufReader<TcpStream>,
    line: String,
}

impl Connection {
    fn to(port: u16) -> Tried<Self> {
        let out = TcpStream::connect(("127.0.0.1", port))?;
        out.set_nodelay(true)?;
        out.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self { replies: BufReader::new(out.try_clone()?), out, line: String::new() })
    }

    fn reply(&mut self) -> Tried<&str> {
        self.line.clear();
        match self.replies.read_line(&mut self.line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(self.line.trim_end()),
        }
    }

    fn ask(&mut self, request: &str) -> Tried<&str> {
        self.out.write_all(request.as_bytes())?;
        self.reply()
    }

    fn set(&mut self, key: u64) -> Tried<()> {
        let stored = self.ask(&format!("set key-{key} 0 0 10\r\n{:010}\r\n", key * 7))?;
        if stored == "STORED" { Ok(()) } else { Err(std::io::Error::other(format!("set: {stored}"))) }
    }

    fn get(&mut self, key: u64) -> Tried<()> {
        let found = self.ask(&format!("get key-{key}\r\n"))?.starts_with("VALUE");
        let right = found && self.reply()? == format!("{:010}", key * 7) && self.reply()? == "END";
        if right { Ok(()) } else { Err(std::io::Error::other(format!("get: {}", self.line))) }
    }

    /// A number of `stats`.
    fn stat(&mut self, name: &str) -> Tried<u64> {
        let mut value = 0;
        self.out.write_all(b"stats\r\n")?;
        loop {
            let line = self.reply()?;
            if line == "END" {
                return Ok(value);
            }
            if let Some(text) = line.strip_prefix("STAT ").and_then(|rest| rest.strip_prefix(name)) {
                value = text.trim().parse().unwrap_or(value);
            }
        }
    }
}

/// Under `raddle run` with that `--preempt`, or natively on one core.
fn start(memcached: &Path, raddle: &Path, preempt: Option<&str>) -> Tried<Server> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut command = Command::new(if preempt.is_some() { raddle } else { Path::new("taskset") });
    match preempt {
        Some(how) => command.args(["run", "--main", "--processors", "1", &format!("--preempt={how}"), "--"]),
        None => command.args(["-c", "0"]),
    };
    command.arg(memcached);
    // Its table does not grow: beside a growing one the request can stop memcached's threads for ever (each holds what
    // the other waits for), in any runtime.
    command.args(["-o", "hashpower=20,no_hashexpand"]);
    command.args(["-u", "root", "-l", "127.0.0.1", "-t", "4", "-m", "512", "-p", &port.to_string()]);
    let server = Server { process: command.env("RADDLE_QUANTUM", "50").stdin(Stdio::null()).spawn()?, port };
    let (begun, mut requests) = (Instant::now(), String::new());
    let mut connection = loop {
        match Connection::to(port) {
            Ok(connection) => break connection,
            Err(error) if begun.elapsed() > Duration::from_secs(30) => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // Without a reply to each: the last one is stored when all are.
    for key in 1..ITEMS {
        requests += &format!("set key-{key} 0 0 10 noreply\r\n{:010}\r\n", key * 7);
        if requests.len() > 50_000 {
            connection.out.write_all(requests.as_bytes())?;
            requests.clear();
        }
    }
    connection.out.write_all(requests.as_bytes())?;
    connection.set(0)?;
    // Between items the crawler would sleep.
    connection.ask("lru_crawler sleep 0\r\n")?;
    Ok(server)
}

/// What a client waited, for each request.
fn client(port: u16, seed: u64) -> Tried<Vec<Duration>> {
    let mut connection = Connection::to(port)?;
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut waited = Vec::new();
    for turn in 0..REQUESTS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let begun = Instant::now();
        if turn % 10 == 0 {
            connection.set(random % ITEMS)?
        } else {
            connection.get(random % ITEMS)?
        }
        waited.push(begun.elapsed());
    }
    Ok(waited)
}

/// Has all items looked through again and again, until the others have ended.
fn heavy(port: u16, ended: &AtomicBool) -> Tried<()> {
    let mut connection = Connection::to(port)?;
    while !ended.load(Ordering::Relaxed) {
        let told = connection.ask("lru_crawler crawl all\r\n")?;
        if told != "OK" && !told.starts_with("BUSY") {
            return Err(std::io::Error::other(format!("lru_crawler: {told}")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

struct Round {
    p50: Duration,
    p99: Duration,
    /// Items that the server looked through meanwhile.
    looked_through: u64,
    seconds: f64,
}

fn round(server: &Server, with_heavy: bool, seed: u64) -> Tried<Round> {
    let ended = AtomicBool::new(false);
    let mut connection = Connection::to(server.port)?;
    let (before, begun) = (connection.stat("crawler_items_checked")?, Instant::now());
    let mut waited = std::thread::scope(|scope| -> Tried<Vec<Duration>> {
        let beside = with_heavy.then(|| scope.spawn(|| heavy(server.port, &ended)));
        let clients: Vec<_> =
            (0..CLIENTS).map(|at| scope.spawn(move || client(server.port, seed * CLIENTS + at + 1))).collect();
        let all: Vec<_> = clients.into_iter().map(|client| client.join().expect("no client panics")).collect();
        ended.store(true, Ordering::Relaxed);
        if let Some(beside) = beside {
            beside.join().expect("it does not panic")?;
        }
        all.into_iter().try_fold(Vec::new(), |mut sum, one| {
            sum.append(&mut one?);
            Ok(sum)
        })
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let looked_through = connection.stat("crawler_items_checked")? - before;
    // What was begun is looked through before the next round.
    let mut still = before;
    loop {
        let now = connection.stat("crawler_items_checked")?;
        if now == still {
            break;
        }
        still = now;
        std::thread::sleep(Duration::from_millis(50));
    }
    waited.sort_unstable();
    let at = |part: f64| waited[(waited.len() as f64 * part) as usize];
    Ok(Round { p50: at(0.5), p99: at(0.99), looked_through, seconds })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Fails if the others wait more than [`LIMIT`] times as long beside the heavy request.
pub fn run(memcached: &Path, raddle: &Path) -> Outcome {
    let told = |error: std::io::Error| Failure::failed(format!("memcached under load: {error}"));
    let server = start(memcached, raddle, Some("yields")).map_err(told)?;
    let without_checks = start(memcached, raddle, Some("never")).map_err(told)?;
    let native = start(memcached, raddle, None).map_err(told)?;
    let mut rows: [Vec<Round>; 4] = Default::default();
    for at in 0..ROUNDS {
        let seed = at as u64 * 4;
        rows[0].push(round(&server, false, seed).map_err(told)?);
        rows[1].push(round(&server, true, seed + 1).map_err(told)?);
        rows[2].push(round(&without_checks, true, seed + 2).map_err(told)?);
        rows[3].push(round(&native, true, seed + 3).map_err(told)?);
    }
    println!("memcached, one processor, {CLIENTS} clients, medians of {ROUNDS} rounds (lowest and highest p99)");
    let ms = |wait: Duration| wait.as_secs_f64() * 1e3;
    let names = ["alone", "beside the heavy request", "beside it, without checks", "beside it, natively"];
    for (name, rounds) in names.iter().zip(&rows) {
        let p99 = || rounds.iter().map(|round| ms(round.p99));
        println!(
            "{name:28} p50 {:7.3} ms, p99 {:7.3} ms ({:.3} to {:.3}), {:.0} items looked through in a second",
            median(rounds.iter().map(|round| ms(round.p50))),
            median(p99()),
            p99().fold(f64::MAX, f64::min),
            p99().fold(0.0, f64::max),
            median(rounds.iter().map(|round| round.looked_through as f64 / round.seconds)),
        );
    }
    if rows[1].iter().any(|round| round.looked_through < ITEMS) {
        return Err(Failure::failed("memcached under load: not all items were looked through once in each round"));
    }
    // Neighbours in time, so that what else the machine does concerns both.
    let ratio = median(rows[0].iter().zip(&rows[1]).map(|(alone, beside)| ms(beside.p99) / ms(alone.p99)));
    println!("p99 beside the heavy request: {ratio:.2} times what it is alone (limit {LIMIT:.1})");
    if ratio > LIMIT {
        Err(Failure::failed(format!("memcached under load: {ratio:.2} times, not {LIMIT:.1}")))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    }
}
