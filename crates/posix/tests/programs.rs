//! Programs from Debian that know nothing of this library: each does its work with it preloaded, and its threads were
//! lightweight.
//!
//! `cargo xtask setup` installs them.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder that goes with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The Debian program of that name: not one from elsewhere in PATH, which may be a wrapper in shell.
fn debian(name: &str) -> PathBuf {
    let path = Path::new("/usr/bin").join(name);
    assert!(path.exists(), "{} is missing", path.display());
    path
}

/// A command with the library preloaded, which prints its counters at the end.
fn taken_over(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", common::library()).env("RADDLE_STATS", "json").env("RADDLE_PROCESSORS", "2");
    command
}

/// The counter of that name in what a program printed at its end.
#[track_caller]
fn counter(printed: &str, key: &str) -> u64 {
    let line = printed.lines().find(|line| line.starts_with("{\"program\""));
    let line = line.unwrap_or_else(|| panic!("no counters in: {printed}"));
    let rest = line.split_once(&format!("\"{key}\":")).unwrap().1;
    rest[..rest.find([',', '}']).unwrap()].parse().unwrap()
}

/// A server that is asked to end, and made to, when its test is over.
struct Server {
    child: Child,
    errors: Option<ChildStderr>,
}

impl Server {
    fn start(mut command: Command) -> Server {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let errors = child.stderr.take();
        Server { child, errors }
    }

