#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# version.sh : prints the version of the project, which is in meson.build and nowhere else.
set -eu
sed -n "s/^ *version: '\([^']*\)',$/\1/p" "$(dirname "$0")/../meson.build"
