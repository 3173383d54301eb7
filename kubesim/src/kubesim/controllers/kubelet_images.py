# SPDX-License-Identifier: BSD-2-Clause
"""Which images can be pulled, and containerd's words for those that cannot; whom they may run as."""

from __future__ import annotations

from .base import Object


def pull_problem(image: str, ordered: str) -> str:
    """Why an image cannot be pulled: a test says so, or its name does (…does-not-exist…, registry.invalid/…)."""
    if ordered and ordered.lower() not in ("true", "1", "yes"):
        return ordered
    reference = full_reference(image)
    host, _, rest = reference.partition("/")
    start = f'failed to pull and unpack image "{reference}": failed to resolve reference "{reference}": '
    if host.partition(":")[0].endswith(".invalid"):
        repository, _, tag = rest.rpartition(":")
        request = f'failed to do request: Head "https://{host}/v2/{repository}/manifests/{tag}"'
        return f"{start}{request}: dial tcp: lookup {host.partition(':')[0]}: no such host"
    if ordered or "does-not-exist" in image:
        return f"rpc error: code = NotFound desc = {start}{reference}: not found"
    return ""


def root_problem(pod: Object, container: Object, image_user: str) -> str:
    """Why a container that may not run as root would, or might (pkg/kubelet/kuberuntime, verifyRunAsNonRoot)."""
    context = {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
    if not context.get("runAsNonRoot"):
        return ""
    metadata, problem = pod["metadata"], ""
    if "runAsUser" in context:
        problem = "" if context["runAsUser"] else "container's runAsUser breaks non-root policy"
    elif not image_user.isdecimal():
        problem = (
            f"container has runAsNonRoot and image has non-numeric user ({image_user}), cannot verify user is non-root"
        )
    elif int(image_user) == 0:
        problem = "container has runAsNonRoot and image will run as root"
    name = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    return f'{problem} (pod: "{name}", container: {container["name"]})' if problem else ""


def full_reference(image: str) -> str:
    """An image reference with registry and tag, as containerd makes it of a short one."""
    host, slash, _ = image.partition("/")
    if not slash:
        image = f"docker.io/library/{image}"
    elif "." not in host and ":" not in host and host != "localhost":
        image = f"docker.io/{image}"
    return image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
