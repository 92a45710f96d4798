//! What a newcomer reads when the demo is ready (CLI-1001).

use std::path::Path;
use std::time::Duration;

use super::scenario::Scenario;

/// What the text speaks of.
pub(crate) struct Place<'a> {
    /// How the user called us.
    pub(crate) program: String,
    /// Address of the repository.
    pub(crate) url: &'a str,
    /// The command that logs in to the API.
    pub(crate) login: &'a str,
    pub(crate) directory: &'a Path,
    /// The directory as the user named it.
    pub(crate) data: Option<&'a Path>,
}

impl Place<'_> {
    /// How commands to copy name the directory.
    pub(crate) fn data(&self) -> String {
        self.data.map_or_else(String::new, |data| format!(" --data {}", quoted(data)))
    }
}

/// Everything that is printed on standard output.
pub(crate) fn text(place: &Place<'_>, scenario: Scenario, took: Duration) -> String {
    let program = &place.program;
    let kubeconfig = quoted(&place.directory.join("kubeconfig"));
    let data = place.data();
    let (verb, then) = scenario.advice();
    let end =
        if data.is_empty() { "Ctrl-C stops and removes everything" } else { "Ctrl-C stops, --data keeps it" };
    let column = place.url.len();
    let list = format!("{program} app list --core");
    format!(
        "Tiphys demo is ready ({:.1}s)\n  \
           Git         {}     clone, edit, push: the apps follow\n  \
           kubectl     export KUBECONFIG={kubeconfig}\n  \
           CLI         {list:column$}     with that KUBECONFIG\n  \
           API         {}\n\
         Try:  {program} demo {verb}{data}     {then}        {end}\n",
        took.as_secs_f64(),
        place.url,
        place.login,
    )
}

/// Writes to standard output; a closed pipe ends quietly (CLI-1106).
pub(crate) fn print(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// A path as a word of a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1001_the_facts_stand_in_their_order() {
        let place = Place {
            program: "tiphys".to_owned(),
            url: "http://127.0.0.1:8080/git/demo.git",
            login: "argocd login 127.0.0.1:8080 --plaintext --username admin --password x",
            directory: Path::new("/tmp/tiphys-demo-4821"),
            data: None,
        };
        let expected = "\
Tiphys demo is ready (1.4s)
  Git         http://127.0.0.1:8080/git/demo.git     clone, edit, push: the apps follow
  kubectl     export KUBECONFIG=/tmp/tiphys-demo-4821/kubeconfig
  CLI         tiphys app list --core                 with that KUBECONFIG
  API         argocd login 127.0.0.1:8080 --plaintext --username admin --password x
Try:  tiphys demo break guestbook     then `fix guestbook` and watch it heal        Ctrl-C stops and removes everything
";
        assert_eq!(text(&place, Scenario::Guestbook, Duration::from_millis(1432)), expected);
        let kept = Place { data: Some(Path::new("my data")), ..place };
        let text = text(&kept, Scenario::Drift, Duration::ZERO);
        assert!(text.contains(
            "demo drift healed --data 'my data'     then watch it heal        Ctrl-C stops, --data keeps it"
        ));
    }
}
