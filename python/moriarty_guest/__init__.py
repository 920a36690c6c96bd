"""Runs the processes of a Python connector as greenlets, under a world that lives in the parent process.

Read `kernel.py` first (threads, blocking, preemption), then `loader.py` (a module set for each simulated process) and
`serve.py` (what the parent may ask for). docs/GUESTS.md of the package tells the whole.
"""
