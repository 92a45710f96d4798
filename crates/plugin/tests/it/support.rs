//! What the tests share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tiphys_plugin::config::Config;
use tiphys_plugin::server::{Server, ServerOptions};
use tiphys_plugin::{Answer, PluginError, PluginOptions, Plugins};
use tiphys_render::plugins::{PluginCall, PluginChoice, PluginQuestion};
use tiphys_render::{MemoryEntry, MemoryTree, Tree, TreePath};
use tokio_util::sync::CancellationToken;

/// A directory of sockets, and plugins that are looked for there.
pub(crate) struct Bench {
    pub(crate) folder: TempDir,
    pub(crate) plugins: Plugins,
    stopping: CancellationToken,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(PluginOptions::default())
    }

    pub(crate) fn with(options: PluginOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for below in ["sockets", "packed"] {
            std::fs::create_dir(folder.path().join(below)).unwrap();
        }
        let options = PluginOptions { sockets: Some(folder.path().join("sockets")), ..options };
        let plugins = Plugins::new(options, &folder.path().join("packed"));
        Self { folder, plugins, stopping: CancellationToken::new() }
    }

    pub(crate) fn sockets(&self) -> std::path::PathBuf {
        self.folder.path().join("sockets")
    }

    pub(crate) fn work(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(format!("work-{name}"))
    }

    /// Starts the server of this program; `spec` is that of its configuration.
    pub(crate) fn serve(&self, name: &str, spec: &str) {
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: {name}}}\nspec: {spec}\n"
        );
        let options = ServerOptions {
            config: Config::read(&text).unwrap(),
            sockets: self.sockets(),
            work: self.work(name),
            environment: vec![
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("SIDECAR".to_owned(), "own".to_owned()),
            ],
            message_bytes_max: 1 << 20,
            grace: Duration::from_millis(200),
        };
        let server = Server::open(options).unwrap();
        tokio::spawn(server.run(self.stopping.clone()));
    }

    pub(crate) async fn answer(&self, call: &PluginCall) -> Result<Answer, PluginError> {
        self.answer_about(&tree(), call, false).await
    }

    pub(crate) async fn answer_about(
        &self,
        tree: &Arc<dyn Tree>,
        call: &PluginCall,
        is_fresh: bool,
    ) -> Result<Answer, PluginError> {
        let none = || -> futures::future::BoxFuture<'_, Result<Vec<(String, String)>, String>> {
            Box::pin(async {
                Ok(vec![("GIT_CONFIG_VALUE_0".to_owned(), "Authorization: Basic c2VjcmV0".to_owned())])
            })
        };
        self.plugins.answer(tree, call, &none, is_fresh).await
    }
}

pub(crate) fn tree() -> Arc<dyn Tree> {
    let file = |text: &str| MemoryEntry::File(text.to_owned().into(), false);
    Arc::new(
        MemoryTree::from_entries([
            ("apps/a/values.txt".to_owned(), file("from-a-file")),
            ("apps/a/run.sh".to_owned(), MemoryEntry::File("#!/bin/sh\necho ran\n".into(), true)),
            ("apps/a/link".to_owned(), MemoryEntry::Symlink("values.txt".to_owned())),
            ("shared/b.txt".to_owned(), file("shared")),
        ])
        .unwrap(),
    )
}

pub(crate) fn call(choice: PluginChoice) -> PluginCall {
    PluginCall {
        question: PluginQuestion::Manifests,
        choice,
        root: TreePath::root(),
        directory: TreePath::parse("apps/a").unwrap(),
        environment: vec![("ARGOCD_APP_NAME".to_owned(), "shop".to_owned())],
    }
}

pub(crate) fn named(name: &str) -> PluginCall {
    call(PluginChoice::Named(name.to_owned()))
}

pub(crate) fn text(answer: Result<Answer, PluginError>) -> String {
    match answer {
        Ok(Answer::Given(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        Ok(Answer::Nobody(why)) => format!("nobody: {why}"),
        Err(error) => format!("error: {error}"),
    }
}

pub(crate) fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}
