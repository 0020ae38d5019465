//! An echo server of the standard library's blocking sockets, a thread for each connection, and clients that talk to
//! it.
//!
//! `cargo run --example echo [CLIENTS]`: prints how many messages came back, and how many kernel threads there were.
//! The dependency is `raddle = { package = "raddle-std", … }`; an example cannot rename its own package, hence the
//! first line.
use raddle_std as raddle;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

fn echo(mut stream: TcpStream) -> std::io::Result<()> {
    let mut message = [0; 64];
    loop {
        match stream.read(&mut message)? {
            0 => return Ok(()),
            n => stream.write_all(&message[..n])?,
        }
    }
}

#[raddle::main]
fn main() -> std::io::Result<()> {
    let clients: u8 = std::env::args().nth(1).map_or(100, |text| text.parse().expect("a number of clients below 256"));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || echo(stream));
        }
    });
    let clients: Vec<_> = (0..clients)
        .map(|i| {
            thread::spawn(move || -> std::io::Result<u32> {
                let mut stream = TcpStream::connect(address)?;
                let mut came_back = 0;
                for k in 0..10 {
                    stream.write_all(&[i ^ k; 64])?;
                    let mut message = [0; 64];
                    stream.read_exact(&mut message)?;
                    came_back += u32::from(message == [i ^ k; 64]);
                }
                Ok(came_back)
            })
        })
        .collect();
    let kernel_threads = std::fs::read_dir("/proc/self/task")?.count();
    let mut came_back = 0;
    for client in clients {
        came_back += client.join().expect("no client panics")?;
    }
    println!("{came_back} messages came back; {kernel_threads} kernel threads");
    Ok(())
}
