# The front door: every target sets up what it needs and says what is missing.

.DEFAULT_GOAL := help
.PHONY: help demo test testbed check bench oracles fuzz fuzz-parsers gitea simulate mutate clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: need-cargo ## Tiphys at work, in one process without a cluster; Ctrl-C removes everything
	@cargo build --locked -p tiphys
	@$${CARGO_TARGET_DIR:-target}/debug/tiphys demo $(DEMO_ARGS)

test: need-testbed ## all tests, end-to-end ones against a real control plane
	@hack/test $(TEST_ARGS)

testbed: need-testbed ## the programs of the real control plane (etcd, kube-apiserver, kwok, …)
	@hack/testbed/testbed build

check: need-cargo ## formatting, lints, licences and advisories
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --locked check; else echo "cargo deny check: skipped, cargo-deny is not installed (cargo install cargo-deny)"; fi
	cargo test --locked -p tiphys --test it golden
	@hack/need patch
	@hack/mutate --check

bench: need-testbed ## the ruler: workloads against a release build
	@bench/run $(BENCH_ARGS)

oracles: need-cargo ## the original Go libraries as a program (target/oracle), for differential tests
	@hack/need go
	@mkdir -p target
	cd hack/oracle && go build -o ../../target/oracle .
	cd hack/oracle/charts && go build -o ../../../target/oracle-charts .

fuzz: oracles ## generated inputs to the original libraries and to tiphys; FUZZ_ARGS="jsonpath --inputs 1000000"
	cargo build --release --locked -p tiphys-go --example templates
	@case "$(FUZZ_ARGS)" in template\ *|template) ;; *) set -x; cargo build --release --locked --bin tiphys ;; esac
	hack/oracle/fuzz $(FUZZ_ARGS)

fuzz-parsers: need-cargo ## damaged charts, overlays, programs, manifests and messages to their readers; FUZZ_SECONDS=1440 for each
	cargo build --release --locked -p tiphys-render --example fuzz-sources
	$${CARGO_TARGET_DIR:-target}/release/examples/fuzz-sources --seconds $${FUZZ_SECONDS:-60} $(FUZZ_TARGETS)
	cargo build --release --locked -p tiphys-plugin --example fuzz-plugins
	$${CARGO_TARGET_DIR:-target}/release/examples/fuzz-plugins --seconds $${FUZZ_SECONDS:-60}

gitea: need-cargo ## generators that ask an SCM provider, against a real Gitea, which is built first; needs Go
	TIPHYS_TEST_GITEA=$$(hack/gitea) cargo test -p tiphys-scm --test it gitea_server -- --nocapture

simulate: need-cargo ## whole installations from seeds, with faults; SEEDS=100000, SIMULATE_ARGS="--from 7 --crash-points"
	cargo build --release --locked -p tiphys --bin tiphys
	@$${CARGO_TARGET_DIR:-target}/release/tiphys simulate --seeds $${SEEDS:-1000} $(SIMULATE_ARGS)

mutate: need-cargo ## breaks one law after another and shows which seed of the simulation notices; MUTATE_ARGS="NAME --seeds 100"
	@hack/need patch
	@hack/mutate $(MUTATE_ARGS)

clean: ## what was built here; the control plane's programs stay in the user's cache
	cargo clean
	rm -rf .cache

# Prerequisites, by what uses them.
.PHONY: need-cargo need-testbed
need-cargo:
	@hack/need git cc cargo

need-testbed:
	@hack/need git python3 cc cargo openssl
	@if [ -z "$$KUBEBUILDER_ASSETS" ] && ! hack/testbed/testbed status >/dev/null 2>&1; then hack/need go; fi
