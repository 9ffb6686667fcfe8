"""Sec. 3.4: behaviour cloning of continuous control, from a single-task or a multi-task retrieval data set."""
