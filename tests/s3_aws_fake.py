#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""s3_aws_fake.py: a stand-in for S3 as AWS documents it today: conditions on every write, also where
an upload in parts is completed, and directory buckets (S3 Express One Zone).

No real one is within reach of the tests. This one follows the documentation of AWS, and is strict: it
checks every signature, refuses what it does not know, and answers as the documentation says. What it
cannot show is whether AWS behaves as it documents.

    s3_aws_fake.py [SECONDS] [CERTIFICATE]

Listens on a free port of loopback, prints "port N", and serves until its input ends. A session of a
directory bucket lasts SECONDS (300, as documented). It is also an HTTP proxy, so that the host names
of buckets can be used; with a certificate, one for https. For each line on its input it prints a
number: how many sessions were created so far, and how many requests there were.

The bucket `bucket` and the directory bucket `fast--use1-az4--x-s3` behave as documented. `lax-parts`
ignores conditions where an upload is completed, and no other bucket exists. Where a key ends with
"busy", the first completion is answered with 409, and with "twice", each is done and answered as if a
proxy had sent it again. A put of a key that ends with "/many" puts 2,500 objects beside it. A listing of
the folder "endless/" has page after page.

What it takes from the documentation (docs.aws.amazon.com/AmazonS3/latest):

  API/API_CreateSession          GET /?session, signed by the caller's own keys for s3express; the
                                 keys in its answer sign all else, with x-amz-s3session-token
  userguide/s3-express-differences  listings in no order; a prefix ends in "/", the only delimiter; ETags
                                 are random; groups of uploads in progress are listed
  userguide/endpoint-directory-buckets-AZ  BUCKET.s3express-ZONE.REGION.amazonaws.com, never the path
  API/API_ListObjectsV2          no start-after for directory buckets
  API/API_PutObject              no Content-MD5 for directory buckets; If-Match, If-None-Match; 409
  API/API_CompleteMultipartUpload  the same; after 409 the upload is begun again; consecutive parts
  userguide/conditional-deletes  If-Match; in a directory bucket 204 if there is no object
