"""Templates to ask both sides about, with data: the language, its functions and verbs, put together by their types.

A wrong type is taken now and then, and the text of one template in ten is damaged, so that errors are asked as well.
"""
import random

# What a letter of the table stands for; see `Maker.atom`.
#   s text, i integer, w small whole number, f float, n number, b truth, l list, S list of texts, m map, a anything,
#   t time, d duration, v version, r expression, y YAML, j JSON, o TOML, L layout, k key, p path, u URL, T template,
#   D version object. A star: any number of these.
TABLE = """
abbrev w s > s;abbrevboth w w s > s;trunc i s > s;trim s > s;upper s > s;lower s > s;title s > s;untitle s > s
substr i i s > s;repeat w s > s;trimall s s > s;trimAll s s > s;trimSuffix s s > s;trimPrefix s s > s;nospace s > s
initials s > s;swapcase s > s;snakecase s > s;camelcase s > s;kebabcase s > s;wrap w s > s;wrapWith w s s > s
contains s s > b;hasPrefix s s > b;hasSuffix s s > b;quote a* > s;squote a* > s;cat a* > s;indent w s > s
nindent w s > s;replace s s s > s;plural s s i > s;sha1sum s > s;sha256sum s > s;sha512sum s > s;adler32sum s > s
toString a > s;atoi s > i;int64 a > i;int a > i;float64 a > f;seq w* > s;toDecimal a > i;split s s > m
splitList s s > S;splitn s w s > m;toStrings a > S;until w > l;untilStep w w w > l;add1 a > i;add n* > i;sub n n > i
div n n > i;mod n n > i;mul n n* > i;add1f n > f;addf n* > f;subf n n* > f;divf n n* > f;mulf n n* > f
biggest n n* > i;max n n* > i;min n n* > i;maxf n n* > f;minf n n* > f;ceil n > f;floor n > f;round n w > f
round n w f > f;join s l > s;sortAlpha l > S;default a a > a;empty a > b;coalesce a* > a;all a* > b;any a* > b
compact l > l;mustCompact l > l;fromJson j > a;toJson a > s;toPrettyJson a > s;toRawJson a > s;mustFromJson j > a
mustToJson a > s;mustToPrettyJson a > s;mustToRawJson a > s;ternary a a b > a;deepCopy a > a;mustDeepCopy a > a
typeOf a > s;typeIs s a > b;typeIsLike s a > b;kindOf a > s;kindIs s a > b;deepEqual a a > b;b64enc s > s
b64dec s > s;b32enc s > s;b32dec s > s;tuple a* > l;list a* > l;dict k a k a > m;dict a* > m;get m k > a;set m k a > m
unset m k > m;hasKey m k > b;pluck k m* > l;keys m* > S;pick m k* > m;omit m k* > m;merge m m* > m
mergeOverwrite m m* > m;mustMerge m m* > m;mustMergeOverwrite m m* > m;values m > l;append l a > l;push l a > l
mustAppend l a > l;mustPush l a > l;prepend l a > l;mustPrepend l a > l;first l > a;mustFirst l > a;rest l > l
mustRest l > l;last l > a;mustLast l > a;initial l > l;mustInitial l > l;reverse l > l;mustReverse l > l;uniq l > l
mustUniq l > l;without l a* > l;mustWithout l a* > l;has a l > b;mustHas a l > b;slice l w > l;slice l w w > l
mustSlice l w w > l;concat l* > l;dig k a m > a;dig k k a m > a;chunk w l > l;mustChunk w l > l;semver v > D
semverCompare r v > b;semverCompare v v > b;regexMatch r s > b;mustRegexMatch r s > b;regexFindAll r s i > S
mustRegexFindAll r s i > S;regexFind r s > s;mustRegexFind r s > s;regexReplaceAll r s s > s
mustRegexReplaceAll r s s > s;regexReplaceAllLiteral r s s > s;mustRegexReplaceAllLiteral r s s > s
regexSplit r s i > S;mustRegexSplit r s i > S;regexQuoteMeta s > s;urlParse u > m;urlJoin m > s;base p > s;dir p > s
clean p > s;ext p > s;isAbs p > b;osBase p > s;osDir p > s;osClean p > s;osExt p > s;osIsAbs p > b;date L t > s
dateInZone L t z > s;date_in_zone L t z > s;dateModify d t > t;date_modify d t > t;mustDateModify d t > t
htmlDate t > s;htmlDateInZone t z > s;toDate L s > t;mustToDate L s > t;duration a > s;durationRound a > s
unixEpoch t > s;fail s > s;hello > s;len a > i;index a a* > a;slice s w w > s;not a > b;and a a* > a;or a a* > a
eq a a* > b;ne a a > b;lt a a > b;le a a > b;gt a a > b;ge a a > b;print a* > s;println a* > s;html a* > s;js a* > s
urlquery a* > s;call a a* > a;eq s s > b;lt n n > b;ge s s > b;index m k > a;index l w > a;len l > i;toYaml a > s
mustDateModify s t > t;decryptAES s s > s;toDate L S > t;trimSuffix s a > s;getHostByName s > s
"""
HELM = """
toYamlPretty a > s;fromYaml y > m;fromYamlArray y > l;fromJson j > m;fromJsonArray j > l;toToml m > s;toToml a > s
fromToml o > m;mustToToml m > s;mustToYaml a > s;mustToJson a > s;include k a > s;tpl T a > s;tpl T a > s
required s a > a;lookup s s s s > m;durationSeconds d > f;durationMinutes d > f;durationHours d > f;durationDays d > f
durationWeeks d > f;durationMilliseconds d > i;durationMicroseconds d > i;durationNanoseconds d > i
durationRoundTo d d > U;durationTruncateTo d d > U;mustToDuration d > U;toDuration d > U;durationSeconds a > f
"""
ONLY_SPRIG = "env s > s;expandenv s > s"
# What text/template has without sprig's or Helm's.
METHODS = {"t": ["Unix", "Year", "Month", "Day", "Weekday", "YearDay", "Hour", "UTC", "String", "Nanosecond",
                 "IsZero", "UnixMilli", 'Format "2006-01-02"', "AddDate 1 2 3", "Location", "Minute", "Second"],
           "D": ["Major", "Minor", "Patch", "Prerelease", "Metadata", "Original", "String", "IncMajor", "IncPatch"],
           "U": ["Seconds", "String", "Hours", "Abs", "Milliseconds", "Minutes", "Nanoseconds"]}

