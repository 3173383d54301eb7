#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_job
short_description: Run training, inference, notebook and compute jobs on Kubernetes
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Creates and manages Kubernetes workloads from job manifests. A manifest is a small YAML file that describes the image, the
    command and the resources of a job.
  - A C(training) manifest becomes a Job, a C(notebook) manifest a StatefulSet, and an C(inference) or C(compute) manifest a
    Deployment. All but trainings on a single node get a Service. An C(inference) manifest with C(autoscaling) also gets a
    HorizontalPodAutoscaler.
  - A task can contain any number of jobs. The module validates all manifests before it sends a request, and reports all errors
    together.
  - The module compares each manifest with the live objects and writes only the differences. Manifests are written with
    server-side apply. Pausing, resuming, scaling and rolling restarts patch single fields instead.
  - The module changes only objects that this collection created, and C(spec.active) of Kueue Workloads, and deletes Volcano
    PodGroups of paused trainings. It fails if an unmanaged object has the name of a job.
  - Jobs need the PriorityClasses C(gpuctl-high), C(gpuctl-medium), C(gpuctl-low) and C(gpuctl-opportunistic). The module creates
    those that are missing if the account may, as cluster administrators and the level C(administer) of M(runwhere.gpuctl.gpuctl_rbac) do. Otherwise
    the task fails before it writes anything. If the value of one is wrong, a changed job is a reason for a warning. Only
    M(runwhere.gpuctl.gpuctl_rbac) corrects it.
  - In a namespace that enforces the Pod Security level C(restricted), jobs are built as this level requires. The module fails
    before it writes anything if a manifest asks for something that the level of the namespace forbids. A job that is already
    running is left as it is.
  - Before it writes, the module looks once at the nodes, the quotas and the objects that the jobs refer to, and warns of what
    cannot work. See O(strict).
  - In check mode, the results also say whether the jobs that would start pods would run, see RV(results[].fit).
  - If another run or person changes the same job at the same time, the module plans it again with what it finds then. After
    five attempts, the task fails and names the field manager of the other change.
attributes:
  idempotent:
    support: partial
    details:
      - O(state=restarted) restarts the jobs in every run, and O(rerun=always) runs finished trainings again.
