#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# install-pages.sh FOLDER COMMAND... : installs manual pages during `meson install`. The command
# gets the folder as its last argument, and writes the pages there.
set -eu

case $1 in
/*) folder=${DESTDIR:-}$1 ;;
*) folder=$MESON_INSTALL_DESTDIR_PREFIX/$1 ;;
esac
shift
mkdir -p "$folder"
"$@" "$folder"
