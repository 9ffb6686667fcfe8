"""Learning while acting."""
