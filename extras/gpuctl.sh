# shellcheck shell=bash
# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The command gpuctl, for bash and zsh. Each of its commands runs a playbook of the collection.
#
#   . ~/.ansible/collections/ansible_collections/runwhere/gpuctl/extras/gpuctl.sh
#   gpuctl help
#
# Generated from tools/gpuctl_commands.yml and playbooks/vars/playbooks.yml by tools/generate_reference.py.
_gpuctl_first="create apply delete get query describe add remove label scale logs cp submit move multikueue drain-cluster submit-training status fit accelerator-stack doctor advise usage history record-history monitoring idle expire budget extend pause resume restart rollback job-state copy onboard offboard workspace plan provision drift teardown notify requeue"

_gpuctl_second() {
  case "$1" in
    delete) echo job ;;
    get) echo jobs notebook pools nodes labels label node-labels gpu-type quotas ;;
    query) echo pools ;;
    describe) echo quota job pool node ;;
    add) echo node ;;
    remove) echo node ;;
    label) echo node ;;
    scale) echo notebook ;;
  esac
}

_gpuctl_command() {
  case "$1" in
    "create")
      book=provision takes=many into='gpuctl_dir' fixed='gpuctl_fail_on_drift=false'
      summary='gpuctl create -f FILE...'
      opts=''
      ;;
    "apply")
      book=provision takes=many into='gpuctl_dir' fixed='gpuctl_fail_on_drift=false'
      summary='gpuctl apply -f FILE...'
      opts=''
      ;;
    "delete")
      book=teardown takes=many into='gpuctl_dir' fixed=''
      summary='gpuctl delete -f FILE...'
      opts=''
      names='delete job' declared='pool pools quota quotas node nodes'
      ;;
    "delete job")
      book=delete takes=one into='gpuctl_name' fixed=''
      summary='gpuctl delete job NAME'
      opts=''
      ;;
    "get jobs")
      book=status takes=one into='gpuctl_name' fixed='gpuctl_table=jobs'
      summary='gpuctl get jobs [NAME]'
      opts='--type=gpuctl_kind -o=gpuctl_format'
      ;;
    "get notebook")
      book=status takes=one into='gpuctl_name' fixed='gpuctl_table=jobs gpuctl_kind=notebook'
      summary='gpuctl get notebook [NAME]'
      opts='--type=gpuctl_kind -o=gpuctl_format'
      ;;
    "get pools")
      book=status takes=one into='gpuctl_pool' fixed='gpuctl_table=pools'
      summary='gpuctl get pools [POOL]'
      opts='-o=gpuctl_format'
      ;;
    "query pools")
      book=status takes=one into='gpuctl_pool' fixed='gpuctl_table=pools'
      summary='gpuctl query pools [POOL]'
      opts='-o=gpuctl_format'
      ;;
    "get nodes")
      book=status takes=many into='gpuctl_node' fixed='gpuctl_table=nodes'
      summary='gpuctl get nodes [NODE...]'
      opts='--label=gpuctl_label_keys -o=gpuctl_format'
      ;;
    "get labels")
      book=status takes=many into='gpuctl_node' fixed='gpuctl_table=nodes gpuctl_label_keys=gpu-type,gpuType,pool,nvidia.com/gpu.product'
      summary='gpuctl get labels [NODE...]'
      opts='--key=gpuctl_label_keys -o=gpuctl_format'
      ;;
    "get label")
      book=status takes=many into='gpuctl_node' fixed='gpuctl_table=nodes gpuctl_label_keys=gpu-type,gpuType,pool,nvidia.com/gpu.product'
      summary='gpuctl get label [NODE...]'
      opts='--key=gpuctl_label_keys -o=gpuctl_format'
      ;;
    "get node-labels")
      book=status takes=many into='gpuctl_node' fixed='gpuctl_table=nodes gpuctl_label_keys=gpu-type,gpuType,pool,nvidia.com/gpu.product'
      summary='gpuctl get node-labels [NODE...]'
      opts='--key=gpuctl_label_keys -o=gpuctl_format'
      ;;
    "get gpu-type")
      book=status takes=many into='gpuctl_node' fixed='gpuctl_table=nodes gpuctl_label_keys=gpu-type,gpuType,pool,nvidia.com/gpu.product'
      summary='gpuctl get gpu-type [NODE...]'
      opts='--key=gpuctl_label_keys -o=gpuctl_format'
      ;;
    "get quotas")
      book=status takes=one into='gpuctl_namespace' fixed='gpuctl_table=quotas'
      summary='gpuctl get quotas [NAMESPACE]'
      opts='-o=gpuctl_format'
      ;;
    "describe quota")
      book=status takes=one into='gpuctl_namespace' fixed='gpuctl_table=quotas'
      summary='gpuctl describe quota [NAMESPACE]'
      opts=''
      ;;
    "describe job")
      book=describe takes=one into='gpuctl_name' fixed=''
      summary='gpuctl describe job NAME'
      opts=''
      ;;
    "describe pool")
      book=status takes=one into='gpuctl_pool' fixed='gpuctl_all=true'
      summary='gpuctl describe pool [POOL]'
      opts=''
      ;;
    "describe node")
      module=gpuctl_node_info args='{"nodes": "{{ gpuctl_node | default(omit) }}", "full": true, "must_exist": true}' takes=many into='gpuctl_node' fixed=''
      summary='gpuctl describe node [NODE...]'
      opts=''
      ;;
    "add node")
      module=gpuctl_pool args='{"name": "{{ gpuctl_pool }}", "nodes": "{{ gpuctl_node }}", "purge": false}' takes=many into='gpuctl_node' fixed=''
      summary='gpuctl add node NODE... --pool POOL'
      opts='--pool=gpuctl_pool'
      needs='gpuctl_node gpuctl_pool'
      ;;
    "remove node")
      module=gpuctl_pool args='{"name": "{{ gpuctl_pool }}", "remove_nodes": "{{ gpuctl_node }}"}' takes=many into='gpuctl_node' fixed=''
      summary='gpuctl remove node NODE... --pool POOL'
      opts='--pool=gpuctl_pool'
      needs='gpuctl_node gpuctl_pool'
      ;;
    "label node")
      book=provision takes=labels into='gpuctl_node_labels' fixed='gpuctl_fail_on_drift=false'
      summary='gpuctl label node NODE... KEY=VALUE | NODE... KEY --delete'
      opts='--overwrite,gpuctl_force --delete,remove'
      needs='gpuctl_node_labels'
      ;;
    "scale notebook")
      book=submit takes=many into='gpuctl_src' fixed=''
      summary='gpuctl scale notebook -f FILE...'
      opts=''
      ;;
    "logs")
      book=logs takes=one into='gpuctl_name' fixed=''
      summary='gpuctl logs NAME'
      opts='-f,gpuctl_follow'
      ;;
    "cp")
      book=copy takes=copy into='' fixed=''
      summary='gpuctl cp JOB:PATH PATH | PATH JOB:PATH'
      opts=''
      ;;
    "submit")
      book=submit takes=many into='gpuctl_src' fixed=''
      summary='gpuctl submit -f FILE...'
      opts=''
      ;;
    "move")
      book=move takes=one into='gpuctl_name' fixed=''
      summary='gpuctl move NAME'
      opts=''
      ;;
    "multikueue")
      book=multikueue takes=one into='' fixed=''
      summary='gpuctl multikueue'
      opts=''
      ;;
    "drain-cluster")
      book=drain_cluster takes=one into='' fixed=''
      summary='gpuctl drain-cluster'
      opts=''
      ;;
    "submit-training")
      book=submit_training takes=one into='gpuctl_name' fixed=''
      summary='gpuctl submit-training NAME'
      opts=''
      ;;
    "status")
      book=status takes=one into='gpuctl_name' fixed=''
      summary='gpuctl status [NAME]'
      opts=''
      ;;
    "fit")
      book=fit takes=many into='gpuctl_src' fixed=''
      summary='gpuctl fit -f FILE...'
      opts=''
      ;;
    "accelerator-stack")
      book=accelerator_stack takes=one into='' fixed=''
      summary='gpuctl accelerator-stack'
      opts=''
      ;;
    "doctor")
      book=doctor takes=one into='' fixed=''
      summary='gpuctl doctor'
      opts=''
      ;;
    "advise")
      book=advise takes=one into='' fixed=''
      summary='gpuctl advise'
      opts=''
      ;;
    "usage")
      book=usage takes=one into='' fixed=''
      summary='gpuctl usage'
      opts=''
      ;;
    "history")
      book=history takes=one into='gpuctl_name' fixed=''
      summary='gpuctl history [NAME]'
      opts=''
      ;;
    "record-history")
      book=record_history takes=one into='' fixed=''
      summary='gpuctl record-history'
      opts=''
      ;;
    "monitoring")
      book=monitoring takes=one into='' fixed=''
      summary='gpuctl monitoring'
      opts=''
      ;;
    "describe")
      book=describe takes=one into='gpuctl_name' fixed=''
      summary='gpuctl describe NAME'
      opts=''
      ;;
    "idle")
      book=idle takes=one into='' fixed=''
      summary='gpuctl idle'
      opts=''
      ;;
    "expire")
      book=expire takes=one into='' fixed=''
      summary='gpuctl expire'
      opts=''
      ;;
    "budget")
      book=budget takes=one into='' fixed=''
      summary='gpuctl budget'
      opts=''
      ;;
    "extend")
      book=extend takes=one into='gpuctl_name' fixed=''
      summary='gpuctl extend NAME'
      opts=''
      ;;
    "pause")
      book=pause takes=one into='gpuctl_name' fixed=''
      summary='gpuctl pause NAME'
      opts=''
      ;;
    "resume")
      book=resume takes=one into='gpuctl_name' fixed=''
      summary='gpuctl resume NAME'
      opts=''
      ;;
    "restart")
      book=restart takes=one into='gpuctl_name' fixed=''
      summary='gpuctl restart NAME'
      opts=''
      ;;
    "rollback")
      book=rollback takes=one into='gpuctl_name' fixed=''
      summary='gpuctl rollback NAME'
      opts=''
      ;;
    "scale")
      book=scale takes=one into='gpuctl_name' fixed=''
      summary='gpuctl scale NAME'
      opts=''
      ;;
    "job-state")
      book=job_state takes=one into='gpuctl_name' fixed=''
      summary='gpuctl job-state NAME'
      opts=''
      ;;
    "copy")
      book=copy takes=one into='gpuctl_name' fixed=''
      summary='gpuctl copy NAME'
      opts=''
      ;;
    "onboard")
      book=onboard takes=one into='gpuctl_name' fixed=''
      summary='gpuctl onboard NAME'
      opts=''
      ;;
    "offboard")
      book=offboard takes=one into='gpuctl_name' fixed=''
      summary='gpuctl offboard NAME'
      opts=''
      ;;
    "workspace")
      book=workspace takes=one into='' fixed=''
      summary='gpuctl workspace'
      opts=''
      ;;
    "plan")
      book=plan takes=many into='gpuctl_dir' fixed=''
      summary='gpuctl plan -f FILE...'
      opts=''
      ;;
    "provision")
      book=provision takes=many into='gpuctl_dir' fixed=''
      summary='gpuctl provision -f FILE...'
      opts=''
      ;;
    "drift")
      book=drift takes=many into='gpuctl_dir' fixed=''
      summary='gpuctl drift -f FILE...'
      opts=''
      ;;
    "teardown")
      book=teardown takes=many into='gpuctl_dir' fixed=''
      summary='gpuctl teardown -f FILE...'
      opts=''
      ;;
    "notify")
      book=notify takes=one into='' fixed=''
      summary='gpuctl notify'
      opts=''
      ;;
    "requeue")
      book=requeue takes=one into='' fixed=''
      summary='gpuctl requeue'
      opts=''
      ;;
    *) return 1 ;;
  esac
  case "$book" in
    provision) opts="-f+gpuctl_dir -n=gpuctl_namespace --dir=gpuctl_dir --plan=gpuctl_plan --policies=gpuctl_policies --node-labels=gpuctl_node_labels --source=gpuctl_source --adopt=gpuctl_adopt --namespace=gpuctl_namespace --force,gpuctl_force --force-conflicts,gpuctl_force_conflicts --drain,gpuctl_drain --rerun=gpuctl_rerun --on-immutable=gpuctl_on_immutable --recreate,gpuctl_recreate --strict,gpuctl_strict --takeover,gpuctl_takeover --upgrade,gpuctl_upgrade --wait,gpuctl_wait --wait-for=gpuctl_wait_for --wait-for-nodes,gpuctl_wait_for_nodes --wait-timeout=gpuctl_wait_timeout --fail-on-drift,gpuctl_fail_on_drift --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    teardown) opts="-f+gpuctl_dir -n=gpuctl_namespace --yes,gpuctl_confirm=teardown --dir=gpuctl_dir --confirm=gpuctl_confirm --node-labels=gpuctl_node_labels --source=gpuctl_source --adopt=gpuctl_adopt --namespace=gpuctl_namespace --delete-namespaces,gpuctl_delete_namespaces --force,gpuctl_force --takeover,gpuctl_takeover --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    delete) opts="-f+gpuctl_src -n=gpuctl_namespace --yes,gpuctl_confirm={{gpuctl_name|default}} --missing-ok,gpuctl_missing_ok --name=gpuctl_name --kind=gpuctl_kind --src=gpuctl_src --namespace=gpuctl_namespace --confirm=gpuctl_confirm --force,gpuctl_force --takeover,gpuctl_takeover --continue-on-error,gpuctl_continue_on_error --wait,gpuctl_wait --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --home=gpuctl_home --hosts=gpuctl_hosts $opts" ;;
    status) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --pool=gpuctl_pool --name=gpuctl_name --kind=gpuctl_kind --status=gpuctl_status --table=gpuctl_table --format=gpuctl_format --node=gpuctl_node --gpu-type=gpuctl_gpu_type --label-keys=gpuctl_label_keys --pods,gpuctl_pods --all,gpuctl_all --watch=gpuctl_watch --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    describe) opts="-n=gpuctl_namespace --name=gpuctl_name --namespace=gpuctl_namespace --start=gpuctl_start --end=gpuctl_end --throughput-query=gpuctl_throughput_query --prometheus-url=gpuctl_prometheus_url --prometheus-service=gpuctl_prometheus_service --output=gpuctl_output --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    submit) opts="-f+gpuctl_src -n=gpuctl_namespace --src=gpuctl_src --namespace=gpuctl_namespace --state=gpuctl_state --rerun=gpuctl_rerun --on-immutable=gpuctl_on_immutable --recreate,gpuctl_recreate --preempt,gpuctl_preempt --strict,gpuctl_strict --takeover,gpuctl_takeover --upgrade,gpuctl_upgrade --force,gpuctl_force --force-conflicts,gpuctl_force_conflicts --continue-on-error,gpuctl_continue_on_error --wait,gpuctl_wait --wait-for=gpuctl_wait_for --wait-for-nodes,gpuctl_wait_for_nodes --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --notify-service=gpuctl_notify_service --all,gpuctl_all --show-objects,gpuctl_show_objects --clusters=gpuctl_clusters --order=gpuctl_order --assume-lost=gpuctl_assume_lost --home=gpuctl_home --hosts=gpuctl_hosts $opts" ;;
    logs) opts="-n=gpuctl_namespace --name=gpuctl_name --namespace=gpuctl_namespace --tail=gpuctl_tail --grep=gpuctl_grep --follow,gpuctl_follow --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    copy) opts="-n=gpuctl_namespace --name=gpuctl_name --local=gpuctl_local --remote=gpuctl_remote --direction=gpuctl_direction --pod=gpuctl_pod --namespace=gpuctl_namespace --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    move) opts="-f+gpuctl_src -n=gpuctl_namespace -A,gpuctl_all_namespaces --name=gpuctl_name --waiting=gpuctl_waiting --clusters=gpuctl_clusters --order=gpuctl_order --running,gpuctl_running --src=gpuctl_src --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --takeover,gpuctl_takeover --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --home=gpuctl_home --hosts=gpuctl_hosts $opts" ;;
    multikueue) opts="--clusters=gpuctl_clusters --home=gpuctl_home --state=gpuctl_state --server=gpuctl_server --token-days=gpuctl_token_days --kueue-namespace=gpuctl_kueue_namespace --hosts=gpuctl_hosts $opts" ;;
    drain_cluster) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --yes,gpuctl_confirm={{gpuctl_name|default}} --from=gpuctl_from --confirm=gpuctl_confirm --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --clusters=gpuctl_clusters --order=gpuctl_order --running,gpuctl_running --takeover,gpuctl_takeover --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --home=gpuctl_home --hosts=gpuctl_hosts $opts" ;;
    submit_training) opts="-n=gpuctl_namespace --name=gpuctl_name --image=gpuctl_image --cpu=gpuctl_cpu --memory=gpuctl_memory --command=gpuctl_command --gpu=gpuctl_gpu --gpu-type=gpuctl_gpu_type --node-count=gpuctl_node_count --pool=gpuctl_pool --priority=gpuctl_priority --description=gpuctl_description --workdirs=gpuctl_workdirs --namespace=gpuctl_namespace --wait,gpuctl_wait --rerun=gpuctl_rerun --on-immutable=gpuctl_on_immutable --recreate,gpuctl_recreate --preempt,gpuctl_preempt --strict,gpuctl_strict --takeover,gpuctl_takeover --upgrade,gpuctl_upgrade --force,gpuctl_force --force-conflicts,gpuctl_force_conflicts --wait-for=gpuctl_wait_for --wait-for-nodes,gpuctl_wait_for_nodes --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --notify-service=gpuctl_notify_service --all,gpuctl_all --show-objects,gpuctl_show_objects --clusters=gpuctl_clusters --order=gpuctl_order --assume-lost=gpuctl_assume_lost --home=gpuctl_home --hosts=gpuctl_hosts $opts" ;;
    fit) opts="-f+gpuctl_src -n=gpuctl_namespace --src=gpuctl_src --namespace=gpuctl_namespace --allowed-namespaces=gpuctl_allowed_namespaces --output=gpuctl_output --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    accelerator_stack) opts="--vendor=gpuctl_vendor --state=gpuctl_state --hosts=gpuctl_hosts $opts" ;;
    doctor) opts="--fail-on=gpuctl_fail_on --all,gpuctl_all --prometheus-url=gpuctl_prometheus_url --prometheus-service=gpuctl_prometheus_service --hosts=gpuctl_hosts $opts" ;;
    advise) opts="-f+gpuctl_src -n=gpuctl_namespace -A,gpuctl_all_namespaces --range=gpuctl_range --start=gpuctl_start --end=gpuctl_end --min-runtime=gpuctl_min_runtime --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --prices=gpuctl_prices --currency=gpuctl_currency --idle-below=gpuctl_idle_below --prometheus-url=gpuctl_prometheus_url --prometheus-service=gpuctl_prometheus_service --src=gpuctl_src --write,gpuctl_write --output=gpuctl_output --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    usage) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --range=gpuctl_range --start=gpuctl_start --end=gpuctl_end --group-by=gpuctl_group_by --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --prices=gpuctl_prices --currency=gpuctl_currency --idle-below=gpuctl_idle_below --prometheus-url=gpuctl_prometheus_url --prometheus-service=gpuctl_prometheus_service --output=gpuctl_output --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    history) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --name=gpuctl_name --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --kind=gpuctl_kind --user=gpuctl_user --pool=gpuctl_pool --sweep=gpuctl_sweep --result=gpuctl_result --since=gpuctl_since --limit=gpuctl_limit --output=gpuctl_output --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    record_history) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --keep-days=gpuctl_keep_days --keep-mebibytes=gpuctl_keep_mebibytes --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    monitoring) opts="--hosts=gpuctl_hosts $opts" ;;
    idle) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --idle-for=gpuctl_idle_for --idle-below=gpuctl_idle_below --idle-action=gpuctl_idle_action --idle-grace=gpuctl_idle_grace --exempt-names=gpuctl_exempt_names --exempt-kinds=gpuctl_exempt_kinds --exempt-selectors=gpuctl_exempt_selectors --reclaim=gpuctl_reclaim --longest-exemption=gpuctl_longest_exemption --prometheus-url=gpuctl_prometheus_url --prometheus-service=gpuctl_prometheus_service --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    expire) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --warn-before=gpuctl_warn_before --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    budget) opts="-n=gpuctl_namespace -A,gpuctl_all_namespaces --namespace=gpuctl_namespace --all-namespaces,gpuctl_all_namespaces --prices=gpuctl_prices --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    extend) opts="-n=gpuctl_namespace --name=gpuctl_name --by=gpuctl_by --until=gpuctl_until --exempt-until=gpuctl_exempt_until --namespace=gpuctl_namespace --takeover,gpuctl_takeover --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    pause) opts="-f+gpuctl_src -n=gpuctl_namespace --yes,gpuctl_confirm={{gpuctl_name|default}} --name=gpuctl_name --kind=gpuctl_kind --src=gpuctl_src --namespace=gpuctl_namespace --confirm=gpuctl_confirm --force,gpuctl_force --takeover,gpuctl_takeover --continue-on-error,gpuctl_continue_on_error --wait,gpuctl_wait --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    resume) opts="-f+gpuctl_src -n=gpuctl_namespace --name=gpuctl_name --kind=gpuctl_kind --src=gpuctl_src --namespace=gpuctl_namespace --force,gpuctl_force --takeover,gpuctl_takeover --continue-on-error,gpuctl_continue_on_error --wait,gpuctl_wait --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    restart) opts="-f+gpuctl_src -n=gpuctl_namespace --yes,gpuctl_confirm={{gpuctl_name|default}} --name=gpuctl_name --kind=gpuctl_kind --src=gpuctl_src --namespace=gpuctl_namespace --confirm=gpuctl_confirm --force,gpuctl_force --takeover,gpuctl_takeover --continue-on-error,gpuctl_continue_on_error --wait,gpuctl_wait --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    rollback) opts="-f+gpuctl_src -n=gpuctl_namespace --name=gpuctl_name --kind=gpuctl_kind --src=gpuctl_src --namespace=gpuctl_namespace --force,gpuctl_force --takeover,gpuctl_takeover --wait,gpuctl_wait --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    scale) opts="-f+gpuctl_src -n=gpuctl_namespace --name=gpuctl_name --replicas=gpuctl_replicas --kind=gpuctl_kind --src=gpuctl_src --namespace=gpuctl_namespace --force,gpuctl_force --takeover,gpuctl_takeover --continue-on-error,gpuctl_continue_on_error --wait,gpuctl_wait --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    job_state) opts="-f+gpuctl_src -n=gpuctl_namespace --yes,gpuctl_confirm={{gpuctl_name|default}} --state=gpuctl_state --name=gpuctl_name --kind=gpuctl_kind --src=gpuctl_src --namespace=gpuctl_namespace --replicas=gpuctl_replicas --confirm=gpuctl_confirm --missing-ok,gpuctl_missing_ok --force,gpuctl_force --takeover,gpuctl_takeover --continue-on-error,gpuctl_continue_on_error --wait,gpuctl_wait --wait-timeout=gpuctl_wait_timeout --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --home=gpuctl_home --hosts=gpuctl_hosts $opts" ;;
    onboard) opts="-n=gpuctl_namespace --name=gpuctl_name --account-kind=gpuctl_account_kind --level=gpuctl_level --exec,gpuctl_exec --namespace=gpuctl_namespace --gpu=gpuctl_gpu --cpu=gpuctl_cpu --memory=gpuctl_memory --object-counts=gpuctl_object_counts --storage=gpuctl_storage --storage-class=gpuctl_storage_class --access-mode=gpuctl_access_mode --claim=gpuctl_claim --registry=gpuctl_registry --registry-username=gpuctl_registry_username --docker-config=gpuctl_docker_config --kubeconfig=gpuctl_kubeconfig --token-days=gpuctl_token_days --server=gpuctl_server --clusters=gpuctl_clusters --hosts=gpuctl_hosts $opts" ;;
    offboard) opts="-n=gpuctl_namespace --name=gpuctl_name --account-kind=gpuctl_account_kind --kubeconfig=gpuctl_kubeconfig --namespace=gpuctl_namespace --stop-jobs,gpuctl_stop_jobs --delete-data,gpuctl_delete_data --claim=gpuctl_claim --delete-namespaces,gpuctl_delete_namespaces --force,gpuctl_force --hosts=gpuctl_hosts $opts" ;;
    workspace) opts="-n=gpuctl_namespace --namespace=gpuctl_namespace --storage=gpuctl_storage --claim=gpuctl_claim --storage-class=gpuctl_storage_class --access-mode=gpuctl_access_mode --docker-config=gpuctl_docker_config --registry=gpuctl_registry --registry-username=gpuctl_registry_username --token=gpuctl_token --hosts=gpuctl_hosts $opts" ;;
    plan) opts="-f+gpuctl_dir -n=gpuctl_namespace --dir=gpuctl_dir --policies=gpuctl_policies --node-labels=gpuctl_node_labels --source=gpuctl_source --adopt=gpuctl_adopt --namespace=gpuctl_namespace --output=gpuctl_output --force,gpuctl_force --force-conflicts,gpuctl_force_conflicts --drain,gpuctl_drain --rerun=gpuctl_rerun --on-immutable=gpuctl_on_immutable --recreate,gpuctl_recreate --strict,gpuctl_strict --takeover,gpuctl_takeover --upgrade,gpuctl_upgrade --wait-for-nodes,gpuctl_wait_for_nodes --allowed-namespaces=gpuctl_allowed_namespaces --all,gpuctl_all --hosts=gpuctl_hosts $opts" ;;
    drift) opts="-f+gpuctl_dir -n=gpuctl_namespace --dir=gpuctl_dir --policies=gpuctl_policies --node-labels=gpuctl_node_labels --source=gpuctl_source --namespace=gpuctl_namespace --fail-on=gpuctl_fail_on --restore=gpuctl_restore --prune=gpuctl_prune --takeover,gpuctl_takeover --audit-annotation=gpuctl_audit_annotation --output=gpuctl_output --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
    notify) opts="--message=gpuctl_message --title=gpuctl_title --event=gpuctl_event --notify-service=gpuctl_notify_service --mail-host=gpuctl_mail_host --mail-port=gpuctl_mail_port --mail-security=gpuctl_mail_security --mail-username=gpuctl_mail_username --mail-from=gpuctl_mail_from --mail-to=gpuctl_mail_to --hosts=gpuctl_hosts $opts" ;;
    requeue) opts="--event=gpuctl_event --all,gpuctl_all --allowed-namespaces=gpuctl_allowed_namespaces --hosts=gpuctl_hosts $opts" ;;
  esac
}

