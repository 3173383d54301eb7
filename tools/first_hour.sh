#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What a user does in the first hour with a fresh clone, on a bare machine:
#
#   tools/first_hour.sh [demo|cluster|install|documents]...     all four without an argument
#
#   demo        make demo
#   cluster     make cluster MONITORING=1, and the playbook status on it, with GPU-hours from Prometheus
#   install     the tarball into an empty home, as README.md says, and the playbook status of the installed collection
#   documents   every command of README.md and the guide "Getting started", word for word
#
# It needs what CONTRIBUTING.md names under "Set up". The first command that fails ends it; each says how long it took.
set -eu
cd "$(dirname "$0")/.."
clone=$PWD
unset K8S_AUTH_KUBECONFIG KUBECONFIG GPUCTL_PROMETHEUS_URL ANSIBLE_COLLECTIONS_PATH
scratch=$(mktemp -d)
cluster=
trap 'stop_cluster; rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

demo() {
	make demo
}

cluster() {
	start_cluster MONITORING=1
	(
		# shellcheck disable=SC1091 # written by make cluster
		. "$scratch/cluster.env"
		GPUCTL_PROMETHEUS_URL=$(sed -n 's/^ *export GPUCTL_PROMETHEUS_URL=//p' "$scratch/cluster.log")
		[ -n "$GPUCTL_PROMETHEUS_URL" ] || { echo 'The cluster runs without Prometheus.' >&2; exit 1; }
		! grep 'Nothing gets their alerts' "$scratch/cluster.log" || exit 1
		export GPUCTL_PROMETHEUS_URL
		ansible-playbook runwhere.gpuctl.status
		ansible-playbook runwhere.gpuctl.usage -e gpuctl_range=1h
	)
	stop_cluster
}

install() {
	make collection
	start_cluster
	(
		HOME=$scratch/home
		mkdir "$HOME"
		export HOME K8S_AUTH_KUBECONFIG="$scratch/cluster.kubeconfig"
		tarball=$(echo "$clone"/build/runwhere-gpuctl-*.tar.gz)
		cd "$HOME"
		# The commands of the README's section, with the tarball for what Galaxy would send.
		sed -n '/^## Install/,/^## Connect/s/^\$ //p' "$clone/README.md" | sed "s# runwhere\.gpuctl\$# $tarball#" >commands
		grep -qF "$tarball" commands
		sed "s/^/$ /" commands
		# shellcheck disable=SC1091 # written above
		. ./commands
		ansible-playbook runwhere.gpuctl.status
	)
	stop_cluster
}

documents() {
	.venv/bin/python -m pytest -q -n 0 tests/integration/test_documents.py -k 'README.md or guide_getting_started'
}

start_cluster() {
	make cluster KUBECONFIG_FILE="$scratch/cluster.kubeconfig" "$@" >"$scratch/cluster.log" 2>&1 &
	cluster=$!
	until grep -q 'ansible-playbook runwhere.gpuctl.submit' "$scratch/cluster.log" && { [ $# = 0 ] ||
		grep -Eq 'export GPUCTL_PROMETHEUS_URL|without monitoring' "$scratch/cluster.log"; }; do
		kill -0 "$cluster" 2>/dev/null || { cat "$scratch/cluster.log"; exit 1; }
		sleep 1
	done
	cat "$scratch/cluster.log"
}

# make passes a signal on to what it runs, and ends with it.
stop_cluster() {
	[ -n "$cluster" ] || return 0
	kill -TERM "$cluster" 2>/dev/null || true
	wait "$cluster" 2>/dev/null || true
	cluster=
}

[ $# != 0 ] || set -- demo cluster install documents
make .venv/.made-for collections-path
for step; do
	printf '\n==== %s\n' "$step"
	before=$(date +%s)
	"$step"
	printf '==== %s: %s s\n' "$step" $(($(date +%s) - before))
done
