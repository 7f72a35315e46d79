#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""s3_fake.py: a stand-in for what a real gateway will not do on demand.

Listens on a free port of loopback, prints "port N", and serves until its input ends. The name of
the bucket in the path chooses how it behaves; see the functions below. On its input it takes

    seen METHOD BUCKET      prints how many such requests have arrived whole or in part
    reset                   forgets counts and objects
    tls FILE                serves also with this certificate and key; prints the port

It also plays the metadata endpoints of containers and instances, and STS.
"""

import datetime
import hashlib
import re
import socket
import ssl
import sys
import threading
import urllib.parse

sys.dont_write_bytecode = True  # nothing of ours in the source tree

import azure_fake
from aws_fake import assume_role, federation, token

LOCK = threading.Lock()
SEEN = {}
OBJECTS = {}
VERSIONED = set()  # of these objects, those that have a version
TLS = []


class Gone(Exception):
    """The client has closed the connection."""


class Request:
    def __init__(self, method, path, query, headers):
        self.method, self.path, self.query, self.headers = method, path, query, headers
        parts = path.split("/", 2)
        self.bucket = parts[1] if len(parts) > 1 else "proxy" if method == "CONNECT" else ""
        self.key = urllib.parse.unquote(parts[2]) if len(parts) > 2 else ""
        self.length = int(headers.get("content-length", "0"))
        self.body = b""


class Connection:
    def __init__(self, sock):
        self.sock, self.buffer, self.served = sock, bytearray(), 0
        self.shift = datetime.timedelta()  # of the dates that it tells
        self.more = {}  # headers of each reply

    def fill(self):
        data = self.sock.recv(65536)
        if not data:
            raise Gone
        self.buffer += data

    def take(self, size):
        taken = bytes(self.buffer[:size])
        del self.buffer[:size]
        return taken

    def read_head(self):
        while (end := self.buffer.find(b"\r\n\r\n")) < 0:
            self.fill()
        lines = self.take(end).decode("latin-1").split("\r\n")
        self.take(len(b"\r\n\r\n"))
        method, target, _ = lines[0].split(" ", 2)
        headers = {}
        for line in lines[1:]:
            name, value = line.split(":", 1)
            headers[name.strip().lower()] = value.strip()
        if target.startswith("http://"):  # we are its proxy
            host, _, rest = target[len("http://"):].partition("/")
            bucket = host.removesuffix("s3.invalid").rstrip(".")
            target = f"/{bucket}/{rest}" if bucket else f"/{rest}"
        path, _, query = target.partition("?")
        return Request(method, path, urllib.parse.parse_qs(query, keep_blank_values=True), headers)

    def read_body(self, request, most=None):
        wanted = request.length if most is None else min(most, request.length)
        while len(self.buffer) < wanted:
            self.fill()
        request.body = self.take(wanted)

    def send(self, data):
        self.sock.sendall(data)

    def reply(self, status, body=b"", headers=None, length=None):
        if isinstance(body, str):
            body = body.encode()
        date = now() + self.shift
        lines = [f"HTTP/1.1 {status} X", f"Date: {date:%a, %d %b %Y %H:%M:%S} GMT"]
        lines += [f"{name}: {value}" for name, value in {**self.more, **(headers or {})}.items()]
        if status != 304:
            lines.append(f"Content-Length: {len(body) if length is None else length}")
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def reset(self):
        """Closes with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        raise Gone


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def error(code, more="", message="a message"):
    return (f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>{message}</Message>'
            f"{more}</Error>")


# ---- How buckets behave -----------------------------------------------------------------------


