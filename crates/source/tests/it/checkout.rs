//! Files of a revision of a checkout (CLI-1060).

use tiphys_source::{CheckoutLimits, checkout_files};

use crate::world::World;

const LIMITS: CheckoutLimits = CheckoutLimits { files: 10, bytes: 1000 };

#[tokio::test]
async fn cli_1060_files_of_a_revision_are_read_and_not_those_of_the_folder() {
    let world = World::with(&[]).await;
    world.commit("one", &[("a.yaml", "1"), ("below/b.yaml", "2")]).await;
    world.commit("two", &[("a.yaml", "3")]).await;
    let read = |revision: &str| checkout_files(&world.origin(), revision, LIMITS);
    let files = read("HEAD~1").unwrap();
    let files: Vec<(&str, &[u8])> =
        files.iter().map(|(path, content)| (path.as_str(), &content[..])).collect();
    assert_eq!(files, [("a.yaml", &b"1"[..]), ("below/b.yaml", b"2")]);
    assert_eq!(&read("HEAD").unwrap()["a.yaml"][..], b"3");
    let error = read("nothing").unwrap_err().to_string();
    assert!(error.contains("no revision \"nothing\""), "{error}");
    let error = checkout_files(&world.origin(), "HEAD", CheckoutLimits { files: 1, ..LIMITS })
        .unwrap_err()
        .to_string();
    assert!(error.contains("more files"), "{error}");
}
