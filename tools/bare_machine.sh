#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# Run a command in a fresh clone, on a Debian that has nothing but what CONTRIBUTING.md names under "Set up":
#
#   tools/bare_machine.sh SUITE ACCOUNT COMMAND...
#
#   SUITE     bookworm, trixie: the release of Debian
#   ACCOUNT   root, or any other name, of an account without privileges
#   COMMAND   runs in the clone of the last commit; what is not committed is not in it
#
# The release is installed once, into .cache/bare, by debootstrap (two minutes, from $MIRROR or deb.debian.org). Each run
# has a layer of its own above it, which is thrown away. It needs root, debootstrap and overlayfs.
# This machine's settings of apt and pip and its certificates are taken over, as are variables of pip and of proxies.
#
#   sudo tools/bare_machine.sh trixie somebody tools/first_hour.sh
set -eu
[ $# -ge 3 ] || { sed -n '3,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }
suite=$1 account=$2
shift 2
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || { echo 'A bare machine is installed and mounted by root. Run this as root.' >&2; exit 1; }
for program in debootstrap unshare git; do
	command -v "$program" >/dev/null || { echo "$program: not found. Install its package." >&2; exit 1; }
done

base=$PWD/.cache/bare/$suite
if [ ! -e "$base" ]; then
	echo "Installing $suite into .cache/bare"
	rm -rf "$base.part"
	mkdir -p "$base.part"
	debootstrap --variant=minbase --include=ca-certificates "$suite" "$base.part" "${MIRROR:-http://deb.debian.org/debian}" \
		>"$base.log" 2>&1 || { tail -n 3 "$base.log" >&2; exit 1; }
	mv "$base.part" "$base"
fi

layer=$(mktemp -d "$base.run.XXXXXX")
trap 'rm -rf "$layer"' EXIT
trap 'exit 1' INT TERM
git clone --quiet . "$layer/clone"
export base layer account

# In its own tables of mounts and processes, which end with it.
# shellcheck disable=SC2016 # the inner shell expands them
unshare --mount --pid --fork --kill-child sh -euc '
	mount --make-rprivate /
	mkdir "$layer/upper" "$layer/work" "$layer/root"
	mount -t overlay -o "lowerdir=$base,upperdir=$layer/upper,workdir=$layer/work" overlay "$layer/root"
	cd "$layer/root"
	mount -t proc proc proc
	mount --rbind /dev dev
	mount --rbind /sys sys
	mount -t tmpfs -o mode=1777 tmpfs tmp
	for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/apt/apt.conf.d /etc/ssl/certs; do
		[ ! -e "$file" ] || { mkdir -p ".${file%/*}" && cp -rL "$file" ".${file%/*}/" 2>/dev/null; } || true
	done
	mkdir -p srv/project
	mount --bind "$layer/clone" srv/project
	chroot . sh -euc "
		export DEBIAN_FRONTEND=noninteractive
		{ apt-get update -qq && apt-get install -qq -y --no-install-recommends python3 python3-venv make git; } >/tmp/apt.log 2>&1 ||
			{ tail -n 5 /tmp/apt.log >&2; exit 1; }
		[ $account = root ] || useradd --create-home $account
		chown -R $account: /srv/project"
	# env -i: what this session has set is no part of that machine.
	home=$(chroot . getent passwd "$account" | cut -d: -f6)
	env | grep -E "^(PIP_|SSL_CERT|REQUESTS_CA|[A-Za-z]+_(proxy|PROXY)=)" >tmp/variables || true
	while IFS= read -r variable; do set -- "$variable" "$@"; done <tmp/variables
	exec chroot --userspec="$account" . env -i --chdir=/srv/project HOME="$home" LANG=C.UTF-8 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@" </dev/null
' sh "$@"
