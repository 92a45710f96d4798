use super::*;
use serde_json::json;
use std::io::{Cursor, Read as _};

fn options(jobs: usize) -> StreamOptions {
    StreamOptions {
        jobs: NonZeroUsize::new(jobs).unwrap(),
        strictness: Strictness::Lenient,
        timeout: Duration::from_secs(30),
        line_bytes_max: 200,
    }
}

fn answers(input: &[u8], options: StreamOptions) -> Vec<Value> {
    let mut output = Vec::new();
    answer_all(lines(Cursor::new(input.to_vec()), options.line_bytes_max), &mut output, options).unwrap();
    String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn eval_2_no_line_stops_it() {
    let mut input = b"x\n\n{\"id\":7}\n[1]\n\xff\n".to_vec();
    input.extend(b"{\"id\":\"long\",\"op\":\"".iter().chain([b'a'; 300].iter()).chain(b"\"}\n"));
    input.extend(b"{\"id\":1e2,\"op\":\"repos.secret_name\",\"input\":{\"url\":\"https://git.acme.test/shop/ui\",\"projectName\":\"shop\"}}");
    let seen = answers(&input, options(2));
    let codes: Vec<_> = seen.iter().map(|one| one["error"]["code"].as_str().unwrap_or("-")).collect();
    assert_eq!(codes, ["BadRequest", "BadRequest", "BadRequest", "BadRequest", "TooLarge", "-"]);
    let numbers: Vec<_> = seen.iter().filter_map(|one| one["error"]["line"].as_u64()).collect();
    assert_eq!(numbers, [1, 3, 4, 5, 6]);
    assert_eq!(seen[1]["id"], 7);
    assert_eq!(seen[5]["result"]["name"], "repo-857941404");
}

#[test]
fn eval_1_the_id_is_echoed_as_given() {
    let line = r#"{"id":12345678901234567890123,"op":"tracking.hsah"}"#;
    let expected = r#"{"id":12345678901234567890123,"error":{"code":"UnknownOp","line":1,"message":"unknown operation \"tracking.hsah\""}}"#;
    assert_eq!(
        answer_line(line, Strictness::Lenient).replace(",\"line\":1", ""),
        expected.replace(",\"line\":1", "")
    );
}

#[test]
fn eval_3_answers_keep_the_order_whatever_the_number_of_jobs() {
    let line =
        |number| json!({"id": number, "op": "repos.secret_name", "input": {"url": format!("t{number}")}});
    let input = (0..500).map(|number| line(number).to_string()).collect::<Vec<_>>().join("\n");
    let alone = answers(input.as_bytes(), options(1));
    assert_eq!(alone.len(), 500);
    assert!(alone.iter().enumerate().all(|(number, one)| one["id"] == number));
    assert_eq!(answers(input.as_bytes(), options(8)), alone);
}

/// Gives out one line, then waits for its answer before it gives the next one.
struct Conversation {
    answered: Receiver<()>,
    sent: usize,
}

impl Iterator for Conversation {
    type Item = io::Result<Request>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.sent > 0 {
            self.answered.recv_timeout(Duration::from_secs(20)).ok()?;
        }
        self.sent += 1;
        let line = br#"{"op":"repos.secret_name","input":{"url":"a"}}"#.to_vec();
        (self.sent <= 3).then_some(Ok(Request::Line(line, 1)))
    }
}

struct Listener(mpsc::Sender<()>, Vec<u8>);

impl Write for Listener {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.send(()).ok();
        Ok(())
    }
}

#[test]
fn eval_3_a_waiting_writer_gets_its_answer_first() {
    let (heard, answered) = mpsc::channel();
    let mut listener = Listener(heard, Vec::new());
    answer_all(Conversation { answered, sent: 0 }, &mut listener, options(4)).unwrap();
    assert_eq!(String::from_utf8(listener.1).unwrap().lines().count(), 3);
}

/// Never ends its first read, so that only the writer can end.
struct Closed;

impl Write for Closed {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn eval_8_a_closed_output_ends_quietly() {
    let input = Cursor::new(b"{}\n".repeat(100)).chain(io::empty());
    answer_all(lines(io::BufReader::new(input), 100), &mut Closed, options(2)).unwrap();
}

#[test]
fn eval_2_what_runs_too_long_is_abandoned() {
    let slow = json!({"id": "slow", "op": "go.yaml_to_json", "input": {"text": "- 1\n".repeat(300_000)}});
    let quick = json!({"id": "quick", "op": "repos.secret_name", "input": {"url": "a"}});
    let requests = [slow, quick].map(|request| Ok(Request::Parsed(request)));
    let mut output = Vec::new();
    let options = StreamOptions { timeout: Duration::from_millis(5), ..options(1) };
    let outcome = answer_all(requests.into_iter(), &mut output, options).unwrap();
    assert!(outcome.any_error);
    let text = String::from_utf8(output).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with(r#"{"id":"slow","error":{"code":"Timeout""#), "{}", lines[0]);
    assert!(lines[1].starts_with(r#"{"id":"quick","#), "{}", lines[1]);
}
