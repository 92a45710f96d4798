//! What functions of templates cost: nanoseconds for each call, and for each step that is charged.
//!
//! A step is to be some forty nanoseconds of work, whatever a template does ([`Limits`](tiphys_go::template::Limits)).
//! Run after a change of a function or of its price, and look for rows above a hundred:
//!
//! `cargo run --release -p tiphys-helm --example prices [-- NAME...]`

#![expect(clippy::print_stdout, reason = "a program")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::cell::Cell;
use std::time::{Duration, Instant};

use calls::CALLS;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};
use tiphys_go::template::{
    Certificate, CertificateRequest, Engine, Environment, FunctionSet, KeyError, KeyKind, Keys, Limits, Map,
    MissingKey, Templates, Value, Work,
};
use tiphys_helm::NativeKeys;

#[path = "support/calls.rs"]
mod calls;

type Failure = Box<dyn std::error::Error>;

/// Chance that follows from how often it was asked for, as dear as that of charts that render the same each time.
struct Seeded(Cell<u64>);

impl Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.set(self.0.get() + 1);
        let seed = Sha256::digest([7; 200]);
        for (block, bytes) in (self.0.get()..).zip(bytes.chunks_mut(32)) {
            let made = Sha256::new().chain_update(seed).chain_update(block.to_be_bytes()).finalize();
            for (to, from) in bytes.iter_mut().zip(made) {
                *to = from;
            }
        }
    }
}

impl Environment for Seeded {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn random(&self, bytes: &mut [u8]) {
        self.fill(bytes);
    }

    fn keys(&self) -> Option<&dyn Keys> {
        Some(self)
    }
}

impl Keys for Seeded {
    fn bcrypt(&self, password: &[u8], work: &mut dyn Work) -> Result<String, KeyError> {
        NativeKeys { source: &|bytes: &mut [u8]| self.fill(bytes), is_repeatable: true }
            .bcrypt(password, work)
    }

    fn private_key(&self, kind: KeyKind, work: &mut dyn Work) -> Result<String, KeyError> {
        NativeKeys { source: &|bytes: &mut [u8]| self.fill(bytes), is_repeatable: true }
            .private_key(kind, work)
    }

    fn certificate(
        &self,
        request: &CertificateRequest<'_>,
        work: &mut dyn Work,
    ) -> Result<Certificate, KeyError> {
        let source = |bytes: &mut [u8]| self.fill(bytes);
        NativeKeys { source: &source, is_repeatable: true }.certificate(request, work)
    }

    fn check(&self, certificate: &[u8], key: &[u8], work: &mut dyn Work) -> Result<(), KeyError> {
        let source = |bytes: &mut [u8]| self.fill(bytes);
        NativeKeys { source: &source, is_repeatable: true }.check(certificate, key, work)
    }
}

/// What the calls work on.
const DATA: &str = r#"{{- $t := "web-frontend" -}}
{{- $s := repeat 2000 "Some text, with words.\nAnd 'lines' \"quoted\"\t<b>é</b> " -}}
{{- $n := untilStep 0 4000 1 -}}
{{- $M := dict -}}{{- range $n }}{{ $_ := set $M (print "key" .) (dict "a" .) }}{{ end -}}
{{- $_ := set . "t" $t }}{{ $_ := set . "s" $s }}{{ $_ := set . "a" (repeat 100000 "a") -}}
{{- $_ := set . "l" (list 1 2 3 "x" 5.5) }}{{ $_ := set . "n" $n -}}
{{- $_ := set . "L" (splitList "," (repeat 4000 "item-number,")) -}}
{{- $_ := set . "m" (dict "a" 1 "b" "text" "c" (list 1 2 (dict "d" true))) }}{{ $_ := set . "M" $M -}}
{{- $_ := set . "r" (shuffle (repeat 50000 "at")) -}}
{{- $_ := set . "y" (toYaml $M) }}{{ $_ := set . "j" (toJson $M) -}}
"#;

fn main() -> Result<(), Failure> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    println!("{:>12} {:>12} {:>9}  call", "ns", "steps", "ns/step");
    for call in
        CALLS.iter().filter(|call| wanted.is_empty() || wanted.iter().any(|one| call.contains(one.as_str())))
    {
        let (mut count, mut rounds) = (1_u64, 0);
        loop {
            rounds += 1;
            let (empty, empty_steps) = measure("", count)?;
            let (full, full_steps) = match measure(&format!("{{{{ $_ := {call} }}}}"), count) {
                Ok(measured) => measured,
                Err(problem) => {
                    println!("{:>35}  {call}: {problem}", "-");
                    break;
                }
            };
            let taken = full.saturating_sub(empty);
            if taken < Duration::from_millis(20) && rounds < 24 && count < 200_000 {
                count *= 4;
                continue;
            }
            let nanoseconds = taken.as_nanos() as f64 / count as f64;
            let steps = full_steps.saturating_sub(empty_steps) as f64 / count as f64;
            let mark = if nanoseconds / steps > 100.0 { " !" } else { "" };
            println!("{nanoseconds:>12.0} {steps:>12.0} {:>9.1}  {call}{mark}", nanoseconds / steps);
            break;
        }
    }
    Ok(())
}

/// Time and steps of so many calls.
fn measure(call: &str, count: u64) -> Result<(Duration, u64), Failure> {
    let functions = FunctionSet::helm();
    let mut templates = Templates::new("gotpl", functions).with_missing_key(MissingKey::Zero);
    templates.parse("f", &b"{{ define \"f\" }}{{ . }}{{ end }}"[..])?;
    templates.parse("data", DATA.as_bytes())?;
    let mut call = call.to_owned();
    for name in ["t", "s", "a", "r", "l", "n", "L", "m", "M", "y", "j"] {
        for behind in [" ", ")", ",", "\n"] {
            call = call.replace(&format!("${name}{behind}"), &format!("$.{name}{behind}"));
        }
    }
    let text = format!("{{{{ range $i := until {count} }}}}{call}{{{{ end }}}}");
    templates.parse("t", text.into_bytes())?;
    let limits = Limits { steps: u64::MAX, made_bytes: u64::MAX, ..Limits::default() };
    let seeded = Seeded(Cell::new(0));
    let mut engine = Engine::new(&templates, &seeded, limits);
    let data = Value::from(Map::new());
    engine.execute("data", &data)?;
    let before = engine.steps();
    let started = Instant::now();
    engine.execute("t", &data)?;
    Ok((started.elapsed(), engine.steps() - before))
}
