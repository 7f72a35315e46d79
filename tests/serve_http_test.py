#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_http_test.py: hostile and unlucky clients of the HTTP server (src/serve/http).

    serve_http_test.py [requests|clients|tls]

Every case starts a server of its own (tests/serve_http_server.c) or shares one with harmless limits; after
each, the server must still answer. Prints TAP.
"""

import concurrent.futures
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import warnings

from serve_http_kit import Reply, Server, get, read_all, receive, reset
from tap_kit import end, say, tell, took

KIB = 1024
MIB = 1024 * KIB
# A sanitizer keeps freed memory for a while.
SLACK = 5 if "san" in os.path.basename(os.environ.get("HOLDFAST_BUILD", "")) else 1
SMUGGLED = b"GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n"
cases = {"requests": [], "clients": [], "tls": []}
folder = tempfile.mkdtemp(prefix="holdfast-http-")


def it(sentence, *arguments, group="clients", **options):
    """A case with a server of its own."""

    def register(function):
        def run():
            begun, problem = time.monotonic(), ""
            server = Server(folder, *arguments, **options)
            try:
                problem = function(server) or ""
                alive = server.process.poll() is not None or server.ask("/ok").status == 200
                problem = problem or ("" if alive else "the server does not answer any more")
            except Exception as error:  # a case that breaks off has failed
                problem = f"{type(error).__name__}: {error}"
            status = server.stop()
            problem = problem or ("" if status == 0 else f"the server ended with {status}")
            tell(not problem, sentence, problem)
            if time.monotonic() - begun > 3:
                took("that case", begun)

        cases[group].append(run)
        return function

    return register


# ---- Requests that are refused, and such that are not -------------------------------------------

POST = "POST /echo HTTP/1.1\r\nHost: localhost\r\n"
REFUSED = [
    # (what is wrong, bytes, status)
    ("both lengths", POST + "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX", 400),
    ("both lengths, the other way round",
     POST + "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\nX", 400),
    ("two lengths", POST + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400),
    ("the same length twice", POST + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
    ("a list of lengths", POST + "Content-Length: 5, 5\r\n\r\nhello", 400),
    ("a length with a sign", POST + "Content-Length: +5\r\n\r\nhello", 400),
    ("a negative length", POST + "Content-Length: -5\r\n\r\nhello", 400),
    ("a hexadecimal length", POST + "Content-Length: 0x5\r\n\r\nhello", 400),
    ("a length with a space in it", POST + "Content-Length: 5 5\r\n\r\nhello", 400),
    ("an empty length", POST + "Content-Length:\r\n\r\nhello", 400),
    ("a length of 2^64 + 5", POST + "Content-Length: 18446744073709551621\r\n\r\nhello", 413),
    ("a length of 1 GiB", POST + "Content-Length: 1073741824\r\n\r\n", 413),
    ("1 GiB with 100-continue", POST + "Expect: 100-continue\r\nContent-Length: 1073741824\r\n\r\n", 413),
    ("another expectation", POST + "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello", 417),
    ("two transfer encodings", POST + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400),
    ("an unknown transfer encoding", POST + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
    ("a transfer encoding that is almost chunked", POST + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
    ("chunked twice", POST + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 501),
    ("a vertical tab before chunked", POST + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    ("a transfer encoding in HTTP/1.0",
     "POST /echo HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
]
CHUNKED = POST + "Transfer-Encoding: chunked\r\n\r\n"
REFUSED += [
    ("a chunk without a size", CHUNKED + "\r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk size with 0x", CHUNKED + "0x5\r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk size with a sign", CHUNKED + "+5\r\nhello\r\n0\r\n\r\n", 400),
    ("a negative chunk size", CHUNKED + "-5\r\nhello\r\n0\r\n\r\n", 400),
    ("a space after a chunk size", CHUNKED + "5 \r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk extension", CHUNKED + "5;a=b\r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk extension that hides a line", CHUNKED + "5;\nxx\r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk size that ends with LF", CHUNKED + "5\nhello\r\n0\r\n\r\n", 400),
    ("a chunk size that ends with CR", CHUNKED + "5\rhello\r\n0\r\n\r\n", 400),
    ("a chunk that is longer than its size", CHUNKED + "5\r\nhelloX\r\n0\r\n\r\n", 400),
    ("a chunk that is followed by other bytes", CHUNKED + "5\r\nhelloXX0\r\n\r\n", 400),
    ("a chunk that ends with LF", CHUNKED + "5\r\nhello\n0\r\n\r\n", 400),
    ("a chunk size of nine digits", CHUNKED + "000000005\r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk size that overflows", CHUNKED + "10000000000000005\r\nhello\r\n0\r\n\r\n", 400),
    ("a chunk of 2 GiB", CHUNKED + "80000000\r\n", 413),
    ("a trailer", CHUNKED + "5\r\nhello\r\n0\r\nX: y\r\n\r\n", 400),
    ("a last chunk that ends with LF", CHUNKED + "0\r\n\n", 400),
    ("a folded header", "GET /ok HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400),
    ("a header folded with a tab", "GET /ok HTTP/1.1\r\nHost: x\r\nX: a\r\n\tb\r\n\r\n", 400),
    ("a folded transfer encoding", POST + "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
    ("a first header that begins with a space", "GET /ok HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    ("a space before a colon", POST + "Content-Length : 5\r\n\r\nhello", 400),
    ("a tab before a colon", POST + "Content-Length\t: 5\r\n\r\nhello", 400),
    ("a header without a colon", "GET /ok HTTP/1.1\r\nHost: x\r\nnothing\r\n\r\n", 400),
    ("a header without a name", "GET /ok HTTP/1.1\r\nHost: x\r\n: y\r\n\r\n", 400),
    ("a name with a bracket", "GET /ok HTTP/1.1\r\nHost: x\r\nA(b): y\r\n\r\n", 400),
    ("a name with a NUL", "GET /ok HTTP/1.1\r\nHost: x\r\nA\0b: y\r\n\r\n", 400),
    ("a value with a NUL", "GET /ok HTTP/1.1\r\nHost: x\r\nA: y\0z\r\n\r\n", 400),
    ("a value with a CR", "GET /ok HTTP/1.1\r\nHost: x\r\nA: y\rB: z\r\n\r\n", 400),
    ("lines that end with LF alone", "GET /ok HTTP/1.1\nHost: x\n\n", 400),
    ("one line that ends with LF alone", "GET /ok HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
    ("an end of the head with LF alone", "GET /ok HTTP/1.1\r\nHost: x\r\n\n", 400),
    ("lines that end with CR alone", "GET /ok HTTP/1.1\rHost: x\r\r\n\r\n", 400),
    ("CR CR LF", "GET /ok HTTP/1.1\r\r\nHost: x\r\n\r\n", 400),
    ("two empty lines first", "\r\n\r\nGET /ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("HTTP/0.9", "GET /ok\r\n\r\n", 400),
    ("HTTP/2.0", "GET /ok HTTP/2.0\r\nHost: x\r\n\r\n", 505),
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("HTTP/1.2", "GET /ok HTTP/1.2\r\nHost: x\r\n\r\n", 505),
    ("HTTP/1.10", "GET /ok HTTP/1.10\r\nHost: x\r\n\r\n", 400),
    ("HTTP/01.1", "GET /ok HTTP/01.1\r\nHost: x\r\n\r\n", 400),
    ("http/1.1 in small letters", "GET /ok http/1.1\r\nHost: x\r\n\r\n", 400),
    ("another protocol", "GET /ok ICE/1.1\r\nHost: x\r\n\r\n", 400),
    ("two spaces", "GET  /ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a tab between the parts", "GET\t/ok\tHTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a space at the end of the line", "GET /ok HTTP/1.1 \r\nHost: x\r\n\r\n", 400),
    ("an unknown method", "BREW /ok HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    ("CONNECT", "CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n", 501),
    ("TRACE", "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", 501),
    ("a method in small letters", "get /ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a method with a NUL", "GE\0T /ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("no Host", "GET /ok HTTP/1.1\r\n\r\n", 400),
    ("two Hosts", "GET /ok HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
    ("a Host with a path", "GET /ok HTTP/1.1\r\nHost: x/y\r\n\r\n", 400),
    ("a Host with a user", "GET /ok HTTP/1.1\r\nHost: a@x\r\n\r\n", 400),
    ("a URL with another host", "GET http://a/ok HTTP/1.1\r\nHost: b\r\n\r\n", 400),
    ("a URL with a user", "GET http://u@b/ok HTTP/1.1\r\nHost: b\r\n\r\n", 400),
    ("a URL of another scheme", "GET ftp://b/ok HTTP/1.1\r\nHost: b\r\n\r\n", 400),
    ("a path without a slash", "GET ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path with ..", "GET /a/../ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path with %2e%2E", "GET /a/%2e%2E/ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path with .", "GET /./ok HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path with %00", "GET /ok%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path with half an escape", "GET /ok%4 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path with a wrong escape", "GET /ok%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path that is not UTF-8", "GET /ok%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("an overlong slash", "GET /ok%c0%af HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a backslash", "GET /ok\\x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a fragment", "GET /ok#x HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("bytes above ASCII in a path", "GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a query that is not UTF-8", "GET /ok?a=%80 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a query with %00", "GET /ok?a=%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("65 parameters", "GET /ok?" + "&".join("abc"[i % 3] for i in range(65)) + " HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("65 segments", "GET " + "/a" * 65 + " HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    ("a path of 100 KiB", "GET /" + "a" * 100 * KIB + " HTTP/1.1\r\nHost: x\r\n\r\n", 414),
    ("a header of 100 KiB", "GET /ok HTTP/1.1\r\nHost: x\r\nA: " + "b" * 100 * KIB + "\r\n\r\n", 431),
    ("101 headers", "GET /ok HTTP/1.1\r\n" + "Host: x\r\n" + "A: b\r\n" * 100 + "\r\n", 431),
    ("100,000 headers", "GET /ok HTTP/1.1\r\nHost: x\r\n" + "A: b\r\n" * 100000 + "\r\n", 431),
    ("Authorization twice", "GET /ok HTTP/1.1\r\nHost: x\r\nAuthorization: a\r\nauthorization: b\r\n\r\n", 400),
    ("the caller's header twice", "GET /ok HTTP/1.1\r\nHost: x\r\nX-Lease-ID: a\r\nX-LEASE-ID: b\r\n\r\n", 400),
    ("TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    ("binary rubbish", "\x00\xff\xfe\r\n\r\n", 400),
]

ACCEPTED = [
    # (what, bytes, status, words that the reply must contain)
    ("a body by its length", POST + "Content-Length: 5\r\n\r\nhello", "hello"),
    ("a body in chunks", CHUNKED + "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", "hello world"),
    ("chunk sizes in either case, with zeros", CHUNKED + "0000000A\r\n0123456789\r\n00b\r\nabcdefghijk\r\n0\r\n\r\n", "0123456789abcdefghijk"),
    ("Chunked with a capital", POST + "Transfer-Encoding: Chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", "x"),
    ("an empty body in chunks", CHUNKED + "0\r\n\r\n", ""),
    ("one empty line first", "\r\nGET /ok HTTP/1.1\r\nHost: x\r\n\r\n", "ok"),
    ("an empty value, and spaces around one", "GET /describe HTTP/1.1\r\nHost: x\r\nA:\r\nB:  \t c d \t\r\n\r\n", "header A=\nheader B=c d\n"),
    ("a name without spaces before its value", "GET /describe HTTP/1.1\r\nHost:x\r\n\r\n", "host x\n"),
    ("a URL with the same host", "GET http://X:1/describe?a HTTP/1.1\r\nHost: x:1\r\n\r\n", "path /describe\n"),
    ("a URL without a path", "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n", "there is no such thing"),
    ("HTTP/1.0 without a Host", "GET /describe HTTP/1.0\r\n\r\n", "host \n"),
    ("escapes in a path", "GET /describe/a%20b%2Fc/%C3%A4/ HTTP/1.1\r\nHost: x\r\n\r\n", "segment describe\nsegment a b/c\nsegment ä\nsegment \n"),
    ("a query", "GET /describe?a=1&b=%26+%2B&&c&a=2&d==e?f HTTP/1.1\r\nHost: x\r\n\r\n", "parameter a=1\nparameter b=& +\nparameter c=\nparameter a=2\nparameter d==e?f\n"),
    ("100 headers", "GET /ok HTTP/1.1\r\nHost: x\r\n" + "A: b\r\n" * 99 + "\r\n", "ok"),
    ("bytes above ASCII in a value", "GET /ok HTTP/1.1\r\nHost: x\r\nA: \xe4\r\n\r\n", "ok"),
    ("an offer to upgrade, which is not taken", "GET /ok HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "ok"),
    ("Accept twice", "GET /ok HTTP/1.1\r\nHost: x\r\nAccept: a\r\nAccept: b\r\n\r\n", "ok"),
]


def refused(server, what, data, status, pieces):
    """It must get exactly one reply, the refusal, and a close: nothing after it is a request."""
    data = data.encode("latin-1") + SMUGGLED
    with server.connect() as link:
        try:
            for part in pieces(data):
                link.sendall(part)
        except ConnectionError:
            pass  # it was refused before all was sent
        reply = Reply.read(link)
        more = reply.rest + read_all(link)
    if reply.status != status or reply.headers.get("connection") != "close" or more:
        return f"{what}: {reply.status} instead of {status}, then {more[:80]}\n"
    return ""


def in_one(data):
    yield data


def in_bytes(data):
    """Byte by byte, as far as that is bearable."""
    for i in range(min(len(data), 300)):
        yield data[i:i + 1]
    if len(data) > 300:
        yield data[300:]


@it("each of the malformed requests is refused, and nothing after it is taken for a request", group="requests")
def malformed(server):
    problems = "".join(refused(server, *row, in_one) for row in REFUSED)
    return problems or ("" if server.figures()["under_way"] == 1 else "requests are left")


@it("the same, sent byte by byte", group="requests")
def malformed_slowly(server):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return "".join(pool.map(lambda row: refused(server, *row, in_bytes), REFUSED))


@it("each of the unusual requests is accepted, whole and byte by byte", group="requests")
def unusual(server):
    problems = ""
    for what, data, words in ACCEPTED:
        for pieces in (in_one, in_bytes):
            with server.connect() as link:
                for part in pieces(data.encode("latin-1")):
                    link.sendall(part)
                reply = Reply.read(link)
            if reply.status not in (200, 404) or words not in reply.text:
                problems += f"{what}: {reply.status} {reply.body[:200]}\n"
    return problems


@it("a body of 1 GiB in chunks is refused when it is too large, and memory stays flat", "body_bytes=1048576", group="requests")
def endless_body(server):
    before = server.memory()
    with server.connect() as link:
        link.sendall(CHUNKED.encode())
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        sent = 0
        try:
            for _ in range(16384):
                link.sendall(chunk)
                sent += len(chunk)
        except ConnectionError:
            pass
    grown = server.memory() - before
    if sent > 64 * MIB or grown > 8 * MIB * SLACK:
        return f"{sent} bytes were taken, memory grew by {grown}"
    return ""


@it("a refusal reaches a client that is still sending", "linger_ms=5000", group="requests")
def refusal_is_read(server):
    with server.connect() as link:
        link.sendall(get("/echo", "Content-Length: 70000000", verb="POST"))
        for _ in range(4):
            time.sleep(0.1)
            link.sendall(b"x" * 65536)  # fails if the server has closed
        reply = Reply.read(link)
    return "" if reply.status == 413 else f"{reply.status}"


@it("100-continue is answered before the body, and only then", group="requests")
def expectation(server):
    with server.connect() as link:
        link.sendall(get("/echo", "Expect: 100-continue", "Content-Length: 5", verb="POST"))
        first = link.recv(100)
        link.sendall(b"hello")
        reply = Reply.read(link)
        link.sendall(get("/echo", "Expect: 100-continue", "Content-Length: 5", verb="POST", body=b"hello"))
        second = Reply.read(link)
    if first != b"HTTP/1.1 100 Continue\r\n\r\n" or reply.body != b"hello" or second.status != 200:
        return f"{first} {reply.status} {second.status}"
    return ""


LARGE = 100 * KIB  # more than limits.small_bytes
IN_CHUNKS = "Transfer-Encoding: chunked"


@it("a client whose request the handler does not want is told before its large body is read", group="requests")
def denied_body(server):
    problems = ""
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    for what, header, body in (("announced", f"Content-Length: {64 * MIB}", b""),
                               ("begun", f"Content-Length: {LARGE}", SMUGGLED * 100),
                               ("in chunks", IN_CHUNKS, chunk * 3), ("in one chunk", IN_CHUNKS, b"4000000\r\n")):
        with server.connect() as link:
            link.sendall(get("/denied", header, "Expect: 100-continue", verb="POST", body=body))
            reply = Reply.read(link)
            if reply.status == 100:  # the first chunk was small
                reply = Reply.read(link, reply.rest)
            more = reply.rest + read_all(link)
        if (reply.status, reply.body, more) != (401, b"without a token", b""):
            problems += f"{what}: {reply.status} {reply.body} {more[:80]}\n"
    with server.connect() as link:
        link.sendall(get("/denied", "Content-Length: 65536", verb="POST", body=b"x" * 65536))
        small = Reply.read(link).status
    figures = server.figures()
    good = small == 404 and figures["under_way"] == 1 and figures["buffered_bytes"] < 64 * KIB
    return problems or ("" if good else f"{small} {figures}")


@it("a handler bounds the body that it wants, announced or in chunks", group="requests")
def bounded_body(server):
    statuses = []
    for size in (LARGE, LARGE + 1):
        body = b"x" * size
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in
                          (body[i:i + 30000] for i in range(0, size, 30000))) + b"0\r\n\r\n"
        for header, sent in ((f"Content-Length: {size}", body), (IN_CHUNKS, chunks)):
            with server.connect() as link:
                link.sendall(get(f"/echo?most={LARGE}", header, verb="POST", body=sent))
                reply = Reply.read(link)
                statuses.append((reply.status, reply.status != 200 or reply.body == body))
    return "" if statuses == [(200, True)] * 2 + [(413, True)] * 2 else f"{statuses}"


@it("HEAD has the length but not the body, and HTTP/1.0 keeps alive if it asks to", group="requests")
def versions(server):
    with server.connect() as link:
        link.sendall(get("/ok", verb="HEAD"))
        head = Reply.read(link, head_only=True)
        link.sendall(get("/ok", "Connection: keep-alive", version="HTTP/1.0"))
        kept = Reply.read(link, head.rest)
        link.sendall(get("/ok", version="HTTP/1.0"))
        closed = Reply.read(link)
        more = read_all(link)
    good = head.headers["content-length"] == "3" and head.rest == b"" and kept.body == b"ok\n" and \
        kept.headers["connection"] == "keep-alive" and closed.headers["connection"] == "close"
    return "" if good and not more else f"{head.headers} {head.rest} {kept.headers} {closed.headers} {more}"


@it("a header value with a line break becomes a 500, not two headers", group="requests")
def injection(server):
    reply = server.ask("/inject?value=a%0d%0aSet-Cookie:%20b", 0)
    good = server.ask("/inject?value=fine", 0)
    if reply.status != 500 or "set-cookie" in reply.headers or good.headers.get("x-copied") != "fine":
        return f"{reply.status} {reply.headers} {good.headers}"
    return ""


@it("pipelined requests are answered one by one, in order", group="requests")
def pipelining(server):
    with server.connect() as link:
        link.sendall(b"".join(get("/echo", f"Content-Length: {len(str(i))}", verb="POST", body=str(i).encode())
                              for i in range(500)))
        rest, seen = b"", []
        for _ in range(500):
            reply = Reply.read(link, rest)
            rest = reply.rest
            seen.append(reply.text)
    return "" if seen == [str(i) for i in range(500)] else f"{seen[:20]}"


@it("requests behind one that is parked wait for it", group="requests")
def pipelined_behind_parked(server):
    with server.connect() as link:
        link.sendall(get("/park?id=first") + get("/ok") + get("/park?id=second") + get("/ok"))
        server.until(lambda f: f["under_way"] == 2)
        link.settimeout(0.2)
        early = receive(link)
        link.settimeout(20)
        server.ask("/wake")
        one = Reply.read(link)
        two = Reply.read(link, one.rest)
        server.until(lambda f: f["under_way"] == 2)
        server.ask("/wake")
        three = Reply.read(link, two.rest)
        four = Reply.read(link, three.rest)
    texts = [one.text, two.text, three.text, four.text]
    return "" if texts == ["first", "ok\n", "second", "ok\n"] and not early else f"{early} {texts}"


@it("a reply that asks to close ends the connection, and pipelined requests after it are dropped", group="requests")
def closing_reply(server):
    with server.connect() as link:
        link.sendall(get("/bye") + get("/ok"))
        reply = Reply.read(link)
        more = reply.rest + read_all(link)
    return "" if reply.status == 401 and not more else f"{reply.status} {more}"


# ---- Slow clients --------------------------------------------------------------------------------

@it("slowloris: 300 clients that send their headers slowly get 408, and others are served meanwhile",
    "head_ms=1500")
def slow_headers(server):
    links = [server.connect() for _ in range(300)]
    begun, slowest = time.monotonic(), 0
    for i in range(12):
        for link in links:
            try:
                link.sendall(b"GET /ok HTTP/1.1\r\nHost: x\r\nA: "[i:i + 1])
            except ConnectionError:
                pass
        asked = time.monotonic()
        if server.ask("/ok", 0).status != 200:
            return "another client was not served"
        slowest = max(slowest, time.monotonic() - asked)
        time.sleep(0.05)
    statuses = {Reply.read(link).status for link in links}
    took = time.monotonic() - begun
    for link in links:
        link.close()
    say(f"the slowest other request took {slowest * 1000:.1f} ms")
    return "" if statuses == {408} and took > 1.4 and slowest < 1 else f"{statuses} {took} {slowest}"


@it("a body that comes too slowly gets 408, and one that comes fast enough does not",
    "rate_ms=600", "rate_bytes=1000")
def slow_body(server):
    with server.connect() as slow, server.connect() as fast:
        for link in (slow, fast):
            link.sendall(get("/echo", "Content-Length: 15000", verb="POST"))
        for _ in range(30):
            time.sleep(0.05)
            fast.sendall(b"x" * 500)
            try:
                slow.sendall(b"x")
            except ConnectionError:
                pass
        statuses = Reply.read(slow).status, Reply.read(fast).status
    return "" if statuses == (408, 200) else f"{statuses}"


@it("an idle connection is closed after its time, before and after a request", "idle_ms=500")
def idle(server):
    with server.connect() as fresh, server.connect() as used:
        used.sendall(get("/ok"))
        Reply.read(used)
        begun = time.monotonic()
        ends = receive(fresh), receive(used)
        took = time.monotonic() - begun
    return "" if ends == (b"", b"") and 0.3 < took < 5 else f"{ends} {took}"


@it("a client that does not read its reply is cut off, and its memory is freed", "stall_ms=3000")
def slow_reader(server):
    with server.connect() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        before = server.figures()["buffered_bytes"]
        link.sendall(get(f"/big?size={40 * MIB}"))
        held = server.until(lambda f: f["buffered_bytes"] > before + 20 * MIB)
        gone = server.until(lambda f: f["cut_off"] == 1 and f["buffered_bytes"] < MIB)
    return "" if held and gone else f"held {held}, gone {gone}"


@it("a large reply arrives whole, also at a client that reads slowly", "stall_ms=2000")
def large_reply(server):
    with server.connect() as link:
        link.sendall(get(f"/big?size={64 * MIB}"))
        time.sleep(0.5)
        reply = Reply.read(link)
        link.sendall(get("/ok"))
        after = Reply.read(link, reply.rest)
    return "" if len(reply.body) == 64 * MIB and after.status == 200 else f"{len(reply.body)} {after.status}"


@it("all requests together have a bound of memory: 503 beyond it", "buffered_bytes=4194304")
def memory_bound(server):
    links = []
    for _ in range(8):
        link = server.connect()
        links.append(link)
        link.sendall(get("/echo", f"Content-Length: {2 * MIB}", verb="POST", body=b"x" * (2 * MIB - 1)))
    time.sleep(0.3)
    statuses = []
    for link in links:
        try:
            link.sendall(b"x")
        except ConnectionError:
            pass
        statuses.append(Reply.read(link).status)
        link.close()
    return "" if 503 in statuses and server.ask("/ok").status == 200 else f"{statuses}"


def fill_with_bodies(server):
    """Connections whose large bodies are not complete, so many that there is memory for no other one."""
    links, size = [], 2 * MIB
    while size > 128 * KIB:
        link = server.connect()
        link.sendall(get("/echo", f"Content-Length: {size}", verb="POST", body=b"x" * (size - 1)))
        link.settimeout(0.3)
        try:
            refused = link.recv(1000)
        except TimeoutError:
            links.append(link)
            continue
        assert refused.startswith(b"HTTP/1.1 503"), refused
        link.close()
        size //= 2
    return links


def park_many(server, count):
    """How many such requests are under way, and how many were refused."""
    links, before = [], server.figures()
    for i in range(count):
        links.append(server.connect())
        links[-1].sendall(get(f"/park?id=small{i}", "X: " + "x" * 2000))
    server.until(lambda f: f["under_way"] + f["refused"] == before["under_way"] + before["refused"] + count)
    figures = server.figures()
    counts = figures["under_way"] - before["under_way"], figures["refused"] - before["refused"]
    server.ask("/wake")
    for link in links:
        link.close()
    return counts


@it("large bodies, however slow, leave memory for small requests", "buffered_bytes=4194304")
def memory_for_small_requests(server):
    links = fill_with_bodies(server)
    counts = park_many(server, 200)
    for link in links:
        link.close()
    return "" if links and counts == (200, 0) else f"{len(links)} {counts}"


@it("and that memory has a bound, too", "buffered_bytes=4194304", "reserve_bytes=131072")
def reserve_bound(server):
    links = fill_with_bodies(server)
    parked, refused = park_many(server, 200)
    for link in links:
        link.close()
    return "" if links and 10 < parked and 50 < refused and parked + refused == 200 else f"{parked} {refused}"


@it("a body that its handler keeps counts until it is released", "buffered_bytes=4194304")
def kept_body(server):
    counted = []
    for size in (3 * MIB, 3 * MIB, 0):
        with server.connect() as link:
            link.sendall(get("/keep", f"Content-Length: {size}", verb="POST", body=b"x" * size))
            status = Reply.read(link).status
        counted.append((status, server.figures()["buffered_bytes"] // MIB))
    return "" if counted == [(200, 3), (503, 3), (200, 0)] else f"{counted}"


# ---- Clients that leave --------------------------------------------------------------------------

def half_close(link):
    link.shutdown(socket.SHUT_WR)


def leave(server, way, name, before=b"", index=0, wrap=lambda link: link):
    """Milliseconds until the server notices that a parked client left."""
    link = wrap(server.connect(index))
    under_way = server.figures()["under_way"]
    link.sendall(get(f"/park?id={name}") + before)
    if not server.until(lambda f: f["under_way"] == under_way + 1):
        raise RuntimeError("it is not parked")
    time.sleep(0.05)
    left = time.monotonic() * 1e6
    way(link)
    noticed = server.hang_up_of(name)
    link.close()
    return None if noticed is None else (noticed - left) / 1000


def leave_often(server, ways, **options):
    problems = ""
    for what, way in ways:
        times = [leave(server, way, f"{what}{i}", **options) for i in range(7)]
        if None in times:
            problems += f"{what}: not noticed\n"
            continue
        middle = sorted(times)[3]
        say(f"{what}: noticed after {middle:.2f} ms, at most {max(times):.2f} ms")
        if middle >= 50:
            problems += f"{what}: {times}\n"
    return problems


WAYS = [("close", socket.socket.close), ("half-close", half_close), ("reset", reset)]


@it("a parked client that closes, half-closes or resets is noticed within 50 ms")
def hang_ups(server):
    return leave_often(server, WAYS)


@it("the same for a client of a Unix socket")
def hang_ups_unix(server):
    return leave_often(server, WAYS[:2], index=-1)


@it("the same when more is sent behind the request than is read ahead", "ahead_bytes=16384")
def hang_ups_full(server):
    problem = leave_often(server, WAYS, before=get("/ok") * 800)
    most = server.figures()["buffered_bytes"]
    return problem or ("" if most < MIB else f"{most} bytes are kept")


@it("the same when so much is sent that the close stays behind it, in the client: within 2 s")
def hang_ups_overfull(server):
    before = server.memory()
    times = [leave(server, way, f"{what}-overfull", before=get("/ok") * 30000) for what, way in WAYS]
    grown = server.memory() - before
    return "" if None not in times and max(times) < 5000 and grown < 4 * MIB * SLACK else f"{times} {grown}"


@it("a client that sends that much behind a parked request gets its reply, and a close")
def overfull(server):
    with server.connect() as link:
        link.sendall(get("/park?id=p") + get("/ok") * 30000)
        server.until(lambda f: f["buffered_bytes"] > 65536)
        server.until(lambda f: f["buffered_bytes"] < 65536)
        server.ask("/wake")
        reply = Reply.read(link)
        more = reply.rest + read_all(link)
    good = reply.text == "p" and reply.headers["connection"] == "close" and not more
    return "" if good else f"{reply.status} {reply.headers} {more[:100]}"


@it("a client that half-closes gets the replies that are ready, and is closed")
def half_closed_reader(server):
    with server.connect() as link:
        link.sendall(get("/ok") + get("/ok"))
        half_close(link)
        data = read_all(link)
    with server.connect() as link:
        link.sendall(get(f"/big?size={20 * MIB}"))
        half_close(link)
        large = Reply.read(link)
    good = data.count(b"HTTP/1.1 200") == 2 and len(large.body) == 20 * MIB
    return "" if good else f"{data} {len(large.body)}"


@it("a request that is cut off in its head or body is dropped, and nobody is told")
def cut_requests(server):
    for part in (b"G", b"GET /park", get("/park")[:-1], get("/echo", "Content-Length: 5", body=b"hell")):
        link = server.connect()
        link.sendall(part)
        link.close()
    gone = server.until(lambda f: f["connections"] == 1)
    return "" if gone and server.figures()["hang_ups"] == 0 else f"{server.figures()}"


# ---- Many clients --------------------------------------------------------------------------------

@it("2,000 connections: 4 KiB of memory each at most, and all are served")
def many(server):
    resource_limit(5000)
    before = server.memory()
    links = [server.connect() for _ in range(2000)]
    server.until(lambda f: f["connections"] == 2001)
    each = (server.memory() - before) / 2000
    for link in links:
        link.sendall(get("/ok"))
    statuses = {Reply.read(link).status for link in links}
    idle_each = (server.memory() - before) / 2000
    for i, link in enumerate(links):
        link.sendall(get(f"/park?id=p{i}"))
    server.until(lambda f: f["under_way"] == 2001)
    parked_each = (server.memory() - before) / 2000
    server.ask("/wake")
    woken = {Reply.read(link).status for link in links}
    for link in links:
        link.close()
    say(f"bytes per connection: {each:.0f} new, {idle_each:.0f} after a request, {parked_each:.0f} parked")
    good = statuses == woken == {200} and idle_each <= 4096 * SLACK and parked_each <= 8192 * SLACK
    return "" if good and server.until(lambda f: f["connections"] == 1) else f"{statuses} {woken} {idle_each} {parked_each}"


@it("a peer has at most as many connections as allowed, and gets them back", "peer_connections=10", "local_peers_unlimited=0")
def per_peer(server):
    links = [server.connect() for _ in range(10)]
    for link in links:
        link.sendall(get("/ok"))
        Reply.read(link)
    refused_ones = [Reply.read(server.connect()).status for _ in range(5)]
    links.pop().close()
    server.until(lambda f: f["connections"] == 10)
    again = server.ask("/ok", 0).status
    other = server.ask("/ok", -1).status
    for link in links:
        link.close()
    return "" if refused_ones == [503] * 5 and again == other == 200 else f"{refused_ones} {again} {other}"


@it("beyond the limit of connections the longest idle one is closed, and a busy one never", "connections=20")
def limit_of_connections(server):
    busy = [server.connect() for _ in range(10)]
    for i, link in enumerate(busy):
        link.sendall(get(f"/park?id={i}"))
    server.until(lambda f: f["under_way"] == 11)
    idle_links = []
    for i in range(15):
        time.sleep(0.5 if i == 8 else 0)
        link = server.connect()
        link.sendall(get("/ok"))
        if Reply.read(link).status != 200:
            return "a new client was refused although there were idle ones"
        idle_links.append(link)
    ended = receive(idle_links[0]) == b""
    time.sleep(0.5)
    more = []
    for i in range(12):
        more.append(server.connect())
        more[i].sendall(get(f"/park?id=more{i}"))
        time.sleep(0.15)
    statuses = [Reply.read(link).status for link in more[10:]]
    more[0].close()
    server.hang_up_of("more0")
    server.ask("/wake")
    woken = [Reply.read(link).status for link in busy]
    good = ended and statuses == [503, 503] and woken == [200] * 10
    return "" if good else f"{ended} {statuses} {woken}"


def resource_limit(count):
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@it("without descriptors the server waits without spinning, and recovers", descriptors=64)
def no_descriptors(server):
    links = []
    for i in range(100):
        links.append(server.connect())
        links[i].sendall(get(f"/park?id={i}"))
        time.sleep(0.01 if i < 40 else 0)
    time.sleep(0.3)
    before = server.cpu()
    time.sleep(1)
    spent = server.cpu() - before
    for link in links:
        link.close()
    status = server.ask("/ok", 0).status
    gone = server.until(lambda f: f["connections"] == 1)
    waits = server.figures()["accept_waits"]
    good = status == 200 and gone and 0 < waits < 200 and spent < 0.3
    return "" if good else f"{status} {gone} {waits} {spent}"


# ---- Event streams -------------------------------------------------------------------------------

def dechunk(data):
    """The content of the chunks, and whether the last one came."""
    content = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        if int(size, 16) == 0:
            return content, True
        content, data = content + data[:int(size, 16)], data[int(size, 16) + 2:]
    return content, False


@it("a stream brings its events at once, ends properly, and the connection goes on")
def streams(server):
    with server.connect() as link:
        link.sendall(get("/stream?id=s"))
        head = Reply.read(link)
        server.ask("/emit?size=5&times=2")
        data = head.rest
        while data.count(b"eeeee") < 2:
            data += link.recv(1000)
        server.ask("/wake")
        while not data.endswith(b"0\r\n\r\n"):
            data += link.recv(1000)
        content = dechunk(data)
        link.sendall(get("/ok"))
        after = Reply.read(link)
    good = head.headers["content-type"] == "text/event-stream" and content == (b"e" * 10, True)
    return "" if good and after.status == 200 else f"{head.headers} {content} {after.status}"


@it("a stream for HTTP/1.0 ends with the connection, and one for HEAD has no body")
def old_streams(server):
    with server.connect() as link, server.connect() as head:
        link.sendall(get("/stream?id=s", version="HTTP/1.0"))
        head.sendall(get("/stream?id=h", verb="HEAD"))
        server.until(lambda f: f["under_way"] == 3)
        server.ask("/emit?size=5&times=1")
        server.ask("/wake")
        data = read_all(link)
        first = Reply.read(head, head_only=True)
        head.sendall(get("/ok"))
        second = Reply.read(head, first.rest)
    return "" if data.endswith(b"\r\n\r\neeeee") and second.body == b"ok\n" else f"{data} {second.body}"


@it("a client of a stream that leaves is noticed")
def stream_hang_up(server):
    for name, way in WAYS:
        link = server.connect()
        link.sendall(get(f"/stream?id={name}"))
        Reply.read(link)
        way(link)
        server.ask("/emit?size=5&times=1")
        if server.hang_up_of(name) is None:
            return f"{name} is not noticed"
    return ""


@it("a client of a stream that stops reading is cut off with a comment, and memory stays flat",
    "stream_bytes=262144")
def stalled_stream(server):
    with server.connect() as stalled, server.connect() as reading:
        for link, name in ((stalled, "stalled"), (reading, "reading")):
            link.sendall(get(f"/stream?id={name}"))
        server.until(lambda f: f["under_way"] == 3)
        got = []
        reader = threading.Thread(target=lambda: got.append(read_all(reading)))
        reader.start()
        before, cut, times, most = server.memory(), 0, 0, 0
        while times < 1000 and (cut == 0 or times % 100):
            cut += int(server.ask("/emit?size=32768&times=1").text)
            most = max(most, server.figures()["buffered_bytes"])
            times += 1
        grown = server.memory() - before
        data = read_all(stalled)
        server.ask("/wake")
        half_close(reading)
        reader.join(20)
    good = cut == 1 and most < 2 * MIB and grown < 8 * MIB * SLACK and b": cut off, too slow\n\n" in data[-40:]
    whole = got and len(got[0]) > times * 32768
    return "" if good and whole else f"cut {cut}, most {most}, grown {grown}, end {data[-60:]}, other {len(got and got[0])}"


@it("a client of a stream that reads nothing at all is gone after the time for stalls", "stall_ms=600")
def dead_stream(server):
    with server.connect() as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.sendall(get("/stream?id=dead"))
        server.until(lambda f: f["under_way"] == 2)
        for _ in range(100):
            if int(server.ask("/emit?size=65536&times=1").text):
                break
        gone = server.until(lambda f: f["connections"] == 1)
    return "" if gone else "it is still there"


# ---- Stopping ------------------------------------------------------------------------------------

@it("a stop under load answers what was asked, ends parked waits and closes the rest")
def graceful(server):
    parked, idle_link, begun = server.connect(), server.connect(), server.connect()
    parked.sendall(get("/park?id=p"))
    idle_link.sendall(get("/ok"))
    Reply.read(idle_link)
    begun.sendall(get("/echo", "Content-Length: 5", verb="POST", body=b"he"))
    server.until(lambda f: f["under_way"] == 2)
    broken, served = [], [0]

    def load():
        link = None
        while True:
            try:
                link = link or server.connect()
                link.sendall(get("/ok"))
                reply = Reply.read(link)
            except OSError:
                return  # refused: it stopped
            if reply.status is None:
                if reply.rest:
                    broken.append(reply.rest)
                return
            served[0] += 1
            if reply.headers.get("connection") == "close":
                link.close()
                link = None

    threads = [threading.Thread(target=load) for _ in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    server.process.send_signal(15)
    ended = Reply.read(parked)
    idle_end = receive(idle_link)
    begun.sendall(b"llo")
    late = Reply.read(begun)
    begun.close(), parked.close(), idle_link.close()
    for thread in threads:
        thread.join()
    status = server.process.wait(20)
    good = ended.status == 503 and ended.headers["connection"] == "close" and idle_end == b"" and \
        late.body == b"hello" and not broken and served[0] > 50 and status == 0
    return "" if good else f"{ended.status} {idle_end} {late.status} {broken} {served} {status}"


@it("a stop does not wait for a client for longer than its time")
def stop_in_time(server):
    link = server.connect()
    link.sendall(b"GET /ok HTT")
    server.until(lambda f: f["connections"] == 2)
    begun = time.monotonic()
    status = server.stop()
    took = time.monotonic() - begun
    return "" if status == 0 and 2 < took < 10 else f"{status} {took}"


@it("a Unix socket is for its user alone, knows its peer, replaces a dead one and no live one")
def unix_socket(server):
    mode = os.stat(server.path).st_mode & 0o777
    text = server.ask("/describe").text
    second = subprocess.run([server.process.args[0], "unix:" + server.path], capture_output=True, text=True)
    server.process.kill()
    server.process.wait()
    left = os.path.exists(server.path)
    again = Server(folder, exists=True)
    status = again.ask("/ok").status
    code = again.stop()
    removed = not os.path.exists(server.path)
    server.process.returncode = 0
    good = mode == 0o600 and f"unix 1 loopback 1 tls 0 uid {os.getuid()}" in text and second.returncode == 1 and \
        "Address already in use" in second.stderr and left and status == 200 and code == 0 and removed
    return "" if good else f"{oct(mode)} {text} {second} {left} {status} {code} {removed}"


@it("it listens on several addresses, and says which one a request came by", addresses=("127.0.0.1:0", "127.0.0.2:0", "[::1]:0"))
def addresses(server):
    seen = [server.ask("/describe", i).text.splitlines()[-1] for i in range(4)]
    good = [line.split()[-1] for line in seen] == ["0", "1", "2", "3"] and "[::1]:" in seen[2]
    return "" if good else f"{seen}"


# ---- TLS -----------------------------------------------------------------------------------------

def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)


def make_certificates():
    for authority in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                "-keyout", f"{authority}.key", "-out", f"{authority}.pem", "-subj", f"/CN=test {authority}")
    for name, authority in (("server", "ca"), ("renewed", "ca"), ("alice", "ca"), ("mallory", "other")):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key",
                "-out", f"{name}.csr", "-subj", f"/O=Test, Inc/CN={name}", "-addext", "subjectAltName=DNS:localhost")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                "-CAcreateserial", "-days", "30", "-out", f"{name}.pem", "-copy_extensions", "copy")


def place(name):
    return os.path.join(folder, name)


def wrap_as(client=None, version=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(place("ca.pem"))
    context.set_alpn_protocols(["http/1.1"])
    if client:
        context.load_cert_chain(place(client + ".pem"), place(client + ".key"))
    if version:
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        context.maximum_version = version
        context.set_ciphers("ALL:@SECLEVEL=0")
    return lambda link: context.wrap_socket(link, server_hostname="localhost")


def tls_ask(server, target, wrap):
    """The reply, or the name of the failure."""
    try:
        with wrap(server.connect()) as link:
            link.sendall(get(target, "Connection: close"))
            reply = Reply.read(link)
            return reply if reply.status else "closed"
    except (ssl.SSLError, ConnectionError) as error:
        return type(error).__name__


TLS = f"tls={place('server.pem')},{place('server.key')}"
MTLS = TLS + "," + place("ca.pem")
ON_TLS = {"addresses": ("tls:127.0.0.1:0",), "group": "tls"}


@it("TLS 1.2 and 1.3 work, older versions do not", TLS, **ON_TLS)
def tls_versions(server):
    seen = []
    for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        reply = tls_ask(server, "/describe", wrap_as(version=version))
        seen.append(reply if isinstance(reply, str) else "tls 1" in reply.text)
    return "" if isinstance(seen[0], str) and seen[1:] == [True, True] else f"{seen}"


@it("over TLS: keep-alive, pipelining, large bodies and replies, streams", TLS, **ON_TLS)
def tls_traffic(server):
    body = os.urandom(5 * MIB)
    with wrap_as()(server.connect()) as link:
        link.sendall(get("/ok") * 50)
        rest, good = b"", 0
        for _ in range(50):
            reply = Reply.read(link, rest)
            rest, good = reply.rest, good + (reply.body == b"ok\n")
        link.sendall(get("/echo", f"Content-Length: {len(body)}", verb="POST", body=body))
        echoed = Reply.read(link)
        link.sendall(get(f"/big?size={30 * MIB}"))
        time.sleep(0.3)
        big = Reply.read(link)
        link.sendall(get("/stream?id=s"))
        head = Reply.read(link)
        server.ask("/emit?size=100000&times=3")
        server.ask("/wake")
        data = head.rest
        while not data.endswith(b"0\r\n\r\n"):
            data += link.recv(100000)
    fine = good == 50 and echoed.body == body and len(big.body) == 30 * MIB and dechunk(data) == (b"e" * 300000, True)
    return "" if fine else f"{good} {len(echoed.body)} {len(big.body)} {len(data)}"


def tls_close(link):
    link.unwrap().close()


@it("a parked client that leaves is noticed over TLS, with and without a farewell", TLS, **ON_TLS)
def tls_hang_ups(server):
    ways = [("close", ssl.SSLSocket.close), ("half-close", lambda link: half_close(link)),
            ("farewell", tls_close), ("reset", reset)]
    return leave_often(server, ways, wrap=wrap_as()) or \
        leave_often(server, [("full", ssl.SSLSocket.close)], wrap=wrap_as(), before=get("/ok") * 3000)


@it("plain HTTP, rubbish and silence on a TLS port are dropped in time", TLS, "head_ms=700", **ON_TLS)
def tls_rubbish(server):
    for data in (get("/ok"), os.urandom(5000), b"\x16\x03\x01\x02\x00\x01\x00", b""):
        with server.connect() as link:
            link.sendall(data)
            answer = read_all(link)
            if b"HTTP" in answer:
                return f"{answer}"
    return "" if server.until(lambda f: f["connections"] == 1) else "they are still there"


@it("with client certificates: a good one has a name, none and a foreign one are refused", MTLS, **ON_TLS)
def mutual_tls(server):
    good = tls_ask(server, "/describe", wrap_as("alice"))
    none = tls_ask(server, "/describe", wrap_as())
    foreign = tls_ask(server, "/describe", wrap_as("mallory"))
    if isinstance(good, str) or "subject CN=alice,O=Test\\, Inc " not in good.text:
        return f"{good if isinstance(good, str) else good.text}"
    return "" if isinstance(none, str) and isinstance(foreign, str) else f"{none} {foreign}"


@it("optional client certificates: none is fine and nameless, a foreign one is refused", MTLS + ",optional", **ON_TLS)
def optional_tls(server):
    none = tls_ask(server, "/describe", wrap_as())
    foreign = tls_ask(server, "/describe", wrap_as("mallory"))
    good = not isinstance(none, str) and "subject  listener" in none.text and isinstance(foreign, str)
    return "" if good else f"{none} {foreign}"


def presented(server):
    with wrap_as()(server.connect()) as link:
        return dict(part[0] for part in link.getpeercert()["subject"])["commonName"]


@it("a certificate is reloaded for new connections; a bad file changes nothing",
    f"tls={place('live.pem')},{place('live.key')}", **ON_TLS)
def reload_certificate(server):
    with wrap_as()(server.connect()) as old:
        old.sendall(get("/ok"))
        Reply.read(old)
        first = presented(server)
        shutil.copy(place("renewed.pem"), place("live.pem"))
        torn = server.ask("/reload")
        still = presented(server)
        shutil.copy(place("renewed.key"), place("live.key"))
        good = server.ask("/reload").status
        then = presented(server)
        old.sendall(get("/ok"))
        kept = Reply.read(old).status
    for kind in ("pem", "key"):
        shutil.copy(place("server." + kind), place("live." + kind))
    fine = (first, torn.status, still, good, then, kept) == ("server", 500, "server", 200, "renewed", 200)
    return "" if fine and "private key" in torn.text else f"{first} {torn.text} {still} {good} {then} {kept}"


@it("a missing or wrong TLS file is said at the start", TLS, **ON_TLS)
def wrong_files(server):
    problems = ""
    for files, words in (("nothing.pem,server.key", "cannot use the certificate"), ("server.pem,nothing.key", "the private key"),
                         ("server.pem,alice.key", "the private key"), ("server.pem,server.key,nothing.pem", "the authority")):
        argument = "tls=" + ",".join(place(name) for name in files.split(","))
        run = subprocess.run([server.process.args[0], argument, "tls:127.0.0.1:0"], capture_output=True, text=True)
        if run.returncode != 1 or words not in run.stderr:
            problems += f"{files}: {run.stderr}"
    return problems


def main():
    groups = sys.argv[1:] or list(cases)
    try:
        if "tls" in groups:
            make_certificates()
            for kind in ("pem", "key"):
                shutil.copy(place("server." + kind), place("live." + kind))
        for group in groups:
            for run in cases[group]:
                run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return end()


if __name__ == "__main__":
    sys.exit(main())
