//! The event stream of libyaml, as safe Rust; the one place of the workspace with `unsafe`.
//!
//! [`Events`] owns one parser and at most one event. What [`Events::next`] hands out borrows the parser
//! mutably, so an event cannot outlive the call that replaces it. The text is borrowed for as long as the
//! parser lives, which is what libyaml demands of its input.
#![expect(unsafe_code, reason = "libyaml has a C interface; everything else uses this module instead")]

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use unsafe_libyaml as unsafe_sys;

/// What the parser met next. Text belongs to the event and lives until the next one is asked for.
#[derive(Debug)]
pub(super) enum Event<'e> {
    /// The stream begins.
    StreamStart,
    /// The stream is over; nothing follows.
    StreamEnd,
    /// A document begins; the version of its `%YAML` directive, if any.
    DocumentStart { version: Option<(i32, i32)> },
    /// A document is over.
    DocumentEnd,
    /// A list begins; the bytes before it.
    SequenceStart { anchor: Option<&'e str>, at: u64 },
    /// A list is over.
    SequenceEnd,
    /// A mapping begins; the bytes before it.
    MappingStart { anchor: Option<&'e str>, at: u64 },
    /// A mapping is over.
    MappingEnd,
    /// `*name`.
    Alias { name: &'e str },
    /// Text.
    Scalar(ScalarEvent<'e>),
}

/// Text with what decides its type.
#[derive(Debug)]
pub(super) struct ScalarEvent<'e> {
    pub(super) anchor: Option<&'e str>,
    /// The full tag; none for `!` alone.
    pub(super) tag: Option<&'e str>,
    pub(super) value: &'e str,
    /// Whether the value may be anything but text: neither quoted nor a block nor marked with `!`.
    pub(super) plain: bool,
    /// Whether it was written in double quotes.
    pub(super) double_quoted: bool,
    /// Bytes of the text before the scalar and before its end.
    pub(super) span: (u64, u64),
}

/// The text is not YAML.
#[derive(Debug)]
pub(super) struct Problem {
    /// Counted from 1.
    pub(super) line: u64,
    /// Bytes before the place where the parser gave up.
    pub(super) at: u64,
    pub(super) text: String,
}

/// Where a parser reads from, and how much it may read until the next event.
struct Source<'t> {
    reader: Box<dyn std::io::Read + 't>,
    between_max: usize,
    between: usize,
    failure: Option<String>,
}

/// The parser.
pub(super) struct Events<'t> {
    /// Boxed because libyaml keeps a pointer to the parser inside it.
    parser: Box<MaybeUninit<unsafe_sys::yaml_parser_t>>,
    /// Boxed because libyaml keeps a pointer to it. Used through that pointer alone while the parser works.
    source: Option<Box<Source<'t>>>,
    event: Option<unsafe_sys::yaml_event_t>,
    /// What closes each open flow collection, the innermost last.
    flow: Vec<char>,
    text: PhantomData<&'t str>,
}

impl<'t> Events<'t> {
    /// Starts to read a text.
    pub(super) fn new(text: &'t str) -> Result<Self, Problem> {
        let mut parser = Box::new(MaybeUninit::<unsafe_sys::yaml_parser_t>::uninit());
        // SAFETY: the pointer is valid for writes of a whole parser, which is what initialising needs; on
        // failure libyaml has freed what it took and the memory is not used again.
        let made = unsafe { unsafe_sys::yaml_parser_initialize(parser.as_mut_ptr()) };
        if made.fail {
            return Err(Problem { line: 0, at: 0, text: "out of memory".to_owned() });
        }
        // SAFETY: the parser is initialised, no input was set before, and the text outlives the parser
        // because `Self` borrows it for 't.
        unsafe {
            unsafe_sys::yaml_parser_set_encoding(parser.as_mut_ptr(), unsafe_sys::YAML_UTF8_ENCODING);
            unsafe_sys::yaml_parser_set_input_string(parser.as_mut_ptr(), text.as_ptr(), text.len() as u64);
        }
        Ok(Self { parser, source: None, event: None, flow: Vec::new(), text: PhantomData })
    }

