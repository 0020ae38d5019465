//! The other web service that the service under load asks: HTTP with kept connections, answered at once from one kernel
//! thread.

use super::backends::rate;
use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;

/// It runs until the process ends.
#[derive(Debug)]
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
}

impl Upstream {
    /// Starts it.
    pub fn start() -> Result<Upstream, String> {
        let failed = |error| format!("cannot start the service that is asked: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
        listener.set_nonblocking(true).map_err(failed)?;
        watch(&set, &listener, LISTENER).map_err(failed)?;
        thread::spawn(move || Loop { listener, set, all: Vec::new(), free: Vec::new() }.run());
        Ok(Upstream { address })
    }
}

/// The listener's number among the events.
const LISTENER: u64 = u64::MAX;

fn watch(set: &OwnedFd, descriptor: impl std::os::fd::AsFd, number: u64) -> std::io::Result<()> {
    Ok(epoll::add(set, descriptor, epoll::EventData::new_u64(number), epoll::EventFlags::IN)?)
}

struct Loop {
    listener: TcpListener,
    set: OwnedFd,
    all: Vec<Option<Connection>>,
    free: Vec<usize>,
}

struct Connection {
    stream: TcpStream,
    got: Vec<u8>,
}

impl Loop {
    fn run(mut self) {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(&self.set, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                // The service will notice, and the run fail.
                Err(_) => return,
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(),
                    index => self.serve(index as usize),
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            let index = self.free.pop().unwrap_or_else(|| {
                self.all.push(None);
                self.all.len() - 1
            });
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if ready.and_then(|()| watch(&self.set, &stream, index as u64)).is_ok() {
                self.all[index] = Some(Connection { stream, got: Vec::new() });
            } else {
                self.free.push(index);
            }
        }
    }

    fn serve(&mut self, index: usize) {
        let Some(connection) = &mut self.all[index] else { return };
        if !connection.answer() {
            // Its closing takes it out of the set.
            self.all[index] = None;
            self.free.push(index);
        }
    }
}

impl Connection {
    /// Answers what has come; false when the connection is at its end.
    fn answer(&mut self) -> bool {
        let mut buffer = [0; 2048];
        match self.stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => self.got.extend_from_slice(&buffer[..count]),
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
        while let Some(end) = self.got.windows(4).position(|four| four == b"\r\n\r\n") {
            let response = respond(&self.got[..end]);
            self.got.drain(..end + 4);
            // A short answer always fits the socket's buffer: the other side waits for it.
            if self.stream.write_all(&response).is_err() {
                return false;
            }
        }
        true
    }
}

fn respond(head: &[u8]) -> Vec<u8> {
    let head = String::from_utf8_lossy(head);
    let id = head.strip_prefix("GET /rate/").and_then(|rest| rest.split(' ').next()?.parse().ok());
    match id {
        Some(id) => {
            let body = rate(id).to_string();
            format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        }
        None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_string(),
    }
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_connections_are_answered_in_pieces_and_together() {
        let upstream = Upstream::start().unwrap();
        let mut stream = TcpStream::connect(upstream.address).unwrap();
        stream.write_all(b"GET /rate/5 HTTP/1.1\r\nHost: x\r\n\r\nGET /rate/17 HTT").unwrap();
        stream.write_all(b"P/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        let mut buffer = [0; 1024];
        while !text.contains("404") {
            let count = stream.read(&mut buffer).unwrap();
            text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        }
        let bodies: Vec<&str> = text.split("\r\n\r\n").collect();
        assert!(bodies[1].starts_with('6') && bodies[2].starts_with('1'), "{text}");
    }
}
