#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# setup.sh [--check] build|test|full|bench|release|cross : installs the missing Debian 12 packages of a tier.
#
# It asks no questions, and does nothing when all packages are installed. When it may not install
# (not root, and sudo needs a password) it prints the command to type and fails. It needs only a
# shell, dpkg and apt.
set -eu

build="gcc libc6-dev python3 meson ninja-build pkg-config libjansson-dev libxxhash-dev
	libssl-dev libsqlite3-dev libcurl4-openssl-dev libexpat1-dev zlib1g-dev libzstd-dev libuv1-dev libncurses-dev"
test="$build clang clang-format libclang-rt-14-dev llvm-14 libcmocka-dev binutils git sqlite3
	g++ zsh fish tmux procps strace groff-base mold gcovr valgrind e2fsprogs spin mount curl iproute2 mawk zstd python3-jsonschema abigail-tools ceph-mon ceph-osd radosgw ceph-common libhttp-parser-dev openssl
	prometheus python3-prometheus-client chromium pngquant cmark-gfm
	python3-pytest python3-build python3-setuptools python3-wheel python3-pip python3-venv mypy"
full="$test golang-go"
# What benchmarks compare with. A service that the installation starts is not used by them.
bench="redis-server etcd-server etcd-client zookeeper postgresql-15"
# A compiler for the other one of arm64 and amd64. That for this machine is gcc, under another name.
case $(dpkg --print-architecture 2>/dev/null) in
amd64) cross="gcc-aarch64-linux-gnu binutils-aarch64-linux-gnu qemu-user-static" ;;
*) cross="gcc-x86-64-linux-gnu binutils-x86-64-linux-gnu qemu-user-static" ;;
esac
# What makes packages of a release, and tests them.
release="$build $cross build-essential debhelper dh-python pybuild-plugin-pyproject python3-all python3-setuptools python3-wheel
	lintian debootstrap"

# --check installs nothing: it prints the command to type, and fails.
check=
if [ "${1:-}" = --check ]; then
	check=yes
	shift
fi
case "${1:-}" in
build) wanted=$build ;;
test) wanted=$test ;;
full) wanted=$full ;;
bench) wanted=$bench ;;
release) wanted=$release ;;
cross) wanted=$cross ;;
*)
	echo "usage: setup.sh [--check] build|test|full|bench|release|cross" >&2
	exit 2
	;;
esac
# Any installed version of node and npm will do, from Debian or newer.
if [ "$1" = test ]; then
	command -v node >/dev/null || wanted="$wanted nodejs"
	command -v npm >/dev/null || wanted="$wanted npm"
fi

# Installs what the tests take from npm, pinned by a lock file: two servers, DuckDB's library, and what
# drives a browser. They are kept in the user's cache, for other checkouts of the same lock file.
install_npm_packages() {
	servers=$(dirname "$0")/../tests/servers
	kept=${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/holdfast-tests/npm-$(sha256sum <"$servers/package-lock.json" | cut -c1-16)
	if [ ! -d "$kept" ]; then
		echo "setup: npm ci of tests/servers"
		made=$kept.$$
		mkdir -p "$made"
		cp "$servers/package.json" "$servers/package-lock.json" "$made/"
		npm ci --prefix "$made" --no-audit --no-fund --loglevel=error
		mv -T "$made" "$kept" 2>/dev/null || rm -rf "$made" # another checkout was faster
	fi
	[ "$(readlink "$servers/node_modules" || :)" != "$kept/node_modules" ] || return 0
	rm -rf "$servers/node_modules"
	ln -s "$kept/node_modules" "$servers/node_modules"
}
tier=$1

# shellcheck disable=SC2086
set -- $wanted

if ! command -v dpkg-query >/dev/null; then
	echo "setup: this is not a Debian system; checking for the tools only" >&2
	for tool in cc meson ninja pkg-config python3; do
		if ! command -v "$tool" >/dev/null; then
			echo "setup: $tool is missing; install the equivalents of: $*" >&2
			exit 1
		fi
	done
	exit 0
fi

installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || :)
missing=
for package in "$@"; do
	case "
$installed
" in
	*"
$package installed
"*) ;;
	*) missing="$missing $package" ;;
	esac
done
if [ -z "$missing" ]; then
	[ "$tier" != test ] || [ "$check" ] || install_npm_packages
	exit 0
fi
if [ "$check" ]; then
	echo "setup: some packages are missing; install them with 'make setup', or with:" >&2
	echo "  apt-get install -y --no-install-recommends$missing" >&2
	exit 1
fi

as_root=
if [ "$(id -u)" -ne 0 ]; then
	if ! sudo -n true 2>/dev/null; then
		echo "setup: some packages are missing; run this command, then try again:" >&2
		echo "  sudo apt-get install -y --no-install-recommends$missing" >&2
		exit 1
	fi
	as_root="sudo -n"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt() {
	if ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
		-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" >"$log" 2>&1; then
		tail -n 30 "$log" >&2
		echo "setup: apt-get $1 failed" >&2
		exit 1
	fi
}

echo "setup: installing with apt-get:$missing"
apt update
# shellcheck disable=SC2086
apt install --no-install-recommends $missing
[ "$tier" != test ] || install_npm_packages