    /// Starts to read a text that comes piece by piece; `between_max` bounds the bytes between two events, and so what
    /// is held in memory.
    pub(super) fn from_reader(
        reader: Box<dyn std::io::Read + 't>,
        between_max: usize,
    ) -> Result<Self, Problem> {
        let mut events = Self::new("")?;
        let mut source = Box::new(Source { reader, between_max, between: 0, failure: None });
        let pointer: *mut Source<'_> = &raw mut *source;
        // SAFETY: a parser whose input was set cannot be given another one, so it is made anew; the old one is deleted
        // once, and the memory is initialised again before anything else uses it.
        let made = unsafe {
            unsafe_sys::yaml_parser_delete(events.parser.as_mut_ptr());
            unsafe_sys::yaml_parser_initialize(events.parser.as_mut_ptr())
        };
        if made.fail {
            return Err(Problem { line: 0, at: 0, text: "out of memory".to_owned() });
        }
        // SAFETY: the parser is initialised and has no input. The source is boxed, lives as long as `Self` and is
        // touched by nobody but the handler while the parser works.
        unsafe {
            unsafe_sys::yaml_parser_set_encoding(events.parser.as_mut_ptr(), unsafe_sys::YAML_UTF8_ENCODING);
            unsafe_sys::yaml_parser_set_input(events.parser.as_mut_ptr(), read_more, pointer.cast());
        }
        events.source = Some(source);
        Ok(events)
    }

    /// Goes on to the next event.
    pub(super) fn next(&mut self) -> Result<Event<'_>, Problem> {
        self.drop_event();
        if let Some(source) = &mut self.source {
            source.between = 0;
        }
        let mut event = MaybeUninit::<unsafe_sys::yaml_event_t>::uninit();
        // SAFETY: the parser is initialised and has its input; the event pointer is valid for writes, and
        // libyaml zeroes the event before anything else, so it is initialised on every path.
        let (parsed, event) = unsafe {
            let parsed = unsafe_sys::yaml_parser_parse(self.parser.as_mut_ptr(), event.as_mut_ptr());
            (parsed, event.assume_init())
        };
        if parsed.fail {
            return Err(self.problem());
        }
        follow_flow(&mut self.flow, &event);
        let line = event.start_mark.line + 1;
        let read = borrowed(self.event.insert(event))?;
        match (&read, self.flow.last()) {
            // A question mark in the middle ends the scalar for Go's parsers, and nothing that may follow one
            // begins with it; libyaml takes it for a part of the scalar.
            (Event::Scalar(scalar), Some(end))
                if scalar.plain && scalar.value.rfind('?').is_some_and(|at| at > 0) =>
            {
                let text = format!("did not find expected ',' or '{end}'");
                Err(Problem { line, at: scalar.span.0, text })
            }
            _ => Ok(read),
        }
    }

    /// The text of the present event, if it is one.
    pub(super) fn again(&self) -> Option<Result<&str, Problem>> {
        match borrowed(self.event.as_ref()?) {
            Ok(Event::Scalar(scalar)) => Some(Ok(scalar.value)),
            Ok(_) => None,
            Err(problem) => Some(Err(problem)),
        }
    }

    fn drop_event(&mut self) {
        if let Some(mut event) = self.event.take() {
            // SAFETY: the event was filled by the parser, is deleted once (it was taken out of the option),
            // and nothing borrows from it because `&mut self` is held.
            unsafe { unsafe_sys::yaml_event_delete(&raw mut event) };
        }
    }

    fn problem(&self) -> Problem {
        if let Some(text) = self.source.as_ref().and_then(|source| source.failure.clone()) {
            return Problem { line: 0, at: 0, text };
        }
        // SAFETY: the parser is initialised; `new` is the only maker of `Self`.
        let parser = unsafe { self.parser.assume_init_ref() };
        // SAFETY: libyaml's messages are static NUL-terminated ASCII texts; null means none.
        let text = unsafe { c_text(parser.problem.cast()) };
        let text = text.ok().flatten().unwrap_or("not readable").to_owned();
        Problem { line: parser.problem_mark.line + 1, at: parser.problem_mark.index, text }
    }
}

impl Drop for Events<'_> {
    fn drop(&mut self) {
        self.drop_event();
        // SAFETY: the parser is initialised and not used after this.
        unsafe { unsafe_sys::yaml_parser_delete(self.parser.as_mut_ptr()) };
    }
}

