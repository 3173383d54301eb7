# SPDX-License-Identifier: BSD-2-Clause
"""The least that labelling all nodes can cost: python bare.py KUBECONFIG CONCURRENCY VALUE

The PATCHes that gpuctl_pool sends, by threads that keep their connections and look at nothing but the status. Prints
the seconds that the PATCHes took; without VALUE the label is removed.
"""

from __future__ import annotations

import json
import queue
import ssl
import sys
import threading
import time
from http.client import HTTPConnection, HTTPSConnection
from urllib.parse import urlsplit

from kubernetes import config
from kubernetes.client import Configuration

QUERY = "fieldManager=bench&fieldValidation=Strict"


def main(kubeconfig: str, concurrency: int, value: str | None) -> None:
    settings = Configuration()
    config.load_kube_config(kubeconfig, client_configuration=settings)
    token = settings.get_api_key_with_prefix("authorization") or settings.get_api_key_with_prefix("BearerToken")
    headers = {"Authorization": token}
    server = urlsplit(settings.host)
    context = ssl.create_default_context(cafile=settings.ssl_ca_cert)

    def connect() -> HTTPConnection:
        if server.scheme == "http":
            return HTTPConnection(server.netloc)
        return HTTPSConnection(server.netloc, context=context)

    first = connect()
    first.request("GET", "/api/v1/nodes", headers={**headers, "Accept": "application/json"})
    waiting: queue.SimpleQueue[dict[str, str]] = queue.SimpleQueue()
    for node in json.loads(first.getresponse().read())["items"]:
        waiting.put(node["metadata"])

    def work() -> None:
        connection = connect()
        while True:
            try:
                metadata = waiting.get_nowait()
            except queue.Empty:
                return
            labels = {"runwhere.ai/pool": value}
            body = json.dumps({"metadata": {"labels": labels, "resourceVersion": metadata["resourceVersion"]}})
            connection.request(
                "PATCH",
                f"/api/v1/nodes/{metadata['name']}?{QUERY}",
                body,
                {**headers, "Content-Type": "application/merge-patch+json"},
            )
            response = connection.getresponse()
            response.read()
            if response.status != 200:
                raise SystemExit(f"{metadata['name']}: HTTP {response.status}")

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(time.perf_counter() - started)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None)
