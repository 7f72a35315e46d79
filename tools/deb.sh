#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deb.sh : builds the Debian packages into build-deb, and checks them with lintian.
#
# They are built from a copy of the sources, because Debian's tools write beside what they build. The
# version is that of meson.build, and the date that of the last commit, so the same sources make
# the same packages.
set -eu
cd "$(dirname "$0")/.."
sh tools/setup.sh release

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
echo "deb: building"
(cd "$tree" && dpkg-buildpackage -us -uc -b) >"$out/log" 2>&1 || {
	tail -n 20 "$out/log" | cut -c1-400 >&2
	echo "deb: dpkg-buildpackage failed; all it said is in build-deb/log" >&2
	exit 1
}

echo "deb: lintian"
lintian --fail-on error,warning "$out/holdfast_${version}_$(dpkg --print-architecture).changes"
ls -l "$out"/*.deb
