#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_openapi.py: checks replies of the server against docs/openapi.json.

    serve_openapi.py < REPLIES

Each line of REPLIES is a JSON object: method, route, status, type (the Content-Type) and text of the
reply, and `sent`, the JSON body of the request. It prints what the document does not describe: a
path, method or status, a member of a reply, or a request that the server accepted. The document
allows replies to have further members, so that the API can grow; here they must be described.
"""

import json
import os
import sys
import urllib.parse

import jsonschema

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "openapi.json")
PROBLEMS_MAX = 20


def closed(schema):
    """The same, but objects have no members besides those that are described."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {name: closed(part) for name, part in schema.items()}
    if schema.get("type") == "object" and "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def load():
    with open(DOCUMENT, encoding="utf-8") as file:
        return json.load(file)


def resolve(document, part):
    while "$ref" in part:
        found = document
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = found
    return part


def misfit(document, schema, value):
    """Why a value does not fit a schema, or None."""
    whole = {**schema, "components": document["components"]}
    best = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(whole).iter_errors(value))
    if best is None:
        return None
    at = "/".join(str(step) for step in best.absolute_path)
    return f"{at or 'the whole'}: {best.message[:300]}"


class Checker:
    def __init__(self):
        self.open = load()
        self.closed = closed(self.open)

    def response(self, operation, status):
        if operation is None:
            name = {404: "NotFound", 405: "WrongMethod"}.get(status)
            return name and self.closed["components"]["responses"][name]
        found = operation["responses"].get(str(status))
        return found and resolve(self.closed, found)

    def reply(self, reply, operation):
        response = self.response(operation, reply["status"])
        if response is None:
            return f"the status {reply['status']} is not described"
        content = response.get("content")
        if not content:
            return "a body is not described" if reply["text"] else None
        kind = (reply["type"] or "").split(";")[0]
        if kind not in content:
            return f"the type {kind!r} is not described"
        schema = content[kind].get("schema")
        return schema and misfit(self.closed, schema, json.loads(reply["text"]))

    def request(self, reply, operation):
        """What was accepted must be described: each parameter, and the type of each member. The
        server ignores members that it does not know, and null."""
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(reply["route"]).query)
        known = {resolve(self.open, one)["name"] for one in operation.get("parameters", [])}
        for name in query:
            if name not in known:
                return f"the parameter {name!r} is not described"
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content or not isinstance(reply.get("sent"), dict):
            return None
        sent = {name: value for name, value in reply["sent"].items() if value is not None}
        why = misfit(self.open, content["application/json"]["schema"], sent)
        return why and f"the request: {why}"

    def check(self, reply):
        path = urllib.parse.urlsplit(reply["route"]).path
        method = reply["method"].lower()
        why = self.reply(reply, self.closed["paths"].get(path, {}).get(method))
        if why is None and reply["status"] == 200:
            why = self.request(reply, self.open["paths"][path][method])
        return why and f"{reply['method']} {reply['route']} {reply['status']}: {why}"


def main():
    checker = Checker()
    problems = [why for why in map(checker.check, map(json.loads, sys.stdin)) if why]
    for why in sorted(set(problems))[:PROBLEMS_MAX]:
        print(why)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
