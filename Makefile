# Two commands to know: `make demo` shows it, `make test` proves it. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The supported versions of Python that are here and start, the lowest first.
PYTHONS = $(foreach v,3.11 3.12 3.13 3.14,$(shell python$(v) --version >/dev/null 2>&1 && echo python$(v)))

.PHONY: demo test lowest spark nightly golden check format lock bench docs dist clean

# The environment is made again when a pyproject.toml changes. Both distributions are installed.
$(VENV)/.ready: pyproject.toml lab/pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]' --editable lab
	touch $@

demo: $(VENV)/.ready  ## the committee, SVMD and NORMA on drifting digits: a table and a plot
	$(BIN)/kernelstream demo

# One process per core: matrix products on several threads would only get in each other's way.
test: $(VENV)/.ready  ## the whole test suite
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest --numprocesses auto --dist worksteal

# uv takes the lowest version that pyproject.toml allows of everything that it names. Packages as old
# as these warn of their own use of others, so that warnings are no errors here.
LOWEST := build/lowest/bin
TESTED_ON_LOWEST := tests/test_datasets.py tests/test_kernels.py tests/test_label_kernels.py \
	tests/test_persistence.py tests/estimators/test_tables.py tests/estimators/test_sparse.py \
	tests/serve/test_http.py

lowest: $(VENV)/.ready  ## a selection of the tests with the oldest supported versions of all packages
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear --python $(firstword $(PYTHONS) $(PYTHON)) build/lowest
	$(BIN)/uv pip install --quiet --python $(LOWEST)/python --resolution lowest-direct --editable '.[test]'
	$(LOWEST)/pytest --override-ini filterwarnings=default --disable-warnings $(TESTED_ON_LOWEST)

spark: $(VENV)/.ready  ## the tests of Spark, which installs PySpark and needs Java
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev,spark]'
	$(BIN)/pytest tests/spark src/kernelstream/spark

nightly: $(VENV)/.ready  ## proofs that take long: many kills, changed files, long streams
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[nightly]'
	$(BIN)/pytest -m nightly

# Pages are in British English with -ize. What stands in code or in a link is left alone.
HOUSE_SPELLING = --dictionary docs/spelling.txt --ignore-multiline-regex '```.*?```' \
	--ignore-regex '`[^`]*`|\]\([^)]*\)' $(wildcard *.md lab/*.md docs/*.md docs/*/*.md .github/*/*.md)

golden: $(VENV)/.ready  ## the files of tests/data, as this version writes them
	$(BIN)/python -m tests.golden

check: $(VENV)/.ready  ## format, lint, types, import rules, spelling
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/codespell $(HOUSE_SPELLING)

format: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Hosted runs install these versions; PIP_CONSTRAINT=requirements/dev.txt does so here. Ours are not
# in the file, and the names of package indexes never are.
lock: $(VENV)/.ready  ## the newest versions of all packages for development, in requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-header --no-annotate \
		--no-emit-index-url --no-emit-find-links --no-emit-package kernelstream \
		--no-emit-package kernelstream-lab --output-file requirements/dev.txt requirements/dev.in

bench: $(VENV)/.ready  ## speed as ratios, measured side by side
	INTO=$(INTO) $(BIN)/python benchmarks/run.py $(ONLY)

# What only the documentation needs is installed by its own target, so that tests start sooner.
$(VENV)/.docs-ready: $(VENV)/.ready
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

docs: $(VENV)/.docs-ready  ## the documentation with its gallery, in site/; a warning is an error
	rm -rf docs/reference/generated  # names that are gone
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --quiet docs site
	@echo "open site/index.html"

# The wheels must bring all that they need: the smoke test runs outside this folder, first without
# the lab, then with it.
dist: $(VENV)/.ready  ## the archives and wheels, tried in a clean environment of every Python
	rm -rf dist build/clean
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade build
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m build --outdir dist lab
	mkdir -p build/clean && cp tests/smoke.py build/clean/smoke.py
	set -e; for python in $(or $(PYTHONS),$(PYTHON)); do \
		$$python -m venv build/clean/$$python; \
		build/clean/$$python/bin/pip install --quiet --disable-pip-version-check "$$(ls dist/kernelstream-*.whl)[cli]"; \
		(cd build/clean && $$python/bin/python --version && $$python/bin/python -I smoke.py && \
			$$python/bin/kernelstream --version); \
		build/clean/$$python/bin/pip install --quiet --disable-pip-version-check dist/kernelstream_lab-*.whl; \
		(cd build/clean && $$python/bin/kernelstream reproduce --list >/dev/null); \
	done

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
