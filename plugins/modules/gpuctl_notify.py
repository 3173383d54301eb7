#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_notify
short_description: Send a notification about an event
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Posts a message to a webhook, Slack, DingTalk, Feishu (Lark) or WeCom, or sends it by mail. Rulebooks use it for the events of
    C(runwhere.gpuctl.jobs) and C(runwhere.gpuctl.alert), and the playbook C(runwhere.gpuctl.submit) for the end of a wait.
  - The message is plain text for every service. Nothing in the name of a job or in its log acts as markup, or mentions anybody.
  - What is too long for the service is cut. What a service refuses for now (HTTP status 429 or 5xx, a broken connection) is sent again.
  - Credentials belong in the environment, where neither a playbook nor a rulebook shows them.
options:
  service:
    description:
      - Who takes the message.
      - V(webhook) posts JSON with C(title), C(message), C(sent_at) and C(event).
    type: str
    choices: [webhook, slack, dingtalk, feishu, wecom, email]
    default: webhook
  url:
    description:
      - URL to post to. That of Slack, DingTalk, Feishu and WeCom is a secret.
      - The task warns of one that begins with C(http://), unless it is an address of this host.
      - If unset, E(GPUCTL_NOTIFY_URL) is used.
    type: str
  secret:
    description:
      - Key of the signature (HMAC-SHA256) that proves who sent the message.
      - V(service=webhook) signs the body. The headers C(X-Signature) and C(X-Hub-Signature-256) have C(sha256=) and the
        signature as hexadecimal digits.
      - V(service=dingtalk) and V(service=feishu) sign as these services demand. V(service=slack) and V(service=wecom) have no signatures.
      - If unset, E(GPUCTL_NOTIFY_SECRET) is used.
    type: str
  event:
    description:
      - The event, of which C(message) is the message, followed by C(last_lines), the last lines of a log.
      - In a playbook that a rulebook runs, it is C(ansible_eda.event).
    type: dict
    default: {}
  message:
    description: Message to send instead of that of O(event).
    type: str
  title:
    description:
      - First line, or subject of a mail. The default is the type of the event and what it is about.
      - Robots of DingTalk and Feishu may demand a keyword. Write it here.
    type: str
  mail_host:
    description: SMTP server for V(service=email).
    type: str
    default: localhost
  mail_port:
    description: Port of the SMTP server. The default is 587 with STARTTLS, 465 with TLS, and 25 without.
    type: int
  mail_security:
    description: How the connection to the SMTP server is encrypted. V(none) is refused with O(mail_password), unless the server is this host.
    type: str
    choices: [starttls, tls, none]
    default: starttls
  mail_username:
    description: User at the SMTP server.
    type: str
  mail_password:
    description: Password of O(mail_username). If unset, E(GPUCTL_NOTIFY_PASSWORD) is used.
    type: str
  mail_from:
    description: Sender of the mail.
    type: str
  mail_to:
    description: Recipients of the mail.
    type: list
    elements: str
  ca_cert:
    description: File with the certificates of the authorities that are trusted.
    type: path
  validate_certs:
    description: Whether to check the certificate of the server.
    type: bool
    default: true
  timeout:
    description: Seconds that each attempt may take, until the last byte of the answer.
    type: int
    default: 10
  retries:
    description: How often to try again.
    type: int
    default: 3
extends_documentation_fragment:
  - runwhere.gpuctl.attributes.controller
seealso:
  - module: runwhere.gpuctl.gpuctl_job
attributes:
  check_mode:
    description: Sends nothing in check mode.
    support: full
"""

EXAMPLES = r"""
---
- name: Tell Slack of an event of a rulebook
  runwhere.gpuctl.gpuctl_notify:
    service: slack
    url: "{{ slack_webhook }}"
    event: "{{ ansible_eda.event }}"

- name: Post a signed message
  runwhere.gpuctl.gpuctl_notify:
    url: https://hooks.example.com/gpu
    secret: "{{ hook_secret }}"
    title: Weekly figures
    message: The team vision has used 1200 GPU-hours.

- name: Send a mail
  runwhere.gpuctl.gpuctl_notify:
    service: email
    mail_host: smtp.example.com
    mail_username: gpu
    mail_from: gpu@example.com
    mail_to: [ml@example.com]
    event: "{{ ansible_eda.event }}"
"""

RETURN = r"""
service:
  description: The service that received the notification.
  returned: always
  type: str
  sample: slack
title:
  description: First line of the message.
  returned: always
  type: str
  sample: job.failed llm
refused:
  description: What the mail server said of recipients that it refused, by recipient, while it took the mail for others.
  returned: O(service=email), when some were refused
  type: dict
  sample:
    gone@example.com: 550 no such user
msg:
  description: Why the message was not taken.
  returned: failure
  type: str
  sample: "slack did not take the notification: HTTP status 404: 'no_service'"
"""
