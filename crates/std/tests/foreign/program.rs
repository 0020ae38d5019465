//! A program of somebody else's.

#[raddle::main]
fn main() {
    assert_eq!(library::echoed(*b"hello"), *b"hello");
    println!("{}", library::kernel_threads_of_300());
}
