//! What is asked of the servers, and what they have to answer.

use std::fmt::Write as _;

/// One kind of requests.
pub trait Protocol {
    /// Appends requests that prepare the server, with their answers: sent once, on one connection.
    fn prepare(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        Vec::new()
    }

    /// Writes request `number` of a connection to `request`, and the answer that is right to `answer`. Both are empty.
    fn ask(&self, connection: u32, number: u64, request: &mut Vec<u8>, answer: &mut Vec<u8>);

    /// Whether what came is the whole answer, or why it is wrong. `right` is what [`ask`](Self::ask) wrote.
    fn is_complete(&self, got: &[u8], right: &[u8]) -> Result<bool, String> {
        if right.starts_with(got) {
            return Ok(got.len() == right.len());
        }
        Err(format!("`{}`, but `{}` is right", String::from_utf8_lossy(got), String::from_utf8_lossy(right)))
    }
}

/// Messages of 64 bytes that come back as they are.
#[derive(Clone, Copy, Debug)]
pub struct Echo;

impl Protocol for Echo {
    fn ask(&self, connection: u32, number: u64, request: &mut Vec<u8>, answer: &mut Vec<u8>) {
        let seed = (u64::from(connection) << 32).wrapping_add(number);
        for word in 0..8 {
            request.extend_from_slice(&mix(seed.wrapping_mul(8).wrapping_add(word)).to_le_bytes());
        }
        answer.extend_from_slice(request);
    }
}

/// memcached's text protocol: nine times `get`, once `set`, values of 100 bytes under 10,000 keys that are all there.
#[derive(Clone, Copy, Debug)]
pub struct Memcached;

impl Memcached {
    const KEYS: u64 = 10_000;

    fn value(key: u64) -> String {
        (0..4).fold(String::new(), |mut value, part| {
            let _ = write!(value, "{:025}", mix(key * 4 + part));
            value
        })
    }

    fn set(key: u64, request: &mut Vec<u8>) {
        request.extend_from_slice(format!("set key-{key:08} 0 0 100\r\n{}\r\n", Self::value(key)).as_bytes());
    }
}

impl Protocol for Memcached {
    fn prepare(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let set = |key| {
            let mut request = Vec::new();
            Self::set(key, &mut request);
            (request, b"STORED\r\n".to_vec())
        };
        (0..Self::KEYS).map(set).collect()
    }

    fn ask(&self, connection: u32, number: u64, request: &mut Vec<u8>, answer: &mut Vec<u8>) {
        let random = mix((u64::from(connection) << 32).wrapping_add(number));
        let key = random % Self::KEYS;
        if (random >> 32).is_multiple_of(10) {
            Self::set(key, request);
            answer.extend_from_slice(b"STORED\r\n");
        } else {
            request.extend_from_slice(format!("get key-{key:08}\r\n").as_bytes());
            answer.extend_from_slice(format!("VALUE key-{key:08} 0 100\r\n{}\r\nEND\r\n", Self::value(key)).as_bytes());
        }
    }
}

/// Steele, Lea and Flood's SplitMix64, one step from `seed`.
pub(crate) fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_their_sizes_and_differ() {
        let (mut a, mut b, mut answer) = (Vec::new(), Vec::new(), Vec::new());
        Echo.ask(1, 0, &mut a, &mut answer);
        assert_eq!((a.len(), &a), (64, &answer));
        Echo.ask(1, 1, &mut b, &mut Vec::new());
        assert_ne!(a, b);
    }

    #[test]
    fn about_a_tenth_of_memcacheds_requests_sets() {
        let sets = (0..10_000).filter(|&number| {
            let mut request = Vec::new();
            Memcached.ask(3, number, &mut request, &mut Vec::new());
            request.starts_with(b"set")
        });
        assert!((800..1200).contains(&sets.count()));
        assert_eq!(Memcached::value(7).len(), 100);
        assert_eq!(Memcached.prepare().len(), 10_000);
    }
}
