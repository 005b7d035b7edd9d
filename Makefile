# SPDX-License-Identifier: BSD-2-Clause
#
# The front door; Meson does the work. `make help` lists the targets.

BUILD ?= build
PREFIX ?= /usr/local
MESON ?= meson
SOURCES = $(shell git ls-files '*.c' '*.h')

.PHONY: all build deps demo demo-nvmf quick check check-all check-interop bench report install \
	deb dist format clean help

all: build

build: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@scripts/install-deps --check build
	@$(MESON) setup --prefix $(PREFIX) $(BUILD)

deps:
	@scripts/install-deps build test demo

demo:
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory build
	@scripts/demo $(BUILD)

demo-nvmf:
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory build
	@scripts/demo-nvmf $(BUILD)

# Two minutes of `check`.
quick:
	@scripts/install-deps build test
	@$(MAKE) --no-print-directory build
	@scripts/check $(BUILD) --suite quick

# Without a guest's packages, or without root, one test is skipped.
check:
	@scripts/install-deps build test
	@[ "$$(id -u)" != 0 ] || scripts/install-deps interop || true
	@$(MAKE) --no-print-directory build
	@scripts/check $(BUILD) --no-suite long

check-all:
	@scripts/install-deps build test programs lint aarch64
	@scripts/check-all

# As root. INTEROP: options of tests/interop/run, for a part of it.
check-interop:
	@scripts/install-deps build test interop
	@$(MAKE) --no-print-directory build
	@scripts/check-interop $(BUILD) $(INTEROP)

bench:
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory build
	@bench/run $(BUILD)

# docs/benchmarks.md. ROUNDS=1: a short one.
report:
	@scripts/install-deps build demo
	@$(MAKE) --no-print-directory build
	@bench/report $(BUILD)

# A build directory set up earlier may have been given another prefix.
install: build
	@$(MESON) configure $(BUILD) -Dprefix=$(PREFIX)
	@$(MESON) install -C $(BUILD)

# The last commit, packed: build-deb/*.deb, and build-dist/urnic-VERSION.tar.xz.
deb:
	@scripts/install-deps build package
	@scripts/deb

dist:
	@scripts/dist

format:
	@clang-format -i $(SOURCES)

clean:
	rm -rf $(BUILD) build-check build-deb build-dist

help:
	@echo 'make              build into $(BUILD)/; $(BUILD)/urnic works from there'
	@echo 'make deps         install the Debian packages that the targets below need'
	@echo 'make demo         run the perftest programs between two hosts, beside plain TCP'
	@echo 'make demo-nvmf    run NVMe over Fabrics between two hosts, over RDMA and TCP'
	@echo 'make quick        build and run the short tests (two minutes)'
	@echo 'make check        build and run the tests (a quarter of an hour)'
	@echo 'make check-all    all of that with sanitizers and both compilers; clang-tidy, cppcheck, fuzzers, aarch64'
	@echo 'make check-interop  against the Linux kernel'\''s own RDMA, in a virtual machine'
	@echo 'make bench        figures: urnic beside raw UDP and TCP sockets in the same run'
	@echo 'make report       those and more as a page with plots, beside UCX and libfabric (ROUNDS=1: short)'
	@echo 'make install      install under PREFIX ($(PREFIX)), staged in DESTDIR if set'
	@echo 'make deb          Debian packages of the last commit, in build-deb/'
	@echo 'make dist         its tarball, in build-dist/'
	@echo 'make format       clang-format every source'
	@echo 'make clean        remove the build directories'
