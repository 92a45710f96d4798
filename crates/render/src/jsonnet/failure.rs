//! What failures of programs are in words.

use std::collections::HashMap;
use std::fmt::Write as _;

use rsjsonnet_lang::lexer::LexError;
use rsjsonnet_lang::parser::ParseError;
use rsjsonnet_lang::program::{
    AnalyzeError, EvalError, EvalErrorKind as Kind, EvalErrorValueType as Type, EvalStackTraceItem, LoadError,
};
use rsjsonnet_lang::span::{SourceId, SpanContext, SpanId, SpanManager};

use super::Source;

/// Places that a message shows.
const PLACES_MAX: usize = 10;
/// Bytes of what a program says of itself.
const MESSAGE_BYTES_MAX: usize = 4096;

/// `TAB file:line:column` on a line of its own.
pub(super) fn place(span: SpanId, spans: &SpanManager, sources: &HashMap<SourceId, Source>) -> String {
    position(span, spans, sources).map(|position| format!("\n\t{position}")).unwrap_or_default()
}

fn position(span: SpanId, spans: &SpanManager, sources: &HashMap<SourceId, Source>) -> Option<String> {
    let (context, start, _) = spans.get_span(span);
    let SpanContext::Source(source) = *spans.get_context(context);
    // The standard library has no place that would say anything.
    let Source { file, text } = sources.get(&source)?;
    let before = text.get(..start.saturating_sub(super::library::PREFIX.len()))?;
    let line = before.split(|byte| *byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    Some(format!("{file}:{line}:{column}"))
}

/// Why a text cannot be loaded.
pub(super) fn of_loading(
    error: &LoadError,
    spans: &SpanManager,
    sources: &HashMap<SourceId, Source>,
) -> String {
    let (span, text) = match error {
        LoadError::Lex(error) => lexical(error),
        LoadError::Parse(ParseError::Expected { span, instead, .. }) => {
            (*span, format!("Unexpected: {instead:?}"))
        }
        LoadError::Analyze(error) => analysis(error),
    };
    match position(span, spans, sources) {
        Some(position) => format!("{position} {text}"),
        None => text,
    }
}

fn lexical(error: &LexError) -> (SpanId, String) {
    let (span, text) = match error {
        LexError::InvalidChar { span, chr } => (span, format!("Could not lex the character {chr:?}")),
        LexError::InvalidUtf8 { span, .. } => (span, "The text is not UTF-8".to_owned()),
        LexError::UnfinishedMultilineComment { span } => {
            (span, "Multi-line comment has no terminator".to_owned())
        }
        LexError::LeadingZeroInNumber { span } => {
            (span, "A number begins with a superfluous zero".to_owned())
        }
        LexError::MissingFracDigits { span } => {
            (span, "Couldn't lex number, junk after decimal point".to_owned())
        }
        LexError::MissingExpDigits { span } => (span, "Couldn't lex number, junk after 'E'".to_owned()),
        LexError::MissingDigitAfterUnderscore { span } => {
            (span, "Couldn't lex number, junk after '_'".to_owned())
        }
        LexError::ExpOverflow { span } => (span, "The exponent of a number is too large".to_owned()),
        LexError::InvalidEscapeInString { span, chr } => {
            (span, format!("Unknown escape sequence in string literal: '{chr}'"))
        }
        LexError::IncompleteUnicodeEscape { span } => {
            (span, "Truncated unicode escape sequence in string literal".to_owned())
        }
        LexError::InvalidUtf16EscapeSequence { span, .. } => {
            (span, "Invalid unicode escape sequence in string literal".to_owned())
        }
        LexError::UnfinishedString { span } => (span, "Unterminated String".to_owned()),
        LexError::MissingLineBreakAfterTextBlockStart { span } => {
            (span, "Text block requires new line after |||".to_owned())
        }
        LexError::MissingWhitespaceTextBlockStart { span } => {
            (span, "Text block's first line must start with whitespace".to_owned())
        }
        LexError::InvalidTextBlockTermination { span } => {
            (span, "Text block not terminated with |||".to_owned())
        }
    };
    (*span, text)
}

fn analysis(error: &AnalyzeError) -> (SpanId, String) {
    let (span, text) = match error {
        AnalyzeError::UnknownVariable { span, name } => (span, format!("Unknown variable: {name}")),
        AnalyzeError::SelfOutsideObject { self_span } => {
            (self_span, "Can't use self outside of an object.".to_owned())
        }
        AnalyzeError::SuperOutsideObject { super_span } => {
            (super_span, "Can't use super outside of an object.".to_owned())
        }
        AnalyzeError::DollarOutsideObject { dollar_span } => {
            (dollar_span, "No top-level object found.".to_owned())
        }
        AnalyzeError::RepeatedLocalName { repeated_span, name, .. } => {
            (repeated_span, format!("Duplicate local var: {name}"))
        }
        AnalyzeError::RepeatedFieldName { repeated_span, name, .. } => {
            (repeated_span, format!("Duplicate field: {name}"))
        }
        AnalyzeError::RepeatedParamName { repeated_span, name, .. } => {
            (repeated_span, format!("Duplicate function parameter: {name}"))
        }
        AnalyzeError::PositionalArgAfterNamed { arg_span } => {
            (arg_span, "Positional argument after a named argument is not allowed".to_owned())
        }
        AnalyzeError::TextBlockAsImportPath { span } => {
            (span, "Block string literals not allowed in imports".to_owned())
        }
        AnalyzeError::ComputedImportPath { span } => (span, "Computed imports are not allowed".to_owned()),
    };
    (*span, text)
}

/// Why an evaluation ended without a result.
pub(super) fn of_evaluation(
    error: &EvalError,
    spans: &SpanManager,
    sources: &HashMap<SourceId, Source>,
) -> String {
    let (span, what) = message(&error.kind);
    let mut text = format!("RUNTIME ERROR: {what}");
    let trace = error.stack_trace.iter().rev().filter_map(|item| match item {
        EvalStackTraceItem::Expr { span }
        | EvalStackTraceItem::Variable { span, .. }
        | EvalStackTraceItem::Import { span } => Some(*span),
        EvalStackTraceItem::Call { span, .. }
        | EvalStackTraceItem::ArrayItem { span, .. }
        | EvalStackTraceItem::ObjectField { span, .. } => *span,
        EvalStackTraceItem::CompareArrayItem { .. }
        | EvalStackTraceItem::CompareObjectField { .. }
        | EvalStackTraceItem::ManifestArrayItem { .. }
        | EvalStackTraceItem::ManifestObjectField { .. } => None,
    });
    let places = span.into_iter().chain(trace).filter_map(|span| position(span, spans, sources));
    let mut shown = String::new();
    for place in places.take(PLACES_MAX) {
        if shown != place {
            // Writing to a text cannot fail.
            let _ = write!(text, "\n\t{place}");
        }
        shown = place;
    }
    text
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn name(kind: Type) -> &'static str {
    match kind {
        Type::Null => "null",
        Type::Bool => "boolean",
        Type::Number => "number",
        Type::String => "string",
        Type::Array => "array",
        Type::Object => "object",
        Type::Function => "function",
    }
}

fn unexpected(got: Type, expected: &str) -> String {
    format!("Unexpected type {}, expected {expected}", name(got))
}

fn message(kind: &Kind) -> (Option<SpanId>, String) {
    let at = |span: &SpanId, text: String| (Some(*span), text);
    match kind {
        Kind::StackOverflow => (None, "max stack frames exceeded.".to_owned()),
        Kind::InfiniteRecursion => (None, "infinite recursion".to_owned()),
        Kind::InvalidIndexedType { span, got_type } => {
            at(span, format!("Value non indexable: {}", name(*got_type)))
        }
        Kind::InvalidSlicedType { span, got_type } => {
            at(span, format!("std.slice accepts a string or an array, but got: {}", name(*got_type)))
        }
        Kind::SliceIndexOrStepIsNotNumber { span, got_type }
        | Kind::StringIndexIsNotNumber { span, got_type }
        | Kind::ArrayIndexIsNotNumber { span, got_type } => at(span, unexpected(*got_type, "number")),
        Kind::NumericIndexIsNotValid { span, index } => at(span, format!("Index {index} is not valid")),
        Kind::NumericIndexOutOfRange { span, index, length } => {
            at(span, format!("Index {index} out of bounds, not within [0, {length})"))
        }
        Kind::ObjectIndexIsNotString { span, got_type } | Kind::FieldNameIsNotString { span, got_type } => {
            at(span, unexpected(*got_type, "string"))
        }
        Kind::RepeatedFieldName { span, name } => at(span, format!("Duplicate field name: {:?}", cut(name))),
        Kind::UnknownObjectField { span, field_name } => {
            at(span, format!("Field does not exist: {}", cut(field_name)))
        }
        Kind::FieldOfNonObject { span } => at(span, "Unexpected type, expected object".to_owned()),
        Kind::SuperWithoutSuperObject { span } => {
            at(span, "Attempt to use super when there is no super class.".to_owned())
        }
        Kind::ForSpecValueIsNotArray { span, got_type } => at(span, unexpected(*got_type, "array")),
        Kind::CondIsNotBool { span, got_type } => at(span, unexpected(*got_type, "boolean")),
        Kind::CalleeIsNotFunction { span, got_type } => (*span, unexpected(*got_type, "function")),
        Kind::TooManyCallArgs { span, num_params } => {
            (*span, format!("Too many arguments, there should be at most {num_params}"))
        }
        Kind::UnknownCallParam { span, param_name } => {
            (*span, format!("function has no parameter {}", cut(param_name)))
        }
        Kind::RepeatedCallParam { span, param_name } => {
            (*span, format!("Argument {} already provided", cut(param_name)))
        }
        Kind::CallParamNotBound { span, param_name } => {
            (*span, format!("Missing argument: {}", cut(param_name)))
        }
        Kind::NativeCallFailed => (None, "a native function failed".to_owned()),
        Kind::InvalidUnaryOpType { span, op, rhs_type } => {
            at(span, format!("Unexpected type {} for the operator {op:?}", name(*rhs_type)))
        }
        Kind::InvalidBinaryOpTypes { span, op, lhs_type, rhs_type } => (
            *span,
            format!("Unexpected types {} and {} for the operator {op:?}", name(*lhs_type), name(*rhs_type)),
        ),
        Kind::NumberNotBitwiseSafe { span } => {
            (*span, "numeric value outside safe integer range for bitwise operation.".to_owned())
        }
        Kind::NumberOverflow { span } => (*span, "Overflow".to_owned()),
        Kind::NumberNan { span } => (*span, "Not a number".to_owned()),
        Kind::DivByZero { span } => (*span, "Division by zero.".to_owned()),
        Kind::ShiftByNegative { span } => (*span, "Shift by negative exponent.".to_owned()),
        Kind::InvalidStdFuncArgType { func_name, arg_index, expected_types, got_type } => {
            let expected: Vec<&str> = expected_types.iter().map(|kind| name(*kind)).collect();
            let expected = expected.join(" or ");
            (
                None,
                format!("std.{func_name}, argument {}: {}", arg_index + 1, unexpected(*got_type, &expected)),
            )
        }
        Kind::AssertFailed { span, message } => {
            at(span, message.as_deref().map_or("Object assertion failed.", cut).to_owned())
        }
        Kind::AssertEqualFailed { lhs, rhs } => {
            (None, format!("Assertion failed. {} != {}", cut(lhs), cut(rhs)))
        }
        Kind::ExplicitError { span, message } => at(span, cut(message).to_owned()),
        // Whoever imports has told why before.
        Kind::ImportFailed { span, path } => at(span, format!("couldn't open import {:?}", cut(path))),
        Kind::UnknownExtVar { name } => (None, format!("Undefined external variable: {}", cut(name))),
        Kind::ManifestFunction => (None, "couldn't manifest function as JSON".to_owned()),
        Kind::CompareNullInequality
        | Kind::CompareBooleanInequality
        | Kind::CompareObjectInequality
        | Kind::CompareFunctions => (None, "values of this type cannot be compared".to_owned()),
        Kind::CompareDifferentTypesInequality { lhs_type, rhs_type } => {
            (None, unexpected(*rhs_type, name(*lhs_type)))
        }
        Kind::PrimitiveEqualsNonPrimitive { got_type } => {
            (None, format!("primitiveEquals operates on primitive types, got {}", name(*got_type)))
        }
        Kind::Other { span, message } => (*span, cut(message).to_owned()),
    }
}
