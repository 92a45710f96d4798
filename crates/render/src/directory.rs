//! Plain manifests of a directory (RND section 8).
//!
//! The walk chooses files, their sizes are checked, then each file becomes objects. Nothing is rendered when
//! any chosen file fails, except for YAML files that were never meant as manifests (RND-76).

use serde_json::{Deserializer, Value};
use tiphys_api::application::{DirectorySource, JsonnetVariable};
use tiphys_go::glob::{Glob, GlobError};
use tiphys_go::json::{self, JsonError};
use tiphys_go::memory::Memory;
use tiphys_go::steps::Steps;

use crate::environment::{Environment, substitute};
use crate::jsonnet::{Evaluator, JsonnetError, Program, TreeImports, Variable};
use crate::links::{self, Resolved, WALK_DEPTH_MAX};
use crate::manifests::{self, ManifestError};
use crate::{Budget, EntryKind, Reason, RenderError, Tree, TreeError, TreePath};

/// A file with this text anywhere is not rendered (RND-72).
pub const SKIP_MARKER: &str = "+argocd:skip-file-rendering";

/// Objects of a directory, in order of files; lists are not expanded yet.
///
/// # Errors
/// When a file that looks like a manifest cannot be read, or a limit is reached.
pub fn render(
    tree: &dyn Tree,
    directory: &TreePath,
    options: &DirectorySource,
    jsonnet: Option<&Jsonnet<'_>>,
    budget: &Budget,
) -> Result<Vec<Value>, RenderError> {
    let files = find_files(tree, directory, options, budget)?;
    let contents = read_files(tree, &files, jsonnet.is_some(), budget)?;
    let mut programs = None;
    let mut objects = Vec::new();
    let mut memory = Memory::new(budget.memory);
    for (file, content) in contents {
        budget.check()?;
        let name = file.listed.name();
        let extension = extension(name);
        if is_lfs_pointer(&content) {
            return Err(lfs_pointer(&file.listed));
        }
        let Ok(text) = manifests::decode_text(&content) else {
            if extension == "json" {
                return Err(unmarshal(name, &ManifestError::Encoding));
            }
            // A binary file is not a manifest; it cannot hold the texts that RND-76 asks for either, unless it
            // is a broken one.
            // The zeros are the other halves of UTF-16 without a byte order mark.
            if objects_meant(&String::from_utf8_lossy(&content).replace('\0', "")) {
                return Err(unmarshal(name, &ManifestError::Encoding));
            }
            continue;
        };
        if text.contains(SKIP_MARKER) {
            continue;
        }
        if extension == "jsonnet" {
            // Without an evaluator these files were not read.
            let Some(jsonnet) = jsonnet else { continue };
            let programs = match &mut programs {
                Some(programs) => programs,
                none => none.insert(Programs::new(tree, directory, options, jsonnet)?),
            };
            objects.extend(programs.objects(&file.listed, &text, &mut memory)?);
        } else if extension == "json" {
            objects.push(parse_json_file(name, &text, &mut memory)?);
        } else {
            let stream = manifests::parse_stream(&text, budget, &mut memory);
            // Never ignored like a file that is no manifest: what follows would be missing.
            if let Some((error, reason)) = stream.error.as_ref().and_then(|e| Some((e, e.exceeded()?))) {
                return Err(RenderError::new(reason, format!("{name:?}: {error}")));
            }
            match stream.error {
                Some(error) if !stream.objects.is_empty() || objects_meant(&text) => {
                    return Err(unmarshal(name, &error));
                }
                Some(_) => {}
                None => objects.extend(stream.objects),
            }
        }
        if objects.len() > budget.objects {
            let text = ManifestError::TooMany { limit: budget.objects }.to_string();
            return Err(RenderError::new(Reason::BudgetExceeded, text));
        }
    }
    Ok(objects)
}

/// Who evaluates Jsonnet, and the variables of the build environment for its values (RND-68).
pub struct Jsonnet<'a> {
    /// Who evaluates.
    pub evaluator: &'a dyn Evaluator,
    /// The build environment.
    pub environment: &'a Environment,
}

/// The Jsonnet files of one directory.
struct Programs<'a> {
    evaluator: &'a dyn Evaluator,
    imports: TreeImports<'a>,
    arguments: Vec<Variable>,
    ext_vars: Vec<Variable>,
}

