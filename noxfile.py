# SPDX-License-Identifier: BSD-2-Clause
"""The make targets as nox sessions: `nox -l`, `nox -s lint`, `nox -s unit -- -k x`.

The targets create their own environments, so the sessions have none.
"""

from __future__ import annotations

import nox

TARGETS = {
    "check": "Style, types, unit tests, and the integration tests of what has changed",
    "test": "Everything a pull request needs",
    "test-all": "The rest as well",
    "lint": "Style, types, licenses, YAML and documentation",
    "sanity": "ansible-test sanity, without Docker",
    "unit": "Unit tests",
    "kubesim": "Tests of the simulated API server",
    "integration": "Playbooks and modules against a simulated cluster (or GPUCTL_TEST_KUBECONFIG)",
    "integration-modules": "The same with a process for each task",
    "test-environments": "Tests with other versions of Python and the libraries",
    "molecule": "Roles and playbooks by molecule, on simulated clusters",
    "fuzz": "Damaged manifests by the thousand",
    "chaos-short": "Injected faults and killed runs",
    "docs": "The documentation",
    "translation": "Whether README.zh-CN.md is up to date",
    "importer": "Galaxy's importer and ansible-builder on the tarball",
    "collection": "Build the collection's tarball",
    "changelog": "Write CHANGELOG.md from the fragments",
}
nox.options.sessions = ["check"]


def _session(target: str, description: str) -> None:
    def run(session: nox.Session) -> None:
        arguments = [f"ARGS={' '.join(session.posargs)}"] if session.posargs else []
        session.run("make", target, *arguments, external=True)

    run.__doc__ = description
    nox.session(run, name=target, venv_backend="none")


for _target, _description in TARGETS.items():
    _session(_target, _description)
