# SPDX-License-Identifier: BSD-2-Clause
"""The record of runs, in ConfigMaps of each namespace.

What decides whether a training runs again: ledger.py, written by ledger_store.py. What is known later: run_history.py,
written by history_writer.py, stored by run_store.py. When both are written: run_record.py.
"""