impl<'a> Programs<'a> {
    fn new(
        tree: &'a dyn Tree,
        directory: &TreePath,
        options: &DirectorySource,
        jsonnet: &Jsonnet<'a>,
    ) -> Result<Self, RenderError> {
        let options = options.jsonnet.clone().unwrap_or_default();
        let substituted = |variables: Vec<JsonnetVariable>| -> Vec<Variable> {
            let with = |one: JsonnetVariable| Variable {
                name: one.name,
                value: substitute(&one.value, jsonnet.environment),
                code: one.code,
            };
            variables.into_iter().map(with).collect()
        };
        Ok(Self {
            evaluator: jsonnet.evaluator,
            imports: TreeImports::new(tree, directory, &options.libs)?,
            arguments: substituted(options.tlas),
            ext_vars: substituted(options.ext_vars),
        })
    }

    /// The object, or the list of objects, that a file evaluates to (RND-78).
    fn objects(
        &mut self,
        file: &TreePath,
        text: &str,
        memory: &mut Memory,
    ) -> Result<Vec<Value>, RenderError> {
        let name = file.name();
        let program = Program {
            file: file.as_str().to_owned(),
            text: text.to_owned(),
            arguments: self.arguments.clone(),
            ext_vars: self.ext_vars.clone(),
        };
        let result = self.evaluator.evaluate(&program, &mut self.imports).map_err(|error| {
            let reason = match error {
                JsonnetError::Program(_) => Reason::JsonnetEvaluate,
                JsonnetError::Exceeded(_) => Reason::BudgetExceeded,
            };
            RenderError::new(reason, format!("Failed to evaluate jsonnet {name:?}: {error}"))
        })?;
        let wrong = |why: &dyn std::fmt::Display| {
            let text = format!("Failed to unmarshal generated json {name:?}: {why}");
            RenderError::new(Reason::JsonnetOutput, text)
        };
        let value =
            json::decode_kubernetes_within(result.as_bytes(), memory).map_err(|error| match error {
                JsonError::Memory { limit } => {
                    let text = format!("{name:?}: {}", ManifestError::TooLarge { limit });
                    RenderError::new(Reason::MemoryExceeded, text)
                }
                error => wrong(&error),
            })?;
        let kind_of = |value: &Value| value.get("kind").and_then(Value::as_str).map_or(0, str::len);
        let objects = match value {
            // Null is no object, and no mistake.
            Value::Null => Vec::new(),
            Value::Array(items) => items.into_iter().filter(|item| !item.is_null()).collect(),
            object => vec![object],
        };
        match objects.iter().find(|object| !object.is_object()) {
            Some(_) => Err(wrong(&"it is neither an object nor a list of objects")),
            None if objects.iter().any(|object| kind_of(object) == 0) => {
                Err(wrong(&"Object 'Kind' is missing"))
            }
            None => Ok(objects),
        }
    }
}

/// Whether a text looks as if it were meant as a manifest (RND-76).
///
/// Deviation: one line that begins with `apiVersion:` or `kind:` is enough. A manifest that somebody broke half
/// way must never look like one that somebody removed.
fn objects_meant(text: &str) -> bool {
    text.split(['\n', '\r']).any(begins_like_an_object)
        || ["apiVersion:", "kind:", "metadata:"].iter().all(|word| text.contains(word))
}

/// Whether a line, without what may stand before a key in YAML and JSON, begins with one that all objects have.
fn begins_like_an_object(line: &str) -> bool {
    const BEFORE_KEYS: [char; 10] = [' ', '\t', '-', '?', '{', '[', ',', '"', '\'', '\u{feff}'];
    const AFTER_KEYS: [char; 4] = ['"', '\'', ' ', '\t'];
    let line = line.trim_start_matches(BEFORE_KEYS);
    ["apiVersion", "kind"].iter().any(|key| {
        line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(AFTER_KEYS).starts_with(':'))
    })
}

/// Whether a file is what Git keeps in place of one that is stored with Git LFS. The first line says so.
fn is_lfs_pointer(content: &[u8]) -> bool {
    const FIRST_LINES: [&[u8]; 3] = [
        b"version https://git-lfs.github.com/spec/",
        b"version https://hawser.github.com/spec/",
        b"version http://git-media.io/v/",
    ];
    FIRST_LINES.iter().any(|line| content.starts_with(line))
}

/// The file's content is elsewhere; it is not known, which is not the same as no content (INV-1).
fn lfs_pointer(path: &TreePath) -> RenderError {
    let text = format!(
        "Failed to unmarshal {:?}: {path} is a pointer to a file in Git LFS; set enableLfs in the Secret of the repository \
         (`repo add --enable-lfs`), store the file in the repository itself, or exclude it",
        path.name()
    );
    RenderError::new(Reason::ExecRequired, text)
}