options:
  state:
    description:
      - V(present) creates or updates the jobs. Paused jobs stay paused. With O(name) and O(replicas), it scales a job. With
        O(name) and O(wait) alone, it changes nothing, and waits for a job that exists.
      - V(absent) deletes the jobs and all objects created for them. Files on nodes and PersistentVolumeClaims are kept.
      - V(paused) removes the pods and frees their GPUs. A training is suspended. When it is resumed, it starts from its own
        checkpoints. Other jobs are scaled to zero, and an annotation stores their number of replicas. An autoscaler is kept,
        but does nothing while the job is paused. Finished jobs are left unchanged, with a warning.
      - V(resumed) starts paused jobs again. A job that was scaled to zero in another way counts as paused. It gets one replica,
        or the minimum of its autoscaler.
      - V(restarted) replaces the pods. Services and notebooks perform a rolling restart, as with C(kubectl rollout restart). A
        training is deleted and created again from the last applied manifest, even if it has finished. Paused jobs cannot be
        restarted.
      - V(rolled_back) applies the last manifest with which a service or notebook was ready before the current one, as V(present)
        would. It comes from the history of the namespace, where an update records the manifest that it replaces, if all pods were
        ready. Nothing changes if the job has this manifest already. The task fails before it writes anything if no such manifest is
        recorded, or if it has secret values, which the history never has. A training is not updated in place, so neither it nor a
        sweep can go back.
      - If a task that restarts a training is interrupted, the next task with V(restarted) or V(present) finishes it. During a
        restart, a ControllerRevision with the label C(runwhere.ai/restart-of) keeps what the training was. Without permission
        to write it, the module prints a warning, and only V(present) with the manifest can create the training again.
      - A training is created after the pods of a deleted training with the same name have ended, because both may write the
        same files.
      - For V(absent), V(paused), V(resumed), V(restarted) and V(rolled_back), a job is identified by O(name) or by its manifest.
        The rest of the manifest is ignored.
      - For V(paused), V(resumed), V(restarted) and V(rolled_back), a missing job is an error. No job is changed, unless
        O(continue_on_error) is set, which does not apply to V(rolled_back).
      - A training with C(queue.backend) V(kueue) is paused and resumed with C(spec.active) of its Kueue Workload. If such a
        training is recreated, it enters the queue again and is no longer paused.
      - If a training with C(queue.backend) V(volcano) is paused, its PodGroup is deleted. Volcano makes another one when it is
        resumed.
    type: str
    choices: [present, absent, paused, resumed, restarted, rolled_back]
    default: present
  name:
    description:
      - Name of a job, as an alternative to a manifest. With O(state=present), O(replicas) or O(wait) is required.
      - The name of one of its pods stands for the whole job, with a warning. That of a sweep stands for all of its jobs, see O(confirm).
      - If O(state=absent) and there is no such job, nothing changes, unless O(missing_ok=false). RV(results[].reason) and C(msg) say so,
        with the nearest name.
      - Exactly one of O(src), O(definition) and O(name) is required.
    type: str
  kind:
    description: Kind of the job that O(name) specifies. The task fails if the job has another kind.
    type: str
    choices: [training, inference, notebook, compute]
  cluster_names:
    description:
      - What manifests may call the cluster of the task in C(placement), the name of its host in the inventory first, then its groups. With
        V(present) for O(state), a manifest that is for other clusters is refused.
      - With O(allow_empty=true), which directories are provisioned with, such a manifest is left out instead, and also one that may run in
        more clusters than this one, because the playbook C(submit) chooses one of them.
      - Without it, such a manifest is a warning. With an empty list, C(placement) is not compared.
      - The playbook C(submit) sets it, or chooses among several clusters by C(placement).
    type: list
    elements: str
    version_added: 1.2.0
  only:
    description:
      - Of the jobs of the manifests, only these, each as C(namespace/name). By default all of them.
      - The playbook C(submit) sets it where the jobs of its manifests go to several clusters.
    type: list
    elements: str
    version_added: 1.2.0
  namespace:
    description:
      - Namespace of the job O(name), and of jobs whose manifest does not specify one.
      - The default is that of the environment variable E(GPUCTL_NAMESPACE), else that of the kubeconfig's context, as with C(kubectl),
        else V(default). Inside a pod, a task that connects as the service account of the pod uses the namespace of the pod.
      - Before version 1.2.0, the default was V(default).
      - The namespace must exist. It cannot be C(gpuctl-system) or C(kube-*), except to delete a job with V(absent) for O(state).
    type: str
  confirm:
    description:
      - Name of a sweep, if O(name) is that and not the name of a job. Then the task is for all of its jobs, and O(state=absent),
        O(state=paused) and O(state=restarted) fail without this confirmation. It is not required in check mode.
    type: str
    version_added: 1.2.0
  missing_ok:
    description:
      - With O(state=absent), whether the task succeeds if none of its jobs exists. V(false) is for people, who may have misspelled a
        name or be in the wrong namespace.
    type: bool
    default: true
    version_added: 1.2.0
  rerun:
    description:
      - Whether to run a finished training again with O(state=present). Running trainings are not affected.
      - V(never) does not run it again, even if the manifest has changed.
      - V(on_change) runs it again if the manifest has changed. The description, the priority, the sweep, the marks of secrets and the
        spelling of keys and of quantities (V(1Gi), V(1024Mi)) are not compared. The values of environment variables are. For a
        secret that changes regularly, use C(valueFrom).
      - V(on_failure) also runs it again if it failed.
      - V(always) runs it again in every task.
      - Kubernetes removes a finished training after a day. The ConfigMap C(gpuctl-ledger) in each namespace therefore records the
        manifest digest and the result of the last 2000 trainings. It is written when a training is submitted and when a task
        first finds it finished. O(state=absent) removes the entry. If the training was removed before a task found it
        finished, it counts as finished with an unknown result.
      - Before a training is replaced, the ConfigMap records that as well, so that the next task creates it if this one is
        interrupted. If the API server does not answer, nothing is deleted.
      - Without permission to write this ConfigMap, the module prints a warning and runs the training.
      - Every account that can write this ConfigMap can write entries. A live Job always counts more than its entry. Once the Job is
        gone, nothing proves the entry, and RV(results[].reason) says which field manager wrote it. If that is not this
        collection, the training is not run, its status is V(none), and the module prints a warning.
    type: str
    choices: [never, on_change, on_failure, always]
    default: on_change
  policy:
    description:
      - File with a manifest of kind C(policy), which says what the authors of manifests may do. The file is on the host that runs
        the module.
      - Without this option, the environment variable E(GPUCTL_POLICY) names the file. The roles, playbooks and AWX templates of
        this collection set neither, so that the administrator decides where the policy is from, and not the user who starts a job.
      - Without a policy, manifests may mount all paths of their nodes except system paths, such as V(/etc) and V(/var/lib).
      - It only applies to O(state=present) with a manifest.
    type: path
    version_added: 1.1.0
  replicas:
    description:
      - Number of replicas of inference and compute services. Requires O(state=present).
      - With O(name), changes only this number. The next run with the manifest restores the number in the manifest.
      - With O(src) or O(definition), overrides C(service.replicas) of all manifests.
      - A paused service stays paused and gets this number when it is resumed. V(0) also stops a service, but the next run with
        its manifest starts it again.
      - It is an error to set this for trainings, notebooks, and services with C(autoscaling).
    type: int
  upgrade:
    description:
      - Whether to also apply, with O(state=present), what this version of the collection builds otherwise than the version that
        submitted the job.
      - If V(false), such a job stays as it is, running or paused, until a change of its manifest replaces its pods. An upgrade of
        the collection alone restarts nothing and shows no difference. A restart with O(state=restarted) keeps the pods as they
        were built, too.
      - If V(true), the pods of services and notebooks are replaced, and running trainings start again. A finished training does
        not run again, see O(rerun). In check mode, the results show which jobs would change.
    type: bool
    default: false
    version_added: 1.1.0
  on_immutable:
    description:
      - What to do if a change is not possible in place, for example another image for a training.
      - V(recreate) validates the new object by dry run, deletes the old one, waits until it is deleted and creates the new one.
        If that fails, the module restores the old object. A running training is interrupted only if its manifest changed, not if
        a new version of this collection builds it differently, unless O(upgrade) is set. See also O(recreate).
      - V(fail) changes nothing and reports the fields.
      - This option does not affect finished trainings, see O(rerun).
    type: str
    choices: [recreate, fail]
    default: recreate
  recreate:
    description:
      - Whether to recreate a job that has run, if that is what the task needs to do. Recreating it stops it.
      - If V(true), a warning says what stops before anything is deleted, and so do RV(results[].stops) and the diff, also in
        check mode.
      - If V(false), the task fails before it writes anything, also in check mode, and names all such jobs with how long they
        have run and on how many GPUs. With O(continue_on_error), only these jobs fail.
      - A job has run if a container of its pods has ever started. Jobs that are still waiting, and trainings that have ended,
        are recreated in either case. What has no pods, such as a paused job, has nothing to stop.
      - This also applies to O(upgrade). It does not apply to O(state=restarted) and O(state=absent).
      - The playbooks C(submit) and C(provision) set V(false), unless C(gpuctl_recreate) is V(true).
    type: bool
    default: true
    version_added: 1.1.0
  strict:
    description:
      - Whether probable mistakes are errors instead of warnings. The task then reports all of them before it writes anything,
        also in check mode. With O(continue_on_error), only the jobs with mistakes fail.
      - These are, first, values in the manifests that have no effect or are probably a slip. Examples are V(64) for memory, which
        is 64 bytes, a token in plain text in C(environment.env), a command that listens on another port than C(service.port),
        and full-width punctuation.
      - Second, what one look at the cluster shows. Examples are a pool without nodes, a GPU type that the pool does not have, no
        node that is large enough, a quota that is smaller than the job, and a missing PersistentVolumeClaim, Secret, ConfigMap or
        service account. RV(results[].reason) would say the same of the job later.
      - Only jobs that are created or whose pods are replaced are checked. What the account may not read is not checked, and
        nothing is said about it. Nodes are not checked with O(wait_for_nodes). In check mode, pools and quotas are not checked if
        they are among the manifests of the task, as they may be about to change.
      - Advice about what is built from a manifest, and warnings of Kubernetes, stay warnings.
    type: bool
    default: false
    version_added: 1.1.0
  refuse_mistakes:
    description:
      - Whether three mistakes that are never intended are errors instead of warnings. The task then reports all of them before it
        writes anything, also in check mode. With O(continue_on_error), only the jobs with such mistakes fail.
      - These are an amount of memory, shared memory or GPU memory below 1Mi, such as V(128), which is 128 bytes, a pool
        that is not declared and has no nodes, and a GPU type that no node of the pool has.
      - Everything else that O(strict) names stays a warning, unless that is set, too. What O(strict) does not check is not
        checked here either, such as nodes with O(wait_for_nodes).
      - The playbooks C(submit) and C(submit_training) set V(true), unless C(gpuctl_strict) is V(false). The role
        P(runwhere.gpuctl.jobs#role) and the playbook C(provision) do not, because they have written pools and quotas before they
        come to the jobs, and the nodes of a directory may come later. The playbook C(plan) shows the mistakes before.
    type: bool
    default: false
    version_added: 1.2.0
  predict:
    description:
      - Whether to look, without check mode too, whether the jobs will run and which jobs they preempt. RV(results[].fit) is from before the
        first write. Check mode always looks.
      - This costs about ten requests, for all jobs together. A prediction that fails is a warning.
    type: bool
    default: false
    version_added: 1.2.0
  preempt:
    description:
      - Whether to submit jobs that preempt others although not all of their pods find room, so that they do not run. If V(false),
        the task fails before it writes anything, also in check mode, and names both. With O(continue_on_error), only these fail.
      - The playbook C(submit) sets V(false), unless C(gpuctl_preempt) is V(true). It needs the requests of O(predict).
    type: bool
    default: true
    version_added: 1.2.0
  force:
    description:
      - Whether to delete pods immediately, without a grace period. Applies to O(state=absent), to recreated jobs and to
        restarted trainings.
      - This includes pods that are already terminating, also those of a job that was deleted before. If a node is lost, its
        pods terminate until they are deleted in this way. O(state=restarted) also deletes the pods of services and
        notebooks that are terminating, or on nodes that are not ready.
      - The processes of pods on a lost node may still be running. Make sure that the node is off if they write files that the
        new pods use.
    type: bool
    default: false
  takeover:
    description:
      - Whether to change a job that another user submitted. Otherwise the task fails and names who did, and nothing is
        changed.
      - The annotation C(runwhere.ai/submitted-by) of the workload records who submitted a job. Two tasks have the same
        submitter if AWX runs both for the same user. Outside of AWX, the API server says which Kubernetes user a task has,
        so that all users of a service account count as one submitter. A server before Kubernetes 1.28 does not say it.
        Then the user and the host that run Ansible are compared.
      - With O(state=present), the job belongs to the submitter of the task afterwards. All other states leave it to whom it
        belongs.
      - Jobs without the annotation, such as those of version 1.0.0, have no owner. Their next change with O(state=present)
        records the submitter.
      - Unchanged jobs are not affected.
      - The annotation protects from accidents only. An account that can write the workload can also change the annotation.
    type: bool
    default: false
    version_added: 1.1.0
  wait:
    description:
      - Whether to wait for the condition in O(wait_for). With O(state=absent) and O(state=paused), the module waits until the
        pods have been removed. Ignored in check mode.
      - Without permission to watch the jobs, the module prints a warning and polls every few seconds.
      - The task fails early if a job cannot become ready without intervention. Examples are an image that cannot be pulled, an
        exhausted quota, a missing pool or GPU type, more GPUs than any node has, C(CrashLoopBackOff), a failed training, and a
        job that was paused or deleted in the meantime. For a failed container, the message and RV(results[].log) contain the
        last lines of its log.
      - The module waits 30 seconds for what a user may be about to create, such as a missing Secret or PersistentVolumeClaim.
      - If other jobs use the GPUs, the module keeps waiting.
      - If one job fails, the module stops waiting for all jobs, unless O(continue_on_error) is set.
      - When O(wait_timeout) expires, the task fails and reports the status and the reason of each job that is not ready.
      - If the cluster cannot be read then, the task fails and says that the state of the jobs is not known.
      - With a local connection, the task shows how far it is, in a line that changes on a terminal and every 30 seconds elsewhere.
    type: bool
    default: false
  wait_for:
    description:
      - V(scheduled) means that all pods are assigned to nodes.
      - V(ready) means that all pods are running and ready. A training has no readiness check, so that one which fails a moment
        after its start counts as ready if the task saw it running.
      - V(complete) means that the training has succeeded. For other kinds, it is the same as V(ready).
    type: str
    choices: [scheduled, ready, complete]
    default: ready
  wait_timeout:
    description:
      - Timeout in seconds for O(wait), for the deletion of the old object when a job is recreated, and for the end of the pods
        of a deleted training when one with the same name is created.
    type: int
    default: 600
  wait_for_nodes:
    description:
      - Whether to keep waiting if no node in the cluster can run a pod. Set this if nodes will be added, by an autoscaler or
        manually.
      - If V(false), the module only waits for nodes that the Cluster Autoscaler or Karpenter has already announced with the
        events C(TriggeredScaleUp) or C(Nominated). They usually need several seconds for that.
    type: bool
    default: false
  continue_on_error:
    description:
      - Whether to continue with other jobs if one fails.
      - If V(false), the module changes nothing if it finds a problem before the first write, such as an unmanaged object or a
        change that O(on_immutable) forbids. After a failed write, it starts no further job.
      - If V(true), the module processes and waits for all other jobs, and then fails. RV(results[].error) shows why each job
        failed.
      - An error in one manifest always prevents all changes.
    type: bool
    default: false
seealso:
  - module: runwhere.gpuctl.gpuctl_job_info
  - module: runwhere.gpuctl.gpuctl_job_log
  - module: kubernetes.core.k8s
    description: Manage any Kubernetes object.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.connection.namespaces
  - runwhere.gpuctl.source
  - runwhere.gpuctl.manifests
  - runwhere.gpuctl.manifests.conflicts
  - runwhere.gpuctl.connection.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Run all jobs in a directory
  runwhere.gpuctl.gpuctl_job:
    src: manifests/
    namespace: team-a

- name: Submit a training and wait until its pods are ready
  runwhere.gpuctl.gpuctl_job:
    definition:
      kind: training
      job: {name: qwen2-7b-sft, priority: high}
      environment:
        image: registry.example.com/llama-factory-deepspeed:v0.8.0
        command: [llamafactory-cli, train, /config/sft.yaml]
      resources: {gpu: 4, gpu-type: A100-100G, cpu: 32, memory: 128Gi}
    namespace: team-a
    wait: true

- name: Run a training to completion on an autoscaled cluster, for at most twelve hours
  runwhere.gpuctl.gpuctl_job:
    src: training.yaml
    wait: true
    wait_for: complete
    wait_timeout: 43200
    wait_for_nodes: true

- name: Pause a training
  runwhere.gpuctl.gpuctl_job:
    name: qwen2-7b-sft
    namespace: team-a
    state: paused
  register: paused

- name: Show the number of released GPUs
  ansible.builtin.debug:
    msg: "{{ paused.results | map(attribute='released_gpus') | sum }} GPUs"

- name: Restart the pods of a service
  runwhere.gpuctl.gpuctl_job:
    name: llama3-8b
    namespace: team-a
    state: restarted
    wait: true

- name: Go back to the last manifest with which a service was ready
  runwhere.gpuctl.gpuctl_job:
    name: llama3-8b
    namespace: team-a
    state: rolled_back
    wait: true

- name: Scale a service
  runwhere.gpuctl.gpuctl_job:
    name: llama3-8b
    namespace: team-a
    replicas: 4

- name: Wait until a training that was submitted before succeeds
  runwhere.gpuctl.gpuctl_job:
    name: bert
    wait: true
    wait_for: complete
    wait_timeout: 43200

- name: Submit a directory of experiments and continue if one fails
  runwhere.gpuctl.gpuctl_job:
    src: experiments/
    continue_on_error: true
    concurrency: 20
  register: experiments
  ignore_errors: true

- name: Show the failed experiments
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.error }}"
  loop: "{{ experiments.results | selectattr('error') }}"

