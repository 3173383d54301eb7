# SPDX-License-Identifier: BSD-2-Clause
"""The make targets under the names that people of this ecosystem type: `nox -l`, `nox -s lint`, `nox -s unit -- -k x`.

The targets make their own environments, so the sessions have none.
"""

from __future__ import annotations

import nox

TARGETS = {
    "lint": "Style, types, licences, YAML and documentation",
    "sanity": "ansible-test sanity, without Docker",
    "unit": "Unit tests",
    "kubesim": "Tests of the simulated API server",
    "integration": "Playbooks and modules against a simulated cluster (or GPUCTL_TEST_KUBECONFIG)",
    "test-environments": "Both with other versions of the libraries",
    "molecule": "Roles and playbooks by molecule, on simulated clusters",
    "docs": "The documentation",
    "importer": "Hand the tarball to Galaxy's importer and to ansible-builder",
    "collection": "Build the collection's tarball",
    "changelog": "Write CHANGELOG.md from the fragments",
}
nox.options.sessions = ["lint", "sanity", "unit", "integration"]


def _session(target: str, description: str) -> None:
    def run(session: nox.Session) -> None:
        arguments = [f"ARGS={' '.join(session.posargs)}"] if session.posargs else []
        session.run("make", target, *arguments, external=True)

    run.__doc__ = description
    nox.session(run, name=target, venv_backend="none")


for _target, _description in TARGETS.items():
    _session(_target, _description)
