//! Adds what a server sent for one commit to a bare repository, without the git program.
//!
//! The order keeps the repository sound at every moment: objects come first; when everything below the commit was
//! found, the note that history ends there; and last the ref that proves the commit complete.
//!
//! What a server sends is measured before it is decoded, and the work ends when it is told to; temporary files go
//! with it (issue 10, A4).

mod survey;

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gix::ObjectId;
use gix::progress::Discard;
use gix_pack::Bundle;
use gix_pack::bundle::write::Options;
use tiphys_render::TreeError;

use crate::http::Increment;
use crate::store::parse_commit;
use crate::tree::{OBJECT_BYTES_MAX, Objects};

/// Why an increment was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// The pack or one of its objects is not what its checksum says, or is too large.
    #[error("the pack of the server cannot be used")]
    Invalid,
    /// The pack, or one of its objects, is larger than what is unpacked in this process.
    #[error("the pack of the server unpacks to too much")]
    TooLarge,
    /// The caller does not wait any longer.
    #[error("adding the pack of the server was interrupted")]
    Interrupted,
    /// Objects of the commit are neither in the pack nor here.
    #[error("the pack of the server is not complete")]
    Incomplete,
    /// An object cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The directory cannot be written.
    #[error("the cache directory cannot be written: {}", .0.kind())]
    Write(#[from] std::io::Error),
}

/// Adds a commit. `known` are complete commits, newest first. Ends soon after `interrupt` was set: after one
/// object, at the latest.
pub(crate) fn add(
    directory: &Path,
    objects: &Objects,
    commit: ObjectId,
    increment: &Increment,
    known: &[String],
    interrupt: &AtomicBool,
) -> Result<(), PackError> {
    survey::survey(&increment.pack, interrupt)?;
    let mut pack = increment.pack.as_slice();
    let options =
        Options { thread_limit: Some(1), alloc_limit_bytes: Some(OBJECT_BYTES_MAX), ..Options::default() };
    let outcome = Bundle::write_to_directory(
        &mut pack,
        Some(&directory.join("objects/pack")),
        &mut Discard,
        interrupt,
        Some(objects.finder()),
        gix::hash::Kind::Sha1,
        options,
    )
    .map_err(|_error| interrupted(interrupt).err().unwrap_or(PackError::Invalid))?;
    if let Some(keep) = outcome.keep_path {
        fs::remove_file(keep)?;
    }
    let data = objects.commit(commit)?;
    let complete = known.first().and_then(|newest| parse_commit(newest).ok());
    let complete = complete.map(|newest| objects.commit(newest)).transpose()?;
    if data.id != commit {
        return Err(PackError::Incomplete);
    }
    match objects.is_complete(data.root, complete.map(|newest| newest.root), interrupt) {
        Ok(true) => {}
        Ok(false) => return Err(PackError::Incomplete),
        Err(error) => return Err(interrupted(interrupt).err().unwrap_or(PackError::Tree(error))),
    }
    if increment.is_shallow {
        end_history(directory, commit)?;
    }
    let refs = directory.join("refs/tiphys");
    fs::create_dir_all(&refs)?;
    replace(&refs.join(commit.to_string()), format!("{commit}\n").as_bytes())?;
    Ok(())
}

fn interrupted(interrupt: &AtomicBool) -> Result<(), PackError> {
    if interrupt.load(Ordering::Relaxed) { Err(PackError::Interrupted) } else { Ok(()) }
}

/// Notes that the parents of a commit are not here.
fn end_history(directory: &Path, commit: ObjectId) -> Result<(), PackError> {
    let path = directory.join("shallow");
    let mut content = match fs::read(&path) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let line = commit.to_string();
    if content.split(|byte| *byte == b'\n').any(|known| known == line.as_bytes()) {
        return Ok(());
    }
    content.extend_from_slice(format!("{line}\n").as_bytes());
    Ok(replace(&path, &content)?)
}

/// Writes a file under git's lock name and moves it into place.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let lock = path.with_added_extension("lock");
    let mut file = fs::File::create(&lock)?;
    file.write_all(content)?;
    drop(file);
    fs::rename(&lock, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tiphys_exec::{self as exec, Invocation};

    /// An origin with one commit; packs with and without its file; an empty bare repository `b`.
    const WORLD: &str = "git init -q o && git init -q --bare --template= b && cd o && echo 1 > a && git add a \
        && git -c user.name=A -c user.email=a@h commit -q -m m && git rev-parse HEAD \
        && printf '%s\\n' HEAD | git pack-objects -q --revs --stdout > ../whole \
        && git rev-parse HEAD 'HEAD^{tree}' | git pack-objects -q --stdout > ../part";

    #[tokio::test]
    async fn rnd_46_only_complete_commits_are_added() {
        let world = tempfile::tempdir().unwrap();
        let output = exec::run(Invocation {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), WORLD.into()],
            environment: vec![
                ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
                ("HOME".into(), "/dev/null".into()),
            ],
            directory: world.path().to_owned(),
            deadline: Duration::from_mins(1),
            grace: Duration::from_secs(1),
            stdout_bytes_max: 1000,
            limits: exec::Limits::default(),
        })
        .await
        .unwrap();
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        let name = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        let (directory, commit) = (world.path().join("b"), parse_commit(&name).unwrap());
        let objects = Objects::open(&directory).unwrap();
        let increment = |pack: Vec<u8>| Increment { pack, is_shallow: true };
        let file = |name: &str| fs::read(world.path().join(name)).unwrap();
        let proof = directory.join("refs/tiphys").join(&name);

        let never = AtomicBool::new(false);
        let whole = file("whole");
        let mut flipped = whole.clone();
        flipped[20] ^= 1;
        for invalid in [Vec::new(), b"PACK".to_vec(), whole[..whole.len() - 1].to_vec(), flipped] {
            let result = add(&directory, &objects, commit, &increment(invalid), &[], &never);
            assert!(matches!(result, Err(PackError::Invalid)), "{result:?}");
        }
        let result = add(&directory, &objects, commit, &increment(file("part")), &[], &never);
        assert!(matches!(result, Err(PackError::Incomplete)), "{result:?}");
        assert!(!proof.exists() && !directory.join("shallow").exists());

        // Interrupted, and too large: nothing stays.
        let result =
            add(&directory, &objects, commit, &increment(whole.clone()), &[], &AtomicBool::new(true));
        assert!(matches!(result, Err(PackError::Interrupted)), "{result:?}");
        let bomb = survey::tests::bomb(100, 100);
        let result = add(&directory, &objects, commit, &increment(bomb), &[], &never);
        assert!(matches!(result, Err(PackError::TooLarge)), "{result:?}");
        assert!(!proof.exists());

        add(&directory, &objects, commit, &increment(whole), &[], &never).unwrap();
        assert_eq!(fs::read_to_string(&proof).unwrap(), format!("{name}\n"));
        assert_eq!(fs::read_to_string(directory.join("shallow")).unwrap(), format!("{name}\n"));
        let left = fs::read_dir(directory.join("objects/pack")).unwrap().map(|file| file.unwrap().path());
        let known = ["pack", "idx"];
        let left: Vec<_> =
            left.filter(|path| !known.iter().any(|kind| path.extension().unwrap() == *kind)).collect();
        assert_eq!(left, Vec::<std::path::PathBuf>::new());
    }
}
