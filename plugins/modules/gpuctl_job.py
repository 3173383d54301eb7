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
  - Turns job manifests into running jobs. A manifest is a small YAML file that names an image, a command and the GPUs that
    they need; it names no Kubernetes concept.
  - A C(training) becomes a Job, an C(inference) or C(compute) service a Deployment with a Service (and an autoscaler where
    the manifest asks for one), a C(notebook) a StatefulSet with a Service.
  - Takes any number of jobs in one task. All manifests are validated before the first request is sent, and all their
    mistakes are reported together with file, document, place and value.
  - Reads what is live, works out what differs, and writes only that, by server-side apply. A second run changes nothing and
    writes nothing.
  - A training that has finished is not run again, also after Kubernetes has removed it, unless O(rerun) asks for it.
  - A training's manifest may have a C(matrix) of values, and becomes a training for each combination of them.
  - Only objects that this collection made are ever changed or deleted. An object of the same name that somebody else made
    is an error.
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent as a dry run, so the server validates what would be sent. Without the right to write, the plan
        is worked out all the same and a warning says that the server did not validate it.
  diff_mode:
    support: full
    details:
      - Shows the fields that change and nothing else. Values of secrets are masked.
  idempotent:
    support: partial
    details:
      - O(state=restarted) restarts the jobs at every run of the task. Every other state changes nothing the second time.
