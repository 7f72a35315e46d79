#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# c-files.sh : prints the names of all C files of the tree, one per line.
set -eu
cd "$(dirname "$0")/.."
for folder in include src sim tests fuzz bench examples; do
	[ ! -d "$folder" ] || find "$folder" -name node_modules -prune -o -name '*.[ch]' -print
done | sort
