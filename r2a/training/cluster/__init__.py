"""The same run with its parts in processes of their own, on a Ray cluster."""
