# SPDX-License-Identifier: BSD-2-Clause
"""The exporters of a cluster: how Prometheus finds them, and what they answer.

Options of an exporter are parameters of its URL: one cluster looks as several worlds do. Nothing is measured before
they are scraped; then it is from the history of the pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesim.controllers.base import find_condition
from kubesim.controllers.pods import is_terminal
from kubesim.registry import Registry

from . import history, kube_state, targets, workloads
from .exposition import render
from .history import History, Past
from .load import Profiles
from .measurements import Measurements, shows_other_devices
from .readings import PodReading
from .targets import CADVISOR, EXPORTERS, KUBE_STATE, PROGRAM, Labels, Options

Object = dict[str, Any]
Target = dict[str, Any]
PREFIX = "/_sim/metrics/"


class Exporters:
    """Of a running cluster; only safe on its thread."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.profiles = Profiles(self._renew)
        self.history = History()
        self._measurements: Measurements | None = None

    def start(self) -> None:
        for pod in self.registry.list("Pod"):
            self.history.observe(pod)
        self.registry.subscribe(self._observe)

    # --- what they answer ---

    def text(self, exporter: str, place: str, options: Options) -> str | None:
        """The answer of one target; None when there is no such target."""
        now, measured = self._now(), self._measured()
        if exporter == KUBE_STATE:
            allowed = kube_state.AllowList(options.get("metric_labels_allowlist", ""))
            found = (
                sample
                for kind in kube_state.KINDS
                for obj in self.registry.list(kind)
                for sample in kube_state.samples(kind, obj, allowed)
            )
            return render(found, kube_state.DESCRIPTIONS, now)
        if exporter == PROGRAM:
            reading = next((each for each in self._programs(measured) if _key(each.pod) == place), None)
            if reading is None:
                return None
            descriptions, samples = workloads.program(reading)
            return render(samples, descriptions, now)
        if place not in measured.devices or not self._answers(place):
            return None
        if exporter == CADVISOR:
            own = (each for each in measured.of_pods.values() if each.pod["spec"]["nodeName"] == place)
            return render(workloads.cadvisor(own), workloads.CADVISOR, now)
        if exporter not in EXPORTERS:
            return None
        readings = [measured.of_devices[device] for device in measured.devices[place]]
        kind = EXPORTERS[exporter]
        return render(kind.samples(readings, options), kind.described(options), now)

    def _answers(self, node: str) -> bool:
        """No exporter answers on a node whose kubelet has gone."""
        obj = self.registry.get("Node", "", node)
        ready = find_condition(obj, "Ready") if obj is not None else None
        return ready is None or ready["status"] != "Unknown"

    def utilization(self, pod: Object) -> float | None:
        """Of the devices of a pod, in percent; None for one that does not run."""
        reading = self._measured().of_pods.get(pod["metadata"]["uid"])
        return None if reading is None else reading.utilization(self._now())

    # --- how they are found ---

    def targets(self, exporter: str, host: str, scheme: str, options: Options) -> list[Target]:
        """The answer of Prometheus' HTTP service discovery. Its labels __… are those that Prometheus reads itself."""
        own = {"__scheme__": scheme, **{f"__param_{key}": value for key, value in options.items()}}
        return [
            {"targets": [host], "labels": {**own, "__metrics_path__": f"{PREFIX}{exporter}/{place}", **labels}}
            for place, labels in self._places(exporter)
        ]

    def _places(self, exporter: str) -> Iterator[tuple[str, Labels]]:
        measured = self._measured()
        if exporter == KUBE_STATE:
            yield "cluster", targets.kube_state_target()
        elif exporter == PROGRAM:
            for reading in self._programs(measured):
                yield _key(reading.pod), targets.program_target(reading.pod)
        else:
            for node, devices in measured.devices.items():
                if exporter == CADVISOR:
                    yield node, targets.cadvisor_target(node)
                elif EXPORTERS[exporter].runs_beside(devices):
                    yield node, EXPORTERS[exporter].target(node)

    def _programs(self, measured: Measurements) -> Iterator[PodReading]:
        return (reading for reading in measured.of_pods.values() if workloads.has_program(reading))

    # --- the past ---

    def past(self) -> Past:
        """What series of the past can be made of (history.write), on any thread."""
        others = {kind: list(self.registry.list(kind)) for kind in kube_state.KINDS if kind != "Pod"}
        return Past(self.history.pods(), others, self.profiles)

    # --- what happens ---

    def _measured(self) -> Measurements:
        if self._measurements is None:
            nodes = {node["metadata"]["name"]: node for node in self.registry.list("Node")}
            now, known = self._now(), self.history.pods()
            self._measurements = Measurements(self.profiles, nodes, history.beginning(known, now))
            history.replay(known, self._measurements, now)
        return self._measurements

    def _observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        measured, now, deleted = self._measurements, self._now(), event == "DELETED"
        if kind == "Pod":
            self.history.observe(obj, now if deleted else None)
            if measured is not None and obj["spec"].get("nodeName"):
                measured.observe_pod(obj, now, ended=deleted or is_terminal(obj))
        elif kind == "Node" and measured is not None:
            if deleted:
                measured.forget_node(obj["metadata"]["name"], now)
            elif old is None or shows_other_devices(old, obj):
                measured.observe_node(obj, now)

    def _renew(self) -> None:
        if self._measurements is not None:
            self._measurements.renew(self._now())

    def _now(self) -> float:
        return self.registry.clock.now().timestamp()


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