options:
  state:
    description:
      - V(present) creates the jobs or brings them up to date. What is paused stays so; only V(resumed) ends that. With
        O(name) and O(replicas) it scales a job.
      - V(absent) deletes them with everything that was made for them. Data on the nodes and claims stay.
      - V(paused) takes the pods away, and with them the GPUs, until the jobs are resumed. A training is suspended, and
        starts over from what it has saved itself. A service or notebook gets no copies, and keeps in an annotation how many
        it had; an autoscaler stays as it is and does nothing until then. What has ended stays as it is, with a warning.
      - V(resumed) gives paused jobs their pods back. What is not paused stays as it is. What is scaled to zero counts as
        paused, and gets one copy, or as many as its autoscaler keeps at least.
      - V(restarted) replaces the pods, at every run of the task. Those of a service are replaced one after the other, as by
        C(kubectl rollout restart); that of a notebook by one with the same claims. A training, also one that has ended, is
        deleted and made again as it was when its manifest was applied the last time. What is paused is an error.
      - V(paused), V(resumed) and V(restarted) need a job only to be named, by O(name) or by its manifest, of which nothing
        else counts. Jobs that are not there are an error, and then nothing is done to the others either (unless
        O(continue_on_error)).
      - Trainings with C(queue.backend) C(kueue) are paused and resumed by way of Kueue's Workload (C(spec.active)), as
        C(spec.suspend) of their Job belongs to Kueue. One that has to be recreated queues anew, and is then not paused.
    type: str
    choices: [present, absent, paused, resumed, restarted]
    default: present
  src:
    description:
      - Manifest files, directories (all C(*.yaml) and C(*.yml) files below them) or globs.
      - Paths are those of the host that the module runs on; with a local connection, the controller.
      - Exactly one of O(src), O(definition) and O(name) is required.
    type: list
    elements: path
  definition:
    description:
      - The manifests themselves, a dictionary, a list of dictionaries, or YAML text with one or several documents.
    type: raw
  allow_empty:
    description:
      - Whether it is right that there is no job in what O(src) or O(definition) gives, as in a directory that may hold any
        kinds of manifests. Without it, that is an error.
    type: bool
    default: false
  name:
    description:
      - Name of the job, where no manifest is needed - with every O(state) but V(present), and there with O(replicas).
    type: str
  kind:
    description:
      - Kind of the job named by O(name). A job of another kind is not touched.
    type: str
    choices: [training, inference, notebook, compute]
  namespace:
    description:
      - Namespace of jobs whose manifest does not name one. Without it, they go to V(default).
      - Namespaces are not created.
    type: str
  rerun:
    description:
      - When a training that has ended is run again, with O(state=present). One that runs is left alone in any case.
      - V(never) - not even with another manifest.
      - V(on_change) - when its manifest has changed. Another description, priority, sweep or spelling is no change.
      - V(on_failure) - also when it is known to have failed.
      - V(always) - at every run of the task.
      - So that this holds when Kubernetes has removed a finished training, a day after its end, each namespace has a ConfigMap
        C(gpuctl-ledger) that remembers its last 2000 trainings, with a digest of the manifest and the result. It is written when
        a training is submitted and when its end is first seen, never in check mode; O(state=absent) removes the entry. A
        training that was removed before its end was seen counts as ended.
      - Who may not write that ConfigMap is warned, and the training runs.
      - A changed value of an environment variable is a change. Give a secret that is replaced regularly by C(valueFrom).
    type: str
    choices: [never, on_change, on_failure, always]
    default: on_change
  replicas:
    description:
      - Number of copies of an inference or compute service. Only with O(state=present).
      - With O(name) it changes the number and nothing else. The next run with the manifest brings back what that says.
      - With O(src) or O(definition) it takes the place of C(service.replicas) of all manifests.
      - A paused service stays paused, and gets that number when it is resumed. V(0) stops a service as well, but its manifest
        starts it again; O(state=paused) does not.
      - Trainings and notebooks have no copies, and with C(autoscaling) the number belongs to the autoscaler; these are errors.
    type: int
  on_immutable:
    description:
      - What to do when Kubernetes cannot make a change in place, such as another image for a training.
      - V(recreate) proves with a dry run that the new object is valid, deletes the old one, waits until it is gone and creates
        the new one. When that fails, the old one is put back. A running training starts over when its manifest has changed,
        never because a new version of this collection would build it otherwise.
      - V(fail) changes nothing and names the fields.
      - A training that has ended is run again as O(rerun) says, whatever this says.
    type: str
    choices: [recreate, fail]
    default: recreate
  force:
    description:
      - Delete pods at once instead of granting them their grace period, with O(state=absent), or when a job is recreated or a
        training restarted.
    type: bool
    default: false
  force_conflicts:
    description:
      - Take over fields that somebody else (C(kubectl edit), another controller) has changed since. Without it, such a
        field is an error that names the field and its manager.
    type: bool
    default: false
  wait:
    description:
      - Wait until the jobs are as O(wait_for) says, or with O(state=absent) and O(state=paused) until their pods are gone.
      - A job is watched, not polled, so the number of requests does not depend on the time. Who may not watch (the verb
        C(watch)) gets a warning, and the cluster is asked every few seconds.
      - The task fails as soon as a job cannot get there without somebody's help, and says what help - its image cannot be
        pulled (a registry that does not answer is given time), its quota is exhausted, no node has the labels of its pool or
        its GPU type (see O(wait_for_nodes)), no node has as many GPUs as it asks for, its container ends again and again
        (C(CrashLoopBackOff)), the training has failed, or the job is paused or was deleted by somebody. Where a container has
        ended, the last lines of its log are in the message and in RV(results).
      - GPUs that other jobs use may become free, and are waited for.
      - One job that cannot get there ends the waiting for all, unless O(continue_on_error).
      - When O(wait_timeout) has passed, the task fails and says of each job that is late where it stands and why.
      - With a local connection the task says on the screen from time to time how far the jobs are.
    type: bool
    default: false
  wait_for:
    description:
      - V(scheduled) - every pod has a node.
      - V(ready) - every pod runs and answers its health check.
      - V(complete) - a training has finished with success. Services never finish; they count when they are ready.
    type: str
    choices: [scheduled, ready, complete]
    default: ready
  wait_timeout:
    description:
      - Seconds to wait, also for the old object to go when a job is recreated.
    type: int
    default: 600
  wait_for_nodes:
    description:
      - Keep waiting when the cluster has no node that could ever run the pods of a job, because such nodes may come - where an
        autoscaler adds them when they are needed, or somebody is about to add them to the pool.
      - Without it such a job is given up at once, unless the Cluster Autoscaler or Karpenter has said of one of its pods that a
        node is on its way (events C(TriggeredScaleUp), C(Nominated)), which they take several seconds for.
    type: bool
    default: false
  continue_on_error:
    description:
      - What becomes of the other jobs when one is refused, by the server or because something is in its way.
      - V(false) - what is known before the first write (an object of somebody else, a change that O(on_immutable) forbids)
        leaves all jobs as they are. After a write that is refused no further job is begun.
      - V(true) - all other jobs are done, and waited for with O(wait). Then the task fails with the names of the failed ones;
        C(error) in RV(results) tells which they are, and why.
      - Manifests are always validated together first. A mistake in one of them leaves all jobs as they are.
    type: bool
    default: false
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
seealso:
  - module: kubernetes.core.k8s
    description: For any other Kubernetes object.
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.concurrency
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Run everything that a directory declares
  runwhere.gpuctl.gpuctl_job:
    src: manifests/
    namespace: team-a

