//! What is remembered, for how long, and what happens when it is damaged.

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use tiphys_render::TreePath;
use tiphys_source::{Freshness, Repository, SourceError};

use crate::git_http::{Auth, Behaviour, Damage, GitServer};
use crate::world::World;

#[tokio::test]
async fn rnd_36_listings_are_kept_until_they_expire_or_are_invalidated() {
    let world = World::with(&[("a", "1")]).await;
    let (sources, repository) = (&world.sources, world.local());
    let first = sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    let second = world.commit("second", &[("a", "2")]).await;
    assert_eq!(sources.resolve(&repository, "main", Freshness::Cached).await.as_ref(), Ok(&first));
    world.clock.advance(Duration::from_secs(179));
    assert_eq!(sources.resolve(&repository, "main", Freshness::Cached).await, Ok(first));
    world.clock.advance(Duration::from_secs(2));
    assert_eq!(sources.resolve(&repository, "main", Freshness::Cached).await.as_ref(), Ok(&second));

    let third = world.commit("third", &[("a", "3")]).await;
    sources.invalidate(&format!("{}.git", repository.url.expose()));
    assert_eq!(sources.resolve(&repository, "main", Freshness::Cached).await, Ok(third));

    let fourth = world.commit("fourth", &[("a", "4")]).await;
    world.clock.advance(Duration::from_secs(1));
    assert_eq!(sources.resolve(&repository, "main", Freshness::Fetch).await.as_ref(), Ok(&fourth));
    assert_eq!(sources.resolve(&repository, "main", Freshness::Cached).await, Ok(fourth));
    assert_eq!(sources.listings_made(), 4);
}

#[tokio::test]
async fn rnd_36_a_thousand_questions_cost_one_listing_and_one_fetch() {
    let world = World::with(&[("a.yaml", "kind: A\n")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    for (round, freshness) in [(1, Freshness::Cached), (2, Freshness::Fetch)] {
        let mut tasks = Vec::new();
        for _ in 0..1000 {
            let (sources, repository) = (world.sources.clone(), repository.clone());
            tasks.push(tokio::spawn(async move {
                let commit = sources.resolve(&repository, "HEAD", freshness).await.unwrap();
                sources.tree(&repository, &commit).await.unwrap().id().to_owned()
            }));
        }
        for task in tasks {
            assert_eq!(task.await.unwrap().len(), 40);
        }
        assert_eq!((server.listings(), server.fetches()), (round, round));
        world.commit("next", &[("a.yaml", "kind: B\n")]).await;
        world.clock.advance(Duration::from_secs(1));
    }
}

#[tokio::test]
async fn rnd_36_failures_are_shared_by_those_who_wait() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::Basic("u", "p")).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let mut tasks = Vec::new();
    for _ in 0..100 {
        let (sources, repository) = (world.sources.clone(), repository.clone());
        tasks
            .push(tokio::spawn(async move { sources.resolve(&repository, "HEAD", Freshness::Cached).await }));
    }
    for task in tasks {
        assert!(task.await.unwrap().is_err());
    }
    assert!(world.sources.listings_made() <= 100);
}

#[tokio::test]
async fn rep_61_a_restart_finds_what_was_fetched() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let commit = world.sources.resolve(&repository, "HEAD", Freshness::Cached).await.unwrap();
    world.sources.tree(&repository, &commit).await.unwrap();
    let pack = world.generations()[0].join("objects/pack");
    let leftovers = [pack.join("tmp_pack_x"), pack.join(".tmpAb12")];
    for path in &leftovers {
        fs::write(path, "x").unwrap();
    }

    let again = world.restarted(|_| {});
    again.tree(&repository, &commit).await.unwrap();
    assert_eq!(server.fetches(), 1);
    // Content is served only after the refs were listed (REP-63).
    assert_eq!(server.listings(), 2);
    assert!(!leftovers.iter().any(|path| path.exists()));
}

#[tokio::test]
async fn rep_61_projects_do_not_share_content() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let one = Repository::anonymous(&server.url("repo"));
    let two = Repository { project: "p".to_owned(), ..one.clone() };
    let commit = world.sources.resolve(&one, "HEAD", Freshness::Cached).await.unwrap();
    world.sources.tree(&one, &commit).await.unwrap();
    world.sources.tree(&two, &commit).await.unwrap();
    assert_eq!(server.fetches(), 2);
    assert_eq!(world.generations().len(), 2);
}

