# SPDX-License-Identifier: BSD-2-Clause
"""Label keys, annotations, and names of objects, resources and namespaces that the collection writes and reads back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIELD_MANAGER = "runwhere.gpuctl"  # of server-side apply, and the value of the label that marks managed objects

DEFAULT_NAMESPACE = "default"
SYSTEM_NAMESPACE = "gpuctl-system"  # where pools are declared
ACCELERATORS_CONFIG_MAP = "gpuctl-accelerators"  # profiles of accelerators by administrators, a key for each
ACCELERATORS_FILE = "GPUCTL_ACCELERATORS"  # the environment variable with the file of further profiles
DEFAULT_POOL = "default"
RESERVED_NAMESPACES = "kube-"  # the prefix of Kubernetes' own namespaces
POOLS_LEASE = "pools"  # the Lease that serializes changes of pools
PULL_SECRET = "gpuctl-registry"  # the Secret of a namespace with the credentials of image registries
OBJECT_COUNTS = "gpuctl-object-counts"  # the ResourceQuota of a namespace that limits how many objects it has
GPU_HOURS_UNTIL = "gpuctl-gpu-hours-until-"  # the ResourceQuota of a budget; the day of its next period follows
TOKEN_SECRET = "gpuctl-tokens"  # the Secret of a namespace to whose keys jobs refer
LEDGER = "gpuctl-ledger"  # the ConfigMap of each namespace that records its trainings
HISTORY = "gpuctl-history"  # the ConfigMap of each namespace that records the runs of its jobs; full ones have a suffix

POD_SECURITY = "pod-security.kubernetes.io/"  # of a namespace: the levels that the API server enforces, and warns of
POD_SECURITY_ENFORCED = f"{POD_SECURITY}enforce"

RESERVED_POOLS = {  # names that are not valid for pools, and why
    DEFAULT_POOL: "denotes the nodes without a pool",
    "none": "would read as no pool",
    "all": "would read as all pools",
}

# What names and labels may look like, as patterns for fullmatch (Kubernetes, apimachinery/pkg/util/validation).
LABEL_LENGTH = 63
DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"

PREFIX = "runwhere.ai/"
JOB_TYPE = f"{PREFIX}job-type"
PRIORITY = f"{PREFIX}priority"
POOL = f"{PREFIX}pool"
QUOTA = f"{PREFIX}quota"
POLICY = f"{PREFIX}policy"  # on what a policy consists of: its name
NAMESPACE = f"{PREFIX}namespace"
STACK = f"{PREFIX}stack"  # on the objects of a vendor's software: which installation they belong to
SWEEP = f"{PREFIX}sweep"  # trainings of one matrix; only on the Job, so that it can change in place
GPU_TYPE = f"{PREFIX}gpu-type"  # the type of a node's GPUs, as users set it
GPU_TYPE_INTERNAL = f"{PREFIX}gpuType"  # as a pool sets it too
DIVISION = f"{PREFIX}division"  # on nodes: which labels of a vendor a pool has set to divide devices (mig, sharing)
CLAIMED_DEVICES = f"{PREFIX}claimed-devices"  # an annotation of pods: what they claim, as resources (nvidia.com/gpu=2)
BUILT_BY = f"{PREFIX}built-by"  # an annotation of workloads: the version that built the pods; 1.0 wrote none
DESCRIPTION = f"{PREFIX}description"  # an annotation: free text is not a valid label value
SECRET_ENV = f"{PREFIX}secret-env"  # an annotation: the variables that the manifest marks as secret, as a JSON list
RESTART_OF = f"{PREFIX}restart-of"  # on a ControllerRevision: the job that is restarted
CHANGED_BY = f"{PREFIX}changed-by"  # an annotation: the run that changed pools last
SHARES = f"{PREFIX}shares"  # an annotation of ResourceQuotas: the shares of pools, as a JSON map
GPU_HOURS = f"{PREFIX}gpu-hours"  # an annotation of ResourceQuotas: a budget, and of the budget's own what is used
PLANNED_ON = f"{PREFIX}planned-on"  # an annotation: the newest versions of the nodes and ConfigMaps that it had read
SOURCE = f"{PREFIX}source"  # an annotation: what declares the object, such as a directory of a repository
TIME_LIMIT = f"{PREFIX}time-limit"  # an annotation of workloads: how long a job may run, as it is declared (12h)
TIME_LIMIT_OF = f"{PREFIX}time-limit-of"  # the pool whose default that is; not where the manifest says it
EXTENDED_LIMIT = f"{PREFIX}time-limit-extended"  # how long it may run since gpuctl_extend, in seconds (57600)
RESUMED_AT = f"{PREFIX}resumed-at"  # an annotation of services: since when their time limit counts
END_WARNED_AT = f"{PREFIX}end-warned-at"  # an annotation of services: when gpuctl_expire warned of their end
EXPIRED_AT = f"{PREFIX}expired-at"  # an annotation of services: when gpuctl_expire paused them
SUBMITTED_BY = f"{PREFIX}submitted-by"  # an annotation of workloads: who submitted the job (JSON)
HISTORY_OF = f"{PREFIX}history"  # on the ConfigMaps of a history, the older ones too
HISTORY_LIMITS = f"{PREFIX}history-limits"  # an annotation of the newest one: its limits (JSON)
APP = "app"
MANAGED_BY = "app.kubernetes.io/managed-by"
PAUSED_REPLICAS = f"{PREFIX}paused-replicas"  # an annotation: the replicas of a paused job
IDLE_WARNED_AT = f"{PREFIX}idle-warned-at"  # an annotation of workloads: when gpuctl_idle found their accelerators idle
IDLE_EXEMPT_UNTIL = f"{PREFIX}idle-exempt-until"  # an annotation of workloads: until when gpuctl_idle leaves them alone
RECLAIM_WARNED = f"{PREFIX}reclaim-warned"  # an annotation of workloads: what gpuctl_idle has warned of, and when
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"  # an annotation of pod templates: as kubectl rollout restart sets it
SCRAPE = "prometheus.io/scrape"  # annotations of pods, which Prometheus' charts look for by default
SCRAPE_PORT = "prometheus.io/port"
SCRAPE_PATH = "prometheus.io/path"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"  # Kueue admits workloads with this label
KUEUE_JOB_UID = "kueue.x-k8s.io/job-uid"  # on Kueue's Workload: the uid of the job
VOLCANO_QUEUE = "scheduling.volcano.sh/queue-name"  # an annotation of pods
VOLCANO_SCHEDULER = "volcano"
NATIVE_GANG = f"{PREFIX}gang"  # an annotation of Jobs whose pods Kubernetes itself places together: their number
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"  # set by Kubernetes on pods of an Indexed Job (1.28)
HOSTNAME = "kubernetes.io/hostname"

MAIN_CONTAINER = "main"


def job_labels(name: str, *, kind: str, priority: str, pool: str, namespace: str) -> dict[str, str]:
    """The labels of every object of a job, and of its pods."""
    return {**pod_selector(name), JOB_TYPE: kind, PRIORITY: priority, POOL: pool, NAMESPACE: namespace}


def pod_selector(name: str) -> dict[str, str]:
    """The labels that select a job's pods; ``app`` alone is a label that others use too."""
    return {APP: name, MANAGED_BY: FIELD_MANAGER}