- name: Submit a training and wait until its pods run
  runwhere.gpuctl.gpuctl_job:
    definition:
      kind: training
      job:
        name: qwen2-7b-sft
        priority: high
      environment:
        image: registry.example.com/llama-factory-deepspeed:v0.8.0
        command: [llamafactory-cli, train, /config/sft.yaml]
      resources:
        gpu: 4
        gpu-type: A100-100G
        cpu: 32
        memory: 128Gi
    namespace: team-a
    wait: true
  register: training

- name: Show where the job stands
  ansible.builtin.debug:
    msg: "{{ training.results[0].status }} {{ training.results[0].reason | default('', true) }}"

- name: Run a training to its end, for twelve hours at most, where nodes are added when they are needed
  runwhere.gpuctl.gpuctl_job:
    src: training.yaml
    wait: true
    wait_for: complete
    wait_timeout: 43200
    wait_for_nodes: true

- name: Bring up all services of a team, and report on all of them even if one cannot run
  runwhere.gpuctl.gpuctl_job:
    src: services/
    wait: true
    continue_on_error: true

- name: Pause a training for the night; its GPUs are free for others
  runwhere.gpuctl.gpuctl_job:
    name: qwen2-7b-sft
    namespace: team-a
    state: paused
  register: paused

- name: Show how many GPUs became free
  ansible.builtin.debug:
    msg: "{{ paused.results | map(attribute='released_gpus') | sum }} GPUs"

- name: Let everything in a directory go on that was paused
  runwhere.gpuctl.gpuctl_job:
    src: manifests/
    state: resumed

- name: Give a service new pods, one after the other
  runwhere.gpuctl.gpuctl_job:
    name: llama3-8b
    namespace: team-a
    state: restarted
    wait: true

- name: Let a service have four copies
  runwhere.gpuctl.gpuctl_job:
    name: llama3-8b
    namespace: team-a
    replicas: 4

- name: Change a service, but never restart a running training
  runwhere.gpuctl.gpuctl_job:
    src: [inference.yaml, training.yaml]
    on_immutable: fail

- name: Submit a folder of experiments, and do not let one of them stop the others
  runwhere.gpuctl.gpuctl_job:
    src: experiments/
    continue_on_error: true
    concurrency: 20
  register: experiments
  ignore_errors: true

- name: Show those that failed
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.error }}"
  loop: "{{ experiments.results | selectattr('error') }}"
  loop_control:
    label: "{{ item.name }}"

- name: Run trainings again that have failed
  runwhere.gpuctl.gpuctl_job:
    src: trainings/
    rerun: on_failure

