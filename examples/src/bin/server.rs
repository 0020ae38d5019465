//! An echo server with a thread for each connection, and as many clients. std's own sockets and threads; one line makes
//! them lightweight.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

fn echo(stream: TcpStream) -> io::Result<()> {
    let mut answers = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        writeln!(answers, "{}", line?)?;
    }
    Ok(())
}

fn client(address: std::net::SocketAddr, number: u32) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    writeln!(stream, "hello from {number}")?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer == format!("hello from {number}\n"))
}

#[raddle::main]
fn main() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || echo(stream));
        }
    });
    let clients: Vec<_> = (0..100).map(|number| thread::spawn(move || client(address, number))).collect();
    let mut answered = 0;
    for client in clients {
        answered += u32::from(client.join().expect("no client panics")?);
    }
    println!("{answered} of 100 clients were answered");
    Ok(())
}
