#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tarball.sh [ARCHITECTURE]... : builds build-tarball/holdfast-VERSION-linux-ARCHITECTURE.tar.gz (default:
# arm64 and amd64), with one program that runs on every Linux with glibc 2.31 or later.
#
# Everything but the C library is linked statically. The C library is that of Debian 11 when the
# program is linked, so that it uses no symbol of a later one (tools/bundle/old_libc.c has the
# few functions that are missing there). The other libraries are those of Debian 12; libcurl is built
# from Debian's source, because its static library needs shared ones.
set -eu
cd "$(dirname "$0")/.."
sh tools/setup.sh release
PATH=/usr/sbin:/usr/bin:/sbin:/bin # Debian's tools, whatever else is installed

version=$(sh tools/version.sh)
work=$PWD/build-tarball
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
packages="libc6-dev libgcc-12-dev libjansson-dev libxxhash-dev libssl-dev libsqlite3-dev
	libcurl4-openssl-dev libexpat1-dev zlib1g-dev libzstd-dev libuv1-dev libncurses-dev"

# Runs a command whose output is shown only if it fails.
quietly() {
	"$@" >"$folder/log" 2>&1 || {
		tail -n 20 "$folder/log" | cut -c1-400 >&2
		echo "tarball: $1 failed; all it said is in $folder/log" >&2
		exit 1
	}
}

# Debian 12 with the libraries, but not the headers, of the C library of Debian 11.
make_sysroot() {
	[ ! -f "$root/.old" ] || return 0
	# shellcheck disable=SC2086
	sh tools/sysroot.sh "$architecture" "$folder" $packages
	SUITE=bullseye sh tools/sysroot.sh "$architecture" "$folder/old" libc6-dev
	for package in "$folder"/old/apt/archives/libc6_* "$folder"/old/apt/archives/libc6-dev_*; do
		dpkg-deb --fsys-tarfile "$package" |
			tar -x --keep-directory-symlink --exclude=./usr/include --exclude=./usr/share -C "$root"
	done
	find "$root" -type l -lname '/*' ! -lname "$root/*" | while read -r link; do
		ln -sfn "$root$(readlink "$link")" "$link"
	done
	# The linker takes the static library where there is no shared one.
	[ -e "$libraries/libuv.a" ] || ln -s libuv_a.a "$libraries/libuv.a"
	for name in crypto jansson ncursesw sqlite3 ssl tinfo uv; do
		test -e "$libraries/lib$name.a"
		rm -f "$libraries/lib$name.so"
	done
	touch "$root/.old"
}

fetch_curl() {
	[ ! -f "$work/curl/source/configure" ] || return 0
	rm -rf "$work/curl"
	mkdir -p "$work/curl/lists/partial" "$work/curl/archives/partial"
	site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
	echo "deb-src [signed-by=$keyring] $site bookworm main" >"$work/curl/sources"
	for step in update "source curl"; do
		# shellcheck disable=SC2086
		(cd "$work/curl" && quietly apt-get -q -y -o Dir::Etc::sourcelist="$PWD/sources" -o Dir::Etc::sourceparts=/dev/null \
			-o Dir::State="$PWD" -o Dir::Cache="$PWD" -o APT::Sandbox::User=root -o Acquire::Retries=3 $step)
	done
	mv "$work"/curl/curl-*/ "$work/curl/source"
}

# HTTP and TLS alone: the program asks for nothing else.
build_curl() {
	[ ! -f "$folder/curl/lib/.libs/libcurl.a" ] || return 0
	without=
	for name in ldap ldaps rtsp dict telnet tftp pop3 imap smb smtp gopher mqtt ftp file manual ntlm cookies \
		alt-svc doh; do
		without="$without --disable-$name"
	done
	for name in libpsl libidn2 nghttp2 brotli zstd zlib librtmp libssh2 libgsasl ca-bundle ca-path; do
		without="$without --without-$name"
	done
	echo "tarball: libcurl for $architecture"
	rm -rf "$folder/curl"
	mkdir -p "$folder/curl"
	# shellcheck disable=SC2086
	(cd "$folder/curl" && quietly env CC="$triplet-gcc --sysroot=$root" CFLAGS="-O2 -fPIC -fvisibility=hidden" \
		PKG_CONFIG_LIBDIR="$libraries/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" ../../curl/source/configure \
		--host="$triplet" --disable-shared --enable-static --with-openssl="$root/usr" --enable-threaded-resolver \
		$without)
	quietly make -C "$folder/curl/lib" -j2 libcurl.la
}

