//! The web service's requests: an item each, over kept HTTP connections.

use super::backends::{ITEMS, rate, row, stock};
use super::protocol::{Protocol, mix};

/// `GET /item/ID`; the service answers what it has learnt of the item from three others.
#[derive(Clone, Copy, Debug)]
pub struct Web;

impl Protocol for Web {
    fn ask(&self, connection: u32, number: u64, request: &mut Vec<u8>, answer: &mut Vec<u8>) {
        let id = (mix((u64::from(connection) << 32).wrapping_add(number)) % u64::from(ITEMS)) as u32 + 1;
        request.extend_from_slice(format!("GET /item/{id} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes());
        let (name, cents) = row(id);
        let (price, stock) = (cents * rate(id), stock(id));
        let body = format!("{{\"id\":{id},\"name\":\"{name}\",\"price\":{price},\"stock\":{stock}}}");
        answer.extend_from_slice(body.as_bytes());
    }

    /// The head differs between services and holds the time: its status and length count, and the body.
    fn is_complete(&self, got: &[u8], right: &[u8]) -> Result<bool, String> {
        let Some(end) = got.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(false) };
        let head = String::from_utf8_lossy(&got[..end]);
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap_or("");
        let length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            if name.eq_ignore_ascii_case("content-length") { value.trim().parse::<usize>().ok() } else { None }
        });
        let length = length.ok_or_else(|| format!("an answer without a length: {head}"))?;
        let body = &got[end + 4..];
        if body.len() < length {
            return Ok(false);
        }
        if status == "HTTP/1.1 200 OK" && body == right {
            return Ok(true);
        }
        let (got, right) = (String::from_utf8_lossy(body), String::from_utf8_lossy(right));
        Err(format!("`{status}` with `{got}`, but `{right}` is right"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_with_its_body_and_wrong_with_another() {
        let (mut request, mut right) = (Vec::new(), Vec::new());
        Web.ask(3, 4, &mut request, &mut right);
        let head = format!("HTTP/1.1 200 OK\r\nDate: today\r\ncontent-length: {}\r\n\r\n", right.len());
        let all = [head.as_bytes(), &right].concat();
        assert_eq!(Web.is_complete(&all, &right), Ok(true));
        assert!((0..all.len()).all(|end| Web.is_complete(&all[..end], &right) == Ok(false)));
        let mut wrong = all.clone();
        *wrong.last_mut().unwrap() = b' ';
        assert!(Web.is_complete(&wrong, &right).unwrap_err().contains("is right"));
        let failed = b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno";
        assert!(Web.is_complete(failed, &right).unwrap_err().contains("500 Oops"));
    }
}
