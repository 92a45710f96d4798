//! Which plugin a source means, and its answer (RND-132, RND-133, RND-139).

use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use tiphys_render::Tree;
use tiphys_render::plugins::{PluginCall, PluginChoice, PluginQuestion, PluginServer, PluginSettings};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::client::{self, Asked, PluginError};
use crate::message::{self, Flags, Manifests, Metadata};
use crate::options::PluginOptions;
use crate::pack::pack;
use crate::remembered::{Remembered, of_call, of_server};

/// Sources that are with plugins at a time: each has a file of packed files, and may have a large answer.
pub const CALLS_MAX: usize = 4;
/// How long a plugin may take to say how it is set up.
const SETUP_TIMEOUT: Duration = Duration::from_secs(10);
/// Servers that are looked at.
const SERVERS_MAX: usize = 200;
/// Ends names of sockets.
const SUFFIX: &str = ".sock";

/// Variables with which `git` gets at the repository of a source, or why there are none (RND-137).
pub type Credentials<'a> = &'a (dyn Fn() -> BoxFuture<'a, Result<Vec<(String, String)>, String>> + Sync);

/// What became of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A plugin answered: a stream of manifests, or a list of announcements as JSON.
    Given(Bytes),
    /// The source is no plugin's, and why.
    Nobody(String),
}

/// The plugins that are there. Cloning gives another handle.
#[derive(Clone)]
pub struct Plugins(Arc<Shared>);

struct Shared {
    options: PluginOptions,
    /// Where packed files stand, without names.
    packed: PathBuf,
    turns: Semaphore,
    remembered: Remembered,
}

impl std::fmt::Debug for Plugins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugins").field("options", &self.0.options).finish_non_exhaustive()
    }
}

/// Where a source's question stands.
struct Question<'a> {
    call: &'a PluginCall,
    tree: &'a Arc<dyn Tree>,
    /// Id of what is sent.
    files: String,
    /// What is sent, once somebody wants it.
    packed: Option<Sent>,
    ends: Instant,
    is_fresh: bool,
}

struct Sent {
    file: Arc<File>,
    checksum: String,
    size: u64,
}

impl Plugins {
    /// Plugins of an installation; packed files stand in a directory without names.
    pub fn new(options: PluginOptions, packed: &Path) -> Self {
        Self(Arc::new(Shared {
            options,
            packed: packed.to_owned(),
            turns: Semaphore::new(CALLS_MAX),
            remembered: Remembered::new(),
        }))
    }