_gpuctl_help() {
  cat <<'END'
gpuctl COMMAND, which is one of:

create -f FILE...               Create or update what files declare
apply -f FILE...                The same
delete -f FILE...               Delete what files declare, with --yes
delete job NAME                 Delete a job
get jobs [NAME]                 Show the jobs, or with --pods their pods
get notebook [NAME]             Show the notebooks with their URLs
get pools [POOL]                Show the pools
query pools [POOL]              The same
get nodes [NODE...]             Show the nodes
get labels [NODE...]            Show labels of nodes
get label [NODE...]             The same
get node-labels [NODE...]       The same
get gpu-type [NODE...]          The same
get quotas [NAMESPACE]          Show the quotas and what is used of them
describe quota [NAMESPACE]      The same
describe job NAME               Show a job with its pods, events and curves
describe pool [POOL]            Show a pool with its quotas and jobs
describe node [NODE...]         Show nodes with their labels and all that
                                Kubernetes knows
add node NODE... --pool POOL    Add nodes to a pool
remove node NODE... --pool POOL
                                Remove nodes from a pool
label node NODE... KEY=VALUE | NODE... KEY --delete
                                Set labels of nodes, or remove one
scale notebook -f FILE...       Apply the manifest of a notebook with another
                                number of GPUs
logs NAME                       Show the logs of a job, with -f as they come
cp JOB:PATH PATH | PATH JOB:PATH
                                Copy files to or from a job
submit -f FILE...               Submit jobs and show their status
move NAME                       Move placed jobs to clusters in which they run
                                now
multikueue                      Declare clusters as workers of MultiKueue
drain-cluster                   Move all placed jobs off a cluster
submit-training NAME            Submit a training without a manifest
status [NAME]                   Show pools, quotas and jobs, and why jobs are
                                not running
fit -f FILE...                  Find out whether jobs would run now, and what
                                they wait for otherwise
accelerator-stack               Install the software that nodes with
                                accelerators need
doctor                          Find what is wrong with a cluster, and what to
                                do about it
advise                          Show which jobs ask for more than they use, and
                                what they should ask for
usage                           Show who held, used and waited for how many GPUs
history [NAME]                  Show the runs of jobs, also those whose objects
                                are gone
record-history                  Record the runs of jobs before the cluster
                                forgets them
monitoring                      Install rules, alerts and dashboards about
                                accelerators
describe NAME                   Show a job with its pods, events and curves
idle                            Find jobs that hold GPUs without using them or
                                get nowhere, warn of them, and pause them later
expire                          Warn of notebooks and services that reach their
                                time limit, and pause them then
budget                          Count the GPU-hours of budgets, and limit the
                                namespaces that have used up theirs
extend NAME                     Let a job run for longer than its time limit, or
                                exempt it from being stopped because it does
                                nothing
pause NAME                      Pause a job and release its GPUs
resume NAME                     Resume a paused job
restart NAME                    Restart the pods of a job
rollback NAME                   Go back to the last manifest with which a
                                service or notebook was ready
scale NAME                      Scale an inference or compute service
job-state NAME                  Change the state of existing jobs
copy NAME                       Copy a file or directory to or from a job
onboard NAME                    Give a colleague access
offboard NAME                   Revoke the access of a colleague
workspace                       Provide what jobs need in a namespace
plan -f FILE...                 Report what a directory would change, and what
                                that means
provision -f FILE...            Apply all pools, quotas, policies, node labels
                                and jobs of a directory
drift -f FILE...                Show what differs between a directory and the
                                cluster, and who changed it
teardown -f FILE...             Delete all jobs, quotas, node labels and pools
                                in a directory
notify                          Send a notification about an event
requeue                         Start the jobs of a lost node on other nodes

gpuctl COMMAND --help lists its options. --check shows what it would change.
END
}

