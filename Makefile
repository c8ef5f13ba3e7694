# Two commands to know: `make demo` shows it, `make test` proves it. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test spark nightly check format bench docs dist clean

# The environment is made anew when pyproject.toml changes.
$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

demo: $(VENV)/.ready  ## SVMD against NORMA on a drifting digit stream: a table and a plot
	$(BIN)/kernelstream demo

# One process per core: matrix products on several threads would only get in each other's way.
test: $(VENV)/.ready  ## the whole test suite
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal

spark: $(VENV)/.ready  ## the tests of Spark, which installs PySpark and needs Java
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	$(BIN)/pytest tests/spark src/kernelstream/spark

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

# What only the documentation needs is installed by its own target, so that tests start sooner.
$(VENV)/.docs-ready: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs-ready  ## the documentation with its gallery, in site/; a warning is an error
	rm -rf docs/reference/generated  # names that are gone
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --quiet docs site
	@echo "open site/index.html"

# The wheel must bring all that it needs: the smoke test runs outside this folder.
dist: $(VENV)/.ready  ## the source archive and the wheel, installed and tried in a clean environment
	rm -rf dist build/clean
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade build
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv build/clean
	build/clean/bin/pip install --quiet --disable-pip-version-check "$$(ls dist/*.whl)[cli]"
	cp tests/smoke.py build/smoke.py
	cd build && clean/bin/python -I smoke.py && clean/bin/kernelstream --version

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
