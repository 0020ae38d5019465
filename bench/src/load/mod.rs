//! The load on a server: many connections, one request outstanding on each, from one kernel thread with an epoll loop.
//!
//! The generator is the same for all servers and runs on the same machine: it takes its share of the cores away from
//! them, the same work for each request. Latencies are from before the request is written until the whole answer was
//! read.

pub mod backends;
pub mod catalogue;
pub mod latency;
mod programs;
pub mod protocol;
pub mod server;
pub mod upstream;
pub mod web;

use crate::program::{LATENCIES, Outcome, Request};
use latency::Latencies;
use protocol::{Echo, Memcached, Protocol};
use rustix::event::epoll;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{Server, Usage};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Runs the workload that `request` names against the server that `words` start.
pub fn run(request: &Request, words: &[String]) -> Result<Outcome, String> {
    let connections = request.args.number("C")?;
    let plan = Plan {
        connections: u32::try_from(connections).map_err(|_| format!("C={connections}: too many connections"))?,
        warm_up: Duration::from_millis(request.args.number("warm_ms")?),
        time: Duration::from_millis(request.args.number("ms")?),
    };
    // The crate that serves keeps two descriptors for a connection.
    raise_limit(if request.workload == "service" { 2 * connections + 200 } else { connections })?;
    if request.workload == "service" {
        return service(request, &plan, words);
    }
    let server = Server::start(&complete(words, request), &settings(request))?;
    match request.workload.as_str() {
        "echo" => plan.run(&Echo, &server),
        "memcached" => plan.run(&Memcached, &server),
        other => Err(request.not_offered(&format!("there is no load named `{other}`"))),
    }
}

/// The web service, with the servers that it asks, all on the same cores.
fn service(request: &Request, plan: &Plan, words: &[String]) -> Result<Outcome, String> {
    let pool = request.args.number("pool")?;
    let backends = backends::Backends::start(pool)?;
    let mut words = complete(words, request);
    words.extend(backends.words());
    words.extend(["--pool", &pool.to_string(), "--processors", &request.processors.to_string()].map(String::from));
    let server = Server::start(&words, &settings(request))?;
    let before = backends.cpu_ns();
    let outcome = plan.run(&web::Web, &server)?;
    let spent = backends.cpu_ns() - before;
    // Each answer was counted before it was given.
    let views = backends.views()?;
    if views < outcome.ops {
        return Err(format!("{} requests were answered, but Redis counted {views}", outcome.ops));
    }
    Ok(outcome.with("backends_cpu_ns", spent / views.max(1)).with("views", views))
}

/// The server's words, with what is known only now.
fn complete(words: &[String], request: &Request) -> Vec<String> {
    words.iter().map(|word| word.replace(catalogue::PROCESSORS, &request.processors.to_string())).collect()
}

/// What a server under `raddle run` takes from its environment.
fn settings(request: &Request) -> Vec<(&'static str, String)> {
    let policy = request.policy.clone().map(|policy| ("RADDLE_POLICY", policy));
    std::iter::once(("RADDLE_PROCESSORS", request.processors.to_string())).chain(policy).collect()
}

/// So many connections need as many descriptors here, and in the server, which inherits the limit.
fn raise_limit(connections: u64) -> Result<(), String> {
    let needed = connections + 100;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_none_or(|maximum| maximum >= needed) {
        let raised = Rlimit { current: limit.maximum.or(Some(needed)), maximum: limit.maximum };
        return setrlimit(Resource::Nofile, raised).map_err(|e| format!("cannot raise the limit of descriptors: {e}"));
    }
    let most = limit.maximum.unwrap_or_default();
    Err(format!(
        "{connections} connections need {needed} descriptors, the hard limit is {most}; raise it (`ulimit -Hn`)"
    ))
}

struct Plan {
    connections: u32,
    warm_up: Duration,
    time: Duration,
}

struct Connection {
    stream: TcpStream,
    number: u64,
    sent: Instant,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// So much of the answer was there.
    got: Vec<u8>,
}

fn broken(error: std::io::Error) -> String {
    format!("a connection broke: {error}")
}

