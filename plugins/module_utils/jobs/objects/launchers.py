# SPDX-License-Identifier: BSD-2-Clause
"""The programs that start a command as a group of processes, on each node or, by the first one, on all.

torchrun, deepspeed, accelerate and msrun run on every node. mpirun and ray run on the first one: there the job succeeds
(successPolicy), and the others wait for its instructions. A JAX process drives all devices of its node itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import NamedTuple

from ... import labels
from ...accelerators.equipment import Equipment
from ...accelerators.hardware import UnfitHardware
from ...kube.api_objects import Object
from ...manifest.job_models import Training
from .pod import Provided

# The launcher's own default (deepspeed/launcher/runner.py, DLTS_HOSTFILE).
HOSTFILE = "/job/hostfile"
_PYTHON = re.compile(r"python[0-9.]*")
_PYTHON_OPTIONS_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
# Programs and modules that start a group of processes themselves, and the launcher that they are.
_PROGRAMS = {
    "torchrun": "torchrun",
    "deepspeed": "deepspeed",
    "accelerate": "accelerate",
    "accelerate-launch": "accelerate",
    "mpirun": "mpi",
    "mpiexec": "mpi",
    "horovodrun": "mpi",
    "msrun": "msrun",
    "ray": "ray",
    "llamafactory-cli": "torchrun",
    "llama-factory-cli": "torchrun",
    "swift": "torchrun",
    "xtuner": "torchrun",
    "composer": "torchrun",
    "colossalai": "torchrun",
}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "mindspore.parallel.cluster.run": "msrun",
    "llamafactory.cli": "torchrun",
}
# Frameworks whose processes a launcher does not join to a group.
_STRANGERS = {
    "mindspore": {"torchrun", "deepspeed", "accelerate", "jax"},
    "jax": {"torchrun", "deepspeed", "accelerate", "msrun"},
    "pytorch": {"msrun", "jax"},
    "torch-npu": {"msrun", "jax"},
    "deepspeed": {"msrun", "jax"},
    "megatron": {"msrun", "jax"},
}
# The number of a pod of an Indexed Job. At runtime, it is the rank of the node.
RANK: Object = {"fieldRef": {"fieldPath": f"metadata.labels['{labels.COMPLETION_INDEX}']"}}
# Frameworks with a launcher of their own, and those whose programs start what they need themselves.
_OF_FRAMEWORK = {"mindspore": "msrun", "jax": "jax"}
_SELF_STARTING = frozenset(
    ("mindie", "onnxruntime", "paddlepaddle", "sglang", "tensorflow", "tensorrt", "triton", "vllm", "vllm-ascend")
)
_RANK_TABLE = "/user/serverid/devindex/config/hccl.json"


class Launch(NamedTuple):
    """The command of each node with its launcher, ``name`` (None: the command is as the user wrote it).

    ``former`` are the commands that ran before it, each after the version (``1.1``) since which another one runs.
    """

    command: list[str]
    name: str | None = None
    env: Provided = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    former: tuple[tuple[str, list[str]], ...] = ()

    @property
    def is_by_first_node(self) -> bool:
        """Whether the training has succeeded once its first node has."""
        return self.name in SCRIPTS


class _Group(NamedTuple):
    """What the options of launchers depend on."""

    nodes: int
    processes: int  # of each node

    @property
    def size(self) -> int:
        return self.nodes * self.processes


def launch(manifest: Training, equipment: Equipment) -> Launch:
    """How the command of a training is started. Raises UnfitHardware for a launcher of another framework."""
    group = _Group(manifest.resources.node_count, processes_per_node(equipment))
    found = _launched(manifest, group)
    if manifest.distributed.rank_table:
        if not found.command:
            raise UnfitHardware("distributed.rank_table", "no command that could wait for it", "Add the command")
        return found._replace(
            command=_after_rank_table(found.command),
            env={**found.env, **_rank_table_env()},
            former=tuple((version, _after_rank_table(command)) for version, command in found.former),
        )
    command = manifest.environment.command
    if found.command == command or _says_how(manifest):
        return found
    return found._replace(former=(*found.former, ("1.1", command)))  # versions before it put no launcher before scripts


def processes_per_node(equipment: Equipment) -> int:
    """One process per GPU; without whole GPUs one per node."""
    return max(equipment.whole_devices, 1)


def host_of(manifest: Training, index: int) -> str:
    """The name of a pod of an Indexed Job below its headless Service."""
    return f"{manifest.job.name}-{index}.{labels.service_name(manifest.job.name)}"


def rank_table_directory() -> str:
    """Where Ascend's programs look for the rank table."""
    return str(PurePosixPath(_RANK_TABLE).parent)