# One object that has the functions of all libraries that are loaded elsewhere (src/file/library.h), in
# a table. All other names are local.
build_bundle() {
	echo "tarball: the libraries in one object, for $architecture"
	python3 tools/bundle.py "$folder/table.c" src/store/remote/curl.c src/store/remote/crypto.c \
		src/store/remote/expat.c src/merge/zlib.c src/merge/zstd.c
	quietly "$triplet-gcc" --sysroot="$root" -O2 -fPIC -c -o "$folder/table.o" "$folder/table.c"
	for name in roots old_libc; do
		quietly "$triplet-gcc" --sysroot="$root" -D_GNU_SOURCE -O2 -fPIC -Wall -Wextra -c -o "$folder/$name.o" \
			"tools/bundle/$name.c"
	done
	quietly "$triplet-gcc" -r -nostdlib -o "$folder/bundle.o" "$folder/table.o" "$folder/roots.o" "$folder/old_libc.o" -Wl,--start-group \
		"$folder/curl/lib/.libs/libcurl.a" "$libraries/libssl.a" "$libraries/libcrypto.a" "$libraries/libexpat.a" \
		"$libraries/libz.a" "$libraries/libzstd.a" -Wl,--end-group
	keep=
	for name in bundled_functions pidfd_open pidfd_send_signal close_range sigdescr_np; do
		keep="$keep --keep-global-symbol=$name"
	done
	# shellcheck disable=SC2086
	quietly "$triplet-objcopy" $keep "$folder/bundle.o"
}

write_cross_file() {
	case $architecture in
	arm64) cpu=aarch64 ;;
	amd64) cpu=x86_64 ;;
	esac
	cat >"$folder/cross.ini" <<END
[binaries]
c = '$triplet-gcc'
ar = '$triplet-ar'
strip = '$triplet-strip'
objcopy = '$triplet-objcopy'
pkgconfig = 'pkg-config'

[built-in options]
c_args = ['--sysroot=$root', '-D_FORTIFY_SOURCE=2']
c_link_args = ['--sysroot=$root', '-B$libraries', '-static-libgcc', '-Wl,-z,relro,-z,now', '-Wl,--no-as-needed', '-lpthread', '-ldl', '-lrt', '-Wl,--as-needed']

[properties]
sys_root = '$root'
pkg_config_libdir = '$libraries/pkgconfig:$root/usr/share/pkgconfig'
needs_exe_wrapper = true

[host_machine]
system = 'linux'
cpu_family = '$cpu'
cpu = '$cpu'
endian = 'little'
END
}

build_program() {
	echo "tarball: the program for $architecture"
	[ -f "$folder/build/build.ninja" ] || quietly meson setup "$folder/build" --cross-file "$folder/cross.ini" \
		--buildtype=release -Dprefer_static=true -Dstatic_sqlite=enabled -Dserve=enabled -Dtop=enabled \
		-Dbundle="$folder/bundle.o"
	quietly ninja -C "$folder/build" src/cli/holdfast src/serve/holdfast-serve src/top/holdfast-top
}

pack() {
	name=holdfast-$version-linux-$architecture
	rm -rf "${folder:?}/$name"
	mkdir -p "$folder/$name/bin" "$folder/$name/libexec/holdfast"
	"$triplet-strip" -o "$folder/$name/bin/holdfast" "$folder/build/src/cli/holdfast"
	for program in serve top; do
		"$triplet-strip" -o "$folder/$name/libexec/holdfast/holdfast-$program" "$folder/build/src/$program/holdfast-$program"
	done
	cp LICENSE README.md CHANGELOG.md "$folder/$name/"
	tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$folder" "$name" |
		gzip -9n >"$work/$name.tar.gz"
	ls -l "$work/$name.tar.gz"
}

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
mkdir -p "$work"
[ $# -gt 0 ] || set -- arm64 amd64
for architecture; do
	case $architecture in
	arm64) triplet=aarch64-linux-gnu ;;
	amd64) triplet=x86_64-linux-gnu ;;
	*)
		echo "usage: tarball.sh [arm64 | amd64]..." >&2
		exit 2
		;;
	esac
	folder=$work/$architecture
	root=$folder/root
	libraries=$root/usr/lib/$triplet
	mkdir -p "$folder"
	make_sysroot
	fetch_curl
	build_curl
	build_bundle
	write_cross_file
	build_program
	pack
done
