//! Signatures of commits and tags, made and verified by the `gpg` of this machine (REP-200..202, RND-48..50).

use std::fs;

use tiphys_api::AppProject;
use tiphys_api::settings::{Settings, SettingsData};
use tiphys_api::trust::Keyring;
use tiphys_policy::signature::{SignatureRule, Verdict};
use tiphys_source::{Freshness, Repository, Signed, SourceError, Sources};

use crate::git_http::{Auth, GitServer};
use crate::signer::{Signer, keyring};
use crate::world::World;

/// A project that wants signatures by these keys.
fn rule(mode: &str, people: &[&Signer]) -> SignatureRule {
    let keys: Vec<String> = people.iter().map(|signer| format!("{:?}", signer.key.key_id())).collect();
    let project: AppProject = serde_json::from_str(&format!(
        r#"{{"metadata":{{"name":"p"}},"spec":{{"sourceIntegrity":{{"git":{{"policies":[
            {{"repos":[{{"url":"*"}}],"gpg":{{"mode":"{mode}","keys":[{}]}}}}]}}}}}}}}"#,
        keys.join(",")
    ))
    .unwrap();
    SignatureRule::of(&project, &Settings::new(SettingsData::default()), "https://h/r").unwrap().unwrap()
}

/// What is wrong with a revision, if anything.
async fn refusal(
    sources: &Sources,
    repository: &Repository,
    revision: &str,
    rule: &SignatureRule,
    keyring: &Keyring,
) -> Result<Option<String>, SourceError> {
    sources.invalidate(repository.url.expose());
    let commit = sources.resolve(repository, revision, Freshness::Cached).await?;
    let signed = Signed { commit: &commit, named: revision, tag_prefix: "", mode: rule.mode, keyring };
    let mut verdict = Verdict::new(rule);
    sources.signatures(repository, signed, &mut |object| verdict.take(object)).await?;
    Ok(verdict.refusal())
}

async fn people<const N: usize>(names: [&str; N]) -> Option<[Signer; N]> {
    let mut made = Vec::new();
    for name in names {
        made.push(Signer::new(name).await?);
    }
    made.try_into().ok()
}

#[tokio::test]
async fn rep_202_head_wants_the_commit_signed_by_somebody_who_is_listed() {
    let Some([ada, bob, eve]) = people(["Ada", "Bob", "Eve"]).await else { return };
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let (sources, repository) = (&world.sources, Repository::anonymous(&server.url("repo")));
    let (rule, keys) = (rule("head", &[&ada]), keyring(&[&ada, &bob]));
    let told = async || refusal(sources, &repository, "main", &rule, &keys).await.unwrap();
    let by = "by 'Ada <ada@example.test>':";

    let first = world.git(&["rev-parse", "HEAD"]).await;
    let expected = format!("Failed verifying revision {first} {by} unsigned (key_id=)");
    assert_eq!(told().await, Some(expected));

    ada.commit(&world, "by Ada").await;
    assert_eq!(told().await, None);

    let commit = bob.commit(&world, "by Bob").await;
    let id = bob.key.key_id();
    let expected = format!("Failed verifying revision {commit} {by} signed with unallowed key (key_id={id})");
    assert_eq!(told().await, Some(expected));

    let commit = eve.commit(&world, "by Eve").await;
    let id = eve.key.key_id();
    let expected =
        format!("Failed verifying revision {commit} {by} signed with key not in keyring (key_id={id})");
    assert_eq!(told().await, Some(expected));

    // The signature of another commit.
    ada.commit(&world, "words that are signed").await;
    let signed = world.git(&["cat-file", "commit", "HEAD"]).await;
    let forged = world.path().join("forged");
    fs::write(&forged, format!("{}\n", signed.replace("words that are signed", "other words"))).unwrap();
    let commit = world.git(&["hash-object", "-t", "commit", "-w", forged.to_str().unwrap()]).await;
    world.git(&["update-ref", "refs/heads/main", &commit]).await;
    let id = ada.key.key_id();
    let expected = format!("Failed verifying revision {commit} {by} bad signature (key_id={id})");
    assert_eq!(told().await, Some(expected));
    for signer in [ada, bob, eve] {
        signer.leave().await;
    }
}

#[tokio::test]
async fn rep_86_a_key_that_is_removed_counts_no_more_at_once() {
    let Some([ada, bob]) = people(["Ada", "Bob"]).await else { return };
    let world = World::with(&[("a", "1")]).await;
    ada.commit(&world, "by Ada").await;
    let (sources, repository, rule) = (&world.sources, world.local(), rule("head", &[&ada]));
    let told = async |keys: Keyring| refusal(sources, &repository, "main", &rule, &keys).await.unwrap();
    for _ in 0..2 {
        assert_eq!(told(keyring(&[&ada, &bob])).await, None);
        for fewer in [keyring(&[&bob]), Keyring::default()] {
            let text = told(fewer).await.unwrap();
            assert!(text.contains("signed with key not in keyring"), "{text}");
        }
    }
    for signer in [ada, bob] {
        signer.leave().await;
    }
}

