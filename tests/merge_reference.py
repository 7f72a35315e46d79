# SPDX-License-Identifier: Apache-2.0
"""merge_reference.py: what `holdfast merge` must give, computed slowly and plainly.

It shares nothing with the program but the rules: whole files in memory, Python's sort, times as
whole numbers of 10^-18 s. merge_test.py holds the program against it.
"""

import datetime
import json
import re
from collections import Counter, namedtuple

ATTO = 10**18  # of a second: the finest fraction that counts
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
INT64_MAX = 2**63 - 1

# key and time are what stands behind --key and --time: a string, or None; zone is that of times
# that name none, in minutes east of UTC, or None.
Options = namedtuple("Options", "format key time header record_bytes_max zone",
                     defaults=(None, None, True, 16 * 1024 * 1024, None))

# A record as it stood, without its end, its values by number (from 1) or by name (None: it is
# malformed), and which of its fields have quotes, or would get them in another place.
Record = namedtuple("Record", "data values quoted", defaults=((),))

# A good row: what the output is ordered by, the record, its key and time, and what decides between
# rows that have both in common.
Row = namedtuple("Row", "field data key time tie")


class Invalid(Exception):
    """The merge as a whole is refused."""


class ZoneMissing(Invalid):
    """A row has a time without a zone, and nobody says which is meant."""


class Result:
    """What comes of a merge.

    output is None where the rules leave a choice: several inputs hold rows that are equal in the
    field and not in the order of their bytes. `sequences` are then the rows of each input in the
    order in which they must appear.
    """

    def __init__(self):
        self.header = b""
        self.output = None
        self.rejects = []
        self.sequences = []
        self.rows_in = 0
        self.rows_out = 0
        self.rows_superseded = 0
        self.inputs_unsorted = 0


# ---- Times --------------------------------------------------------------------------------------


RFC3339 = re.compile(rb"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})"
                     rb"(?:\.([0-9]+))?([Zz]|[+-][0-9]{2}:[0-9]{2})?")
EPOCH = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?")


def fraction(digits, unit):
    """0.DIGITS of a unit of so many 10^-18 s, cut where those end."""
    return int(digits) * unit // 10**len(digits) if digits else 0


def offset(zone):
    """+HH:MM or Z as minutes east of UTC, or None."""
    if zone in b"Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if hours > 23 or minutes > 59:
        return None
    return -(hours * 60 + minutes) if zone[:1] == b"-" else hours * 60 + minutes


def instant_rfc3339(match, default_zone):
    year, month, day, hour, minute, second = (int(group) for group in match.groups()[:6])
    digits, zone = match.groups()[6:]
    east = offset(zone) if zone else default_zone or 0
    if hour > 23 or minute > 59 or second > 60 or east is None:
        return None
    try:
        days = datetime.date(year, month, day).toordinal()
    except ValueError:
        return None
    minutes = (days * 24 + hour) * 60 + minute - east
    utc_day = minutes // (24 * 60)
    if not 1 <= utc_day <= datetime.date.max.toordinal():
        return None
    if zone is None and default_zone is None:
        raise ZoneMissing()
    seconds = (minutes - EPOCH_DAY * 24 * 60) * 60 + min(second, 59)
    return seconds * ATTO + fraction(digits, ATTO)


