#!/bin/sh
# install-pages.sh FOLDER COMMAND...: manual pages, when meson installs: the command writes them to the
# folder that it is given as its last word.
set -eu

case $1 in
/*) folder=${DESTDIR:-}$1 ;;
*) folder=$MESON_INSTALL_DESTDIR_PREFIX/$1 ;;
esac
shift
mkdir -p "$folder"
"$@" "$folder"
