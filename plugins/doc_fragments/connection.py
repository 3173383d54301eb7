# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection options; the argument spec and the environment variables are in module_utils/kube/connection.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path of a kubeconfig file, several of them joined by V(:), or the content of one as a dictionary.
      - When this is unset and neither O(host) with credentials nor O(context) is given, the service account of the
        surrounding pod is used, and outside of a pod the file that E(KUBECONFIG) names, or C(~/.kube/config).
      - If unset, the environment variable E(K8S_AUTH_KUBECONFIG) is used.
    type: raw
  context:
    description:
      - The context of the kubeconfig to use; without it, the current one.
      - If unset, the environment variable E(K8S_AUTH_CONTEXT) is used.
    type: str
  host:
    description:
      - URL of the API server.
      - If unset, the environment variable E(K8S_AUTH_HOST) is used.
    type: str
  api_key:
    description:
      - Bearer token to authenticate with.
      - If unset, the environment variable E(K8S_AUTH_API_KEY) is used.
    type: str
  username:
    description:
      - User name for HTTP basic authentication, which only a proxy in front of the API server still offers.
      - If unset, the environment variable E(K8S_AUTH_USERNAME) is used.
    type: str
  password:
    description:
      - Password that belongs to O(username).
      - If unset, the environment variable E(K8S_AUTH_PASSWORD) is used.
    type: str
  client_cert:
    description:
      - Path of the certificate to authenticate with.
      - If unset, the environment variable E(K8S_AUTH_CLIENT_CERT) or E(K8S_AUTH_CERT_FILE) is used.
    type: path
    aliases: [cert_file]
  client_key:
    description:
      - Path of the private key that belongs to O(client_cert).
      - If unset, the environment variable E(K8S_AUTH_CLIENT_KEY) or E(K8S_AUTH_KEY_FILE) is used.
    type: path
    aliases: [key_file]
  ca_cert:
    description:
      - Path of the CA certificates, as a full chain, that the API server's certificate is checked against.
      - If unset, the environment variable E(K8S_AUTH_CA_CERT) or E(K8S_AUTH_SSL_CA_CERT) is used.
    type: path
    aliases: [ssl_ca_cert]
  validate_certs:
    description:
      - Whether the API server's certificate is checked. It is, unless this or the kubeconfig says otherwise.
      - If unset, the environment variable E(K8S_AUTH_VALIDATE_CERTS) or E(K8S_AUTH_VERIFY_SSL) is used.
    type: bool
    aliases: [verify_ssl]
  proxy:
    description:
      - URL of an HTTP proxy to connect through. E(HTTP_PROXY) and E(HTTPS_PROXY) are not looked at.
      - If unset, the environment variable E(K8S_AUTH_PROXY) is used.
    type: str
  no_proxy:
    description:
      - Comma separated hosts, domains and networks that are reached without the proxy. E(NO_PROXY) is not looked at.
      - If unset, the environment variable E(K8S_AUTH_NO_PROXY) is used.
    type: str
  proxy_headers:
    description:
      - Headers for the proxy.
    type: dict
    suboptions:
      proxy_basic_auth:
        description:
          - User name and password, joined by a colon, for the proxy.
          - If unset, the environment variable E(K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH) is used.
        type: str
      basic_auth:
        description:
          - User name and password, joined by a colon, for basic authentication.
          - If unset, the environment variable E(K8S_AUTH_PROXY_HEADERS_BASIC_AUTH) is used.
        type: str
      user_agent:
        description:
          - The user agent to name, such as V(foo/1.0).
          - If unset, the environment variable E(K8S_AUTH_PROXY_HEADERS_USER_AGENT) is used.
        type: str
  persist_config:
    description:
      - Whether a token that was renewed is saved in the kubeconfig file.
      - If unset, the environment variable E(K8S_AUTH_PERSIST_CONFIG) is used.
    type: bool
  impersonate_user:
    description:
      - The user to act as. The authenticated user needs the right to impersonate.
      - If unset, the environment variable E(K8S_AUTH_IMPERSONATE_USER) is used.
    type: str
  impersonate_groups:
    description:
      - The groups to act as.
      - If unset, the environment variable E(K8S_AUTH_IMPERSONATE_GROUPS) is used, with the groups separated by commas.
    type: list
    elements: str
  request_timeout:
    description:
      - Seconds to wait for the answer to one request. If unset everywhere, 30 seconds.
      - If unset, the environment variable E(K8S_AUTH_REQUEST_TIMEOUT) is used.
    type: int
  retries:
    description:
      - How often a request is sent again when the API server is overloaded, restarts or drops the connection, with
        growing pauses in between. If unset everywhere, 5 times.
      - If unset, the environment variable E(K8S_AUTH_RETRIES) is used.
    type: int
notes:
  - An empty environment variable counts as unset.
"""
