# SPDX-License-Identifier: BSD-2-Clause
"""batch/v1 CronJob, without a controller.

Sources: pkg/apis/batch/v1/defaults.go (SetDefaults_CronJob), pkg/apis/batch/validation/validation.go
(ValidateCronJobCreate, validateCronJobSpec), github.com/robfig/cron/v3/parser.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds.pod_validation import validate_template
from kubesim.kinds.podspec import default_template
from kubesim.kinds.strategy import Object, Strategy

LONGEST_NAME = 52  # The names of its jobs end with eleven characters more.
_FIELDS = 5
_POLICIES = ("Allow", "Forbid", "Replace")


class CronJobStrategy(Strategy):
    kind = "CronJob"
    generation_of = "spec"
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        job = spec.setdefault("jobTemplate", {}).setdefault("spec", {})
        default_template(job.setdefault("template", {}))

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        if len(obj["metadata"].get("name") or "") > LONGEST_NAME:
            name = obj["metadata"]["name"]
            yield field.invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")
        spec = obj["spec"]
        schedule = spec.get("schedule") or ""
        if not schedule:
            yield field.required("spec.schedule", "")
        elif not schedule.startswith("@") and len(schedule.split()) != _FIELDS:
            found = f"found {len(schedule.split())}: [{' '.join(schedule.split())}]"
            yield field.invalid("spec.schedule", schedule, f"expected exactly {_FIELDS} fields, {found}")
        if spec["concurrencyPolicy"] not in _POLICIES:
            yield field.not_supported("spec.concurrencyPolicy", spec["concurrencyPolicy"], _POLICIES)
        template = spec["jobTemplate"]["spec"]["template"]
        yield from validate_template(template, "spec.jobTemplate.spec.template")
        restart = template["spec"].get("restartPolicy")
        if restart == "Always":
            path = "spec.jobTemplate.spec.template.spec.restartPolicy"
            yield field.required(path, 'valid values: "OnFailure", "Never"')
