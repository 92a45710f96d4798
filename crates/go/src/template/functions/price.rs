//! What functions cost, in steps of some forty nanoseconds.
//!
//! Every function of a set has its row here (a test looks). A row says what a call costs whatever it is given, what each
//! KiB of the texts among its arguments costs, and each KiB of the text that it answers: the rates of the second and third
//! column are nanoseconds for a byte times 25, which were measured with `crates/helm/examples/prices.rs` on an AMD EPYC,
//! for short arguments and for long ones of several shapes, and rounded up. Work that follows from neither (items, matches,
//! nodes that are compared, expressions that are compiled, keys) is charged by the function itself while it is done; those
//! rows say `itself`.

/// What a call costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Steps of each call, beside those of the instructions that make it.
    pub call: u32,
    /// Steps for each KiB of texts among the arguments.
    pub given: u32,
    /// Steps for each KiB of the text that is the result.
    pub made: u32,
}

impl Price {
    /// Looks at its arguments, and copies them at most: a quarter of a nanosecond for a byte.
    pub const PLAIN: Self = Self { call: 0, given: 8, made: 8 };

    /// Steps to pay before a call with texts of so many bytes.
    pub(crate) fn before(self, bytes: usize) -> usize {
        (self.call as usize).saturating_add(per_kib(self.given, bytes))
    }

    /// Steps to pay for a text of so many bytes.
    pub(crate) fn after(self, bytes: usize) -> usize {
        per_kib(self.made, bytes)
    }
}

fn per_kib(steps: u32, bytes: usize) -> usize {
    bytes.saturating_mul(steps as usize) / 1_024
}

/// The row of a function; methods and functions of others have none, and are [`Price::PLAIN`] unless they say.
pub(crate) const fn of(name: &str) -> Option<Price> {
    let mut rows = ROWS;
    while let [(row, call, given, made), rest @ ..] = rows {
        if is_same(row.as_bytes(), name.as_bytes()) {
            return Some(Price { call: *call, given: *given, made: *made });
        }
        rows = rest;
    }
    None
}

/// Whether two names are equal; `==` does not run where tables are made.
const fn is_same(mut one: &[u8], mut other: &[u8]) -> bool {
    while let ([first, rest @ ..], [others, behind @ ..]) = (one, other) {
        if *first != *others {
            return false;
        }
        (one, other) = (rest, behind);
    }
    one.is_empty() && other.is_empty()
}

/// All names that have a row.
#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|(name, ..)| *name)
}

