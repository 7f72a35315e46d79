# SPDX-License-Identifier: Apache-2.0
"""merge_cases.py: random inputs for merge_test.py, as strange as the rules allow.

A case is drawn from a seed alone. What comes of it says merge_reference.py, which sees the bytes
only: nothing here needs to know whether a row is good.
"""

import datetime
import gzip
import json
import re
import subprocess

from merge_reference import ATTO, INT64_MAX, Options

MIB = 1024 * 1024


class Case:
    """Inputs as they lie on disk and as they read, and the options to merge them with."""

    def __init__(self, options, plain, on_disk, args):
        self.options = options
        self.plain = plain
        self.on_disk = on_disk
        self.args = args


# ---- Times --------------------------------------------------------------------------------------

ZONES = [0, 60, -60, 330, -210, 845, -719, 1439, -1439]
EPOCH_UNITS = [(ATTO, 0, 10**11), (ATTO // 10**3, 10**11, 10**14),
               (ATTO // 10**6, 10**14, 10**17), (ATTO // 10**9, 10**17, INT64_MAX)]


def decimal(rng, value, unit):
    """value / unit as a decimal number, with zeros behind it at times."""
    whole, rest = divmod(abs(value), unit)
    digits = str(rest).rjust(len(str(unit)) - 1, "0").rstrip("0")
    if rng.random() < 0.3 and len(digits) < len(str(unit)) - 1:
        digits += "0" * rng.randint(1, 3)
    return ("-" if value < 0 else "") + str(whole) + ("." + digits if digits else "")


def zone_text(rng, zone):
    if zone == 0 and rng.random() < 0.8:
        return rng.choice(["UTC", "Z"])
    return ("-" if zone < 0 else "+") + f"{abs(zone) // 60:02}:{abs(zone) % 60:02}"


def rfc3339(rng, instant):
    seconds, atto = divmod(instant, ATTO)
    zone = rng.choice(ZONES)
    local = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds, minutes=zone)
    text = local.strftime(f"{local.year:04}-%m-%d" + rng.choice("Tt ") + "%H:%M:%S")
    digits = str(atto).rjust(18, "0").rstrip("0")
    if rng.random() < 0.3:
        digits += "0" * rng.randint(1, 20)
    text += "." + digits if digits else ""
    if zone == 0 and rng.random() < 0.8:
        return text + rng.choice("Zz")
    return text + ("-" if zone < 0 else "+") + f"{abs(zone) // 60:02}:{abs(zone) % 60:02}"


def time_text(rng, instant):
    """One of the many ways to write an instant."""
    forms = [lambda: rfc3339(rng, instant)] * 3
    for unit, least, bound in EPOCH_UNITS:
        if least <= abs(instant) // unit < bound:
            forms.append(lambda unit=unit: decimal(rng, instant, unit))
    return rng.choice(forms)()


def draw_instant(rng):
    seconds = rng.choice([0, 1, -1, 1770372000, 1770372001, -86400 * 365 * 100, 10**8,
                          rng.randint(-2 * 10**9, 4 * 10**9)])
    atto = rng.choice([0, 0, 0, ATTO // 2, ATTO // 1000, 1, ATTO - 1,
                       rng.randrange(ATTO), rng.randrange(10**6) * 10**12])
    return seconds * ATTO + atto


BAD_TIMES = ["", "never", "2026-02-30T10:00:00Z", "2026-02-06T24:00:00Z", "2026-02-06T10:00:00",
             "2026-02-06", "2026-02-06 10:00:00.5", "2026-2-6T10:00:00Z",
             "2026-02-06T10:00:00+24:00", "1e9", "+5", " 5",
             "5 ", "5.", ".5", "-", "--5", "0x5", "2026-02-06T10:00:00.Z", "1,5", "5\0",
             "2026-13-01T00:00:00Z", "2026-02-06T10:60:00Z", "2026-02-06T10:00:61Z",
             "2026-02-06T10:00:00+0100", "9223372036854775808", "0000-01-01T00:00:00Z",
             "2025-02-29T00:00:00Z", "2026-02-06T10:00:00Zx", "NaN", "null", "٣"]


# ---- Formats ------------------------------------------------------------------------------------


class Usv:
    """Fields between 0x1F; records end with LF, RS, or RS LF."""

    ends = [b"\n", b"\x1e", b"\x1e\n"]
    atoms = ["a", "b", "\0", "\xff", "\x80", '"', ",", "\r", "\x1d", " "]
    blank = [b""]

    def __init__(self, rng):
        self.columns = rng.randint(2, 5)
        self.key_at, self.time_at = rng.sample(range(self.columns), 2)
        self.key, self.time = str(self.key_at + 1), str(self.time_at + 1)
        self.header = None

    def draw_key(self, rng, length):
        return "".join(rng.choice(self.atoms) for _ in range(length)).encode("latin-1")

    def sort_key(self, key):
        return key

    def values(self, rng, key, time, filler):
        values = [rng.choice([b"", b"x", filler]) for _ in range(self.columns)]
        values[self.key_at], values[self.time_at] = key, time.encode()
        return values

    def record(self, rng, key, time, filler):
        values = self.values(rng, key, time, filler)
        return b"\x1f".join(values + [b"more"] * (rng.random() < 0.1))

    def bad(self, rng, key, time):
        short = rng.randrange(1, max(self.key_at, self.time_at) + 1)
        return rng.choice([
            b"\x1f".join([b"x"] * short),
            self.record(rng, key, rng.choice(BAD_TIMES), b"y")])

    def last(self, rng):
        return b""


class Separated:
    """CSV, or TSV: the separator tells."""

    ends = [b"\n", b"\r\n"]
    blank = [b""]

    def __init__(self, rng, separator, with_header):
        self.separator = separator
        self.atoms = ["a", "b", "\0", "\xff", '"', '""', ",", "\t", "\n", "\r\n", " ", "é"]
        self.columns = rng.randint(2, 5)
        self.key_at, self.time_at = rng.sample(range(self.columns), 2)
        self.key, self.time = str(self.key_at + 1), str(self.time_at + 1)
        self.header = None
        if with_header:
            names = [f"c{i}" for i in range(self.columns)]
            names[self.key_at] = rng.choice(["key", 'a "key"', "the,key", "k\ny", "clé"])
            self.header = separator.join(self.field(rng, name.encode()) for name in names)
            if rng.random() < 0.7:
                self.key = names[self.key_at]
            if rng.random() < 0.7:
                self.time = names[self.time_at]

    draw_key = Usv.draw_key
    sort_key = Usv.sort_key
    values = Usv.values

    def field(self, rng, value):
        special = any(c in value for c in (b'"', b"\n", b"\r", self.separator))
        if special or rng.random() < 0.3:
            return b'"' + value.replace(b'"', b'""') + b'"'
        return value

    def record(self, rng, key, time, filler):
        return self.separator.join(
            self.field(rng, value) for value in self.values(rng, key, time, filler))

    def bad(self, rng, key, time):
        good = self.record(rng, b"k", "1", b"y")
        return rng.choice([
            good + self.separator,
            self.separator.join([b"x"] * (self.columns - 1)),
            b'5" pipe' + self.separator + good,
            b'x"' + self.separator * (self.columns - 1),
            b'"x"y' + self.separator * (self.columns - 1),
            b'"x" ' + self.separator * (self.columns - 1),
            b'"' + good,
            self.separator * (self.columns - 1) + b'"',
            self.separator * (self.columns - 1) + b'"""x',
            self.separator * (self.columns - 1) + b'a"b"c',
            self.record(rng, key, rng.choice(BAD_TIMES), b"y")])

    def last(self, rng):
        """A quote that is never closed, with lines behind it."""
        return rng.choice([b'"', b'x' + self.separator + b'"y\nz', b'"a\r\nb"" ' + self.separator])


class Ndjson:
    """A JSON object a line."""

    ends = [b"\n", b"\r\n"]
    blank = [b"", b" ", b"\t \t", b"\r"]
    atoms = ["a", "b", "\0", "é", "\uffff", "\U0001f600", "\ufffd", '"', "\\", "/", "\n", "\x7f"]
    numbers = ["0", "-0", "1", "10", "1.0", "1e5", "-1.5E+3", "12345678901234567890123", "0.10"]
    header = None

    def __init__(self, rng):
        self.key = rng.choice(["key", "k y", 'q"k', "clé", "0"])
        self.time = rng.choice(["time", "t\\m", "1"])

    def draw_key(self, rng, length):
        if rng.random() < 0.15:
            return rng.choice(self.numbers), True
        return "".join(rng.choice(self.atoms) for _ in range(length)), False

    def sort_key(self, key):
        return key[0].encode()

    def string(self, rng, text):
        """A JSON string, with more escapes than it needs."""
        out = ""
        for char in text:
            if rng.random() < 0.3:
                units = char.encode("utf-16-be").hex()
                out += "".join("\\u" + units[i:i + 4] for i in range(0, len(units), 4))
            elif char == "/" and rng.random() < 0.5:
                out += "\\/"
            elif ord(char) < 0x20 or char in '"\\':
                out += json.dumps(char)[1:-1]
            else:
                out += char
        return '"' + out + '"'

    def other(self, rng, depth):
        """Some value that nobody asks for."""
        if depth and rng.random() < 0.5:
            inner = [self.other(rng, depth - 1) for _ in range(rng.randrange(3))]
            if rng.random() < 0.5:
                return "[" + self.gap(rng) + ",".join(inner) + "]"
            return "{" + ",".join(self.string(rng, rng.choice([self.key, "x"])) + ":" + value
                                  for value in inner) + self.gap(rng) + "}"
        return rng.choice(["null", "true", "false", '"\\ud800"', '"x]}"', '"\\\\"', '"\\""',
                           *self.numbers])

    def gap(self, rng):
        return rng.choice(["", "", " ", "\t", " \t ", "\r"])

    def object(self, rng, members):
        """Members are (name, text of the value); their order is kept."""
        gap = self.gap
        text = ",".join(gap(rng) + self.string(rng, name) + gap(rng) + ":" + gap(rng) + value
                        + gap(rng) for name, value in members)
        return (rng.choice(["", "", " "]) + "{" + text + "}" + rng.choice(["", "", "\t"])).encode()

    def key_text(self, rng, key):
        text, is_number = key
        return text if is_number else self.string(rng, text)

    def members(self, rng, key, time, filler):
        time_is_number = time.replace(".", "", 1).lstrip("-").isdigit() and rng.random() < 0.5
        members = [(self.key, key), (self.time, time if time_is_number else self.string(rng, time))]
        for name in rng.sample(["x", "y", "z", ""], rng.randrange(3)):
            members.append((name, self.other(rng, 4)))
        members.append(("f", '"' + filler.decode() + '"'))
        rng.shuffle(members)
        if rng.random() < 0.15:
            members.insert(0, (rng.choice([self.key, self.time]), self.other(rng, 2)))
        return members

    def record(self, rng, key, time, filler):
        return self.object(rng, self.members(rng, self.key_text(rng, key), time, filler))

    def bad(self, rng, key, time):
        good = self.record(rng, key, time, b"y")
        kinds = ["null", "true", "[]", "{}", '"\\ud800"', '"\\udc00\\ud800"', '["a"]']
        return rng.choice([
            b"{", b"}", b"[]", b"17", b'"x"', b"nul", good + b",", good + good, good[:-1],
            b'{"x":01}', b'{"x":1.}', b'{"x":.5}', b'{"x":+1}', b'{"x":NaN}', b'{"x":Infinity}',
            b"{'x':1}", b'{"x":1,}', b'{"x" 1}', b'{"x":"\\x"}', b'{"x":"\\u12g4"}',
            b'{"x":"\t"}', b'{"x":"\0"}', b'\0', b'{"x":"\xff"}', b'{"x":"\xed\xa0\x80"}',
            b'{"x":"\xc0\x80"}', b'{"x":"\xf4\x90\x80\x80"}', b'{"x":[}', b'{"x":[1}',
            b'{x:1}', b'{"x":tru}', b'{"x":"}', b"\x0b", b'{"x":-}', b'{"x":1e}', b"{}",
            b'{"x":1}//', b"\xc2\xa0" + good,
            self.object(rng, self.members(rng, rng.choice(kinds), time, b"y")),
            self.object(rng, [(self.key, '"a"')]),
            self.object(rng, [(self.time, "1")]),
            self.record(rng, key, rng.choice(BAD_TIMES), b"y")])

    def last(self, rng):
        return b""


def draw_format(rng, name):
    if name == "usv":
        return Usv(rng)
    if name == "ndjson":
        return Ndjson(rng)
    return Separated(rng, b"," if name == "csv" else b"\t", rng.random() < 0.75)


# ---- Files --------------------------------------------------------------------------------------


def draw_keys(rng, form):
    """A few keys, among them such that begin with others, and at times with much in common."""
    keys = [form.draw_key(rng, rng.randrange(4)) for _ in range(rng.randint(1, 12))]
    if rng.random() < 0.3 and not isinstance(form, Ndjson):
        start = form.draw_key(rng, rng.randint(5, 40))
        keys = [start + key for key in keys]
    return keys


def draw_rows(rng, form, mode, keys, instants, filler_sizes):
    """(what to sort by, record): good rows in one of the orders that inputs come in."""
    rows = []
    for _ in range(rng.choice([0, 1, 2, rng.randrange(40), rng.randrange(40)])):
        key, instant = rng.choice(keys), rng.choice(instants)
        filler = b"f" * rng.choice(filler_sizes)
        record = form.record(rng, key, time_text(rng, instant), filler)
        rows.append((instant if mode == "time" else form.sort_key(key), record))
        if rng.random() < 0.1:
            rows.append(rows[-1])
    arrangement = rng.choice(["whole", "whole", "whole", "field", "none", "partly"])
    if arrangement == "field":
        rows.sort(key=lambda row: row[0])
    elif arrangement != "none":
        rows.sort()
    if arrangement == "partly" and len(rows) > 1:
        a, b = rng.randrange(len(rows)), rng.randrange(len(rows))
        rows[a], rows[b] = rows[b], rows[a]
    return [record for _, record in rows]


def draw_file(rng, form, mode, keys, instants, filler_sizes, bad_share):
    records = draw_rows(rng, form, mode, keys, instants, filler_sizes)
    for _ in range(len(records) + 2):
        if rng.random() < bad_share:
            bad = form.bad(rng, rng.choice(keys), time_text(rng, rng.choice(instants)))
            records.insert(rng.randint(0, len(records)), bad)
        if rng.random() < 0.05:
            records.insert(rng.randint(0, len(records)), rng.choice(form.blank))
    if form.header is not None:
        if not records and rng.random() < 0.5:
            return b""
        records.insert(0, form.header)
    ends = rng.choice([form.ends, form.ends[:1], form.ends[-1:]])
    data = b"".join(record + rng.choice(ends) for record in records)
    if form.header is not None and rng.random() < 0.1:
        data = b"\xef\xbb\xbf" + data
    if rng.random() < bad_share:
        data += form.last(rng)
    elif rng.random() < 0.3 and data:
        for end in sorted(form.ends, key=len, reverse=True):
            if data.endswith(end):
                return data[:-len(end)]
    return data


def zstd(data, *args, sized=True):
    """What the program zstd makes of data; it knows the size, as it would that of a file."""
    size = [f"--stream-size={len(data)}"] if sized and "-d" not in args else []
    return subprocess.run(["zstd", "-q", "-c", *size, *args], input=data, capture_output=True,
                          check=True).stdout


def compressed(rng, data):
    """The data in one or two pieces, each gzip or all of them zstd."""
    half = rng.randint(0, len(data)) if rng.random() < 0.3 else len(data)
    if rng.random() < 0.7:
        pack = gzip.compress
    else:
        pack = zstd
    return pack(data[:half]) + (pack(data[half:]) if half < len(data) else b"")


def draw_case(rng, name):
    form = draw_format(rng, name)
    mode = rng.choice(["key", "time", "latest"])
    key = form.key if mode != "time" else None
    time = form.time if mode != "key" else None
    limit = rng.choice([16 * MIB, 16 * MIB, 4096])
    sizes = [0, 1, 1, 2, 3, 20] if limit > 4096 else [0, 1, 3000, *range(4040, 4100), 20000]
    bad_share = rng.choice([0, 0, 0.02, 0.3])
    keys = draw_keys(rng, form)
    instants = [draw_instant(rng) for _ in range(rng.randint(1, 12))]
    count = rng.randint(300, 400) if rng.random() < 0.02 else rng.randint(1, 12)
    plain = [draw_file(rng, form, mode, keys, instants, sizes, bad_share) for _ in range(count)]
    packed = rng.random() < 0.3
    on_disk = [compressed(rng, data) if packed and rng.random() < 0.5 else data for data in plain]
    args = ["--format", name]
    args += ["--key", re.sub(r"([,:\\])", r"\\\1", key)] if key is not None else []
    args += ["--time", time] if time is not None else []
    if isinstance(form, Separated) and form.header is None:
        args.append("--no-header")
    if limit == 4096:
        args += ["--max-record", "4096"]
    zone = None
    if time is not None and rng.random() < 0.8:
        zone = rng.choice(ZONES)
        args += ["--zone", zone_text(rng, zone)]
    options = Options(name, key, time, form.header is not None, limit, zone)
    return Case(options, plain, on_disk, args)