fn unmarshal(name: &str, error: &dyn std::fmt::Display) -> RenderError {
    RenderError::new(Reason::ManifestUnmarshal, format!("Failed to unmarshal {name:?}: {error}"))
}

/// A JSON file holds exactly one object (RND-75).
fn parse_json_file(name: &str, text: &str, memory: &mut Memory) -> Result<Value, RenderError> {
    let mut documents = Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    match documents.next() {
        Some(Ok(_)) => {}
        Some(Err(error)) => return Err(unmarshal(name, &error)),
        None => return Err(unmarshal(name, &"EOF")),
    }
    let (first, rest) = text.split_at_checked(documents.byte_offset()).unwrap_or((text, ""));
    if !rest.trim().is_empty() {
        let text =
            format!("Found multiple objects in {name:?}. Only single objects are allowed in JSON files.");
        return Err(RenderError::new(Reason::JsonMultipleObjects, text));
    }
    let value = json::decode_kubernetes_within(first.as_bytes(), memory).map_err(|error| match error {
        JsonError::Memory { limit } => {
            let text = format!("{name:?}: {}", ManifestError::TooLarge { limit });
            RenderError::new(Reason::MemoryExceeded, text)
        }
        error => unmarshal(name, &error),
    })?;
    match value.get("kind") {
        Some(Value::String(kind)) if !kind.is_empty() => Ok(value),
        // Deviation (RND-75): the reference passes such an object on and fails later.
        _ if value.is_object() => Err(unmarshal(name, &"Object 'Kind' is missing")),
        _ => Err(unmarshal(name, &"the document is not an object")),
    }
}

/// A chosen file: the path under which it was found, and where links lead.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Found {
    listed: TreePath,
    real: TreePath,
}

/// Reads the files whose sizes together stay below the limit (RND-73). Jsonnet files do not count for it.
fn read_files<'a>(
    tree: &dyn Tree,
    files: &'a [Found],
    jsonnet_enabled: bool,
    budget: &Budget,
) -> Result<Vec<(&'a Found, bytes::Bytes)>, RenderError> {
    let combined = match budget.combined_manifest_bytes {
        0 => u64::MAX,
        limit => limit,
    };
    let (mut combined_left, mut input_left) = (combined, budget.input_bytes);
    let mut contents = Vec::with_capacity(files.len());
    for file in files {
        budget.check()?;
        let counts = extension(file.listed.name()) != "jsonnet";
        if !counts && !jsonnet_enabled {
            continue;
        }
        let limit = if counts { combined_left.min(input_left) } else { input_left };
        let content = match tree.read(&file.real, limit) {
            Err(TreeError::TooLarge { .. }) if counts && combined_left <= input_left => {
                let text = "exceeded max combined manifest file size";
                return Err(RenderError::new(Reason::ManifestsTooLarge, text));
            }
            Err(error @ TreeError::TooLarge { .. }) => {
                return Err(RenderError::new(Reason::MemoryExceeded, error.to_string()));
            }
            other => other?,
        };
        let size = content.len() as u64;
        input_left = input_left.saturating_sub(size);
        if counts {
            combined_left = combined_left.saturating_sub(size);
        }
        contents.push((file, content));
    }
    Ok(contents)
}

struct Walk<'a> {
    tree: &'a dyn Tree,
    root: &'a TreePath,
    options: &'a DirectorySource,
    include: Pattern,
    exclude: Pattern,
    /// What matching may still take.
    steps: Steps,
    files_left: usize,
    path_bytes_left: usize,
    budget: &'a Budget,
    found: Vec<Found>,
}

/// The files a directory source consists of, in order of path components (RND-69..71).
fn find_files(
    tree: &dyn Tree,
    directory: &TreePath,
    options: &DirectorySource,
    budget: &Budget,
) -> Result<Vec<Found>, RenderError> {
    let mut walk = Walk {
        tree,
        root: directory,
        options,
        include: Pattern::new("include", &options.include)?,
        exclude: Pattern::new("exclude", &options.exclude)?,
        steps: Steps::new(budget.pattern_steps),
        files_left: budget.files,
        path_bytes_left: budget.path_bytes,
        budget,
        found: Vec::new(),
    };
    walk.enter(directory, 0)?;
    Ok(walk.found)
}

