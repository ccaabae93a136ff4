"""`groupshift serve`: a page of this machine to drop files into, from two files to shares and back through updates.

The page's process keeps jobs in a folder and answers the browser. It reads no table: every look at a file, fit, update
and prediction is a command in a process of its own (`job_process`), one at a time (`work_queue`).
"""
