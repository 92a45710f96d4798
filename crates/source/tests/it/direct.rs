//! Smart HTTP without the git program, and when the git program is asked after all (RND-29).

use std::fs;
use std::time::Duration;

use tiphys_render::TreePath;
use tiphys_source::exec::{self, Invocation};
use tiphys_source::{Freshness, Repository, Secret, SourceError, Sources, Tls};

use crate::git_http::{Auth, Behaviour, Damage, GitServer};
use crate::world::{World, openssl};

/// Sources whose git program always fails, on the cache of a world that git may have filled before.
fn without_git(world: &World) -> Sources {
    world.restarted(|options| options.git_program = "/bin/false".into())
}

async fn read(sources: &Sources, repository: &Repository, path: &str) -> Result<String, SourceError> {
    sources.invalidate(repository.url.expose());
    let commit = sources.resolve(repository, "main", Freshness::Fetch).await?;
    let tree = sources.tree(repository, &commit).await?;
    let content = tree.read(&TreePath::parse(path).unwrap(), 1000).unwrap();
    Ok(String::from_utf8(content.to_vec()).unwrap())
}

#[tokio::test]
async fn rnd_29_a_push_is_followed_without_git() {
    let world = World::with(&[("d/a", "0"), ("d/b", "b"), ("e/c", "c")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    assert_eq!(read(&world.sources, &repository, "d/a").await.as_deref(), Ok("0"));

    let sources = without_git(&world);
    assert_eq!(read(&sources, &repository, "d/a").await.as_deref(), Ok("0"));
    for n in ["1", "2", "3"] {
        world.commit("next", &[("d/a", n), (&format!("f/{n}"), "new")]).await;
        assert_eq!(read(&sources, &repository, "d/a").await.as_deref(), Ok(n));
        assert_eq!(read(&sources, &repository, &format!("f/{n}")).await.as_deref(), Ok("new"));
    }
    // The capabilities were asked for once by each: the first handle, git, and the second handle.
    assert_eq!((server.discoveries(), server.listings(), server.fetches()), (3, 8, 4));

    // What was added is sound in the eyes of git, and found again.
    let generation = world.generations()[0].clone();
    let checked = exec::run(Invocation {
        program: "git".into(),
        arguments: ["fsck", "--full", "--strict"].map(Into::into).to_vec(),
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        directory: generation.clone(),
        deadline: Duration::from_mins(1),
        grace: Duration::from_secs(1),
        stdout_bytes_max: 1 << 20,
        limits: exec::Limits::default(),
    })
    .await
    .unwrap();
    assert_eq!(checked.code, Some(0), "{}", checked.stderr);
    let packs = fs::read_dir(generation.join("objects/pack")).unwrap().map(|file| file.unwrap().path());
    let (files, others): (Vec<_>, Vec<_>) =
        packs.partition(|path| path.extension().is_some_and(|kind| kind == "pack" || kind == "idx"));
    assert_eq!((files.len() % 2, others), (0, Vec::new()));
    let again = without_git(&world);
    assert_eq!(read(&again, &repository, "f/2").await.as_deref(), Ok("new"));
    assert_eq!(server.fetches(), 4);
}

#[tokio::test]
async fn rnd_29_only_what_is_new_is_sent() {
    let world = World::with(&[("a", "0")]).await;
    let names: Vec<(String, String)> =
        (0..200).map(|n| (format!("d{n}/f"), format!("content {n}"))).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|(name, content)| (&**name, &**content)).collect();
    world.commit("many", &files).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    read(&world.sources, &repository, "a").await.unwrap();
    let packs = || -> Vec<Vec<u8>> {
        let files = fs::read_dir(world.generations()[0].join("objects/pack")).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().unwrap() == "pack").map(|path| fs::read(path).unwrap()).collect()
    };
    let before = packs();
    let sources = without_git(&world);
    for n in ["1", "2", "3"] {
        world.commit("next", &[("d7/f", n)]).await;
        assert_eq!(read(&sources, &repository, "d7/f").await.as_deref(), Ok(n));
    }
    let counts = packs().into_iter().filter(|pack| !before.contains(pack)).map(|pack| pack[8..12].to_vec());
    let counts: Vec<u32> = counts.map(|bytes| u32::from_be_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(counts.len(), 3);
    // A commit, three members of it that changed, and what they are differences to.
    assert!(counts.iter().all(|count| *count <= 8), "{counts:?}");
}

#[tokio::test]
async fn rnd_30_listings_are_those_of_git() {
    let world = World::with(&[("a", "1")]).await;
    world.git(&["tag", "-a", "-m", "t", "v1"]).await;
    world.git(&["tag", "light"]).await;
    world.git(&["branch", "feature/ü"]).await;
    world.git(&["update-ref", "refs/pull/7/head", "HEAD"]).await;
    let commit = world.git(&["rev-parse", "HEAD"]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let old = Behaviour { is_old: true, ..Behaviour::default() };
    let old = GitServer::start_with(&world.root(), Auth::None, old).await;
    for server in [&server, &old] {
        let sources = without_git(&world);
        let repository = Repository::anonymous(&server.url("repo/"));
        let list = sources.list_refs(&repository, Freshness::Cached).await.unwrap();
        for name in ["HEAD", "refs/heads/main", "refs/heads/feature/ü", "refs/tags/v1", "refs/tags/light"] {
            assert_eq!(list.commit(name).as_ref(), Some(&commit), "{name}");
        }
        assert_eq!(list.len(), 6);
        assert_eq!(sources.resolve(&repository, "pull/7/head", Freshness::Cached).await.unwrap(), commit);
    }
}

#[tokio::test]
async fn rnd_29_empty_repositories_have_no_refs() {
    let world = World::with(&[("a", "1")]).await;
    world.git(&["init", "-q", "--bare", "../empty"]).await;
    for is_old in [false, true] {
        let behaviour = Behaviour { is_old, ..Behaviour::default() };
        let server = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
        let repository = Repository::anonymous(&server.url("empty"));
        let list = without_git(&world).list_refs(&repository, Freshness::Cached).await.unwrap();
        assert!(list.is_empty());
    }
}

#[tokio::test]
async fn rep_71_passwords_are_sent_when_asked_for() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("ada", "pa$$ 'w\"ord")).await;
    let right = Repository {
        username: "ada".to_owned(),
        password: Secret::from("pa$$ 'w\"ord"),
        ..Repository::anonymous(&server.url("repo"))
    };
    read(&world.sources, &right, "a").await.unwrap();
    let sources = without_git(&world);
    for (n, requests) in [("2", 4), ("3", 2)] {
        world.commit("next", &[("a", n)]).await;
        let before = server.requests();
        assert_eq!(read(&sources, &right, "a").await.as_deref(), Ok(n));
        // Refused, capabilities, refs, commit; later the server needs not ask.
        assert_eq!(server.requests() - before, requests);
    }
    let wrong = Repository { password: Secret::from("hunter2"), ..right.clone() };
    let error = read(&sources, &wrong, "a").await.unwrap_err();
    let url = server.url("repo");
    let expected = format!(
        "`git ls-remote --quiet --symref --end-of-options {url}` failed exit status 128: fatal: Authentication \
         failed for '{url}/'"
    );
    assert_eq!(error, SourceError::Denied { text: expected });
    let forced = Repository { force_http_basic_auth: true, ..right };
    let before = server.requests();
    assert_eq!(read(&sources, &forced, "a").await.as_deref(), Ok("3"));
    assert_eq!(server.requests() - before, 1);
}