impl Walk<'_> {
    fn enter(&mut self, directory: &TreePath, depth: usize) -> Result<(), RenderError> {
        self.budget.check()?;
        if depth > WALK_DEPTH_MAX {
            return Err(RenderError::new(Reason::BudgetExceeded, "directories are nested too deeply"));
        }
        for (name, entry) in self.tree.list(directory)? {
            self.files_left = self.files_left.checked_sub(1).ok_or_else(|| {
                RenderError::new(
                    Reason::MemoryExceeded,
                    format!("the directory has more than {} files", self.budget.files),
                )
            })?;
            let path = directory.child(&name);
            match entry.kind {
                EntryKind::Directory if self.options.recurse => self.enter(&path, depth + 1)?,
                EntryKind::Directory => {}
                // What a submodule holds is not known, and what is not known is not empty (INV-1). One that
                // the walk would not enter, or that is excluded by its own name, is left alone.
                EntryKind::Submodule if self.options.recurse && !self.is_excluded(&path)? => {
                    return Err(TreeError::submodule(self.tree, &path).into());
                }
                EntryKind::Submodule => {}
                EntryKind::File { .. } if self.is_wanted(&path)? => self.find(path.clone(), path)?,
                EntryKind::Symlink { .. } if self.is_wanted(&path)? => self.follow(path)?,
                EntryKind::File { .. } | EntryKind::Symlink { .. } => {}
            }
        }
        Ok(())
    }

    /// Takes a file. Names and levels are the repository's choice, so their bytes are counted: half a million
    /// files below a long path would be gigabytes of paths.
    fn find(&mut self, listed: TreePath, real: TreePath) -> Result<(), RenderError> {
        let bytes = size_of::<Found>() + listed.as_str().len() + real.as_str().len();
        self.path_bytes_left = self.path_bytes_left.checked_sub(bytes).ok_or_else(|| {
            let limit = self.budget.path_bytes;
            let text = format!("the paths of the directory's files have more than {limit} bytes");
            RenderError::new(Reason::MemoryExceeded, text)
        })?;
        self.found.push(Found { listed, real });
        Ok(())
    }

    /// A link counts when it leads to a regular file inside the root (RND-70).
    fn follow(&mut self, path: TreePath) -> Result<(), RenderError> {
        match links::resolve(self.tree, &path)? {
            Resolved::Found(real, entry) if entry.is_file() => self.find(path, real)?,
            Resolved::Found(..) | Resolved::Missing => {}
            Resolved::Submodule(path) => return Err(TreeError::submodule(self.tree, &path).into()),
            Resolved::Outside => {
                return Err(RenderError::new(Reason::SymlinkOutOfBounds, "illegal filepath in symlink"));
            }
            Resolved::Loop => return Err(RenderError::new(Reason::SymlinkLoop, "too many links")),
        }
        Ok(())
    }

    fn is_wanted(&mut self, path: &TreePath) -> Result<bool, RenderError> {
        let Some(relative) = path.relative_to(self.root) else { return Ok(false) };
        if !self.options.disable_extension_filter && !has_manifest_extension(path.name()) {
            return Ok(false);
        }
        Ok(!self.is_excluded(path)?
            && (!self.include.is_set() || self.include.is_match("include", relative, &mut self.steps)?))
    }

    fn is_excluded(&mut self, path: &TreePath) -> Result<bool, RenderError> {
        match path.relative_to(self.root) {
            Some(relative) => self.exclude.is_match("exclude", relative, &mut self.steps),
            None => Ok(false),
        }
    }
}

/// Case-sensitive, as the reference compares it (RND-69).
fn has_manifest_extension(name: &str) -> bool {
    ["yaml", "yml", "json", "jsonnet"].contains(&extension(name))
}

/// What follows the last dot of a name; a name that begins with its only dot has one too.
fn extension(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// An include or exclude option. One that does not compile matches nothing (RND-71).
enum Pattern {
    Unset,
    Broken,
    Glob(Glob),
}

impl Pattern {
    fn new(field: &str, text: &str) -> Result<Self, RenderError> {
        match Glob::new(text, &[]) {
            _ if text.is_empty() => Ok(Self::Unset),
            Ok(glob) => Ok(Self::Glob(glob)),
            // Not one that matches nothing: what is left out of `exclude` would be synced.
            Err(error @ GlobError::TooLong) => {
                Err(RenderError::new(Reason::BudgetExceeded, format!("directory.{field}: {error}")))
            }
            Err(_) => Ok(Self::Broken),
        }
    }

    fn is_set(&self) -> bool {
        !matches!(self, Self::Unset)
    }

    fn is_match(&self, field: &str, path: &str, steps: &mut Steps) -> Result<bool, RenderError> {
        let Self::Glob(glob) = self else { return Ok(false) };
        glob.is_match_within(path, steps).map_err(|error| {
            let text = format!("directory.{field}: matching the files of the directory takes {error}");
            RenderError::new(Reason::BudgetExceeded, text)
        })
    }
}

#[cfg(test)]
mod tests;
