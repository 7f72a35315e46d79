#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# amd64.sh : builds for amd64 on another architecture, and runs the unit tests and the program
# under qemu-user.
#
# The amd64 libraries are in a folder of their own (tools/sysroot.sh).
set -eu
cd "$(dirname "$0")/.."

if [ "$(uname -m)" = x86_64 ]; then
	echo "amd64: this is an amd64 machine; 'make test' covers it"
	exit 0
fi
sh tools/setup.sh test
sh tools/setup.sh cross

root=$PWD/build-amd64/root
packages="libc6-dev libgcc-12-dev libjansson-dev libxxhash-dev libssl-dev libsqlite3-dev
	libcurl4-openssl-dev libexpat1-dev zlib1g-dev libzstd-dev libuv1-dev libncurses-dev libhttp-parser-dev
	libcmocka-dev"

write_cross_file() {
	cat >build-amd64/cross.ini <<END
[binaries]
c = 'x86_64-linux-gnu-gcc'
ar = 'x86_64-linux-gnu-ar'
strip = 'x86_64-linux-gnu-strip'
objcopy = 'x86_64-linux-gnu-objcopy'
pkgconfig = 'pkg-config'
exe_wrapper = ['qemu-x86_64-static', '-L', '$root', '-cpu', 'max']

[built-in options]
c_args = ['--sysroot=$root']
c_link_args = ['--sysroot=$root']

[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/x86_64-linux-gnu/pkgconfig:$root/usr/share/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
END
}

# shellcheck disable=SC2086
sh tools/sysroot.sh amd64 build-amd64 $packages
build=build-amd64/build
if [ ! -f "$build/build.ninja" ]; then
	write_cross_file
	meson setup "$build" -Ddeveloper=true --cross-file build-amd64/cross.ini
fi
ninja -C "$build"

echo "amd64: unit tests under qemu"
status=0
meson test -C "$build" --no-rebuild --timeout-multiplier 10 --print-errorlogs \
	base_test base_parse_test instant_test map_test json_test merge_core_test merge_csv_test \
	merge_ndjson_test || status=1

echo "amd64: the program under qemu"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
holdfast() {
	qemu-x86_64-static -L "$root" -cpu max "$build/src/cli/holdfast" "$@"
}
echo "hello from amd64" >"$place/body"
for store in "sqlite:$place/a.db" "dir:$place/dir"; do
	holdfast --store "$store" store put --if-absent greeting "$place/body"
	[ "$(holdfast --store "$store" store get greeting)" = "hello from amd64" ] || status=1
	holdfast --store "$store" store ls
done
holdfast version
if [ -x build-gcc/sim/holdfast-sim ]; then
	echo "amd64: the simulator takes the same steps as on this machine"
	here=$(build-gcc/sim/holdfast-sim --seed 7 --hash)
	there=$(qemu-x86_64-static -L "$root" -cpu max "$build/sim/holdfast-sim" --seed 7 --hash)
	echo "  $here"
	[ "$here" = "$there" ] || status=1
fi
[ "$status" -eq 0 ] && echo "amd64: passed" || echo "amd64: failed"
exit "$status"
