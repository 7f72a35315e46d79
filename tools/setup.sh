#!/bin/sh
# setup.sh build|test|cross : install the Debian 12 packages a tier needs, and only the missing ones.
#
# Asks nothing. Does nothing when everything is there. When it may not install (not root, no
# sudo without a password) it prints the one line to type and fails.
set -eu

build="gcc libc6-dev meson ninja-build pkg-config libjansson-dev libxxhash-dev libssl-dev libsqlite3-dev"
test="$build clang clang-format libclang-rt-14-dev llvm-14 libcmocka-dev python3 git sqlite3"
cross="gcc-x86-64-linux-gnu libc6-dev-amd64-cross qemu-user-static"

case "${1:-}" in
build) wanted=$build ;;
test) wanted=$test ;;
cross) wanted=$cross ;;
*) echo "usage: setup.sh build|test|cross" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
	echo "setup: this is not a Debian system; install the equivalents of: $wanted" >&2
	exit 1
fi

missing=
for package in $wanted; do
	state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || :)
	[ "$state" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" -ne 0 ]; then
	if ! sudo -n true 2>/dev/null; then
		echo "setup: some packages are missing; type this, then try again:" >&2
		echo "  sudo apt-get install -y --no-install-recommends$missing" >&2
		exit 1
	fi
	as_root="sudo -n"
fi
echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
