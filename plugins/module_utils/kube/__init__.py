# SPDX-License-Identifier: BSD-2-Clause
"""HTTP to the API server.

An operation on objects: client.py. Discovery: discovery.py. Permissions: reviews.py. Retries and timeouts:
transport.py. A kind: resources.py; the fields that are relied on: shapes.py. What an error says: errors.py. An option
of all modules: connection_options.py.
"""