def pods_of(name: str) -> str:
    """``pod_selector`` as a query parameter."""
    return selector_text(pod_selector(name))


def selector_text(labels: Mapping[str, str]) -> str:
    """Labels as an equality-based selector: ``a=b,c=d``."""
    return ",".join(f"{key}={value}" for key, value in labels.items())


def pool_config_map_name(pool: str) -> str:
    """The ConfigMap in the system namespace that declares a pool."""
    return f"pool-{pool}"


def policy_config_map_name(policy: str) -> str:
    """The ConfigMap in the system namespace by which modules know a policy."""
    return f"policy-{policy}"


def pool_queue_name(pool: str) -> str:
    """The LocalQueue of a pool in each namespace that has one, and its Cohort, which is the whole pool."""
    return f"gpuctl-{pool}"


def team_queue_name(pool: str, namespace: str) -> str:
    """The part of a pool that a namespace has: a ClusterQueue of Kueue, or a Queue of Volcano."""
    return f"{pool_queue_name(pool)}.{namespace}"


def service_name(job: str) -> str:
    """The Service of a job."""
    return f"svc-{job}"


def priority_class_name(priority: str) -> str:
    """The PriorityClass behind a job's priority: ``high`` -> ``gpuctl-high``."""
    return f"gpuctl-{priority}"


def quota_object_name(quota: str, namespace: str) -> str:
    """The ResourceQuota, and the LimitRange, of a quota in one of its namespaces."""
    return f"{quota}-{namespace}"


def owner_of_reserved(namespace: str) -> str | None:
    """Whose own namespace it is, so that neither jobs nor quotas belong there; None for an ordinary one."""
    if namespace == SYSTEM_NAMESPACE:
        return "gpuctl"
    return "Kubernetes" if namespace.startswith(RESERVED_NAMESPACES) else None


def is_protected(namespace: str) -> bool:
    """Whether the namespace is never deleted: those of Kubernetes and of gpuctl, and ``default``."""
    return namespace == DEFAULT_NAMESPACE or owner_of_reserved(namespace) is not None


def pod_security_of(namespace: Mapping[str, Any]) -> str | None:
    """The Pod Security level that a namespace enforces, set by us or not."""
    level: str | None = (namespace["metadata"].get("labels") or {}).get(POD_SECURITY_ENFORCED)
    return level


def is_managed(obj: Mapping[str, Any]) -> bool:
    """Whether the collection manages the object."""
    return (obj["metadata"].get("labels") or {}).get(MANAGED_BY) == FIELD_MANAGER


def policy_name(config_map: Mapping[str, Any]) -> str | None:
    """The policy that a ConfigMap has; None for others."""
    metadata = config_map["metadata"]
    name: str | None = (metadata.get("labels") or {}).get(POLICY)
    return name if name and is_managed(config_map) and metadata["name"] == policy_config_map_name(name) else None


def job_name_of(obj: Mapping[str, Any]) -> str | None:
    """The job that an object belongs to: its label ``app``, else (on pods of other tools' Jobs) ``job-name``."""
    labels = obj["metadata"].get("labels") or {}
    return None if STACK in labels else labels.get(APP) or labels.get("job-name")  # A vendor's software is no job.


def pool_of_workload(workload: Mapping[str, Any]) -> str:
    """The pool whose nodes the pods of a job are bound to. Its label says the same, but can be changed alone."""
    selector = workload["spec"]["template"]["spec"].get("nodeSelector") or {}
    return str(selector.get(POOL) or DEFAULT_POOL)


MANAGED = selector_text({MANAGED_BY: FIELD_MANAGER})  # selects all objects of this collection

_NAMED_IN_SELECTOR = 20  # More names would make the URL long; then the objects of all jobs are read.


def selector_of(names: set[str]) -> str:
    """The label selector of the named jobs' objects; of many jobs, that of all jobs' objects."""
    if len(names) > _NAMED_IN_SELECTOR:
        return f"{MANAGED},{APP}"  # The ledger and the history of a namespace belong to no job.
    return f"{MANAGED},{APP} in ({','.join(sorted(names))})"
