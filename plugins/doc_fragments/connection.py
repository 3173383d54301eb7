# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection options. Argument spec and environment variables: module_utils/kube/connection_options.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  kubeconfig:
    description:
      - Path to a kubeconfig file, multiple paths separated by V(:), or the content of a kubeconfig as a dictionary.
      - If O(kubeconfig), O(context), and O(host) with credentials are all unset, the module uses the service account of the
        pod that it runs in. Outside of a pod, it uses the file that E(KUBECONFIG) names, or C(~/.kube/config).
      - If unset, E(K8S_AUTH_KUBECONFIG) is used.
    type: raw
  context:
    description: Name of a context in the kubeconfig. The default is the current context. If unset, E(K8S_AUTH_CONTEXT) is used.
    type: str
  host:
    description: URL of the API server. If unset, E(K8S_AUTH_HOST) is used.
    type: str
  api_key:
    description: Bearer token for authentication. If unset, E(K8S_AUTH_API_KEY) is used.
    type: str
  username:
    description:
      - Username for HTTP basic authentication. Kubernetes no longer supports it, but a proxy in front of the API server can.
      - If unset, E(K8S_AUTH_USERNAME) is used.
    type: str
  password:
    description: Password for O(username). If unset, E(K8S_AUTH_PASSWORD) is used.
    type: str
  client_cert:
    description:
      - Path to a client certificate for authentication.
      - If unset, E(K8S_AUTH_CLIENT_CERT) or E(K8S_AUTH_CERT_FILE) is used.
    type: path
    aliases: [cert_file]
  client_key:
    description: Path to the private key for O(client_cert). If unset, E(K8S_AUTH_CLIENT_KEY) or E(K8S_AUTH_KEY_FILE) is used.
    type: path
    aliases: [key_file]
  ca_cert:
    description:
      - Path to the CA certificates, as a full chain, that verify the certificate of the API server.
      - If unset, E(K8S_AUTH_CA_CERT) or E(K8S_AUTH_SSL_CA_CERT) is used.
    type: path
    aliases: [ssl_ca_cert]
  validate_certs:
    description:
      - Whether to verify the certificate of the API server. It is verified unless this option or the kubeconfig disables it.
      - If unset, E(K8S_AUTH_VALIDATE_CERTS) or E(K8S_AUTH_VERIFY_SSL) is used.
    type: bool
    aliases: [verify_ssl]
  proxy:
    description: URL of an HTTP proxy. E(HTTP_PROXY) and E(HTTPS_PROXY) are ignored. If unset, E(K8S_AUTH_PROXY) is used.
    type: str
  no_proxy:
    description:
      - Comma-separated hosts, domains and networks to reach without the proxy. E(NO_PROXY) is ignored.
      - If unset, E(K8S_AUTH_NO_PROXY) is used.
    type: str
  proxy_headers:
    description: Headers for the proxy.
    type: dict
    suboptions:
      proxy_basic_auth:
        description:
          - Colon-separated username and password for basic authentication to the proxy.
          - If unset, E(K8S_AUTH_PROXY_HEADERS_PROXY_BASIC_AUTH) is used.
        type: str
      basic_auth:
        description:
          - Colon-separated username and password for basic authentication.
          - If unset, E(K8S_AUTH_PROXY_HEADERS_BASIC_AUTH) is used.
        type: str
      user_agent:
        description: User agent, for example V(foo/1.0). If unset, E(K8S_AUTH_PROXY_HEADERS_USER_AGENT) is used.
        type: str
  persist_config:
    description:
      - Whether to save a refreshed token in the kubeconfig file. It is saved unless this is V(false).
      - If unset, E(K8S_AUTH_PERSIST_CONFIG) is used.
    type: bool
  impersonate_user:
    description:
      - User to impersonate. The authenticated user needs permission to impersonate.
      - If unset, E(K8S_AUTH_IMPERSONATE_USER) is used.
    type: str
  impersonate_groups:
    description: Groups to impersonate. If unset, E(K8S_AUTH_IMPERSONATE_GROUPS) is used, a comma-separated list.
    type: list
    elements: str
  request_timeout:
    description:
      - Number of seconds that a task waits for an API server that does not answer, all of its requests and their retries
        together. The default is 60, the maximum 86400. A request that is not answered within half of the time that is left is sent
        again.
      - If unset, E(K8S_AUTH_REQUEST_TIMEOUT) is used.
    type: int
  connect_timeout:
    description:
      - Number of seconds in which an API server that has not answered the task yet must accept a connection. By default, only
        O(request_timeout) limits that. For a host that is a cluster of an inventory, the default is 4, so that a cluster that is
        down does not hold up the others. The maximum is 86400.
      - If unset, E(K8S_AUTH_CONNECT_TIMEOUT) is used.
    type: int
    version_added: 1.2.0
  retries:
    description:
      - Number of times to retry a request, with increasing delays, when the API server is overloaded or drops the
        connection, or when something else answers in its place. The default is 5, the maximum 100.
      - A server that has answered before and then cannot be reached is probably restarting. Unless O(retries) is 0, the task
        waits for it as long as O(request_timeout) allows.
      - If unset, E(K8S_AUTH_RETRIES) is used.
    type: int
  allow_plaintext_credentials:
    description:
      - Whether to send a token or password to an API server whose URL starts with C(http://), where everyone on the network can
        read it. Without it, the task fails. It is not needed for servers on this machine, such as C(http://127.0.0.1:8001) of
        C(kubectl proxy), unless O(proxy) is set.
      - If unset, E(K8S_AUTH_ALLOW_PLAINTEXT_CREDENTIALS) is used.
    type: bool
    version_added: 1.1.0
notes:
  - An empty environment variable counts as unset.
"""

    # For modules that act in namespaces which a manifest or an option names. The argument spec is in
    # module_utils/namespaces.py.
    NAMESPACES = r"""
options:
  allowed_namespaces:
    description:
      - Namespaces in which the task may act. It fails if a manifest or an option names another one, before any request.
        Modules that list objects of the whole cluster list only those in these namespaces.
      - E(GPUCTL_ALLOWED_NAMESPACES) also contains such a list, separated by commas. If both are set, a namespace must be in
        both, so a credential of AWX can limit what the answers to a survey may name.
      - A list without a name is an error, also in the variable, unless that is empty.
      - This protects from mistakes and from other people's input where several teams share an account. What an account itself
        may do is decided by its permissions, see M(runwhere.gpuctl.gpuctl_rbac).
    type: list
    elements: str
    version_added: 1.1.0
"""

    # For modules about jobs. Those whose namespaces mean something else describe them themselves.
    ALL_NAMESPACES = r"""
options:
  namespaces:
    description:
      - Namespaces to look at. The default is the one in which M(runwhere.gpuctl.gpuctl_job) would act.
      - With O(all_namespaces), an account that may not list the jobs of the whole cluster gets the default, with a warning.
    type: list
    elements: str
    aliases: [namespace]
  all_namespaces:
    description:
      - Without O(namespaces), whether to look at all namespaces. V(false) stands for the one in which M(runwhere.gpuctl.gpuctl_job) would
        act, that of E(GPUCTL_NAMESPACE), else of the kubeconfig's context, else V(default).
    type: bool
    default: false
    version_added: 1.2.0
"""

    # For modules that write. The argument spec is in module_utils/options.py.
    CONCURRENCY = r"""
options:
  concurrency:
    description:
      - Maximum number of concurrent requests. Independent objects, such as jobs, nodes or namespaces, are written
        concurrently. The steps of one job stay in order.
      - The maximum is 200, the number of writes that an API server processes at once by default.
      - If the server responds with C(429 Too Many Requests), all requests pause for the time that it asks for.
    type: int
    default: 10
"""
