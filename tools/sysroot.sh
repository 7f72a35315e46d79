#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sysroot.sh ARCHITECTURE FOLDER PACKAGE... : unpacks Debian packages of an architecture, and all that
# they depend on, into FOLDER/root. SUITE (default: that of this system) names another release.
#
# They come from the mirror that apt uses. The packages of this system do not change, and no foreign
# architecture is added to it.
set -eu
architecture=$1 state=$(realpath -m "$2")/apt root=$(realpath -m "$2")/root suite=${SUITE:-}
shift 2

[ "$(cat "$root/.complete" 2>/dev/null)" != "$*" ] || exit 0
rm -rf "$state" "$root"
mkdir -p "$state/lists/partial" "$state/archives/partial" "$root"
: >"$state/status" # an empty package database, so apt also fetches every dependency

apt_private() {
	apt-get -q -y -o APT::Architecture="$architecture" -o APT::Architectures::="$architecture" \
		-o Dir::State="$state" -o Dir::State::status="$state/status" \
		-o Dir::Cache="$state" -o Debug::NoLocking=1 -o APT::Sandbox::User=root \
		-o Acquire::Retries=3 ${suite:+-o Dir::Etc::sourcelist="$state/sources" -o Dir::Etc::sourceparts=/dev/null} \
		"$@" >"$state/log" 2>&1 || {
		tail -n 20 "$state/log" >&2
		echo "sysroot: apt-get $1 failed" >&2
		exit 1
	}
}

if [ "$suite" ]; then
	site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site $suite main" >"$state/sources"
fi
echo "sysroot: fetching packages of ${suite:-this release} for $architecture"
apt_private update
apt_private install --download-only --no-install-recommends "$@"
for top in bin sbin lib lib64; do
	mkdir -p "$root/usr/$top"
	[ -e "$root/$top" ] || ln -s "usr/$top" "$root/$top"
done
for package in "$state"/archives/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
done
# Redirects absolute links into this folder.
find "$root" -type l -lname '/*' | while read -r link; do
	ln -sfn "$root$(readlink "$link")" "$link"
done
echo "$*" >"$root/.complete"