#[tokio::test]
async fn rnd_27_refusals_have_the_words_of_git() {
    let world = World::with(&[("a", "1")]).await;
    let basic = GitServer::start(&world.root(), Auth::Basic("u", "p")).await;
    let behaviour = Behaviour { forbids: true, ..Behaviour::default() };
    let forbidding = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
    let anonymous = Repository::anonymous(&basic.url("repo"));
    let with_password = Repository { password: Secret::from("wrong"), ..anonymous.clone() };
    let with_header = Repository { force_http_basic_auth: true, ..with_password.clone() };
    let with_token = Repository { bearer_token: Secret::from("t"), ..anonymous.clone() };
    let forbidden = Repository::anonymous(&forbidding.url("repo"));
    for repository in [anonymous, with_password, with_header, with_token, forbidden] {
        let direct = without_git(&world).test(&repository).await.unwrap_err();
        // A variable that names a proxy for nothing makes git ask.
        let by_git = world.restarted(|options| {
            options.proxy_environment = vec![("ftp_proxy".to_owned(), "http://127.0.0.1:1".to_owned())];
        });
        assert_eq!(by_git.test(&repository).await.unwrap_err(), direct);
        assert!(!direct.is_transient());
    }
}

#[tokio::test]
async fn rnd_35_connections_are_not_kept() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let sources = without_git(&world);
    for n in 1..4 {
        sources.invalidate(repository.url.expose());
        sources.test(&repository).await.unwrap();
        assert_eq!(server.connections(), n);
    }
}

