//! Speaks to git servers over HTTP without the git program (RND-29).
//!
//! Two questions are worth it, because every push asks them: which refs are there, and what does one commit add to
//! commits that are here already. [`Http::list`] and [`Http::increment`] answer them over the second version of
//! git's protocol, the first one also over the older versions.
//!
//! Only the ordinary course is handled. Proxies, client certificates, dumb servers, redirects and whatever a server
//! says that is not expected end in [`HttpError::Unusual`]: the caller then asks the git program, whose behaviour
//! and words are the reference. Redirects are never followed, and a connection ends with the question it was
//! opened for (RND-35).

mod advertisement;
mod connection;
mod direct;
mod increment;
mod json;
mod packet;
pub(crate) mod tls;

use std::collections::BTreeMap;

use parking_lot::Mutex;

use advertisement::{Advertisement, RefLines};
use connection::Connection;
use packet::Packet;

pub(crate) use direct::{Direct, Roots};
pub(crate) use increment::Increment;
pub(crate) use json::{Answer as HttpAnswer, Ask};

/// Servers whose manners are remembered.
const MANNERS_MAX: usize = 10_000;

/// Why there is no answer. Time limits are the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    /// The server does not let us in.
    #[error("the server answered with status {status}")]
    Refused {
        /// 401 or 403.
        status: u16,
        /// Whether user name and password were sent when the server asked for them.
        was_asked: bool,
    },
    /// The answer is longer than allowed.
    #[error("the answer has more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The git program should be asked.
    #[error("{0}")]
    Unusual(String),
}

/// What is remembered of a server between questions, per URL and credentials.
#[derive(Clone, Copy, Debug, Default)]
struct Manners {
    /// It asked for user name and password.
    wants_basic: bool,
    /// It lists refs in the second version of the protocol.
    lists: bool,
    /// It sends single commits in the second version of the protocol.
    sends: bool,
}

/// The client of one installation.
#[derive(Debug, Default)]
pub(crate) struct Http {
    manners: Mutex<BTreeMap<String, Manners>>,
    tls: tls::Configurations,
}

impl Http {
    /// The refs of a repository, one `<id> TAB <name>` a line, peeled tags as `<name>^{}`. With `prefixes`, a server
    /// that can is asked for refs that begin with one of them only; others answer with more.
    pub(crate) async fn list(
        &self,
        direct: &Direct,
        prefixes: &[String],
        bytes_max: usize,
    ) -> Result<Vec<u8>, HttpError> {
        let manners = self.manners(direct);
        let mut connection = Connection::new(direct, &self.tls, manners.wants_basic).await?;
        if manners.lists {
            // Nothing changed most likely: what the server can do needs not be asked again.
            match list_second_version(&mut connection, prefixes, bytes_max).await {
                Err(HttpError::Unusual(why)) => {
                    tracing::debug!(why, "the server is asked for its capabilities again");
                }
                result => return self.remembering(direct, &connection, manners, result),
            }
        }
        self.remember(direct, Manners::default());
        let (manners, result) = match discover(&mut connection, bytes_max).await? {
            Advertisement::Refs(lines) => (Manners::default(), Ok(lines)),
            Advertisement::Capabilities { lists: false, .. } => {
                return Err(HttpError::Unusual("the server lists no refs".to_owned()));
            }
            Advertisement::Capabilities { lists, sends } => {
                let manners = Manners { wants_basic: false, lists, sends };
                (manners, list_second_version(&mut connection, prefixes, bytes_max).await)
            }
        };
        self.remembering(direct, &connection, manners, result)
    }

    /// What a commit adds to complete commits without history. Only for servers that listed their refs before.
    pub(crate) async fn increment(
        &self,
        direct: &Direct,
        commit: &str,
        known: &[String],
    ) -> Result<Increment, HttpError> {
        let manners = self.manners(direct);
        if !manners.sends || known.is_empty() {
            return Err(HttpError::Unusual("the server is not known to send single commits".to_owned()));
        }
        let mut connection = Connection::new(direct, &self.tls, manners.wants_basic).await?;
        increment::ask(&mut connection, commit, known).await
    }

    fn manners(&self, direct: &Direct) -> Manners {
        self.manners.lock().get(&direct.key).copied().unwrap_or_default()
    }

    fn remember(&self, direct: &Direct, manners: Manners) {
        let mut all = self.manners.lock();
        if all.len() >= MANNERS_MAX {
            all.clear();
        }
        all.insert(direct.key.clone(), manners);
    }

    fn remembering<T>(
        &self,
        direct: &Direct,
        connection: &Connection<'_>,
        manners: Manners,
        result: Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        let manners = match &result {
            Ok(_) => Manners { wants_basic: connection.was_asked(), ..manners },
            Err(_) => Manners::default(),
        };
        self.remember(direct, manners);
        result
    }
}

async fn discover(connection: &mut Connection<'_>, bytes_max: usize) -> Result<Advertisement, HttpError> {
    let mut body = connection.get(bytes_max).await?;
    let mut reader = advertisement::Reader::new(bytes_max);
    while let Some(packet) = body.next().await? {
        if let Some(found) = reader.push(&packet)? {
            return Ok(found);
        }
    }
    Err(unexpected("the advertisement"))
}

async fn list_second_version(
    connection: &mut Connection<'_>,
    prefixes: &[String],
    bytes_max: usize,
) -> Result<Vec<u8>, HttpError> {
    let mut message = Vec::new();
    packet::write_line(&mut message, "command=ls-refs");
    message.extend_from_slice(b"0001");
    packet::write_line(&mut message, "peel");
    packet::write_line(&mut message, "symrefs");
    for prefix in prefixes {
        packet::write_line(&mut message, &format!("ref-prefix {prefix}"));
    }
    message.extend_from_slice(b"0000");
    let mut body = connection.post(message, bytes_max).await?;
    let mut lines = RefLines::new(bytes_max);
    loop {
        match body.next().await? {
            Some(Packet::Data(data)) => lines.push(&packet::line(&data))?,
            Some(Packet::Flush) => return Ok(lines.take()),
            Some(Packet::Delimiter | Packet::End) | None => return Err(unexpected("the list of refs")),
        }
    }
}

fn unexpected(place: &str) -> HttpError {
    HttpError::Unusual(format!("the answer does not go on as expected in {place}"))
}
