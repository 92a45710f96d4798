//! A subscriber that reads every line of the product's log and looks for what must not be there (INV-7).

use std::fmt::{Debug, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A secret text in each way in which a manifest or a message may show it.
pub(super) fn writings(secret: &str) -> Vec<String> {
    use base64::Engine as _;
    vec![secret.to_owned(), base64::engine::general_purpose::STANDARD.encode(secret)]
}

/// What the log has shown.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) canary: AtomicBool,
    /// Lines that say that our own code failed unexpectedly.
    pub(super) bug: AtomicBool,
}

/// Reads lines; prints them when asked to.
pub(super) struct Reader {
    /// What a Secret holds, in each way in which it is written.
    pub(super) canaries: Vec<String>,
    pub(super) seen: Arc<Seen>,
    pub(super) origin: tokio::time::Instant,
    pub(super) prints: bool,
}

impl Subscriber for Reader {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let debug = *metadata.level() <= tracing::Level::DEBUG;
        debug && metadata.is_event() && metadata.target().starts_with("tiphys")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    #[expect(clippy::print_stderr, reason = "--verbose shows the log")]
    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        if self.canaries.iter().any(|canary| line.0.contains(canary)) {
            self.seen.canary.store(true, Ordering::Relaxed);
        }
        if line.0.contains("this is a bug") {
            self.seen.bug.store(true, Ordering::Relaxed);
        }
        if self.prints {
            let level = event.metadata().level();
            eprintln!("{:10.3} log    {level}{}", self.origin.elapsed().as_secs_f64(), line.0);
        }
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a text cannot fail.
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}
