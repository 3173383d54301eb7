# SPDX-License-Identifier: BSD-2-Clause
"""Jobs whose use is known, as objects for an API server and samples for a Prometheus, and the advice that is right.

The range has twelve hours. Times are seconds from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

ZERO = datetime(2026, 8, 3, 6, tzinfo=timezone.utc).timestamp()
RANGE = 12 * 3600
STEP = 60
GIB = 2**30
TEAM = "team-a"
#: Those of the pools that share GPUs: by a resource that nodes list, by one that they do not, and of unknown GPUs.
NODES = {"shared": "node-shared", "vgpu": "node-vgpu", "unlabelled": "node-unlabelled"}

Curve = Callable[[int], float]
"""A value by the second, from 0 at the beginning of the range."""
# The name that a job's workload gives its pods, in one of the ways of the controllers.
KINDS = {
    "training": ("job", "Job"),
    "inference": ("deployment", "Deployment"),
    "notebook": ("statefulset", "StatefulSet"),
}


def flat(value: float) -> Curve:
    return lambda moment: value


def peak(value: float, base: float, at: int = 7 * 3600, seconds: int = 120) -> Curve:
    """As much as ``base``, and once ``value``."""
    return lambda moment: value if at <= moment < at + seconds else base


def gaps(curve: Curve, every: int) -> Curve:
    """No number in one of ``every`` samples, as exporters report what they could not read."""
    return lambda moment: float("nan") if moment // STEP % every == 0 else curve(moment)


_IN_USE, _MODEL, _MEMORY, _CORES = flat(0.9), flat(60), flat(30), flat(7)


@dataclass(frozen=True)
class Device:
    """Utilization from 0 to 1 and memory in GiB."""

    busy: Curve = _IN_USE
    memory: Curve = _MODEL


BUSY, UNUSED = Device(), Device(flat(0.0), flat(0.4))


@dataclass(frozen=True)
class PlantedPod:
    """A pod with what it used. ``gone``: it was deleted, and only Prometheus has it. ``uid`` is that of the samples,
    if not its own; ``seen`` the seconds of which there are samples."""

    name: str
    devices: Sequence[Device] = ()
    memory: Curve | None = _MEMORY  # GiB
    cpu: Curve | None = _CORES
    start: int = -3600
    end: int | None = None
    gone: bool = False
    uid: str | None = None
    seen: tuple[int, int] = (-3600, RANGE)
    killed: bool = False  # its container was, for its memory, and runs again
    restarts_at: int | None = None  # its container started again, and counters with it
    labels: str = ""  # more labels of its samples
    asks: Mapping[str, str] | None = None  # if not what the job asks for


@dataclass(frozen=True)
class Planted:
    """A job, and the advice that is right: a value by field, and otherwise a part of the reason why it is not known."""

    name: str
    pods: Sequence[PlantedPod]
    asks: Mapping[str, str]
    advice: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)
    kind: str = "training"
    shm: str | None = None  # sizeLimit of /dev/shm
    unmeasured: bool = False
    replicas: int = 1
    autoscaled: bool = False  # Something else sets the replicas.
    pool: str = "default"
    nodes: int = 1


def asks(gpu: int = 8, memory: str = "32Gi", cpu: str = "8") -> dict[str, str]:
    found = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": str(gpu)}
    return found if gpu else {"cpu": cpu, "memory": memory}


def pod(job: str, devices: Sequence[Device] = (BUSY,) * 8, suffix: str = "-0-aaaaa", **more: Any) -> PlantedPod:
    return PlantedPod(f"{job}{suffix}", devices, **more)


def planted() -> list[Planted]:
    """Every case by itself: what is not about it is used as it was asked for."""
    return [*_wastes(), *_needs(), *_unknowns(), *_replicated(), *_shares()]


def _wastes() -> Iterator[Planted]:
    yield Planted("two-idle", [pod("two-idle", [BUSY] * 6 + [UNUSED] * 2)], asks(), {"gpu": 6})
    yield Planted("none-used", [pod("none-used", [UNUSED] * 2)], asks(2), {"gpu": 0})
    yield Planted(
        "nodes",
        [pod("nodes", [BUSY] * 2 + [UNUSED] * 6), pod("nodes", [BUSY] * 3 + [UNUSED] * 5, "-1-bbbbb")],
        asks(),
        {"gpu": 3},
    )
    yield Planted(
        "replaced",  # What a pod that is gone has needed counts.
        [
            pod("replaced", [BUSY] * 2 + [UNUSED] * 6, start=3600),
            pod("replaced", [BUSY] * 5 + [UNUSED] * 3, "-0-bbbbb", end=3000, gone=True, seen=(-3600, 3000)),
        ],
        asks(),
        {"gpu": 5},
    )
    yield Planted("memory", [pod("memory", memory=flat(31))], asks(memory="256Gi"), {"memory": "40Gi"})
    yield Planted(
        "peaks", [pod("peaks", memory=peak(100, 20))], asks(memory="256Gi"), {"memory": "128Gi"}
    )  # once, for two minutes
    yield Planted(
        "shm", [pod("shm", memory=flat(31))], asks(memory="256Gi"), {"memory": "64Gi"}, shm="128Gi"
    )  # half of the memory, all of which may be in it
    yield Planted("own-shm", [pod("own-shm", memory=flat(31))], asks(memory="256Gi"), {"memory": "40Gi"}, shm="16Gi")
    yield Planted("cpu", [pod("cpu", cpu=flat(3))], asks(cpu="32"), {"cpu": "4"})
    yield Planted(
        "all-three",
        [pod("all-three", [BUSY, UNUSED], memory=flat(1.5), cpu=flat(0.2))],
        asks(2, "64Gi", "16"),
        {"gpu": 1, "memory": "2Gi", "cpu": "500m"},
    )
    yield Planted("no-gpu", [pod("no-gpu", (), memory=flat(3))], asks(0), {"memory": "4Gi"})
    yield Planted(
        "restarted",  # Counters that begin again are no negative use.
        [pod("restarted", cpu=flat(2), restarts_at=4 * 3600)],
        asks(cpu="16"),
        {"cpu": "3"},
    )
    yield Planted(
        "serving",
        [
            pod("serving", [BUSY], "-5d4f7-aaaaa", memory=flat(10)),
            pod("serving", [BUSY], "-5d4f7-bbbbb", memory=flat(20)),
        ],
        asks(1, "64Gi"),
        {"memory": "28Gi"},
        kind="inference",
    )
    yield Planted("lab", [pod("lab", [BUSY, UNUSED], "-0")], asks(2), {"gpu": 1}, kind="notebook")
    yield Planted(
        "ended", [pod("ended", memory=flat(8), end=11 * 3600, seen=(-3600, 11 * 3600))], asks(), {"memory": "10Gi"}
    )
    yield Planted(
        "twice-scraped",  # by two kubelets' services, or two Prometheus behind one Thanos
        [
            pod("twice-scraped", [BUSY, UNUSED], memory=flat(8)),
            pod("twice-scraped", [BUSY, UNUSED], memory=flat(8), labels=',replica="b"'),
        ],
        asks(2),
        {"gpu": 1, "memory": "10Gi"},
    )


def _needs() -> Iterator[Planted]:
    yield Planted("all-used", [pod("all-used")], asks())
    yield Planted("seldom", [pod("seldom", [BUSY] * 7 + [Device(peak(0.6, 0.0), flat(0.4))])], asks())
    yield Planted("loaded", [pod("loaded", [Device(flat(0.0), flat(70))] * 2)], asks(2), kind="inference")
    yield Planted("turns", [pod("turns", [Device(peak(0.9, 0, at, 3600), flat(0.4)) for at in (0, 9000)])], asks(2))
    yield Planted("tight", [pod("tight", memory=flat(27), cpu=flat(6.5))], asks())
    yield Planted("small", [pod("small", (), memory=flat(0.2), cpu=flat(0.1))], asks(0, "1Gi", "500m"))
    yield Planted(
        "former-peak",
        [
            pod("former-peak", [BUSY], "-5d4f7-aaaaa", memory=flat(10), start=3000),
            pod("former-peak", [BUSY], "-77f99-ccccc", memory=flat(60), end=2700, gone=True, seen=(-3600, 2700)),
        ],
        asks(1, "64Gi"),
        kind="inference",
    )
    yield Planted(
        "namesake",  # its own uid counts, and the peak of the other one all the same
        [pod("namesake", [BUSY], "-0", memory=flat(4)), pod("namesake", (), "-0", memory=flat(50), uid="f" * 8)],
        asks(1, "64Gi"),
        kind="notebook",
    )


def _replicas(name: str, busy: Sequence[Curve], **more: Any) -> Planted:
    """A service in which nothing else is worth advice: its replicas ask for a GiB and half a core, and use a fifth."""
    used = {"memory": flat(0.2), "cpu": flat(0.1), **more.pop("used", {})}
    pods = [
        pod(name, [Device(each)], f"-5d4f7-{letter * 5}", **used, **more.pop(f"pod_{letter}", {}))
        for letter, each in zip("abcdef", busy, strict=False)
    ]
    former = more.pop("former", [])
    defaults = {"kind": "inference", "replicas": len(busy)}
    return Planted(name, [*pods, *former], asks(1, "1Gi", "500m"), **{**defaults, **more})


def _replicated() -> Iterator[Planted]:
    quiet = [flat(0.2)] * 4
    yield _replicas("fewer", quiet, advice={"service.replicas": 2})
    yield _replicas("even-fewer", [flat(0.1)] * 6, advice={"service.replicas": 2})
    yield _replicas("three-of-six", [flat(0.2)] * 6, advice={"service.replicas": 3})
    yield _replicas("half-busy", [flat(0.5)] * 4)
    yield _replicas("bursts", [peak(0.9, 0.1, at) for at in (3600, 7200, 10800, 14400)])  # each at another time
    yield _replicas("full-of-memory", quiet, used={"memory": flat(0.8)})
    yield _replicas("full-of-work", quiet, used={"cpu": flat(0.4)})
    yield _replicas("pair", [flat(0.1)] * 2)
    yield _replicas("autoscaled", quiet, autoscaled=True)
    yield _replicas("just-scaled-up", quiet, pod_d={"start": 10 * 3600, "seen": (10 * 3600, RANGE)})
    yield _replicas("one-waits", quiet, replicas=5)
    yield _replicas("was-killed", quiet, pod_b={"killed": True})
    past = {"end": 3000, "gone": True, "seen": (-3600, 3000), "memory": flat(0.2), "cpu": flat(0.1)}
    busy = [pod("rolled-out", [Device(flat(0.5))], f"-77f99-{letter * 5}", **past) for letter in "abcd"]
    yield _replicas("rolled-out", quiet, former=busy)  # The replicas before the last rollout were busy.
    blind = [pod("forgotten", (), f"-77f99-{letter * 5}", **past) for letter in "abcd"]
    yield _replicas("forgotten", quiet, former=blind)  # Nothing is known of their GPUs.


def _shares() -> Iterator[Planted]:
    """Jobs with a GPU of 80 GiB."""
    light = Device(peak(0.4, 0.1), peak(15, 9))
    advice = {"advice": {"gpu-share": "20Gi"}, "pool": "shared"}
    yield Planted("share", [pod("share", [light])], asks(1), **advice)
    yield Planted("share-of-vgpu", [pod("share-of-vgpu", [light])], asks(1), **{**advice, "pool": "vgpu"})
    yield Planted("share-lab", [pod("share-lab", [light], "-0")], asks(1), kind="notebook", **advice)
    pair = [pod("share-served", [light], f"-5d4f7-{letter * 5}") for letter in "ab"]
    yield Planted("share-served", pair, asks(1), kind="inference", **advice)
    past = {"end": 3000, "gone": True, "seen": (-3600, 3000)}
    for name, devices, more in (
        ("unshared-pool", [light], {"pool": "default"}),
        ("unknown-size", [light], {"pool": "unlabelled"}),
        ("busy-once", [Device(peak(0.6, 0.1), flat(15))], {}),
        ("full-once", [Device(flat(0.1), peak(34, 9))], {}),
        ("two-light", [light] * 2, {"asks": asks(2)}),
        ("distributed", [light], {"nodes": 2}),
    ):
        yield Planted(name, [pod(name, devices)], **{"asks": asks(1), "pool": "shared", **more})
    yield Planted("light-killed", [pod("light-killed", [light], killed=True)], asks(1), pool="shared")
    for name, devices in (("was-busy", [BUSY]), ("was-unseen", [])):
        pods = [pod(name, [light], start=3600), pod(name, devices, "-0-bbbbb", **past)]
        yield Planted(name, pods, asks(1), pool="shared")
    yield Planted(
        "half-known",
        [pod("half-known", [Device(gaps(flat(0.1), 2), flat(15))])],
        asks(1),
        unknown={"gpu": "the use of its accelerators is known for 50 % of the time"},
        pool="shared",
    )


def _unknowns() -> Iterator[Planted]:
    short = {"start": RANGE - 1200, "seen": (RANGE - 1200, RANGE)}
    yield Planted(
        "minutes",
        [pod("minutes", [BUSY, UNUSED], memory=flat(1), **short)],
        asks(2),
        unknown=dict.fromkeys(("gpu", "memory", "cpu"), "it ran for 20 min only, less than 6 h"),
    )
    yield Planted(
        "killed",
        [pod("killed", [BUSY], memory=flat(4), killed=True)],
        asks(1),
        unknown={"memory": "it was killed for its memory (OOMKilled)"},
    )
    yield Planted(
        "half",
        [pod("half", [BUSY, UNUSED], memory=flat(1), cpu=flat(1), seen=(-3600, RANGE // 2))],
        asks(2),
        unknown=dict.fromkeys(("gpu", "memory", "cpu"), " is known for 50 % of the time of pod half-0-aaaaa"),
    )
    yield Planted(
        "one-node",  # nothing is known of the other one
        [
            pod("one-node", [BUSY, UNUSED], memory=flat(1)),
            pod("one-node", (), "-1-bbbbb", memory=None, cpu=None),
        ],
        asks(2),
        unknown={
            "gpu": "no exporter tells the use of the accelerators of pod one-node-1-bbbbb",
            "memory": "its memory is known for 0 % of the time of pod one-node-1-bbbbb",
            "cpu": "its CPU is known for 0 % of the time of pod one-node-1-bbbbb",
        },
    )
    yield Planted(
        "lost-device",
        [pod("lost-device", [BUSY] * 4 + [UNUSED] * 3)],
        asks(),
        unknown={"gpu": "exporters tell of 7"},
    )
    yield Planted(
        "no-number",
        [pod("no-number", [BUSY, Device(flat(float("nan")), flat(0.1))])],
        asks(2),
        unknown={"gpu": "exporters tell of 1"},
    )
    yield Planted(
        "gaps",
        [pod("gaps", [BUSY, Device(gaps(flat(0.0), 3), flat(0.1))])],
        asks(2),
        unknown={"gpu": "the use of its accelerators is known for 66 % of the time"},
    )
    yield Planted(
        "no-cadvisor",
        [pod("no-cadvisor", [BUSY], memory=None, cpu=None)],
        asks(1),
        unknown=dict.fromkeys(("memory", "cpu"), "from the kubelets' cAdvisor"),
    )
    yield Planted(
        "other-cluster",  # A pod of its name uses little, somewhere else.
        [pod("other-cluster", [BUSY], "-0", memory=flat(1), cpu=flat(0.1), uid="e" * 8)],
        asks(1),
        unknown=dict.fromkeys(("memory", "cpu"), "from the kubelets' cAdvisor"),
        kind="notebook",
    )
    yield Planted(
        "open-lab",
        [pod("open-lab", [UNUSED], "-0")],
        asks(1),
        unknown={"gpu": "none of its accelerators was used, and its user may go on"},
        kind="notebook",
    )
    yield Planted(
        "scaled-up",
        [pod("scaled-up", [BUSY] * 2, memory=flat(4), asks=asks(2, "8Gi"))],
        asks(8, "64Gi"),
        unknown=dict.fromkeys(("gpu", "memory", "cpu"), "runs with other resources than the job asks for now"),
    )
    yield Planted("waits", [], asks(), unmeasured=True)
    yield Planted("dark", [pod("dark", (), memory=None, cpu=None)], asks(), unmeasured=True)


# -- as objects --------------------------------------------------------------------------------------------------------


def labels(job: Planted) -> dict[str, str]:
    return {
        "app": job.name,
        "app.kubernetes.io/managed-by": "runwhere.gpuctl",
        "runwhere.ai/job-type": job.kind,
        "runwhere.ai/pool": job.pool,
    }


def workload(job: Planted) -> dict[str, Any]:
    kind = KINDS[job.kind][1]
    spec: dict[str, Any] = {"template": {"metadata": {"labels": labels(job)}, "spec": _spec(job, job.asks)}}
    if kind == "Job":
        spec |= {"parallelism": job.nodes, "completions": job.nodes}
        spec["template"]["spec"]["restartPolicy"] = "Never"
    else:
        spec |= {"selector": {"matchLabels": {"app": job.name}}, "replicas": job.replicas}
    if kind == "StatefulSet":
        spec["serviceName"] = job.name
    version = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": job.name, "labels": labels(job)}, "spec": spec}


def pod_object(job: Planted, own: PlantedPod) -> dict[str, Any]:
    spec = {**_spec(job, own.asks or job.asks), "nodeName": NODES.get(job.pool, "node-1")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": own.name, "labels": labels(job)}, "spec": spec}


def pod_status(own: PlantedPod) -> dict[str, Any]:
    started = own.start if own.restarts_at is None else own.restarts_at
    state: dict[str, Any] = {"running": {"startedAt": _text(started)}}
    if own.end is not None:
        state = {"terminated": {"exitCode": 0, "startedAt": _text(started), "finishedAt": _text(own.end)}}
    container = {
        "name": "main",
        "image": "ml:v1",
        "imageID": "",
        "ready": own.end is None,
        "restartCount": int(own.killed or own.restarts_at is not None),
        "state": state,
    }
    if own.killed:
        ended = {"exitCode": 137, "reason": "OOMKilled", "startedAt": _text(own.start), "finishedAt": _text(3600)}
        container["lastState"] = {"terminated": ended}
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _text(own.start)}
    phase = "Running" if own.end is None else "Succeeded"
    return {"phase": phase, "conditions": [bound], "containerStatuses": [container], "startTime": _text(own.start)}


def _spec(job: Planted, amounts: Mapping[str, str]) -> dict[str, Any]:
    main = {"name": "main", "image": "ml:v1", "resources": {"requests": dict(amounts), "limits": dict(amounts)}}
    shm = [{"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": job.shm}}] if job.shm else []
    return {"containers": [main], "volumes": shm}


def _text(seconds: int) -> str:
    return datetime.fromtimestamp(ZERO + seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- as samples --------------------------------------------------------------------------------------------------------


def openmetrics(jobs: Iterable[Planted], uids: Mapping[str, str]) -> Iterator[str]:
    """What dcgm-exporter and cAdvisor served, metric by metric, as promtool reads it; ``uids`` are by pod."""
    pods = [each for job in jobs for each in job.pods]
    for name, series in (
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", lambda own: _devices(own, lambda device: device.busy)),
        ("DCGM_FI_DEV_FB_USED", lambda own: _devices(own, lambda device: _times(device.memory, 1024))),
        (
            "container_memory_working_set_bytes",
            lambda own: _container(own, uids, own.memory and _times(own.memory, GIB)),
        ),
        ("container_cpu_usage_seconds_total", lambda own: _container(own, uids, own.cpu and _counter(own, own.cpu))),
    ):
        yield f"# TYPE {name.removesuffix('_total')} {'counter' if name.endswith('_total') else 'gauge'}\n"
        for own in pods:
            for text, curve in series(own):
                for moment in range(max(own.start, own.seen[0]), own.seen[1] + 1, STEP):
                    yield f"{name}{{{text}{own.labels}}} {_number(curve(moment))} {ZERO + moment:.0f}\n"
    yield "# EOF\n"


def _devices(own: PlantedPod, curve: Callable[[Device], Curve]) -> Iterator[tuple[str, Curve]]:
    for index, device in enumerate(own.devices):
        text = f'exported_namespace="{TEAM}",exported_pod="{own.name}",UUID="GPU-{own.name}-{index}",gpu="{index}"'
        yield f'{text},Hostname="node-1",modelName="H100",namespace="gpu-operator",pod="dcgm-exporter"', curve(device)


def _container(own: PlantedPod, uids: Mapping[str, str], curve: Curve | None) -> Iterator[tuple[str, Curve]]:
    if curve is None:
        return
    uid = (
        f"{own.uid}-0000-0000-0000-000000000000"
        if own.uid
        else uids.get(own.name, "a" * 8 + "-0000" * 3 + "-" + "a" * 12)
    )
    path = f"/kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice"
    base = f'namespace="{TEAM}",pod="{own.name}",image="ml:v1"'
    yield f'container="main",id="{path}/main",{base}', curve
    # The pod as a whole, and its sandbox, are no containers of the job.
    yield f'id="{path}",{base}', _times(curve, 9)
    yield f'container="POD",id="{path}/sandbox",{base}', _times(curve, 9)


def _times(curve: Curve, factor: float) -> Curve:
    return lambda moment: curve(moment) * factor


def _counter(own: PlantedPod, curve: Curve) -> Curve:
    """Of seconds, which begins again with the container. The curve is flat."""
    return lambda moment: (
        curve(moment)
        * (moment - own.start if own.restarts_at is None or moment < own.restarts_at else moment - own.restarts_at)
    )


def _number(value: float) -> str:
    return "NaN" if value != value else f"{value:.10g}"
