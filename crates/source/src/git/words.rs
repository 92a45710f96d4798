//! The sentences of git and ssh that are shown, and what they mean.
//!
//! What git writes to its error output is made of what servers, proxies and URLs contain: a server may repeat the
//! header it was sent, a proxy's password may be cut in pieces that no mask fits, and masking a short secret tells
//! what it is. So nothing of it is repeated. A sentence that is known is shown in our words, with nothing in it but
//! the URL without user information; every other one is left out (SEC-38).

/// What a failure means for what is done next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing in particular; trying again may help.
    #[default]
    Other,
    /// The server does not let us in.
    Denied,
    /// Nobody vouches for the certificate of the server.
    Untrusted,
    /// The host key of the server is not a known one.
    StrangeHost,
    /// A limit of ours.
    Limit,
    /// The server has no such commit.
    NotFound,
    /// The server gives out the tips of branches and tags only.
    Unadvertised,
    /// Git blames our own files.
    Damage,
    /// Somebody else pushed meanwhile.
    Conflict,
}

/// A known sentence: what it contains, how it is shown, and what it means. `{url}` and `{server}` are filled in.
type Sentence = (&'static str, &'static str, Cause);

/// The first that fits a line counts.
const SENTENCES: [Sentence; 63] = [
    ("(fetch first)", "! [rejected] the branch was changed meanwhile", Cause::Conflict),
    ("(non-fast-forward)", "! [rejected] the branch was changed meanwhile", Cause::Conflict),
    ("(stale info)", "! [rejected] the branch was changed meanwhile", Cause::Conflict),
    ("failed to update ref", "! [remote rejected] failed to update ref", Cause::Conflict),
    ("cannot lock ref", "! [remote rejected] cannot lock ref", Cause::Conflict),
    ("incorrect old value", "! [remote rejected] incorrect old value provided", Cause::Conflict),
    ("hook declined", "! [remote rejected] a hook of the server declined", Cause::Denied),
    ("(permission denied)", "! [remote rejected] permission denied", Cause::Denied),
    ("Authentication failed for", "fatal: Authentication failed for '{url}/'", Cause::Denied),
    (
        "could not read Username",
        "fatal: could not read Username for '{server}': terminal prompts disabled",
        Cause::Denied,
    ),
    (
        "could not read Password",
        "fatal: could not read Password for '{server}': terminal prompts disabled",
        Cause::Denied,
    ),
    ("Host key verification failed", "Host key verification failed.", Cause::StrangeHost),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "The host key of the server has changed.", Cause::StrangeHost),
    ("Permission denied (publickey", "Permission denied (publickey).", Cause::Denied),
    ("Permission denied", "Permission denied", Cause::Denied),
    ("Load key", "The private key cannot be read.", Cause::Denied),
    ("no mutual signature", "The server accepts none of the signatures of the private key.", Cause::Other),
    ("no matching host key type", "The server offers no host key type that is supported.", Cause::Other),
    ("no matching key exchange", "The server offers no key exchange that is supported.", Cause::Other),
    ("Bad configuration option", "ssh does not know one of its options.", Cause::Other),
    ("Could not resolve proxy", "fatal: unable to access '{url}/': Could not resolve proxy", Cause::Other),
    ("Could not resolve host", "fatal: unable to access '{url}/': Could not resolve host", Cause::Other),
    ("Received HTTP code 407", "fatal: unable to access '{url}/': the proxy wants credentials", Cause::Other),
    ("from proxy after CONNECT", "fatal: unable to access '{url}/': the proxy refuses", Cause::Other),
    ("Connection refused", "fatal: unable to access '{url}/': Connection refused", Cause::Other),
    ("Connection reset", "fatal: unable to access '{url}/': Connection reset", Cause::Other),
    ("Connection timed out", "fatal: unable to access '{url}/': Connection timed out", Cause::Other),
    ("Operation timed out", "fatal: unable to access '{url}/': Operation timed out", Cause::Other),
    ("No route to host", "fatal: unable to access '{url}/': No route to host", Cause::Other),
    ("Network is unreachable", "fatal: unable to access '{url}/': Network is unreachable", Cause::Other),
    ("Connection closed by", "Connection closed by the server", Cause::Other),
    ("Failed to connect to", "fatal: unable to access '{url}/': Failed to connect", Cause::Other),
    ("Couldn't connect to server", "fatal: unable to access '{url}/': Failed to connect", Cause::Other),
    ("Empty reply from server", "fatal: unable to access '{url}/': Empty reply from server", Cause::Other),
    ("self-signed certificate", "SSL certificate problem: self-signed certificate", Cause::Untrusted),
    ("self signed certificate", "SSL certificate problem: self-signed certificate", Cause::Untrusted),
    ("certificate has expired", "SSL certificate problem: certificate has expired", Cause::Other),
    (
        "unable to get local issuer certificate",
        "SSL certificate problem: unable to get local issuer certificate",
        Cause::Untrusted,
    ),
    (
        "no alternative certificate subject name",
        "SSL certificate problem: the certificate is not for this server",
        Cause::Other,
    ),
    ("SSL certificate problem", "SSL certificate problem", Cause::Untrusted),
    ("server certificate verification failed", "server certificate verification failed", Cause::Untrusted),
    (
        "unadvertised object",
        "error: Server does not allow request for unadvertised object",
        Cause::Unadvertised,
    ),
    ("not our ref", "fatal: remote error: not our ref", Cause::NotFound),
    ("couldn't find remote ref", "fatal: couldn't find remote ref", Cause::NotFound),
    ("no such remote ref", "fatal: no such remote ref", Cause::NotFound),
    (
        "base from redirection",
        "fatal: unable to access '{url}/': the server redirects, which is not followed",
        Cause::Other,
    ),
    (
        "does not appear to be a git repository",
        "fatal: '{url}' does not appear to be a git repository",
        Cause::Other,
    ),
    ("died of signal 25", "the pack of the server is larger than allowed", Cause::Limit),
    ("File too large", "the pack of the server is larger than allowed", Cause::Limit),
    (
        "died of signal 24",
        "unpacking what the server sent takes more processor time than allowed",
        Cause::Limit,
    ),
    ("attempting to allocate", "unpacking what the server sent needs more memory than allowed", Cause::Limit),
    ("ut of memory", "unpacking what the server sent needs more memory than allowed", Cause::Limit),
    ("expected '", "fatal: the answer of the server does not follow the protocol", Cause::Other),
    ("protocol error", "fatal: the answer of the server does not follow the protocol", Cause::Other),
    ("pack is corrupted", "fatal: the pack of the server is corrupted", Cause::Other),
    ("pack has", "fatal: the pack of the server is corrupted", Cause::Other),
    ("inflate", "fatal: the pack of the server is corrupted", Cause::Other),
    ("unresolved delta", "fatal: the pack of the server is not complete", Cause::Other),
    ("No space left on device", "No space left on device", Cause::Other),
    ("early EOF", "fatal: early EOF", Cause::Other),
    (
        "unexpected disconnect",
        "fetch-pack: unexpected disconnect while reading sideband packet",
        Cause::Other,
    ),
    ("index-pack failed", "fatal: index-pack failed", Cause::Other),
    ("hung up unexpectedly", "fatal: the remote end hung up unexpectedly", Cause::Other),
];

