# The short names of what one does in this tree.

CARGO ?= cargo
TARGET = $(abspath $(or $(CARGO_TARGET_DIR),target))
WEIR = $(TARGET)/release/weir
# The command that packages carry: slower to build, and faster.
DIST = $(TARGET)/dist/weir
DEMO = $(TARGET)/demo
# Where `make install` puts things.
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
# Where mount(8) looks for its programs.
SBIN ?= /sbin

.PHONY: release test-release demo test test-mount test-mount-short test-suites test-cluster test-formats test-hosts test-package test-publish evidence install package wheel lint docs bench build build-whole clean

# Two designs on four workloads with six seeds each, half a minute: the answer here, charts in one HTML file.
demo: build
	@mkdir -p $(DEMO)
	XDG_DATA_HOME=$(DEMO) $(WEIR) run -o $(DEMO)/report.html
	@echo "open $(DEMO)/report.html"

build:
	$(CARGO) build --release --locked -p weir

# With the formats that need many packages.
build-whole:
	$(CARGO) build --profile dist --locked -p weir --features pdf,parquet

# Every test, the browser's among them, also after one has failed; one line in total. TEST_ARGS goes to the programs that run them.
test: browser
	CARGO="$(CARGO)" tests/house/test.sh $(TEST_ARGS)

# Ordinary programs on a mounted design, half an hour of them. As root; what is missing is installed on Debian.
test-mount: build
	@command -v fio dbench rsync pgbench sqlite3 >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends \
	     git sqlite3 gcc make fio dbench rsync fuse3 postgresql postgresql-contrib >/dev/null; } || true
	tests/mount/run.sh $(WEIR)
	tests/mount/fstab.sh $(WEIR)
	tests/mount/direct.sh $(WEIR)
	$(SHORT_MOUNTS)
	tests/mount/block.sh $(WEIR)

# Handles, lists, flags, stacked mounts, what a second user can reach, overlayfs, damage and clones: seconds. As root.
SHORT_MOUNTS = for script in calls bytes stacked second_user overlay scrub clones; do tests/mount/$$script.sh $(WEIR) || exit 1; done
test-mount-short: build
	$(SHORT_MOUNTS)

# Public suites, written elsewhere, on mounts of pmfs and hinfs. As root; cargo installs them.
test-suites: build
	tests/mount/suites.sh $(WEIR)

# Campaigns of a plan, of readings and of a crash exploration on Slurm's and ssh's daemons on loopback, some of which are killed: about 6
# minutes. As root; Debian's packages are installed.
test-cluster: build
	tests/cluster.sh $(WEIR)

# Each format opened by the programs that it is for, which are fetched where a registry has them: about 3 minutes.
test-formats: build-whole
	tests/formats.sh $(DIST)

# Samples with FMA hidden, and by the static build for musl: the same bytes.
test-hosts: build
	packaging/build_static.sh $(TARGET)/weir-static ""
	tests/hosts.sh $(WEIR) $(TARGET)/weir-static

# The Debian package in a bare Debian: installed, used, upgraded, removed, purged. As root.
test-package: build-whole
	WEIR=$(DIST) tests/package.sh

# The packages that `cargo publish` would upload, each built from what is in it. Uploads nothing.
test-publish:
	tests/publish.sh

# The Debian package, under target/debian; needs `cargo install cargo-deb`.
package: build-whole
	packaging/stage.sh $(DIST) $(TARGET)/package
	$(CARGO) deb --profile dist --no-build --no-strip -p weir

# The Python wheel with the command inside, under target/wheel.
wheel: build-whole
	python3 python/build_wheel.py $(DIST) $(TARGET)/wheel

# Everything that a release consists of, under target/release-files; half an hour, most of it the static command.
release:
	packaging/release.sh $(TARGET)/release-files

# The same used: in a bare root, as package, wheel and image. As root.
test-release: build
	tests/release.sh $(TARGET)/release-files $(WEIR)

# Every check at full size, into the ledger that the command carries: hours. As root.
evidence: build
	evidence/collect.sh $(WEIR)

# The command, its man pages, its completions, and what makes mount(8), fstab and systemd know it.
install: build-whole
	install -D -m 755 $(DIST) $(DESTDIR)$(PREFIX)/bin/weir
	@mkdir -p $(DESTDIR)$(SBIN) && [ -w $(DESTDIR)$(SBIN) ] \
	  && ln -sf $(PREFIX)/bin/weir $(DESTDIR)$(SBIN)/mount.fuse.weir \
	  && ln -sf $(PREFIX)/bin/weir $(DESTDIR)$(SBIN)/umount.fuse.weir \
	  || echo "$(SBIN) is not writable: \`mount -t fuse.weir\` and fstab will not know this command"
	install -D -m 644 packaging/weir@.service $(DESTDIR)$(PREFIX)/lib/systemd/system/weir@.service
	$(DIST) man --quiet $(SHARE)/man/man1
	@mkdir -p $(SHARE)/man/man5 && mv $(SHARE)/man/man1/weir.toml.5 $(SHARE)/man/man5/
	@mkdir -p $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(DIST) completion bash > $(SHARE)/bash-completion/completions/weir
	$(DIST) completion zsh > $(SHARE)/zsh/site-functions/_weir
	$(DIST) completion fish > $(SHARE)/fish/vendor_completions.d/weir.fish

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

bench:
	$(CARGO) bench -p weir-bench --locked

# The browser test of the report needs a Chromium; it is fetched where that is possible, else the test says that it is skipped.
.PHONY: browser
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	  && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "chromium is missing: the browser test will be skipped"

clean:
	$(CARGO) clean