#[tokio::test]
async fn rnd_46_damaged_content_is_fetched_again() {
    let world = World::with(&[("a", "1")]).await;
    let (sources, repository) = (&world.sources, world.local());
    let commit = sources.resolve(&repository, "HEAD", Freshness::Cached).await.unwrap();
    sources.tree(&repository, &commit).await.unwrap();
    let damaged = world.generations()[0].clone();
    fs::remove_dir_all(damaged.join("objects")).unwrap();
    fs::create_dir_all(damaged.join("objects/pack")).unwrap();

    let again = world.restarted(|_| {});
    let tree = again.tree(&repository, &commit).await.unwrap();
    assert_eq!(tree.read(&TreePath::parse("a").unwrap(), 10).unwrap(), "1");
    assert_ne!(world.generations(), [damaged]);
}

#[tokio::test]
async fn rnd_46_a_ruined_directory_is_replaced() {
    let world = World::with(&[("a", "1")]).await;
    let (sources, repository) = (&world.sources, world.local());
    let first = sources.resolve(&repository, "HEAD", Freshness::Cached).await.unwrap();
    sources.tree(&repository, &first).await.unwrap();
    let directory = world.generations()[0].clone();
    fs::write(directory.join("HEAD"), "nonsense").unwrap();
    fs::write(directory.join("config"), "[nonsense").unwrap();
    let second = world.commit("second", &[("a", "2")]).await;
    world.restarted(|_| {}).tree(&repository, &second).await.unwrap();
}

#[tokio::test]
async fn dep_52_directories_are_renewed_without_asking_the_server() {
    let world = World::with(&[("a", "0")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let sources = world.restarted(|options| options.fetches_max = 3);
    let repository = Repository::anonymous(&server.url("repo"));
    let mut commits = Vec::new();
    for n in 0..8 {
        let commit = world.commit("next", &[("a", &n.to_string())]).await;
        sources.tree(&repository, &commit).await.unwrap();
        commits.push(commit);
    }
    assert_eq!(server.fetches(), 8);
    for commit in commits.iter().rev().take(4) {
        sources.tree(&repository, commit).await.unwrap();
    }
    assert_eq!(server.fetches(), 8);
    let names: Vec<String> = world
        .generations()
        .iter()
        .map(|directory| directory.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names, ["g3"]);
}

/// RND-46: a fetch that failed leaves no temporary file, and the next one succeeds.
#[tokio::test]
async fn rnd_46_a_failed_fetch_leaves_nothing_behind() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let commit = world.sources.resolve(&repository, "HEAD", Freshness::Cached).await.unwrap();
    world.sources.tree(&repository, &commit).await.unwrap();
    let directory = world.generations()[0].clone();
    let leftovers =
        ["objects/pack/tmp_pack_x", "objects/pack/tmp_idx_x", "objects/pack/.tmpAb12", "shallow.lock"];
    for name in leftovers {
        fs::write(directory.join(name), "x").unwrap();
    }
    let next = world.commit("next", &[("a", "2")]).await;
    server.behave(Behaviour { forbids: true, ..Behaviour::default() });
    assert!(world.sources.tree(&repository, &next).await.is_err());
    assert_eq!(leftovers.map(|name| directory.join(name).exists()), [false; 4]);

    server.behave(Behaviour::default());
    world.sources.tree(&repository, &next).await.unwrap();
    assert_eq!(world.generations(), [directory]);
}

/// INV-10: a tag of something that is no commit is an error that names the revision; it is fetched once, and what
/// was fetched before stays.
#[tokio::test]
async fn inv_10_a_file_behind_a_tag_is_no_revision() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let commit = world.sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    world.sources.tree(&repository, &commit).await.unwrap();
    fs::write(world.origin().join("large"), vec![b'x'; 1 << 20]).unwrap();
    let file = world.git(&["hash-object", "-w", "large"]).await;
    world.git(&["tag", "-a", "-m", "t", "v1", &file]).await;
    let before = world.generations();
    world.clock.advance(Duration::from_secs(1));
    for revision in ["v1", &file] {
        let found = world.sources.resolve(&repository, revision, Freshness::Fetch).await.unwrap();
        let error = world.sources.tree(&repository, &found).await.map(drop).unwrap_err();
        assert_eq!(error, SourceError::RevisionNotFound { revision: file.clone() });
    }
    assert_eq!(world.generations(), before);
    let again = world.restarted(|_| {});
    let error = again.tree(&repository, &file).await.map(drop).unwrap_err();
    assert_eq!(error, SourceError::RevisionNotFound { revision: file });
    again.tree(&repository, &commit).await.unwrap();
    assert_eq!(world.generations(), before);
}

