"""Differences between the original templates and ours that stay, each with its reason.

A row is a name, the reason, and what both answers have to contain (regular expressions, in the original's and in ours).
`fuzz template` counts them by name. Nothing here is about what a template writes when both succeed, but for the first
two rows.
"""
import re

ROWS = [
    ("time-by-parts", "a `time.Time` under a verb that `String` is not asked for is printed by its unexported fields, one "
     "of them an address", r"time\.Location|\{[^}]+\}", r"\{\}"),
    ("parser-words", "`fromYaml`, `fromJson`, `fromToml` and their kin give their parser's words as a value; ours refuse "
     "the same texts with words of their own", r"error converting YAML to JSON|toml: |toml%3A|json: |invalid character|JSON input",
     r"error converting YAML to JSON|toml: |toml%3A|json: |invalid character|JSON input"),
    ("call", "`call` of something that is no function names the argument as it is written",
     r"error calling call: non-function ", r"error calling call: non-function of type "),
    ("duration-words", "three ways in which a duration is wrong are one",
     r"time: (invalid duration|unknown unit|missing unit)", r"time: invalid duration"),
    ("action-started", "the place where an unfinished action began is told after some mistakes and not after others",
     r"parse error|template: t:\d+:", r"in action started at|bad character|comment ends before"),
    ("version-length", "a version of more than 256 bytes is told to be no version", r"version string is too long",
     r"invalid semantic version"),
    ("regexp-part", "the part of an expression that is wrong is told, in rare forms a longer part of it",
     r"error parsing regexp: ", r"error parsing regexp: "),
    ("complex", "complex numbers, which no data has, are refused by the writers of YAML and TOML in other words",
     r"complex128", r""),
    ("toml-local", "dates and times of TOML without a zone are UTC, without the names by which the original writes them "
     "back without a zone", r"(date|time)-local|\d\d:\d\d:\d\d", r"0000 UTC|0000-01-01T|T00:00:00Z"),
    ("location", "times have no method `Location`", r"", r"can't evaluate field Location in type time\.Time"),
    ("capacity", "`slice` beyond the end of a list from JSON reaches into the room that Go's reader left behind it, and an error tells "
     "how large it is", r"", r"slice index out of bounds|out of range \[:16\] with capacity"),
    ("regexp-bytes", "that an expression holds bytes that are no UTF-8 is told before anything else that is wrong with it, and with U+FFFD",
     r"error parsing regexp: ", r"error parsing regexp: invalid UTF-8"),
    ("bytes-shown", "a version, a constraint or a layout of bytes that are no UTF-8 is read with U+FFFD, and told so in errors",
     r"\\x[89a-f][0-9a-f]", "\ufffd|" + r"\\xef\\xbf\\xbd"),
    ("limits", "what is too much is refused by our limits, in their words", r"", r"more than \d+|is too long"),
    ("address", "`%p` of a map or list has no right answer", r"[0-9a-f]{6,16}", r"c0{9,15}"),
    ("weekday", "`Weekday` and `Month` of a time are numbers without their own types", r"time\.(Weekday|Month|Duration)", r"int"),
    ("weekday-word", "a number that is no `Weekday` or `Month` is told without its type", r"%!(Weekday|Month)\(", r"\d"),
    ("constraint-shown", "of a constraint that is refused 200 characters are shown", r"improper constraint: .{200}",
     r"improper constraint: .{200}"),
    ("constraint-length", "4096 bytes of a constraint are read instead of 512, and any number of alternatives",
     r"constraint string is too long|too many constraint groups", r""),
    ("far-times", "times beyond the year 9999 are the last one", r"\d{5}-\d\d-\d\d|\d{5}", r"9999-12-3"),
    ("address-words", "what is wrong with an address of version 6 in the brackets of a URL is told in one way instead of a dozen",
     r"ParseAddr\(.*: (?!unable to parse IP)", r"ParseAddr\(.*unable to parse IP"),
    ("copied-version", "`deepCopy` of a version has its parts, in Go none", r"0\.0\.0", r"\d+\.\d+\.\d+"),
]
COMPILED = [(name, re.compile(theirs), re.compile(ours)) for name, _, theirs, ours in ROWS]


def text(answer):
    error = answer.get("error")
    if error is None:
        return str((answer.get("result") or {}).get("output", ""))
    return error.get("message", "") if isinstance(error, dict) else error


def name_of(theirs, ours):
    """The row that a difference belongs to, if any."""
    theirs, ours = text(theirs), text(ours)
    return next((name for name, in_theirs, in_ours in COMPILED if in_theirs.search(theirs) and in_ours.search(ours)), None)