TEXTS = ["", "a", "abc", "foo bar", "Hello World", "foo-bar_baz.Qux", "x,y,z", " trim me ", "Ünïcode ß 日本", "a\nb\nc",
         "line\n\n  two \n", "true", "null", "~", "1", "007", "1.50", "-3", "0x1F", "1e3", "yes", "on", "key: value",
         "- a", "{a: 1}", '{"a":1}', "<b>&'\"", "%d %s", "$1", "${1}x", "\\d+", "tab\there", "HTTPServer", "id", "ID",
         "aaaa", "/etc/x.conf", "user@host", "YWJj", "MFRGG===", "!!!", "*", "&x", "#c", "a b", "é", "\u00a0x",
         "some rather long text that has many words so that it may be wrapped somewhere", "x" * 30, "\u2028", "ǅ",
         "2024-02-30", "12:30", "0.1", "1_000", ".5", "nan", "inf", "\x01", "a:b", "'q'", '"', "`", "😀 x", "A", "Z9"]
KEYS = ["a", "b", "c", "s", "n", "l", "m", "x", "é", "a.b", "", "1", "true", "A-b", "nope"]
VERSIONS = ["1.2.3", "v1.2", "1", "2.0.0-rc.1+b7", "^1.2", ">=1.0 <2", "~1", "*", "1.x", "1.2.3-alpha", "x", "",
            "0.0.0", "v0.1.0+meta", ">= 1.19-0", "1.2.3 - 2.0", "!=1.2.3", "=1.2 || 3", "1.2.3.4", "01.2.3"]
EXPRESSIONS = ["a", ".", "[a-z]+", "(a)(b)?", "^x", "\\d+", "(?i)h", "", "b*", "[", "(?P<n>.)", "\\s", "o|a", "(", "\\pL+",
               "x{2,3}", "(?s).+", "[^a]", "\\bfoo\\b", "$", "a**", "(.)(.)"]
YAMLS = ["a: 1\nb: [x, 2.5, true]\n", "- 1\n- a: {b: ~}\n", "x", "", "a: b: c", "{", "1.0", "a: 9223372036854775807",
         "a: &x 1\nb: *x", "a: 1\na: 2", "d: 2001-01-01", "s: |\n  x\n  y\n", "k: 'it''s'", "---\na: 1\n---\nb: 2",
         "1: x\ntrue: y", "a: 1e3\nb: 0x1f\nc: 010\nd: 1_0", "? x\n: y", "a: !!str 1", "<<: {a: 1}\nb: 2", "\ta: 1",
         "a: .inf\nb: .nan", "[]", "null", "a:\n- b\n-", "\"q\": \"\\u00e9\"", "a: yes\nb: on\nc: ~", "a: 1.50"]
