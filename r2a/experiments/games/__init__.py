"""Sec. 3.1: learning while acting, on Atari and, for two cores, MinAtar."""