    /// Waits for something that the server makes.
    #[track_caller]
    fn until<T>(&mut self, mut there: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = there() {
                return found;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the server ended ({status}): {}", self.said());
            }
            assert!(start.elapsed() < common::PATIENCE, "the server does not come up");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn said(&mut self) -> String {
        let mut said = String::new();
        if let Some(errors) = &mut self.errors {
            let _ = errors.read_to_string(&mut said);
        }
        said
    }

    /// Asks it to end; what it printed.
    #[track_caller]
    fn end(mut self) -> String {
        let terminate = format!("kill -TERM {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &terminate]).status().unwrap().success());
        let start = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(start.elapsed() < common::PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.said()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn memcached_serves_fifty_connections() {
    if common::lacks(&[("/usr/bin/memcached", "memcached")]) {
        return;
    }
    let folder = Folder::new("memcached");
    let socket = folder.0.join("socket");
    let mut command = taken_over(&debian("memcached"));
    command.args(["-t", "4", "-u", "root", "-m", "64", "-s"]).arg(&socket);
    let mut server = Server::start(command);
    server.until(|| UnixStream::connect(&socket).ok());
    let clients: Vec<_> = (0..50)
        .map(|client| {
            let stream = UnixStream::connect(&socket).unwrap();
            std::thread::spawn(move || {
                let mut replies = BufReader::new(stream.try_clone().unwrap());
                let mut requests = stream;
                let mut line = move || {
                    let mut line = String::new();
                    replies.read_line(&mut line).unwrap();
                    line
                };
                for round in 0..40 {
                    let (key, value) = (format!("key-{client}-{round}"), format!("value {}", client * round));
                    write!(requests, "set {key} 0 0 {}\r\n{value}\r\n", value.len()).unwrap();
                    assert_eq!(line(), "STORED\r\n");
                    write!(requests, "get {key}\r\n").unwrap();
                    assert_eq!(line(), format!("VALUE {key} 0 {}\r\n", value.len()));
                    assert_eq!(line(), format!("{value}\r\n"));
                    assert_eq!(line(), "END\r\n");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let said = server.end();
    assert!(counter(&said, "threads") >= 4, "{said}");
}

#[test]
fn redis_with_threads_for_its_input_and_output() {
    if common::lacks(&[("/usr/bin/redis-server", "redis-server"), ("/usr/bin/redis-benchmark", "redis-tools")]) {
        return;
    }
    let folder = Folder::new("redis");
    let socket = folder.0.join("socket");
    let mut command = taken_over(&debian("redis-server"));
    command.args(["--port", "0", "--io-threads", "4", "--io-threads-do-reads", "yes", "--save", "", "--unixsocket"]);
    command.arg(&socket).arg("--dir").arg(&folder.0);
    let mut server = Server::start(command);
    server.until(|| UnixStream::connect(&socket).ok());
    let mut load = Command::new(debian("redis-benchmark"));
    load.args(["-c", "50", "-n", "10000", "-P", "8", "-t", "set,get,incr", "-q", "-s"]).arg(&socket);
    common::run(load).well();
    let ask = |words: &[&str]| {
        let mut command = Command::new(debian("redis-cli"));
        command.arg("-s").arg(&socket).args(words);
        common::run(command).well()
    };
    assert_eq!(ask(&["set", "a", "b"]), "OK\n");
    assert_eq!(ask(&["get", "a"]), "b\n");
    assert_eq!(ask(&["incrby", "counter:__rand_int__", "0"]), "10000\n");
    let said = server.end();
    assert!(counter(&said, "threads") >= 3, "{said}");
}

/// Text that compresses by about a half, without luck: a linear congruence writes it.
fn text(bytes: usize) -> Vec<u8> {
    let mut state = 12345u64;
    let step = |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        b"abcdefghijklmnop"[(state >> 60) as usize]
    };
    (0..bytes).map(step).collect()
}

#[test]
fn compressors_with_threads_make_what_the_native_ones_read() {
    if common::lacks(&[("/usr/bin/pigz", "pigz"), ("/usr/bin/xz", "xz-utils")]) {
        return;
    }
    let folder = Folder::new("compressors");
    let original = folder.0.join("text");
    std::fs::write(&original, text(12 << 20)).unwrap();
    for (name, options) in
        [("pigz", &["-p", "8", "-k", "-c"][..]), ("xz", &["-T4", "-0", "--block-size=1MiB", "-k", "-c"][..])]
    {
        let squeezed = folder.0.join(name);
        let mut squeeze = taken_over(&debian(name));
        squeeze.args(options).arg(&original).stdin(Stdio::null()).stdout(std::fs::File::create(&squeezed).unwrap());
        let output = squeeze.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        assert!(counter(&said, "threads") >= 4, "{name}: {said}");
        // Read by the native one and by one that is taken over.
        for mut command in [Command::new(debian(name)), taken_over(&debian(name))] {
            let input = std::fs::File::open(&squeezed).unwrap();
            let unsqueezed = command.args(["-d", "-c"]).stdin(input).output().unwrap();
            assert!(unsqueezed.stdout == std::fs::read(&original).unwrap(), "{name}: {unsqueezed:?}");
        }
    }
}

#[test]
fn stunnel_has_a_thread_for_each_connection() {
    if common::lacks(&[("/usr/bin/stunnel4", "stunnel4"), ("/usr/bin/openssl", "openssl")]) {
        return;
    }
    const CLIENTS: usize = 20;
    let folder = Folder::new("stunnel");
    let (key, certificate) = (folder.0.join("key.pem"), folder.0.join("certificate.pem"));
    let mut openssl = Command::new(debian("openssl"));
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=localhost", "-keyout"]).arg(&key).arg("-out").arg(&certificate);
    common::run(openssl).well();
    // What stunnel forwards to: an echo server.
    let echo = TcpListener::bind("127.0.0.1:0").unwrap();
    let behind = echo.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in echo.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
        }
    });
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = folder.0.join("stunnel.conf");
    let text = format!(
        "foreground = yes\npid =\ndebug = warning\n[echo]\naccept = 127.0.0.1:{port}\nconnect = 127.0.0.1:{behind}\n\
         cert = {}\nkey = {}\n",
        certificate.display(),
        key.display()
    );
    std::fs::write(&settings, text).unwrap();
    let mut command = taken_over(&debian("stunnel4"));
    command.arg(&settings);
    let mut server = Server::start(command);
    server.until(|| TcpStream::connect(("127.0.0.1", port)).ok());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let mut command = Command::new(debian("openssl"));
            command.args(["s_client", "-quiet", "-connect", &format!("127.0.0.1:{port}")]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            (client, command.spawn().unwrap())
        })
        .collect();
    // All are connected before the first one ends.
    for (client, mut process) in clients {
        let line = format!("hello from {client}\n");
        let mut input = process.stdin.take().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        let mut reply = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut reply).unwrap();
        assert_eq!(reply, line);
        drop(input);
        let _ = process.kill();
        let _ = process.wait();
    }
    let said = server.end();
    assert!(counter(&said, "threads") >= CLIENTS as u64, "{said}");
}

/// A module of Python's own tests: the same result as natively.
#[track_caller]
fn python_tests(module: &str) {
    let result = |mut command: Command| {
        command.args(["-m", "test", "-q", module]).env_remove("RADDLE_STATS");
        // Its tests interrupt themselves, which whoever runs this in the background may have chosen to ignore.
        // SAFETY: `signal` is async-signal-safe, and touches the child only.
        unsafe {
            std::os::unix::process::CommandExt::pre_exec(&mut command, || {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            });
        }
        let ended = common::run_for(command, 10 * common::PATIENCE);
        (ended.status.code(), ended.out.lines().last().unwrap_or_default().to_string(), ended)
    };
    let native = result(Command::new(debian("python3")));
    let drop_in = result(taken_over(&debian("python3")));
    assert_eq!(drop_in.0, native.0, "{module}: {:?}\nnatively: {:?}", drop_in.2, native.2);
    assert_eq!(native.0, Some(0), "{module}: {:?}; is libpython3-testsuite (of this version) installed?", native.2);
}

/// Where Debian's python3 has the module of its own tests of threads.
fn python_module() -> String {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut modules = folders.filter(|folder| folder.to_string_lossy().starts_with("/usr/lib/python3."));
    let found = modules.find_map(|folder| Some(folder.join("test/test_threading.py")).filter(|path| path.exists()));
    found.map_or_else(|| "/usr/lib/python3.x/test/test_threading.py".into(), |path| path.to_string_lossy().into_owned())
}

/// With `RADDLE_PYTHON=test_concurrent_futures` (which takes minutes) that module instead.
#[test]
fn python_passes_its_own_tests_of_threads() {
    let module = python_module();
    if common::lacks(&[("/usr/bin/python3", "python3"), (&module, "libpython3.x-testsuite")]) {
        return;
    }
    match std::env::var("RADDLE_PYTHON") {
        Ok(module) => python_tests(&module),
        Err(_) => ["test_thread", "test_queue", "test_threading"].into_iter().for_each(python_tests),
    }
}

#[test]
fn python_has_thousands_of_threads_on_a_few_kernel_threads() {
    if common::lacks(&[("/usr/bin/python3", "python3")]) {
        return;
    }
    let mut command = taken_over(&debian("python3"));
    let script = "import threading, time\n\
                  threads = [threading.Thread(target=time.sleep, args=(0.2,)) for _ in range(3000)]\n\
                  for thread in threads: thread.start()\n\
                  for thread in threads: thread.join()\n\
                  print(len(threads))";
    command.args(["-c", script]);
    let ended = common::run(command);
    assert!(counter(&ended.err, "threads") >= 3000, "{ended:?}");
    assert!(counter(&ended.err, "kernel_threads") < 200, "{ended:?}");
    assert_eq!(ended.well(), "3000\n");
}
