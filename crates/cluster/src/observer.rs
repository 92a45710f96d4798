//! Tells whoever counts what API servers are asked, and what their watches bring (CTL-120, CTL-121).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::{Call, Connection};

/// A request that is over.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Host and port of the server.
    pub host: &'a str,
    /// The method.
    pub method: &'a str,
    /// The code of the answer; `None` where there was none in time.
    pub code: Option<u16>,
    /// Time to the end of the answer, or to the head of one that is streamed.
    pub took: Duration,
    /// Bytes of the request's body.
    pub sent: usize,
    /// Bytes of the answer's body, where it was read as a whole.
    pub received: Option<usize>,
}

/// Is told of requests. It must not wait.
pub trait Observer: Send + Sync + std::fmt::Debug {
    /// A request is over, whatever came of it.
    fn asked(&self, asked: &Asked<'_>);

    /// A request is made once more, because the server asked for that with this code.
    fn repeated(&self, _host: &str, _method: &str, _code: u16) {}

    /// A request waited for its turn (REP-108).
    fn paced(&self, _host: &str, _method: &str, _waited: Duration) {}

    /// Events that came together were taken into the index, and told of.
    fn batch(&self, _server: &str, _events: usize, _took: Duration) {}
}

/// Who is told. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observers(Option<Arc<[Arc<dyn Observer>]>>);

impl Observers {
    fn with(&self, observer: Arc<dyn Observer>) -> Self {
        Self(Some(self.each().cloned().chain([observer]).collect()))
    }

    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<dyn Observer>> {
        self.0.iter().flat_map(|observers| observers.iter())
    }
}

impl Connection {
    /// The same connection, of whose requests one more is told.
    #[must_use]
    pub fn observed(&self, observer: Arc<dyn Observer>) -> Self {
        let mut observed = self.clone();
        observed.observers = self.observers.with(observer);
        observed
    }

    /// Host and port of the server.
    pub(crate) fn host(&self) -> &str {
        let server = self.server();
        let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
        rest.split_once('/').map_or(rest, |(host, _)| host)
    }
}

/// A request that is under way; the observers are told when this is dropped.
pub(crate) struct Telling<'a> {
    connection: &'a Connection,
    call: &'a Call,
    began: Instant,
    pub(crate) code: Option<u16>,
    pub(crate) received: Option<usize>,
}

impl<'a> Telling<'a> {
    pub(crate) fn begin(connection: &'a Connection, call: &'a Call) -> Self {
        Self { connection, call, began: Instant::now(), code: None, received: None }
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        for observer in self.connection.observers.each() {
            observer.asked(&Asked {
                host: self.connection.host(),
                method: self.call.method.as_str(),
                code: self.code,
                took: self.began.elapsed(),
                sent: self.call.body.as_ref().map_or(0, |(bytes, _)| bytes.len()),
                received: self.received,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Request, Response, StatusCode};
    use http_body_util::Full;
    use parking_lot::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Told(Mutex<Vec<String>>);

    impl Observer for Told {
        fn asked(&self, asked: &Asked<'_>) {
            let Asked { host, method, code, sent, received, .. } = *asked;
            self.0.lock().push(format!("{host} {method} {code:?} {sent} {received:?}"));
        }

        fn repeated(&self, host: &str, method: &str, code: u16) {
            self.0.lock().push(format!("{host} {method} again {code}"));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn ctl_121_every_request_is_told_however_it_ends() {
        let answer = async |request: Request<Bytes>| {
            let status = match request.uri().path() {
                "/broken" => return Err("broken".into()),
                "/busy" => StatusCode::TOO_MANY_REQUESTS,
                "/slow" => std::future::pending().await,
                _ => StatusCode::OK,
            };
            let body = Full::new(Bytes::from("{}"));
            Ok(Response::builder().status(status).body(body).expect("an answer"))
        };
        let told = Arc::new(Told::default());
        let observer: Arc<dyn Observer> = Arc::<Told>::clone(&told);
        let connection = Connection::over("https://c.example:6443/k8s", answer).observed(observer);
        let get = |path: &str| Call::get("test", path, Duration::from_secs(5));
        let post = get("/made").with_body(http::Method::POST, "abc", "application/json");
        connection.call(&post).await.expect("an answer");
        for path in ["/broken", "/slow", "/busy"] {
            assert!(connection.call(&get(path)).await.is_err());
        }
        let told = std::mem::take(&mut *told.0.lock());
        let (host, none) = ("c.example:6443", "GET None 0 None");
        let mut expected = vec![
            format!("{host} POST Some(200) 3 Some(2)"),
            format!("{host} {none}"),
            format!("{host} {none}"),
        ];
        for attempt in 1..=4 {
            expected.push(format!("{host} GET Some(429) 0 Some(2)"));
            if attempt < 4 {
                expected.push(format!("{host} GET again 429"));
            }
        }
        assert_eq!(told, expected);
    }
}
