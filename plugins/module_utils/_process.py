# SPDX-License-Identifier: BSD-2-Clause
"""A module process: how it imports the archive that Ansible sent, and how it ends. Modules import this file first."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from .task import ModuleSpec


class _CompileOnce(zipimporter):
    """For archives without bytecode, as Ansible's.

    To know where a source file is, zipimport compiles it, forgets the code, and compiles it again to run it
    (https://github.com/python/cpython/issues/141276).
    """

    def get_filename(self, fullname: str) -> str:
        path = os.path.join(self.archive, self.prefix, fullname.rpartition(".")[2])
        return os.path.join(path, "__init__.py") if self.is_package(fullname) else f"{path}.py"


def compile_once() -> None:
    """Let Python compile what it imports from archives from now on only once."""
    sys.path_hooks[:] = [_CompileOnce if hook is zipimporter else hook for hook in sys.path_hooks]
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]


if isinstance(globals().get("__loader__"), zipimporter):
    compile_once()  # before the other files are imported


class GpuctlModule(AnsibleModule):  # type: ignore[misc]  # ansible is not typed
    """Returns and logs its parameters without their secrets, also if it rejects them."""

    params: dict[str, Any]

    def _log_invocation(self) -> None:
        """Ansible's own entry in the system's log, with the parameters."""
        given = self.params
        self.params = self._shown_params()
        super()._log_invocation()
        self.params = given

    def _return_formatted(self, kwargs: dict[str, Any]) -> None:
        from .printable import printable_data

        self.params = self._shown_params()
        super()._return_formatted(printable_data(kwargs))  # The error about a value of an option quotes it.

    def _shown_params(self) -> dict[str, Any]:
        from .task import shown_options

        return shown_options(self.params)


def run_module(module: GpuctlModule, spec: ModuleSpec[Any]) -> None:
    """Perform the task of a module process and exit with its result."""
    from .printable import printable_data
    from .task import Task, run_task
    from .wording import names_in

    task = Task(
        spec.options.from_params(module.params),
        module.params,
        module.check_mode,
        module.warn,
        module.no_log_values.update,
        diff_mode=bool(module._diff),
        names=lambda: names_in(os.environ),
    )
    result = run_task(task, spec)
    module.params = printable_data(module.params)  # AnsibleModule returns them as ``invocation``.
    if result.get("failed"):
        module.fail_json(**result)
    module.exit_json(**result)