def listing(request):
    """One page with everything, keys as they are asked for: encoded."""
    asked = request.query
    prefix, delimiter = asked.get("prefix", [""])[0], asked.get("delimiter", [""])[0]
    after = asked.get("start-after", [""])[0]
    with LOCK:
        objects = sorted((key, body) for (bucket, key), body in OBJECTS.items()
                         if bucket == request.bucket and key.startswith(prefix) and key > after)
    rows, folders = [], set()
    for key, body in objects:
        rest = key[len(prefix):]
        if delimiter and delimiter in rest:
            folders.add(prefix + rest[:rest.index(delimiter) + 1])
            continue
        rows.append(f"<Contents><Key>{urllib.parse.quote(key)}</Key><Size>{len(body)}</Size>"
                    f"<ETag>{hashlib.md5(body).hexdigest()}</ETag>"
                    "<LastModified>2026-02-06T10:00:00.000Z</LastModified></Contents>")
    rows += [f"<CommonPrefixes><Prefix>{urllib.parse.quote(folder)}</Prefix></CommonPrefixes>"
             for folder in sorted(folders)]
    return ("<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
            + "".join(rows) + "</ListBucketResult>")


def delete_many(connection, request):
    keys = re.findall("<Key>([^<]*)</Key>", request.body.decode())
    with LOCK:
        for key in keys:
            OBJECTS.pop((request.bucket, key), None)
    connection.reply(200, "<DeleteResult></DeleteResult>")


def plain(connection, request):
    """A small S3: conditions with quoted ETags, ranges, listings, deletes of one and of many."""
    if request.method == "GET" and request.key == "" and "list-type" in request.query:
        return connection.reply(200, listing(request))
    if request.method == "POST" and "delete" in request.query:
        return delete_many(connection, request)
    name = (request.bucket, request.key)
    with LOCK:
        body = OBJECTS.get(name)
        etag = f'"{hashlib.md5(body).hexdigest()}"' if body is not None else None
        match = request.headers.get("if-match")
        none_match = request.headers.get("if-none-match")
        if request.method == "PUT":
            if (none_match == "*" and body is not None) or (match and match != etag):
                status = 404 if match and body is None else 412
                code = "NoSuchKey" if status == 404 else "PreconditionFailed"
                return connection.reply(status, error(code))
            OBJECTS[name] = request.body
            etag = f'"{hashlib.md5(request.body).hexdigest()}"'
            return connection.reply(200, headers={"ETag": etag})
        if request.method == "DELETE":
            if match and match != etag:
                return connection.reply(412, error("PreconditionFailed"))
            OBJECTS.pop(name, None)
            return connection.reply(204)
    if body is None:
        return connection.reply(404, error("NoSuchKey"))
    if match and match != etag:
        return connection.reply(412, error("PreconditionFailed"))
    if none_match == etag:
        return connection.reply(304, headers={"ETag": etag})
    headers = {"ETag": etag, "Last-Modified": "Fri, 06 Feb 2026 10:00:00 GMT"}
    if (request.bucket, "versions-on") in OBJECTS:
        headers["x-amz-version-id"] = "null"
    wanted = request.headers.get("range")
    if not wanted:
        return connection.reply(200, body, headers)
    first, last = wanted[len("bytes="):].split("-")
    first, last = int(first), min(int(last) if last else len(body) - 1, len(body) - 1)
    if first >= len(body):
        return connection.reply(416, error("InvalidRange"))
    headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
    return connection.reply(206, body[first:last + 1], headers)


def silent(connection, request):
    """Takes everything, says nothing."""
    raise Gone