def _launched(manifest: Training, group: _Group) -> Launch:
    command = manifest.environment.command
    words = [*command, *manifest.environment.args]
    wanted, begins_with = manifest.distributed.launcher, _launcher_in(words)
    _check_framework(manifest)
    if begins_with is not None:
        return _with_own_launcher(manifest, group, begins_with)
    name = wanted or _default(manifest)
    if name == "none" or (wanted is None and (group.size == 1 or not _script_in(words))):
        return Launch(command, warnings=_alone_warnings(manifest, group, words))
    if not command:
        raise UnfitHardware("distributed.launcher", f"{name} without a command to start", "Add the command")
    if name == "jax":
        return Launch(command, name, env=_jax_env(manifest))
    if name in SCRIPTS and group.nodes > 1:
        return Launch(
            ["sh", "-c", SCRIPTS[name], name, *command],
            name,
            env=_SCRIPT_ENV[name](manifest),
            former=tuple((version, ["sh", "-c", script, name, *command]) for version, script in _FORMER_SCRIPTS[name]),
        )
    if name == "msrun" and not _is_python(command[0]):
        raise UnfitHardware("distributed.launcher", f"msrun of a program other than Python: {command[0]}", "Remove it")
    return Launch(_ON_EACH_NODE[name](command, group), name, env=_SCRIPT_ENV[name](manifest) if name == "mpi" else {})


def _with_own_launcher(manifest: Training, group: _Group, begins_with: str) -> Launch:
    """A command that begins with a launcher. An option keeps deepspeed from reaching the other nodes by ssh."""
    command, wanted = manifest.environment.command, manifest.distributed.launcher
    program = PurePosixPath(command[0]).name
    if wanted not in (None, begins_with):
        text = f"The command begins with a launcher, {program}. distributed.launcher {wanted} is not used."
        return Launch(command, warnings=(text,))
    if group.nodes == 1 or program != "deepspeed" or "--no_ssh" in command:
        return Launch(command)
    if "deepspeed" not in (wanted, manifest.distributed.backend):
        text = (
            "The deepspeed launcher starts the other nodes by ssh, which the containers do not offer. "
            "With distributed.backend deepspeed it is started on every node instead."
        )
        return Launch(command, warnings=(text,))
    return Launch([command[0], *_deepspeed_options(command), *command[1:]], "deepspeed")


def _default(manifest: Training) -> str:
    """The launcher of a manifest that names none."""
    framework = manifest.environment.framework or ""
    if framework in _SELF_STARTING:
        return "none"
    return _OF_FRAMEWORK.get(framework, manifest.distributed.backend)


def _says_how(manifest: Training) -> bool:
    """Whether a field of the manifest chooses the launcher: setting it rebuilds the training."""
    distributed = manifest.distributed
    return bool({"launcher", "backend"} & distributed.model_fields_set or manifest.environment.framework)


def _check_framework(manifest: Training) -> None:
    framework, launcher = manifest.environment.framework, manifest.distributed.launcher
    if framework is not None and launcher in _STRANGERS.get(framework, ()):
        problem = f"{launcher} does not start groups of {framework}"
        raise UnfitHardware("distributed.launcher", problem, "Correct it or environment.framework")


def _alone_warnings(manifest: Training, group: _Group, words: list[str]) -> tuple[str, ...]:
    """A Python program without a launcher is one process, unless it starts others itself."""
    if group.size == 1 or not words or not _is_python(words[0]):
        return ()
    default = _default(manifest)
    if manifest.distributed.launcher == "none":
        hint = "Remove distributed.launcher none if the program does not start the others itself."
    elif default in ("none", "jax"):
        return ()
    else:
        hint = f"Set distributed.launcher to {default} for one on each GPU, or none if the program starts the others."
    where = "on each node" if group.nodes > 1 else f"for {group.processes} GPUs"
    return (f"The command starts one process {where}. {hint}",)


# -- what a command is -------------------------------------------------------------------------------------------------


def _launcher_in(words: list[str]) -> str | None:
    """The launcher that a command begins with."""
    if not words:
        return None
    name = PurePosixPath(words[0]).name
    if not _PYTHON.fullmatch(name):
        return _PROGRAMS.get(name)
    script = _script_in(words)
    return _MODULES.get(script[1]) if script[:1] == ["-m"] and len(script) > 1 else None


