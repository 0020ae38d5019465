//! The server of README: `cargo run -p raddle-examples --bin echo localhost:8080`, then `nc localhost 8080`.
#![forbid(unsafe_code)]

#[raddle::main]
fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:8080".into());
    for stream in std::net::TcpListener::bind(address)?.incoming() {
        let mut stream = stream?;
        std::thread::spawn(move || std::io::copy(&mut stream.try_clone()?, &mut stream));
    }
    Ok(())
}
