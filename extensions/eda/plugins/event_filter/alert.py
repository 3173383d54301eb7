# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ansible-rulebook runs this file by its path, without Ansible's import of collections."""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

# Of the collections root: ansible_collections/runwhere/gpuctl/extensions/eda/plugins/event_filter/alert.py
_COLLECTIONS = str(Path(__file__).parents[7])
if _COLLECTIONS not in sys.path:
    sys.path.append(_COLLECTIONS)

from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.inert_text import inert
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import printable_data

DOCUMENTATION = r"""
---
short_description: Make one event of each alert that Alertmanager posts
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - A filter for C(eda.builtin.webhook), or any other event source that receives the webhooks of Alertmanager (version V(4) of its
    payload). An event that is not such a payload is passed on.
  - Each alert becomes an event, once. Alertmanager repeats what still fires (C(repeat_interval)), and sends the other alerts of a group
    again with each new one. What has the same fingerprint, start and status was passed on before, and is left out.
  - What was passed on is kept in memory. After a restart of the rulebook, an alert that still fires is passed on once more, with the same
    C(id).
  - Any host that can reach it can send it. Labels and annotations are bounded in number and length, and must be text. Characters that
    could make a template of Ansible in any event, key or value, are replaced by their fullwidth forms.
options:
  keep:
    description: How many alerts to remember, to recognize those that come again.
    type: int
    default: 10000
  status:
    description: Pass on only alerts with this status.
    type: str
    choices: [firing, resolved]
"""

EXAMPLES = r"""
---
- name: Alerts of Prometheus
  hosts: localhost
  sources:
    - name: alertmanager
      eda.builtin.webhook:
        port: 5001
        token: "{{ gpuctl_alert_token }}"
      filters:
        - runwhere.gpuctl.alert:
  rules:
    - name: A GPU is too hot
      condition: event.type == "alert" and event.alert == "GpuTemperatureHigh" and event.status == "firing"
      action:
        debug:
          msg: "{{ event.message }}"
"""

_LOGGER = logging.getLogger("runwhere.gpuctl.alert")

_MOST_ALERTS = 1_000  # of one payload
_MOST_LABELS = 64  # Prometheus' own limits have this order of magnitude
_LONGEST_NAME = 128
_LONGEST_VALUE = 4_096
_LABELS = {
    "job": "job_name",
    "namespace": "namespace",
    "pool": "pool",
    "node": "node",
    "cluster": "cluster",  # an external label of Prometheus
    "severity": "severity",
}

# Those that were passed on, the newest last. ansible-rulebook loads the file once for each source.
_seen: OrderedDict[str, None] = OrderedDict()


def main(event: Any, keep: int = 10_000, status: str | None = None) -> Any:
    """The events of the alerts in a payload; the event itself if it has none."""
    payload = _payload_of(event)
    if payload is None:
        return inert(event)
    _validate(keep, status)
    meta = inert(event.get("meta")) if isinstance(event.get("meta"), dict) else None
    alerts = payload["alerts"]
    if len(alerts) > _MOST_ALERTS:
        _LOGGER.warning("a payload has %d alerts: those after the first %d are left out", len(alerts), _MOST_ALERTS)
    truncated = payload.get("truncatedAlerts")
    truncated = truncated if isinstance(truncated, int) and truncated > 0 else 0
    if truncated:
        _LOGGER.warning(
            "Alertmanager has left out %d alerts of a group: raise max_alerts of its webhook receiver", truncated
        )
    found = []
    for alert in alerts[:_MOST_ALERTS]:
        row = _event_of(alert, payload, truncated)
        if row and status in (None, row["status"]) and _is_new(row["id"], keep):
            found.append({**row, "meta": dict(meta)} if meta is not None else row)
    return found


def _payload_of(event: Any) -> dict[str, Any] | None:
    """The payload of Alertmanager in an event: the whole of it, or what a webhook source calls ``payload``."""
    for candidate in (event, event.get("payload") if isinstance(event, dict) else None):
        if isinstance(candidate, dict) and isinstance(candidate.get("alerts"), list) and "groupKey" in candidate:
            return candidate
    return None


def _validate(keep: Any, status: Any) -> None:
    if not isinstance(keep, int) or isinstance(keep, bool) or not 1 <= keep <= 1_000_000:
        raise ValueError(f"runwhere.gpuctl.alert: keep: {keep!r} is no number from 1 to 1000000.")
    if status not in (None, "firing", "resolved"):
        raise ValueError(f"runwhere.gpuctl.alert: status: unknown value: {status!r}. Use firing or resolved.")


def _event_of(alert: Any, payload: dict[str, Any], truncated: int) -> dict[str, Any] | None:
    if not isinstance(alert, dict) or alert.get("status") not in ("firing", "resolved"):
        return None
    labels, annotations = _texts(alert.get("labels")), _texts(alert.get("annotations"))
    fingerprint = _text(alert.get("fingerprint")) or _digest(labels)
    starts_at, status = _text(alert.get("startsAt")), alert["status"]
    name = labels.get("alertname") or "an alert"
    summary = annotations.get("summary") or annotations.get("description") or name
    row = {
        "type": "alert",
        "id": f"{fingerprint}/{starts_at}/{status}",
        "time": starts_at if status == "firing" else _text(alert.get("endsAt")),
        "alert": labels.get("alertname"),
        "status": status,
        **{field: labels.get(label) for field, label in _LABELS.items()},
        "labels": labels,
        "annotations": annotations,
        "starts_at": starts_at,
        "ends_at": _text(alert.get("endsAt")),
        "fingerprint": fingerprint,
        "receiver": _text(payload.get("receiver")),
        "url": _text(alert.get("generatorURL")),
        "truncated_alerts": truncated,
        "message": summary if status == "firing" else f"Resolved: {summary}",
    }
    shown: dict[str, Any] = inert(printable_data(row))
    return shown


def _texts(found: Any) -> dict[str, str]:
    """Labels and annotations, which are texts."""
    pairs = found.items() if isinstance(found, dict) else ()
    texts = [(name, value) for name, value in pairs if isinstance(name, str) and isinstance(value, str)]
    return {name[:_LONGEST_NAME]: value[:_LONGEST_VALUE] for name, value in texts[:_MOST_LABELS]}


def _text(found: Any) -> str:
    return found[:_LONGEST_VALUE] if isinstance(found, str) else ""


def _digest(labels: dict[str, str]) -> str:
    """For a sender without fingerprints."""
    return hashlib.sha256(json.dumps(sorted(labels.items())).encode()).hexdigest()[:16]


def _is_new(id: str, keep: int) -> bool:
    if id in _seen:
        _seen.move_to_end(id)
        return False
    _seen[id] = None
    while len(_seen) > keep:
        _seen.popitem(last=False)
    return True
