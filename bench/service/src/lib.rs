//! What the two services have in common: their command line, and what they answer.
//!
//! `PROGRAM --redis ADDRESS --postgres PARAMETERS --upstream ADDRESS --pool N --processors N`, and perhaps
//! `--threads-for workers|requests`: prints `port N` when it listens there, then serves
//! until it is ended. For `GET /item/ID` it counts the view and asks for the stock in Redis, asks PostgreSQL for the
//! name and the price, asks another service for the rate, and answers what it has learnt.
#![forbid(unsafe_code)]

/// Where the others are, and how many connections to each of them are kept.
#[derive(Debug, Default)]
pub struct Settings {
    /// The address of the Redis server.
    pub redis: String,
    /// PostgreSQL's connection parameters, as `key=value` words.
    pub postgres: String,
    /// The address of the service that knows the rates.
    pub upstream: String,
    /// How many connections to each of them.
    pub pool: usize,
    /// How many kernel threads the asynchronous service works with.
    pub processors: usize,
    /// Whether the blocking service starts a thread for each request; else for each of the connections to the others,
    /// and these take the requests in turn.
    pub threads_for_requests: bool,
}

impl Settings {
    /// Reads the command line.
    pub fn read() -> Result<Settings, String> {
        let mut settings = Settings { pool: 16, processors: 1, ..Settings::default() };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("`{word}` needs a value"))?;
            let number = || value.parse().map_err(|_| format!("`{word} {value}`: needs a number"));
            match word.as_str() {
                "--redis" => settings.redis = value,
                "--postgres" => settings.postgres = value,
                "--upstream" => settings.upstream = value,
                "--pool" => settings.pool = number()?,
                "--processors" => settings.processors = number()?,
                "--threads-for" => match value.as_str() {
                    "workers" => settings.threads_for_requests = false,
                    "requests" => settings.threads_for_requests = true,
                    _ => return Err(format!("`{word} {value}`: is `workers` or `requests`")),
                },
                _ => return Err(format!("there is no option `{word}`")),
            }
        }
        Ok(settings)
    }
}

/// The query for an item.
pub const QUERY: &str = "SELECT name, cents FROM items WHERE id = $1";

/// The item that a path asks for.
pub fn item(path: &str) -> Option<i32> {
    path.strip_prefix("/item/")?.parse().ok()
}

/// The answer for an item.
pub fn answer(id: i32, name: &str, cents: i64, stock: i64, rate: &str) -> Option<String> {
    let rate: i64 = rate.trim().parse().ok()?;
    Some(format!("{{\"id\":{id},\"name\":\"{name}\",\"price\":{},\"stock\":{stock}}}", cents * rate))
}
