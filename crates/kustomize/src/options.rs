//! Options of `kustomize build`, as the setting `kustomize.buildOptions` spells them (RND-87).

use smol_str::SmolStr;

use crate::fault::quoted;

/// Where files may be that a kustomization names (RND-209).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Restriction {
    /// In or below its directory.
    #[default]
    RootOnly,
    /// Anywhere in the tree.
    None,
}

/// What is done about the order of the output when the kustomization says nothing (RND-235).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reorder {
    /// By kind.
    #[default]
    Legacy,
    /// Nothing.
    None,
}

/// Options of a build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Where files may be.
    pub restriction: Restriction,
    /// Order of the output.
    pub reorder: Reorder,
    /// Whether `helmCharts` may be used.
    pub enable_helm: bool,
    /// Version of Kubernetes that charts see; empty for what the kustomization says.
    pub helm_kube_version: SmolStr,
    /// API versions that charts see; none for what the kustomization says.
    pub helm_api_versions: Vec<SmolStr>,
    /// Whether objects get a label that names kustomize.
    pub managed_by_label: bool,
    /// Whether the program would start plugins. There are none here: a kustomization that names one fails (RND-161).
    pub enable_plugins: bool,
}

/// Options that cannot be used. The texts are those of the program where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// There is no such option.
    #[error("unknown flag: {0}")]
    Unknown(String),
    /// There is no such short option.
    #[error("unknown shorthand flag: '{letter}' in {word}")]
    UnknownShort {
        /// The letter.
        letter: char,
        /// The whole word.
        word: String,
    },
    /// An option lacks its value.
    #[error("flag needs an argument: {0}")]
    NoValue(String),
    /// A value is not what the option takes.
    #[error("invalid argument {} for {} flag: strconv.ParseBool: parsing {}: invalid syntax", quoted(.value), quoted(.option), quoted(.value))]
    NotBool {
        /// The option.
        option: String,
        /// The value.
        value: String,
    },
    /// A value is none of those that the option takes.
    #[error("illegal flag value {option} {value}; legal values: [{legal}]")]
    Illegal {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// Those that there are.
        legal: &'static str,
    },
    /// A word that is no option: the directory is known already.
    #[error("specify one path to kustomization.yaml")]
    Argument(String),
    /// An option that only the program can follow (RND-161).
    #[error("native kustomize renderer: unsupported option {0}; set tiphys.renderer.kustomize=exec")]
    Unsupported(String),
}

/// Options with a value that only say how plugins are run.
const OF_PLUGINS: &[&str] = &["--network-name", "--mount", "--env"];
/// Switches that only say how plugins are run, or how much is said about errors.
const WITHOUT_EFFECT: &[&str] =
    &["--network", "--as-current-user", "--enable-exec", "--helm-debug", "--stack-trace"];

impl Options {
    /// Reads options that are separated by blanks.
    ///
    /// # Errors
    /// When there is no such option, or its value is wrong, or only the program can follow it.
    ///
    /// ```
    /// # use tiphys_kustomize::{Options, Restriction};
    /// let options = Options::parse("--enable-helm --load-restrictor LoadRestrictionsNone").unwrap();
    /// assert!(options.enable_helm && options.restriction == Restriction::None);
    /// assert!(Options::parse("--enable-everything").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, OptionsError> {
        let mut options = Self::default();
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            if word == "--" {
                match words.next() {
                    Some(argument) => return Err(OptionsError::Argument(argument.to_owned())),
                    None => break,
                }
            }
            let (name, value) = match word.strip_prefix("--") {
                Some(_) => match word.split_once('=') {
                    Some((name, value)) => (name, Some(value)),
                    None => (word, None),
                },
                None => short(word)?,
            };
            options.set(name, value, &mut words)?;
        }
        Ok(options)
    }

    fn set<'w>(
        &mut self,
        name: &str,
        value: Option<&'w str>,
        words: &mut impl Iterator<Item = &'w str>,
    ) -> Result<(), OptionsError> {
        if let Some(switch) = self.switch(name) {
            *switch = truth(name, value)?;
            return Ok(());
        }
        if WITHOUT_EFFECT.contains(&name) {
            return truth(name, value).map(drop);
        }
        let takes_value = OF_PLUGINS.contains(&name)
            || matches!(
                name,
                "--load-restrictor"
                    | "--reorder"
                    | "--helm-command"
                    | "--helm-kube-version"
                    | "--helm-api-versions"
                    | "--output"
            );
        if !takes_value {
            return Err(OptionsError::Unknown(name.to_owned()));
        }
        let Some(value) = value.or_else(|| words.next()) else {
            return Err(OptionsError::NoValue(name.to_owned()));
        };
        match name {
            "--load-restrictor" => {
                self.restriction = match value {
                    "LoadRestrictionsNone" => Restriction::None,
                    "LoadRestrictionsRootOnly" | "" => Restriction::RootOnly,
                    other => {
                        return Err(OptionsError::Illegal {
                            option: "--load-restrictor",
                            value: other.to_owned(),
                            legal: "LoadRestrictionsRootOnly LoadRestrictionsNone",
                        });
                    }
                };
            }
            "--reorder" => {
                self.reorder = match value {
                    "legacy" => Reorder::Legacy,
                    "none" => Reorder::None,
                    other => {
                        let value = other.to_owned();
                        return Err(OptionsError::Illegal {
                            option: "--reorder",
                            value,
                            legal: "legacy none",
                        });
                    }
                };
            }
            "--helm-kube-version" => self.helm_kube_version = value.into(),
            "--helm-api-versions" => self.helm_api_versions.push(value.into()),
            // Another program could do anything; the name of the usual one says nothing new.
            "--helm-command" if value != "helm" => return Err(OptionsError::Unsupported(name.to_owned())),
            "--output" => return Err(OptionsError::Unsupported(name.to_owned())),
            _ => {}
        }
        Ok(())
    }

    fn switch(&mut self, name: &str) -> Option<&mut bool> {
        match name {
            "--enable-helm" => Some(&mut self.enable_helm),
            "--enable-managedby-label" => Some(&mut self.managed_by_label),
            "--enable-alpha-plugins" => Some(&mut self.enable_plugins),
            _ => None,
        }
    }

    /// Whether `helmCharts` may be used: plugins bring them along.
    pub(crate) fn allows_helm(&self) -> bool {
        self.enable_helm || self.enable_plugins
    }
}