    /// The servers that are there now, by name. One that appears later is found by the next look.
    ///
    /// # Errors
    /// When the directory is there and cannot be read: nobody knows then which there are.
    pub fn servers(&self) -> Result<Vec<PluginServer>, PluginError> {
        let Some(directory) = &self.0.options.sockets else { return Ok(Vec::new()) };
        let failed = |error: &std::io::Error| PluginError::Directory {
            directory: directory.display().to_string(),
            text: error.kind().to_string(),
        };
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed(&error))?;
            let name = entry.file_name();
            let Some(name) = name.to_str().and_then(|name| name.strip_suffix(SUFFIX)) else { continue };
            // Between the listing and this look it may have gone.
            let Ok(metadata) = std::fs::metadata(entry.path()) else { continue };
            if !metadata.file_type().is_socket() {
                continue;
            }
            if found.len() >= SERVERS_MAX {
                let text = format!("there are more than {SERVERS_MAX} sockets");
                return Err(PluginError::Directory { directory: directory.display().to_string(), text });
            }
            let identity = format!("{}.{}.{}", metadata.ino(), metadata.ctime(), metadata.ctime_nsec());
            found.push(PluginServer { name: name.to_owned(), identity });
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }

    /// What is known of plugins before a source is rendered: those that are there, the annotation
    /// `manifest-generate-paths` where it says what is sent, and whether a source was a plugin's before.
    pub fn settings(&self, generate_paths: Option<&String>, was_plugin: bool) -> PluginSettings {
        let (servers, is_unknown) = match self.servers() {
            Ok(servers) => (servers, false),
            Err(error) => {
                tracing::warn!(error = %error, "plugins cannot be looked for");
                (Vec::new(), true)
            }
        };
        let paths = generate_paths.filter(|_| self.0.options.uses_generate_paths);
        PluginSettings { servers: servers.into(), generate_paths: paths.cloned(), was_plugin, is_unknown }
    }

    /// The answer to a question about the files of a tree. `is_fresh` asks the plugin although the answer is known.
    ///
    /// # Errors
    /// When a plugin fails, or nobody knows whether there is one for the source.
    pub async fn answer(
        &self,
        tree: &Arc<dyn Tree>,
        call: &PluginCall,
        credentials: Credentials<'_>,
        is_fresh: bool,
    ) -> Result<Answer, PluginError> {
        let servers = self.servers()?;
        let files = if call.root.is_root() {
            tree.id().to_owned()
        } else {
            let id = tree.subtree_id(&call.root).map_err(crate::pack::PackError::from)?;
            id.unwrap_or_default()
        };
        // It is never closed.
        let _turn = self.0.turns.acquire().await;
        let ends = Instant::now() + self.0.options.timeout;
        let mut question = Question { call, tree, files, packed: None, ends, is_fresh };
        let nobody = |text: String| Ok(Answer::Nobody(text));
        match &call.choice {
            PluginChoice::Named(name) => {
                let text = format!(
                    "could not find cmp-server plugin with name {name:?} supporting the given repository"
                );
                let Some(server) = servers.iter().find(|server| server.name == *name) else {
                    return nobody(text);
                };
                match self.is_for(server, &mut question).await? {
                    Some(setup) => self.ask(server, setup, &mut question, credentials).await,
                    None => nobody(text),
                }
            }
            PluginChoice::Any | PluginChoice::Perhaps { .. } => {
                let mut silent = None;
                for server in &servers {
                    match self.discovered(server, &mut question).await {
                        Ok(Some(setup)) => return self.ask(server, setup, &mut question, credentials).await,
                        Ok(None) => {}
                        Err(error @ PluginError::Dial { .. }) => {
                            tracing::warn!(plugin = server.name, error = %error, "a plugin is passed over");
                            silent = Some(error.to_string());
                        }
                        Err(error) => return Err(error),
                    }
                }
                let text = "could not find plugin supporting the given repository".to_owned();
                if call.choice == (PluginChoice::Perhaps { was_plugin: true }) {
                    // INV-1: that nobody is there does not say that it is none's.
                    if let Some(silent) = silent {
                        return Err(PluginError::Unknown(silent));
                    }
                    if servers.is_empty() {
                        return Err(PluginError::Unknown("no plugin is there".to_owned()));
                    }
                }
                nobody(text)
            }
        }
    }

    /// How a named plugin is set up, if it takes the source.
    async fn is_for(
        &self,
        server: &PluginServer,
        question: &mut Question<'_>,
    ) -> Result<Option<Flags>, PluginError> {
        let setup = self.setup(server, question).await?;
        let takes = !setup.first || self.matches(server, question).await?;
        Ok(takes.then_some(setup))
    }

    /// How a plugin is set up, if it has discovery and takes the source.
    async fn discovered(
        &self,
        server: &PluginServer,
        question: &mut Question<'_>,
    ) -> Result<Option<Flags>, PluginError> {
        let setup = self.setup(server, question).await?;
        let takes = setup.first && self.matches(server, question).await?;
        Ok(takes.then_some(setup))
    }

    /// How a plugin is set up: whether it has discovery, whether it wants credentials.
    async fn setup(&self, server: &PluginServer, question: &Question<'_>) -> Result<Flags, PluginError> {
        let key = of_server(server);
        if let Some(known) = self.0.remembered.setups.get(&key) {
            return Ok(known);
        }
        let socket = self.socket(server);
        let asked = self.asked(server, &socket, &[]);
        let left = question.ends.saturating_duration_since(Instant::now()).min(SETUP_TIMEOUT);
        let answer = asked.call(message::CHECK, client::one(&[]), left).await?;
        let setup = Flags::decode(&answer).map_err(|error| asked.message(&error))?;
        self.0.remembered.setups.insert(key, setup);
        Ok(setup)
    }

    async fn matches(&self, server: &PluginServer, question: &mut Question<'_>) -> Result<bool, PluginError> {
        let key = of_call(server, &question.files, question.call, "match");
        if !question.is_fresh
            && let Some(known) = self.0.remembered.matches.get(&key)
        {
            return Ok(known);
        }
        let answer = self.send(server, message::MATCH, question, &[]).await?;
        let socket = self.socket(server);
        let flags = Flags::decode(&answer);
        let flags = flags.map_err(|error| self.asked(server, &socket, &[]).message(&error))?;
        self.0.remembered.matches.insert(key, flags.first);
        Ok(flags.first)
    }

    async fn ask(
        &self,
        server: &PluginServer,
        setup: Flags,
        question: &mut Question<'_>,
        credentials: Credentials<'_>,
    ) -> Result<Answer, PluginError> {
        let key = of_call(server, &question.files, question.call, "answer");
        if !question.is_fresh
            && let Some(known) = self.0.remembered.answer(&key)
        {
            return Ok(Answer::Given(known));
        }
        let more = if setup.second {
            credentials().await.map_err(|why| {
                PluginError::Credentials(format!(
                    "the plugin {:?} wants credentials of git: {why}",
                    server.name
                ))
            })?
        } else {
            Vec::new()
        };
        let method = match question.call.question {
            PluginQuestion::Manifests => message::GENERATE,
            PluginQuestion::Parameters => message::PARAMETERS,
        };
        let answer = self.send(server, method, question, &more).await?;
        let socket = self.socket(server);
        let asked = self.asked(server, &socket, &[]);
        let given = match question.call.question {
            PluginQuestion::Manifests => {
                Manifests::joined(&answer).map_err(|error| asked.message(&error))?.into()
            }
            PluginQuestion::Parameters => {
                let found = message::announcements(&answer).map_err(|error| asked.message(&error))?;
                serde_json::Value::from(found).to_string().into()
            }
        };
        self.0.remembered.keep(key, &given);
        Ok(Answer::Given(given))
    }

    fn socket(&self, server: &PluginServer) -> PathBuf {
        let directory = self.0.options.sockets.clone().unwrap_or_default();
        directory.join(format!("{}{SUFFIX}", server.name))
    }

    fn asked<'a>(&self, server: &'a PluginServer, socket: &'a Path, secrets: &'a [String]) -> Asked<'a> {
        Asked { plugin: &server.name, socket, bytes_max: self.0.options.message_bytes_max, secrets }
    }

    /// Sends the files and what belongs to them, and takes the answer.
    async fn send(
        &self,
        server: &PluginServer,
        method: &str,
        question: &mut Question<'_>,
        more: &[(String, String)],
    ) -> Result<Bytes, PluginError> {
        let sent = self.packed(question).await?;
        let (file, checksum, size) = (Arc::clone(&sent.file), sent.checksum.clone(), sent.size);
        let mut env = question.call.environment.clone();
        env.extend(more.iter().cloned());
        let metadata = Metadata {
            app_name: question.call.name().to_owned(),
            app_rel_path: question.call.relative(),
            checksum,
            size,
            env,
        };
        // What was handed over as a header is shown to nobody.
        let secrets: Vec<String> = more
            .iter()
            .filter_map(|(_, value)| value.strip_prefix("Authorization: "))
            .filter_map(|value| value.split_once(' '))
            .map(|(_, secret)| secret.to_owned())
            .collect();
        let socket = self.socket(server);
        let asked = self.asked(server, &socket, &secrets);
        let pieces = client::files(&metadata.encode(), file, self.0.options.chunk_bytes);
        let left = question.ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(PluginError::Timeout { plugin: server.name.clone(), after: self.0.options.timeout });
        }
        asked.call(method, pieces, left).await
    }

    /// The files, packed once for all that is asked about them.
    async fn packed<'q>(&self, question: &'q mut Question<'_>) -> Result<&'q Sent, PluginError> {
        if question.packed.is_none() {
            let (tree, root) = (Arc::clone(question.tree), question.call.root.clone());
            let (exclusions, parent) = (self.0.options.exclusions.clone(), self.0.packed.clone());
            let stop = Arc::new(AtomicBool::new(false));
            let _stops = StopOnDrop(Arc::clone(&stop));
            let work =
                tokio::task::spawn_blocking(move || pack(tree.as_ref(), &root, &exclusions, &parent, &stop));
            let packed = tokio::time::timeout_at(question.ends, work).await;
            let after = self.0.options.timeout;
            let late = |_elapsed| PluginError::Timeout { plugin: "(packing)".to_owned(), after };
            let packed = packed.map_err(late)?.map_err(|panic| PluginError::Broken {
                plugin: "(packing)".to_owned(),
                text: panic.to_string(),
            })??;
            question.packed =
                Some(Sent { file: Arc::new(packed.file), checksum: packed.checksum, size: packed.size });
        }
        question.packed.as_ref().ok_or_else(|| PluginError::Broken {
            plugin: "(packing)".to_owned(),
            text: "nothing was packed".to_owned(),
        })
    }
}

/// Ends work on another thread when nobody waits for it any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
