//! The same service on tokio.
#![forbid(unsafe_code)]

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use raddle_bench_service::{QUERY, Settings, answer};
use std::error::Error;
use std::sync::{Arc, Mutex};
use tokio::sync::{Semaphore, SemaphorePermit};

type Failure = Box<dyn Error + Send + Sync>;

/// Connections that are used by one request at a time.
struct Pool<T> {
    idle: Mutex<Vec<T>>,
    permits: Semaphore,
}

impl<T> Pool<T> {
    fn new(idle: Vec<T>) -> Pool<T> {
        Pool { permits: Semaphore::new(idle.len()), idle: Mutex::new(idle) }
    }

    /// Lends a connection to `work`.
    async fn with<R>(&self, work: impl AsyncFnOnce(&mut T) -> R) -> R {
        let permit = self.permits.acquire().await.expect("never closed");
        let connection = self.idle.lock().unwrap().pop().expect("as many as permits");
        let mut lent = Lent { pool: self, connection: Some(connection), _permit: permit };
        work(lent.connection.as_mut().expect("lent until the end")).await
    }
}

/// A connection that is lent. It goes back, and then its permit, also where the request is given up, since its client
/// has gone.
struct Lent<'a, T> {
    pool: &'a Pool<T>,
    connection: Option<T>,
    _permit: SemaphorePermit<'a>,
}

impl<T> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        self.pool.idle.lock().unwrap().extend(self.connection.take());
    }
}

struct Shop {
    redis: Pool<redis::aio::MultiplexedConnection>,
    postgres: Pool<(tokio_postgres::Client, tokio_postgres::Statement)>,
    upstream: Pool<reqwest::Client>,
    rates: String,
}

impl Shop {
    async fn open(settings: &Settings) -> Result<Shop, Failure> {
        let client = redis::Client::open(format!("redis://{}/", settings.redis))?;
        let (mut redis, mut postgres, mut upstream) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..settings.pool {
            // As patient as the blocking one, which waits for as long as it takes.
            let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
            redis.push(client.get_multiplexed_async_connection_with_config(&patient).await?);
            let (client, connection) = tokio_postgres::connect(&settings.postgres, tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            let statement = client.prepare(QUERY).await?;
            postgres.push((client, statement));
            upstream.push(reqwest::Client::new());
        }
        Ok(Shop {
            redis: Pool::new(redis),
            postgres: Pool::new(postgres),
            upstream: Pool::new(upstream),
            rates: format!("http://{}/rate/", settings.upstream),
        })
    }

    async fn look_up(&self, id: i32) -> Result<Option<String>, Failure> {
        let (_, stock): (i64, i64) = self
            .redis
            .with(async |redis| redis::pipe().incr("views", 1).get(format!("stock:{id}")).query_async(redis).await)
            .await?;
        let row = self.postgres.with(async |(client, statement)| client.query_opt(statement, &[&id]).await).await?;
        let Some(row) = row else { return Ok(None) };
        let url = format!("{}{id}", self.rates);
        let rate = self.upstream.with(async |client| client.get(&url).send().await?.text().await).await?;
        Ok(answer(id, row.get(0), row.get(1), stock, &rate))
    }
}

async fn serve(State(shop): State<Arc<Shop>>, Path(id): Path<i32>) -> (StatusCode, String) {
    match shop.look_up(id).await {
        Ok(Some(text)) => (StatusCode::OK, text),
        Ok(None) => (StatusCode::NOT_FOUND, "not found".into()),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn run(settings: Settings) -> Result<(), Failure> {
    let shop = Arc::new(Shop::open(&settings).await?);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("port {}", listener.local_addr()?.port());
    let router = Router::new().route("/item/{id}", get(serve)).with_state(shop);
    Ok(axum::serve(listener, router).await?)
}

fn main() -> Result<(), Failure> {
    let settings = Settings::read()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(settings.processors).enable_all().build()?;
    runtime.block_on(run(settings))
}
