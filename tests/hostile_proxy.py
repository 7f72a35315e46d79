# SPDX-License-Identifier: Apache-2.0
"""hostile_proxy.py: an HTTP proxy in front of a store that treats a part of the requests badly.

Each request meets one of these fates, drawn from a seed:
    lost reply     the store does it; the client's connection is closed without an answer
    late           the connection is closed at once; the store gets the request up to LATE_MAX seconds later
    500            the store does it; the client is answered 500
    cut            the connection is closed, and the store never hears of it
or it is passed on as it is.
"""

import collections
import http.client
import http.server
import random
import threading

LATE_MAX = 3.0  # seconds
FATES = {"lost reply": 0.04, "late": 0.03, "500": 0.03, "cut": 0.02}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def handle_any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fate = self.server.draw_fate()
        if fate == "cut":
            self.hang_up()
        elif fate == "late":
            self.server.later(self.command, self.path, self.headers, body)
            self.hang_up()
        else:
            self.answer(fate, *self.server.ask(self.command, self.path, self.headers, body))

    def answer(self, fate, status, headers, body):
        if fate == "lost reply" or status is None:
            self.hang_up()
            return
        if fate == "500":
            status, headers, body = 500, [], b"<Error><Code>InternalError</Code></Error>"
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "keep-alive"):
                self.send_header(name, value)
        length = dict((name.lower(), value) for name, value in headers).get("content-length")
        if self.command == "HEAD" and length is not None:
            self.send_header("Content-Length", length)
        elif status not in (204, 304):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def log_message(self, *_):
        pass


class Proxy(http.server.ThreadingHTTPServer):
    """Listens on a free port of loopback until closed. `fates` counts what happened."""

    daemon_threads = True

    def __init__(self, endpoint, seed):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target = endpoint.rpartition("//")[2]
        self.endpoint = "http://127.0.0.1:%d" % self.server_address[1]
        self.random, self.lock = random.Random(seed), threading.Lock()
        self.fates = collections.Counter()
        self.hostile = True
        self.late = []  # timers
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()

    def draw_fate(self):
        with self.lock:
            fate = "passed on"
            if self.hostile:
                fate, = self.random.choices([*FATES, "passed on"],
                                            [*FATES.values(), 1 - sum(FATES.values())])
            self.fates[fate] += 1
            return fate

    def ask(self, method, path, headers, body):
        """Status, headers and body of the store's answer; None as status if there is none."""
        connection = http.client.HTTPConnection(self.target, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            reply = connection.getresponse()
            return reply.status, reply.getheaders(), reply.read()
        except (OSError, http.client.HTTPException):
            return None, [], b""
        finally:
            connection.close()

    def later(self, *request):
        with self.lock:
            timer = threading.Timer(self.random.uniform(0.05, LATE_MAX), self.ask, request)
            self.late.append(timer)
        timer.start()

    def calm(self):
        """From now on everything is passed on; returns once all late requests have landed."""
        self.hostile = False
        while self.late:
            self.late.pop().join()

    def close(self):
        self.calm()
        self.shutdown()
        self.server_close()
        self.thread.join()

    def handle_error(self, *_):
        pass  # a client that was killed