# What is typed reaches Ansible as data: it is never a template or shell code.

gpuctl() {
  [ -z "${ZSH_VERSION-}" ] || emulate -L sh # words are split as in bash
  local book='' module='' args='' fixed='' takes='' into='' needs='' opts='' summary='' names='' declared=''
  local word='' value='' given='' entry='' key='' items='' files='' labels='' remove='' set='' REPLY=''
  local -a run others
  others=(_gpuctl_words) # never empty: with set -u, an empty array is an error in old versions of bash
  case "${1-}" in '' | help | -h | --help) _gpuctl_help && return ;; esac
  if _gpuctl_command "$1 ${2-}"; then
    shift 2
  elif _gpuctl_command "$1"; then
    shift
  else
    value=$(_gpuctl_second "$1")
    _gpuctl_error "unknown command: $1${value:+ ${2-}. After $1 comes one of: $value}. To list the commands, type gpuctl help."
    return
  fi

  if [ $# = 0 ]; then
    case "$summary" in
      *\[*) ;;
      *FILE* | *NAME* | *PATH* | *VALUE*) _gpuctl_error "too few words. Usage: $summary" || return ;;
    esac
  fi

  if [ -n "$module" ]; then
    run=(ansible localhost -m "runwhere.gpuctl.$module" -a "$args")
  else
    run=(ansible-playbook "runwhere.gpuctl.$book")
  fi
  for entry in $fixed; do
    _gpuctl_set "${entry%%=*}" "${entry#*=}"
  done
  while [ $# -gt 0 ]; do
    word=$1 given=''
    shift
    case "$word" in
      --) needs='' && run+=("$@") && break ;; # Ansible may be given any variable
      -e) # as messages advise
        [ $# -gt 0 ] || { _gpuctl_error "-e needs a variable with its value." || return; }
        run+=(-e "$1") && set="$set $1" && shift && continue
        ;;
      --help) _gpuctl_options_help && return ;;
      --check | --diff | -v | -vv | -vvv | -vvvv) run+=("$word") && continue ;;
      --*=*) value=${word#*=} word=${word%%=*} given=1 ;;
      -?*) ;;
      *) others+=("$word") && continue ;;
    esac
    key=''
    for entry in $opts; do
      case "$entry" in "$word"[=,+]*) key=${entry#"$word"} ;; esac
    done
    case "$key" in
      ,*=* | ,remove) # stands for a value
        [ -z "$given" ] || { _gpuctl_error "$word takes no value." || return; }
        key=${key#,}
        if [ "$key" = remove ]; then
          remove=1
        else
          run+=(-e "{\"${key%%=*}\": \"${key#*=}\"}") # may be a template
        fi
        ;;
      ,*)
        [ -n "$given" ] || value=true
        _gpuctl_set "${key#,}" "$value"
        ;;
      [=+]*)
        if [ -z "$given" ]; then
          [ $# -gt 0 ] || { _gpuctl_error "$word needs a value." || return; }
          value=$1
          shift
        fi
        case "$key" in
          +*) _gpuctl_unsafe "$value" && items="$items${items:+, }$REPLY" files=${key#+} ;;
          *) _gpuctl_set "${key#=}" "$value" ;;
        esac
        ;;
      *)
        _gpuctl_error "unknown option: $word. To list the options, add --help. Those of Ansible come after --."
        return
        ;;
    esac
  done
  "${others[@]}" || return
  for entry in $needs; do
    case "$set" in *"$entry"*) ;; *) _gpuctl_error "too few words. Usage: $summary" || return ;; esac
  done

  # Callbacks that are loaded for ad hoc commands would hide what these return.
  ANSIBLE_STDOUT_CALLBACK=${ANSIBLE_STDOUT_CALLBACK-runwhere.gpuctl.plain} \
    ANSIBLE_LOAD_CALLBACK_PLUGINS=false \
    ANSIBLE_LOCALHOST_WARNING=${ANSIBLE_LOCALHOST_WARNING-false} \
    ANSIBLE_INVENTORY_UNPARSED_WARNING=${ANSIBLE_INVENTORY_UNPARSED_WARNING-false} \
    "${run[@]}"
}

