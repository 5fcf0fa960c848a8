# Works with GNU make and BSD make.
.POSIX:

PYTHON = python3
VENV = .venv
RUN = $(VENV)/bin/python

all: check test

# All that is needed to run it, in .venv.
venv: $(VENV)/runtime

# A night in a simulated lab: from a commit to the mail that names it.
demo: $(VENV)/runtime
	@$(RUN) -m netbisect.demo play

# The same, left running for a look with a browser; `make down` ends it.
up: $(VENV)/runtime
	@$(RUN) -m netbisect.demo up

down: $(VENV)/runtime
	@$(RUN) -m netbisect.demo down

# Without compiled modules every command that a test runs would compile them all again.
test: $(VENV)/development
	unset PYTHONDONTWRITEBYTECODE; $(RUN) -m pytest -n 2 --dist loadgroup -m "not long"

# Those too that take minutes and show what others show in parts.
test-long: $(VENV)/development
	unset PYTHONDONTWRITEBYTECODE; $(RUN) -m pytest -n 2 --dist loadgroup

check: $(VENV)/development
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

bench: $(VENV)/development
	$(RUN) -m benchmarks.search

# The exact versions that are installed, with their hashes; needs uv and a network.
requirements:
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	    --extra demo --extra postgres pyproject.toml -o requirements.txt
	uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	    --extra dev -c requirements.txt pyproject.toml -o tests/requirements.txt

# Whether anything that is installed has a known hole; needs uv and a network.
audit:
	uv tool run pip-audit --strict --disable-pip --require-hashes -r requirements.txt

# The manual pages, from what the command lines say of themselves.
manual: $(VENV)/runtime
	$(RUN) docs/man/generate.py

clean:
	rm -rf $(VENV) .demo build .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/runtime: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/development: $(VENV)/runtime tests/requirements.txt
	$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.txt
	touch $@

.PHONY: all venv demo up down test test-long check bench requirements audit manual clean
