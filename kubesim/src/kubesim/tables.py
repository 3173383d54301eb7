# SPDX-License-Identifier: BSD-2-Clause
"""Lists as kubectl prints them: meta.k8s.io/v1 Table, with the columns of each kind.

Source: pkg/printers/internalversion/printers.go.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from kubesim import pod_status
from kubesim.clock import human_duration, parse_time
from kubesim.resources import Resource
from kubesim.selectors import selector_text

Object = dict[str, Any]
Cell = Callable[[Object, datetime], Any]
#: (name, type, whether only `-o wide` shows it, what is in it)
Column = tuple[str, str, bool, Cell]
NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


def table(resource: Resource, objects: list[Object], meta: Object, include: str, now: datetime) -> Object:
    """The Table of some objects. `include`: None, Metadata or Object, what each row carries beside its cells."""
    columns = COLUMNS.get(resource.kind, (_NAME, _CREATED))
    definitions = [
        {
            "name": name,
            "type": kind,
            "format": "name" if name == "Name" else "",
            "description": "",
            "priority": 1 if wide else 0,
        }
        for name, kind, wide, _ in columns
    ]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": definitions,
        "rows": [{"cells": [cell(obj, now) for *_, cell in columns], **_carried(obj, include)} for obj in objects],
    }


def _carried(obj: Object, include: str) -> Object:
    if include == "None":
        return {}
    if include == "Object":
        return {"object": obj}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]}
    return {"object": partial}


# --- cells ------------------------------------------------------------------------------------------------------------


def _at(path: str, default: Any = "") -> Cell:
    steps = path.split(".")

    def cell(obj: Object, _: datetime) -> Any:
        value: Any = obj
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    return cell


def _since(text: str | None, now: datetime) -> str:
    return human_duration((now - parse_time(text)).total_seconds()) if text else UNKNOWN


def _age(obj: Object, now: datetime) -> str:
    return _since(obj["metadata"].get("creationTimestamp"), now)


def _count(*paths: str) -> Cell:
    cells = [_at(path, ()) for path in paths]
    return lambda obj, now: sum(len(cell(obj, now)) for cell in cells)


def _labels_text(labels: Object | None) -> str:
    return ",".join(f"{k}={v}" for k, v in sorted((labels or {}).items())) or NONE


def _selector(obj: Object, _: datetime) -> str:
    return selector_text(obj["spec"].get("selector")) or NONE


def _containers(field: str) -> Cell:
    def cell(obj: Object, _: datetime) -> str:
        spec = obj["spec"].get("jobTemplate", obj)["spec"]["template"]["spec"]
        return ",".join(c[field] for c in spec.get("containers") or ())

    return cell


def _fraction(done: str, wanted: str) -> Cell:
    first, second = _at(done, 0), _at(wanted, 0)
    return lambda obj, now: f"{first(obj, now)}/{second(obj, now)}"


def _node_status(obj: Object, _: datetime) -> str:
    conditions = {c["type"]: c["status"] for c in obj.get("status", {}).get("conditions") or ()}
    ready = conditions.get("Ready")
    text = "Unknown" if ready is None else ("Ready" if ready == "True" else "NotReady")
    return text + (",SchedulingDisabled" if obj["spec"].get("unschedulable") else "")


def _node_roles(obj: Object, _: datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels", {})
    roles = {k[len(prefix) :] for k in labels if k.startswith(prefix)} | {labels.get("kubernetes.io/role", "")}
    return ",".join(sorted(roles - {""})) or NONE


def _node_address(kind: str) -> Cell:
    def cell(obj: Object, _: datetime) -> str:
        addresses = obj.get("status", {}).get("addresses") or ()
        return next((a["address"] for a in addresses if a["type"] == kind), NONE)

    return cell


def _job_status(obj: Object, _: datetime) -> str:
    on = {c["type"] for c in obj.get("status", {}).get("conditions") or () if c["status"] == "True"}
    for kind in ("Complete", "Failed"):
        if kind in on:
            return kind
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in on), "Running")


def _job_completions(obj: Object, _: datetime) -> str:
    spec, done = obj["spec"], obj.get("status", {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallel = spec.get("parallelism", 0)
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _job_duration(obj: Object, now: datetime) -> str:
    status = obj.get("status", {})
    if not status.get("startTime"):
        return ""
    end = parse_time(status["completionTime"]) if status.get("completionTime") else now
    return human_duration((end - parse_time(status["startTime"])).total_seconds())


def _service_external(obj: Object, _: datetime) -> str:
    spec = obj["spec"]
    given = spec.get("externalIPs") or []
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    if spec.get("type") == "LoadBalancer":
        ingress = obj.get("status", {}).get("loadBalancer", {}).get("ingress") or []
        addresses = [i.get("ip") or i.get("hostname", "") for i in ingress] + given
        return ",".join(addresses) or "<pending>"
    return ",".join(given) or NONE


def _service_ports(obj: Object, _: datetime) -> str:
    shown = []
    for port in obj["spec"].get("ports") or ():
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port['port']}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _event_seen(field: str, instead: str) -> Cell:
    def cell(obj: Object, now: datetime) -> str:
        return _since(obj.get(field) or obj.get(instead) or obj["metadata"].get("creationTimestamp"), now)

    return cell


def _event_object(obj: Object, _: datetime) -> str:
    about = obj.get("involvedObject", {})
    return f"{about.get('kind', '').lower()}/{about.get('name', '')}"


def _event_source(obj: Object, _: datetime) -> str:
    source = obj.get("source", {})
    names = (source.get("component") or obj.get("reportingComponent", ""), source.get("host", ""))
    return ", ".join(name for name in names if name)


def _hpa_reference(obj: Object, _: datetime) -> str:
    target = obj["spec"]["scaleTargetRef"]
    return f"{target['kind']}/{target['name']}"


def _hpa_targets(obj: Object, _: datetime) -> str:
    metrics, current = obj["spec"].get("metrics") or [], obj.get("status", {}).get("currentMetrics") or []
    shown = []
    for index, metric in enumerate(metrics):
        kind = metric["type"][0].lower() + metric["type"][1:]
        have = current[index].get(kind, {}).get("current", {}) if index < len(current) else {}
        target = metric[kind]["target"]
        name = f"{metric[kind]['name']}: " if kind == "resource" else ""
        if target.get("averageUtilization") is not None:
            value = have.get("averageUtilization")
            shown.append(f"{name}{UNKNOWN if value is None else f'{value}%'}/{target['averageUtilization']}%")
        else:
            average = "averageValue" in target
            value = have.get("averageValue" if average else "value", UNKNOWN)
            text = target.get("averageValue", target.get("value"))
            shown.append(f"{name}{value}/{text}{' (avg)' if average and kind != 'resource' else ''}")
    return ", ".join(shown[:2]) + (f" + {len(shown) - 2} more..." if len(shown) > 2 else "") or NONE


def _quota(prefix: str) -> Cell:
    def cell(obj: Object, _: datetime) -> str:
        status = obj.get("status", {})
        hard, used = status.get("hard") or {}, status.get("used") or {}
        names = [n for n in sorted(hard) if n.startswith("limits.") == (prefix == "limits.")]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return cell


# --- columns ----------------------------------------------------------------------------------------------------------


def _text(name: str, cell: Cell, wide: bool = False) -> Column:
    return name, "string", wide, cell


def _number(name: str, path: str) -> Column:
    return name, "integer", False, _at(path, 0)


_NAME, _AGE = _text("Name", _at("metadata.name")), _text("Age", _age)
_CREATED = ("Created At", "date", False, _at("metadata.creationTimestamp"))
_TEMPLATE = (_text("Containers", _containers("name"), True), _text("Images", _containers("image"), True))
_WITH_SELECTOR = (*_TEMPLATE, _text("Selector", _selector, True))


def _claim_state(claim: Object) -> str:
    """resourceClaimState of pkg/printers/internalversion/printers.go."""
    status, deleted = claim.get("status") or {}, "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if deleted else []
    if "allocation" in status:
        states += ["allocated", *(["reserved"] if status.get("reservedFor") else [])]
    elif not deleted:
        states.append("pending")
    return ",".join(states)


COLUMNS: dict[str, tuple[Column, ...]] = {
    "Pod": (
        _NAME,
        _text("Ready", lambda pod, _: pod_status.ready(pod)),
        _text("Status", lambda pod, _: pod_status.reason(pod)),
        _text("Restarts", lambda pod, now: pod_status.restarts(pod, now)),
        _AGE,
        _text("IP", _at("status.podIP", NONE), True),
        _text("Node", _at("spec.nodeName", NONE), True),
        _text("Nominated Node", _at("status.nominatedNodeName", NONE), True),
        _text("Readiness Gates", lambda pod, _: NONE, True),
    ),
    "Node": (
        _NAME,
        _text("Status", _node_status),
        _text("Roles", _node_roles),
        _AGE,
        _text("Version", _at("status.nodeInfo.kubeletVersion")),
        _text("Internal-IP", _node_address("InternalIP"), True),
        _text("External-IP", _node_address("ExternalIP"), True),
        _text("OS-Image", _at("status.nodeInfo.osImage", UNKNOWN), True),
        _text("Kernel-Version", _at("status.nodeInfo.kernelVersion", UNKNOWN), True),
        _text("Container-Runtime", _at("status.nodeInfo.containerRuntimeVersion", UNKNOWN), True),
    ),
    "Namespace": (_NAME, _text("Status", _at("status.phase")), _AGE),
    "ConfigMap": (_NAME, ("Data", "integer", False, _count("data", "binaryData")), _AGE),
    "Secret": (_NAME, _text("Type", _at("type")), ("Data", "integer", False, _count("data")), _AGE),
    "ServiceAccount": (_NAME, ("Secrets", "integer", False, _count("secrets")), _AGE),
    "Service": (
        _NAME,
        _text("Type", _at("spec.type")),
        _text("Cluster-IP", _at("spec.clusterIP", NONE)),
        _text("External-IP", _service_external),
        _text("Port(s)", _service_ports),
        _AGE,
        _text("Selector", lambda obj, _: _labels_text(obj["spec"].get("selector")), True),
    ),
    "Job": (
        _NAME,
        _text("Status", _job_status),
        _text("Completions", _job_completions),
        _text("Duration", _job_duration),
        _AGE,
        *_WITH_SELECTOR,
    ),
    "Deployment": (
        _NAME,
        _text("Ready", _fraction("status.readyReplicas", "spec.replicas")),
        _number("Up-to-date", "status.updatedReplicas"),
        _number("Available", "status.availableReplicas"),
        _AGE,
        *_WITH_SELECTOR,
    ),
    "ReplicaSet": (
        _NAME,
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        _AGE,
        *_WITH_SELECTOR,
    ),
    "StatefulSet": (_NAME, _text("Ready", _fraction("status.readyReplicas", "spec.replicas")), _AGE, *_TEMPLATE),
    "HorizontalPodAutoscaler": (
        _NAME,
        _text("Reference", _hpa_reference),
        _text("Targets", _hpa_targets),
        _text("MinPods", lambda obj, _: str(obj["spec"].get("minReplicas", UNSET))),
        _number("MaxPods", "spec.maxReplicas"),
        _number("Replicas", "status.currentReplicas"),
        _AGE,
    ),
    "Event": (
        _text("Last Seen", _event_seen("lastTimestamp", "eventTime")),
        _text("Type", _at("type")),
        _text("Reason", _at("reason")),
        _text("Object", _event_object),
        _text("Subobject", _at("involvedObject.fieldPath"), True),
        _text("Source", _event_source, True),
        _text("Message", lambda obj, _: obj.get("message", "").strip()),
        _text("First Seen", _event_seen("firstTimestamp", "eventTime"), True),
        ("Count", "integer", True, _at("count", 1)),
        _text("Name", _at("metadata.name"), True),
    ),
    "ResourceQuota": (_NAME, _text("Request", _quota("")), _text("Limit", _quota("limits.")), _AGE),
    "LimitRange": (_NAME, _CREATED),
    "PriorityClass": (
        _NAME,
        _number("Value", "value"),
        ("Global-Default", "boolean", False, _at("globalDefault", False)),
        _AGE,
        _text("PreemptionPolicy", _at("preemptionPolicy")),
    ),
    "DeviceClass": (_NAME, _AGE),
    "ResourceClaim": (_NAME, _text("State", lambda claim, _: _claim_state(claim)), _AGE),
    "ResourceClaimTemplate": (_NAME, _AGE),
    "ResourceSlice": (
        _NAME,
        _text("Node", _at("spec.nodeName")),
        _text("Driver", _at("spec.driver")),
        _text("Pool", _at("spec.pool.name")),
        _AGE,
    ),
    "Lease": (_NAME, _text("Holder", _at("spec.holderIdentity")), _AGE),
}