impl Plan {
    fn run(&self, protocol: &impl Protocol, server: &Server) -> Result<Outcome, String> {
        let mut first = connect(server.address)?;
        for (request, answer) in protocol.prepare() {
            first.write_all(&request).map_err(broken)?;
            let mut got = vec![0; answer.len()];
            first.read_exact(&mut got).map_err(broken)?;
            if got != answer {
                return Err(format!("the server answered {:?}", String::from_utf8_lossy(&got)));
            }
        }
        drop(first);
        let mut all = self.connect_all(protocol, server.address)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| format!("cannot make an epoll set: {e}"))?;
        for (index, connection) in all.iter().enumerate() {
            connection.stream.set_nonblocking(true).map_err(broken)?;
            let events = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&set, &connection.stream, epoll::EventData::new_u64(index as u64), events)
                .map_err(|e| format!("cannot watch a connection: {e}"))?;
        }
        for connection in &mut all {
            connection.send()?;
        }
        let mut loads = Loads { protocol, all, set, events: Vec::with_capacity(256), buffer: vec![0; 4096] };
        loads.go_on(self.warm_up, None)?;
        let before = server.usage();
        let mut seen = Latencies::new();
        let time = loads.go_on(self.time, Some(&mut seen))?;
        let after = server.usage();
        Ok(outcome(&seen, time, before, after))
    }

    /// One after the other, each used once: so the server's queue of new connections never runs over, which would cost
    /// seconds.
    fn connect_all(&self, protocol: &impl Protocol, address: SocketAddr) -> Result<Vec<Connection>, String> {
        let mut all = Vec::with_capacity(self.connections as usize);
        for index in 0..self.connections {
            let stream = connect(address).map_err(|error| format!("connection {index}: {error}"))?;
            let (request, answer) = (Vec::with_capacity(256), Vec::with_capacity(256));
            let mut new = Connection { stream, number: 0, sent: Instant::now(), request, answer, got: Vec::new() };
            new.next(protocol, index);
            new.stream.write_all(&new.request).map_err(broken)?;
            let mut buffer = [0; 4096];
            loop {
                let count =
                    new.stream.read(&mut buffer).map_err(|error| format!("connection {index} broke: {error}"))?;
                if new.take(protocol, &buffer[..count])? {
                    break;
                }
            }
            new.next(protocol, index);
            all.push(new);
        }
        Ok(all)
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let stream = TcpStream::connect(address).map_err(|e| format!("cannot connect: {e}"))?;
    stream.set_nodelay(true).map_err(broken)?;
    stream.set_read_timeout(Some(server::ANSWERS_WITHIN)).map_err(broken)?;
    Ok(stream)
}

fn outcome(seen: &Latencies, time: Duration, before: Usage, after: Usage) -> Outcome {
    let each = |sum: u64| sum as f64 / seen.total().max(1) as f64;
    let rate = seen.total() as f64 / time.as_secs_f64();
    Outcome::new(seen.total(), time, 0)
        .with("requests_per_s", rate.round())
        .with("p50_ns", seen.quantile(0.5))
        .with("p99_ns", seen.quantile(0.99))
        .with("p999_ns", seen.quantile(0.999))
        .with(LATENCIES, seen.told())
        .with("server_cpu_ns", each(after.cpu_ns - before.cpu_ns).round())
        .with("server_rss_kib", after.rss_kib)
        .with("server_page_tables_kib", after.page_tables_kib)
        .with("server_kernel_threads", after.kernel_threads)
        .with("server_kernel_switches", each(after.kernel_switches - before.kernel_switches))
        .peak_rss(after.peak_rss_kib)
}

impl Connection {
    /// The next request is the one to be sent.
    fn next(&mut self, protocol: &impl Protocol, index: u32) {
        self.request.clear();
        self.answer.clear();
        self.got.clear();
        protocol.ask(index, self.number, &mut self.request, &mut self.answer);
        self.number += 1;
    }

    fn send(&mut self) -> Result<(), String> {
        self.sent = Instant::now();
        match self.stream.write(&self.request).map_err(broken)? {
            all if all == self.request.len() => Ok(()),
            some => Err(format!("only {some} bytes of a request were taken")),
        }
    }

    /// Some bytes of the answer have come; whether they were the last.
    fn take(&mut self, protocol: &impl Protocol, bytes: &[u8]) -> Result<bool, String> {
        if bytes.is_empty() {
            return Err("the server has closed a connection".into());
        }
        let number = self.number;
        let wrong = |error| format!("request {number} was answered wrongly: {error}");
        // Nearly always it has come as a whole.
        if self.got.is_empty() {
            let complete = protocol.is_complete(bytes, &self.answer).map_err(wrong)?;
            if !complete {
                self.got.extend_from_slice(bytes);
            }
            return Ok(complete);
        }
        self.got.extend_from_slice(bytes);
        protocol.is_complete(&self.got, &self.answer).map_err(wrong)
    }
}

struct Loads<'a, P> {
    protocol: &'a P,
    all: Vec<Connection>,
    set: std::os::fd::OwnedFd,
    events: Vec<epoll::Event>,
    buffer: Vec<u8>,
}

impl<P: Protocol> Loads<'_, P> {
    /// Answers are taken and requests sent for so long, and until one was noted where they are. Gives the time that it
    /// took.
    fn go_on(&mut self, time: Duration, mut seen: Option<&mut Latencies>) -> Result<Duration, String> {
        let start = Instant::now();
        let patience = rustix::time::Timespec { tv_sec: server::ANSWERS_WITHIN.as_secs() as i64, tv_nsec: 0 };
        loop {
            self.events.clear();
            let spare = rustix::buffer::spare_capacity(&mut self.events);
            match epoll::wait(&self.set, spare, Some(&patience)) {
                Ok(0) => return Err(format!("no answer to any request for {} s", server::ANSWERS_WITHIN.as_secs())),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("cannot wait for answers: {error}")),
            }
            for event in &self.events {
                let index = event.data.u64();
                let connection = &mut self.all[index as usize];
                let count = match connection.stream.read(&mut self.buffer) {
                    Ok(count) => count,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(broken(error)),
                };
                if connection.take(self.protocol, &self.buffer[..count])? {
                    if let Some(seen) = &mut seen {
                        seen.note(connection.sent.elapsed().as_nanos() as u64);
                    }
                    connection.next(self.protocol, index as u32);
                    connection.send()?;
                }
            }
            let spent = start.elapsed();
            if spent >= time && seen.as_ref().is_none_or(|seen| seen.total() > 0) {
                return Ok(spent);
            }
        }
    }
}
