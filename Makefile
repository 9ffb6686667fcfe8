PYTHON ?= python3
BIN := .venv/bin
export R2A_CACHE ?= $(CURDIR)/.cache/jax

.PHONY: setup demo test golden browser check bench bench-setup results clean

.venv/.installed: pyproject.toml requirements.txt
	$(PYTHON) -m venv .venv
	# The pins are complete; MinAtar and causal_world also ask for packages that they never import.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

setup: .venv/.installed ## install everything into .venv

demo: setup ## collect, train, swap the data set, write report/index.html (about ten minutes)
	$(BIN)/r2a demo

test: setup check browser ## everything CI runs
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --durations=10

browser: ## the report's test loads it in a real browser; where none can be installed, that test says so and is left out
	@command -v chromium >/dev/null || (apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium) \
	  >/dev/null 2>&1 || echo "no chromium: the browser test will not run"

golden: setup ## the first steps of every agent, also of those that `make test` leaves out
	R2A_GOLDEN=all $(BIN)/pytest tests/test_golden.py

check: setup ## lint and types
	$(BIN)/ruff check
	$(BIN)/pyright

.venv-bench/.installed: benchmarks/requirements.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/pip install --quiet --disable-pip-version-check torch==2.13.0
	.venv-bench/bin/pip install --quiet --disable-pip-version-check -r benchmarks/requirements.txt
	touch $@

bench-setup: .venv-bench/.installed ## the libraries that `r2a bench dqn` and `replay` compare with, into .venv-bench

bench: setup ## all benchmarks, as JSON lines; with the peers if `make bench-setup` has been run
	for what in environment games dqn replay online retrieval growth; do $(BIN)/r2a bench $$what --json || exit 1; done

results: setup ## what is left of the sweeps, then their summaries, tables and figures
	$(BIN)/r2a sweep gridroboman --scale laptop
	$(BIN)/r2a sweep babyai --scale laptop
	$(BIN)/r2a sweep minatar --scale laptop
	$(BIN)/r2a sweep atari --scale laptop
	$(BIN)/r2a sweep causalworld --scale laptop

clean:
	rm -rf .venv .venv-bench .cache runs report
