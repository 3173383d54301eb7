# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import as_sentence
from ansible_collections.runwhere.gpuctl.plugins.module_utils.redaction import forms_of, redact
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import hide_origin
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.notifications import EMAIL, notification_of
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.option_names import with_option_names
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.send_notification import (
    NOTIFY_OPTIONS,
    NOTIFY_SECRETS,
    Mailbox,
    NotSent,
    RecipientsRefused,
    is_readable_underway,
    is_this_host,
    listed_answers,
    send_mail,
    send_post,
)

_HINTS = {
    False: "Check O(url), and that the service is up.",
    True: "Check O(mail_host), O(mail_port) and O(mail_security), and that the server is up.",
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Notify a person or service of an event."""

    # So Ansible makes no temporary directory on the host.
    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        hide_origin(self._task)
        _facts, options = self.validate_argument_spec(NOTIFY_OPTIONS)
        environment: dict[str, Any] = {}
        self._compute_environment_string(environment)
        known = {**os.environ, **environment}
        options |= {name: options[name] or known.get(variable) or None for name, variable in NOTIFY_SECRETS.items()}
        secrets = {form for name in NOTIFY_SECRETS if options[name] for form in forms_of(options[name])}
        notification = notification_of(options["event"], options["message"], options["title"])
        if not notification.text:
            raise AnsibleActionFail(with_option_names("Nothing to tell. Set O(message).", self._task, task_vars))
        service = options["service"]
        if service == EMAIL and not (options["mail_to"] and options["mail_from"]):
            text = "O(mail_to) or O(mail_from) is missing. Set both for O(service=email)."
            raise AnsibleActionFail(with_option_names(text, self._task, task_vars))
        if service != EMAIL and not options["url"]:
            text = f"O(url) is missing. Set it, or the environment variable {NOTIFY_SECRETS['url']}."
            raise AnsibleActionFail(with_option_names(text, self._task, task_vars))
        is_plain = service == EMAIL and options["mail_security"] == "none" and not is_this_host(options["mail_host"])
        if is_plain and options["mail_password"]:
            text = "O(mail_password) would be sent without encryption. Set O(mail_security=starttls) or O(mail_security=tls)."
            raise AnsibleActionFail(with_option_names(text, self._task, task_vars))
        result: dict[str, Any] = {"changed": True, "service": service, "title": notification.title}
        if service != EMAIL and is_readable_underway(options["url"]):
            text = (
                "O(url) begins with http://, so the message is not encrypted, nor is the URL, which is often a secret. "
                "Use https://."
            )
            result["warnings"] = [with_option_names(text, self._task, task_vars)]
        if self._task.check_mode:
            return result
        try:
            if service == EMAIL:
                names = ("host", "port", "security", "username", "password", "from", "to")
                mailbox = Mailbox(*(options[f"mail_{name}"] for name in names))
                refused = send_mail(mailbox, notification, options)
                if refused:
                    text = f"the mail server took the mail, but not for {listed_answers(refused)}. Correct O(mail_to)."
                    result |= {
                        "refused": refused,
                        "warnings": [redact(with_option_names(text, self._task, task_vars), secrets)],
                    }
            else:
                send_post(service, options["url"], options["secret"], notification, options)
        except NotSent as problem:
            hint = "Correct O(mail_to)." if isinstance(problem, RecipientsRefused) else _HINTS[service == EMAIL]
            text = with_option_names(
                f"{service} did not take the notification: {as_sentence(str(problem))} {hint}", self._task, task_vars
            )
            return {**result, "changed": False, "failed": True, "msg": redact(text, secrets)}
        return result
