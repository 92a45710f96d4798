//! Where a server is, and how it is spoken to (CLI-100, CLI-103, CLI-105, CLI-120).

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Certificate, Identity, Url};
use tiphys_api::names::COMPATIBLE_VERSION;
use tiphys_api::secret::Secret;

use crate::config_file::{Found, ServerEntry};
use crate::failure::Failure;
use crate::flags::Parsed;
use crate::terminal::{Terminal, read_file};

/// The port of an address without one.
const PORT: u16 = 443;

/// Mebibytes of one answer.
const ANSWER_MEBIBYTES: usize = 200;
/// The most that the variable may ask for.
const ANSWER_MEBIBYTES_MAX: usize = 1 << 12;
/// The variable with mebibytes of one answer.
const MAX_SIZE: &str = "ARGOCD_GRPC_MAX_SIZE_MB";
/// The variable with the least time between two signs of life that servers permit.
const KEEP_ALIVE: &str = "ARGOCD_GRPC_KEEP_ALIVE_MIN";

/// Times that anything is asked again, whatever a flag says.
const RETRIES_MAX: i64 = 100;

/// A way to a server.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// As it is written into the configuration file.
    pub(crate) entry: ServerEntry,
    pub(crate) token: Secret<String>,
    /// `name:value`, as they were given.
    pub(crate) headers: Vec<Secret<String>>,
    /// The port of this machine that leads to the server (CLI-123).
    pub(crate) forwarded: Option<u16>,
    /// How often a question that changes nothing is asked again, where that is more than usual (CLI-100).
    pub(crate) retries: u32,
    /// Bytes of one answer (CLI-106).
    pub(crate) answer_bytes_max: usize,
    /// Time between two signs of life on a silent connection, where somebody sets it (CLI-106).
    pub(crate) keep_alive: Option<Duration>,
}

impl Access {
    /// From flags, and from the context where there is one (CLI-103).
    pub(crate) fn of(flags: &Parsed, server: &str, context: Option<&Found>) -> Result<Self, Failure> {
        let stored = context.filter(|context| server.is_empty() || context.server.server == server);
        let mut entry = stored.map(|context| context.server.clone()).unwrap_or_default();
        if !server.is_empty() {
            server.clone_into(&mut entry.server);
        }
        entry.insecure |= flags.is_on("insecure");
        entry.plain_text |= flags.is_on("plaintext");
        entry.grpc_web |= flags.is_on("grpc-web");
        if flags.is_set("grpc-web-root-path") {
            flags.text("grpc-web-root-path").trim_matches('/').clone_into(&mut entry.grpc_web_root_path);
        }
        let file = |flag: &str| -> Result<Option<String>, Failure> {
            let path = flags.text(flag);
            if path.is_empty() { Ok(None) } else { read_file(path).map(|text| Some(STANDARD.encode(text))) }
        };
        if let Some(roots) = file("server-crt")? {
            entry.certificate_authority_data = roots;
        }
        if let Some(certificate) = file("client-crt")? {
            entry.client_certificate_data = certificate;
        }
        if let Some(key) = file("client-crt-key")? {
            entry.client_certificate_key_data = Secret::new(key);
        }
        let given = flags.text("auth-token");
        let token = match context {
            _ if !given.is_empty() => Secret::from(given),
            // The token of the context is used with another server, too (CLI-103).
            Some(context) => context.token.clone(),
            None => Secret::default(),
        };
        let headers = flags.texts("header").iter().map(|header| Secret::from(header.as_str())).collect();
        Ok(Self {
            entry,
            token,
            headers,
            forwarded: None,
            retries: u32::try_from(flags.int("http-retry-max").clamp(0, RETRIES_MAX)).unwrap_or_default(),
            answer_bytes_max: ANSWER_MEBIBYTES << 20,
            keep_alive: None,
        })
    }

