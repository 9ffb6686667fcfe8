"""Sec. 3.3: multi-task offline learning with a multi-task retrieval data set."""
