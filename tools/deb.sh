#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh [ARCHITECTURE] : builds the Debian packages into build-deb, and checks them with lintian. ARCHITECTURE is
# amd64, arm64, or `other`: the one of these two that is not that of this machine.
#
# They are built from a copy of the sources, because Debian's tools write beside what they build. The
# version is that of meson.build, and the date that of the last commit, so the same sources make
# the same packages.
#
# Packages of another architecture are cross-built in a Debian of their own (tools/chroot.sh), where packages of
# both architectures can be installed; that needs root. The Python package is for all architectures, and is built
# with those of this machine.
set -eu
cd "$(dirname "$0")/.."
sh tools/setup.sh release

here=$(dpkg --print-architecture)
architecture=${1:-$here}
if [ "$architecture" = other ]; then
	[ "$here" = amd64 ] && architecture=arm64 || architecture=amd64
fi
case $architecture in
amd64) cpu=x86_64 ;;
arm64) cpu=aarch64 ;;
*)
	echo "usage: deb.sh [amd64 | arm64 | other]" >&2
	exit 2
	;;
esac
version=$(sh tools/version.sh)
out=$PWD/build-deb
tree=$out/holdfast-$version

copy_sources() {
	rm -rf "$tree"
	mkdir -p "$tree"
	tar -c --exclude=__pycache__ --exclude='*.egg-info' CHANGELOG.md LICENSE README.md bindings debian docs \
		examples include meson.build meson_options.txt sim src tools | tar -x -C "$tree"
	cat >"$tree/debian/changelog" <<END
holdfast ($version) bookworm; urgency=medium

  * Version $version. CHANGELOG.md says what is new.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
}

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
PATH=/usr/sbin:/usr/bin:/sbin:/bin # Debian's tools, whatever else is installed
copy_sources
# Runs a command whose output is in build-deb/log.
logged() {
	"$@" >>"$out/log" 2>&1 || {
		tail -n 20 "$out/log" | cut -c1-400 >&2
		echo "deb: $what failed; all it said is in build-deb/log" >&2
		exit 1
	}
}

build_here() {
	echo "deb: building"
	what=dpkg-buildpackage
	(cd "$tree" && logged dpkg-buildpackage -us -uc -b)
}

# Without binfmt_misc in the kernel, meson has to be told what runs the program that writes the manual pages.
build_in_chroot() {
	root=$out/$architecture-root
	if [ ! -e "$root.made" ]; then
		what=debootstrap
		logged sh tools/chroot.sh make "$root"
		touch "$root.made"
	fi
	rm -rf --one-file-system "$root/build"
	mkdir "$root/build"
	mv "$tree" "$root/build/"
	cat >"$root/build/run.ini" <<END
[binaries]
exe_wrapper = 'qemu-$cpu-static'

[properties]
run_host = ['qemu-$cpu-static']
END
	echo "deb: installing what a cross-build for $architecture needs"
	what="the installation of packages"
	logged sh tools/chroot.sh run "$root" "cd /build/holdfast-$version
		dpkg --add-architecture $architecture
		apt-get -q update
		apt-get -q -y install --no-install-recommends crossbuild-essential-$architecture qemu-user-static
		apt-get -q -y build-dep --no-install-recommends --host-architecture $architecture -P cross,nocheck --arch-only ./"
	echo "deb: building for $architecture"
	what=dpkg-buildpackage
	logged sh tools/chroot.sh run "$root" "cd /build/holdfast-$version
		export SOURCE_DATE_EPOCH=$SOURCE_DATE_EPOCH MESON_OPTIONS='--cross-file /build/run.ini'
		dpkg-buildpackage -a $architecture -Pcross,nocheck -us -uc -B"
	echo "deb: installing them there, and running the program"
	what="the program for $architecture"
	logged sh tools/chroot.sh run "$root" "cd /build
		apt-get -q -y install --no-install-recommends ./holdfast_*.deb ./libholdfast0_*.deb ./libholdfast-dev_*.deb
		qemu-$cpu-static /usr/bin/holdfast version
		qemu-$cpu-static /usr/bin/holdfast --store sqlite:/tmp/locks.db acquire deploy
		dpkg --purge holdfast:$architecture libholdfast-dev:$architecture libholdfast0:$architecture"
	cp "$root"/build/*.deb "$root"/build/*.changes "$root"/build/*.buildinfo "$out/"
}

: >"$out/log"
if [ "$architecture" = "$here" ]; then
	build_here
else
	build_in_chroot
fi

echo "deb: lintian"
lintian --fail-on error,warning "$out/holdfast_${version}_$architecture.changes"
ls -l "$out"/*_"$architecture".deb
