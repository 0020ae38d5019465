//! An echo server with a `std::thread` for each connection: as one would write it, knowing of no runtime.
//!
//! Prints `port N`, then serves until it is killed.
#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

fn serve(mut connection: TcpStream) -> std::io::Result<()> {
    connection.set_nodelay(true)?;
    let mut buffer = [0; 1024];
    loop {
        match connection.read(&mut buffer)? {
            0 => return Ok(()),
            count => connection.write_all(&buffer[..count])?,
        }
    }
}

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("port {}", listener.local_addr()?.port());
    for connection in listener.incoming() {
        let connection = connection?;
        // A client that breaks its connection off is no fault of the server's.
        std::thread::Builder::new().spawn(move || drop(serve(connection)))?;
    }
    Ok(())
}