JSONS = ['{"a":1,"b":[true,null,1.5]}', "[1,2]", '"x"', "1", "null", "{", "", '{"a":{"b":{"c":"d"}}}', "1e400", "[1,]",
         '{"a":1}x', '"\\ud800"', "12345678901234567890", '{"a":1,"a":2}', "-0", "1.0", '{"é":"<&>"}', "true", "[[],{}]"]
TOMLS = ['a = 1\n[t]\nb = "x"\n', "a = [1, 2]\n", "x", "d = 2001-01-01T00:00:00Z", "f = 1.5\ng = 1e3", "[[a]]\nb=1\n[[a]]",
         'a.b = "c"', "a = 0x1f", "a = '''x\ny'''", "", "a = 1\na = 2", "t = 07:30:00", "b = true", "i = {x = 1, y = []}",
         '"q k" = 1', "f = inf", "a = 1_000", "a = +5", "d = 2001-01-01"]
LAYOUTS = ["2006-01-02", "Mon Jan _2 15:04:05 MST 2006", "2006-01-02T15:04:05Z07:00", "15:04", "Jan 2, 2006", "06/1/2",
           "3:04PM", "Monday", "x", "", "02 January 2006 -0700", "2006-002", ".000", "15:04:05.999", "Z0700 MST"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "nope", "", "Local", "Asia/Kolkata"]
DURATIONS = ["1h", "90m", "1h30m5s", "-2s", "100ms", "x", "", "72h", "1d", "95", "1.5h", "2400h10m5s", "1ns", "0", "10s"]
URLS = ["http://u:p@h.io:80/p/q?x=1#f", "https://example.com", "//h/p", "mailto:a@b", "%zz", "", "/p?q=a b", "h:p", "a/../b",
        "http://[::1]:8/", "http://x y/"]
PATHS = ["/a/b.c", "a/../b", "", ".", "/", "a//b/", "x.tar.gz", "../..", "/..", "a/.hidden", "é/ü.x"]
TIMES = ["2024-02-29T10:11:12.5Z", "1999-12-31T23:59:59Z", "2001-01-01T00:00:00Z"]
TYPES = ["string", "int", "float64", "bool", "map", "slice", "map[string]interface {}", "[]interface {}", "nil", "invalid",
         "*semver.Version", "int64", "x", "<nil>", "func"]
INTEGERS = ["0", "1", "2", "3", "-1", "5", "7", "10", "64", "-7", "100", "0x1f", "0b101", "0o17", "1_000", "'a'", "'\\n'",
            "9223372036854775807", "-9223372036854775808", "2147483648", "123456789", "010", "'é'", "+3"]
FLOATS = ["1.5", "0.1", "-2.25", "1e3", "1e21", "1e-7", "3.0", ".5", "-0.0", "0x1p-2", "123456.789", "1e300", "2.5e-300", "0.5",
          "1e6", "99999999.0", "1.0e+2"]
VERBS = "vdsqxXtTeEfFgGbocUpwzi%"
TRUTHS = ["true", "false"]


def parse(table):
    functions = []
    for entry in table.replace("\n", ";").split(";"):
        if entry.strip():
            left, result = entry.split(">")
            name, *parameters = left.split()
            functions.append((name, parameters, result.strip()))
    return functions


BASE, CHART, BARE = parse(TABLE), parse(HELM), parse(ONLY_SPRIG)
# Helm has functions of its own under some names.
SETS = {"sprig": BASE + BARE, "helm": [f for f in BASE if f[0] not in {c[0] for c in CHART} or f[0] == "toYaml"] + CHART * 3}
RESULTS = {name: {kind: [f for f in functions if f[2] == kind] for kind in "sifblSmatDU"} for name, functions in SETS.items()}
# Kinds that may stand for another.
WIDER = {"n": "if", "a": "sifblSmaa", "l": "lS", "w": "i", "p": "s", "r": "s", "k": "s", "d": "s", "v": "s"}