    /// The same with what the environment says of connections; what cannot be read of it is told and does not count.
    pub(crate) fn heeding(mut self, terminal: &Terminal) -> Self {
        let odd = |name: &str, what: &str| {
            let value = terminal.variable(name);
            terminal.warn(&format!("Warning: {name}={value:?} is no {what}, and does not count\n"));
        };
        match terminal.variable(MAX_SIZE) {
            "" => {}
            text => match text.parse::<usize>() {
                Ok(size) if (1..=ANSWER_MEBIBYTES_MAX).contains(&size) => self.answer_bytes_max = size << 20,
                _ => odd(MAX_SIZE, "number of mebibytes"),
            },
        }
        match terminal.variable(KEEP_ALIVE) {
            "" => {}
            text => {
                match tiphys_go::duration::parse(text).ok().and_then(|time| Duration::try_from(time).ok()) {
                    // As there, twice the least that a server permits.
                    Some(least) if !least.is_zero() => self.keep_alive = Some(least.saturating_mul(2)),
                    _ => odd(KEEP_ALIVE, "duration"),
                }
            }
        }
        self
    }

    /// The same by way of a port of this machine. Its name is not that of the server's certificate, so nobody vouches for
    /// it: whoever can forward the port is trusted.
    pub(crate) fn forward(&mut self, port: u16) {
        self.forwarded = Some(port);
        self.entry.insecure = true;
    }

    /// The address with its port.
    pub(crate) fn address(&self) -> String {
        let server = &self.entry.server;
        let has_port = server.rsplit_once(':').is_some_and(|(host, port)| {
            port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
        });
        if has_port { server.clone() } else { format!("{server}:{PORT}") }
    }

    /// The address as a URL that paths are put behind.
    pub(crate) fn url(&self) -> Result<Url, Failure> {
        let scheme = if self.entry.plain_text { "http" } else { "https" };
        let path = match self.entry.grpc_web_root_path.trim_matches('/') {
            "" => String::new(),
            path => format!("{path}/"),
        };
        let address = match self.forwarded {
            Some(port) => format!("127.0.0.1:{port}"),
            None => self.address(),
        };
        let url = Url::parse(&format!("{scheme}://{address}/{path}"));
        let is_host = !self.entry.server.contains('/');
        let url = url.ok().filter(|url| is_host && url.host().is_some() && url.username().is_empty());
        url.ok_or_else(|| {
            Failure::fatal(format!("{:?} is no address of a server", self.entry.server))
                .hint("name it as HOST or HOST:PORT, without a scheme")
        })
    }

    /// Additional headers of every request (CLI-105).
    pub(crate) fn headers(&self) -> Result<Vec<(String, Secret<String>)>, Failure> {
        let pair = |header: &Secret<String>| match header.expose().split_once(':') {
            Some((name, value)) => Ok((name.trim().to_owned(), Secret::from(value.trim()))),
            None => Err(Failure::fatal(format!(
                "Failed to establish connection to {}: additional headers must be colon(:)-separated: {}",
                self.address(),
                header.expose()
            ))),
        };
        self.headers.iter().map(pair).collect()
    }

    /// Roots that vouch for the server, in PEM; empty for those of the system alone.
    pub(crate) fn roots(&self) -> Result<String, Failure> {
        let text = &self.entry.certificate_authority_data;
        let bytes = STANDARD
            .decode(text)
            .map_err(|_invalid| Failure::fatal("certificate-authority-data is no base64"))?;
        String::from_utf8(bytes).map_err(|_binary| Failure::fatal("certificate-authority-data is no PEM"))
    }

    /// What speaks to the server.
    pub(crate) fn client(&self, connect_timeout: Duration) -> Result<reqwest::Client, Failure> {
        let failed = |error: reqwest::Error| Failure::fatal(tiphys_cluster::error_chain(&error));
        let decoded = |text: &str, what: &str| {
            STANDARD.decode(text).map_err(|_invalid| Failure::fatal(format!("{what} is no base64")))
        };
        tiphys_cloud::provide_crypto();
        let mut client = reqwest::Client::builder()
            .connect_timeout(connect_timeout)
            // Whoever redirects a request would get the token.
            .redirect(reqwest::redirect::Policy::none())
            // Servers turn away clients that are too old, by the version that the answers are those of (API-24).
            .user_agent(format!("argocd-client/{}", COMPATIBLE_VERSION.trim_start_matches('v')));
        if let Some(keep_alive) = self.keep_alive {
            client = client.tcp_keepalive(keep_alive);
        }
        let entry = &self.entry;
        if entry.insecure {
            client = client.tls_danger_accept_invalid_certs(true);
        }
        if !entry.certificate_authority_data.is_empty() {
            let roots = Certificate::from_pem_bundle(self.roots()?.as_bytes()).map_err(failed)?;
            if roots.is_empty() {
                return Err(Failure::fatal("the file of --server-crt holds no certificate"));
            }
            client = client.tls_certs_merge(roots);
        }
        if !entry.client_certificate_data.is_empty() {
            let mut pem = decoded(entry.client_certificate_key_data.expose(), "client-certificate-key-data")?;
            pem.push(b'\n');
            pem.extend(decoded(&entry.client_certificate_data, "client-certificate-data")?);
            client = client.identity(Identity::from_pem(&pem).map_err(failed)?);
        }
        client.build().map_err(failed)
    }
}

