# SPDX-License-Identifier: Apache-2.0
"""The C interface in _abi.py is that of the headers: a C compiler says so, for each struct,
member, initial value and constant.
"""

import ctypes
import dataclasses
import importlib.util
import os
import re
import subprocess

import pytest
from conftest import HERE

import holdfast
from holdfast import _abi
from holdfast._library import lib

INCLUDE = os.path.join(HERE, "../../../include")
pytestmark = pytest.mark.skipif(not os.path.isdir(INCLUDE), reason="the headers are not here")


def make_abi():
    spec = importlib.util.spec_from_file_location(
        "make_abi", os.path.join(HERE, "../tools/make_abi.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def structs():
    return {
        name: kind
        for name, kind in vars(_abi).items()
        if isinstance(kind, type) and issubclass(kind, _abi.Struct) and kind is not _abi.Struct
    }


def constants():
    return {name: value for name, value in vars(_abi).items() if re.fullmatch(r"HF_\w+", name)}


def text_of(name):
    with open(os.path.join(INCLUDE, "holdfast", name), encoding="utf-8") as file:
        return file.read()


def compiled(body, folder):
    source, program = folder / "layout.c", folder / "layout"
    source.write_text(
        '#include "holdfast.h"\n#include <stddef.h>\n#include <stdio.h>\n'
        "static void show(const unsigned char *at, size_t size) "
        '{ while (size--) printf("%02x", *at++); puts(""); }\n'
        "int main(void) {\n" + body + "return 0; }\n"
    )
    subprocess.run(["cc", "-O0", "-I", INCLUDE, "-o", program, source], check=True)
    return dict(
        line.split()
        for line in subprocess.run(
            [program], capture_output=True, text=True, check=True
        ).stdout.splitlines()
    )


def test_structs_and_constants_are_those_of_the_headers(tmp_path):
    body, expected = "", {}
    for name, value in constants().items():
        body += f'printf("{name} %lld\\n", (long long){name});\n'
        expected[name] = str(ctypes.c_int64(value).value)
    for name, kind in structs().items():
        body += f'printf("{name} %zu\\n", sizeof(struct {name}));\n'
        expected[name] = str(ctypes.sizeof(kind))
        for member, *_kind in kind._fields_:
            place = getattr(kind, member)
            body += f'printf("{name}.{member} %zu+%zu\\n", offsetof(struct {name}, {member}), '
            body += f"sizeof(((struct {name} *)0)->{member}));\n"
            expected[f"{name}.{member}"] = f"{place.offset}+{place.size}"
    found = compiled(body, tmp_path)
    assert found == expected


def test_initial_values_are_those_of_the_headers(tmp_path):
    macros = set(
        re.findall(
            r"#define (HF_\w+) ",
            "".join(text_of(name) for name in os.listdir(os.path.join(INCLUDE, "holdfast"))),
        )
    )
    names = [name for name in structs() if name.upper() in macros]
    assert len(names) > 30
    # Padding has no value, so each member is compared.
    body = "".join(
        f"{{ struct {name} it = {name.upper()}; "
        + "".join(
            f'printf("{name}.{member} "); '
            f"show((const unsigned char *)&it.{member}, sizeof it.{member}); "
            for member, *_kind in structs()[name]._fields_
        )
        + "}\n"
        for name in names
    )
    found = compiled(body, tmp_path)
    for name in names:
        value = structs()[name].new()
        for member, *_kind in structs()[name]._fields_:
            place = getattr(type(value), member)
            assert (
                bytes(value)[place.offset : place.offset + place.size].hex()
                == found[f"{name}.{member}"]
            ), (name, member)


def test_the_file_is_as_generated_from_the_headers():
    generator = make_abi()
    with open(generator.OUTPUT, encoding="utf-8") as file:
        assert file.read() == generator.write(
            generator.Interface()
        ), "run bindings/python/tools/make_abi.py: the headers have changed"


def test_every_function_of_the_headers_is_in_the_library():
    declared = {
        name
        for file in os.listdir(os.path.join(INCLUDE, "holdfast"))
        for name in re.findall(r"^HF_API [^;(]*?(hf_\w+)\(", text_of(file), re.M)
    }
    assert declared == set(_abi.FUNCTIONS)
    for name in declared:
        assert getattr(lib, name).restype is _abi.FUNCTIONS[name][0]


REPORTS = [
    (holdfast.KeyInfo, "hf_key_info", ()),
    (holdfast.KeyStatus, "hf_key_status", ()),
    (holdfast.Event, "hf_event", ()),
    (holdfast.Stats, "hf_stats", ()),
    (holdfast.RequestStats, "hf_request_stats", ()),
    (holdfast.LeaseInfo, "hf_lease_info", ("relation", "scope_count")),
    (holdfast.Blocker, "hf_blocker", ()),
    (holdfast.CompileReport, "hf_index_compile_report", ()),
    (holdfast.Folded, "hf_index_folded", ()),
    (holdfast.LoadReport, "hf_index_load_report", ()),
    (holdfast.IndexStats, "hf_index_stats", ()),
    (holdfast.MemberInfo, "hf_elect_info", ()),
    (holdfast.ChunkInfo, "hf_chunk_info", ()),
    (holdfast.Totals, "hf_compact_totals", ()),
    (holdfast.IngestReport, "hf_compact_ingest_report", ()),
    (holdfast.MergeReport, "hf_merge_report", ("reason_count",)),
]


@pytest.mark.parametrize("kind, struct, without", REPORTS, ids=[row[1] for row in REPORTS])
def test_a_report_has_the_members_of_its_struct(kind, struct, without):
    members = [
        name[:-3] if name.endswith("_ms") else name
        for name, *_kind in getattr(_abi, struct)._fields_
        if name not in ("struct_size", *without)
    ]
    assert [field.name for field in dataclasses.fields(kind)] == members


def test_every_status_has_an_exception():
    for status in holdfast.Status:
        assert status.name == lib.hf_status_name(status).decode()
        if status != holdfast.Status.OK:
            kind = getattr(
                holdfast, "".join(part.title() for part in status.name.split("_")) + "Error"
            )
            error = holdfast._errors.error_of(status, "why", "hf_call")
            assert type(error) is kind and issubclass(kind, holdfast.Error)
            assert (error.status, error.message, error.call, str(error)) == (
                status,
                "why",
                "hf_call",
                "why",
            )
    assert len(holdfast.Status) == _abi.HF_STATUS_COUNT
    assert type(holdfast._errors.error_of(77, "", "")) is holdfast.Error
