//! What goes between a browser and a shell (API-191..193).

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::SplitSink;
use futures::{SinkExt as _, StreamExt as _};
use tiphys_cluster::{ApiError, ExecEvent, ExecInput, ExecSink, ExecStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_util::sync::CancellationToken;

use super::shown::{Characters, Frame, reconnect, stdout};
use super::{Holder, Standing, Wanted};
use crate::call::Status;
use crate::live::Live;

/// How often the other end is asked whether it is there, and whether it may still type.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Silence after which nobody is there; a browser answers every ping.
const SILENCE_MAX: Duration = Duration::from_mins(1);
/// Time for the other end to take a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for the last words to a shell.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of one message to a shell.
const PIECE_BYTES_MAX: usize = 32 << 10;
/// Bytes that wait to be typed; beyond that the browser is not read.
const TYPED_BYTES_MAX: usize = 1 << 20;
/// What is typed to a shell whose user may no longer: the end of transmission (API-193).
const END_OF_TRANSMISSION: &[u8] = b"\x04";

/// Why a terminal ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The browser is gone, or sent what is no frame.
    Client,
    /// The shell ended, or could not be started.
    Shell,
    /// The user may no longer.
    Denied,
    /// The server stops.
    Stopping,
}

/// A program, and those that are tried when it turns out not to be there.
pub(super) struct Shell {
    input: ExecSink,
    events: ExecStream,
    others: VecDeque<String>,
}

impl Shell {
    /// Starts the first of some shells.
    pub(super) async fn first(live: &dyn Live, wanted: &Wanted, shells: Vec<String>) -> Result<Self, Status> {
        let mut others = VecDeque::from(shells);
        let first = others.pop_front().ok_or_else(|| Status::invalid("exec.shells names no shell"))?;
        let (input, events) = live.exec(&wanted.key(), &wanted.query(&first)).await?;
        Ok(Self { input, events, others })
    }
}

/// What is on its way to a shell. Sending never keeps from reading: a shell that writes without being read does not read.
struct Typing {
    input: ExecSink,
    waiting: VecDeque<ExecInput>,
    bytes: usize,
    is_flushed: bool,
}

impl Typing {
    fn new(input: ExecSink) -> Self {
        Self { input, waiting: VecDeque::new(), bytes: 0, is_flushed: true }
    }

    fn push(&mut self, typed: &Bytes) {
        let mut rest = typed.clone();
        self.bytes += rest.len();
        while !rest.is_empty() {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES_MAX));
            self.waiting.push_back(ExecInput::Typed(piece));
        }
    }

    fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.is_flushed
    }

    /// Sends as much as goes; ready when all of it is sent. It may be dropped and asked again.
    fn poll_send(&mut self, task: &mut Context<'_>) -> Poll<Result<(), ApiError>> {
        while !self.waiting.is_empty() {
            ready!(self.input.as_mut().poll_ready(task))?;
            let Some(next) = self.waiting.pop_front() else { break };
            if let ExecInput::Typed(bytes) = &next {
                self.bytes -= bytes.len();
            }
            self.is_flushed = false;
            self.input.as_mut().start_send(next)?;
        }
        if !self.is_flushed {
            ready!(self.input.as_mut().poll_flush(task))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    async fn send(&mut self) -> Result<(), ApiError> {
        poll_fn(|task| self.poll_send(task)).await
    }
}

/// What happens next.
enum Step {
    Client(Option<Result<Message, SocketError>>),
    Shell(Option<Result<ExecEvent, ApiError>>),
    Sent(Result<(), ApiError>),
    Tick,
    Stop,
}

/// A terminal as it goes on.
struct Terminal<'t, S> {
    holder: &'t Holder,
    live: &'t dyn Live,
    wanted: &'t Wanted,
    client: SplitSink<WebSocketStream<S>, Message>,
    typing: Typing,
    events: ExecStream,
    others: VecDeque<String>,
    characters: Characters,
    /// Whether the shell wrote anything: until then it may turn out not to be there, and the next one is told what was
    /// typed and how large the terminal is.
    has_begun: bool,
    typed: Vec<u8>,
    size: Option<ExecInput>,
}

