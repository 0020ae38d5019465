//! The server under load: a child process, what it uses of memory and of the processors.

use crate::child::tied;
use crate::processor_time::ProcessorTime;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// In a server's command line: the number of a port that is free.
pub const PORT: &str = "{port}";

/// How long a server may take until it can be connected to, and to answer: far longer than on a busy machine.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

/// A running server, ended when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

/// What a server used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Nanoseconds of all its kernel threads on processors.
    pub cpu_ns: u64,
    /// Resident set now.
    pub rss_kib: u64,
    /// Largest resident set so far.
    pub peak_rss_kib: u64,
    /// Page tables.
    pub page_tables_kib: u64,
    /// Kernel threads.
    pub kernel_threads: u64,
    /// Switches of its kernel threads by the kernel.
    pub kernel_switches: u64,
}

impl Server {
    /// Starts `words`, with `settings` in its environment. A server whose command line holds [`PORT`] listens there;
    /// another one prints `port N` first.
    pub fn start(words: &[String], settings: &[(&str, String)]) -> Result<Server, String> {
        let named = words.iter().any(|word| word.contains(PORT));
        let port = if named { free_port()? } else { 0 };
        let words: Vec<String> = words.iter().map(|word| word.replace(PORT, &port.to_string())).collect();
        let (program, arguments) = words.split_first().ok_or("no server named; pass -- COMMAND")?;
        let mut command = leash(Path::new(program));
        command
            .args(arguments)
            .envs(settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", words.join(" ")))?;
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Server { child, address: address(port) };
        if named {
            server.wait_until_it_listens()?;
        } else {
            let out = server.child.stdout.take().ok_or("the server has no output")?;
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line).map_err(|e| format!("cannot read what the server prints: {e}"))?;
            let port = line.trim().strip_prefix("port ").and_then(|port| port.parse().ok());
            server.address = address(port.ok_or_else(|| format!("the server printed `{}`, no port", line.trim()))?);
        }
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the server has ended ({status})"));
            }
            if start.elapsed() > ANSWERS_WITHIN {
                return Err(format!("the server did not listen within {} s", ANSWERS_WITHIN.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// What it has used so far.
    pub fn usage(&self) -> Usage {
        let folder = format!("/proc/{}", self.child.id());
        let mut usage = Usage::default();
        for task in std::fs::read_dir(format!("{folder}/task")).into_iter().flatten().flatten() {
            usage.kernel_threads += 1;
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
            usage.kernel_switches += numbers.nth(2).unwrap_or(0);
        }
        usage.cpu_ns = ProcessorTime::of(self.child.id()).own_ns;
        let memory = crate::memory::Memory::of(&folder);
        usage.rss_kib = memory.rss_kib;
        usage.peak_rss_kib = memory.peak_rss_kib;
        usage.page_tables_kib = memory.page_tables_kib;
        usage
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when it has ended by itself, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A command that does not outlive this process, whatever becomes of it.
pub(super) fn leash(program: &Path) -> Command {
    let mut command = Command::new(program);
    tied(&mut command, Signal::KILL);
    command
}

pub(super) fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|e| format!("no port is free: {e}"))
}