def half_reply(connection, request):
    """Breaks off in the middle: in the headers of a put, in the body of a get."""
    if request.method == "PUT":
        connection.send(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Le')
    else:
        connection.reply(200, b"half", {"ETag": '"x"'}, length=100)
    raise Gone


def endless(connection, request):
    """A reply that ends with the connection: whether it is whole, nobody can tell."""
    connection.send(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nConnection: close\r\n\r\nsome of it')
    raise Gone


def trailers(connection, request):
    """Replies in chunks, with headers behind the body that would be wrong before it."""
    body = b"5\r\nhello\r\n" if request.method == "GET" else b""
    connection.send(b'HTTP/1.1 200 OK\r\nETag: "right"\r\nTransfer-Encoding: chunked\r\n'
                    b"Trailer: ETag, Content-Length\r\n\r\n" + body +
                    b'0\r\nETag: "wrong"\r\nHTTP/1.1 500 No: no\r\nContent-Length: 7\r\n\r\n')


def half_refusal(connection, request):
    """A refusal whose body breaks off."""
    connection.reply(412, b"<Error><Code>Pre", length=400)
    raise Gone


def stale(connection, request):
    """Serves a connection once; of the second request it takes all, and closes."""
    if connection.served > 0:
        raise Gone
    return plain(connection, request)


def flaky(connection, request):
    """The first get of an object breaks off in the middle, the next ones do not."""
    with LOCK:
        count = SEEN.get(("GET", request.bucket), 0)
        body = OBJECTS.get((request.bucket, request.key), b"")
    if request.method == "GET" and count == 1:
        etag = f'"{hashlib.md5(body).hexdigest()}"'
        connection.reply(200, body[:len(body) // 2], {"ETag": etag}, length=len(body))
        raise Gone
    return plain(connection, request)


def whole_but_broken(connection, request):
    """The first get of an object breaks off behind its last byte."""
    with LOCK:
        count = SEEN.get(("GET", request.bucket), 0)
        body = OBJECTS.get((request.bucket, request.key), b"")
    if request.method == "GET" and count == 1:
        etag = f'"{hashlib.md5(body).hexdigest()}"'.encode()
        connection.send(b"HTTP/1.1 200 OK\r\nETag: " + etag + b"\r\nTransfer-Encoding: chunked\r\n"
                        b"\r\n%x\r\n" % len(body) + body + b"\r\n")
        raise Gone
    return plain(connection, request)


def shrinking(connection, request):
    """As whole_but_broken, but the object is a shorter one after it broke off."""
    with LOCK:
        count = SEEN.get(("GET", request.bucket), 0)
        if count == 2:
            OBJECTS[(request.bucket, request.key)] = b"short"
    return whole_but_broken(connection, request)


def changing(connection, request):
    """As flaky, but the object is another one after it broke off."""
    with LOCK:
        count = SEEN.get(("GET", request.bucket), 0)
        if count == 2:
            OBJECTS[(request.bucket, request.key)] = b"another object" * 10000
    return flaky(connection, request)


def big_error(connection, request):
    connection.reply(403, b"<html>" + b"x" * (5 << 20) + b"</html>")


def big_answer(connection, request):
    """Accepts a put with an answer nobody asked for."""
    connection.reply(200, b"x" * (5 << 20), {"ETag": '"x"'})


def large(connection, request):
    """Announces a large object, and sends no more than its start."""
    connection.send(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 1000000000\r\n\r\nabc')
    slow(connection, request)


def large_in_chunks(connection, request):
    """Sends an object that has no end."""
    connection.send(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nTransfer-Encoding: chunked\r\n\r\n')
    while True:
        connection.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


def looping(connection, request):
    connection.reply(200, "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key>"
                          "<ETag>x</ETag><Size>1</Size></Contents></ListBucketResult>")


def empty_pages(connection, request):
    connection.reply(200, "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>")


def foreign_keys(connection, request):
    connection.reply(200, "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>zzz"
                          "</Key><ETag>x</ETag><Size>1</Size></Contents></ListBucketResult>")


def cut_listing(connection, request):
    connection.reply(200, "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</K")


def redirect(connection, request):
    connection.reply(301, error("PermanentRedirect", "<Endpoint>b.s3.example.com</Endpoint>"),
                     {"Location": "http://b.s3.example.com/"})


def other_region(connection, request):
    connection.reply(301, error("PermanentRedirect"), {"x-amz-bucket-region": "eu-central-1"})


def malformed_region(connection, request):
    connection.reply(400, error("AuthorizationHeaderMalformed", "<Region>eu-west-1</Region>"))


def skewed(connection, request):
    connection.reply(403, error("RequestTimeTooSkewed",
                                "<ServerTime>2001-02-03T04:05:06Z</ServerTime>"))


def is_skewed(request):
    """Whether it was signed more than 15 minutes from now."""
    signed = datetime.datetime.strptime(request.headers["x-amz-date"] + "+0000", "%Y%m%dT%H%M%SZ%z")
    return abs(now() - signed) > datetime.timedelta(minutes=15)


def whole(connection, request):
    """As plain, with listings: as much of S3 as the program needs."""
    if request.method == "POST":
        return connection.reply(501, error("NotImplemented"))
    if request.method != "GET" or "list-type" not in request.query:
        return plain(connection, request)
    with LOCK:
        keys = sorted(key for bucket, key in OBJECTS if bucket == request.bucket)
    return names(connection, request, keys)


def clocked(connection, request):
    """Refuses what was signed at another time than now, as S3 does."""
    if is_skewed(request):
        server_time = f"<ServerTime>{now():%Y-%m-%dT%H:%M:%SZ}</ServerTime>"
        return connection.reply(403, error("RequestTimeTooSkewed", server_time))
    return whole(connection, request)


def clocked_tersely(connection, request):
    """The same without a word of time."""
    if is_skewed(request):
        return connection.reply(403, error("AccessDenied"))
    return whole(connection, request)


def wrong_dates(connection, request):
    """The same behind a proxy that dates replies by a wrong clock of its own."""
    connection.shift = datetime.timedelta(days=365)
    if is_skewed(request):
        return connection.reply(403, error("RequestTimeTooSkewed"))
    return whole(connection, request)


def old_dates(connection, request):
    """The same behind a cache that answers with what it kept a year ago."""
    if is_skewed(request):
        return connection.reply(403, error("RequestTimeTooSkewed"))
    connection.shift = datetime.timedelta(days=-365)
    return connection.reply(200, b"old", {"ETag": '"x"', "Age": str(365 * 86400)})


def slow(connection, request):
    """Answers nothing for as long as the client waits."""
    while True:
        connection.fill()


def drip(connection, request):
    """Begins a reply and never ends it."""
    connection.send(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 10\r\n\r\nabc')
    slow(connection, request)


def slowdown(connection, request):
    """Throttles twice, then works."""
    with LOCK:
        count = SEEN[(request.method, request.bucket)]
    if count <= 2:
        return connection.reply(503, error("SlowDown"))
    return plain(connection, request)


def always_500(connection, request):
    connection.reply(500, error("InternalError"))


def not_implemented(connection, request):
    connection.reply(501, error("NotImplemented"))


def conflict_409(connection, request):
    connection.reply(409, error("ConditionalRequestConflict"))


def busy_409(connection, request):
    """Another request for the object is in progress when the first two writes arrive."""
    with LOCK:
        count = SEEN.get((request.method, request.bucket), 0)
    if request.method != "GET" and count <= 2:
        return connection.reply(409, error("ConditionalRequestConflict"))
    return plain(connection, request)


def gone_404(connection, request):
    connection.reply(404, error("NoSuchKey"))


def no_bucket(connection, request):
    connection.reply(404, error("NoSuchBucket"))


def not_s3(connection, request):
    connection.reply(404, "<html>nothing here</html>")


def unsigned_only(connection, request):
    """Takes a body only if it was not hashed for the signature."""
    if request.headers.get("x-amz-content-sha256") != "UNSIGNED-PAYLOAD":
        return connection.reply(400, error("InvalidArgument"))
    return plain(connection, request)


def denied(connection, request):
    connection.reply(403, error("AccessDenied"))


def bad_key(connection, request):
    connection.reply(403, error("InvalidAccessKeyId"))


def bad_secret(connection, request):
    connection.reply(403, error("SignatureDoesNotMatch"))


def parrot(connection, request):
    """Repeats all that it was sent."""
    said = " ".join(f"{name}={value}" for name, value in request.headers.items()
                    if name.startswith("x-amz-s"))
    connection.reply(400, error("Parrot", message=said))


def bad_digest(connection, request):
    connection.reply(400, error("BadDigest"))


def throttled_429(connection, request):
    connection.reply(429, error("TooManyRequests"))


def no_etag(connection, request):
    connection.reply(200, b"body" if request.method == "GET" else b"")


def aged(connection, request):
    connection.reply(200, b"old", {"ETag": '"x"', "Age": "12"})


def bare_only(connection, request):
    """Takes If-Match of a put without quotes only, as Ceph does."""
    match = request.headers.get("if-match", "")
    if request.method == "PUT" and match:
        if match.startswith('"'):
            return connection.reply(412, error("PreconditionFailed"))
        request.headers["if-match"] = f'"{match}"'
    return plain(connection, request)


def never_matches(connection, request):
    if request.method == "PUT" and "if-match" in request.headers:
        return connection.reply(412, error("PreconditionFailed"))
    return plain(connection, request)


def uploads(connection, request):
    """Multipart uploads; the key says what goes wrong: "part", "complete", "refuse" or nothing."""
    if request.method == "POST" and "uploads" in request.query:
        return connection.reply(200, "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
                                     "</InitiateMultipartUploadResult>")
    if request.method == "PUT" and request.key == "part":
        return connection.reply(400, error("InvalidArgument"))
    if request.method == "PUT":
        return connection.reply(200, headers={"ETag": f'"{request.query["partNumber"][0]}"'})
    if request.method == "DELETE":
        return connection.reply(204)
    if request.key == "complete":
        return connection.reply(200, "  \n" + error("InternalError"))
    if request.key == "refuse":
        return connection.reply(400, error("InvalidPart"))
    return connection.reply(200, '<?xml version="1.0"?><CompleteMultipartUploadResult>'
                                 "<ETag>&quot;whole-1&quot;</ETag></CompleteMultipartUploadResult>")


def late_uploads(connection, request):
    """A small S3 with conditional uploads of one part. The first completion gets no proper answer."""
    if "uploads" in request.query:
        return connection.reply(200, "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
                                     "</InitiateMultipartUploadResult>")
    if "uploadId" not in request.query:
        return plain(connection, request)
    if request.method != "POST":
        return connection.reply(200 if request.method == "PUT" else 204, headers={"ETag": '"1"'})
    with LOCK:
        first = (request.bucket, "completed") not in OBJECTS
        OBJECTS[(request.bucket, "completed")] = b""
        body = OBJECTS.get((request.bucket, request.key))
        etag = f'"{hashlib.md5(body).hexdigest()}"' if body is not None else None
        if first:
            return connection.reply(500, error("InternalError"))
        if etag and request.headers.get("if-none-match") == "*" or request.headers.get("if-match", etag) != etag:
            return connection.reply(412, error("PreconditionFailed"))
        OBJECTS[(request.bucket, request.key)] = request.body
    return connection.reply(200, "<CompleteMultipartUploadResult><ETag>"
                                 f"{hashlib.md5(request.body).hexdigest()}</ETag></CompleteMultipartUploadResult>")


def deletes(connection, request):
    """A multi-object delete that leaves the key "kept"; single ones work."""
    if request.method == "POST":
        return connection.reply(200, "<DeleteResult><Error><Key>kept</Key><Code>AccessDenied</Code>"
                                     "<Message>no</Message></Error></DeleteResult>")
    return connection.reply(204)


def no_multi_delete(connection, request):
    if request.method == "POST":
        return connection.reply(501, error("NotImplemented"))
    return connection.reply(204)


def forgets(connection, request):
    """Accepts every put, and has nothing afterwards."""
    if request.method == "PUT":
        return connection.reply(200, headers={"ETag": '"x"'})
    return connection.reply(404, error("NoSuchKey"))


def escapes(connection, request):
    """Sends a terminal's control sequence where its own address should stand."""
    connection.reply(301, headers={"Location": "http://\x1b]0;owned\x07/"})


def only_100(connection, request):
    """Takes the request, says that one may go on, and closes."""
    connection.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    raise Gone


def timeout_408(connection, request):
    """As a load balancer says it: without a body."""
    connection.reply(408)


def unmodified_304(connection, request):
    """How some stores refuse a put with If-None-Match."""
    connection.reply(304, headers={"ETag": '"x"'})


def unmodified_rest(connection, request):
    """Breaks off in the middle of an object, and answers the request for the rest as if it compared versions."""
    if "range" in request.headers:
        return unmodified_304(connection, request)
    return half_reply(connection, request)


def wrong_range(connection, request):
    """Answers every range with the first bytes of the object."""
    connection.reply(206, b"0123", {"ETag": '"x"', "Content-Range": "bytes 0-3/10"})


def short_range(connection, request):
    """Answers a range with less than was asked for."""
    connection.reply(206, b"45", {"ETag": '"x"', "Content-Range": "bytes 4-5/10"})


def strange_headers(connection, request):
    """Accepts a get that has a header nobody meant to send."""
    if "x-injected" in request.headers:
        return connection.reply(200, b"injected", {"ETag": '"x"'})
    return connection.reply(412, error("PreconditionFailed"))


def names(connection, request, keys, most=1000):
    """One page of a listing of these keys, as S3 makes it."""
    ask = {name: values[0] for name, values in request.query.items()}
    prefix, after, delimiter = (ask.get(n, "") for n in ("prefix", "start-after", "delimiter"))
    most = min(most, int(ask["max-keys"]))
    entries = []
    for key in keys:
        if not key.startswith(prefix) or key <= after:
            continue
        cut = key.find(delimiter, len(prefix)) if delimiter else -1
        entry = (True, key[:cut + 1]) if cut >= 0 else (False, key)
        if entry not in entries:
            entries.append(entry)
    xml = "".join(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" if group else
                  f"<Contents><Key>{name}</Key><ETag>x</ETag><Size>1</Size></Contents>"
                  for group, name in entries[:most])
    cut = "true" if len(entries) > most else "false"
    connection.reply(200, f"<ListBucketResult><IsTruncated>{cut}</IsTruncated>{xml}"
                          "</ListBucketResult>")


def folders(connection, request):
    """Objects below p/, and the empty one "p/" that consoles make for a folder."""
    names(connection, request, ["p/", "p/a", "p/b/1", "p/b/2", "p/c"])


def short_pages(connection, request):
    """200 keys, one a page whatever was asked for."""
    names(connection, request, [f"k{i:03}" for i in range(200)], most=1)


def unordered(connection, request):
    """Lists in an order of its own, as directory buckets do."""
    names(connection, request, ["b", "c", "a"])


def rules(connection, request):
    """A bucket with two lifecycle rules, the second one switched on."""
    if "lifecycle" in request.query:
        return connection.reply(200, "<LifecycleConfiguration><Rule><Status>Disabled</Status></Rule>"
                                     "<Rule><Status>Enabled</Status></Rule>"
                                     "</LifecycleConfiguration>")
    return connection.reply(404, error("NoSuchConfiguration"))


def deletes_other(connection, request):
    """A multi-object delete that failed for a key under another spelling."""
    return connection.reply(200, "<DeleteResult><Error><Key>K%65pt</Key><Code>AccessDenied</Code>"
                                 "<Message>no</Message></Error></DeleteResult>")


def late_versions(connection, request):
    """A bucket that begins to keep versions, and then ignores conditions, when the object "switch" is put. Its
    settings may not be read."""
    name = (request.bucket, request.key)
    if "versioning" in request.query:
        return connection.reply(403, error("AccessDenied"))
    with LOCK:
        on = (request.bucket, "switch") in OBJECTS
        if on and request.method == "PUT":
            VERSIONED.add(name)
        connection.more = {"x-amz-version-id": "v1"} if name in VERSIONED else {}
    if on:
        request.headers.pop("if-match", None)
        request.headers.pop("if-none-match", None)
    return plain(connection, request)


def refusing_versions(connection, request):
    """A bucket that refuses each put with If-Match, as Ceph 16 does, once it keeps versions. Its settings may be
    read, unless the object "secret" was put."""
    with LOCK:
        on = (request.bucket, "switch") in OBJECTS
        secret = (request.bucket, "secret") in OBJECTS
    if "versioning" in request.query and secret:
        return connection.reply(403, error("AccessDenied"))
    if "versioning" in request.query:
        return connection.reply(200, "<VersioningConfiguration>"
                                     f"{'<Status>Enabled</Status>' if on else ''}</VersioningConfiguration>")
    if on and request.method == "PUT" and "if-match" in request.headers:
        return connection.reply(412, error("PreconditionFailed"))
    return plain(connection, request)


def told_versions(connection, request):
    """The same where the settings may be read."""
    if "versioning" not in request.query:
        return late_versions(connection, request)
    with LOCK:
        on = (request.bucket, "switch") in OBJECTS
    connection.more = {}
    status = "<Status>Enabled</Status>" if on else ""
    return connection.reply(200, f"<VersioningConfiguration>{status}</VersioningConfiguration>")


def azure_pages(connection, request):
    """Blobs, and listings with the markers of Azure."""
    if request.query.get("comp") != ["list"]:
        return plain(connection, request)
    with LOCK:
        keys = [key.partition("/")[2] for bucket, key in OBJECTS if bucket == request.bucket]
    return connection.reply(200, azure_fake.listing(request, keys))


def azure_blocks(connection, request):
    """Takes blocks, and knows none of them when it gets the list."""
    if request.query.get("comp") == ["blocklist"]:
        return connection.reply(400, error("InvalidBlockList"))
    return connection.reply(201)


def azure_busy(connection, request):
    """Takes blocks, and fails with their list."""
    return connection.reply(503 if request.query.get("comp") == ["blocklist"] else 201)


# ---- Where credentials come from --------------------------------------------------------------


def credentials_json(name):
    return (f'{{"Code": "Success", "AccessKeyId": "{name}", "SecretAccessKey": "secret-of-{name}",'
            f' "Token": "token-of-{name}", "Expiration": "2038-01-01T00:00:00Z"}}')


def ecs(connection, request):
    if request.headers.get("authorization") != "Bearer container":
        return connection.reply(401, "{}")
    return connection.reply(200, credentials_json("container"))


def soon(connection, request):
    """Credentials that end in a minute: good, but to be fetched again at the next chance."""
    with LOCK:
        count = SEEN[("GET", "soon")]
    ends = now() + datetime.timedelta(seconds=60)
    return connection.reply(200, f'{{"AccessKeyId": "soon-{count}", "SecretAccessKey": "s",'
                                 f' "Token": "t", "Expiration": "{ends:%Y-%m-%dT%H:%M:%SZ}"}}')


def instance(connection, request):
    """Version 2 only: a token by PUT, then the role, then its keys."""
    path = request.path[len("/latest"):]
    if request.method == "PUT" and path == "/api/token":
        if request.headers.get("x-aws-ec2-metadata-token-ttl-seconds") != "21600":
            return connection.reply(400)
        return connection.reply(200, "session-token")
    if request.headers.get("x-aws-ec2-metadata-token") != "session-token":
        return connection.reply(401)
    if path == "/meta-data/iam/security-credentials/":
        return connection.reply(200, "my-role\n")
    if path == "/meta-data/iam/security-credentials/my-role":
        return connection.reply(200, credentials_json("instance"))
    return connection.reply(404)


def sts(connection, request):
    form = urllib.parse.parse_qs(request.body.decode())
    if form.get("Action") == ["AssumeRole"]:
        return assume_role(connection, request, form, is_skewed(request))
    if (form.get("Action") != ["AssumeRoleWithWebIdentity"]
            or form.get("WebIdentityToken") != ["identity+token/="]
            or form.get("RoleArn") != ["arn:aws:iam::1:role/r"]):
        return connection.reply(400, "<ErrorResponse><Error><Code>InvalidIdentityToken</Code>"
                                     "</Error></ErrorResponse>")
    return connection.reply(200, "<AssumeRoleWithWebIdentityResponse>"
                                 "<AssumeRoleWithWebIdentityResult><Credentials>"
                                 "<AccessKeyId>web</AccessKeyId>"
                                 "<SecretAccessKey>secret-of-web</SecretAccessKey>"
                                 "<SessionToken>token-of-web</SessionToken>"
                                 "<Expiration>2038-01-01T00:00:00Z</Expiration></Credentials>"
                                 "</AssumeRoleWithWebIdentityResult>"
                                 "</AssumeRoleWithWebIdentityResponse>")


def who(connection, request):
    """Lets in only what carries the session token of its own access key, and has it signed."""
    authorization = request.headers.get("authorization", "")
    name = authorization.partition("Credential=")[2].partition("/")[0]
    token = request.headers.get("x-amz-security-token", "none")
    if token != f"token-of-{name}" or ";x-amz-security-token" not in authorization:
        return connection.reply(403, error("AccessDenied", message=f"{name} {token}"))
    return connection.reply(204)


BEHAVIOURS = {
    function.__name__.replace("_", "-"): function
    for function in (
        plain, silent, half_reply, endless, half_refusal, stale, flaky, whole_but_broken, shrinking, changing,
        big_error, big_answer,
        looping, empty_pages, foreign_keys, cut_listing, redirect, other_region, malformed_region,
        skewed, slow, drip, slowdown, always_500, not_implemented, conflict_409, busy_409, gone_404,
        no_bucket, not_s3, unsigned_only, denied, bad_key, bad_secret, bad_digest, throttled_429, no_etag, aged,
        bare_only, never_matches, uploads, late_uploads, deletes, no_multi_delete, ecs, soon, sts, federation, token, who, forgets,
        only_100, timeout_408, unmodified_304, unmodified_rest, wrong_range, short_range, strange_headers,
        folders, short_pages, unordered, rules, deletes_other, escapes, whole, clocked, clocked_tersely,
        wrong_dates, old_dates, trailers, large, large_in_chunks,
        parrot, late_versions, refusing_versions, told_versions, azure_pages, azure_blocks, azure_busy)
}
BEHAVIOURS["latest"] = instance


def serve(sock):
    connection = Connection(sock)
    try:
        while True:
            request = connection.read_head()
            with LOCK:
                seen = (request.method, request.bucket)
                SEEN[seen] = SEEN.get(seen, 0) + 1
            if request.method == "CONNECT":  # we are the proxy of what the port with TLS serves
                connection.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
                serve(TLS[-1].wrap_socket(sock, server_side=True))
                return
            if request.bucket == "cut-mid-body":
                connection.read_body(request, request.length // 4)
                connection.reset()
            connection.read_body(request)
            BEHAVIOURS[request.bucket](connection, request)
            connection.served += 1
    except (Gone, OSError):
        pass
    finally:
        sock.close()


def serve_tls(sock, tls):
    try:
        serve(tls.wrap_socket(sock, server_side=True))
    except OSError:
        sock.close()


def accept(listener, tls):
    while True:
        sock, _ = listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        function, arguments = (serve_tls, (sock, tls)) if tls else (serve, (sock,))
        threading.Thread(target=function, args=arguments, daemon=True).start()


def listen(tls=None):
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    threading.Thread(target=accept, args=(listener, tls), daemon=True).start()
    return listener.getsockname()[1]


def main():
    print(f"port {listen()}", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "tls":
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(words[1])
            TLS.append(tls)
            print(listen(tls), flush=True)
        elif words[0] == "reset":
            with LOCK:
                SEEN.clear()
                OBJECTS.clear()
                VERSIONED.clear()
            print("done", flush=True)
        else:
            with LOCK:
                print(SEEN.get((words[1], words[2]), 0), flush=True)


if __name__ == "__main__":
    main()
