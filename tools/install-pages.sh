#!/bin/sh
# install-pages.sh PROGRAM FOLDER: the manual pages, one per command, when meson installs.
set -eu

case $2 in
/*) folder=${DESTDIR:-}$2 ;;
*) folder=$MESON_INSTALL_DESTDIR_PREFIX/$2 ;;
esac
mkdir -p "$folder"
"$1" help --man-pages "$folder"
