#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# chroot.sh : a bare Debian 12 in a folder, and scripts that run in it.
#
#   chroot.sh make FOLDER          makes it by debootstrap, from the mirror that apt uses
#   chroot.sh run FOLDER SCRIPT    runs a shell script in it, as root; FOLDER / is this system
#
# A script has mounts and process numbers of its own. When it ends, or when this process is killed, all
# that it started is killed and all that it mounted is gone; nothing is left to unmount. The network is that
# of this machine.
set -eu
PATH=$PATH:/usr/sbin:/sbin

# $1 is the folder. The first process of the namespace stays, to wait for what a script leaves behind.
mounts='
mount --make-rprivate /
if [ "$1" != / ]; then
	mount --bind "$1" "$1"
	mount -t proc proc "$1/proc"
	mount -t sysfs sysfs "$1/sys"
	mount --rbind /dev "$1/dev"
	mount -t tmpfs -o mode=755 tmpfs "$1/run"
	cd "$1"
	pivot_root . mnt
	exec chroot . sh -euc "umount -l /mnt; $2" sh "$3"
fi
mount -t proc proc /proc
exec sh -euc "$2" sh "$3"
'
wait_for_all='status=0; sh -euc "$1" || status=$?; exit "$status"'

make_root() {
	rm -rf --one-file-system "$1"
	mkdir -p "$1"
	site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1)
	echo "chroot: debootstrap"
	(run_in / "'$(command -v debootstrap)' --variant=minbase bookworm '$1' '$site' >'$1.log' 2>&1") || {
		tail -n 20 "$1.log" >&2
		echo "chroot: debootstrap failed; all it said is in $1.log" >&2
		exit 1
	}
	for name in sources.list.d apt.conf.d; do
		cp -r "/etc/apt/$name/." "$1/etc/apt/$name/"
	done
	if [ -n "$(ls "$1/etc/apt/sources.list.d")" ]; then
		: >"$1/etc/apt/sources.list" # it would name the same packages twice
	fi
	echo force-unsafe-io >"$1/etc/dpkg/dpkg.cfg.d/unsafe-io" # no fsync: nobody needs this system after a crash
	cp /etc/resolv.conf "$1/etc/resolv.conf"
	cp /etc/hosts "$1/etc/hosts"
	# The certificates that this machine trusts, for what npm fetches. Their file may be that of Debian's package
	# ca-certificates, which would be written anew when that package is installed there.
	if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
		cp "$NODE_EXTRA_CA_CERTS" "$1$certificates"
	fi
	run_in "$1" "apt-get -q update >/dev/null"
}

# Does not return. Variables that say how to reach the network are passed on; no other one is.
run_in() {
	user=
	[ "$(id -u)" -eq 0 ] || user="--user --map-root-user"
	# shellcheck disable=SC2086
	exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
		DEBIAN_FRONTEND=noninteractive $network \
		setpriv --pdeathsig KILL unshare $user --mount --pid --ipc --uts --fork --kill-child sh -euc "$mounts" sh "$1" "$wait_for_all" "$2"
}

network=
for name in http_proxy https_proxy no_proxy npm_config_registry; do
	eval "value=\${$name:-}"
	[ -z "$value" ] || network="$network $name=$value"
done
certificates=/etc/extra-certificates.crt
if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
	case "${1:-} ${2:-}" in
	"run /") network="$network NODE_EXTRA_CA_CERTS=$NODE_EXTRA_CA_CERTS" ;;
	*) network="$network NODE_EXTRA_CA_CERTS=$certificates" ;;
	esac
fi

case "${1:-} $#" in
"make 2") make_root "$(realpath -m "$2")" ;;
"run 3") run_in "$(realpath "$2")" "$3" ;;
*)
	echo "usage: chroot.sh make FOLDER | run FOLDER SCRIPT" >&2
	exit 2
	;;
esac
