# SPDX-License-Identifier: BSD-2-Clause
"""Why a job is not running: a case for every sentence, and which reason comes first."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import slim_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.pending_reason import PendingReason
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.reason import (
    ClusterView,
    pending_reasons,
    quota_refusal,
    reason_for,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.shortage import Shortages

from .live_objects import POOL, accounted, container, event, node, pod, unscheduled, with_container, workload

QUOTA = (
    'pods "x-9" is forbidden: exceeded quota: team-ml, requested: requests.cpu=8,requests.nvidia.com/gpu=4, '
    "used: requests.cpu=30,requests.nvidia.com/gpu=6, limited: requests.cpu=32,requests.nvidia.com/gpu=8"
)
QUOTA_SENTENCE = (
    "quota team-ml of the namespace is exhausted (cpu: 8 requested, 30 of 32 used; nvidia.com/gpu: 4 requested, "
    "6 of 8 used). Delete a job, request less, or have the quota raised."
)
QUOTA_OF_BOTH = (
    'pods "x-9" is forbidden: exceeded quota: team-ml, requested: limits.cpu=8,limits.memory=8Gi,requests.cpu=8,'
    "requests.memory=8Gi, used: limits.cpu=30,limits.memory=4Gi,requests.cpu=30,requests.memory=3Gi, "
    "limited: limits.cpu=32,limits.memory=9Gi,requests.cpu=32,requests.memory=9Gi"
)
REFUSED_12 = (
    'pods "x-9" is forbidden: exceeded quota: team-ml, requested: requests.nvidia.com/gpu=12, '
    "used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=4"
)
USED_UP = REFUSED_12.replace("team-ml", "gpuctl-gpu-hours-until-2026-12-01").replace("gpu=4", "gpu=0")
LIMIT = [{"type": "Failed", "status": "True", "message": "Job has reached the specified backoff limit"}]
EXIT_1 = {"terminated": {"reason": "Error", "exitCode": 1}}
SUCCEEDED = {"terminated": {"exitCode": 0, "finishedAt": "2026-01-01T00:00:30Z"}}
FAILED_POD = pod("x-old", status=with_container("Failed", state=EXIT_1))
RUNS = pod("x-new", nodeName="n1", status=with_container("Running", state={"running": {}}, ready=True))
ENDED_WELL = pod("x-new", nodeName="n1", status=with_container("Running", state={"terminated": {"exitCode": 0}}))
FAILED_SENTENCE = "the container of pod x-old failed with exit code 1. Read its logs for the cause."
SCHEDULER = (
    "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/2 nodes are."
)


def waiting(reason: str, message: str = "", **fields: Any) -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(nodeName="n1", status=with_container(state=state, **fields))


def ended(**terminated: Any) -> dict[str, Any]:
    return waiting("CrashLoopBackOff", "back-off 5m0s", lastState={"terminated": terminated})


def newer(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": "2026-01-01T00:01:00Z"}}


def older(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "creationTimestamp": "2025-12-31T00:00:00Z"}}


def being_deleted(obj: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-01-01T00:00:01Z"}}


def late_training() -> dict[str, Any]:
    """Of a pool that gives it 12 hours, the grace period of its pods (30 s by default) among them."""
    condition = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "Job was active longer"}
    found = workload(status={"conditions": [condition]}, activeDeadlineSeconds=12 * 3600 - 30)
    found["metadata"]["annotations"] = {"runwhere.ai/time-limit-of": "a"}
    return found


def expired(time: str = "2026-01-01T17:00:00.123456+01:00") -> dict[str, Any]:
    found = workload("StatefulSet", replicas=0)
    found["metadata"]["annotations"] = {"runwhere.ai/expired-at": time}
    return found


# the workload, its pods, events, the sentence
CASES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]], str | None]] = {
    "nothing is known yet": (workload(), [], [], None),
    "a pod that starts": (workload(), [waiting("ContainerCreating")], [], None),
    "a pod that is initialised": (workload(), [waiting("PodInitializing")], [], None),
    # -- paused
    "a training that waits for Kueue": (
        workload(labels={"kueue.x-k8s.io/queue-name": "research"}, suspend=True),
        [],
        [],
        "the job is waiting in queue research for Kueue to admit it.",
    ),
    "a training that was suspended": (
        workload(suspend=True),
        [],
        [],
        "the job is suspended (spec.suspend). Resume it with O(state=resumed).",
    ),
    "a service without replicas": (
        workload("Deployment", replicas=0),
        [],
        [],
        "the job is scaled to 0 replicas. Resume it with O(state=resumed).",
    ),
    "a notebook that was paused at its time limit": (
        expired(),
        [],
        [],
        "the job reached its time limit and was paused at 2026-01-01T16:00:00Z. To let it run for as long again, "
        "resume it with O(state=resumed).",
    ),
    "what says that it was paused at a time that is none": (
        expired("soon"),
        [],
        [],
        "the job is scaled to 0 replicas. Resume it with O(state=resumed).",
    ),
    # -- images
    "an image that does not exist": (
        workload(),
        [
            waiting(
                "ImagePullBackOff",
                'Back-off pulling image "reg/ml:v1": ErrImagePull: rpc error: code = NotFound desc = reg/ml:v1: not '
                "found",
            )
        ],
        [],
        "image reg/ml:v1 of pod x-1 cannot be pulled: reg/ml:v1: not found. "
        "Check environment.image, and environment.imagePullSecret for a private registry.",
    ),
    "an image without a cause": (
        workload(),
        [waiting("ImagePullBackOff", 'Back-off pulling image "reg/ml:v1"')],
        [],
        "image reg/ml:v1 of pod x-1 cannot be pulled. Check environment.image, and environment.imagePullSecret for "
        "a private registry.",
    ),
    "an image with a name that cannot be": (
        workload(),
        [waiting("InvalidImageName", "couldn't parse image name")],
        [],
        "image reg/ml:v1 of pod x-1 cannot be pulled: couldn't parse image name. Check environment.image, and "
        "environment.imagePullSecret for a private registry.",
    ),
    # -- containers
    "a secret that is missing": (
        workload(),
        [waiting("CreateContainerConfigError", 'secret "hub" not found')],
        [],
        'the container of pod x-1 cannot start: secret "hub" not found. Keep the value in Secret '
        "gpuctl-tokens with M(gpuctl_workspace namespace=ml tokens=NAME), and refer to that Secret in environment.env.",
    ),
    "a container that cannot be made": (
        workload(),
        [waiting("CreateContainerError", "no command specified")],
        [],
        "the container of pod x-1 cannot start: no command specified. Check environment.command.",
    ),
    "a command that does not exist": (
        workload("Deployment"),
        [
            ended(
                reason="StartError",
                exitCode=128,
                message='failed to create containerd task: runc: exec: "trian": executable file not found in $PATH: '
                "unknown",
            )
        ],
        [],
        'the container of pod x-1 cannot start: exec: "trian": executable file not found in $PATH: unknown. Check '
        "environment.command.",
    ),
    "a container that crashes again and again": (
        workload("Deployment"),
        [ended(reason="Error", exitCode=1)],
        [],
        "the container of pod x-1 keeps failing with exit code 1. Read its logs for the cause.",
    ),
    "a container that crashes again and again, with its restarts": (
        workload("Deployment"),
        [waiting("CrashLoopBackOff", lastState=EXIT_1, restartCount=5)],
        [],
        "the container of pod x-1 keeps failing with exit code 1 (5 restarts). Read its logs for the cause.",
    ),
    "a container that crashes again and again, just after the end": (
        workload("Deployment"),
        [pod(nodeName="n1", status=with_container("Running", state=EXIT_1, restartCount=2))],
        [],
        "the container of pod x-1 keeps failing with exit code 1 (2 restarts). Read its logs for the cause.",
    ),
    "a container that crashes again and again, while it runs": (
        workload("Deployment"),
        [
            pod(
                nodeName="n1",
                status=with_container("Running", state={"running": {}}, lastState=EXIT_1, restartCount=1),
            )
        ],
        [],
        "pod x-1 is running but not ready yet; its container keeps failing with exit code 1 (1 restart). Read its "
        "logs for the cause.",
    ),
    "a service whose command ends": (
        workload("Deployment"),
        [waiting("CrashLoopBackOff", lastState={"terminated": {"reason": "Completed", "exitCode": 0}}, restartCount=2)],
        [],
        "the container of pod x-1 keeps ending without an error (2 restarts). Set environment.command to a program "
        "that keeps running.",
    ),
    "a workdir that is a file": (
        workload("Deployment"),
        [
            ended(
                reason="StartError",
                exitCode=128,
                message="failed to create containerd task: failed to create shim task: OCI runtime create failed: "
                "runc create failed: unable to start container process: error during container init: chdir to cwd "
                '("/data") set in config.json failed: not a directory',
            )
        ],
        [],
        'the container of pod x-1 cannot start: chdir to cwd ("/data") set in config.json failed: not a directory. '
        "Check environment.workdir.",
    ),
    "a Secret for the registry that is missing": (
        workload(),
        [waiting("ImagePullBackOff", 'Back-off pulling image "reg/ml:v1": ErrImagePull: unauthorized')],
        [
            event(
                "FailedToRetrieveImagePullSecret",
                "Unable to retrieve some image pull secrets (hub); attempting to pull the image may not succeed.",
            )
        ],
        "image reg/ml:v1 of pod x-1 cannot be pulled: unauthorized. Secret hub of environment.imagePullSecret not "
        "found. Create gpuctl-registry with M(gpuctl_workspace namespace=ml "
        "registry.config_file=~/.docker/config.json), and set environment.imagePullSecret to gpuctl-registry.",
    ),
    "a container that needs more memory": (
        workload("Deployment"),
        [ended(reason="OOMKilled", exitCode=137)],
        [],
        "the container of pod x-1 keeps running out of memory (OOMKilled). Raise resources.memory.",
    ),
    "an init container that failed": (
        workload(),
        [pod(nodeName="n1", status={"phase": "Pending", "initContainerStatuses": [container(state=EXIT_1)]})],
        [],
        "the container of pod x-1 failed with exit code 1. Read its logs for the cause.",
    ),
    "some other state": (
        workload(),
        [waiting("PostStartHookError", "the hook ended with 2")],
        [],
        "pod x-1 is in PostStartHookError: the hook ended with 2.",
    ),
    # -- ready
    "a container that runs, but is not ready yet": (
        workload("Deployment"),
        [pod(nodeName="n1", status=with_container("Running", state={"running": {}}))],
        [],
        "pod x-1 is running but not ready yet.",
    ),
    "a health check that fails": (
        workload("Deployment"),
        [pod(nodeName="n1", status=with_container("Running", state={"running": {}}))],
        [
            event("Unhealthy", "Startup probe failed: connection refused"),
            event("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 404"),
            event("Unhealthy", "of another pod", name="y-1"),
        ],
        "pod x-1 is running but not ready: Readiness probe failed: HTTP probe failed with statuscode: 404.",
    ),
    "what crashed before and runs well now": (
        workload("Deployment"),
        [
            pod(
                nodeName="n1",
                status=with_container("Running", ready=True, state={"running": {}}, lastState=EXIT_1),
            )
        ],
        [],
        None,
    ),
    # -- what failed
    "a training whose pod failed for good": (
        workload(status={"conditions": LIMIT}),
        [FAILED_POD],
        [],
        FAILED_SENTENCE,
    ),
    "a training that failed, its pods are gone": (
        workload(status={"conditions": LIMIT}),
        [],
        [],
        "the training failed: Job has reached the specified backoff limit.",
    ),
    "a training between two tries": (workload(), [FAILED_POD], [], FAILED_SENTENCE),
    "a rank whose peers have succeeded": (
        workload(parallelism=2, completions=2, completionMode="Indexed"),
        [
            pod("x-1-a", status=with_container("Succeeded", state=SUCCEEDED)),
            newer(pod("x-0-b", status=with_container("Failed", state=EXIT_1))),
        ],
        [],
        "the container of pod x-0-b failed with exit code 1; it was started when 1 of 2 ranks had succeeded, which "
        "answer no more. Read its logs for the cause. Start all ranks again with O(state=restarted).",
    ),
    "a rank that failed before its peers succeeded": (
        workload(parallelism=2, completions=2, completionMode="Indexed"),
        [
            pod("x-1-a", status=with_container("Succeeded", state=SUCCEEDED)),
            pod("x-0-b", status=with_container("Failed", state=EXIT_1)),
        ],
        [],
        FAILED_SENTENCE.replace("x-old", "x-0-b"),
    ),
    "the last of several tries": (
        workload(),
        [FAILED_POD, newer(pod("x-last", status=with_container("Failed", state=EXIT_1)))],
        [],
        FAILED_SENTENCE.replace("x-old", "x-last"),
    ),
    "a try that runs after one that failed": (workload(status={"active": 1, "ready": 1}), [FAILED_POD, RUNS], [], None),
    "a try that starts after one that failed": (workload(), [FAILED_POD, pod("x-new")], [], FAILED_SENTENCE),
    "a try that ended well after one that failed": (
        workload(),
        [FAILED_POD, pod("x-new", status={"phase": "Succeeded"})],
        [],
        None,
    ),
    "a try that ended well just now": (workload(), [FAILED_POD, ENDED_WELL], [], None),
    "an evicted pod": (
        workload(status={"conditions": LIMIT}),
        [pod(status={"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."})],
        [],
        "pod x-1 failed: Evicted: The node was low on resource: memory.",
    ),
    "a pod that failed without a message": (
        workload(status={"conditions": LIMIT}),
        [pod(status={"phase": "Failed"})],
        [],
        "pod x-1 failed: no reason given.",
    ),
    "a service that did not get ready": (
        workload(
            "Deployment",
            status={
                "observedGeneration": 1,
                "conditions": [
                    {
                        "type": "Progressing",
                        "status": "False",
                        "reason": "ProgressDeadlineExceeded",
                        "message": 'ReplicaSet "x-1" has timed out progressing.',
                    }
                ],
            },
        ),
        [],
        [],
        'its pods did not become ready in time: ReplicaSet "x-1" has timed out progressing.',
    ),
    "a failed try does not hide what the next one waits for": (
        workload(),
        [FAILED_POD, pod("x-new", gpu=16, nodeSelector={POOL: "a"}, status=unscheduled())],
        [],
        "pod x-new cannot be scheduled: it needs 16 GPUs on one node, but the largest node of pool a has 8 GPUs. "
        "Lower resources.gpu, or spread the training with resources.node_count. The scheduler says: 2 Insufficient x.",
    ),
    "a training that reached its time limit": (
        late_training(),
        [FAILED_POD],
        [],
        "the training was stopped at its time limit (12h, the default of pool a). To go on from its last checkpoint, "
        "submit it again with O(rerun=on_failure), and with a longer job.time_limit if it needs one. The time that its "
        "pods waited for nodes counts.",
    ),
    "a pod whose end a training waits for": (
        workload(),
        [pod(deleted=True, status=unscheduled("no"))],
        [],
        "pod x-1 is being stopped, and has until 2026-01-01T00:00:01Z to end. Another pod starts in its place after "
        "that.",
    ),
    "a job that is deleted, whose pod has not ended": (
        being_deleted(workload()),
        [pod(deleted=True)],
        [],
        "the job is being deleted: pod x-1 is being stopped, and has until 2026-01-01T00:00:01Z to end. To run it "
        "again, apply its manifest with O(state=present).",
    ),
    "a paused service that is deleted": (
        being_deleted(workload("Deployment", replicas=0)),
        [],
        [],
        "the job is being deleted. To run it again, apply its manifest with O(state=present).",
    ),
    "a pod whose end a service does not wait for": (
        workload("Deployment"),
        [pod(deleted=True, status=unscheduled("no"))],
        [],
        None,
    ),
    "a pod of a former training of the same name": (
        workload(),
        [older(pod(deleted=True, status=unscheduled("no")))],
        [],
        None,
    ),
    # -- scheduling
    "the scheduler's message, if there is no other cause": (
        workload(),
        [
            pod(
                gpu=1,
                nodeSelector={POOL: "a"},
                status=unscheduled("0/1 nodes are available: 1 node(s) had disk pressure. preemption: no"),
            )
        ],
        [],
        "pod x-1 cannot be scheduled. The scheduler says: 0/1 nodes are available: 1 node(s) had disk pressure.",
    ),
    "the scheduler said nothing": (
        workload(),
        [pod(gpu=1, nodeSelector={POOL: "a"}, status=unscheduled(""))],
        [],
        "pod x-1 cannot be scheduled: the scheduler gave no reason.",
    ),
    "a claim that does not exist": (
        workload(),
        [
            pod(
                gpu=16,
                nodeSelector={POOL: "a"},
                status=unscheduled('0/2 nodes are available: persistentvolumeclaim "data" not found. not found'),
            )
        ],
        [],
        "pod x-1 cannot be scheduled: PersistentVolumeClaim data not found. Create it with "
        "M(gpuctl_workspace namespace=ml claim.name=data claim.size=100Gi), ask an administrator for it, or correct "
        "storage.workdirs.",
    ),
    "a claim that is not bound": (
        workload(),
        [
            pod(
                gpu=16,
                nodeSelector={POOL: "a"},
                status=unscheduled(
                    "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"
                ),
            )
        ],
        [],
        "pod x-1 cannot be scheduled. The scheduler says: 0/2 nodes are available: pod has unbound immediate "
        "PersistentVolumeClaims. not found.",
    ),
    "a pod with scheduling gates": (
        workload(),
        [
            pod(
                gpu=16,
                schedulingGates=[{"name": "kueue.x-k8s.io/admission"}],
                status=unscheduled("Scheduling is blocked"),
            )
        ],
        [],
        "pod x-1 is waiting for its scheduling gates to be removed: kueue.x-k8s.io/admission.",
    ),
    "a scheduler that is not installed": (
        workload(),
        [pod(schedulerName="volcano")],
        [],
        "pod x-1 is waiting for the scheduler volcano, which has not processed it yet. Check that the scheduler is "
        "installed.",
    ),
    "a pod that the scheduler has not looked at yet": (workload(), [pod(schedulerName="default-scheduler")], [], None),
    # -- volumes
    "a volume that cannot be mounted": (
        workload(),
        [waiting("ContainerCreating")],
        [
            event(
                "FailedMount",
                'MountVolume.SetUp failed for volume "workdir-0" : hostPath type check failed: /a is not a file',
            )
        ],
        'pod x-1 is waiting for a volume: MountVolume.SetUp failed for volume "workdir-0" : hostPath type check '
        "failed: /a is not a file. Put it on node n1, or correct path or type in storage.workdirs.",
    ),
    "the latest of two problems with volumes": (
        workload(),
        [waiting("ContainerCreating")],
        [event("FailedMount", "first"), event("FailedAttachVolume", "last")],
        "pod x-1 is waiting for a volume: last. Check storage.workdirs.",
    ),
    "a volume that admission added": (
        workload(),
        [
            pod(
                nodeName="n1",
                volumes=[{"name": "kube-api-access-x"}],
                status=with_container(state={"waiting": {"reason": "ContainerCreating"}}),
            )
        ],
        [event("FailedMount", 'MountVolume.SetUp failed for volume "kube-api-access-x" : failed to fetch token')],
        'pod x-1 is waiting for a volume: MountVolume.SetUp failed for volume "kube-api-access-x" : failed to fetch '
        "token.",
    ),
    "volumes that are mounted while the image is pulled": (
        workload(),
        [
            pod(
                nodeName="n1",
                status={
                    **with_container(state={"waiting": {"reason": "ContainerCreating"}}),
                    "conditions": [{"type": "PodReadyToStartContainers", "status": "True"}],
                },
            )
        ],
        [event("FailedMount", "no"), event("FailedCreatePodSandBox", "no")],
        None,
    ),
    "a network that cannot be set up": (
        workload(),
        [waiting("ContainerCreating")],
        [
            event("FailedMount", "earlier"),
            event(
                "FailedCreatePodSandBox",
                "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "
                '"1": plugin type="calico" failed (add): connection refused',
            ),
        ],
        'pod x-1 cannot start on node n1: failed to setup network for sandbox "1": plugin type="calico" failed (add): '
        "connection refused. If this lasts, take the node out of use (kubectl cordon n1) and restart the job with "
        "O(state=restarted).",
    ),
    "a volume of another pod": (
        workload(),
        [waiting("ContainerCreating")],
        [event("FailedMount", "no", name="y-1")],
        None,
    ),
    "a volume that is mounted by now": (
        workload(),
        [pod(nodeName="n1", status=with_container("Running", ready=True, state={"running": {}}))],
        [event("FailedMount", "no")],
        None,
    ),
    # -- pods that were not created
    "a quota, by an event of the Job": (
        workload(),
        [],
        [event("FailedCreate", f"Error creating: {QUOTA}", "Job", "x")],
        QUOTA_SENTENCE,
    ),
    "a quota, by an event of the ReplicaSet": (
        workload("Deployment"),
        [],
        [event("FailedCreate", f"Error creating: {QUOTA}", "ReplicaSet", "x-6d4b")],
        QUOTA_SENTENCE,
    ),
    "a quota, by a condition of the Deployment": (
        workload("Deployment", status={"conditions": [{"type": "ReplicaFailure", "status": "True", "message": QUOTA}]}),
        [],
        [],
        QUOTA_SENTENCE,
    ),
    "a quota of requests and limits, of which those that are alike are told once": (
        workload(),
        [],
        [event("FailedCreate", QUOTA_OF_BOTH, "Job", "x")],
        "quota team-ml of the namespace is exhausted (cpu: 8 requested, 30 of 32 used; memory: 8Gi requested, "
        "3Gi of 9Gi used; limits.memory: 8Gi requested, 4Gi of 9Gi used). Delete a job, request less, or have the "
        "quota raised.",
    ),
    "a quota of requests and limits that is too small for all pods": (
        workload(parallelism=5, completions=5),
        [],
        [event("FailedCreate", QUOTA_OF_BOTH, "Job", "x")],
        "quota team-ml of the namespace is too small for the job (cpu: 8 requested by each of 5 pods, at most 32 "
        "allowed; memory: 8Gi requested by each of 5 pods, at most 9Gi allowed). Request less, or have the quota "
        "raised.",
    ),
    "a quota that is too small for one pod": (
        workload(),
        [],
        [event("FailedCreate", REFUSED_12, "Job", "x")],
        "quota team-ml of the namespace is too small for the job (nvidia.com/gpu: 12 requested, at most 4 allowed). "
        "Request less, or have the quota raised.",
    ),
    "a used-up budget": (
        workload(),
        [],
        [event("FailedCreate", USED_UP, "Job", "x")],
        "the GPU-hours of the namespace are used up until 2026-12-01 00:00 UTC. Submit it again then, or have the "
        "budget raised.",
    ),
    "a used-up budget, but for some jobs": (
        workload(),
        [],
        [event("FailedCreate", USED_UP.replace("2026-12-01", "2026-12-01-low"), "Job", "x")],
        "the GPU-hours of the namespace are used up until 2026-12-01 00:00 UTC, except for jobs with priority low or "
        "opportunistic. Submit it with priority low, or have the budget raised.",
    ),
    "the used-up budget of an accelerator": (
        workload(),
        [],
        [event("FailedCreate", USED_UP.replace("2026-12-01", "2026-12-01-of-amd"), "Job", "x")],
        "the GPU-hours of the namespace for amd are used up until 2026-12-01 00:00 UTC. Submit it again then, use "
        "another accelerator, or have the budget raised.",
    ),
    "the used-up budget of an accelerator, but for some jobs": (
        workload(),
        [],
        [event("FailedCreate", USED_UP.replace("2026-12-01", "2026-12-01-low-of-amd"), "Job", "x")],
        "the GPU-hours of the namespace for amd are used up until 2026-12-01 00:00 UTC, except for jobs with priority "
        "low or opportunistic. Submit it with priority low, use another accelerator, or have the budget raised.",
    ),
    "a quota that is too small for all pods": (
        workload(parallelism=3, completions=3),
        [],
        [event("FailedCreate", f"Error creating: {QUOTA}", "Job", "x")],
        "quota team-ml of the namespace is too small for the job (nvidia.com/gpu: 4 requested by each of 3 pods, at "
        "most 8 allowed). Request less, or have the quota raised.",
    ),
    "the quota of a namesake's ReplicaSet": (
        workload("Deployment"),
        [],
        [event("FailedCreate", QUOTA, "ReplicaSet", "x-y-6d4b")],
        None,
    ),
    "another refusal": (
        workload(),
        [],
        [
            event(
                "FailedCreate",
                'Error creating: pods "x-9" is forbidden: violates PodSecurity "baseline": hostPath',
                "Job",
                "x",
            )
        ],
        'pods cannot be created: Error creating: pods "x-9" is forbidden: violates PodSecurity "baseline": hostPath.',
    ),
    "the latest refusal": (
        workload(),
        [],
        [event("FailedCreate", "first", "Job", "x"), event("FailedCreate", "last", "Job", "x")],
        "pods cannot be created: last.",
    ),
    "a container that does not run comes before an unscheduled pod": (
        workload("Deployment"),
        [pod("x-2", gpu=16, nodeSelector={POOL: "a"}, status=unscheduled()), ended(reason="Error", exitCode=3)],
        [],
        "the container of pod x-1 keeps failing with exit code 3. Read its logs for the cause.",
    ),
}


@pytest.mark.parametrize(("obj", "pods", "events", "sentence"), CASES.values(), ids=CASES)
def test_the_most_important_reason(
    obj: dict[str, Any], pods: list[dict[str, Any]], events: list[dict[str, Any]], sentence: str | None
) -> None:
    nodes = accounted([node("n1", labels={POOL: "a"}), node("n2", labels={POOL: "a"})])
    assert reason_for(obj, pods, events, ClusterView(Shortages(nodes), nodes)) == sentence


BACK_OFF = 'Back-off pulling image "reg/ml:v1": ErrImagePull: '
NO_MATCH = "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/2 nodes are."
ONE_MATCHES = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
TOO_LATE = {
    "observedGeneration": 1,
    "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
}
REFUSED = 'Error creating: pods "x-9" is forbidden: '

# the workload, its pods, events; is any reason final, without nodes
FINAL: dict[str, tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]], bool]] = {
    "an image was not found": (workload(), [waiting("ImagePullBackOff", f"{BACK_OFF}reg/ml:v1: not found")], [], True),
    "the first try of a pull": (workload(), [waiting("ErrImagePull", "reg/ml:v1: not found")], [], False),
    "a registry that did not answer": (
        workload(),
        [waiting("ImagePullBackOff", f"{BACK_OFF}dial tcp 10.0.0.1:443: i/o timeout")],
        [],
        False,
    ),
    "a registry with a limit": (
        workload(),
        [waiting("ImagePullBackOff", f"{BACK_OFF}toomanyrequests: You have reached your pull rate limit")],
        [],
        False,
    ),
    "a registry that did not answer, by an event": (
        workload(),
        [waiting("ImagePullBackOff", 'Back-off pulling image "reg/ml:v1"')],
        [event("Failed", 'Failed to pull image "reg/ml:v1": dial tcp 10.0.0.1:443: i/o timeout')],
        False,
    ),
    "an image name that cannot be": (workload(), [waiting("InvalidImageName", "couldn't parse")], [], True),
    "a secret that may still be made": (workload(), [waiting("CreateContainerConfigError", "no secret")], [], False),
    "a quota that is too small": (workload(), [], [event("FailedCreate", REFUSED_12, "Job", "x")], True),
    "a restart of a container that is not ready": (
        workload("Deployment"),
        [
            pod(
                nodeName="n1",
                status=with_container("Running", state={"running": {}}, lastState=EXIT_1, restartCount=9),
            )
        ],
        [],
        False,
    ),
    "a crash loop": (workload("Deployment"), [ended(reason="Error", exitCode=1)], [], True),
    "a first crash": (
        workload("Deployment"),
        [pod(nodeName="n1", status=with_container("Running", state=EXIT_1))],
        [],
        False,
    ),
    "a training that failed": (workload(status={"conditions": LIMIT}), [FAILED_POD], [], True),
    "a training that is about to fail": (
        workload(status={"conditions": [{**LIMIT[0], "type": "FailureTarget"}]}),
        [FAILED_POD],
        [],
        True,
    ),
    "a training between two tries": (workload(), [FAILED_POD], [], False),
    "labels that no node has": (workload(), [pod(status=unscheduled(NO_MATCH))], [], True),
    "labels that a busy node has": (workload(), [pod(status=unscheduled(ONE_MATCHES))], [], False),
    "too few free GPUs": (workload(), [pod(gpu=1, status=unscheduled(SCHEDULER))], [], False),
    "a pod with scheduling gates": (
        workload(),
        [pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}], status=unscheduled(NO_MATCH))],
        [],
        False,
    ),
    "a quota": (workload(), [], [event("FailedCreate", f"{REFUSED}{QUOTA}", "Job", "x")], True),
    "a quota that has let the pod in since": (
        workload(),
        [waiting("ContainerCreating")],
        [event("FailedCreate", f"{REFUSED}{QUOTA}", "Job", "x")],
        False,
    ),
    "a policy": (workload(), [], [event("FailedCreate", f"{REFUSED}violates PodSecurity", "Job", "x")], True),
    "a namespace that is not furnished yet": (
        workload(),
        [],
        [event("FailedCreate", f"{REFUSED}error looking up service account ml/default", "Job", "x")],
        False,
    ),
    "a webhook that does not answer": (
        workload(),
        [],
        [event("FailedCreate", "Error creating: Internal error occurred: failed calling webhook", "Job", "x")],
        False,
    ),
    "a service whose deadline has passed": (workload("Deployment", status=TOO_LATE), [], [], True),
    "a service whose deadline has passed while all GPUs were taken": (
        workload("Deployment", status=TOO_LATE),
        [pod(gpu=1, status=unscheduled(SCHEDULER))],
        [],
        False,
    ),
}


@pytest.mark.parametrize(("obj", "pods", "events", "final"), FINAL.values(), ids=FINAL)
def test_which_reasons_are_final(
    obj: dict[str, Any], pods: list[dict[str, Any]], events: list[dict[str, Any]], final: bool
) -> None:
    assert any(blocker.final for blocker in pending_reasons(obj, pods, events)) == final


CLAIM = unscheduled('0/2 nodes are available: persistentvolumeclaim "data" not found. not found')
UNBOUND = unscheduled("0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")
PATH = 'MountVolume.SetUp failed for volume "workdir-0" : hostPath type check failed: /a is not a directory'

# the pods, events; is the first reason for a person to mend
NEEDS_USER: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], bool]] = {
    "a Secret": ([waiting("CreateContainerConfigError", 'secret "hub" not found')], [], True),
    "a key of a Secret": ([waiting("CreateContainerConfigError", "couldn't find key a in Secret ml/hub")], [], True),
    "a claim": ([pod(status=CLAIM)], [], True),
    "a claim that is not bound yet": ([pod(status=UNBOUND)], [], False),
    "a directory of the node": ([waiting("ContainerCreating")], [event("FailedMount", PATH)], True),
    "a volume that is slow": ([waiting("ContainerCreating")], [event("FailedMount", "timed out")], False),
    "GPUs that are not shared on any node": ([pod(share=4, status=unscheduled())], [], True),
    "GPUs in use": ([pod(gpu=8, status=unscheduled())], [], False),
    "a crash": ([ended(reason="Error", exitCode=1)], [], False),
}


@pytest.mark.parametrize(("pods", "events", "needs_user"), NEEDS_USER.values(), ids=NEEDS_USER)
def test_what_only_a_person_can_mend(
    pods: list[dict[str, Any]], events: list[dict[str, Any]], needs_user: bool
) -> None:
    nodes = accounted([node(labels={"nvidia.com/gpu.product": "A100"})], [pod("y", gpu=8, nodeName="n1")])
    first = next(pending_reasons(workload(), pods, events, ClusterView(Shortages(nodes), nodes)))
    assert first.needs_user is needs_user
    assert not (first.needs_user and first.final)


def lost(name: str, **spec: Any) -> dict[str, Any]:
    """A pod whose node is lost: what its kubelet reported of its containers stays."""
    status = with_container("Running", ready=True, state={"running": {}})
    return pod(name, status={**status, "conditions": [{"type": "Ready", "status": "False"}]}, **spec)


SINCE = "since 2026-01-01T00:04:00Z (Kubelet stopped posting node status)"
FORCE = "use O(state=restarted) with O(force=true), which no longer waits for the node"
NO_OTHER = f"Kubernetes starts no other pod until the node is back or deleted. Repair the node, or {FORCE}."
OTHER = f"Kubernetes starts another pod 300 s after the loss of the node. To have one at once, {FORCE}."
# the workload, its pods, the reason
LOSSES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str | None]] = {
    "a training": (
        workload(),
        [lost("x-1", nodeName="n1")],
        f"pod x-1 is on node n1, which has not been ready {SINCE}. {NO_OTHER}",
    ),
    "a training whose pod is evicted": (
        workload(),
        [lost("x-1", nodeName="n1", deleted=True)],
        f"pod x-1 is on node n1, which has not been ready {SINCE}. {NO_OTHER}",
    ),
    "a training on several nodes": (
        workload(parallelism=3, completions=3),
        [lost("x-1", nodeName="n1"), lost("x-2", nodeName="n2"), lost("x-3", nodeName="n3")],
        f"pods x-1 and x-2 are on nodes n1, which has not been ready {SINCE} and n2, which has not been ready {SINCE}. "
        f"{NO_OTHER}",
    ),
    "a service": (
        workload("Deployment"),
        [lost("x-1", nodeName="n1"), lost("x-2", nodeName="n1")],
        f"pods x-1 and x-2 are on node n1, which has not been ready {SINCE}. {OTHER}",
    ),
    "a service whose new pod finds no node": (
        workload("Deployment"),
        [lost("x-1", nodeName="n1", deleted=True), pod("x-2", status=unscheduled("0/3 nodes are available: no"))],
        "pod x-2 cannot be scheduled. The scheduler says: 0/3 nodes are available: no.",
    ),
    "a training that is deleted": (
        being_deleted(workload()),
        [lost("x-1", nodeName="n1", deleted=True)],
        f"the job is being deleted, but pod x-1 is on node n1, which has not been ready {SINCE}. Use O(state=absent) "
        f"with O(force=true), which no longer waits for the node.",
    ),
    "a node that is well": (workload(), [lost("x-1", nodeName="n3")], None),
    "a training that has failed": (
        workload(status={"conditions": LIMIT}),
        [lost("x-1", nodeName="n1"), FAILED_POD],
        FAILED_SENTENCE,
    ),
}


@pytest.mark.parametrize(("obj", "pods", "sentence"), LOSSES.values(), ids=LOSSES)
def test_pods_on_lost_nodes(obj: dict[str, Any], pods: list[dict[str, Any]], sentence: str | None) -> None:
    nodes = accounted([node("n1", ready="Unknown"), node("n2", ready="Unknown"), node("n3")])
    assert reason_for(obj, pods, [], ClusterView(None, nodes)) == sentence


@pytest.mark.parametrize(
    "amounts",
    [
        "requested: cpu, used: cpu=1, limited: cpu=2",
        "requested: cpu=many, used: cpu=1, limited: cpu=2",
        "requested: cpu=2, used: , limited: cpu=2",
    ],
)
def test_an_event_that_only_looks_like_the_refusal_of_a_quota(amounts: str) -> None:
    """Whoever may create events writes what they want."""
    assert quota_refusal(f"exceeded quota: q, {amounts}") is None


def test_a_quota_that_limits_something_else_now_refuses_nothing() -> None:
    refusal = quota_refusal("exceeded quota: q, requested: cpu=2, used: cpu=1, limited: memory=2Gi")
    assert refusal is not None
    assert not refusal.still_holds({"spec": {"hard": {"cpu": "1"}}})


def test_a_quota_is_not_to_blame_for_a_pod_that_is_still_being_stopped() -> None:
    refusal = event("FailedCreate", f"Error creating: {QUOTA}", "Job", "x")
    found = reason_for(workload(), [pod(deleted=True)], [refusal])
    assert found is not None
    assert "is being stopped" in found


def test_a_preempted_job_says_so() -> None:
    around = ClusterView(preemption="the job was preempted by job big of namespace ml on node n1")
    found = reason_for(workload(), [pod(status=unscheduled("0/1 nodes are available: 1 Insufficient x."))], [], around)
    assert found == (
        "the job was preempted by job big of namespace ml on node n1; pod x-1 cannot be scheduled. The scheduler says: "
        "0/1 nodes are available: 1 Insufficient x."
    )
    assert reason_for(workload(), [], [], around) == "the job was preempted by job big of namespace ml on node n1."


def test_a_missed_deadline_does_not_hide_that_pods_wait_for_gpus() -> None:
    waiting = pod(gpu=1, status=unscheduled(SCHEDULER))
    found = reason_for(workload("Deployment", status=TOO_LATE), [waiting], [])
    assert (
        found
        == "pod x-1 cannot be scheduled. The scheduler says: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    )


def test_a_final_reason_names_the_container_whose_log_explains_it() -> None:
    (crash,) = pending_reasons(workload("Deployment"), [ended(reason="Error", exitCode=1)], [])
    assert crash.log == ("x-1", "main")
    (failed, general, _again) = pending_reasons(workload(status={"conditions": LIMIT}), [FAILED_POD], [])
    assert (failed.log, general.log) == (("x-old", "main"), None)


def test_a_container_that_never_started_has_no_log() -> None:
    (reason,) = pending_reasons(workload("Deployment"), [ended(reason="StartError", exitCode=128)], [])
    assert reason.final
    assert reason.log is None


def resource_quota(hard: str, used: str) -> dict[str, Any]:
    key = "requests.nvidia.com/gpu"
    return {"spec": {"hard": {key: hard, "pods": "0"}}, "status": {"used": {key: used}}}


@pytest.mark.parametrize(
    ("quota", "holds"),
    [
        (resource_quota("8", "6"), True),
        (resource_quota("10", "6"), False),
        (resource_quota("9", "6"), False),
        (resource_quota("8", "4"), False),
        ({"spec": {"hard": {}}}, False),
        (None, False),
    ],
)
def test_a_quota_refuses_until_it_is_large_enough(quota: dict[str, Any] | None, holds: bool) -> None:
    refusal = quota_refusal(QUOTA)
    assert refusal is not None
    assert refusal.quota == "team-ml"
    assert refusal.still_holds(quota) == holds


def test_without_nodes_the_scheduler_is_quoted() -> None:
    found = reason_for(workload(), [pod(gpu=9, nodeSelector={POOL: "a"}, status=unscheduled(SCHEDULER))], [])
    assert (
        found
        == "pod x-1 cannot be scheduled. The scheduler says: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    )


def test_long_messages_are_cut() -> None:
    found = reason_for(workload(), [waiting("CreateContainerError", "exec: " + "long " * 200)], [])
    assert found is not None
    assert len(found) < 350
    assert "…. Check environment.command." in found


def test_messages_of_nodes_are_quoted_without_the_secrets_of_the_job() -> None:
    """Our own words stay, whatever the secret is."""
    message = 'failed to create containerd task: exec: "--key=container": not found'
    broken = waiting("CreateContainerError", message)
    job = workload()
    job["spec"]["template"]["spec"]["containers"] = [{"name": "main", "args": ["--key=container"]}]
    reason = reason_for(job, [broken], ())
    assert reason is not None
    assert reason.startswith('the container of pod x-1 cannot start: exec: "--key=********": not found')


IN_VOLCANO = PendingReason("the job is waiting in queue q for Volcano to schedule all of its pods")


def test_what_a_job_waits_for_in_a_queue_of_volcano_comes_before_the_words_of_its_scheduler():
    pods = [pod(schedulerName="volcano")]
    found = [reason.text for reason in pending_reasons(workload(), pods, [], ClusterView(queued=IN_VOLCANO))]
    assert found[0] == IN_VOLCANO.text
    assert "is waiting for the scheduler volcano" in found[1]


def test_but_not_before_what_no_queue_can_mend():
    waits = pod(schedulerName="volcano", status=unscheduled(NO_MATCH), nodeSelector={POOL: "none"})
    around = ClusterView(Shortages([slim_node(node())]), queued=IN_VOLCANO)
    first, *others = pending_reasons(workload(), [waits], [], around)
    assert first.final
    assert IN_VOLCANO in others