/// INV-10: an endless pack ends at the limit, over the git program, and nothing of it stays.
#[tokio::test]
async fn inv_10_an_endless_pack_ends_at_the_limit() {
    let world = World::with(&[("a", "1")]).await;
    let behaviour = Behaviour { damage: Damage::EndlessPack, ..Behaviour::default() };
    let server = GitServer::start_with(&world.root(), Auth::None, behaviour).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let (clock, time) = tiphys_source::Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let sources = world.restarted(|options| {
        options.pack_bytes_max = 1 << 20;
        options.clock = clock;
    });
    let commit = sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    let error = sources.tree(&repository, &commit).await.map(drop).unwrap_err();
    assert!(matches!(error, SourceError::Exhausted { .. }), "{error:?}");
    assert!(
        error.to_string().contains("unpacking was ended: the pack of the server is larger than allowed"),
        "{error}"
    );
    let packs = world.generations()[0].join("objects/pack");
    assert_eq!(
        fs::read_dir(packs).unwrap().map(|file| file.unwrap().file_name()).collect::<Vec<_>>(),
        [""; 0]
    );

    // INV-16: the same commit is not fetched again at once.
    let fetches = server.requests();
    assert_eq!(sources.tree(&repository, &commit).await.map(drop).unwrap_err(), error);
    assert_eq!(server.requests(), fetches);
    time.advance(Duration::from_mins(4));

    // In this process, where packs are held in memory, too.
    server.behave(Behaviour::default());
    sources.tree(&repository, &commit).await.unwrap();
    let next = world.commit("next", &[("a", "2")]).await;
    server.behave(behaviour);
    // Git is asked then, to which this server does not talk as it should.
    let error = sources.tree(&repository, &next).await.map(drop).unwrap_err();
    assert!(matches!(error, SourceError::Unavailable { .. }), "{error:?}");
    server.behave(Behaviour::default());
    sources.tree(&repository, &next).await.unwrap();
}

/// INV-16, B12: a small pack that unpacks to gigabytes ends within the processor time of its size, nothing of it stays,
/// and the repository is left alone for a while, whatever commit it has then.
#[tokio::test]
async fn inv_16_a_pack_of_repeated_differences_ends_soon() {
    let world = World::with(&[("a", "1")]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let (clock, time) = tiphys_source::Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let sources = world.restarted(|options| {
        options.fetch_limits.least_time = Duration::from_millis(400);
        options.clock = clock;
    });
    let bomb = Behaviour { damage: Damage::Bomb, ..Behaviour::default() };
    // Once as the first fetch, and once into a repository that has something.
    for round in ["2", "3"] {
        server.behave(bomb);
        let commit = world.commit(round, &[("a", round)]).await;
        let error = sources.tree(&repository, &commit).await.map(drop).unwrap_err();
        assert!(matches!(error, SourceError::Exhausted { .. }), "{error:?}");
        assert!(error.to_string().contains("processor time"), "{error}");
        for generation in world.generations() {
            let packs = fs::read_dir(generation.join("objects/pack")).unwrap();
            let names = packs.map(|file| file.unwrap().file_name().to_string_lossy().into_owned());
            assert!(names.into_iter().all(|name| !name.starts_with("tmp_")));
        }
        let (requests, other) = (server.requests(), world.commit("other", &[("b", round)]).await);
        assert_eq!(sources.tree(&repository, &other).await.map(drop).unwrap_err(), error);
        assert_eq!(server.requests(), requests);
        time.advance(Duration::from_mins(3));
        server.behave(Behaviour::default());
        sources.tree(&repository, &other).await.unwrap();
    }
}

/// INV-16, B12: a repository may send in proportion to what is held of it, and more with each try.
#[tokio::test]
async fn inv_16_a_large_repository_arrives_with_a_later_try() {
    let mut random = String::new();
    for number in 0..200_000_u32 {
        write!(random, "{:08x}", number.wrapping_mul(0x9E37_79B1)).unwrap();
    }
    let world = World::with(&[("a", random.as_str())]).await;
    let server = GitServer::start(&world.root(), Auth::None).await;
    let repository = Repository::anonymous(&server.url("repo"));
    let (clock, time) = tiphys_source::Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    let sources = world.restarted(|options| {
        options.fetch_limits.first_bytes = 300_000;
        options.clock = clock;
    });
    let commit = sources.resolve(&repository, "main", Freshness::Cached).await.unwrap();
    let error = sources.tree(&repository, &commit).await.map(drop).unwrap_err();
    assert!(matches!(error, SourceError::Exhausted { .. }), "{error:?}");
    assert!(sources.tree(&repository, &commit).await.is_err());
    time.advance(Duration::from_secs(16));
    sources.tree(&repository, &commit).await.unwrap();
}
