//! What goes wrong in a rehearsal (CLI-1062).

use std::str::FromStr;
use std::time::Duration;

use anyhow::bail;

/// `--faults [GROUP/]KIND/NAME=WHAT[@TIME]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) what: What,
    /// From which time of the sync on.
    pub(super) at: Duration,
}

/// What goes wrong with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Its containers crash.
    Degraded,
    /// It never becomes healthy.
    Progressing,
    /// It ends with an error.
    Failed,
    /// The server refuses writes to it.
    Forbidden,
    /// Somebody else is always faster.
    Conflict,
    /// The server does not answer in time.
    Timeout,
}

impl What {
    /// How a simulated workload behaves; `None` for what concerns writes.
    pub(super) fn behaviour(self) -> Option<&'static str> {
        match self {
            Self::Degraded => Some("crashloop"),
            Self::Progressing => Some("never-ready"),
            Self::Failed => Some("fail"),
            Self::Forbidden | Self::Conflict | Self::Timeout => None,
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "[GROUP/]KIND/NAME=WHAT[@TIME] is needed, where WHAT is Degraded, Progressing, Failed, Forbidden, Conflict \
             or Timeout, for example apps/Deployment/api=Degraded@10s"
                .to_owned()
        };
        let (object, what) = text.split_once('=').ok_or_else(wrong)?;
        let (what, at) = what.split_once('@').unwrap_or((what, "0s"));
        let parts: Vec<&str> = object.split('/').collect();
        let (group, kind, name) = match parts.as_slice() {
            [kind, name] => ("", *kind, *name),
            // The core group is written as its version too.
            ["v1", kind, name] => ("", *kind, *name),
            [group, kind, name] => (*group, *kind, *name),
            _ => return Err(wrong()),
        };
        let what = match what {
            "Degraded" => What::Degraded,
            "Progressing" => What::Progressing,
            "Failed" => What::Failed,
            "Forbidden" => What::Forbidden,
            "Conflict" => What::Conflict,
            "Timeout" => What::Timeout,
            _ => return Err(wrong()),
        };
        if kind.is_empty() || name.is_empty() {
            return Err(wrong());
        }
        let at = tiphys_go::duration::parse(at).ok().and_then(|time| Duration::try_from(time).ok());
        let at = at.ok_or("a time such as 10s or 2m is needed after @")?;
        Ok(Self { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned(), what, at })
    }
}

impl Fault {
    /// Stand-ins are workloads whose containers crash or wait, from the beginning.
    pub(super) fn check_for_set(&self) -> anyhow::Result<()> {
        let is_of_stand_in = self.group == "apps" && self.kind == "Deployment" && self.at.is_zero();
        if !is_of_stand_in || !matches!(self.what, What::Degraded | What::Progressing) {
            bail!(
                "--faults: of an application set apps/Deployment/NAME=Degraded or apps/Deployment/NAME=Progressing is \
                 needed, where NAME is an application"
            );
        }
        Ok(())
    }

    /// The object, as it is named on the command line.
    pub(super) fn shown(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!("{}/", self.group) };
        format!("{group}{}/{}", self.kind, self.name)
    }

    pub(super) fn is_of(&self, group: &str, kind: &str, name: &str) -> bool {
        self.group == group && self.kind == kind && self.name == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1062_faults_name_an_object_and_what_goes_wrong() {
        let read = |text: &str| text.parse::<Fault>().unwrap();
        let fault = read("apps/Deployment/api=Degraded@10s");
        assert!(fault.is_of("apps", "Deployment", "api"));
        assert_eq!((fault.what, fault.at), (What::Degraded, Duration::from_secs(10)));
        assert!(read("ConfigMap/c=Forbidden").is_of("", "ConfigMap", "c"));
        assert!(read("v1/ConfigMap/c=Conflict").is_of("", "ConfigMap", "c"));
        for text in [
            "api=Degraded",
            "apps/Deployment/api",
            "a/b/c/d=Failed",
            "ConfigMap/c=Odd",
            "ConfigMap/=Failed",
            "ConfigMap/c=Failed@-1s",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
