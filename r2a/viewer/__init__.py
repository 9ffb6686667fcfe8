"""What the agent did and what it read, as a web page and as plots."""