/// What keeps TLS from being spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The server answers, and not by TLS.
    NoTls,
    /// Nobody vouches for its certificate.
    Certificate,
    /// Anything else.
    Other,
}

/// Tells them apart by what the library says, as it gives no type for it.
pub(crate) fn trouble(cause: &str) -> Trouble {
    if cause.contains("InvalidContentType") || cause.contains("corrupt message") {
        Trouble::NoTls
    } else if cause.contains("certificate") {
        Trouble::Certificate
    } else {
        Trouble::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_106_the_environment_bounds_answers_and_connections() {
        let heeded = |env: &[(&str, &str)]| {
            let terminal = Terminal::memory("argocd", env);
            let access = access(&[], "cd").unwrap().heeding(&terminal);
            (access.answer_bytes_max, access.keep_alive, terminal.written().stderr)
        };
        assert_eq!(heeded(&[]), (200 << 20, None, String::new()));
        assert_eq!(
            heeded(&[(MAX_SIZE, "1"), (KEEP_ALIVE, "30s")]),
            (1 << 20, Some(Duration::from_mins(1)), String::new())
        );
        let (bytes, keep_alive, told) = heeded(&[(MAX_SIZE, "-1"), (KEEP_ALIVE, "soon")]);
        assert_eq!((bytes, keep_alive, told.lines().count()), (200 << 20, None, 2), "{told}");
    }
    use crate::flags::parse;
    use crate::global::FLAGS;

    fn access(args: &[&str], server: &str) -> Result<Access, Failure> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        Access::of(&parse(&args, &[FLAGS]).unwrap(), server, None)
    }

    #[test]
    fn cli_120_addresses_get_a_port() {
        let url = |args: &[&str], server: &str| access(args, server).unwrap().url().unwrap().to_string();
        assert_eq!(access(&[], "cd.example.com").unwrap().address(), "cd.example.com:443");
        assert_eq!(access(&[], "[::1]").unwrap().address(), "[::1]:443");
        assert_eq!(access(&[], "[::1]:80").unwrap().address(), "[::1]:80");
        assert_eq!(url(&["--plaintext"], "localhost:8080"), "http://localhost:8080/");
        assert_eq!(url(&["--grpc-web-root-path", "/argo/cd/"], "cd"), "https://cd/argo/cd/");
        assert!(access(&[], "https://cd").unwrap().url().is_err());
        assert!(access(&[], "me@cd").unwrap().url().is_err());
    }

    /// CLI-100: the flag is no less than what is usual, and no endless loop.
    #[test]
    fn cli_100_questions_are_repeated_as_often_as_a_flag_says() {
        let retries = |args: &[&str]| access(args, "cd").unwrap().retries;
        assert_eq!((retries(&[]), retries(&["--http-retry-max", "7"])), (0, 7));
        assert_eq!((retries(&["--http-retry-max=-1"]), retries(&["--http-retry-max=99999999999"])), (0, 100));
        let attempts =
            |args: &[&str]| crate::server::Api::new(&access(args, "cd").unwrap()).unwrap().attempts();
        assert_eq!((attempts(&[]), attempts(&["--http-retry-max", "7"])), (3, 8));
    }

    #[test]
    fn cli_105_headers_have_a_colon() {
        let good = access(&["-H", "x-a: 1,x-b:c:d"], "cd").unwrap().headers().unwrap();
        let good: Vec<_> =
            good.iter().map(|(name, value)| (name.as_str(), value.expose().as_str())).collect();
        assert_eq!(good, [("x-a", "1"), ("x-b", "c:d")]);
        let failure = access(&["-H", "x-a"], "cd").unwrap().headers().unwrap_err();
        assert_eq!(failure.code, 1);
        assert_eq!(
            failure.message,
            "Failed to establish connection to cd:443: additional headers must be colon(:)-separated: x-a"
        );
    }
}
