#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# static-library.sh CC OUTPUT WORK ARCHIVE... : combines several static libraries into one. Symbols
# that a shared library would hide are made local.
set -eu

compiler=$1 output=$2 work=$3
shift 3
mkdir -p "$work"
"$compiler" -r -nostdlib -o "$work/holdfast.o" -Wl,--whole-archive "$@" -Wl,--no-whole-archive
"$("$compiler" -print-prog-name=objcopy)" --localize-hidden "$work/holdfast.o"
rm -f "$output"
"$("$compiler" -print-prog-name=ar)" crs "$output" "$work/holdfast.o"
