#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cross.sh : builds for arm64 on amd64, and for amd64 on every other architecture, and runs unit tests and
# the program under qemu-user.
#
# The libraries of that architecture are in a folder of their own (tools/sysroot.sh).
set -eu
cd "$(dirname "$0")/.."

if [ "$(uname -m)" = x86_64 ]; then
	architecture=arm64 cpu=aarch64 loader=ld-linux-aarch64.so.1
else
	architecture=amd64 cpu=x86_64 loader=ld-linux-x86-64.so.2
fi
sh tools/setup.sh test
sh tools/setup.sh cross
PATH=/usr/sbin:/usr/bin:/sbin:/bin # Debian's tools, whatever else is installed

root=$PWD/build-$architecture/root
packages="libc6-dev libgcc-12-dev libjansson-dev libxxhash-dev libssl-dev libsqlite3-dev
	libcurl4-openssl-dev libexpat1-dev zlib1g-dev libzstd-dev libuv1-dev libncurses-dev libhttp-parser-dev
	libcmocka-dev"

# With qemu's own option for this (-L), the root folder of the program would be $root, so that it finds no /tmp.
write_runner() {
	cat >"build-$architecture/run" <<END
#!/bin/sh
exec qemu-$cpu-static -cpu max '$root/usr/lib/$cpu-linux-gnu/$loader' --library-path '$root/usr/lib/$cpu-linux-gnu' "\$@"
END
	chmod +x "build-$architecture/run"
}

write_cross_file() {
	cat >"build-$architecture/cross.ini" <<END
[binaries]
c = '$cpu-linux-gnu-gcc'
ar = '$cpu-linux-gnu-ar'
strip = '$cpu-linux-gnu-strip'
objcopy = '$cpu-linux-gnu-objcopy'
pkgconfig = 'pkg-config'
exe_wrapper = ['$PWD/build-$architecture/run']

[built-in options]
c_args = ['--sysroot=$root']
c_link_args = ['--sysroot=$root']

[properties]
sys_root = '$root'
pkg_config_libdir = '$root/usr/lib/$cpu-linux-gnu/pkgconfig:$root/usr/share/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = '$cpu'
cpu = '$cpu'
endian = 'little'
END
}

# shellcheck disable=SC2086
sh tools/sysroot.sh "$architecture" "build-$architecture" $packages
build=build-$architecture/build
write_runner
if [ ! -f "$build/build.ninja" ]; then
	write_cross_file
	meson setup "$build" -Ddeveloper=true --cross-file "build-$architecture/cross.ini"
fi
tests="base_test base_parse_test instant_test map_test json_test merge_core_test merge_csv_test merge_ndjson_test"
programs="src/cli/holdfast src/serve/holdfast-serve src/top/holdfast-top src/libholdfast.so.0 sim/holdfast-sim"
# shellcheck disable=SC2046,SC2086
ninja -C "$build" $programs $(printf 'tests/%s ' $tests)

echo "$architecture: unit tests under qemu"
status=0
# shellcheck disable=SC2086
meson test -C "$build" --no-rebuild --timeout-multiplier 10 --print-errorlogs $tests || status=1

echo "$architecture: the program under qemu"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
holdfast() {
	"build-$architecture/run" "$build/src/cli/holdfast" "$@"
}
echo "hello from $architecture" >"$place/body"
for store in "sqlite:$place/a.db" "dir:$place/dir"; do
	holdfast --store "$store" store put --if-absent greeting "$place/body"
	[ "$(holdfast --store "$store" store get greeting)" = "hello from $architecture" ] || status=1
	holdfast --store "$store" store ls
done
holdfast version
if [ -x build-gcc/sim/holdfast-sim ]; then
	echo "$architecture: the simulator takes the same steps as on this machine"
	here=$(build-gcc/sim/holdfast-sim --seed 7 --hash)
	there=$("build-$architecture/run" "$build/sim/holdfast-sim" --seed 7 --hash)
	echo "  $here"
	[ "$here" = "$there" ] || status=1
fi
[ "$status" -eq 0 ] && echo "$architecture: passed" || echo "$architecture: failed"
exit "$status"
