# SPDX-License-Identifier: BSD-2-Clause
"""The built-in profiles of accelerators. Written by tools/generate_profiles.py from accelerators/*.yml: edit those."""

from __future__ import annotations

from typing import Any

# fmt: off
PROFILES: dict[str, dict[str, Any]] = {
 'nvidia': {
  'accelerator': {
   'name': 'nvidia',
   'description': 'NVIDIA GPUs, whole, as MIG partitions, time-sliced, by MPS, and shared by '
    'gpushare, HAMi or Volcano'},
  'vendor': 'NVIDIA', 'noun': 'GPUs', 'singular': 'GPU', 'resource': 'nvidia.com/gpu',
  'partitions': {
   'resource': 'nvidia.com/mig-{partition}', 'names': '[1-9]g\\.[1-9][0-9]*gb(\\.[a-z][a-z0-9]*)*',
   'noun': 'MIG partitions', 'singular': 'MIG partition'},
  'shares': {
   'aliyun': {'memory': {'resource': 'aliyun.com/gpu-mem', 'unit': 'Gi'}},
   'hami': {
    'devices': 'nvidia.com/gpu', 'memory': {'resource': 'nvidia.com/gpumem', 'unit': 'Mi', 'listed': False},
    'cores': {'resource': 'nvidia.com/gpucores', 'listed': False}, 'quota': ['limits.nvidia.com/gpumem'],
    'metrics': {
     'port': 9394,
     'labels': {
      'device': ['device_uuid', 'deviceuuid'], 'index': ['vdevice_index'],
      'namespace': ['podnamespace', 'namespace'], 'pod': ['podname', 'pod'], 'container': ['container']},
     'utilization': [
      {'name': 'hami_container_device_utilization_ratio', 'unit': 'percent'},
      {'name': 'Device_utilization_desc_of_container', 'unit': 'percent'}],
     'memory_used': [
      {'name': 'hami_vgpu_memory_used_bytes', 'unit': 'bytes'},
      {'name': 'vGPU_device_memory_usage_in_bytes', 'unit': 'bytes'}],
     'memory_total': [
      {'name': 'hami_vgpu_memory_limit_bytes', 'unit': 'bytes'},
      {'name': 'vGPU_device_memory_limit_in_bytes', 'unit': 'bytes'}],
     'idle': [{'name': 'hami_container_last_kernel_elapsed_seconds'}]}},
   'volcano': {
    'devices': 'volcano.sh/vgpu-number', 'memory': {'resource': 'volcano.sh/vgpu-memory', 'unit': 'Mi'},
    'cores': {'resource': 'volcano.sh/vgpu-cores'}, 'scheduler': 'volcano'}},
  'dra': {
   'driver': 'gpu.nvidia.com', 'values': {'type': 'gpu'}, 'product': 'productName', 'memory': 'memory',
   'partitions': {'device_class': 'mig.nvidia.com', 'values': {'type': 'mig'}, 'attribute': 'profile'}},
  'slices': 'nvidia.com/gpu.shared',
  'labels': {
   'present': ['nvidia.com/gpu.present', 'feature.node.kubernetes.io/pci-10de.present'],
   'product': 'nvidia.com/gpu.product', 'memory': {'label': 'nvidia.com/gpu.memory', 'unit': 'Mi'},
   'count': 'nvidia.com/gpu.count', 'driver': 'nvidia.com/cuda.driver-version.full',
   'runtime': 'nvidia.com/cuda.runtime-version.full', 'domain': 'nvidia.com/gpu.clique'},
  'nodes': [
   {'label': 'nvidia.com/gpu.product', 'pattern': '.*-MIG-INVALID', 'counts_as': 'broken'},
   {'label': 'nvidia.com/gpu.product', 'pattern': '.*-MIG-.*', 'counts_as': 'partitions'},
   {'label': 'nvidia.com/gpu.sharing-strategy', 'pattern': 'time-slicing|mps', 'counts_as': 'shares'},
   {'annotation': 'hami.io/node-nvidia-register', 'counts_as': 'shares'}],
  'divisions': {
   'time_slicing': {
    'label': 'nvidia.com/device-plugin.config', 'value': 'time-slicing-{value}',
    'shows': {'nvidia.com/gpu.sharing-strategy': 'time-slicing', 'nvidia.com/gpu.replicas': '{value}'}},
   'mps': {
    'label': 'nvidia.com/device-plugin.config', 'value': 'mps-{value}',
    'shows': {'nvidia.com/gpu.sharing-strategy': 'mps', 'nvidia.com/gpu.replicas': '{value}'}},
   'mig': {'label': 'nvidia.com/mig.config', 'value': '{value}', 'shows': {'nvidia.com/mig.config.state': 'success'}}},
  'faults': [
   {
    'label': 'nvidia.com/mig.config.state', 'pattern': 'failed', 'problem': 'the MIG configuration failed',
    'hint': 'See the logs of nvidia-mig-manager on the node. Pods that use the GPUs must be '
     'gone before they are partitioned.'}],
  'taints': ['nvidia.com/gpu'], 'library': {'name': 'NCCL', 'torch_backend': 'nccl'},
  'metrics': {
   'port': 9400,
   'labels': {
    'device': ['UUID'], 'partition': ['GPU_I_ID'], 'index': ['gpu'], 'model': ['modelName'],
    'node': ['Hostname', 'hostname'], 'namespace': ['namespace'], 'pod': ['pod'], 'container': ['container']},
   'utilization': [
    {'name': 'DCGM_FI_PROF_GR_ENGINE_ACTIVE', 'unit': 'ratio'}, {'name': 'DCGM_FI_DEV_GPU_UTIL', 'unit': 'percent'}],
   'efficiency': [{'name': 'DCGM_FI_PROF_PIPE_TENSOR_ACTIVE', 'unit': 'ratio'}],
   'memory_used': [{'name': 'DCGM_FI_DEV_FB_USED', 'unit': 'MiB'}],
   'memory_free': [{'name': 'DCGM_FI_DEV_FB_FREE', 'unit': 'MiB'}],
   'temperature': [{'name': 'DCGM_FI_DEV_GPU_TEMP'}], 'power': [{'name': 'DCGM_FI_DEV_POWER_USAGE'}],
   'energy': [{'name': 'DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION', 'unit': 'millijoules'}],
   'errors': [{'name': 'DCGM_FI_DEV_XID_ERRORS', 'means': 'code'}]},
  'frameworks': [
   'cuda', 'deepspeed', 'jax', 'megatron', 'mindspore', 'onnxruntime', 'paddlepaddle', 'pytorch', 'sglang',
   'tensorflow', 'tensorrt', 'triton', 'vllm'],
  'images': {
   'repositories': ['nvcr.io/*', 'docker.io/nvidia/*', 'docker.io/vllm/vllm-openai'],
   'words': ['cuda', 'cudnn', 'tensorrt']}},
 'amd': {
  'accelerator': {'name': 'amd', 'description': 'AMD Instinct GPUs, whole and partitioned'}, 'vendor': 'AMD',
  'noun': 'AMD GPUs', 'singular': 'AMD GPU', 'resource': 'amd.com/gpu',
  'partitions': {
   'resource': 'amd.com/{partition}', 'names': '(spx|dpx|tpx|qpx|cpx)_nps[1248]', 'noun': 'AMD GPU partitions',
   'singular': 'AMD GPU partition'},
  'shares': {
   'hami': {
    'devices': 'amd.com/gpu', 'memory': {'resource': 'amd.com/gpumem', 'unit': 'Mi', 'listed': False},
    'cores': {'resource': 'amd.com/gpucores', 'listed': False}}},
  'dra': {
   'driver': 'gpu.amd.com', 'values': {'type': 'amdgpu'}, 'product': 'productName', 'memory': 'memory',
   'partitions': {'values': {'type': 'amdgpu-partition'}, 'attribute': 'partitionProfile'}},
  'labels': {
   'present': ['feature.node.kubernetes.io/amd-gpu'], 'product': 'amd.com/gpu.product-name',
   'memory': {
    'label': 'amd.com/gpu.vram', 'unit': 'Gi', 'suffix': 'G',
    'sizes': [8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 288]},
   'driver': 'amd.com/gpu.driver-version'},
  'nodes': [
   {'label': 'amd.com/gpu.compute-memory-partition', 'pattern': '(?!spx_nps1$).+', 'counts_as': 'partitions'}],
  'taints': ['amd.com/gpu'], 'library': {'name': 'RCCL', 'torch_backend': 'nccl'},
  'metrics': {
   'port': 5000,
   'labels': {
    'device': ['serial_number', 'gpu_id'], 'partition': ['gpu_partition_id'], 'index': ['gpu_id'],
    'model': ['card_model'], 'node': ['hostname'], 'namespace': ['namespace'], 'pod': ['pod'],
    'container': ['container']},
   'utilization': [{'name': 'gpu_gfx_activity', 'unit': 'percent'}],
   'memory_used': [{'name': 'gpu_used_vram', 'unit': 'MiB'}],
   'memory_free': [{'name': 'gpu_free_vram', 'unit': 'MiB'}],
   'memory_total': [{'name': 'gpu_total_vram', 'unit': 'MiB'}],
   'temperature': [{'name': 'gpu_junction_temperature'}, {'name': 'gpu_edge_temperature'}],
   'power': [{'name': 'gpu_package_power'}, {'name': 'gpu_average_package_power'}],
   'energy': [{'name': 'gpu_energy_consumed', 'unit': 'microjoules'}],
   'errors': [{'name': 'gpu_ecc_uncorrect_total', 'means': 'count'}]},
  'frameworks': [
   'deepspeed', 'jax', 'megatron', 'onnxruntime', 'pytorch', 'rocm', 'sglang', 'tensorflow', 'triton', 'vllm'],
  'images': {'repositories': ['docker.io/rocm/*', 'docker.io/amdih/*'], 'words': ['rocm']},
  'unconfirmed': ['taints']},
 'ascend': {
  'accelerator': {'name': 'ascend', 'description': 'Huawei Ascend 910, 910B and A3 NPUs, whole and as static vNPUs'},
  'vendor': 'Huawei', 'noun': 'Ascend NPUs', 'singular': 'Ascend NPU', 'resource': 'huawei.com/Ascend910',
  'counts': [1, 2, 4, 8, 16],
  'partitions': {
   'resource': 'huawei.com/Ascend910-{partition}', 'names': '[1-9][0-9]*c(\\.[1-9][0-9]*cpu)?(\\.[1-9][0-9]*g)?',
   'most': 1, 'noun': 'Ascend vNPUs', 'singular': 'Ascend vNPU'},
  'shares': {
   'hami': {
    'devices': 'huawei.com/Ascend910B3',
    'memory': {'resource': 'huawei.com/Ascend910B3-memory', 'unit': 'Mi', 'listed': False},
    'cores': {'resource': 'huawei.com/Ascend910B3-core', 'listed': False}}},
  'labels': {
   'product': 'node.kubernetes.io/npu.chip.name',
   'memory': {
    'label': 'mind-cluster/npu-chip-memory', 'unit': 'Gi', 'suffix': 'G',
    'sizes': [8, 16, 21, 24, 32, 48, 64, 96, 128]},
   'driver': 'huawei.com/driver.version'},
  'taints': ['huawei.com/Ascend910'],
  'library': {'name': 'Huawei HCCL', 'torch_backend': 'hccl', 'socket_variable': 'HCCL_SOCKET_IFNAME'},
  'metrics': {
   'port': 8082,
   'labels': {
    'device': ['vdie_id', 'id'], 'index': ['id'], 'model': ['model_name'], 'namespace': ['namespace'],
    'pod': ['pod_name'], 'container': ['container_name']},
   'utilization': [{'name': 'npu_chip_info_utilization', 'unit': 'percent'}],
   'memory_used': [
    {'name': 'npu_chip_info_hbm_used_memory', 'unit': 'MiB'}, {'name': 'npu_chip_info_used_memory', 'unit': 'MiB'}],
   'memory_total': [
    {'name': 'npu_chip_info_hbm_total_memory', 'unit': 'MiB'}, {'name': 'npu_chip_info_total_memory', 'unit': 'MiB'}],
   'temperature': [{'name': 'npu_chip_info_temperature'}], 'power': [{'name': 'npu_chip_info_power'}],
   'errors': [
    {'name': 'npu_chip_info_health_status', 'means': 'healthy'},
    {'name': 'npu_chip_info_error_code', 'means': 'code'}]},
  'frameworks': [
   'cann', 'deepspeed', 'mindie', 'mindspeed', 'mindspore', 'paddlepaddle', 'pytorch', 'sglang', 'tensorflow',
   'torch-npu', 'vllm', 'vllm-ascend'],
  'images': {
   'repositories': ['quay.io/ascend/*', 'ascendhub.huawei.com/*', 'swr.cn-south-1.myhuaweicloud.com/ascendhub/*'],
   'words': ['ascend', 'cann', 'mindie', 'npu']},
  'unconfirmed': ['counts', 'taints', 'shares.hami.devices']},
 'ascend-310': {
  'accelerator': {'name': 'ascend-310', 'description': 'Huawei Ascend 310 NPUs'}, 'like': 'ascend',
  'without': ['counts', 'partitions', 'shares'], 'noun': 'Ascend 310 NPUs', 'singular': 'Ascend 310 NPU',
  'resource': 'huawei.com/Ascend310', 'taints': ['huawei.com/Ascend310'], 'unconfirmed': ['taints']},
 'ascend-310p': {
  'accelerator': {'name': 'ascend-310p', 'description': 'Huawei Ascend 310P NPUs, whole and as static vNPUs'},
  'like': 'ascend', 'without': ['counts', 'shares'], 'noun': 'Ascend 310P NPUs', 'singular': 'Ascend 310P NPU',
  'resource': 'huawei.com/Ascend310P',
  'partitions': {
   'resource': 'huawei.com/Ascend310P-{partition}', 'names': '[1-9][0-9]*c(\\.[1-9][0-9]*cpu)?(\\.[1-9][0-9]*g)?',
   'most': 1, 'noun': 'Ascend 310P vNPUs', 'singular': 'Ascend 310P vNPU'},
  'taints': ['huawei.com/Ascend310P'], 'unconfirmed': ['taints']},
 'ascend-950': {
  'accelerator': {'name': 'ascend-950', 'description': 'Huawei Ascend 950 NPUs'}, 'like': 'ascend',
  'without': ['counts', 'partitions', 'shares'], 'noun': 'Ascend 950 NPUs', 'singular': 'Ascend 950 NPU',
  'resource': 'huawei.com/npu', 'taints': ['huawei.com/npu'], 'unconfirmed': ['taints']},
 'neuron': {
  'accelerator': {'name': 'neuron', 'description': 'AWS Trainium and Inferentia devices, whole and by core'},
  'vendor': 'AWS', 'noun': 'Neuron devices', 'singular': 'Neuron device', 'resource': 'aws.amazon.com/neuron',
  'partitions': {
   'resource': 'aws.amazon.com/neuron{partition}', 'names': 'core', 'noun': 'Neuron cores',
   'singular': 'Neuron core'},
  'dra': {'driver': 'neuron.aws.com', 'product': 'instanceType'},
  'labels': {'product': 'node.kubernetes.io/instance-type'}, 'taints': ['aws.amazon.com/neuron'],
  'library': {'name': 'Neuron', 'torch_backend': 'xla'},
  'metrics': {
   'port': 8000,
   'labels': {'device': ['neuroncore'], 'index': ['neuroncore'], 'model': ['instance_type'], 'node': ['instance_id']},
   'utilization': [{'name': 'neuroncore_utilization_ratio', 'unit': 'ratio'}],
   'memory_used': [
    {'name': 'neuron_runtime_memory_used_bytes', 'where': {'memory_location': 'neuron_device'}, 'unit': 'bytes'}]},
  'frameworks': ['jax', 'neuron', 'pytorch', 'torch-neuronx', 'vllm'],
  'images': {'repositories': ['public.ecr.aws/neuron/*'], 'words': ['neuron', 'neuronx']},
  'unconfirmed': ['library.torch_backend', 'metrics.labels']},
 'cambricon': {
  'accelerator': {'name': 'cambricon', 'description': 'Cambricon MLUs, whole, as MIM instances, and shared'},
  'vendor': 'Cambricon', 'noun': 'MLUs', 'singular': 'MLU', 'resource': 'cambricon.com/mlu',
  'partitions': {
   'resource': 'cambricon.com/mlu.mim-{partition}', 'names': '[1-9][0-9]*m\\.[1-9][0-9]*gb', 'noun': 'MIM instances',
   'singular': 'MIM instance'},
  'shares': {
   'smlu': {
    'memory': {'resource': 'cambricon.com/mlu.smlu.vmemory', 'unit': '256Mi'},
    'cores': {'resource': 'cambricon.com/mlu.smlu.vcore'}},
   'hami': {
    'devices': 'cambricon.com/vmlu', 'memory': {'resource': 'cambricon.com/mlu.smlu.vmemory', 'unit': '256Mi'},
    'cores': {'resource': 'cambricon.com/mlu.smlu.vcore'}}},
  'slices': 'cambricon.com/mlu.share', 'labels': {'product': 'Model', 'driver': 'DriverVersion'},
  'taints': ['cambricon.com/mlu'], 'library': {'name': 'CNCL', 'torch_backend': 'cncl'},
  'metrics': {
   'labels': {
    'device': ['uuid'], 'index': ['mlu'], 'model': ['model'], 'node': ['node'], 'namespace': ['namespace'],
    'pod': ['pod'], 'container': ['container']},
   'owner': {'name': 'mlu_container'}, 'utilization': [{'name': 'mlu_utilization', 'unit': 'percent'}],
   'efficiency': [{'name': 'mlu_tensor_util', 'unit': 'percent'}],
   'memory_used': [{'name': 'mlu_memory_used', 'unit': 'bytes'}],
   'memory_total': [{'name': 'mlu_memory_total', 'unit': 'bytes'}], 'temperature': [{'name': 'mlu_temperature'}],
   'power': [{'name': 'mlu_power_usage'}], 'errors': [{'name': 'mlu_xid_error_count', 'means': 'count'}]},
  'frameworks': ['pytorch', 'tensorflow', 'torch-mlu', 'vllm'], 'images': {'words': ['cambricon', 'mlu']},
  'unconfirmed': ['taints', 'library.torch_backend', 'metrics', 'shares.smlu.memory.unit']},
 'gaudi': {
  'accelerator': {'name': 'gaudi', 'description': 'Intel Gaudi accelerators'}, 'vendor': 'Intel',
  'noun': 'Gaudi accelerators', 'singular': 'Gaudi accelerator', 'resource': 'habana.ai/gaudi',
  'counts': [1, 2, 4, 8], 'dra': {'driver': 'gaudi.intel.com', 'product': 'model'}, 'taints': ['habana.ai/gaudi'],
  'library': {'name': 'Gaudi HCCL', 'torch_backend': 'hccl', 'socket_variable': 'HCCL_SOCKET_IFNAME'},
  'metrics': {
   'port': 41611,
   'labels': {'device': ['UUID'], 'namespace': ['namespace'], 'pod': ['pod'], 'container': ['container']},
   'utilization': [{'name': 'habanalabs_utilization', 'unit': 'percent'}],
   'memory_used': [{'name': 'habanalabs_memory_used_bytes', 'unit': 'bytes'}],
   'memory_free': [{'name': 'habanalabs_memory_free_bytes', 'unit': 'bytes'}],
   'memory_total': [{'name': 'habanalabs_memory_total_bytes', 'unit': 'bytes'}],
   'temperature': [{'name': 'habanalabs_temperature_onchip'}],
   'power': [{'name': 'habanalabs_power_mW', 'unit': 'milliwatts'}]},
  'frameworks': ['deepspeed', 'optimum-habana', 'pytorch', 'vllm'],
  'images': {'repositories': ['vault.habana.ai/*'], 'words': ['gaudi', 'habana', 'habanalabs']},
  'unconfirmed': ['counts', 'taints', 'labels.product', 'metrics.labels']},
 'tpu': {
  'accelerator': {'name': 'tpu', 'description': 'Google Cloud TPU chips'}, 'vendor': 'Google', 'noun': 'TPU chips',
  'singular': 'TPU chip', 'resource': 'google.com/tpu', 'counts': [1, 4, 8],
  'labels': {'product': 'cloud.google.com/gke-tpu-accelerator'}, 'taints': ['google.com/tpu'],
  'library': {'name': 'XLA', 'torch_backend': 'xla'},
  'frameworks': ['jax', 'pytorch', 'tensorflow', 'torch-xla', 'vllm'],
  'images': {
   'repositories': ['us-docker.pkg.dev/cloud-tpu-images/*', 'us-central1-docker.pkg.dev/tpu-pytorch-releases/*'],
   'words': ['tpu']},
  'unconfirmed': ['counts']},
 'hygon': {
  'accelerator': {'name': 'hygon', 'description': 'Hygon DCUs, whole and shared'}, 'vendor': 'Hygon', 'noun': 'DCUs',
  'singular': 'DCU', 'resource': 'hygon.com/dcu',
  'shares': {
   'hami': {
    'devices': 'hygon.com/dcunum', 'memory': {'resource': 'hygon.com/dcumem', 'unit': 'Mi', 'listed': False},
    'cores': {'resource': 'hygon.com/dcucores', 'listed': False},
    'metrics': {
     'port': 16080,
     'labels': {
      'device': ['device_id'], 'partition': ['vdcu_minor_number'], 'model': ['name'], 'node': ['node'],
      'namespace': ['dcu_pod_namespace'], 'pod': ['dcu_pod_name'], 'container': ['container']},
     'utilization': [{'name': 'vdcu_utilizationrate', 'unit': 'percent'}],
     'memory_used': [{'name': 'vdcu_usedmemory_bytes', 'unit': 'bytes'}], 'temperature': [{'name': 'vdcu_temp'}]}}},
  'slices': 'hygon.com/dcu-share', 'taints': ['hygon.com/dcu'],
  'library': {'name': 'DUCCL', 'torch_backend': 'nccl'},
  'metrics': {
   'port': 16080,
   'labels': {
    'device': ['device_id'], 'index': ['minor_number'], 'model': ['name'], 'node': ['node'],
    'namespace': ['dcu_pod_namespace'], 'pod': ['dcu_pod_name'], 'container': ['container']},
   'utilization': [{'name': 'dcu_utilizationrate', 'unit': 'percent'}],
   'memory_used': [{'name': 'dcu_usedmemory_bytes', 'unit': 'bytes'}],
   'memory_total': [{'name': 'dcu_memorycap_bytes', 'unit': 'bytes'}], 'temperature': [{'name': 'dcu_temp'}],
   'power': [{'name': 'dcu_power_usage'}], 'errors': [{'name': 'dcu_ue_count', 'means': 'count'}]},
  'frameworks': ['deepspeed', 'dtk', 'paddlepaddle', 'pytorch', 'vllm'],
  'images': {'words': ['dcu', 'dtk', 'hygon']},
  'unconfirmed': ['resource', 'slices', 'taints', 'library.torch_backend', 'metrics', 'images']},
 'iluvatar': {
  'accelerator': {'name': 'iluvatar', 'description': 'Iluvatar CoreX GPUs, whole and shared'}, 'vendor': 'Iluvatar',
  'noun': 'Iluvatar GPUs', 'singular': 'Iluvatar GPU', 'resource': 'iluvatar.com/gpu',
  'shares': {
   'hami': {
    'devices': 'iluvatar.ai/BI-V150-vgpu',
    'memory': {'resource': 'iluvatar.ai/BI-V150.vMem', 'unit': '256Mi', 'listed': False},
    'cores': {'resource': 'iluvatar.ai/BI-V150.vCore', 'listed': False}}},
  'taints': ['iluvatar.com/gpu'], 'library': {'name': 'IXCCL', 'torch_backend': 'nccl'},
  'metrics': {
   'port': 32021,
   'labels': {
    'device': ['uuid'], 'index': ['gpu'], 'model': ['name'], 'node': ['node_name'], 'namespace': ['namespace'],
    'pod': ['pod'], 'container': ['container']},
   'utilization': [{'name': 'ix_gpu_utilization', 'unit': 'percent'}],
   'memory_used': [{'name': 'ix_mem_used', 'unit': 'MiB'}], 'memory_free': [{'name': 'ix_mem_free', 'unit': 'MiB'}],
   'memory_total': [{'name': 'ix_mem_total', 'unit': 'MiB'}],
   'temperature': [{'name': 'ix_gpu_temperature'}, {'name': 'ix_temperature'}],
   'power': [{'name': 'ix_power_usage'}], 'errors': [{'name': 'ix_xid_errors', 'means': 'code'}]},
  'frameworks': ['corex', 'paddlepaddle', 'pytorch', 'vllm'], 'images': {'words': ['corex', 'iluvatar']},
  'unconfirmed': ['taints', 'library.torch_backend', 'shares.hami', 'images']},
 'intel-gpu': {
  'accelerator': {'name': 'intel-gpu', 'description': 'Intel GPUs with the kernel driver i915'}, 'vendor': 'Intel',
  'noun': 'Intel GPUs', 'singular': 'Intel GPU', 'resource': 'gpu.intel.com/i915',
  'dra': {'driver': 'gpu.intel.com', 'product': 'model', 'memory': 'memory'},
  'labels': {'product': 'gpu.intel.com/product', 'count': 'gpu.intel.com/device.count'},
  'taints': ['gpu.intel.com/i915'], 'library': {'name': 'oneCCL', 'torch_backend': 'xccl'},
  'metrics': {
   'labels': {
    'device': ['uuid'], 'partition': ['sub_dev'], 'model': ['dev_name'], 'node': ['node'],
    'namespace': ['kube_namespace'], 'pod': ['kube_pod'], 'container': ['kube_container']},
   'utilization': [{'name': 'xpum_engine_group_ratio', 'where': {'type': 'compute'}, 'unit': 'ratio'}],
   'memory_used': [{'name': 'xpum_memory_used_bytes', 'unit': 'bytes'}],
   'temperature': [{'name': 'xpum_temperature_celsius', 'where': {'location': 'gpu'}}],
   'power': [{'name': 'xpum_power_watts', 'where': {'location': 'gpu'}}], 'energy': [{'name': 'xpum_energy_joules'}]},
  'frameworks': ['deepspeed', 'oneapi', 'openvino', 'pytorch', 'tensorflow', 'vllm'],
  'images': {'repositories': ['docker.io/intel/*'], 'words': ['oneapi', 'openvino', 'xpu']},
  'unconfirmed': ['taints', 'library.torch_backend', 'metrics']},
 'intel-xe': {
  'accelerator': {'name': 'intel-xe', 'description': 'Intel GPUs with the kernel driver xe'}, 'like': 'intel-gpu',
  'resource': 'gpu.intel.com/xe', 'taints': ['gpu.intel.com/xe']},
 'kunlunxin': {
  'accelerator': {'name': 'kunlunxin', 'description': 'Kunlunxin XPUs, whole and shared'}, 'vendor': 'Kunlunxin',
  'noun': 'Kunlunxin XPUs', 'singular': 'Kunlunxin XPU', 'resource': 'kunlunxin.com/xpu', 'counts': [1, 2, 4, 8],
  'shares': {
   'hami': {
    'devices': 'kunlunxin.com/vxpu',
    'memory': {'resource': 'kunlunxin.com/vxpu-memory', 'unit': 'Mi', 'sizes': [24576, 49152], 'listed': False}}},
  'taints': ['kunlunxin.com/xpu'], 'library': {'name': 'XCCL'},
  'frameworks': ['paddlepaddle', 'pytorch', 'xpytorch'], 'images': {'words': ['kunlun', 'kunlunxin']},
  'unconfirmed': ['taints', 'images', 'metrics', 'library.torch_backend']},
 'metax': {
  'accelerator': {'name': 'metax', 'description': 'MetaX GPUs, whole and shared'}, 'vendor': 'MetaX',
  'noun': 'MetaX GPUs', 'singular': 'MetaX GPU', 'resource': 'metax-tech.com/gpu',
  'shares': {
   'hami': {
    'devices': 'metax-tech.com/sgpu',
    'memory': {'resource': 'metax-tech.com/vmemory', 'unit': 'Gi', 'listed': False},
    'cores': {'resource': 'metax-tech.com/vcore', 'listed': False}}},
  'labels': {
   'product': 'metax-tech.com/gpu.product',
   'memory': {'label': 'metax-tech.com/gpu.memory', 'unit': 'Gi', 'suffix': 'GB', 'sizes': [16, 32, 48, 64, 96, 128]}},
  'taints': ['metax-tech.com/gpu'], 'library': {'name': 'MCCL'},
  'metrics': {
   'port': 8000,
   'labels': {'device': ['uuid'], 'namespace': ['namespace'], 'pod': ['pod'], 'container': ['container']},
   'utilization': [{'name': 'mx_gpu_usage', 'unit': 'percent'}],
   'memory_used': [{'name': 'mx_memory_used', 'where': {'type': 'vram'}, 'unit': 'KiB'}],
   'memory_total': [{'name': 'mx_memory_total', 'where': {'type': 'vram'}, 'unit': 'KiB'}],
   'temperature': [{'name': 'mx_chip_hotspot_temp'}], 'power': [{'name': 'mx_board_power', 'unit': 'milliwatts'}]},
  'frameworks': ['maca', 'pytorch', 'vllm'], 'images': {'words': ['maca', 'metax']},
  'unconfirmed': ['labels', 'taints', 'metrics', 'images', 'library.torch_backend']},
 'moore-threads': {
  'accelerator': {'name': 'moore-threads', 'description': 'Moore Threads GPUs, whole and shared'},
  'vendor': 'Moore Threads', 'noun': 'Moore Threads GPUs', 'singular': 'Moore Threads GPU',
  'resource': 'mthreads.com/gpu',
  'shares': {
   'hami': {
    'devices': 'mthreads.com/vgpu',
    'memory': {'resource': 'mthreads.com/sgpu-memory', 'unit': '512Mi', 'listed': False},
    'cores': {'resource': 'mthreads.com/sgpu-core', 'listed': False}}},
  'taints': ['mthreads.com/gpu'], 'library': {'name': 'MUSACCL', 'torch_backend': 'mccl'},
  'frameworks': ['musa', 'pytorch', 'torch-musa', 'vllm'], 'images': {'words': ['mthreads', 'musa']},
  'unconfirmed': ['taints', 'library.torch_backend', 'images', 'metrics']}}
