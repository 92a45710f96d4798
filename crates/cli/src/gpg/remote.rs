//! Keys of those who sign by way of an API server (API-180).

use reqwest::Method;
use serde_json::{Value, json};

use crate::core::{Remote, items};
use crate::failure::Failure;

/// The keys, without what they are made of.
pub(super) async fn list(server: &Remote) -> Result<Vec<Value>, Failure> {
    let mut answer = server.api.call(Method::GET, &["gpgkeys"], (&[], None)).await?;
    Ok(items(&mut answer, "items"))
}

/// One key.
pub(super) async fn get(server: &Remote, id: &str) -> Result<Value, Failure> {
    server.api.call(Method::GET, &["gpgkeys", id], (&[], None)).await
}

/// Stores the keys of a text: how many were not there, and how many were.
pub(super) async fn add(server: &Remote, text: &str) -> Result<(usize, usize), Failure> {
    let body = json!({"keyData": text});
    Ok(counts(server.api.call(Method::POST, &["gpgkeys"], (&[], Some(&body))).await?))
}

fn counts(mut answer: Value) -> (usize, usize) {
    let mut created = answer.get_mut("created").map(Value::take).unwrap_or_default();
    (items(&mut created, "items").len(), items(&mut answer, "skipped").len())
}

/// Removes a key.
pub(super) async fn delete(server: &Remote, id: &str) -> Result<(), Failure> {
    server.api.call(Method::DELETE, &["gpgkeys"], (&[("keyID", id)], None)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_180_the_answer_says_what_became_of_each_key() {
        let answer = json!({"created": {"metadata": {}, "items": [{"keyID": "A"}]}, "skipped": ["B", "C"]});
        assert_eq!(counts(answer), (1, 2));
        assert_eq!(counts(json!({})), (0, 0));
    }
}
