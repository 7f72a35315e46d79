#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_routes_test.py: the routes of the server and docs/openapi.json agree, and the document is
one that other programs can read."""

import glob
import os
import re
import sys

import jsonschema

import serve_openapi
import tap_kit

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
ROUTE = re.compile(r'\{\s*HTTP_VERB_(\w+),\s*"(/[^"]*)"')
PLACES = {"query": "IN_QUERY", "header": "IN_HEADER"}
# A filter may be sent several times, and a header of a stream belongs to events.c.
READ_ELSEWHERE = {("IN_QUERY", "filter"), ("IN_HEADER", "Last-Event-ID")}
METHODS = {"get", "post", "put", "delete", "patch"}


def routes_of_server():
    found = []
    for path in glob.glob(os.path.join(ROOT, "src/serve/**/*.c"), recursive=True):
        with open(path, encoding="utf-8") as file:
            found += [(verb.lower(), route) for verb, route in ROUTE.findall(file.read())]
    return sorted(found)


def routes_of_document(document):
    return sorted((method, path) for path, item in document["paths"].items() for method in item)


def references(part):
    if isinstance(part, dict):
        if "$ref" in part:
            yield part
        part = part.values()
    if isinstance(part, (list, type({}.values()))):
        for one in part:
            yield from references(one)


def every_route_is_described():
    server, document = routes_of_server(), routes_of_document(serve_openapi.load())
    assert len(server) > 10, "the routes are found in the source"
    assert server == document, f"they differ in {sorted(set(server) ^ set(document))}"


def the_document_is_whole():
    document = serve_openapi.load()
    assert document["openapi"].startswith("3.1.")
    for part in references(document):
        serve_openapi.resolve(document, part)
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    names = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            assert method in METHODS, f"{path}: {method}"
            assert operation["summary"] and "200" in operation["responses"], path
            names.append(operation["operationId"])
    assert len(names) == len(set(names)), "each operationId occurs once"


def the_document_names_every_word_of_an_error():
    """The words are those of the tables in reply.c, and of refusals by HTTP itself."""
    document = serve_openapi.load()
    words = set()
    for response in document["components"]["responses"].values():
        schema = response["content"]["application/json"]["schema"]
        words |= set(schema["properties"]["error"]["enum"])
    with open(os.path.join(ROOT, "src/serve/api/reply.c"), encoding="utf-8") as file:
        text = file.read()
    used = set(re.findall(r"\{ (?:[45]\d\d), \"(\w+)\"", text))
    assert len(used) > 10 and used <= words, f"not described: {sorted(used - words)}"


def every_member_is_described():
    """What ask.c reads from a body, a query or a header is in the document, and nothing else."""
    document = serve_openapi.load()
    described = {("IN_BODY", name) for schema, parts in document["components"]["schemas"].items()
                 if schema.endswith("Request") for name in parts["properties"]}
    for item in document["paths"].values():
        for operation in item.values():
            for part in operation.get("parameters", []):
                part = serve_openapi.resolve(document, part)
                described.add((PLACES[part["in"]], part["name"]))
    with open(os.path.join(ROOT, "src/serve/api/ask.c"), encoding="utf-8") as file:
        rows = re.findall(r'(?:TEXT|NUMBER|FLAG|OBJECT)\("([\w-]+)", ([A-Z_| ]+),', file.read())
    read = {(place, name) for name, places in rows for place in places.split(" | ")}
    read = read | READ_ELSEWHERE
    assert len(read) > 30, "the fields are found in the source"
    assert read == described, f"they differ in {sorted(read ^ described)}"


CASES = [
    ("every route of the server is described, and no other", every_route_is_described),
    ("every member and parameter of a request is described", every_member_is_described),
    ("the document is whole", the_document_is_whole),
    ("the document names every word of an error", the_document_names_every_word_of_an_error),
]


def main():
    for sentence, case in CASES:
        why = ""
        try:
            case()
        except (AssertionError, KeyError, jsonschema.SchemaError) as error:
            why = f"{type(error).__name__}: {error}"
        tap_kit.tell(not why, sentence, why)
    return tap_kit.end()


if __name__ == "__main__":
    sys.exit(main())