- name: Run failed trainings again, but never recreate a running one
  runwhere.gpuctl.gpuctl_job:
    src: trainings/
    rerun: on_failure
    on_immutable: fail

- name: Run a sweep of six trainings, named lr-search-1e-4-1 and so on
  runwhere.gpuctl.gpuctl_job:
    definition:
      kind: training
      job: {name: lr-search}
      matrix: {lr: ["1e-4", "3e-5", "1e-5"], seed: [1, 2]}
      environment:
        image: registry.example.com/resnet:v1
        command: [python, train.py, --lr, $(matrix.lr), --seed, $(matrix.seed)]
      resources: {gpu: 1, cpu: 8, memory: 32Gi}
    namespace: team-a

- name: Delete a job without a grace period
  runwhere.gpuctl.gpuctl_job:
    name: qwen2-7b-sft
    namespace: team-a
    state: absent
    force: true
    wait: true
"""

RETURN = r"""
results:
  description: One entry for each job, in the order of the manifests.
  returned: on success, and on failure after the first write
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
    namespace:
      description: Namespace of the job.
      type: str
    kind:
      description: Kind of the job. V(none) if a job to delete by O(name) was not found.
      type: str
    action:
      description:
        - The change that was made, or would be made in check mode. One of V(create), V(update), V(recreate), V(unchanged),
          V(delete), V(pause), V(resume), V(restart), V(scale) and V(annotate), which only records O(source).
        - For a failed job, the part that was done before the failure.
      type: str
    error:
      description: Why the job failed, or did not reach O(wait_for). V(none) on success.
      type: str
      sample: >-
        will not become ready: quota teams-team-a of the namespace is exhausted (nvidia.com/gpu: 8 requested, 24 of 24 used). Delete
        a job, request less, or have the quota raised.
    status:
      description:
        - Status of the job. One of V(Pending), V(Running), V(Partially Running), V(Paused), V(Succeeded), V(Failed) and
          V(TimedOut).
        - V(none) if the job was deleted, if check mode would create or recreate it, or if the result of a finished training is
          unknown.
      type: str
    reason:
      description:
        - Why the job is not running, or why a training was left unchanged. V(none) if the job is running, or if it was changed
          without O(wait).
      type: str
      sample: "pod qwen2-7b-sft-x7k2p cannot be scheduled. The scheduler says: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    ready:
      description: Number of ready pods and number of desired pods. V(none) if the job has no workload.
      type: str
      sample: 1/2
    log:
      description: Last lines of the log of a failed container, for up to five jobs. Secrets are masked.
      type: list
      elements: str
      sample: ["Traceback (most recent call last):", "FileNotFoundError: /datasets/sft.json"]
    pods_wanted:
      description: Number of pods of the job. V(none) if a job to delete was not found, as the following four.
      type: int
      version_added: 1.2.0
    gpu:
      description: Number of GPUs of each pod.
      type: int
      version_added: 1.2.0
    gpu_share:
      description: Memory of a shared GPU that each pod requests.
      type: str
      version_added: 1.2.0
    accelerators:
      description: What each pod requests of accelerators, as in the results of M(runwhere.gpuctl.gpuctl_job_info).
      type: list
      elements: dict
      version_added: 1.2.0
    sweep:
      description: Name of the sweep, for a training of a matrix.
      type: str
      version_added: 1.2.0
    released_gpus:
      description: Number of GPUs that pausing the job released.
      type: int
    fit:
      description:
        - In check mode and with O(predict), whether the job would run now, which jobs it would preempt, and what it would wait for
          otherwise, as an entry of RV(results) of M(runwhere.gpuctl.gpuctl_fit_info). V(none) for a job that would start no pods, and in
          all other cases.
        - Where a rolling update would not get through, V(rollout) has how many pods it leaves, V(old), V(old_waiting), V(new_waiting).
        - Pools and quotas are those of the cluster, also if manifests of the task are about to change them.
      type: dict
      version_added: 1.1.0
    stops:
      description:
        - What the recreation of the job stopped, or would stop in check mode. V(none) if the job was not recreated, or had
          nothing running. See O(recreate).
      type: str
      sample: a training that has run for 3 h on 16 GPUs
    resources:
      description: Kubernetes objects of the job.
      type: list
      elements: dict
      contains:
        api_version:
          description: API version of the object.
          type: str
        kind:
          description: Kind of the object.
          type: str
        name:
          description: Name of the object.
          type: str
        action:
          description: The change to the object, as in RV(results[].action).
          type: str
        changes:
          description: Paths of the changed fields.
          type: list
          elements: str
          sample: ["spec.template.spec.containers[main].image"]
    access_urls:
      description: URLs of the services of the job, for the load balancer, the node port and the cluster-internal name.
      type: list
      elements: str
      sample: ["http://10.0.0.11:30080", "http://svc-llama3-8b.team-a.svc:8000"]
    duration:
      description: Duration of the writes for this job in seconds.
      type: float
default_namespace:
  description: Namespace of tasks that name none, such as that of the kubeconfig's context.
  returned: on success, and on failure after the first write
  type: str
  sample: default
  version_added: 1.2.0
msg:
  description: Summary of the changes.
  returned: success
  type: str
  sample: "4 jobs: 1 create, 3 unchanged"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.advised import advised
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB

MODULE = advised(JOB)


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
