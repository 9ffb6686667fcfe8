"""The replay of sequences that an agent learns from while it acts: `sequences.py`, and what is inside it."""