#[tokio::test]
async fn rnd_35_redirects_of_commands_are_not_followed() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let sources = world.restarted(|_| {});
    read(&sources, &repository, "a").await.unwrap();
    server.behave(Behaviour { redirects: true, ..Behaviour::default() });
    let error = read(&sources, &repository, "a").await.unwrap_err();
    assert!(error.to_string().starts_with("`git ls-remote "), "{error}");
    server.behave(Behaviour::default());
    assert_eq!(read(&sources, &repository, "a").await.as_deref(), Ok("1"));
}

#[tokio::test]
async fn rnd_10_hanging_servers_run_into_the_time_limits() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let short = Duration::from_millis(300);
    let sources = world.restarted(|options| options.request_timeout = short);
    read(&sources, &repository, "a").await.unwrap();
    server.behave(Behaviour { hangs: true, ..Behaviour::default() });
    let before = server.requests();
    let error = read(&sources, &repository, "a").await.unwrap_err();
    let expected = format!(
        "`git ls-remote --quiet --symref --end-of-options {}` failed timeout after 300ms",
        server.url("repo")
    );
    assert_eq!(error, SourceError::Timeout { text: expected });
    // Nobody asked twice.
    assert_eq!(server.requests() - before, 1);
}

#[tokio::test]
async fn rnd_28_a_hanging_server_is_asked_again_if_retries_are_wanted() {
    let world = World::with(&[("a", "1")]).await;
    let behaviour = Behaviour { hangs: true, ..Behaviour::default() };
    let server = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let sources = world.restarted(|options| {
        options.request_timeout = Duration::from_millis(500);
        options.retry.attempts = 2;
        options.retry.wait = Duration::from_millis(1);
    });
    let error = sources.test(&repository).await.unwrap_err();
    assert!(matches!(error, SourceError::Timeout { .. }), "{error:?}");
    assert_eq!(server.requests(), 2);
}

