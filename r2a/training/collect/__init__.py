"""Make offline data sets: one module per environment."""
