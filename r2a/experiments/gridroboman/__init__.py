"""Sec. 3.2: multi-task offline learning with a task-specific retrieval data set."""
