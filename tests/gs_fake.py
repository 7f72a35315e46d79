#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""gs_fake.py: a stand-in for the XML interface of Google Cloud Storage.

No real one is within reach of the tests. This one follows Google's documentation, and is strict: it
checks every signature, refuses what it does not know, and answers as the documentation says. What it
cannot show is whether Google behaves as it documents.

Listens on a free port of loopback, prints "port N", and serves until its input ends. The bucket
`bucket` behaves as documented; `lax` ignores conditions, `rules` has a lifecycle rule, `limited`
answers 429 to the first write of each name, and no other bucket exists.

What it takes from the documentation (cloud.google.com/storage/docs):

  authentication/signatures      GOOG4-HMAC-SHA256, the scope DAY/auto/storage/goog4_request
  authentication/canonical-requests  what is signed; every x-goog header must be
  migrating                      no request has headers of Google and of AWS (400 ExcessHeaderValues)
  request-preconditions          x-goog-if-generation-match; 412; If-Match only for reads
  xml-api/get-bucket-list        list-type=2, start-after, max-keys as an upper bound, Generation
  xml-api/post-bucket            the delete of many objects, with Quiet
  multipart-uploads              as in S3
"""

import base64
import datetime
import hashlib
import hmac
import http.server
import re
import sys
import threading
import urllib.parse
import xml.etree.ElementTree
import xml.sax.saxutils

ACCESS, SECRET = "GOOG1EACCESS", "secret+of/the=HMAC-key"
BUCKETS = {"bucket", "lax", "rules", "limited"}
PAGE_MAX = 50  # so that listings have several pages
PARAMETERS = {"list-type", "encoding-type", "max-keys", "prefix", "start-after", "delimiter",
              "continuation-token", "delete", "uploads", "uploadId", "partNumber", "versioning",
              "lifecycle"}
LOCK = threading.Lock()
OBJECTS = {}  # (bucket, name): Object
UPLOADS = {}  # id: (metadata, parts)
LIMITED = set()  # the names that were refused once
LAST_GENERATION = 0


class Refused(Exception):
    def __init__(self, status, code, message="a message"):
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


class Object:
    """A version: its body, its metadata and its generation, which grows with every write."""

    def __init__(self, body, metadata):
        global LAST_GENERATION
        moment = int(now().timestamp() * 1e6)
        LAST_GENERATION = max(LAST_GENERATION + 1, moment)
        self.body, self.metadata, self.generation = body, metadata, LAST_GENERATION
        self.modified = now()
        self.etag = f'"{hashlib.md5(body).hexdigest()}"'


def now():
    return datetime.datetime.now(datetime.timezone.utc)


def escape(text):
    return xml.sax.saxutils.escape(text)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    # ---- Signatures -------------------------------------------------------------------------

    def check_signature(self):
        lower = {name.lower(): value for name, value in self.headers.items()}
        if any(name.startswith("x-amz-") for name in lower) and \
           any(name.startswith("x-goog-") for name in lower):
            raise Refused(400, "ExcessHeaderValues", "both x-amz and x-goog headers")
        match = re.fullmatch(r"GOOG4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/auto/storage/goog4_request, "
                             r"SignedHeaders=([a-z0-9;-]+), Signature=([0-9a-f]{64})",
                             lower.get("authorization", ""))
        if not match:
            raise Refused(403, "AccessDenied", "no signature of Google's kind")
        access, day, signed, signature = match.groups()
        names = signed.split(";")
        date = lower.get("x-goog-date", "")
        unsigned = [name for name in lower if name.startswith("x-goog-") and name not in names]
        if unsigned or "host" not in names or names != sorted(names) or date[:8] != day:
            raise Refused(403, "SignatureDoesNotMatch", f"not signed: {unsigned}")
        if access != ACCESS:
            raise Refused(403, "InvalidAccessKeyId")
        moment = datetime.datetime.strptime(date + "+0000", "%Y%m%dT%H%M%SZ%z")
        if abs(now() - moment) > datetime.timedelta(minutes=15):
            raise Refused(403, "RequestTimeTooSkewed")
        payload = lower.get("x-goog-content-sha256", "UNSIGNED-PAYLOAD")
        path, _, query = self.path.partition("?")
        headers = "".join(f"{name}:{' '.join(lower[name].split())}\n" for name in names)
        request = "\n".join((self.command, path, query, headers, signed, payload))
        scope = f"{day}/auto/storage/goog4_request"
        text = "\n".join(("GOOG4-HMAC-SHA256", date, scope,
                          hashlib.sha256(request.encode("latin-1")).hexdigest()))
        key = ("GOOG4" + SECRET).encode()
        for word in (day, "auto", "storage", "goog4_request"):
            key = hmac.digest(key, word.encode(), "sha256")
        if hmac.digest(key, text.encode(), "sha256").hex() != signature:
            raise Refused(403, "SignatureDoesNotMatch", "another canonical request")
        if payload not in ("UNSIGNED-PAYLOAD", hashlib.sha256(self.body).hexdigest()):
            raise Refused(400, "BadDigest", "the hash of the body is another one")
        md5 = lower.get("content-md5")
        if md5 and md5 != base64.b64encode(hashlib.md5(self.body).digest()).decode():
            raise Refused(400, "BadDigest")

    def texts(self, name):
        """The texts of the elements with this name in the body, whatever their namespace."""
        root = xml.etree.ElementTree.fromstring(self.body)
        return [element.text or "" for element in root.iter() if element.tag.split("}")[-1] == name]

    # ---- Conditions -------------------------------------------------------------------------

    def check_generation(self, live):
        asked = self.headers.get("x-goog-if-generation-match")
        if asked is None or self.bucket == "lax":
            return
        if not re.fullmatch(r"0|[1-9]\d{0,18}", asked):
            raise Refused(400, "InvalidArgument", "not a generation")
        if int(asked) != (live.generation if live else 0):
            raise Refused(412, "PreconditionFailed",
                          "At least one of the pre-conditions you specified did not hold.")

    def check_rate(self):
        """A name can be written about once a second; what is more is refused with 429."""
        if self.bucket == "limited" and self.name not in LIMITED:
            LIMITED.add(self.name)
            raise Refused(429, "SlowDown", "The object exceeded the rate limit for object mutation")

    # ---- Objects ----------------------------------------------------------------------------

    def get(self):
        with LOCK:
            live = OBJECTS.get((self.bucket, self.name))
        if not live:
            raise Refused(404, "NoSuchKey")
        self.check_generation(live)
        match, none_match = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if match and match != live.etag:
            raise Refused(412, "PreconditionFailed")
        headers = {"ETag": live.etag, "x-goog-generation": live.generation,
                   "x-goog-metageneration": 1, **live.metadata,
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
                if name.lower().startswith("x-goog-meta-")}

    def put(self):
        if "\n" in self.name or "\r" in self.name or self.name in (".", "..") or \
           len(self.name.encode("utf-8", "surrogateescape")) > 1024:
            raise Refused(400, "InvalidObjectName")
        with LOCK:
            self.check_rate()
            self.check_generation(OBJECTS.get((self.bucket, self.name)))
            new = OBJECTS[self.bucket, self.name] = Object(self.body, self.metadata())
        self.answer(200, b"", {"ETag": new.etag, "x-goog-generation": new.generation,
                               "x-goog-metageneration": 1})

    def delete(self):
        with LOCK:
            live = OBJECTS.get((self.bucket, self.name))
            self.check_generation(live)
            if not live:
                raise Refused(404, "NoSuchKey")
            del OBJECTS[self.bucket, self.name]
        self.answer(204)

    def delete_many(self):
        keys = self.texts("Key")
        if not 0 < len(keys) <= 1000:
            raise Refused(400, "MalformedXML")
        with LOCK:
            for key in keys:
                OBJECTS.pop((self.bucket, key), None)
        quiet = [text.lower() for text in self.texts("Quiet")] == ["true"]
        rows = "" if quiet else "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, f"<?xml version='1.0' encoding='UTF-8'?><DeleteResult>{rows}</DeleteResult>")

    # ---- Listings ---------------------------------------------------------------------------

    def list(self, ask):
        if ask.get("list-type") != "2" or ask.get("encoding-type") != "url":
            raise Refused(400, "InvalidArgument")
        prefix, delimiter = ask.get("prefix", ""), ask.get("delimiter", "")
        after = ask.get("continuation-token", ask.get("start-after", ""))
        most = min(int(ask.get("max-keys", "1000")), PAGE_MAX)
        order = lambda text: text.encode("utf-8", "surrogateescape")
        with LOCK:
            names = sorted((name for bucket, name in OBJECTS if bucket == self.bucket and
                            name.startswith(prefix)), key=order)
            objects = {name: OBJECTS[self.bucket, name] for name in names}
        rows, groups, cut = [], [], False
        for name in names:
            end = name.find(delimiter, len(prefix)) if delimiter else -1
            group = name[:end + len(delimiter)] if end >= 0 else None
            if order(name) <= order(after) or (group and group in groups):
                continue
            if len(rows) == most:
                cut = True
                break
            quoted = urllib.parse.quote(group or name, errors="surrogateescape")
            if group:
                groups.append(group)
                rows.append(f"<CommonPrefixes><Prefix>{quoted}</Prefix></CommonPrefixes>")
                continue
            live = objects[name]
            rows.append(f"<Contents><Key>{quoted}</Key><Generation>{live.generation}</Generation>"
                        "<MetaGeneration>1</MetaGeneration>"
                        f"<LastModified>{live.modified:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
                        f"<ETag>{escape(live.etag)}</ETag><Size>{len(live.body)}</Size></Contents>")
        more = "<NextContinuationToken>opaque</NextContinuationToken>" if cut else ""
        self.answer(200, "<?xml version='1.0' encoding='UTF-8'?><ListBucketResult "
                         "xmlns='http://doc.s3.amazonaws.com/2006-03-01'>"
                         f"<Name>{self.bucket}</Name><EncodingType>url</EncodingType>"
                         f"<IsTruncated>{str(cut).lower()}</IsTruncated>{more}{''.join(rows)}"
                         "</ListBucketResult>")

    # ---- Uploads in parts -------------------------------------------------------------------

    def begin_upload(self):
        with LOCK:
            number = f"upload-{len(UPLOADS)}"
            UPLOADS[number] = (self.metadata(), {})
        self.answer(200, f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId>"
                         "</InitiateMultipartUploadResult>")

    def put_part(self, ask):
        if ask["uploadId"] not in UPLOADS:
            raise Refused(404, "NoSuchUpload")
        UPLOADS[ask["uploadId"]][1][int(ask["partNumber"])] = self.body
        self.answer(200, b"", {"ETag": f'"{hashlib.md5(self.body).hexdigest()}"'})

    def end_upload(self, ask):
        """The reply has no generation: the documentation does not promise one here."""
        listed = list(zip(self.texts("PartNumber"), self.texts("ETag")))
        with LOCK:
            metadata, parts = UPLOADS.pop(ask["uploadId"])
            bodies = [parts.get(int(number), b"") for number, _ in listed]
            hashes = [f'"{hashlib.md5(body).hexdigest()}"' for body in bodies]
            if not listed or hashes != [etag for _, etag in listed]:
                raise Refused(400, "InvalidPart")
            new = OBJECTS[self.bucket, self.name] = Object(b"".join(bodies), metadata)
        self.answer(200, f"<CompleteMultipartUploadResult><ETag>{escape(new.etag)}</ETag>"
                         "</CompleteMultipartUploadResult>")

    # ---- Requests ---------------------------------------------------------------------------

    def bucket_request(self, ask):
        if self.command == "POST" and "delete" in ask:
            return self.delete_many()
        if self.command == "GET" and "versioning" in ask:
            return self.answer(200, "<VersioningConfiguration/>")
        if self.command == "GET" and "lifecycle" in ask:
            rule = "<Rule><Action><Delete/></Action><Condition><Age>9</Age></Condition></Rule>"
            return self.answer(200, "<LifecycleConfiguration>"
                                    f"{rule if self.bucket == 'rules' else ''}"
                                    "</LifecycleConfiguration>")
        if self.command == "GET":
            return self.list(ask)
        raise Refused(405, "MethodNotAllowed")

    def object_request(self, ask):
        if "uploadId" in ask and self.command == "DELETE":
            UPLOADS.pop(ask["uploadId"], None)
            return self.answer(204)
        ways = {("GET", False): self.get, ("PUT", False): self.put, ("DELETE", False): self.delete,
                ("POST", True): lambda: self.end_upload(ask), ("PUT", True): lambda: self.put_part(ask)}
        if self.command == "POST" and "uploads" in ask:
            return self.begin_upload()
        way = ways.get((self.command, "uploadId" in ask))
        if not way:
            raise Refused(405, "MethodNotAllowed")
        return way()

    def serve(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path, _, query = self.path.partition("?")
        ask = dict(urllib.parse.parse_qsl(query, keep_blank_values=True, errors="surrogateescape"))
        _, self.bucket, *rest = path.split("/", 2)
        self.name = urllib.parse.unquote(rest[0] if rest else "", errors="surrogateescape")
        try:
            self.check_signature()
            if self.bucket not in BUCKETS:
                raise Refused(404, "NoSuchBucket")
            if set(ask) - PARAMETERS:
                raise Refused(400, "InvalidArgument", f"unknown parameters {set(ask) - PARAMETERS}")
            (self.object_request if self.name else self.bucket_request)(ask)
        except Refused as refusal:
            self.answer(refusal.status,
                        f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{refusal.code}</Code>"
                        f"<Message>{escape(refusal.message)}</Message></Error>")

    do_GET = do_PUT = do_POST = do_DELETE = serve

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
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a client may hang up
            super().handle_error(request, client_address)


def main():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"port {server.server_address[1]}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