/// Name, steps of a call, of a KiB of arguments, of a KiB of the result.
const ROWS: &[(&str, u32, u32, u32)] = &[
    // What is in text/template. Printing walks over values: 13 ns for a byte, and 90 ns for each value of two bytes.
    ("and", 0, 0, 0),
    ("call", 0, 8, 8),
    ("eq", 0, 16, 0),
    ("ge", 0, 8, 0),
    ("gt", 0, 8, 0),
    ("html", 1, 48, 360),
    ("index", 0, 64, 0),
    ("js", 1, 400, 360),
    ("le", 0, 8, 0),
    ("len", 0, 0, 0),
    ("lt", 0, 8, 0),
    ("ne", 0, 8, 0),
    ("not", 0, 0, 0),
    ("or", 0, 0, 0),
    ("print", 4, 16, 360),
    ("printf", 4, 64, 360),
    ("println", 4, 16, 360),
    ("urlquery", 1, 450, 360),
    // Texts. Most look at each character: 1 to 40 ns for a byte.
    ("abbrev", 1, 8, 8),
    ("abbrevboth", 1, 8, 8),
    ("camelcase", 2, 200, 8),
    ("cat", 4, 16, 360),
    ("contains", 0, 32, 0),
    ("hasPrefix", 0, 8, 0),
    ("hasSuffix", 0, 8, 0),
    ("hello", 0, 0, 0),
    ("indent", 1, 32, 8),
    ("initials", 1, 40, 8),
    ("join", 2, 16, 400), // itself: items
    ("kebabcase", 2, 1_100, 8),
    ("lower", 1, 100, 8),
    ("nindent", 1, 32, 8),
    ("nospace", 1, 48, 8),
    ("plural", 0, 0, 0),
    ("quote", 2, 100, 400),
    ("randAlpha", 0, 0, 0), // itself: characters
    ("randAlphaNum", 0, 0, 0),
    ("randAscii", 0, 0, 0),
    ("randBytes", 20, 0, 80),
    ("randInt", 10, 0, 0),
    ("randNumeric", 0, 0, 0),
    ("regexQuoteMeta", 1, 48, 8),
    ("repeat", 0, 8, 8),
    ("replace", 1, 80, 16),
    ("shuffle", 0, 100, 8), // itself: characters
    ("snakecase", 2, 1_100, 8),
    ("sortAlpha", 2, 8, 0), // itself: items
    ("split", 2, 40, 0),    // itself: items
    ("splitList", 1, 40, 0),
    ("splitn", 2, 40, 0),
    ("squote", 2, 16, 400),
    ("substr", 0, 8, 8),
    ("swapcase", 1, 420, 8),
    ("title", 1, 120, 8),
    ("toString", 3, 8, 400),
    ("toStrings", 2, 8, 0), // itself: items
    ("trim", 1, 48, 8),
    ("trimAll", 1, 80, 8), // itself: characters times set
    ("trimPrefix", 0, 8, 8),
    ("trimSuffix", 0, 8, 8),
    ("trimall", 1, 80, 8),
    ("trunc", 0, 8, 8),
    ("untitle", 1, 100, 8),
    ("upper", 1, 100, 8),
    ("wrap", 1, 32, 8),
    ("wrapWith", 1, 32, 8),
    // Regular expressions charge what they compile, and each match, themselves.
    ("mustRegexFind", 2, 8, 8),
    ("mustRegexFindAll", 2, 8, 0),
    ("mustRegexMatch", 2, 8, 0),
    ("mustRegexReplaceAll", 4, 32, 32),
    ("mustRegexReplaceAllLiteral", 4, 32, 32),
    ("mustRegexSplit", 2, 8, 0),
    ("regexFind", 2, 8, 8),
    ("regexFindAll", 2, 8, 0),
    ("regexMatch", 2, 8, 0),
    ("regexReplaceAll", 4, 32, 32),
    ("regexReplaceAllLiteral", 4, 32, 32),
    ("regexSplit", 2, 8, 0),
    // Lists and maps charge their items themselves: one step each, three where each is stored in a map.
    ("append", 1, 0, 0),
    ("chunk", 1, 0, 0),
    ("compact", 1, 0, 0),
    ("concat", 1, 0, 0),
    ("first", 0, 0, 0),
    ("has", 0, 8, 0),
    ("initial", 1, 0, 0),
    ("last", 0, 0, 0),
    ("list", 1, 0, 0),
    ("mustAppend", 1, 0, 0),
    ("mustChunk", 1, 0, 0),
    ("mustCompact", 1, 0, 0),
    ("mustFirst", 0, 0, 0),
    ("mustHas", 0, 8, 0),
    ("mustInitial", 1, 0, 0),
    ("mustLast", 0, 0, 0),
    ("mustPrepend", 1, 0, 0),
    ("mustPush", 1, 0, 0),
    ("mustRest", 1, 0, 0),
    ("mustReverse", 1, 0, 0),
    ("mustSlice", 1, 0, 0),
    ("mustUniq", 1, 0, 0),
    ("mustWithout", 1, 8, 0),
    ("prepend", 1, 0, 0),
    ("push", 1, 0, 0),
    ("rest", 1, 0, 0),
    ("reverse", 1, 0, 0),
    ("slice", 1, 8, 8),
    ("tuple", 1, 0, 0),
    ("uniq", 1, 0, 0),
    ("without", 1, 8, 0),
    ("deepCopy", 1, 0, 0),
    ("deepEqual", 0, 8, 0),
    ("dict", 2, 64, 0),
    ("dig", 1, 64, 0),
    ("get", 0, 64, 0),
    ("hasKey", 0, 64, 0),
    ("keys", 1, 0, 0),
    ("merge", 2, 0, 0),
    ("mergeOverwrite", 2, 0, 0),
    ("mustDeepCopy", 1, 0, 0),
    ("mustMerge", 2, 0, 0),
    ("mustMergeOverwrite", 2, 0, 0),
    ("omit", 2, 64, 0),
    ("pick", 1, 64, 0),
    ("pluck", 1, 64, 0),
    ("set", 1, 64, 0),
    ("unset", 1, 64, 0),
    ("values", 1, 0, 0),
    // Formats. Reading is charged by bytes, and by the memory that the tree takes; writing by the bytes that come out of it.
    ("fromJson", 4, 1_000, 0),
    ("fromJsonArray", 4, 1_000, 0),
    ("fromToml", 4, 1_200, 0), // itself: names
    ("fromYaml", 30, 2_800, 0),
    ("fromYamlArray", 30, 2_800, 0),
    ("mustFromJson", 4, 1_000, 0),
    ("mustToJson", 4, 8, 250),
    ("mustToPrettyJson", 4, 8, 250),
    ("mustToRawJson", 4, 8, 250),
    ("mustToToml", 8, 8, 600),
    ("mustToYaml", 12, 8, 950),
    ("toJson", 4, 8, 250),
    ("toPrettyJson", 4, 8, 250),
    ("toRawJson", 4, 8, 250),
    ("toToml", 8, 8, 600),
    ("toYaml", 12, 8, 950),
    ("toYamlPretty", 12, 8, 950),
    // Encodings.
    ("b32dec", 1, 120, 8),
    ("b32enc", 1, 60, 8),
    ("b64dec", 1, 90, 8),
    ("b64enc", 1, 24, 8),
    // Hashes. bcrypt takes 60 to 75 ms, scrypt 190 ms; keys are charged by those who make them.
    ("adler32sum", 1, 110, 8),
    ("bcrypt", 0, 8, 0),            // itself
    ("buildCustomCert", 10, 90, 0), // itself
    ("decryptAES", 4, 450, 8),
    ("derivePassword", 4_800_000, 8, 0),
    ("encryptAES", 8, 80, 8),
    ("genCA", 0, 8, 0), // itself
    ("genCAWithKey", 0, 8, 0),
    ("genPrivateKey", 0, 8, 0),
    ("genSelfSignedCert", 0, 8, 0),
    ("genSelfSignedCertWithKey", 0, 8, 0),
    ("genSignedCert", 0, 8, 0),
    ("genSignedCertWithKey", 0, 8, 0),
    ("htpasswd", 0, 8, 0), // itself
    ("sha1sum", 2, 24, 0),
    ("sha256sum", 2, 24, 0),
    ("sha512sum", 4, 48, 0),
    ("uuidv4", 10, 0, 0),
    // Numbers. Those with fractions are computed as decimals.
    ("add", 0, 8, 0),
    ("add1", 0, 8, 0),
    ("add1f", 12, 8, 0),
    ("addf", 12, 8, 0), // itself: digits
    ("atoi", 0, 8, 0),
    ("biggest", 0, 8, 0),
    ("ceil", 0, 8, 0),
    ("div", 0, 8, 0),
    ("divf", 12, 8, 0),
    ("float64", 0, 48, 0),
    ("floor", 0, 8, 0),
    ("int", 0, 48, 0),
    ("int64", 0, 48, 0),
    ("max", 0, 8, 0),
    ("maxf", 0, 8, 0),
    ("min", 0, 8, 0),
    ("minf", 0, 8, 0),
    ("mod", 0, 8, 0),
    ("mul", 0, 8, 0),
    ("mulf", 12, 8, 0),
    ("round", 2, 8, 0),
    ("seq", 1, 0, 100), // itself: items
    ("sub", 0, 8, 0),
    ("subf", 12, 8, 0),
    ("toDecimal", 2, 48, 0),
    ("until", 1, 0, 0), // itself: items
    ("untilStep", 1, 0, 0),
    // Times.
    ("ago", 4, 8, 0),
    ("date", 8, 180, 8),
    ("dateInZone", 12, 180, 8),
    ("dateModify", 6, 200, 0),
    ("date_in_zone", 12, 180, 8),
    ("date_modify", 6, 200, 0),
    ("duration", 4, 48, 0),
    ("durationDays", 4, 200, 0),
    ("durationHours", 4, 200, 0),
    ("durationMicroseconds", 4, 200, 0),
    ("durationMilliseconds", 4, 200, 0),
    ("durationMinutes", 4, 200, 0),
    ("durationNanoseconds", 4, 200, 0),
    ("durationRound", 4, 200, 0),
    ("durationRoundTo", 4, 200, 0),
    ("durationSeconds", 4, 200, 0),
    ("durationTruncateTo", 4, 200, 0),
    ("durationWeeks", 4, 200, 0),
    ("htmlDate", 8, 8, 8),
    ("htmlDateInZone", 12, 8, 8),
    ("mustDateModify", 6, 200, 0),
    ("mustToDate", 6, 300, 0),
    ("mustToDuration", 4, 200, 0),
    ("must_date_modify", 6, 200, 0),
    ("now", 4, 0, 0),
    ("toDate", 6, 300, 0),
    ("unixEpoch", 2, 0, 0),
    // Paths, addresses, versions.
    ("base", 1, 24, 8),
    ("clean", 1, 180, 8),
    ("dir", 1, 180, 8),
    ("ext", 1, 24, 8),
    ("isAbs", 0, 8, 0),
    ("osBase", 1, 24, 8),
    ("osClean", 1, 180, 8),
    ("osDir", 1, 180, 8),
    ("osExt", 1, 24, 8),
    ("osIsAbs", 0, 8, 0),
    ("semver", 6, 240, 0),
    ("semverCompare", 30, 600, 0),
    ("urlJoin", 10, 48, 460),
    ("urlParse", 20, 100, 0),
    // Other values. `include` and `tpl` execute templates, whose parts are steps; what `tpl` parses is charged there.
    ("all", 0, 0, 0),
    ("any", 0, 0, 0),
    ("coalesce", 0, 0, 0),
    ("default", 0, 0, 0),
    ("empty", 0, 0, 0),
    ("fail", 0, 8, 0),
    ("getHostByName", 0, 8, 0),
    ("include", 4, 8, 8),
    ("kindIs", 0, 8, 0),
    ("kindOf", 0, 0, 0),
    ("lookup", 20, 8, 0),
    ("required", 0, 8, 0),
    ("ternary", 0, 0, 0),
    ("tpl", 4, 8, 8),
    ("typeIs", 0, 8, 0),
    ("typeIsLike", 0, 8, 0),
    ("typeOf", 0, 0, 0),
    // Of application sets.
    ("normalize", 2, 400, 8),
    ("slugify", 4, 1_000, 8),
];