def instant_epoch(match):
    sign, whole, digits = match.groups()
    whole = int(whole)
    for bound, unit in ((10**11, ATTO), (10**14, ATTO // 10**3), (10**17, ATTO // 10**6),
                        (INT64_MAX + (2 if sign else 1), ATTO // 10**9)):
        if whole < bound:
            instant = whole * unit + fraction(digits, unit)
            return -instant if sign else instant
    return None


def instant(text, zone):
    """10^-18 s since 1970, or None."""
    match = RFC3339.fullmatch(text)
    if match:
        return instant_rfc3339(match, zone)
    match = EPOCH.fullmatch(text)
    return instant_epoch(match) if match else None


# ---- Records ------------------------------------------------------------------------------------


def cut_usv(data, _longest):
    for record in re.split(rb"\x1e\n|\x1e|\n", data):
        if record:
            yield Record(record, dict(enumerate(record.split(b"\x1f"), 1)))


def cut_separated(data, separator, longest):
    """Records of RFC 4180. A quoted field is one that matches as a whole: with what may stand
    behind it, and closed within the longest record. Where it does not, the quote is text of an
    unquoted field, in which no quote may stand."""
    stop = re.escape(separator)
    quoted = re.compile(rb'"([^"]*(?:""[^"]*)*)"(?=' + stop + rb"|\r*\n|\r*\Z)")
    unquoted = re.compile(rb"([^\n" + stop + rb"]*?)(?=" + stop + rb"|\r*\n|\r*\Z)")
    at = 0
    while at < len(data):
        begin, values, with_quotes, sound = at, [], [], True
        while True:
            field = quoted.match(data, at)
            if field and field.end() > begin + longest:
                field = None
            if field:
                values.append(field[1].replace(b'""', b'"'))
            else:
                field = unquoted.match(data, at)
                values.append(field[1])
                sound = sound and b'"' not in field[1]
            with_quotes.append(field[0][:1] == b'"' or field[0][-1:] == b"\r")
            at = field.end()
            if data[at:at + 1] != separator:
                break
            at += 1
        if at > begin:
            yield Record(data[begin:at], dict(enumerate(values, 1)) if sound else None,
                         with_quotes)
        while data[at:at + 1] == b"\r":
            at += 1
        at += 1


class Number(str):
    """A number of JSON, as its text."""


def refuse_constant(text):
    raise ValueError(text)  # NaN and Infinity, which Python would take


def json_object(line):
    try:
        parsed = json.loads(line.decode("utf-8"), parse_int=Number, parse_float=Number,
                            parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def cut_ndjson(data, _longest):
    for line in re.split(rb"\r*\n", data):
        line = line.rstrip(b"\r")
        if line.strip(b" \t\r"):
            parsed = json_object(line)
            # Lone surrogates have no UTF-8.
            yield Record(line, None if parsed is None else {
                name: json_value(value) for name, value in parsed.items()})


def json_value(value):
    if not isinstance(value, str):
        return None
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError:
        return None


CUTTERS = {
    "usv": cut_usv,
    "csv": lambda data, longest: cut_separated(data, b",", longest),
    "tsv": lambda data, longest: cut_separated(data, b"\t", longest),
    "ndjson": cut_ndjson,
}


# ---- One input ----------------------------------------------------------------------------------


def split_header(options, data):
    """The header, or None, and the records behind it."""
    named = options.format in ("csv", "tsv") and options.header
    if named and data.startswith(b"\xef\xbb\xbf"):
        data = data[3:]
    records = list(CUTTERS[options.format](data, options.record_bytes_max))
    return (records[0], records[1:]) if named and records else (None, records)


def find_field(options, header, text):
    """What a record's values are looked up by."""
    if text is None or options.format == "ndjson":
        return text
    if re.fullmatch("[0-9]+", text):
        if header and not 1 <= int(text) <= len(header.values):
            raise Invalid(text)
        return int(text)
    numbers = [n for n, name in header.values.items() if name == text.encode()] if header else []
    if len(numbers) != 1:
        raise Invalid(text)
    return numbers[0]


def tie_of(record, header):
    """Where columns have names: by value, one column after the other in the order of the names,
    then by quotes, so that no merge changes the order by moving columns."""
    if not header:
        return record.data
    order = sorted(header.values, key=lambda number: (header.values[number], number))
    return ([record.values[number] for number in order],
            [record.quoted[number - 1] for number in order], record.data)


def read_row(options, record, header, key_field, time_field):
    """A row, or None for one that is rejected."""
    values = record.values
    if len(record.data) > options.record_bytes_max or values is None:
        return None
    if header and len(values) != len(header.values):
        return None
    key = time = None
    if key_field is not None:
        key = values.get(key_field)
        if key is None:
            return None
    if time_field is not None:
        time = instant(values.get(time_field) or b"", options.zone)
        if time is None:
            return None
    return Row(time if key is None else key, record.data, key, time, tie_of(record, header))


def read_rows(options, header, records):
    """The good rows of an input, and the records that are rejected."""
    rows, rejects = [], []
    key_field = time_field = None
    if header or records:  # else there is nothing to look a name up in
        key_field = find_field(options, header, options.key)
        time_field = find_field(options, header, options.time)
    for record in records:
        row = read_row(options, record, header, key_field, time_field)
        if row:
            rows.append(row)
        else:
            rejects.append(record.data)
    return rows, rejects


def sequence(rows):
    """The rows of an input in the order that they keep, and whether they had to be sorted."""
    fields = [row.field for row in rows]
    unsorted = fields != sorted(fields)
    return (sorted(rows, key=lambda row: (row.field, row.data)) if unsorted else rows), unsorted


# ---- The merge ----------------------------------------------------------------------------------


def merge(options, inputs):
    """The Result of merging inputs, each the bytes of a file, decompressed."""
    result = Result()
    parts = [split_header(options, data) for data in inputs]
    header = common_header([header for header, _ in parts if header])
    result.header = header.data + b"\n" if header else b""
    for _, records in parts:
        rows, rejects = read_rows(options, header, records)
        rows, unsorted = sequence(rows)
        result.rows_in += len(records)
        result.rejects += rejects
        result.sequences.append(rows)
        result.inputs_unsorted += unsorted
    rows = [row for rows in result.sequences for row in rows]
    determined = True
    if options.key is not None and options.time is not None:
        rows = latest_wins(rows)
    elif is_determined(result.sequences):
        rows = in_groups(result.sequences)
    else:
        determined = False
    if determined:
        result.output = result.header + b"".join(row.data + b"\n" for row in rows)
    result.rows_out = len(rows)
    result.rows_superseded = result.rows_in - len(result.rejects) - len(rows)
    return result


def common_header(headers):
    if any(header.data != headers[0].data for header in headers):
        raise Invalid("headers differ")
    if headers and headers[0].values is None:
        raise Invalid("a header with stray quotes")
    return headers[0] if headers else None


def latest_wins(rows):
    """One row a key, in the order of the keys."""
    best = {}
    for row in rows:
        last = best.get(row.key)
        if last is None or (row.time, row.tie) > (last.time, last.tie):
            best[row.key] = row
    return [best[key] for key in sorted(best)]


def groups(rows):
    """The records of each field value, in their order."""
    found = {}
    for row in rows:
        found.setdefault(row.field, []).append(row.data)
    return found


def is_determined(sequences):
    """Whether ties between files are decided by the records alone: wherever several files hold
    rows with one field, each has them in the order of their bytes."""
    grouped = [groups(rows) for rows in sequences]
    holders = Counter(field for found in grouped for field in found)
    return all(holders[field] == 1 or records == sorted(records)
               for found in grouped for field, records in found.items())


def in_groups(sequences):
    """All rows by field; each field's either from one file, as they stand there, or sorted."""
    together, holders = {}, Counter()
    for rows in sequences:
        holders.update({row.field for row in rows})
        for row in rows:
            together.setdefault(row.field, []).append(row)
    return [row for field in sorted(together)
            for row in (together[field] if holders[field] == 1
                        else sorted(together[field], key=lambda row: row.data))]


def split_known(body, known):
    """Cuts a file into records, of which it knows all that there can be: they may hold LF."""
    if not any(b"\n" in record for record in known):
        return body.split(b"\n")[:-1]
    records, at = [], 0
    longest_first = sorted({len(record) for record in known}, reverse=True)
    while at < len(body):
        size = next((size for size in longest_first if body[at + size:at + size + 1] == b"\n"
                     and body[at:at + size] in known), None)
        if size is None:
            return None
        records.append(body[at:at + size])
        at += size + 1
    return records


def complaint(result, output):
    """Why an output is not one that the rules allow where they leave a choice; None: it is."""
    if not output.startswith(result.header):
        return "the header is missing"
    expected = Counter(row.data for rows in result.sequences for row in rows)
    field_of = {row.data: row.field for rows in result.sequences for row in rows}
    records = split_known(output[len(result.header):], expected)
    if Counter(records) != expected:
        return "some records are missing, or too many"
    fields = [field_of[record] for record in records]
    if fields != sorted(fields):
        return "the records are not in the order of the field"
    for number, rows in enumerate(result.sequences):
        rest = iter(records)
        if not all(any(record == row.data for record in rest) for row in rows):
            return f"equal rows of input {number} changed their order"
    return None