# What the words after the command are.
_gpuctl_words() {
  case "$takes" in
    one)
      case "${1-} $#" in 'job '[2-9]) _gpuctl_error "one name only: $1 $2. Leave out the word job." || return ;; esac
      [ $# -lt 2 ] || { _gpuctl_error "one name only: $1 $2" || return; }
      [ $# = 0 ] || _gpuctl_set "$into" "$1"
      [ -z "$items" ] || run+=(-e "{\"$files\": [$items]}")
      ;;
    copy)
      [ $# = 2 ] || { _gpuctl_error "give two paths, one of them as JOB:PATH." || return; }
      case "$1" in
        [!./]*:*) _gpuctl_copy from_job "$1" "$2" ;;
        *)
          case "$2" in
            [!./]*:*) _gpuctl_copy to_job "$2" "$1" ;;
            *) _gpuctl_error "give one of the paths as JOB:PATH." || return ;;
          esac
          ;;
      esac
      ;;
    *) _gpuctl_list "$@" ;;
  esac
}

# Files or nodes, or nodes with their labels.
_gpuctl_list() {
  if [ -n "$remove" ] && [ $# -gt 0 ]; then # the key is the last word
    _gpuctl_quote "${*: -1}"
    labels="$REPLY: null"
    set -- "${@:1:$#-1}"
  fi
  if [ "$takes" = labels ]; then
    for word in "$@"; do
      case "$word" in *=*) ;; *) continue ;; esac
      _gpuctl_quote "${word%%=*}"
      labels="$labels${labels:+, }$REPLY: "
      _gpuctl_unsafe "${word#*=}"
      labels="$labels$REPLY"
    done
  fi
  for word in "$@"; do
    if [ -n "$names" ] && [ ! -e "$word" ]; then
      case " $declared " in
        *" $word "*) value="Pools, quotas and nodes are deleted with the file that declares them: $summary" ;;
        *) value="To name a job, type gpuctl $names $word." ;;
      esac
      _gpuctl_error "$word: no such file. $value" || return
    fi
    case "$takes $word" in
      "labels "*=*) ;;
      labels*) _gpuctl_quote "$word" && items="$items${items:+, }$REPLY: {$labels}" ;;
      *) _gpuctl_unsafe "$word" && items="$items${items:+, }$REPLY" ;;
    esac
  done
  [ -n "$items" ] || return 0
  if [ "$takes" = labels ]; then
    [ -n "$labels" ] || return 0
    run+=(-e "{\"$into\": {$items}}")
  else
    run+=(-e "{\"$into\": [$items]}")
  fi
  set="$set $into"
}