class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        # Data is made seldom; making it costs more than a template.
        self.worlds = [self.data(0) for _ in range(40)]

    # Data.

    def value(self, depth):
        rng = self.rng
        way = rng.randrange(10 if depth < 3 else 6)
        if way < 3:
            return rng.choice(TEXTS)
        if way == 3:
            return rng.choice((0, 1, -1, 3, 42, 1e21, 2.5, -0.25, 1e6, 123456789, 1e-9, 4294967296, 3.0, 9007199254740993))
        if way == 4:
            return rng.random() < 0.5
        if way == 5:
            return None if rng.random() < 0.5 else rng.choice((VERSIONS + TIMES + URLS + JSONS + YAMLS))
        if way < 8:
            same = rng.choice((TEXTS, (1, 2, 3, 2.5, 10), None, None))
            count = rng.randrange(5)
            return [rng.choice(same) if same else self.value(depth + 1) for _ in range(count)]
        return {rng.choice(KEYS): self.value(depth + 1) for _ in range(rng.randrange(5))}

    def data(self, depth):
        rng = self.rng
        data = {key: self.value(depth + 1) for key in rng.sample(KEYS, rng.randrange(3, 8))}
        data.update({"s": rng.choice(TEXTS), "n": rng.choice((0, 3, 2.5, -7, 1e9)), "b": rng.random() < 0.5,
                     "l": [self.value(2) for _ in range(rng.randrange(5))],
                     "m": {rng.choice(KEYS): self.value(2) for _ in range(rng.randrange(5))},
                     "S": [rng.choice(TEXTS) for _ in range(rng.randrange(5))]})
        return data

    # Expressions.

    def text(self, text):
        rng = self.rng
        if rng.random() < 0.15 and "`" not in text and "\r" not in text:
            return "`" + text + "`"
        out = []
        for c in text:
            if c in '"\\':
                out.append("\\" + c)
            elif c == "\n":
                out.append("\\n")
            elif c == "\t":
                out.append("\\t")
            elif ord(c) < 32:
                out.append(f"\\x{ord(c):02x}")
            elif ord(c) > 127 and rng.random() < 0.1:
                out.append(f"\\u{ord(c):04x}" if ord(c) < 0x10000 else f"\\U{ord(c):08x}")
            else:
                out.append(c)
        return '"' + "".join(out) + '"'

    def atom(self, kind):
        rng = self.rng
        if self.variables and rng.random() < 0.2:
            return rng.choice(self.variables)
        choice = rng.choice
        if kind == "s":
            return self.text(choice(TEXTS)) if rng.random() < 0.75 else choice(("$.s", ".s", "$.s", ".", "(.s)", "$.m.s"))
        if kind == "i":
            return choice(INTEGERS)
        if kind == "w":
            return str(rng.randrange(7)) if rng.random() < 0.95 else choice(("-1", "12", "20", "-3"))
        if kind == "f":
            return choice(FLOATS)
        if kind == "n":
            return choice((choice(INTEGERS), choice(FLOATS), "$.n", ".n", self.text(choice(("3", "2.5", "x", "0x10", "010")))))
        if kind == "b":
            return choice(TRUTHS) if rng.random() < 0.6 else choice(("$.b", ".b", "$.nope"))
        if kind == "l":
            return choice(("$.l", ".l", "$.S", "(list)", "(list 1 2 3)", '(list "b" "a" "b")', "(list 1 nil 2.5 `x`)", "$.m.l"))
        if kind == "S":
            return choice(("$.S", ".S", '(splitList "," "a,b,,c")', '(list "x" "y")'))
        if kind == "m":
            return choice(("$.m", ".m", "$", ".", "(dict)", '(dict "a" 1 "b" "x")', '(dict "a" (dict "b" (list 1)))', "$.m.m"))
        if kind == "t":
            return choice((f'(toDate "2006-01-02T15:04:05Z07:00" "{choice(TIMES)}")', str(rng.randrange(2_000_000_000)),
                           f'(int64 {rng.randrange(2_000_000_000)})', self.text(choice(TEXTS)),
                           '(toDate "2006-01-02" "2024-02-29")', '(toDate "2006-01-02 15:04 -0700" "2024-02-29 10:11 +0530")'))
        if kind == "D":
            return f"(semver {self.text(choice(VERSIONS))})"
        if kind == "U":
            return self.text(choice(DURATIONS))
        if kind == "T":
            if rng.random() < 0.3:
                return self.text(choice(TEXTS))
            self.nested += 1
            inner = self.body(0) if self.nested < 3 else "{{ . }}"
            self.nested -= 1
            return self.text(inner.replace("`", "'"))
        if kind == "k":
            return self.text(choice(KEYS)) if rng.random() < 0.9 else choice(("$.s", "1"))
        if kind == "d" and rng.random() < 0.2:
            return choice((choice(INTEGERS), choice(FLOATS), "$.n"))
        pools = {"v": VERSIONS, "r": EXPRESSIONS, "y": YAMLS, "j": JSONS, "o": TOMLS, "L": LAYOUTS, "z": ZONES,
                 "d": DURATIONS, "u": URLS, "p": PATHS}
        if kind in pools:
            return self.text(choice(pools[kind]))
        # Anything.
        if rng.random() < 0.1:
            return choice(("nil", "$.nope", ".nope", "$.m.nope", "$.nope.nope", ".", "$", "nil", "(1i)", "$.l.x", "(index . 0)"))
        if rng.random() < 0.05:
            return self.text(choice(TYPES))
        return self.atom(choice("sssifnblSm"))

    def method(self):
        kind = self.rng.choice("tDU")
        return f"({self.expression(kind, 1)}).{self.rng.choice(METHODS[kind])}"

    def printf(self, depth):
        rng = self.rng
        form, wanted = [], 0
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            form.append(rng.choice(("", "", "a", " ", "%%", "é", "|")))
            verb = "%" + "".join(rng.choice("+-# 0") for _ in range(rng.choice((0, 0, 0, 1, 1, 2))))
            for dot in ("", "."):
                if rng.random() < 0.3:
                    verb += dot
                    way = rng.randrange(6)
                    if way == 0:
                        verb += "*"
                        wanted += 1
                    elif way == 1:
                        verb += f"[{rng.randrange(4)}]" + rng.choice(("", "*"))
                    elif way < 5:
                        verb += str(rng.randrange(12))
            if rng.random() < 0.05:
                verb += f"[{rng.randrange(4)}]"
            form.append(verb + (rng.choice(VERBS) if rng.random() < 0.9 else rng.choice("vds")))
            wanted += 1
        wanted += rng.choice((0, 0, 0, 0, 0, 1, -1))
        arguments = [self.operand(self.rng.choice("aasifwt"), depth - 1) for _ in range(max(wanted, 0))]
        return " ".join(["printf", self.text("".join(form)), *arguments])

    def call(self, kind, depth):
        """A call without parentheses, with an answer of a kind."""
        rng = self.rng
        if rng.random() < (0.12 if kind in "sa" else 0):
            return self.printf(depth)
        kinds = WIDER.get(kind, kind)
        functions = RESULTS[self.set].get(rng.choice(kinds)) or RESULTS[self.set]["s"]
        name, parameters, _ = rng.choice(functions)
        arguments = []
        for parameter in parameters:
            for _ in range(rng.randrange(4) if parameter.endswith("*") else 1):
                arguments.append(parameter[0])
        if rng.random() < 0.02:
            arguments = arguments[:-1] if arguments and rng.random() < 0.5 else arguments + ["a"]
        made = [self.operand(k, depth - 1) for k in arguments]
        if made and rng.random() < 0.3:
            last = made.pop()
            if last.startswith("(") and last.endswith(")") and rng.random() < 0.5 and last.count("(") == 1:
                last = last[1:-1]
            return f"{last} | {' '.join([name, *made])}"
        return " ".join([name, *made])

    def operand(self, kind, depth):
        rng = self.rng
        if rng.random() < 0.04:
            kind = rng.choice("sifblma")
        if depth <= 0 or rng.random() < 0.45:
            return self.atom(kind)
        return self.expression(kind, depth)

    def expression(self, kind, depth):
        rng = self.rng
        if kind in "tDUT" and rng.random() < 0.5:
            return self.atom(kind)
        if kind in "a" and rng.random() < 0.03:
            return self.method()
        made = f"({self.call(kind, depth)})"
        if rng.random() < 0.03:
            made += "." + rng.choice(KEYS[:8])
        return made

    def pipeline(self, kind="a", depth=3):
        rng = self.rng
        if rng.random() < 0.12:
            return self.atom(kind)
        if rng.random() < 0.03:
            return self.method()
        made = self.call(kind, rng.randrange(1, depth + 1))
        while rng.random() < 0.2:
            name, parameters, _ = rng.choice(SETS[self.set])
            if parameters and not parameters[-1].endswith("*"):
                made += " | " + " ".join([name, *(self.operand(p[0], 1) for p in parameters[:-1])])
        return made

    # Statements.

    def open(self):
        return self.rng.choice(("{{", "{{ ", "{{ ", "{{- ", "{{ \n"))

    def close(self):
        return self.rng.choice(("}}", " }}", " }}", " -}}", "\n}}"))

    def act(self, text):
        return self.open() + text + self.close()

    def body(self, depth, loops=False):
        return "".join(self.statement(depth, loops) for _ in range(self.rng.choice((1, 1, 1, 2, 3))))

    def scoped(self, depth, loops, *variables):
        before = len(self.variables)
        self.variables.extend(v for v in variables if v)
        made = self.body(depth, loops)
        del self.variables[before:]
        return made

    def statement(self, depth, loops):
        rng = self.rng
        way = rng.randrange(100)
        if way < 12:
            return rng.choice(("x", " ", "\n", "a: ", "\n  - ", "}}", "{ {", "#", "\t", "é"))
        if depth <= 0 or way < 60:
            return self.act(self.pipeline())
        if way < 68:
            name = rng.choice(("$a", "$b", "$é", "$x1"))
            known = [v for v in self.variables if v != "$"]
            if known and rng.random() < 0.4:
                return self.act(f"{rng.choice(known)} {rng.choice(('=', '=', ':='))} {self.pipeline()}")
            made = self.act(f"{name} := {self.pipeline()}")
            self.variables.append(name)
            return made
        head = lambda word, kind: self.act(f"{word} {self.pipeline(kind, 2)}")
        end = self.act("end")
        if way < 78:
            made = head("if", "b") + self.scoped(depth - 1, loops)
            while rng.random() < 0.3:
                made += head("else if", "b") + self.scoped(depth - 1, loops)
            if rng.random() < 0.4:
                made += self.act("else") + self.scoped(depth - 1, loops)
            return made + end
        if way < 84:
            name = rng.choice(("", "", "$w"))
            made = head(f"with {name} :=" if name else "with", "a") + self.scoped(depth - 1, loops, name)
            if rng.random() < 0.2:
                made += head("else with", "a") + self.scoped(depth - 1, loops)
            if rng.random() < 0.3:
                made += self.act("else") + self.scoped(depth - 1, loops)
            return made + end
        if way < 94:
            names = rng.choice(((), (), ("$i",), ("$i", "$e")))
            word = f"range {', '.join(names)} {rng.choice((':=', ':=', ':=', '=')) if names else ''}"
            made = head(word, rng.choice("llSmwa")) + self.scoped(depth - 1, True, *names)
            if rng.random() < 0.25:
                made += self.act("else") + self.scoped(depth - 1, loops)
            return made + end
        if way < 96:
            if loops or rng.random() < 0.05:
                return self.act(f"if {self.pipeline('b', 1)}") + self.act(rng.choice(("break", "continue"))) + end
            return self.act("/* note */").replace("{{ ", "{{").replace(" }}", "}}")
        if way < 98:
            name = self.text(rng.choice(("one", "two", "a")))
            if rng.random() < 0.3:
                return self.act(f"block {name} {self.atom('a')}") + self.body(depth - 1) + end
            return self.act(f"define {name}") + self.fresh(depth - 1) + end
        return self.act(f"template {self.text(rng.choice(('one', 'two', 'a', 'none')))} {rng.choice(('', '.', '$', self.atom('a')))}")

    def fresh(self, depth):
        kept, self.variables = self.variables, []
        made = self.body(depth)
        self.variables = kept
        return made

    def damaged(self, text):
        rng = self.rng
        for _ in range(rng.choice((1, 1, 2))):
            at = rng.randrange(len(text) + 1)
            way = rng.randrange(4)
            if way == 0:
                text = text[:at] + text[at + rng.choice((1, 1, 2, 5)):]
            elif way == 1:
                text = text[:at] + rng.choice(list("{}()|.$\"'`=:-+,/*% \nx1é\\") + ["{{", "}}", "end", ":=", "nil", "else"]) + text[at:]
            elif way == 2:
                other = rng.randrange(len(text) + 1)
                text = text[:at] + text[other:other + 6] + text[at:]
            else:
                text = text[:at] + text[at:at + 1] + text[at:]
        return text

    def request(self):
        rng = self.rng
        self.set = rng.choice(("sprig", "helm"))
        self.variables, self.nested = [], 0
        template = self.body(rng.choice((0, 0, 1, 1, 2, 3)))
        if rng.random() < 0.1:
            template = self.damaged(template)
        given = {"template": template, "data": rng.choice(self.worlds), "functions": self.set}
        if rng.random() < 0.1:
            given["option"] = "missingkey=error" if self.set == "helm" else \
                rng.choice(("missingkey=error", "missingkey=zero", "missingkey=default", "missingkey=invalid"))
        return {"op": "go.template", "input": given}