- name: Try six combinations, each a training of its own named lr-search-1e-4-1 and so on
  runwhere.gpuctl.gpuctl_job:
    definition:
      kind: training
      job:
        name: lr-search
      matrix:
        lr: ["1e-4", "3e-5", "1e-5"]
        seed: [1, 2]
      environment:
        image: registry.example.com/resnet:v1
        command: [python, train.py, --lr, $(matrix.lr), --seed, $(matrix.seed)]
      resources:
        gpu: 1
        cpu: 8
        memory: 32Gi
    namespace: team-a

- name: Show how the combinations fare
  runwhere.gpuctl.gpuctl_job_info:
    namespaces: team-a
    label_selectors: runwhere.ai/sweep=lr-search

- name: Delete a job by its manifest
  runwhere.gpuctl.gpuctl_job:
    src: training.yaml
    state: absent

- name: Delete a job by its name, at once
  runwhere.gpuctl.gpuctl_job:
    name: qwen2-7b-sft
    namespace: team-a
    state: absent
    force: true
    wait: true
"""

RETURN = r"""
results:
  description: One entry for each job, in the order of the manifests. Also returned on failure, with what was done until then.
  returned: when the manifests are valid
  type: list
  elements: dict
  contains:
    name:
      description: Name of the job.
      type: str
      sample: qwen2-7b-sft
    namespace:
      description: Namespace of the job.
      type: str
      sample: team-a
    kind:
      description: Kind of the job; V(none) when a job is deleted by name and was not there.
      type: str
      sample: training
    action:
      description:
        - What was done, or in check mode would be - V(create), V(update), V(recreate), V(unchanged), V(delete), V(pause),
          V(resume), V(restart) or V(scale).
      type: str
      sample: create
    error:
      description:
        - Why the job failed, or with O(wait) why it did not get to O(wait_for); V(none) when all of it was done.
          RV(results[].action) is what was done before it failed.
      type: str
      sample: "exceeded quota: team-a, requested: requests.nvidia.com/gpu=8, used: 24, limited: 24"
    status:
      description:
        - Where the job stands - V(Pending), V(Running), V(Partially Running), V(Paused), V(Succeeded) or V(Failed).
        - V(none) when it was deleted, in check mode when it would be made or made anew, and for a training whose end nobody saw.
      type: str
      sample: Running
    reason:
      description:
        - Why the job does not run, in one sentence. V(none) when it runs, or was created without waiting for it.
        - Of a training that is not run again, see O(rerun), how it ended and what to do to run it all the same.
      type: str
      sample: "pod qwen2-7b-sft-x7k2p cannot be placed: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
    ready:
      description: How many pods are ready, and how many there should be. V(none) where there is no workload to count them.
      type: str
      sample: 1/2
    log:
      description:
        - The last lines of the log of a container whose end has ended the waiting, secrets masked; of a few jobs at most.
          Empty otherwise.
      type: list
      elements: str
      sample: ["Traceback (most recent call last):", "FileNotFoundError: /datasets/sft.json"]
    released_gpus:
      description: GPUs that the pods of the job held when it was paused, and gave back; 0 whenever it was not.
      type: int
      sample: 4
    resources:
      description: The Kubernetes objects of the job.
      type: list
      elements: dict
      contains:
        api_version:
          description: Its API version.
          type: str
          sample: batch/v1
        kind:
          description: Its kind.
          type: str
          sample: Job
        name:
          description: Its name.
          type: str
          sample: qwen2-7b-sft
        action:
          description: What was done to it; the same words as for the job.
          type: str
          sample: create
        changes:
          description: The paths of the fields that changed.
          type: list
          elements: str
          sample: ["spec.template.spec.containers[main].image"]
    access_urls:
      description: Where the services of the job answer - load balancer, node port, name inside the cluster.
      type: list
      elements: str
      sample: ["http://10.0.0.11:30080", "http://svc-llama3-8b.team-a.svc:8000"]
    duration:
      description: Seconds that the writes for this job took.
      type: float
      sample: 0.042
msg:
  description: How many jobs there were, and what was done to them.
  returned: success
  type: str
  sample: "4 jobs: 1 create, 3 unchanged"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