"""

import base64
import datetime
import hashlib
import hmac
import http.server
import random
import re
import secrets
import ssl
import sys
import threading
import time
import urllib.parse
import xml.etree.ElementTree
import xml.sax.saxutils

ACCESS, SECRET, REGION = "AKIAOFTHETEST", "secret+of/the=user", "us-east-1"
DIRECTORY, ZONE = "fast--use1-az4--x-s3", "use1-az4"
BUCKETS = {"bucket", "lax-parts", DIRECTORY}
PAGE_MAX = 50  # so that listings have several pages
PARAMETERS = {"list-type", "encoding-type", "max-keys", "prefix", "start-after", "delimiter",
              "continuation-token", "delete", "uploads", "uploadId", "partNumber", "versioning",
              "lifecycle", "replication", "session"}
LOCK = threading.Lock()
OBJECTS = {}   # (bucket, name): Object
UPLOADS = {}   # id: Upload
SESSIONS = {}  # access key: (secret, token, when it ends)
TOKENS = {}    # continuation token: the names that follow
BUSY = set()   # the keys that were answered with 409 once
SEEN = [0, 0]  # sessions, requests
SESSION_SECONDS = 300
TLS = None


class Refused(Exception):
    def __init__(self, status, code, message="a message"):
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


class Object:
    def __init__(self, bucket, body, metadata):
        self.body, self.metadata, self.modified = body, metadata, now()
        tag = secrets.token_hex(16) if bucket == DIRECTORY else hashlib.md5(body).hexdigest()
        self.etag = f'"{tag}"'


class Upload:
    def __init__(self, bucket, name, metadata):
        self.bucket, self.name, self.metadata, self.parts = bucket, name, metadata, {}


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def escape(text):
    return xml.sax.saxutils.escape(text)


def quote(text):
    return urllib.parse.quote(text, errors="surrogateescape")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    # ---- Signatures -------------------------------------------------------------------------

    def keys_of(self, access, service, lower):
        """The secret that must have signed the request."""
        directory = self.bucket == DIRECTORY
        if service != ("s3express" if directory else "s3"):
            raise Refused(400, "AuthorizationHeaderMalformed", f"the service is not {service}")
        if not directory or "session" in self.ask:
            if access != ACCESS:
                raise Refused(403, "InvalidAccessKeyId")
            return SECRET
        if "x-amz-security-token" in lower:
            raise Refused(400, "InvalidArgument", "the token of a session has another header")
        with LOCK:
            secret, token, ends = SESSIONS.get(access, (None, None, None))
        if not secret:
            raise Refused(403, "InvalidAccessKeyId", "not the keys of a session")
        if lower.get("x-amz-s3session-token") != token:
            raise Refused(403, "InvalidToken")
        if now() > ends:
            raise Refused(400, "ExpiredToken")
        return secret

    def check_signature(self):
        lower = {name.lower(): value for name, value in self.headers.items()}
        match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/" + REGION +
                             r"/(s3|s3express)/aws4_request, SignedHeaders=([a-z0-9;-]+), "
                             r"Signature=([0-9a-f]{64})", lower.get("authorization", ""))
        if not match:
            raise Refused(403, "AccessDenied", "no signature")
        access, day, service, signed, signature = match.groups()
        names = signed.split(";")
        date = lower.get("x-amz-date", "")
        unsigned = [name for name in lower if name.startswith("x-amz-") and name not in names]
        if unsigned or "host" not in names or names != sorted(names) or date[:8] != day:
            raise Refused(403, "SignatureDoesNotMatch", f"not signed: {unsigned}")
        secret = self.keys_of(access, service, lower)
        moment = datetime.datetime.strptime(date + "+0000", "%Y%m%dT%H%M%SZ%z")
        if abs(now() - moment) > datetime.timedelta(minutes=15):
            raise Refused(403, "RequestTimeTooSkewed")
        payload = lower["x-amz-content-sha256"]
        headers = "".join(f"{name}:{' '.join(lower[name].split())}\n" for name in names)
        request = "\n".join((self.command, self.raw_path, self.raw_query, headers, signed, payload))
        scope = f"{day}/{REGION}/{service}/aws4_request"
        text = "\n".join(("AWS4-HMAC-SHA256", date, scope,
                          hashlib.sha256(request.encode("latin-1")).hexdigest()))
        key = ("AWS4" + secret).encode()
        for word in (day, REGION, service, "aws4_request"):
            key = hmac.digest(key, word.encode(), "sha256")
        if hmac.digest(key, text.encode(), "sha256").hex() != signature:
            raise Refused(403, "SignatureDoesNotMatch", "another canonical request")
        if payload not in ("UNSIGNED-PAYLOAD", hashlib.sha256(self.body).hexdigest()):
            raise Refused(400, "XAmzContentSHA256Mismatch")
        md5 = lower.get("content-md5")
        if md5 and md5 != base64.b64encode(hashlib.md5(self.body).digest()).decode():
            raise Refused(400, "BadDigest")
        if md5 and self.bucket == DIRECTORY and "delete" not in self.ask:
            raise Refused(501, "NotImplemented", "Content-MD5 in a directory bucket")

    def create_session(self):
        with LOCK:
            SEEN[0] += 1
            access, secret, token = (secrets.token_hex(n) for n in (10, 20, 200))
            ends = now() + datetime.timedelta(seconds=SESSION_SECONDS)
            SESSIONS[access] = (secret, token, ends)
        self.answer(200, "<?xml version='1.0' encoding='UTF-8'?><CreateSessionResult "
                         "xmlns='http://s3.amazonaws.com/doc/2006-03-01/'><Credentials>"
                         f"<SessionToken>{token}</SessionToken>"
                         f"<SecretAccessKey>{secret}</SecretAccessKey>"
                         f"<AccessKeyId>{access}</AccessKeyId>"
                         f"<Expiration>{ends:%Y-%m-%dT%H:%M:%SZ}</Expiration>"
                         "</Credentials></CreateSessionResult>")

    def texts(self, name):
        """The texts of the elements with this name in the body, whatever their namespace."""
        root = xml.etree.ElementTree.fromstring(self.body)
        return [element.text or "" for element in root.iter() if element.tag.split("}")[-1] == name]

    # ---- Conditions -------------------------------------------------------------------------

    def check_conditions(self, live):
        match, none_match = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if none_match not in (None, "*"):
            raise Refused(501, "NotImplemented")
        if match and not live:
            raise Refused(404, "NoSuchKey")
        if (match and match != live.etag) or (none_match and live):
            raise Refused(412, "PreconditionFailed",
                          "At least one of the pre-conditions you specified did not hold")

    # ---- Objects ----------------------------------------------------------------------------

    def get(self):
        with LOCK:
            live = OBJECTS.get((self.bucket, self.name))
        if not live:
            raise Refused(404, "NoSuchKey")
        match, none_match = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if match and match != live.etag:
            raise Refused(412, "PreconditionFailed")
        headers = {"ETag": live.etag, **live.metadata,
                   "Last-Modified": f"{live.modified:%a, %d %b %Y %H:%M:%S} GMT"}
        if none_match == live.etag:
            return self.answer(304, b"", headers)
        wanted = self.headers.get("Range")
        if not wanted:
            return self.answer(200, live.body, headers)
        first, last = wanted.removeprefix("bytes=").split("-")
        size = len(live.body)
        first, last = int(first), min(int(last) if last else size - 1, size - 1)
        if first >= size:
            raise Refused(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        return self.answer(206, live.body[first:last + 1], headers)

    def metadata(self):
        return {name: value for name, value in self.headers.items()
                if name.lower().startswith("x-amz-meta-")}

    def put(self):
        if len(self.name.encode("utf-8", "surrogateescape")) > 1024:
            raise Refused(400, "KeyTooLongError")
        with LOCK:
            self.check_conditions(OBJECTS.get((self.bucket, self.name)))
            new = OBJECTS[self.bucket, self.name] = Object(self.bucket, self.body, self.metadata())
            for i in range(2500 if self.name.endswith("/many") else 0):
                OBJECTS[self.bucket, f"{self.name}-{i:04}"] = new
        self.answer(200, b"", {"ETag": new.etag})

    def delete(self):
        with LOCK:
            live = OBJECTS.get((self.bucket, self.name))
            if live or self.bucket != DIRECTORY:
                self.check_conditions(live)
            OBJECTS.pop((self.bucket, self.name), None)
        self.answer(204)

    def delete_many(self):
        keys = self.texts("Key")
        if not 0 < len(keys) <= 1000 or not self.headers.get("Content-MD5"):
            raise Refused(400, "MalformedXML")
        with LOCK:
            for key in keys:
                OBJECTS.pop((self.bucket, key), None)
        quiet = [text.lower() for text in self.texts("Quiet")] == ["true"]
        rows = "" if quiet else "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, f"<?xml version='1.0' encoding='UTF-8'?><DeleteResult>{rows}</DeleteResult>")

    # ---- Listings ---------------------------------------------------------------------------

    def rows_of(self, prefix, delimiter):
        """Each name and group under a prefix, with its XML, in byte order."""
        with LOCK:
            objects = {name: live for (bucket, name), live in OBJECTS.items()
                       if bucket == self.bucket and name.startswith(prefix)}
            uploads = [u.name for u in UPLOADS.values() if u.bucket == self.bucket == DIRECTORY and
                       u.name.startswith(prefix)]
        rows = {}
        for name, live in objects.items():
            end = name.find(delimiter, len(prefix)) if delimiter else -1
            if end >= 0:
                uploads.append(name)
                continue
            rows[name] = (f"<Contents><Key>{quote(name)}</Key>"
                          f"<LastModified>{live.modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
                          f"<ETag>{escape(live.etag)}</ETag><Size>{len(live.body)}</Size></Contents>")
        for name in uploads if delimiter else []:
            end = name.find(delimiter, len(prefix))
            if end >= 0:
                group = name[:end + len(delimiter)]
                rows[group] = f"<CommonPrefixes><Prefix>{quote(group)}</Prefix></CommonPrefixes>"
        return sorted(rows.items(), key=lambda row: row[0].encode("utf-8", "surrogateescape"))

    def list(self):
        ask = self.ask
        if ask.get("list-type") != "2" or ask.get("encoding-type") != "url":
            raise Refused(400, "InvalidArgument")
        prefix, delimiter = ask.get("prefix", ""), ask.get("delimiter", "")
        most = min(int(ask.get("max-keys", "1000")), PAGE_MAX)
        if self.bucket == DIRECTORY:
            if "start-after" in ask or delimiter not in ("", "/") or (prefix and prefix[-1] != "/"):
                raise Refused(400, "InvalidArgument", "not for directory buckets")
        if prefix.endswith("/endless/"):
            return self.list_endlessly(prefix)
        if "continuation-token" in ask:
            with LOCK:
                rows = TOKENS.get(ask["continuation-token"])
            if rows is None:
                raise Refused(400, "InvalidArgument", "The continuation token provided is incorrect")
        else:
            order = lambda text: text.encode("utf-8", "surrogateescape")
            after = order(ask.get("start-after", ""))
            rows = [row for row in self.rows_of(prefix, delimiter) if order(row[0]) > after]
            if self.bucket == DIRECTORY:
                random.shuffle(rows)
        cut, more = len(rows) > most, ""
        if cut:
            token = secrets.token_hex(100)
            with LOCK:
                TOKENS[token] = rows[most:]
            more = f"<NextContinuationToken>{token}</NextContinuationToken>"
        self.answer_list(rows[:most], cut, more)

    def list_endlessly(self, prefix):
        """One name on each page, and each page takes a while."""
        time.sleep(0.05)
        name = prefix + secrets.token_hex(8)
        text = (f"<Contents><Key>{quote(name)}</Key><ETag>\"0\"</ETag><Size>0</Size>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>")
        more = f"<NextContinuationToken>{secrets.token_hex(100)}</NextContinuationToken>"
        self.answer_list([(name, text)], True, more)

    def answer_list(self, rows, cut, more):
        self.answer(200, "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult "
                         "xmlns='http://s3.amazonaws.com/doc/2006-03-01/'>"
                         f"<Name>{self.bucket}</Name><EncodingType>url</EncodingType>"
                         f"<IsTruncated>{str(cut).lower()}</IsTruncated>{more}"
                         f"{''.join(text for _, text in rows)}</ListBucketResult>")

    # ---- Uploads in parts -------------------------------------------------------------------

    def begin_upload(self):
        number = secrets.token_hex(30)
        with LOCK:
            UPLOADS[number] = Upload(self.bucket, self.name, self.metadata())
        self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId>"
                         "</InitiateMultipartUploadResult>")

    def put_part(self):
        upload = UPLOADS.get(self.ask["uploadId"])
        if not upload:
            raise Refused(404, "NoSuchUpload")
        tag = hashlib.md5(self.body).hexdigest()
        upload.parts[int(self.ask["partNumber"])] = (self.body, f'"{tag}"')
        self.answer(200, b"", {"ETag": f'"{tag}"'})

    def end_upload(self):
        listed = list(zip(map(int, self.texts("PartNumber")), self.texts("ETag")))
        with LOCK:
            upload = UPLOADS.get(self.ask["uploadId"])
            if not upload:
                raise Refused(404, "NoSuchUpload")
            if self.name.endswith("busy") and self.name not in BUSY:
                BUSY.add(self.name)
                del UPLOADS[self.ask["uploadId"]]
                raise Refused(409, "ConditionalRequestConflict",
                              "The conditional request cannot succeed due to a conflicting operation")
            numbers = [number for number, _ in listed]
            if numbers != sorted(upload.parts) or numbers != list(range(1, len(numbers) + 1)) or \
               [etag for _, etag in listed] != [upload.parts[number][1] for number in numbers]:
                raise Refused(400, "InvalidPart")
            if self.bucket != "lax-parts":
                self.check_conditions(OBJECTS.get((self.bucket, self.name)))
            del UPLOADS[self.ask["uploadId"]]
            body = b"".join(upload.parts[number][0] for number in numbers)
            new = OBJECTS[self.bucket, self.name] = Object(self.bucket, body, upload.metadata)
        if self.name.endswith("twice"):
            raise Refused(404, "NoSuchUpload")
        self.answer(200, f"<CompleteMultipartUploadResult><ETag>{escape(new.etag)}</ETag>"
                         "</CompleteMultipartUploadResult>")

    def abort_upload(self):
        if not UPLOADS.pop(self.ask["uploadId"], None):
            raise Refused(404, "NoSuchUpload")
        self.answer(204)

    # ---- Requests ---------------------------------------------------------------------------

    def bucket_request(self):
        if self.command == "POST" and "delete" in self.ask:
            return self.delete_many()
        if self.command != "GET":
            raise Refused(405, "MethodNotAllowed")
        if "session" in self.ask and self.bucket == DIRECTORY:
            return self.create_session()
        for name, root in (("versioning", "VersioningConfiguration"),
                           ("lifecycle", "LifecycleConfiguration"),
                           ("replication", "ReplicationConfiguration")):
            if name in self.ask and self.bucket == DIRECTORY:
                raise Refused(501, "NotImplemented")  # at least not at the endpoint of the zone
            if name in self.ask:
                return self.answer(200, f"<{root}/>")
        return self.list()

    def object_request(self):
        ways = {("GET", False): self.get, ("PUT", False): self.put, ("DELETE", False): self.delete,
                ("POST", True): self.end_upload, ("PUT", True): self.put_part,
                ("DELETE", True): self.abort_upload}
        if self.command == "POST" and "uploads" in self.ask:
            return self.begin_upload()
        way = ways.get((self.command, "uploadId" in self.ask))
        if not way:
            raise Refused(405, "MethodNotAllowed")
        return way()

    def find_bucket(self, path):
        """By the name of the host for a directory bucket; otherwise by the path."""
        host = self.headers["Host"]
        if host.startswith(DIRECTORY + "."):
            place = host.removeprefix(DIRECTORY + ".")
            if place.partition(":")[0] not in (f"s3express-{ZONE}.{REGION}.amazonaws.com",
                                               f"s3express-{ZONE}.{REGION}.invalid"):
                raise Refused(404, "NoSuchBucket", f"not at {place}")
            return DIRECTORY, path[1:]
        bucket, _, name = path[1:].partition("/")
        if bucket not in BUCKETS or bucket == DIRECTORY:
            raise Refused(404, "NoSuchBucket")
        return bucket, name

    def serve(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        SEEN[1] += 1
        if self.path.startswith("http://"):  # we are its proxy
            self.path = "/" + self.path.split("/", 3)[3]
        self.raw_path, _, self.raw_query = self.path.partition("?")
        self.ask = dict(urllib.parse.parse_qsl(self.raw_query, keep_blank_values=True,
                                               errors="surrogateescape"))
        try:
            self.bucket, name = self.find_bucket(self.raw_path)
            self.name = urllib.parse.unquote(name, errors="surrogateescape")
            self.check_signature()
            if set(self.ask) - PARAMETERS:
                raise Refused(400, "InvalidArgument", f"unknown: {set(self.ask) - PARAMETERS}")
            (self.object_request if self.name else self.bucket_request)()
        except Refused as refusal:
            self.answer(refusal.status,
                        f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{refusal.code}</Code>"
                        f"<Message>{escape(refusal.message)}</Message></Error>")

    do_GET = do_PUT = do_POST = do_DELETE = serve

    def do_CONNECT(self):
        self.send_response_only(200)
        self.end_headers()
        self.wfile.flush()
        self.connection = TLS.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb")
        self.close_connection = False

    def answer(self, status, body=b"", headers=None):
        if isinstance(body, str):
            body = body.encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, str(value))
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *words):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (ConnectionError, ssl.SSLError)):  # a client may hang up
            super().handle_error(request, client_address)


def main(words):
    global SESSION_SECONDS, TLS
    if words:
        SESSION_SECONDS = int(words[0])
    if len(words) > 1:
        TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        TLS.load_cert_chain(words[1])
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"port {server.server_address[1]}", flush=True)
    for _ in sys.stdin:
        print(*SEEN, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
