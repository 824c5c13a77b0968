# `make` alone prints what there is. Nothing here needs more than Go and what
# scripts/install-deps installs. Only rebuilding the pages' scripts needs Node.

GO         ?= go
# ARGS is handed to the usher subcommand of the target: make demo ARGS="--addr 127.0.0.1:0"
ARGS       ?=
# PKG, COUNT and RUN narrow a test run: make test PKG=./internal/ledger/... RUN=Hold
PKG        ?= ./...
COUNT      ?=
RUN        ?=
# TIMEOUT is per package.
TIMEOUT    ?= 9m
HOURS      ?= 4
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
TEST        = $(GO) test -race -timeout $(TIMEOUT) $(if $(COUNT),-count=$(COUNT)) $(if $(RUN),-run '$(RUN)') $(PKG)

.DEFAULT_GOAL := help
.PHONY: help build demo test test-18 check fmt fmt-check vet lint verify web test-web screenshots audit bench soak clean FORCE

help: ## print this
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: bin/usher ## build bin/usher

demo: ## install what is missing, build, and run the demo: make demo ARGS="--addr 127.0.0.1:0"
	scripts/install-deps demo
	$(MAKE) bin/usher
	exec bin/usher demo $(ARGS)

test: ## install what is missing, then all tests: race detector, real PostgreSQL
	scripts/install-deps test
	$(MAKE) bin/withpostgres
	bin/withpostgres $(TEST)

test-18: bin/withpostgres ## the same on the pinned PostgreSQL 18 that the demo can download
	USHER_POSTGRES_BIN="$$($(GO) run ./internal/pg/embedded/postgresbin -download)" bin/withpostgres $(TEST)

check: fmt-check vet lint verify test ## everything CI checks

fmt: ## format every Go file
	gofmt -w $$(git ls-files '*.go')

fmt-check:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$bad" ] || { echo "not formatted (make fmt):"; echo "$$bad"; exit 1; }

vet:
	$(GO) vet ./...

lint: ## staticcheck, at a pinned version
	$(GO) run $(STATICCHECK) ./...

verify: ## regenerate every generated file; fail if one was not fresh
	scripts/install-deps web
	scripts/verify

web: ## check, test and rebuild the pages' scripts: web/ into internal/web/dist
	scripts/install-deps web
	scripts/web check
	scripts/web test
	scripts/web build

test-web: bin/usher ## the pages in a real Chromium, against a real demo
	scripts/install-deps browser
	scripts/web browser

screenshots: bin/usher ## take the pictures of README and docs/screens.md anew
	scripts/install-deps browser
	scripts/web screenshots

audit: bin/usher ## check the invariants of a running usher's data: make audit ARGS=--json
	bin/usher audit $(ARGS)

bench: bin/usher ## measure, beside what this machine can do at best: make bench ARGS="holds --json"
	bin/usher bench $(ARGS)

soak: bin/withpostgres ## race tests in ever new orders for HOURS=4, not in CI
	scripts/soak $(HOURS) $(PKG)

clean: ## remove what was built
	rm -rf bin

bin/usher: FORCE
	$(GO) build -trimpath -o $@ ./cmd/usher

bin/withpostgres: FORCE
	$(GO) build -o $@ ./internal/pg/pgtest/withpostgres

# Go knows best what is fresh.
FORCE:
