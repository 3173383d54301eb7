# SPDX-License-Identifier: BSD-2-Clause
"""The URLs of jobs, and the token of a notebook."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.endpoints import (
    SecretKey,
    access_urls,
    notebook_token,
)

IN_SECRET = {"name": "JUPYTER_TOKEN", "valueFrom": {"secretKeyRef": {"name": "jupyter", "key": "token"}}}
IN_FIELD = {"name": "JUPYTER_TOKEN", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def service(status: dict[str, Any] | None = None, **port: int) -> dict[str, Any]:
    return {
        "kind": "Service",
        "metadata": {"name": "svc-lab", "namespace": "ml"},
        "spec": {"clusterIP": "10.0.0.9", "ports": [{"port": 8888, **port}]},
        "status": {"loadBalancer": {"ingress": [status]} if status else {}},
    }


HEADLESS = {"kind": "Service", "metadata": {"name": "svc-x"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}}
INSIDE = "http://svc-lab.ml.svc:8888"


@pytest.mark.parametrize(
    ("objects", "address", "urls"),
    [
        ([service()], "10.0.0.1", [INSIDE]),
        ([service(nodePort=30080)], "10.0.0.1", ["http://10.0.0.1:30080", INSIDE]),
        ([service(nodePort=30080)], None, [INSIDE]),
        ([service(nodePort=30080)], "fd00::1", ["http://[fd00::1]:30080", INSIDE]),
        ([service({"ip": "192.0.2.7"})], None, ["http://192.0.2.7:8888", INSIDE]),
        ([service({"hostname": "localhost"})], None, ["http://localhost:8888", INSIDE]),
        ([service({"hostname": "good.example@evil.example/"})], None, [INSIDE]),
        (
            [service({"hostname": "lab.example.com"}, nodePort=30080)],
            "10.0.0.1",
            ["http://lab.example.com:8888", "http://10.0.0.1:30080", INSIDE],
        ),
        ([HEADLESS, {"kind": "Deployment"}], "10.0.0.1", []),
    ],
)
def test_the_urls_of_services(objects: list[dict[str, Any]], address: str | None, urls: list[str]):
    assert access_urls(objects, address) == urls


def test_a_token_is_added_to_the_urls():
    assert access_urls([service(nodePort=30080)], "10.0.0.1", "a b&c") == [
        "http://10.0.0.1:30080/?token=a%20b%26c",
        f"{INSIDE}/?token=a%20b%26c",
    ]


@pytest.mark.parametrize(
    ("container", "token"),
    [
        ({}, None),
        ({"env": [{"name": "JUPYTER_TOKEN", "value": "t1"}]}, "t1"),
        ({"env": [{"name": "JUPYTER_TOKEN", "value": ""}]}, None),
        ({"env": [{"name": "JUPYTER_TOKEN"}]}, None),
        ({"env": [{"name": "HF_TOKEN", "value": "t1"}]}, None),
        ({"env": [IN_SECRET]}, SecretKey("jupyter", "token")),
        ({"env": [IN_FIELD]}, None),
        ({"command": ["jupyter-lab", "--NotebookApp.token=t2", "--NotebookApp.password="]}, "t2"),
        ({"command": ["jupyter", "lab"], "args": ["--ServerApp.token=t2"]}, "t2"),
        ({"args": ["--IdentityProvider.token", "t2"]}, "t2"),
        ({"command": ["sh", "-c", "exec jupyter-lab --ServerApp.token='t2' --ip=0.0.0.0"]}, "t2"),
        ({"args": ["--ServerApp.token=t1", "--ServerApp.token=t2"]}, "t2"),
        ({"args": ["--ServerApp.token=t2"], "env": [IN_SECRET]}, "t2"),
        ({"args": ["--ServerApp.token="], "env": [IN_SECRET]}, None),
        ({"args": ["--ServerApp.token=''"]}, None),
        ({"args": ["--ServerApp.token=$(JUPYTER_TOKEN)"], "env": [IN_SECRET]}, SecretKey("jupyter", "token")),
        ({"args": ["--ServerApp.token=$(MINE)"], "env": [{"name": "MINE", "value": "t3"}]}, "t3"),
        ({"command": ["sh", "-c", 'jupyter-lab --ServerApp.token="${MINE}"'], "env": [{"name": "MINE", "value": "t3"}]},
         "t3"),
        ({"command": ["sh", "-c", "jupyter-lab --ServerApp.token=$MINE"]}, None),
        ({"args": ["--ServerApp.token_file=x", "--Other.token=y"]}, None),
    ],
)  # fmt: skip
def test_the_token_of_a_notebook(container: dict[str, Any], token: str | SecretKey | None):
    workload = {"spec": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}
    assert notebook_token(workload) == token
