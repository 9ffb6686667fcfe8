"""One module per command of the command line: its options, and what people see while it runs."""