/// Reads an event in place.
fn borrowed(event: &unsafe_sys::yaml_event_t) -> Result<Event<'_>, Problem> {
    let data = &event.data;
    let (at, line) = (event.start_mark.index, event.start_mark.line + 1);
    let not_text = |_error| Problem { line, at: 0, text: "invalid UTF-8".to_owned() };
    // SAFETY: each member of the union is read only under the type that says it is the one in use, and its
    // pointers are null or point to memory the event owns: NUL-terminated names, a scalar of `length` bytes,
    // a version directive. All of it lives as long as `event` is borrowed.
    let read = unsafe {
        match event.type_ {
            unsafe_sys::YAML_STREAM_START_EVENT => Event::StreamStart,
            unsafe_sys::YAML_DOCUMENT_START_EVENT => {
                let version = data.document_start.version_directive.as_ref();
                Event::DocumentStart { version: version.map(|version| (version.major, version.minor)) }
            }
            unsafe_sys::YAML_DOCUMENT_END_EVENT => Event::DocumentEnd,
            unsafe_sys::YAML_SEQUENCE_START_EVENT => {
                Event::SequenceStart { anchor: c_text(data.sequence_start.anchor).map_err(not_text)?, at }
            }
            unsafe_sys::YAML_SEQUENCE_END_EVENT => Event::SequenceEnd,
            unsafe_sys::YAML_MAPPING_START_EVENT => {
                Event::MappingStart { anchor: c_text(data.mapping_start.anchor).map_err(not_text)?, at }
            }
            unsafe_sys::YAML_MAPPING_END_EVENT => Event::MappingEnd,
            unsafe_sys::YAML_ALIAS_EVENT => {
                Event::Alias { name: c_text(data.alias.anchor).map_err(not_text)?.unwrap_or_default() }
            }
            unsafe_sys::YAML_SCALAR_EVENT => {
                let scalar = &data.scalar;
                let length = usize::try_from(scalar.length).unwrap_or(0);
                let value = std::slice::from_raw_parts(scalar.value.cast_const(), length);
                Event::Scalar(ScalarEvent {
                    anchor: c_text(scalar.anchor).map_err(not_text)?,
                    tag: c_text(scalar.tag).map_err(not_text)?,
                    value: std::str::from_utf8(value).map_err(not_text)?,
                    plain: scalar.plain_implicit,
                    double_quoted: scalar.style == unsafe_sys::YAML_DOUBLE_QUOTED_SCALAR_STYLE,
                    span: (event.start_mark.index, event.end_mark.index),
                })
            }
            _ => Event::StreamEnd,
        }
    };
    Ok(read)
}

/// Fills libyaml's buffer.
///
/// # Safety
/// `data` points to the [`Source`] of the parser that calls, and `buffer` to `size` bytes that may be written.
unsafe fn read_more(
    data: *mut std::ffi::c_void,
    buffer: *mut std::ffi::c_uchar,
    size: u64,
    size_read: *mut u64,
) -> std::ffi::c_int {
    // SAFETY: the caller's promise; nobody else uses the source while the parser works. Its lifetime is that of the
    // reader it holds, which outlives the parser.
    let source = unsafe { &mut *data.cast::<Source<'_>>() };
    let wanted = usize::try_from(size).unwrap_or(0);
    // SAFETY: libyaml's buffer has been written before (it is allocated with zeroes or holds earlier bytes), and the
    // caller promises its size.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, wanted) };
    if source.between > source.between_max {
        source.failure = Some(format!("more than {} bytes in one piece", source.between_max));
        return 0;
    }
    match source.reader.read(buffer) {
        Ok(read) => {
            source.between = source.between.saturating_add(read);
            // SAFETY: libyaml passes a pointer to one integer of its own.
            unsafe { *size_read = read as u64 };
            1
        }
        Err(error) => {
            source.failure = Some(error.to_string());
            0
        }
    }
}

/// Keeps track of open flow collections. Only they are inside of one another; a block ends when none is open.
fn follow_flow(open: &mut Vec<char>, event: &unsafe_sys::yaml_event_t) {
    let data = &event.data;
    // SAFETY: each member of the union is read only under the type that says it is the one in use.
    let is_flow = unsafe {
        match event.type_ {
            unsafe_sys::YAML_SEQUENCE_START_EVENT => {
                data.sequence_start.style == unsafe_sys::YAML_FLOW_SEQUENCE_STYLE
            }
            unsafe_sys::YAML_MAPPING_START_EVENT => {
                data.mapping_start.style == unsafe_sys::YAML_FLOW_MAPPING_STYLE
            }
            _ => false,
        }
    };
    match event.type_ {
        unsafe_sys::YAML_SEQUENCE_START_EVENT if is_flow => open.push(']'),
        unsafe_sys::YAML_MAPPING_START_EVENT if is_flow => open.push('}'),
        unsafe_sys::YAML_SEQUENCE_END_EVENT | unsafe_sys::YAML_MAPPING_END_EVENT => {
            open.pop();
        }
        _ => {}
    }
}

/// Reads a C string; null is none.
///
/// # Safety
/// The pointer is null or points to NUL-terminated memory that lives for `'e` and does not change.
unsafe fn c_text<'e>(pointer: *const u8) -> Result<Option<&'e str>, std::str::Utf8Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and the rest is the caller's promise.
    let bytes = unsafe { std::ffi::CStr::from_ptr(pointer.cast()) };
    bytes.to_str().map(Some)
}
