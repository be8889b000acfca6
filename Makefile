# The commands of the repository. Every target sets up what it needs.
#
#   make demo     builds and runs sentence embeddings with a real model
#   make demo-torch  trains a small transformer by eager PyTorch, Knapper and inductor
#   make test     runs the quick suites; the last line is `N passed, N failed`
#   make check-quick  in 90 s with a warm build: structure, lit, the commands, a sample of the op cases
#   make bundle   dist/knapper-VERSION-linux-x86_64.tar.xz: a relocatable release
#   make wheel    dist/knapper-VERSION-py3-none-manylinux_2_34_x86_64.whl
#   make bench    measures the models against ONNX Runtime
#
# JOBS=N limits parallel builds. Python packages go into .venv of the checkout.

JOBS ?= $(shell nproc)
PYTHON := .venv/bin/python
export CCACHE_DIR ?= $(CURDIR)/.cache/ccache

.PHONY: demo demo-torch test check-quick prepare bundle wheel bench build models setup setup-test format clean

demo: setup
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS) --target knapper knapper_cli
	$(PYTHON) examples/embed/embed.py

demo-torch:
	setup/debian
	setup/sources
	setup/python torch
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS) --target knapper
	$(PYTHON) examples/train/train.py

test: prepare
	$(PYTHON) tests/run.py --build build/dev

check-quick: setup-test build
	$(PYTHON) tests/run.py --build build/dev --quick

# What the tests need: packages are fetched and models exported while the compiler is built.
prepare:
	setup/debian
	setup/sources
	+$(MAKE) --jobs=2 build models

bundle: setup
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target knapper knapper_rt knapper_cli
	$(PYTHON) packaging/bundle.py --build build/release --out dist
	$(PYTHON) packaging/verify.py --bundle dist/knapper-*-linux-x86_64.tar.xz

wheel: setup
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target knapper
	$(PYTHON) packaging/wheel.py --library build/release/capi/libknapper.so --out dist
	$(PYTHON) packaging/verify.py --wheel dist/knapper-*-manylinux_2_34_x86_64.whl

bench: prepare
	$(PYTHON) bench/models.py

build:
	setup/debian
	setup/sources
	cmake --preset dev
	cmake --build --preset dev -j $(JOBS)

models: setup-test
	$(PYTHON) tests/models/export.py

setup:
	setup/debian
	setup/sources
	setup/python demo

setup-test:
	setup/debian
	setup/sources
	setup/python test

format:
	git ls-files '*.cpp' '*.h' | xargs clang-format-22 -i

clean:
	rm -rf build dist
