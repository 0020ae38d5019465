//! A library that knows nothing of raddle: threads, locks and sockets of std.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// How many kernel threads there are while 300 threads wait at one gate.
pub fn kernel_threads_of_300() -> usize {
    let gate = Arc::new((Mutex::new(0), Condvar::new()));
    let come = |gate: &(Mutex<u32>, Condvar), until: u32| {
        let mut here = gate.0.lock().unwrap();
        *here += 1;
        gate.1.notify_all();
        drop(gate.1.wait_while(here, |here| *here < until).unwrap());
    };
    let threads: Vec<_> = (0..300)
        .map(|_| {
            let gate = gate.clone();
            thread::spawn(move || come(&gate, 302))
        })
        .collect();
    come(&gate, 301);
    let kernel_threads = std::fs::read_dir("/proc/self/task").unwrap().count();
    come(&gate, 302);
    for thread in threads {
        thread.join().unwrap();
    }
    kernel_threads
}

/// What an echo of these bytes brings back.
pub fn echoed(bytes: [u8; 5]) -> [u8; 5] {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut message = [0; 5];
        stream.read_exact(&mut message).unwrap();
        stream.write_all(&message).unwrap();
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&bytes).unwrap();
    let mut message = [0; 5];
    stream.read_exact(&mut message).unwrap();
    server.join().unwrap();
    message
}
