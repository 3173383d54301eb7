# SPDX-License-Identifier: BSD-2-Clause
"""Which paths of a node a manifest may mount. Pure.

An account that can write below a system path of a node is its administrator (Kubernetes documentation, Volumes,
"hostPath": "Using the hostPath volume type presents many security risks").
"""

from __future__ import annotations

import posixpath
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

# What belongs to the operating system by the Filesystem Hierarchy Standard 3.0, and what runs as root from elsewhere.
# ``/var/lib`` is the state of system services: kubelet, containerd, docker, etcd, rancher, cloud-init, dpkg. The
# kubelet follows links in ``/var/log`` when it serves logs. ``/opt/cni`` and ``/opt/bin`` are where runtimes and
# kubelets are installed (containerd, Flatcar); ``/sysroot`` and ``/ostree`` are the real root of image-based systems.
SYSTEM_PATHS = (
    *("/bin", "/boot", "/dev", "/efi", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/ostree", "/proc"),
    *("/root", "/run", "/sbin", "/snap", "/sys", "/sysroot", "/usr"),
    *("/opt/bin", "/opt/cni", "/opt/containerd", "/opt/rke"),
    *("/var/backups", "/var/cache", "/var/db", "/var/lib", "/var/lock", "/var/log", "/var/mail", "/var/run"),
    *("/var/snap", "/var/spool"),
)
NOT_SYSTEM_PATHS = ("/etc/nginx/conf.d",)  # The configuration of a job; a GPU node runs no nginx of its own.
# Wherever they are: an account that can reach a container runtime or a kubelet can start privileged containers.
SYSTEM_SOCKETS = frozenset(
    f"{name}.sock"
    for name in ("buildkitd", "containerd", "cri-dockerd", "crio", "docker", "dockershim", "kubelet", "podman")
)


class HostPaths(NamedTuple):
    """The paths of nodes that jobs may mount: what is below the ``roots`` of a policy; all but system paths without."""

    policy: str = ""
    roots: Sequence[str] | None = None

    def refusal(self, path: str) -> tuple[str, str] | None:
        """Why the path may not be mounted, and what to do; None if it may."""
        if self.roots is None:
            if not any(_is_system(spelled) for spelled in _spellings(path)):
                return None
            hint = "Mount a directory with data or a claim, or ask an administrator to allow the path by a policy"
            return "system path of the node", hint
        if any(all(map(_is_below, _spellings(path), _spellings(root))) for root in self.roots):
            return None
        allowed = f"a path below {' or '.join(self.roots)}" if self.roots else "a PersistentVolumeClaim (claim)"
        return f"path of the node that policy {self.policy} does not allow", f"Use {allowed}"


def normal_path(path: str) -> str:
    """The path as the kernel resolves it, without links: ``//data/./x/`` is ``/data/x``."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _spellings(path: str) -> Iterator[str]:
    """The path, and what a file system that normalizes Unicode makes of it: a full-width dot is a dot."""
    yield normal_path(path)
    yield normal_path(unicodedata.normalize("NFKC", path))


def _is_system(path: str) -> bool:
    if any(_is_below(path, root) for root in NOT_SYSTEM_PATHS):
        return False
    around = any(_is_below(path, root) or _is_below(root, path) for root in SYSTEM_PATHS)
    return around or posixpath.basename(path) in SYSTEM_SOCKETS


def _is_below(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer.rstrip('/')}/")
