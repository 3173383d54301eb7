# SPDX-License-Identifier: BSD-2-Clause
"""ray and mpirun on several nodes where Jobs have no successPolicy: the first node signals its end.

There a Job succeeds once all of its pods have. The others would serve for ever, so they end at a signal, which
the first node sends after a success alone: after a failure they wait for its successor.
"""

from __future__ import annotations

from .launchers import RAY_FIRST_NODE, SCRIPTS, WAIT_FOR_CHILD


def without_success_policy(word: str) -> str:
    """A word of a command for servers without successPolicy: there every node has to succeed, not only the first."""
    name = next((name for name, script in SCRIPTS.items() if script == word), None)
    return _OLDER_SCRIPTS[name] if name else word


# Within single quotes of a shell. The port is Ray's, which has ended by then; whatever else connects gets no answer.
_ANSWER_OTHERS = """\
import os, socket
left = set(range(1, int(os.environ["NNODES"])))
both = socket.has_dualstack_ipv6()
family = socket.AF_INET6 if both else socket.AF_INET
with socket.create_server(("", int(os.environ["MASTER_PORT"])), family=family, dualstack_ipv6=both) as server:
    while left:
        peer, address = server.accept()
        with peer:
            try:
                peer.settimeout(5)
                words = peer.recv(64).split()
                if len(words) == 2 and words[0] == b"ended?":
                    peer.sendall(b"yes")
                    left.discard(int(words[1]))
            except (OSError, ValueError):
                pass
"""
_ASK_FIRST_NODE = """\
import os, socket, sys
with socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 5) as server:
    server.sendall(b"ended? " + os.environ["NODE_RANK"].encode())
    sys.exit(server.recv(3) != b"yes")
"""
_PYTHON = '"$(command -v python3 || echo python)"'

_RAY = f"""\
if [ "$NODE_RANK" != 0 ]; then
  trap 'ray stop; exit 143' TERM
  while :; do
    ray start --address="$MASTER_ADDR:$MASTER_PORT" --block & wait "$!"
    {_PYTHON} -c '{_ASK_FIRST_NODE}' 2>/dev/null && exit
    sleep 5 & wait "$!"
  done
fi
{RAY_FIRST_NODE}\
[ "$code" = 0 ] || exit "$code"
{_PYTHON} -c '{_ANSWER_OTHERS}' & child=$!
wait "$child"
"""

# A session of ssh ends with the pod that it ends, so the signal comes a second later. The number of this shell is asked
# of a child, because Kubernetes makes one $ of two in a command (third_party/forked/golang/expansion).
_MPI = f"""\
if [ "$NODE_RANK" != 0 ]; then
  mkdir -p /run/sshd && ssh-keygen -A || exit
  trap 'exit 143' TERM
  trap 'exit 0' USR1
  sh -c 'echo "$PPID"' >/run/sshd/launcher
  "$(command -v sshd || echo /usr/sbin/sshd)" -D -e & wait "$!"
  exit
fi
trap 'exit 143' TERM
while read -r host slots; do
  [ "$host" != "$MASTER_ADDR" ] || continue
  until ssh -n $OMPI_MCA_plm_rsh_args "$host" true; do sleep 2 & wait "$!"; done
done <"$OMPI_MCA_orte_default_hostfile"
mpirun --bind-to none "$@" & child=$!
trap 'signal=1; kill -TERM "$child"' TERM
{WAIT_FOR_CHILD}\
[ "$code" = 0 ] || exit "$code"
trap 'exit 143' TERM
end='{{ sleep 1; kill -USR1 "$(cat /run/sshd/launcher)"; }} >/dev/null 2>&1 &'
while read -r host slots; do
  [ "$host" != "$MASTER_ADDR" ] || continue
  until ssh -n $OMPI_MCA_plm_rsh_args "$host" "$end"; do sleep 2 & wait "$!"; done
done <"$OMPI_MCA_orte_default_hostfile"
"""

_OLDER_SCRIPTS = {"ray": _RAY, "mpi": _MPI}
