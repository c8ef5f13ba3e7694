# Two commands to know: `make demo` shows it, `make test` proves it. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test nightly check format bench docs clean

# The environment is made anew when pyproject.toml changes.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.ready  ## SVMD against NORMA on a drifting digit stream: a table and a plot
	$(BIN)/kernelstream demo

test: $(VENV)/.ready  ## the whole test suite
	$(BIN)/pytest --numprocesses auto

nightly: $(VENV)/.ready  ## proofs that take long: many kills, changed files, long streams
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[nightly]'
	$(BIN)/pytest -m nightly

check: $(VENV)/.ready  ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ready  ## speed as ratios, measured side by side
	$(BIN)/python benchmarks/run.py $(ONLY)

docs: $(VENV)/.ready  ## the reference of every public name, in site/
	$(BIN)/pdoc --docformat numpy --math --output-directory site kernelstream '!kernelstream.cli.app'

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