def _script_in(words: list[str]) -> list[str]:
    """The script or module of a command of Python, with its arguments; nothing where it is a string (-c)."""
    if not words or not _is_python(words[0]):
        return []
    position = 1
    while position < len(words) and words[position].startswith("-") and words[position] != "-m":
        if words[position] in ("-c", "-"):
            return []
        position += 2 if words[position] in _PYTHON_OPTIONS_WITH_VALUE else 1
    return words[position:]


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(PurePosixPath(word).name) is not None


def _is_python_script(command: list[str]) -> bool:
    """Whether the command is Python and a script, so that a launcher may start the script by its own Python."""
    return _is_python(command[0]) and (len(command) == 1 or not command[1].startswith("-"))


# -- launchers that run on each node -----------------------------------------------------------------------------------


def _torchrun(command: list[str], group: _Group) -> list[str]:
    """On several nodes it finds the rendezvous in its environment (PET_*)."""
    options = [] if group.nodes > 1 else ["--standalone", "--nproc_per_node", str(group.processes)]
    return [_program_beside(command, "torchrun"), *options, *_started(command, ["--no_python"])]


def _deepspeed(command: list[str], group: _Group) -> list[str]:
    options = _deepspeed_options([]) if group.nodes > 1 else ["--num_gpus", str(group.processes)]
    # Without --no_local_rank, it puts that option between the program and its arguments (deepspeed/launcher/launch.py).
    return [_program_beside(command, "deepspeed"), *options, *_started(command, ["--no_python", "--no_local_rank"])]


def _accelerate(command: list[str], group: _Group) -> list[str]:
    sizes = ["--num_machines", str(group.nodes), "--num_processes", str(group.size)]
    options = [*(["--multi_gpu"] if group.size > 1 else []), *sizes]
    if group.nodes > 1:
        rank = ["--machine_rank", "$(NODE_RANK)"]
        options += [*rank, "--main_process_ip", "$(MASTER_ADDR)", "--main_process_port", "$(MASTER_PORT)"]
    return [_program_beside(command, "accelerate"), "launch", *options, *_started(command, ["--no_python"])]


def _msrun(command: list[str], group: _Group) -> list[str]:
    options = [f"--worker_num={group.size}", f"--local_worker_num={group.processes}", "--join=True"]
    if group.nodes > 1:
        options += ["--master_addr=$(MASTER_ADDR)", "--master_port=$(MASTER_PORT)", "--node_rank=$(NODE_RANK)"]
    # It knows Python by its bare name.
    program = [] if _is_python_script(command) else [PurePosixPath(command[0]).name]
    return [_program_beside(command, "msrun"), *options, *program, *command[1:]]


def _mpirun(command: list[str], group: _Group) -> list[str]:
    return ["mpirun", "-np", str(group.size), "--bind-to", "none", *command]


_ON_EACH_NODE: dict[str, Callable[[list[str], _Group], list[str]]] = {
    "torchrun": _torchrun,
    "deepspeed": _deepspeed,
    "accelerate": _accelerate,
    "msrun": _msrun,
    "mpi": _mpirun,
    "ray": lambda command, group: command,  # ray.init() starts Ray on one node
}


def _program_beside(command: list[str], program: str) -> str:
    """A program of the Python that the command names by its path."""
    python = PurePosixPath(command[0])
    return str(python.parent / program) if _is_python(command[0]) and len(python.parts) > 1 else program


def _started(command: list[str], as_program: list[str]) -> list[str]:
    """A script for the launcher's own Python, and anything else as a program, which keeps the options of Python."""
    return command[1:] if _is_python_script(command) else [*as_program, *command]


def _deepspeed_options(command: list[str]) -> list[str]:
    """The options by which ``deepspeed`` runs on every node, except those that the command has.

    The launcher starts other nodes by ssh. Here Kubernetes starts it on every node, so it gets --no_ssh and its node
    rank (DeepSpeed #5510); Kubernetes fills in $(NAME).
    """
    options = {
        "--hostfile": HOSTFILE,
        "--node_rank": "$(NODE_RANK)",
        "--master_addr": "$(MASTER_ADDR)",
        "--master_port": "$(MASTER_PORT)",
    }
    missing = [word for name, value in options.items() if not _has_option(command, name) for word in (name, value)]
    return ["--no_ssh", *missing]


def _has_option(command: list[str], option: str) -> bool:
    return any(word == option or word.startswith(f"{option}=") for word in command)


# -- launchers that run on the first node ------------------------------------------------------------------------------