/// Words of git about our own files.
const DAMAGE: [&str; 8] = [
    "corrupt",
    "bad object",
    "is empty",
    "unable to read",
    "not a git repository",
    "missing",
    "shallow",
    ".lock",
];

/// Lines that are looked at, and different sentences that are shown.
const LINES_MAX: usize = 200;
const SHOWN_MAX: usize = 4;

/// Explains an error output.
pub(super) fn explain(stderr: &str, url: &str, server: &str) -> (String, Cause) {
    let mut shown: Vec<String> = Vec::new();
    let mut cause = Cause::Other;
    if was_ended(stderr) {
        shown.push(
            "unpacking was ended: the pack of the server is larger than allowed, or takes longer".to_owned(),
        );
        cause = Cause::Limit;
    }
    for line in stderr.lines().take(LINES_MAX) {
        let Some((words, means)) = sentence(line) else { continue };
        let words = words.replace("{url}", url).replace("{server}", server);
        if shown.len() < SHOWN_MAX && !shown.contains(&words) {
            shown.push(words);
        }
        // What was said first is the reason of what follows, except that limits show late.
        if cause == Cause::Other || means == Cause::Limit {
            cause = means;
        }
    }
    if shown.is_empty() {
        shown.push("git gives a reason that is not shown, as it may repeat credentials".to_owned());
    }
    (shown.join("\n"), cause)
}

/// Whether the part of git that unpacks went without a word: a limit of the system ended it.
fn was_ended(stderr: &str) -> bool {
    let mut lines = stderr.lines().filter(|line| !line.is_empty() && !line.starts_with("remote:"));
    lines.next().is_some_and(|line| line.ends_with("invalid index-pack output"))
}