/// Carries what is typed and what is shown, until one end goes or the user may no longer.
pub(super) async fn talk<S>(
    socket: WebSocketStream<S>,
    holder: &Holder,
    (live, wanted): (&dyn Live, &Wanted),
    shell: Shell,
    stopping: &CancellationToken,
) -> End
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let (client, mut frames) = socket.split();
    let Shell { input, events, others } = shell;
    let mut terminal = Terminal {
        holder,
        live,
        wanted,
        client,
        typing: Typing::new(input),
        events,
        others,
        characters: Characters::default(),
        has_begun: false,
        typed: Vec::new(),
        size: None,
    };
    let mut ticks = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    let end = loop {
        let (must_send, may_read) = (!terminal.typing.is_done(), terminal.typing.bytes < TYPED_BYTES_MAX);
        // Cancel-safe: `Typing` keeps what is not sent, the streams keep what is not read.
        let step = tokio::select! {
            biased;
            () = stopping.cancelled() => Step::Stop,
            _ = ticks.tick() => Step::Tick,
            event = terminal.events.next() => Step::Shell(event),
            sent = terminal.typing.send(), if must_send => Step::Sent(sent),
            frame = frames.next(), if may_read => Step::Client(frame),
        };
        if matches!(step, Step::Client(_)) {
            heard = Instant::now();
        }
        let went_on = match step {
            Step::Stop => Err(End::Stopping),
            Step::Tick if heard.elapsed() > SILENCE_MAX && may_read => Err(End::Client),
            Step::Tick => terminal.ping().await,
            Step::Shell(event) => terminal.shell(event).await,
            Step::Sent(Ok(())) => Ok(()),
            // How it ended comes as an event, unless the connection is gone.
            Step::Sent(Err(error)) => terminal.ended(Some(error.to_string())).await,
            Step::Client(frame) => terminal.frame(frame).await,
        };
        if let Err(end) = went_on {
            break end;
        }
    };
    drop(tokio::time::timeout(GOODBYE_TIMEOUT, terminal.client.close()).await);
    end
}

impl<S> Terminal<'_, S>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    async fn tell(&mut self, message: Message) -> Result<(), End> {
        match tokio::time::timeout(SEND_TIMEOUT, self.client.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(End::Client),
        }
    }

    async fn show(&mut self, text: &str) -> Result<(), End> {
        self.tell(Message::text(stdout(text))).await
    }

    async fn ping(&mut self) -> Result<(), End> {
        self.check().await?;
        self.tell(Message::Ping(Bytes::new())).await
    }

    /// Ends the terminal of somebody who may no longer have it.
    async fn check(&mut self) -> Result<(), End> {
        match self.holder.standing().await {
            Standing::Good => return Ok(()),
            Standing::Denied => self.show("Permission denied").await?,
            Standing::Over => {
                self.show("\nReconnect because the token was refreshed...\n").await?;
                self.tell(Message::text(reconnect())).await?;
            }
        }
        // What was not sent yet is not sent any more.
        self.typing.waiting.clear();
        self.typing.push(&Bytes::from_static(END_OF_TRANSMISSION));
        drop(tokio::time::timeout(GOODBYE_TIMEOUT, self.typing.send()).await);
        Err(End::Denied)
    }

    async fn frame(&mut self, frame: Option<Result<Message, SocketError>>) -> Result<(), End> {
        let text = match frame {
            Some(Ok(Message::Text(text))) => text.as_str().to_owned(),
            Some(Ok(Message::Binary(bytes))) => String::from_utf8_lossy(&bytes).into_owned(),
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => return Ok(()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(End::Client),
        };
        self.check().await?;
        let frame: Frame = serde_json::from_str(&text).map_err(|_no_frame| End::Client)?;
        match frame.operation.as_str() {
            "stdin" => {
                let typed = Bytes::from(frame.data);
                if !self.has_begun && self.typed.len() + typed.len() <= TYPED_BYTES_MAX {
                    self.typed.extend_from_slice(&typed);
                }
                self.typing.push(&typed);
            }
            "resize" => {
                let size = ExecInput::Size { columns: frame.cols, rows: frame.rows };
                self.typing.waiting.push_back(size.clone());
                self.size = Some(size);
            }
            _ => return Err(End::Client),
        }
        Ok(())
    }

    async fn shell(&mut self, event: Option<Result<ExecEvent, ApiError>>) -> Result<(), End> {
        match event {
            Some(Ok(ExecEvent::Output(bytes))) => {
                if !self.has_begun {
                    self.has_begun = true;
                    self.typed = Vec::new();
                }
                self.check().await?;
                let text = self.characters.take(&bytes);
                if text.is_empty() { Ok(()) } else { self.show(&text).await }
            }
            Some(Ok(ExecEvent::Ended(why))) => self.ended(why).await,
            Some(Err(error)) => self.ended(Some(error.to_string())).await,
            None => self.ended(Some("the connection was closed".to_owned())).await,
        }
    }

    /// A shell that wrote nothing and did not end well was never there: the next one is tried.
    async fn ended(&mut self, why: Option<String>) -> Result<(), End> {
        let Some(mut why) = why.filter(|_| !self.has_begun) else { return Err(End::Shell) };
        while let Some(next) = self.others.pop_front() {
            match self.live.exec(&self.wanted.key(), &self.wanted.query(&next)).await {
                Ok((input, events)) => {
                    self.typing = Typing::new(input);
                    self.events = events;
                    self.typing.waiting.extend(self.size.clone());
                    self.typing.push(&Bytes::from(self.typed.clone()));
                    return Ok(());
                }
                Err(status) => why = status.message,
            }
        }
        self.show(&format!("no shell could be started: {why}\r\n")).await?;
        Err(End::Shell)
    }
}
