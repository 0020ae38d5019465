//! The service of blocking crates as they are: nothing async, and nothing of raddle.
//!
//! A thread for each connection, which is tiny_http's, and workers that take the requests from its queue, as its
//! documentation shows. Each worker has its own connection to each of the others, so that none of them ever waits for
//! another's. With `--threads-for requests` a thread for each request instead, which borrows what a worker would have.
#![forbid(unsafe_code)]

use raddle_bench_service::{QUERY, Settings, answer, item};
use std::collections::VecDeque;
use std::error::Error;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use tiny_http::{Request, Response, Server};

/// Connections to the others, used by one request at a time.
struct Shop {
    redis: redis::Connection,
    postgres: postgres::Client,
    query: postgres::Statement,
    upstream: ureq::Agent,
    rates: String,
}

impl Shop {
    fn open(settings: &Settings) -> Result<Shop, Box<dyn Error>> {
        let mut postgres = postgres::Client::connect(&settings.postgres, postgres::NoTls)?;
        Ok(Shop {
            redis: redis::Client::open(format!("redis://{}/", settings.redis))?.get_connection()?,
            query: postgres.prepare(QUERY)?,
            postgres,
            upstream: ureq::Agent::new_with_defaults(),
            rates: format!("http://{}/rate/", settings.upstream),
        })
    }

    fn look_up(&mut self, id: i32) -> Result<Option<String>, Box<dyn Error>> {
        let (_, stock): (i64, i64) =
            redis::pipe().incr("views", 1).get(format!("stock:{id}")).query(&mut self.redis)?;
        let row = self.postgres.query_opt(&self.query, &[&id])?;
        let Some(row) = row else { return Ok(None) };
        let rate = self.upstream.get(format!("{}{id}", self.rates)).call()?.body_mut().read_to_string()?;
        Ok(answer(id, row.get(0), row.get(1), stock, &rate))
    }
}

/// Lends the shops to threads. Who has to wait is served in the order of coming, as tokio's semaphore does it.
struct Pool(Mutex<Shelf>);

struct Shelf {
    idle: Vec<Shop>,
    waiting: VecDeque<SyncSender<Shop>>,
}

impl Pool {
    fn take(&self) -> Shop {
        let mut shelf = self.0.lock().unwrap();
        if let Some(shop) = shelf.idle.pop() {
            return shop;
        }
        let (sender, receiver) = sync_channel(1);
        shelf.waiting.push_back(sender);
        drop(shelf);
        receiver.recv().expect("a shop is handed on")
    }

    fn give_back(&self, shop: Shop) {
        let mut shelf = self.0.lock().unwrap();
        match shelf.waiting.pop_front() {
            Some(waiter) => {
                drop(shelf);
                waiter.send(shop).expect("who waits stays");
            }
            None => shelf.idle.push(shop),
        }
    }
}

fn serve(shop: &mut Shop, request: Request) {
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
    let shops = (0..settings.pool).map(|_| Shop::open(&settings)).collect::<Result<Vec<_>, _>>()?;
    let server = Server::http("127.0.0.1:0").map_err(|error| error.to_string())?;
    println!("port {}", server.server_addr().to_ip().ok_or("no address")?.port());
    if settings.threads_for_requests {
        let pool = Arc::new(Pool(Mutex::new(Shelf { idle: shops, waiting: VecDeque::new() })));
        for request in server.incoming_requests() {
            let pool = pool.clone();
            thread::spawn(move || {
                let mut shop = pool.take();
                serve(&mut shop, request);
                pool.give_back(shop);
            });
        }
        return Ok(());
    }
    thread::scope(|scope| {
        for mut shop in shops {
            let server = &server;
            scope.spawn(move || server.incoming_requests().for_each(|request| serve(&mut shop, request)));
        }
    });
    Ok(())
}