/// A word with one hyphen: `-e value`, `-evalue`, `-e=value`.
fn short(word: &str) -> Result<(&'static str, Option<&str>), OptionsError> {
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
        return Err(OptionsError::Argument(word.to_owned()));
    };
    let mut rest = letters.chars();
    let letter = rest.next().unwrap_or_default();
    let name = match letter {
        'e' => "--env",
        'o' => "--output",
        letter => return Err(OptionsError::UnknownShort { letter, word: word.to_owned() }),
    };
    let value = rest.as_str();
    let value = value.strip_prefix('=').unwrap_or(value);
    Ok((name, (!value.is_empty()).then_some(value)))
}

fn truth(option: &str, value: Option<&str>) -> Result<bool, OptionsError> {
    match value {
        None | Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(true),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(false),
        Some(other) => Err(OptionsError::NotBool { option: option.to_owned(), value: other.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_87_options_are_read_as_the_program_reads_them() {
        let options = Options::parse(
            "--enable-helm  --load-restrictor=LoadRestrictionsNone --reorder none --helm-kube-version 1.30.0 \
             --helm-api-versions v1 --helm-api-versions=apps/v1 --enable-managedby-label=false -e A=B --network",
        )
        .unwrap();
        let expected = Options {
            restriction: Restriction::None,
            reorder: Reorder::None,
            enable_helm: true,
            helm_kube_version: "1.30.0".into(),
            helm_api_versions: vec!["v1".into(), "apps/v1".into()],
            ..Options::default()
        };
        assert_eq!(options, expected);
        assert_eq!(Options::parse("").unwrap(), Options::default());
    }

    #[test]
    fn rnd_87_options_that_are_none_are_named() {
        for (text, error) in [
            ("--nonsense", "unknown flag: --nonsense"),
            ("-x", "unknown shorthand flag: 'x' in -x"),
            ("--reorder", "flag needs an argument: --reorder"),
            (
                "--load-restrictor foo",
                "illegal flag value --load-restrictor foo; legal values: [LoadRestrictionsRootOnly LoadRestrictionsNone]",
            ),
            ("--reorder=foo", "illegal flag value --reorder foo; legal values: [legacy none]"),
            (
                "--enable-helm=yes",
                "invalid argument \"yes\" for \"--enable-helm\" flag: strconv.ParseBool: parsing \"yes\": invalid syntax",
            ),
            ("elsewhere", "specify one path to kustomization.yaml"),
            (
                "-o out.yaml",
                "native kustomize renderer: unsupported option --output; set tiphys.renderer.kustomize=exec",
            ),
            (
                "--helm-command /bin/sh",
                "native kustomize renderer: unsupported option --helm-command; set tiphys.renderer.kustomize=exec",
            ),
        ] {
            assert_eq!(Options::parse(text).unwrap_err().to_string(), error, "{text}");
        }
    }
}