#[tokio::test]
async fn rnd_46_damaged_answers_are_never_used() {
    let world = World::with(&[("a", "0")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    read(&world.sources, &repository, "a").await.unwrap();
    for damage in [Damage::CutShort, Damage::BreaksOff, Damage::Flipped, Damage::Page] {
        server.behave(Behaviour::default());
        let sources = world.restarted(|_| {});
        let commit = world.commit("next", &[("a", &format!("{damage:?}"))]).await;
        sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
        server.behave(Behaviour { damage, ..Behaviour::default() });
        assert!(sources.tree(&repository, &commit).await.is_err(), "{damage:?}");
        sources.invalidate(repository.url.expose());
        if damage != Damage::Flipped {
            assert!(sources.test(&repository).await.is_err(), "{damage:?}");
        }
        server.behave(Behaviour::default());
        assert_eq!(read(&sources, &repository, "a").await, Ok(format!("{damage:?}")));
    }
}

#[tokio::test]
async fn rnd_29_endless_listings_are_refused() {
    let world = World::with(&[("a", "0")]).await;
    let behaviour = Behaviour { damage: Damage::Endless, ..Behaviour::default() };
    let server = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let sources = world.restarted(|options| {
        options.git_program = "/bin/false".into();
        // Much is sent until the limit, which takes time on a busy machine.
        options.request_timeout = Duration::from_mins(10);
    });
    let error = sources.test(&repository).await.unwrap_err();
    assert!(matches!(error, SourceError::Exhausted { .. }), "{error:?}");
    assert!(error.to_string().ends_with("failed: the output has more than 134217728 bytes"), "{error}");
}

#[tokio::test]
async fn rnd_29_servers_may_lose_the_second_version() {
    let world = World::with(&[("a", "0")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let sources = world.restarted(|_| {});
    read(&sources, &repository, "a").await.unwrap();
    server.behave(Behaviour { is_old: true, ..Behaviour::default() });
    for n in ["1", "2"] {
        world.commit("next", &[("a", n)]).await;
        assert_eq!(read(&sources, &repository, "a").await.as_deref(), Ok(n));
    }
    server.behave(Behaviour::default());
    world.commit("next", &[("a", "3")]).await;
    assert_eq!(read(&sources, &repository, "a").await.as_deref(), Ok("3"));
}

#[tokio::test]
async fn rep_80_servers_are_checked_against_the_roots_of_the_repository() {
    let world = World::with(&[("a", "1")]).await;
    let (certificate, key) = certificate(&world).await;
    let server = GitServer::start_tls(&world.root(), certificate.as_bytes(), key.as_bytes()).await;
    let unknown = Repository::anonymous(&server.url("repo"));
    let tls = Tls { roots: certificate.as_str().into(), ..Tls::default() };
    let known = Repository { tls, ..unknown.clone() };
    assert!(world.sources.test(&unknown).await.is_err());
    without_git(&world).test(&known).await.unwrap();
    let invalid = Tls { roots: "nonsense".into(), ..Tls::default() };
    assert!(world.sources.test(&Repository { tls: invalid, ..unknown.clone() }).await.is_err());
    let insecure = Repository { insecure: true, ..unknown.clone() };
    without_git(&world).test(&insecure).await.unwrap();
    // The same roots, from the directory of the installation.
    fs::write(world.path().join("127.0.0.1"), &certificate).unwrap();
    let sources = world.restarted(|options| {
        options.tls_dir = Some(world.path().to_owned());
        options.git_program = "/bin/false".into();
    });
    sources.test(&unknown).await.unwrap();
}

/// A certificate for the loopback address that vouches for itself, and its key.
async fn certificate(world: &World) -> (String, String) {
    let arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test \
                     -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
                     -keyout key.pem -out certificate.pem";
    openssl(world, arguments).await;
    let file = |name: &str| fs::read_to_string(world.path().join(name)).unwrap();
    (file("certificate.pem"), file("key.pem"))
}

#[tokio::test]
async fn rnd_36_of_many_refs_only_those_that_are_looked_for_are_listed() {
    let world = World::with(&[("a", "0")]).await;
    let first = world.git(&["rev-parse", "HEAD"]).await;
    let many: Vec<String> = (0..1500).map(|n| format!("{first} refs/heads/topic/{n}\n")).collect();
    let refs = many.concat() + &format!("{first} refs/heads/stable\n{first} refs/tags/v1.0.0\n");
    fs::write(world.origin().join(".git/packed-refs"), refs).unwrap();
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let sources = without_git(&world);
    let resolve = async |revision: &'static str, freshness| {
        sources.resolve(&repository, revision, freshness).await.map_err(|error| error.to_string())
    };
    // The first listing tells that there are many.
    assert_eq!(resolve("main", Freshness::Fetch).await.as_deref(), Ok(&*first));
    assert!(server.refs() > 1500, "{}", server.refs());

    let second = world.commit("next", &[("a", "1")]).await;
    sources.invalidate(repository.url.expose());
    assert_eq!(resolve("main", Freshness::Fetch).await.as_deref(), Ok(&*second));
    assert!(server.refs() < 5, "{}", server.refs());

    // Another name is asked for together with those that were looked for before; nothing is missed.
    let before = server.listings();
    for name in ["stable", "topic/777", "v1.0.0", "refs/heads/topic/1499"] {
        assert_eq!(resolve(name, Freshness::Cached).await.as_deref(), Ok(&*first), "{name}");
    }
    assert_eq!(resolve("main", Freshness::Cached).await.as_deref(), Ok(&*second));
    assert!(resolve("topic/1500", Freshness::Cached).await.is_err());
    assert_eq!(server.listings(), before + 5, "one for each new name");
    assert!(server.refs() < 12, "{}", server.refs());

    // A range looks at all tags, and then everything is known again.
    assert_eq!(resolve(">=1.0", Freshness::Cached).await.as_deref(), Ok(&*first));
    assert!(server.refs() > 1500, "{}", server.refs());
    let before = server.listings();
    assert_eq!(resolve("topic/8", Freshness::Cached).await.as_deref(), Ok(&*first));
    assert_eq!(sources.list_refs(&repository, Freshness::Cached).await.unwrap().branches().count(), 1502);
    assert_eq!(server.listings(), before);
}
