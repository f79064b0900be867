# What to run on this repository; CI calls the same targets.

GOLANGCI = go tool -modfile=$(CURDIR)/internal/tools/go.mod golangci-lint

# Every module that has Go files; that of the pinned tools has none.
MODULES = $(shell go run ./internal/tally -modules)

# A checkout that git does not trust must build too.
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=%,$(GOFLAGS))

.DEFAULT_GOAL := help

.PHONY: help
help: ## print the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

.PHONY: test
test: postgres ## every test of every module, PostgreSQL included, and a tally
	@go run ./internal/tally -race -count=1 -timeout=20m -p 4 # they wait more than they work
	@go test -count=1 ./internal/baseline ./worker # what is allocated, which the race detector changes

.PHONY: test-long
test-long: postgres ## the specs that take minutes, of the build tag long
	@go test -race -count=1 -timeout 30m -tags long ./internal/serverfaults ./backend/postgres -ginkgo.label-filter='long && !timed'
	@for dir in internal/pgx backend/postgres/pgxlisten; do \
		(cd $$dir && go test -race -count=1 -timeout 30m -tags long . -ginkgo.label-filter='long && !timed') || exit 1; done
	@# What states a time runs without -race.
	@go test -p 1 -count=1 -timeout 30m -tags long ./pool ./internal/serverfaults -ginkgo.label-filter=timed
	@cd internal/pgx && go test -count=1 -timeout 30m -tags long . -ginkgo.label-filter=timed

.PHONY: race
race: postgres ## the root module's tests again and again; stop it, or set COUNT
	@for i in $$(seq $(or $(COUNT),10)); do go test -race -count=1 ./... || exit 1; done

.PHONY: postgres
postgres: ## make sure that there is a PostgreSQL server to test on
	@.ci/postgres

.PHONY: lint
lint: ## golangci-lint on every module, go vet for other systems, actionlint
	@set -e; for dir in $(MODULES); do echo "lint $$dir" && (cd $$dir && $(GOLANGCI) run ./...) || exit 1; done
	@for target in windows/amd64 darwin/arm64 linux/386; do \
		echo "vet $$target" && GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 go vet ./... || exit 1; done
	@go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: fmt
fmt: ## format every module
	@for dir in $(MODULES); do (cd $$dir && $(GOLANGCI) fmt ./...) || exit 1; done

# What users import, as paths below the root.
PUBLIC = . backend backend/conformance backend/memory backend/postgres \
	backend/postgres/pgxlisten backend/postgres/pqlisten checkpoint leader pool worker

.PHONY: api
api: ## write the public surface to docs/api; CI refuses one that was not committed
	@mkdir -p docs/api && rm -f docs/api/*.txt
	@for dir in $(PUBLIC); do \
		name=$$(echo $$dir | tr / - | sed 's/^\.$$/worklease/'); \
		go -C $$dir doc -all . >docs/api/$$name.txt || exit 1; done

.PHONY: soak
soak: postgres ## a storm of faults for SOAK (30m), SEED or none, NOTIFY=1 or POOLER=1 or neither, judged
	@cd internal/faults && go run . -for $(or $(SOAK),30m) $(if $(SEED),-seed $(SEED)) $(if $(NOTIFY),-notify) $(if $(POOLER),-pooler)

.PHONY: mutants
mutants: postgres ## put one fault at a time into a copy, and see that the specs notice
	@cd internal/faults && go run ./mutants -root ../..

# Directories with benchmarks; directories and names of fuzz targets.
BENCHMARKS = grep -rl --include='*_test.go' '^func Benchmark' . | xargs -n 1 dirname | sort -u
FUZZ = grep -rHo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's|/[^/]*:func | |' | sort

.PHONY: bench
bench: postgres ## the benchmarks, each for BENCHTIME (1s)
	@for dir in $$($(BENCHMARKS)); do \
		(cd $$dir && go test -run '^$$' -bench . -benchtime $(or $(BENCHTIME),1s) .) || exit 1; done

.PHONY: bench-peers
bench-peers: postgres ## against the limit and beside peers, ROUNDS (5); writes docs/benchmarks.md
	@.ci/peers
	@cd internal/bench && go run . -rounds $(or $(ROUNDS),5)

.PHONY: bench-growth
bench-growth: postgres ## tables that grow, for over an hour; adds to docs/benchmarks.md
	@.ci/peers
	@cd internal/bench && go run . -growth -rounds $(or $(ROUNDS),5)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30s)
	@$(FUZZ) | while read -r dir name; do \
		(cd $$dir && go test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(FUZZTIME),30s) .) || exit 1; done

.PHONY: matrix
matrix: ## PostgreSQL 14 to 18, Go 1.26 and 1.27, lib/pq and pgx; writes docs/guarantees.md
	@go run ./internal/tally -matrix docs/guarantees.md

.PHONY: vuln
vuln: ## known vulnerabilities; not in CI, since its database is on the network
	@for dir in $(MODULES); do \
		echo "vuln $$dir" && (cd $$dir && go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...) || exit 1; done

.PHONY: ci
ci: test lint ## what CI runs