# DIRECTION JOB:PATH PATH
_gpuctl_copy() {
  _gpuctl_set gpuctl_direction "$1"
  _gpuctl_set gpuctl_name "${2%%:*}"
  _gpuctl_set gpuctl_remote "${2#*:}"
  _gpuctl_set gpuctl_local "$3"
}

# NAME VALUE
_gpuctl_set() {
  _gpuctl_unsafe "$2"
  run+=(-e "{\"$1\": $REPLY}")
  set="$set $1"
}

# REPLY becomes the text as JSON that Ansible takes for no template.
_gpuctl_unsafe() {
  _gpuctl_quote "$1"
  REPLY="{\"__ansible_unsafe\": $REPLY}"
}

# REPLY becomes the text as a string in JSON.
_gpuctl_quote() {
  local slash="\\" quote='"' break=$'\n' tab=$'\t' return=$'\r'
  REPLY=$1
  REPLY=${REPLY//"$slash"/"$slash$slash"}
  REPLY=${REPLY//"$quote"/"$slash$quote"}
  REPLY=${REPLY//"$break"/"${slash}n"}
  REPLY=${REPLY//"$tab"/"${slash}t"}
  REPLY=${REPLY//"$return"/"${slash}r"}
  REPLY="\"$REPLY\""
}

_gpuctl_error() {
  echo "gpuctl: $1" >&2
  return 2
}

_gpuctl_options_help() {
  echo "$summary"
  echo
  for entry in $opts '--check,' '--diff,'; do
    case "$entry" in
      *,*) echo "  ${entry%%,*}" ;;
      *) echo "  ${entry%%[=+]*} VALUE" ;;
    esac
  done
}

# ---- Completion

_gpuctl_complete() {
  [ -z "${ZSH_VERSION-}" ] || emulate -L sh
  local book='' module='' args='' fixed='' takes='' into='' needs='' opts='' summary='' names='' declared=''
  local entry='' choices=''
  local current=${COMP_WORDS[COMP_CWORD]} first=${COMP_WORDS[1]-} second=''
  [ "$COMP_CWORD" -lt 3 ] || second=${COMP_WORDS[2]}
  COMPREPLY=()
  if [ "$COMP_CWORD" = 1 ]; then
    choices=$_gpuctl_first
  elif [ "$COMP_CWORD" = 2 ] && [ -n "$(_gpuctl_second "$first")" ]; then
    choices=$(_gpuctl_second "$first")
  else
    case "$current" in -*) ;; *) return ;; esac # names of files
    _gpuctl_command "$first $second" || _gpuctl_command "$first" || return
    for entry in $opts '--check,' '--diff,'; do
      choices="$choices ${entry%%[=,+]*}"
    done
  fi
  for entry in $choices; do
    case "$entry" in "$current"*) COMPREPLY+=("$entry") ;; esac
  done
}

if [ -n "${ZSH_VERSION-}" ]; then
  whence compdef >/dev/null || { autoload -Uz compinit && compinit; }
  autoload -Uz bashcompinit && bashcompinit
fi
complete -o default -F _gpuctl_complete gpuctl
