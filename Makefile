# Works with GNU make and BSD make.
.POSIX:

PYTHON = python3
VENV = .venv
RUN = $(VENV)/bin/python
PYTEST_OPTIONS =

all: check test

# Installs everything needed to run netbisect in .venv. The files of requirements are complete, so
# pip need not resolve dependencies. Python compiles the modules on all processors; pip would use
# one, and compile the tests of each package.
venv: $(VENV)/runtime

# Runs a service with a simulated lab, from a commit to the mail about it.
demo: $(VENV)/runtime
	@$(RUN) -m netbisect.demo play

# The same, and keeps it running; `make down` stops it.
up: $(VENV)/runtime
	@$(RUN) -m netbisect.demo up

down: $(VENV)/runtime
	@$(RUN) -m netbisect.demo down

# Runs all tests except those marked `long`, four at a time on two processors: many of them wait for
# programs. These start faster where Python may keep what it compiles.
test: $(VENV)/development
	PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n 4 --dist loadgroup -m "not long" $(PYTEST_OPTIONS)

# Runs the tests marked `long`.
test-long: $(VENV)/development
	PYTHONDONTWRITEBYTECODE= $(RUN) -m pytest -n 4 --dist loadgroup -m long $(PYTEST_OPTIONS)

# Installs Crossbar, the router between several masters, in an environment of its own.
crossbar: $(VENV)/crossbar/installed

check: $(VENV)/development
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports --no-logo --cache-dir $(VENV)/import-linter
	@$(RUN) docs/take_screenshots.py --check

# Prints the lines of product, demonstration, tests and benchmarks, and the mean length of functions.
size:
	@$(PYTHON) -m benchmarks.size

bench: $(VENV)/development
	$(RUN) -m benchmarks.search

# Pins all dependencies with their hashes; needs uv and network access.
requirements:
	uv pip compile --quiet --universal --no-strip-extras --generate-hashes --python-version 3.11 \
	    --extra demo --extra postgres pyproject.toml -o requirements.txt
	uv pip compile --quiet --universal --no-strip-extras --generate-hashes --python-version 3.11 \
	    --extra dev -c requirements.txt pyproject.toml -o tests/requirements.txt
	echo crossbar | uv pip compile --quiet --universal --no-annotate --no-header \
	    --python-version 3.11 - -o tests/crossbar.txt

# Checks the dependencies for known vulnerabilities; needs uv and network access.
audit:
	uv tool run pip-audit --strict --disable-pip --require-hashes -r requirements.txt

# Takes the pictures of README.md from the demonstration; needs chromium.
screenshots: $(VENV)/runtime
	$(RUN) docs/take_screenshots.py

# Generates the manual pages from the help texts.
manual: $(VENV)/runtime
	$(RUN) docs/man/generate.py

# Generates the JSON Schemas and the OpenAPI description for a release.
schemas: $(VENV)/runtime
	mkdir -p build/schemas
	$(VENV)/bin/netbisect schema | while read -r name kind; do \
	    $(VENV)/bin/netbisect schema $$name > build/schemas/$$(echo $$kind | tr / -).json || exit 1; \
	done

# Builds a wheel in dist/.
dist: $(VENV)/runtime
	rm -rf dist
	$(RUN) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
	    --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf $(VENV) .demo build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/runtime: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	if [ "$$(uname)" = FreeBSD ]; then $(PYTHON) contrib/freebsd_venv.py $(VENV) demo postgres; \
	else $(PYTHON) -m venv $(VENV) && \
	    $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements.txt && \
	    $(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; fi
	$(RUN) -m compileall -q -j 0 -x /tests/ $(VENV)/lib || :
	$(RUN) -m compileall -q bisect reports steps store workers src
	touch $@

$(VENV)/crossbar/installed: $(VENV)/runtime tests/crossbar.txt
	$(PYTHON) -m venv $(VENV)/crossbar
	$(VENV)/crossbar/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps -r tests/crossbar.txt
	touch $@

$(VENV)/development: $(VENV)/runtime tests/requirements.txt
	if [ "$$(uname)" = FreeBSD ]; then $(PYTHON) contrib/freebsd_venv.py $(VENV) dev; \
	else $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r tests/requirements.txt; fi
	touch $@

.PHONY: all venv demo up down test test-long crossbar check size bench requirements audit manual screenshots schemas dist clean
