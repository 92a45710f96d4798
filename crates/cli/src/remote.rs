//! Files that a flag names by URL (CLI-700).

use std::time::Duration;

use crate::failure::Failure;
use crate::terminal::{INPUT_BYTES_MAX, read_input, text_of};

/// Time for the whole answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The text of a file, of standard input for `-`, or of what a URL leads to.
pub(crate) async fn read(place: &str) -> Result<String, Failure> {
    if !(place.starts_with("http://") || place.starts_with("https://")) {
        return read_input(place).await;
    }
    read_url(place, reqwest::Client::builder()).await
}

/// The same of a URL of this machine, or of one that somebody knows the way to: no proxy is asked.
pub(crate) async fn read_directly(url: &str) -> Result<String, Failure> {
    read_url(url, reqwest::Client::builder().no_proxy()).await
}

async fn read_url(place: &str, client: reqwest::ClientBuilder) -> Result<String, Failure> {
    // What stands before the host may be a password.
    let shown = tiphys_api::repo_url::redact(place);
    let failed = |error: reqwest::Error| {
        Failure::generic(format!("{shown}: {}", tiphys_cluster::error_chain(&error.without_url())))
    };
    tiphys_cloud::provide_crypto();
    let client = client.timeout(TIMEOUT).build().map_err(failed)?;
    let mut answer = client.get(place).send().await.map_err(failed)?.error_for_status().map_err(failed)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(failed)? {
        bytes.extend_from_slice(&chunk);
        if u64::try_from(bytes.len()).is_ok_and(|length| length >= INPUT_BYTES_MAX) {
            return Err(Failure::generic(format!("{shown} is larger than {INPUT_BYTES_MAX} bytes")));
        }
    }
    text_of(&bytes, &shown)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    /// Answers one request, and says where.
    fn serve(status: &'static str, body: &'static str) -> String {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).unwrap() > 0);
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            )
            .unwrap();
        });
        format!("http://me:hunter2@{address}/p.yaml")
    }

    #[tokio::test]
    async fn cli_700_a_file_may_be_a_url() {
        assert_eq!(read(&serve("200 OK", "kind: AppProject\n")).await.unwrap(), "kind: AppProject\n");
        let failure = read(&serve("404 Not Found", "")).await.unwrap_err();
        assert!(failure.message.contains("404") && !failure.message.contains("hunter2"), "{failure}");
        assert_eq!(
            read("/nowhere/p.yaml").await.unwrap_err().message,
            "open /nowhere/p.yaml: no such file or directory"
        );
    }
}