fn sentence(line: &str) -> Option<(String, Cause)> {
    // What the server writes for people to read.
    let is_remote = line.starts_with("remote:");
    if is_remote {
        return ["not found", "could not be found"]
            .iter()
            .any(|words| line.contains(words))
            .then(|| ("remote: Repository not found.".to_owned(), Cause::Other));
    }
    if let Some(status) = status(line, "returned error: ") {
        let means = if matches!(status, 401 | 403) { Cause::Denied } else { Cause::Other };
        let words = format!("fatal: unable to access '{{url}}/': The requested URL returned error: {status}");
        return Some((words, means));
    }
    let known = SENTENCES.iter().find(|(known, _, _)| line.contains(known));
    if let Some((_, shown, means)) = known {
        return Some(((*shown).to_owned(), *means));
    }
    if line.contains("' not found") {
        return Some(("fatal: repository '{url}/' not found".to_owned(), Cause::Other));
    }
    // Neither the server's words nor those of a URL.
    let is_ours = !line.contains("://") && !line.contains("remote error:");
    if is_ours && DAMAGE.iter().any(|words| line.contains(words)) {
        return Some(("the cached repository is damaged".to_owned(), Cause::Damage));
    }
    None
}

/// Three digits behind some words.
fn status(line: &str, words: &str) -> Option<u16> {
    let digits = line.split_once(words)?.1.get(..3)?;
    digits.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stderr: &str) -> (String, Cause) {
        explain(stderr, "https://h/r", "https://h")
    }

    /// SEC-38: whatever stands in the error output, only our own words and the URL are shown.
    #[test]
    fn sec_38_nothing_of_gits_output_is_repeated() {
        let secrets = "Basic dTpzM2NyM3Q= pa/ss@w0rd e";
        for (template, shown) in [
            ("remote: you sent SECRET", "git gives a reason that is not shown, as it may repeat credentials"),
            ("fatal: SECRET", "git gives a reason that is not shown, as it may repeat credentials"),
            ("remote: SECRET not found", "remote: Repository not found."),
            (
                "fatal: unable to access 'https://h/r/': Could not resolve proxy: SECRET",
                "fatal: unable to access 'https://h/r/': Could not resolve proxy",
            ),
            ("SECRET: Permission denied (publickey,SECRET).", "Permission denied (publickey)."),
            ("fatal: Authentication failed for 'SECRET'", "fatal: Authentication failed for 'https://h/r/'"),
            (
                "The requested URL returned error: 503 SECRET",
                "fatal: unable to access 'https://h/r/': The requested URL returned error: 503",
            ),
            ("fatal: /cache/SECRET is corrupt", "the cached repository is damaged"),
        ] {
            assert_eq!(of(&template.replace("SECRET", secrets)).0, shown, "{template}");
        }
    }

    /// SEC-38: the words of a server or of a URL do not make us throw our cache away.
    #[test]
    fn sec_38_servers_do_not_speak_for_our_files() {
        for line in [
            "remote: error: object is corrupt",
            "fatal: remote error: repository is corrupt",
            "fatal: unable to access 'https://h/missing.lock/': SSL_ERROR_SYSCALL",
        ] {
            assert_eq!(of(line).1, Cause::Other, "{line}");
        }
        assert_eq!(of("error: object file x is empty").1, Cause::Damage);
        assert_eq!(of("fatal: Unable to create '/c/shallow.lock': File exists.").1, Cause::Damage);
    }

    /// The reason is what came first; a limit is the reason wherever it is named.
    #[test]
    fn rnd_10_the_cause_of_several_sentences() {
        let (text, cause) =
            of("fatal: early EOF\nerror: index-pack died of signal 25\nfatal: index-pack failed");
        assert_eq!(cause, Cause::Limit);
        assert_eq!(
            text,
            "fatal: early EOF\nthe pack of the server is larger than allowed\nfatal: index-pack failed"
        );
        let silent = "fatal: fetch-pack: invalid index-pack output";
        assert_eq!(of(silent).1, Cause::Limit);
        let (text, cause) = of(&format!("fatal: pack is corrupted (SHA1 mismatch)\n{silent}"));
        assert_eq!((text.as_str(), cause), ("fatal: the pack of the server is corrupted", Cause::Other));
        assert_eq!(of("fatal: remote error: upload-pack: not our ref 12").1, Cause::NotFound);
        assert_eq!(
            of("error: Server does not allow request for unadvertised object 12").1,
            Cause::Unadvertised
        );
    }
}