#[tokio::test]
async fn rnd_50_a_key_that_has_expired() {
    let Some(old) = Signer::of_2020("Old").await else { return };
    let world = World::with(&[("a", "1")]).await;
    old.commit(&world, "by Old").await;
    let told =
        refusal(&world.sources, &world.local(), "main", &rule("head", &[&old]), &keyring(&[&old])).await;
    let text = told.unwrap().unwrap();
    assert!(text.ends_with(&format!("signed with expired key (key_id={})", old.key.key_id())), "{text}");
    old.leave().await;
}

#[tokio::test]
async fn rnd_49_an_annotated_tag_counts_instead_of_its_commit() {
    let Some([ada, bob]) = people(["Ada", "Bob"]).await else { return };
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    ada.tag(&world, "v1.0.0").await;
    world.git(&["tag", "light"]).await;
    ada.commit(&world, "by Ada").await;
    world.git(&["tag", "-a", "-m", "unsigned", "v2.0.0"]).await;
    bob.tag(&world, "v3.0.0").await;
    world.git(&["tag", "light-signed"]).await;
    let (rule, keys) = (rule("head", &[&ada]), keyring(&[&ada, &bob]));
    let told = async |revision: &str| {
        refusal(&world.sources, &repository, revision, &rule, &keys).await.unwrap().unwrap_or_default()
    };
    for revision in ["v1.0.0", "1.x", "refs/tags/v1.0.0", "main", "light-signed"] {
        assert_eq!(told(revision).await, "", "{revision}");
    }
    let by = "by 'Ada <ada@example.test>':";
    assert!(told("light").await.ends_with(&format!("{by} unsigned (key_id=)")));
    assert_eq!(told("v2.0.0").await, format!("Failed verifying revision v2.0.0 {by} unsigned (key_id=)"));
    let expected = format!(
        "Failed verifying revision v3.0.0 {by} signed with unallowed key (key_id={})",
        bob.key.key_id()
    );
    assert_eq!(told("v3.0.0").await, expected);
    for signer in [ada, bob] {
        signer.leave().await;
    }
}

#[tokio::test]
async fn rep_202_strict_wants_everything_signed_up_to_a_seal() {
    let Some([ada, bob]) = people(["Ada", "Bob"]).await else { return };
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let (rule, keys) = (rule("strict", &[&ada]), keyring(&[&ada, &bob]));
    let told = async |revision: &str| {
        refusal(&world.sources, &repository, revision, &rule, &keys).await.unwrap().unwrap_or_default()
    };
    let first = world.git(&["rev-parse", "HEAD"]).await;
    ada.commit(&world, "second").await;
    let text = told("main").await;
    assert!(text.starts_with(&format!("Failed verifying revision {first} ")), "{text}");
    // Whoever is not listed seals nothing.
    bob.commit(&world, "third\n\nArgocd-gpg-seal: no").await;
    ada.commit(&world, "fourth").await;
    let text = told("main").await;
    assert!(text.contains("unallowed key") && text.contains(&first), "{text}");

    ada.commit(&world, "fifth\n\nArgocd-gpg-seal: looked at everything").await;
    assert_eq!(told("main").await, "");
    ada.commit(&world, "sixth").await;
    assert_eq!(told("main").await, "");
    ada.tag(&world, "v1").await;
    assert_eq!(told("v1").await, "");

    // A side of a merge that nobody has signed.
    world.git(&["checkout", "-q", "-b", "side"]).await;
    let unsigned = world.commit("unsigned", &[("b", "1")]).await;
    world.git(&["checkout", "-q", "main"]).await;
    ada.commit(&world, "seventh").await;
    ada.git(&world, &["merge", "-q", "-S", "--no-ff", "-m", "merge", "side"]).await;
    let text = told("main").await;
    assert!(text.starts_with(&format!("Failed verifying revision {unsigned} ")), "{text}");
    assert!(!text.contains(&first), "{text}");

    // Ten problems are enough.
    for n in 0..15 {
        world.commit(&format!("c{n}"), &[]).await;
    }
    assert_eq!(told("main").await.matches("unsigned").count(), 10);
    for signer in [ada, bob] {
        signer.leave().await;
    }
}

/// REP-202: without the program nothing is verified, and nothing passes.
#[tokio::test]
async fn rep_202_without_gpg_nothing_passes() {
    let Some(ada) = Signer::new("Ada").await else { return };
    let world = World::with(&[("a", "1")]).await;
    ada.commit(&world, "by Ada").await;
    let sources = world.restarted(|options| options.gpg_program = "/nonexistent/gpg".into());
    for keys in [keyring(&[&ada]), Keyring::default()] {
        let error =
            refusal(&sources, &world.local(), "main", &rule("head", &[&ada]), &keys).await.unwrap_err();
        assert!(matches!(error, SourceError::Unverifiable { .. }), "{error:?}");
        assert!(
            error.to_string().contains("the program /nonexistent/gpg cannot be started (entity not found)"),
            "{error}"
        );
        assert!(!error.is_transient());
    }
    ada.leave().await;
}
