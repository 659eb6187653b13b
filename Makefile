# The commands of README.md's quick start, and what a contributor needs.

CARGO ?= cargo
# As root, cargo may be installed for another user only.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin
export NETTUNE_REVISION ?= $(shell git rev-parse --short HEAD 2>/dev/null || echo unknown)

.PHONY: run test lint bench bless fixture tools audit

# Builds the exporter and serves until Ctrl-C; its first line of log has the URL.
run:
	$(CARGO) build --release --locked
	@exec ./target/release/nettune serve

# Installs what is missing, checks style and licences, runs every test.
test: tools lint
	$(CARGO) test --locked --doc
	$(CARGO) test --locked --lib --bins --tests

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" $(CARGO) doc --locked --no-deps --document-private-items
	$(CARGO) deny --log-level error check bans licenses sources
	$(CARGO) run --quiet --locked -- render --output . --check

# Measures what docs/performance.md states, and prints its tables.
bench: tools
	$(CARGO) bench --locked

# Rewrites the expected scrapes and the rendered documents; read the difference.
bless:
	$(CARGO) run --quiet --locked -- render --output .
	BLESS=1 $(CARGO) test --locked --test nettune golden::scrapes_are_as_reviewed

# Captures the running kernel: make fixture DIR=tests/fixtures/NAME
fixture:
	@test -n "$(DIR)" || { echo "which directory? make fixture DIR=tests/fixtures/NAME" >&2; exit 1; }
	$(CARGO) run --locked --example capture -- $(DIR)

# What tests and benches run besides the exporter.
tools:
	@sh tests/tools.sh

# Known vulnerabilities of dependencies; fetches a database from the network.
audit:
	$(CARGO) deny check advisories
