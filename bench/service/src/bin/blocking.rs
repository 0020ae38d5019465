//! The service of blocking crates as they are: nothing async, and nothing of raddle.
//!
//! A thread for each connection, which is tiny_http's, and workers that take the requests from its queue, as its documentation shows: as many as there are connections to
//! the others, since more would only wait for these. With `--workers 0` a thread for each request instead.
#![forbid(unsafe_code)]

use raddle_bench_service::{QUERY, Settings, answer, item};
use std::collections::VecDeque;
use std::error::Error;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use tiny_http::{Request, Response, Server};

/// Connections that are used by one request at a time. Who has to wait is served in the order of coming, as tokio's semaphore does it.
struct Pool<T>(Mutex<Shelf<T>>);

struct Shelf<T> {
    idle: Vec<T>,
    waiting: VecDeque<SyncSender<T>>,
}

impl<T> Pool<T> {
    fn new(size: usize, make: impl Fn() -> Result<T, Box<dyn Error>>) -> Result<Pool<T>, Box<dyn Error>> {
        let idle = (0..size).map(|_| make()).collect::<Result<_, _>>()?;
        Ok(Pool(Mutex::new(Shelf { idle, waiting: VecDeque::new() })))
    }

    /// Lends a connection to `work`.
    fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut connection = self.take();
        let result = work(&mut connection);
        let mut shelf = self.0.lock().unwrap();
        match shelf.waiting.pop_front() {
            Some(waiter) => {
                drop(shelf);
                waiter.send(connection).expect("who waits stays");
            }
            None => shelf.idle.push(connection),
        }
        result
    }

    fn take(&self) -> T {
        let mut shelf = self.0.lock().unwrap();
        if let Some(connection) = shelf.idle.pop() {
            return connection;
        }
        let (sender, receiver) = sync_channel(1);
        shelf.waiting.push_back(sender);
        drop(shelf);
        receiver.recv().expect("a connection is handed on")
    }
}

struct Shop {
    redis: Pool<redis::Connection>,
    postgres: Pool<(postgres::Client, postgres::Statement)>,
    upstream: Pool<ureq::Agent>,
    rates: String,
}

impl Shop {
    fn open(settings: &Settings) -> Result<Shop, Box<dyn Error>> {
        let redis = redis::Client::open(format!("redis://{}/", settings.redis))?;
        let postgres = || -> Result<_, Box<dyn Error>> {
            let mut client = postgres::Client::connect(&settings.postgres, postgres::NoTls)?;
            let statement = client.prepare(QUERY)?;
            Ok((client, statement))
        };
        Ok(Shop {
            redis: Pool::new(settings.pool, || Ok(redis.get_connection()?))?,
            postgres: Pool::new(settings.pool, postgres)?,
            upstream: Pool::new(settings.pool, || Ok(ureq::Agent::new_with_defaults()))?,
            rates: format!("http://{}/rate/", settings.upstream),
        })
    }

    fn look_up(&self, id: i32) -> Result<Option<String>, Box<dyn Error>> {
        let (_, stock): (i64, i64) =
            self.redis.with(|redis| redis::pipe().incr("views", 1).get(format!("stock:{id}")).query(redis))?;
        let row = self.postgres.with(|(client, statement)| client.query_opt(statement, &[&id]))?;
        let Some(row) = row else { return Ok(None) };
        let url = format!("{}{id}", self.rates);
        let rate = self.upstream.with(|agent| agent.get(&url).call()?.body_mut().read_to_string())?;
        Ok(answer(id, row.get(0), row.get(1), stock, &rate))
    }
}

fn serve(shop: &Shop, request: Request) {
    let found = match item(request.url()) {
        Some(id) => shop.look_up(id),
        None => Ok(None),
    };
    let response = match found {
        Ok(Some(text)) => Response::from_string(text),
        Ok(None) => Response::from_string("not found").with_status_code(404),
        Err(error) => Response::from_string(error.to_string()).with_status_code(500),
    };
    // Fails when the client has gone: nobody is left to be told.
    let _ = request.respond(response);
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::read()?;
    let shop = Arc::new(Shop::open(&settings)?);
    let server = Server::http("127.0.0.1:0").map_err(|error| error.to_string())?;
    println!("port {}", server.server_addr().to_ip().ok_or("no address")?.port());
    let workers = settings.workers.unwrap_or(3 * settings.pool);
    if workers == 0 {
        for request in server.incoming_requests() {
            let shop = shop.clone();
            thread::spawn(move || serve(&shop, request));
        }
        return Ok(());
    }
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| server.incoming_requests().for_each(|request| serve(&shop, request)));
        }
    });
    Ok(())
}