# A trapped signal ends `wait`, but not the child: it is awaited again, for its own exit code. The shell answers 127 for
# a child that it has forgotten, as the wait before had already returned its code.
WAIT_FOR_CHILD = """\
wait "$child"; code=$?
while [ "$signal" ]; do signal=; wait "$child"; again=$?; [ "$again" = 127 ] || code=$again; done
"""
# As the first process of a container, a shell ignores SIGTERM unless it traps it (pid_namespaces(7)). The trap is set
# before the command runs, so that no signal is lost between the two.
RAY_FIRST_NODE = f"""\
trap 'signal=1; if [ "$!" ]; then kill -TERM "$!"; else exit 143; fi' TERM
ray start --head --port="$MASTER_PORT" --disable-usage-stats || exit
"$@" & child=$!
{WAIT_FOR_CHILD}\
ray stop
"""
_RAY_OTHER_NODES = """\
if [ "$NODE_RANK" != 0 ]; then
  trap 'ray stop; exit 143' TERM
  while :; do
    ray start --address="$MASTER_ADDR:$MASTER_PORT" --block & wait "$!"
    sleep 5 & wait "$!"
  done
fi
"""
_RAY = f"""\
{_RAY_OTHER_NODES}\
{RAY_FIRST_NODE}\
exit "$code"
"""
_RAY_BEFORE_1_2 = f"""\
{_RAY_OTHER_NODES}\
ray start --head --port="$MASTER_PORT" --disable-usage-stats || exit
"$@" & child=$!
trap 'kill -TERM "$child"' TERM
wait "$child"; code=$?
while kill -0 "$child" 2>/dev/null; do wait "$child"; code=$?; done
ray stop
exit "$code"
"""
_MPI = """\
if [ "$NODE_RANK" != 0 ]; then
  mkdir -p /run/sshd && ssh-keygen -A || exit
  exec "$(command -v sshd || echo /usr/sbin/sshd)" -D -e
fi
trap 'exit 143' TERM
while read -r host slots; do
  [ "$host" != "$MASTER_ADDR" ] || continue
  until ssh -n $OMPI_MCA_plm_rsh_args "$host" true; do sleep 2 & wait "$!"; done
done <"$OMPI_MCA_orte_default_hostfile"
exec mpirun --bind-to none "$@"
"""
SCRIPTS = {"ray": _RAY, "mpi": _MPI}
_FORMER_SCRIPTS = {"ray": [("1.2", _RAY_BEFORE_1_2)], "mpi": []}


def _ray_env(manifest: Training) -> Provided:
    return {"RAY_ADDRESS": "auto"}


def _mpi_env(manifest: Training) -> Provided:
    """What Open MPI reads. Containers run as root, and a session of ssh has none of their variables."""
    env: dict[str, str] = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if manifest.resources.node_count == 1:
        return env
    names = ["PATH", "LD_LIBRARY_PATH", "MASTER_ADDR", "MASTER_PORT"]
    names += [variable.name for variable in manifest.environment.env]
    return {
        **env,
        "OMPI_MCA_orte_default_hostfile": HOSTFILE,
        "OMPI_MCA_plm_rsh_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR",
        "OMPI_MCA_mca_base_env_list": ";".join(dict.fromkeys(names)),
    }


_SCRIPT_ENV: dict[str, Callable[[Training], Provided]] = {"ray": _ray_env, "mpi": _mpi_env}


_WAIT_FOR_RANK_TABLE = """\
trap 'exit 143' TERM
until grep -qs completed "$RANK_TABLE_FILE"; do sleep 2 & wait "$!"; done
exec "$@"
"""


# -- others ------------------------------------------------------------------------------------------------------------


def _jax_env(manifest: Training) -> Provided:
    """What kubeflow's trainer sets, too. On one node there is nothing to join."""
    nodes = manifest.resources.node_count
    if nodes == 1:
        return {}
    return {
        "JAX_COORDINATOR_ADDRESS": f"{host_of(manifest, 0)}:{manifest.distributed.master_port}",
        "JAX_NUM_PROCESSES": str(nodes),
        "JAX_PROCESS_ID": RANK,
    }


def _after_rank_table(command: list[str]) -> list[str]:
    """The command, once the operator has completed the table: until then its status is ``initializing``."""
    return ["sh", "-c", _WAIT_FOR_RANK_TABLE, "rank-table", *command]


def _rank_table_env() -> Provided:
    return {"RANK_TABLE_FILE": _RANK_TABLE}
