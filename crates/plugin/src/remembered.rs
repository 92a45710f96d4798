//! What plugins said before: the same question about the same files is asked once.

use std::io::{Read as _, Write as _};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sha2::{Digest as _, Sha256};
use tiphys_render::plugins::{PluginCall, PluginQuestion, PluginServer};

/// Bytes of answers, packed: manifests become a tenth.
const ANSWERS_BYTES_MAX: u64 = 32 << 20;
/// Sources of which it is known whether they are a plugin's.
const MATCHES_MAX: u64 = 50_000;
/// Starts of plugins of which it is known how they are set up.
const SETUPS_MAX: u64 = 1_000;

pub(crate) type Key = [u8; 32];

/// Answers by what they depend on. A plugin that was started anew is asked anew.
pub(crate) struct Remembered {
    pub(crate) setups: Cache<Key, crate::message::Flags>,
    pub(crate) matches: Cache<Key, bool>,
    answers: Cache<Key, Bytes>,
}

impl Remembered {
    pub(crate) fn new() -> Self {
        let weight = |_: &Key, bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Self {
            setups: Cache::builder().max_capacity(SETUPS_MAX).build(),
            matches: Cache::builder().max_capacity(MATCHES_MAX).build(),
            answers: Cache::builder()
                .max_capacity(ANSWERS_BYTES_MAX)
                .eviction_policy(EvictionPolicy::lru())
                .weigher(weight)
                .build(),
        }
    }

    /// The answer to a question, if it is known.
    pub(crate) fn answer(&self, key: &Key) -> Option<Bytes> {
        let packed = self.answers.get(key)?;
        let mut out = Vec::new();
        // It was packed here, so that its size is one that was taken before.
        GzDecoder::new(packed.as_ref()).read_to_end(&mut out).ok()?;
        Some(out.into())
    }

    /// Keeps an answer.
    pub(crate) fn keep(&self, key: Key, answer: &Bytes) {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        if packer.write_all(answer).is_ok()
            && let Ok(packed) = packer.finish()
        {
            self.answers.insert(key, packed.into());
        }
    }
}

/// A server, as it was started.
pub(crate) fn of_server(server: &PluginServer) -> Key {
    hash(&[server.name.as_bytes(), server.identity.as_bytes()])
}

/// What an answer about files depends on: the server, the files that are sent, and what it is told.
pub(crate) fn of_call(server: &PluginServer, files: &str, call: &PluginCall, what: &str) -> Key {
    let relative = call.relative();
    let question = match call.question {
        PluginQuestion::Manifests => "manifests",
        PluginQuestion::Parameters => "parameters",
    };
    let mut fields: Vec<&[u8]> = vec![
        server.name.as_bytes(),
        server.identity.as_bytes(),
        what.as_bytes(),
        question.as_bytes(),
        files.as_bytes(),
        call.name().as_bytes(),
        relative.as_bytes(),
    ];
    for (name, value) in &call.environment {
        fields.push(name.as_bytes());
        fields.push(value.as_bytes());
    }
    hash(&fields)
}

fn hash(fields: &[&[u8]]) -> Key {
    let mut hash = Sha256::new();
    for field in fields {
        hash.update(u64::try_from(field.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(field);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use tiphys_render::TreePath;
    use tiphys_render::plugins::PluginChoice;

    use super::*;

    #[test]
    fn rnd_141_everything_an_answer_depends_on_counts() {
        let server = PluginServer { name: "p".to_owned(), identity: "1".to_owned() };
        let call = PluginCall {
            question: PluginQuestion::Manifests,
            choice: PluginChoice::Any,
            root: TreePath::root(),
            directory: TreePath::parse("a").unwrap(),
            environment: vec![("A".to_owned(), "1".to_owned())],
        };
        let mut seen = vec![of_call(&server, "t", &call, "x")];
        let mut add = |key| {
            assert!(!seen.contains(&key));
            seen.push(key);
        };
        add(of_call(&PluginServer { identity: "2".to_owned(), ..server.clone() }, "t", &call, "x"));
        add(of_call(&PluginServer { name: "q".to_owned(), ..server.clone() }, "t", &call, "x"));
        add(of_call(&server, "u", &call, "x"));
        add(of_call(&server, "t", &call, "y"));
        let other = PluginCall { question: PluginQuestion::Parameters, ..call.clone() };
        add(of_call(&server, "t", &other, "x"));
        let other = PluginCall { directory: TreePath::parse("b").unwrap(), ..call.clone() };
        add(of_call(&server, "t", &other, "x"));
        let other = PluginCall { environment: Vec::new(), ..call };
        add(of_call(&server, "t", &other, "x"));
    }

    #[test]
    fn rnd_141_answers_are_kept_packed() {
        let remembered = Remembered::new();
        let answer = Bytes::from("kind: A\n".repeat(1_000));
        remembered.keep([1; 32], &answer);
        assert_eq!(remembered.answer(&[1; 32]), Some(answer));
        assert_eq!(remembered.answer(&[2; 32]), None);
    }
}
