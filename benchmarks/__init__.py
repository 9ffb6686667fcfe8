"""Speed, side by side with others: each module has `run(quick)`, which `r2a bench` calls."""
