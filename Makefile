# Portcullis. `make demo` shows it, `make test` tests it; `make help` lists the rest.
# V=1 shows commands. BUILD=DIR SANITIZE=address,undefined builds a variant beside the plain one.

V        ?= 0
BUILD    ?= build
SANITIZE ?=
CC       := gcc
Q        := $(if $(filter 1,$(V)),,@)
say       = $(if $(filter 1,$(V)),,@printf '  %-8s%s\n' $(1) $(2);)

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# ---- what is built from what -------------------------------------------------

WARN      := -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
HOST_C    := -std=gnu17 -D_GNU_SOURCE -O2 -g -fno-omit-frame-pointer -pthread $(WARN) -I. -MMD -MP \
             $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=undefined,-D_FORTIFY_SOURCE=2)
HOST_LD   := -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE))
# avtab_alloc: policy/compile.c says why.
POLICY_LIBS := -Wl,--wrap=avtab_alloc -l:libsepol.a -lxxhash -lseccomp -lcap-ng
LIBS      := $(POLICY_LIBS) -lconfig -ljansson -lexpat
# The program is linked statically: monitor and security server are one exec each, and a dynamic linker takes
# a third of it. libcap-ng's changing of users, which nothing here calls, would want NSS. STATIC= links as usual.
STATIC    ?= $(if $(SANITIZE),,1)
STATIC_LD := -static-pie -Wl,--defsym=getpwuid=0,--defsym=initgroups=0

GUEST_C   := -std=gnu17 -O2 -g -ffreestanding -nostdlib -static -fno-pic -fno-pie -no-pie -march=x86-64 \
             -fcf-protection=none -fno-stack-protector -fno-asynchronous-unwind-tables $(WARN) -I. -MMD -MP
KERNEL_C  := $(GUEST_C) -mgeneral-regs-only -mno-red-zone -mcmodel=kernel
DOMAIN_C  := $(GUEST_C) -Iguest/lib/include

src        = $(sort $(foreach d,$(1),$(wildcard $(d)/*.c) $(wildcard $(d)/*.S)))
objects    = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))
guest_objects = $(patsubst %,build/obj/%.guest.o,$(basename $(1)))

POLICY_O  := $(call objects,$(call src,policy))
VMM_O     := $(call objects,$(call src,vmm))
MONITOR_O := $(call objects,$(filter-out monitor/main.c,$(call src,monitor monitor/bench monitor/libvirt)))
KERNEL_O  := $(call guest_objects,$(call src,guest/kernel))
DOMLIB_O  := $(call guest_objects,$(call src,guest/lib))
EXAMPLES  := $(patsubst %,build/domains/%.elf,parser vault formatter)
PROGRAMS  := $(patsubst guest/programs/%.c,build/domains/%.elf,$(wildcard guest/programs/*.c)) $(EXAMPLES)
HOSTILE   := $(patsubst tests/hostile/domains/%.c,build/tests/domains/%.elf,$(wildcard tests/hostile/domains/*.c)) \
             $(patsubst tests/hostile/kernels/%.c,build/tests/kernels/%.elf,$(wildcard tests/hostile/kernels/*.c))
SUITES    := $(patsubst tests/%,%,$(patsubst %/,%,$(wildcard tests/policy/ tests/vmm/ tests/guest/ tests/monitor/ tests/libvirt/)))
TSAN      := $(patsubst tests/tsan/%.c,%,$(wildcard tests/tsan/*.c))

all: $(BUILD)/portcullis $(BUILD)/verify $(PROGRAMS)

$(BUILD)/obj/%.o: %.c | build/.deps
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_C) -c -o $@ $<

$(BUILD)/obj/vmm/kernel_blob.o: vmm/kernel_blob.S build/kernel.elf
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -DKERNEL_ELF='"build/kernel.elf"' -c -o $@ $<

$(BUILD)/obj/vmm/oracle_blob.o: vmm/oracle_blob.S build/domains/oracle.elf
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -DORACLE_ELF='"build/domains/oracle.elf"' -c -o $@ $<

$(BUILD)/obj/monitor/bench/base_cil.o: monitor/bench/base_cil.S policy/base.cil
	$(call say,AS,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) -I. -DBASE_CIL='"policy/base.cil"' -c -o $@ $<

build/obj/guest/kernel/%.guest.o: guest/kernel/%.c | build/.deps
	$(call say,KERNEL,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(KERNEL_C) -c -o $@ $<

build/obj/guest/kernel/%.guest.o: guest/kernel/%.S | build/.deps
	$(call say,KERNEL,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(KERNEL_C) -c -o $@ $<

build/obj/guest/lib/%.guest.o: guest/lib/%.c | build/.deps
	$(call say,DOMAIN,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(DOMAIN_C) -c -o $@ $<

build/obj/guest/lib/%.guest.o: guest/lib/%.S | build/.deps
	$(call say,DOMAIN,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(DOMAIN_C) -c -o $@ $<

build/obj/guest/programs/%.guest.o: guest/programs/%.c | build/.deps
	$(call say,DOMAIN,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(DOMAIN_C) -c -o $@ $<

build/obj/examples/%.guest.o: examples/%.c | build/.deps
	$(call say,DOMAIN,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(DOMAIN_C) -c -o $@ $<

build/obj/tests/hostile/%.guest.o: tests/hostile/%.c | build/.deps
	$(call say,HOSTILE,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(if $(findstring /kernels/,$<),$(KERNEL_C),$(DOMAIN_C)) -c -o $@ $<

build/kernel.elf: $(KERNEL_O) guest/kernel/kernel.ld
	$(call say,LD,$@)
	$(Q)$(CC) -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-z,max-page-size=4096 -T guest/kernel/kernel.ld -o $@ $(KERNEL_O)

build/libdomain.a: $(DOMLIB_O)
	$(call say,AR,$@)
	$(Q)rm -f $@; ar rcs $@ $^

domain_ld = $(CC) -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-z,max-page-size=4096 -T guest/lib/domain.ld -o $@ $< $(DOMAIN_LIBS) build/libdomain.a

build/domains/%.elf: build/obj/guest/programs/%.guest.o build/libdomain.a guest/lib/domain.ld
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(domain_ld)

build/domains/vault.elf: DOMAIN_LIBS = -l:libsodium.a
$(EXAMPLES): build/domains/%.elf: build/obj/examples/sign/%.guest.o build/libdomain.a guest/lib/domain.ld
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(domain_ld)

$(BUILD)/verify: $(BUILD)/obj/examples/sign/verify.o
	$(call say,LD,$@)
	$(Q)$(CC) $(HOST_LD) -o $@ $^ -lsodium

build/tests/domains/%.elf: build/obj/tests/hostile/domains/%.guest.o build/libdomain.a guest/lib/domain.ld
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(domain_ld)

build/tests/kernels/%.elf: build/obj/tests/hostile/kernels/%.guest.o guest/kernel/kernel.ld
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -nostdlib -static -no-pie -Wl,--build-id=none -Wl,-z,noexecstack -Wl,-z,max-page-size=4096 -T guest/kernel/kernel.ld -o $@ $<

$(BUILD)/libpolicy.a: $(POLICY_O)
$(BUILD)/libvmm.a: $(VMM_O)
$(BUILD)/libmonitor.a: $(MONITOR_O)
$(BUILD)/lib%.a:
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@; ar rcs $@ $^

HOST_LIBS := $(BUILD)/libmonitor.a $(BUILD)/libvmm.a $(BUILD)/libpolicy.a

$(BUILD)/portcullis: $(call objects,monitor/main.c) $(HOST_LIBS)
	$(call say,LD,$@)
	@[ $(BUILD) = build ] || ln -sfn $(CURDIR)/build/domains $(BUILD)/domains # programs are looked for beside it
	$(Q)$(CC) $(HOST_LD) $(if $(STATIC),$(STATIC_LD)) -o $@ $^ $(LIBS)

# ---- demo ---------------------------------------------------------------------

# INPUT is the file that goes through three domains.
INPUT ?= README.md

demo: all
	$(Q)PORTCULLIS=$(BUILD)/portcullis examples/demo/demo.sh '$(INPUT)'

# ---- tests -------------------------------------------------------------------

# tests/policy links policy/ alone: that is the proof that it needs no KVM; tests/vmm links vmm/ alone: it has
# never heard of policy.
suite_libs = $(if $(filter policy vmm,$(1)),$(BUILD)/lib$(1).a,$(HOST_LIBS))
define suite_rule
$(BUILD)/tests/$(1): $(call objects,$(call src,tests/$(1) $(if $(filter vmm,$(1)),,tests/support))) $(call suite_libs,$(1))
	$$(call say,LD,$$@)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(HOST_LD) $$(SUITE_LD) -o $$@ $$^ $$(if $$(filter policy,$(1)),$$(POLICY_LIBS),$$(if $$(filter vmm,$(1)),,$$(LIBS))) $$(if $$(filter monitor,$(1)),-lsodium) -lcriterion
endef
$(foreach s,$(SUITES),$(eval $(call suite_rule,$(s))))
$(BUILD)/tests/vmm: | $(filter build/tests/kernels/%,$(HOSTILE))

# tests/libvirt runs the program with real clients of libvirt, and decodes what they sent once.
$(BUILD)/tests/libvirt: $(call objects,tests/monitor/cli_child.c tests/libvirt/fuzz/decode.c)
$(BUILD)/tests/libvirt: | build/.test-deps $(BUILD)/portcullis $(PROGRAMS) $(filter build/tests/domains/t_%,$(HOSTILE))

# tests/monitor makes things go wrong from outside, by --wrap (tests/monitor/world_*.h). monitor-control is the
# suite with a commit that takes nothing away: a test of the suite runs it, and it must fail.
MONITOR_WRAP := launcher_spawn execve machine_begin machine_build mediation_request mmap fallocate malloc calloc realloc reallocarray strdup
comma := ,
$(BUILD)/tests/monitor $(BUILD)/tests/monitor-control: SUITE_LD := $(addprefix -Wl$(comma)--wrap=,$(MONITOR_WRAP))
$(BUILD)/tests/monitor: | build/.test-deps $(BUILD)/tests/monitor-control $(BUILD)/portcullis $(filter build/tests/domains/t_% build/tests/kernels/%,$(HOSTILE))

$(BUILD)/obj/tests/control/commit.o: monitor/commit.c | build/.deps
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_C) -DCONTROL_SKIP_CUT -c -o $@ $<

$(BUILD)/tests/monitor-control: $(call objects,$(call src,tests/monitor tests/support)) $(BUILD)/obj/tests/control/commit.o $(HOST_LIBS)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LD) $(SUITE_LD) -o $@ $^ $(LIBS) -lsodium -lcriterion

$(BUILD)/tests/tsan-%: $(BUILD)/obj/tests/tsan/%.o $(HOST_LIBS)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(HOST_LD) -o $@ $^ $(LIBS)

SUITE_PROGRAMS := $(patsubst %,$(BUILD)/tests/%,$(SUITES))
TSAN_PROGRAMS  := $(patsubst %,$(BUILD)/tests/tsan-%,$(TSAN))

test-programs: $(SUITE_PROGRAMS) $(HOSTILE) $(PROGRAMS) $(BUILD)/portcullis
tsan-programs: $(TSAN_PROGRAMS)

# Suites, then the concurrency programs under the thread sanitizer.
test: all test-programs
	$(Q)$(MAKE) --no-print-directory BUILD=build/tsan SANITIZE=thread tsan-programs
	$(Q)tests/run.sh $(SUITE_PROGRAMS) $(patsubst %,build/tsan/tests/tsan-%,$(TSAN))

# ---- measuring -----------------------------------------------------------------

# Ten minutes of two cores that nobody else uses: build/bench/{bench.json,bench.md,*.svg}.
bench: all build/.bench-deps
	@mkdir -p build/bench
	$(Q)$(BUILD)/portcullis bench --all --json --programs build/domains >build/bench/bench.json
	$(Q)python3 tests/bench/report.py build/bench/bench.json
	@echo "  BENCH   build/bench/bench.md"

# ---- fuzzing -------------------------------------------------------------------

# Each decoder for FUZZ_SECONDS, from a corpus that real clients left (tests/libvirt/corpus).
FUZZ_SECONDS ?= 60
FUZZ_C := -std=gnu17 -D_GNU_SOURCE -O1 -g -I. -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_SOURCES := tests/libvirt/fuzz/decode.c $(addprefix monitor/libvirt/,arguments.c frame.c procedures.c xdr.c xml_reader.c) vmm/check.c

# What a table of procedures points to is never called: it may be missing.
build/fuzz/%: tests/libvirt/fuzz/fuzz_%.c $(FUZZ_SOURCES) | build/.fuzz-deps
	$(call say,FUZZ-CC,$@)
	@mkdir -p $(@D)
	$(Q)clang $(FUZZ_C) -Wl,--unresolved-symbols=ignore-all -no-pie -o $@ $< $(FUZZ_SOURCES) -lexpat

fuzz: build/fuzz/message build/fuzz/document
	$(Q)mkdir -p build/fuzz/corpus/message build/fuzz/corpus/document
	$(Q)build/fuzz/message -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -verbosity=0 -artifact_prefix=build/fuzz/ build/fuzz/corpus/message tests/libvirt/corpus/rpc
	$(Q)build/fuzz/document -max_total_time=$(FUZZ_SECONDS) -max_len=8192 -verbosity=0 -artifact_prefix=build/fuzz/ build/fuzz/corpus/document tests/libvirt/corpus/xml

# ---- checks ------------------------------------------------------------------

C_FILES := $(shell git ls-files --cached --others --exclude-standard '*.c' '*.h' 2>/dev/null)
HEADERS := $(filter %.h,$(C_FILES))
HOST_FILES := $(filter policy/%.c vmm/%.c monitor/%.c,$(C_FILES))

check: check-format check-headers check-size check-tidy check-cppcheck check-model check-sanitize

check-format: build/.check-deps
	$(call say,FORMAT,$(words $(C_FILES)) files)
	$(Q)clang-format --dry-run -Werror $(C_FILES)

check-headers: build/.deps
	$(call say,HEADERS,$(words $(HEADERS)) files)
	$(Q)for h in $(HEADERS); do $(CC) -std=gnu17 -D_GNU_SOURCE $(WARN) -I. -Iguest/lib/include -fsyntax-only -x c $$h || exit 1; done

check-size:
	$(Q)for f in $(C_FILES); do n=$$(wc -l <$$f); [ $$n -le 500 ] || { echo "$$f has $$n lines; one noun per file, under 500" >&2; exit 1; }; done

check-tidy: build/.check-deps
	$(call say,TIDY,$(words $(HOST_FILES)) files)
	$(Q)printf '%s\n' $(HOST_FILES) | xargs -P $$(nproc) -n 4 sh -c 'clang-tidy --quiet --warnings-as-errors="*" "$$@" -- -std=gnu17 -D_GNU_SOURCE -I. 2>/dev/null' tidy

check-cppcheck: build/.check-deps
	$(call say,CPPCHECK,$(words $(HOST_FILES)) files)
	$(Q)cppcheck --quiet --std=c11 -D_GNU_SOURCE -I. -j $$(nproc) --inline-suppr --enable=warning,performance,portability \
	  --suppress=missingIncludeSystem --error-exitcode=1 $(HOST_FILES)

# The protocols of stop, cut, connect, wait and the backlog, in every interleaving.
check-model: build/.check-deps
	$(call say,MODEL,tests/model)
	$(Q)BUILD=build tests/model/run.sh

check-sanitize: all test-programs
	$(Q)$(MAKE) --no-print-directory BUILD=build/asan SANITIZE=address,undefined test-programs
	$(Q)tests/run.sh -o build/asan/logs $(patsubst %,build/asan/tests/%,$(SUITES))

# ---- set-up ------------------------------------------------------------------

DEPS := gcc make pkg-config libsepol-dev libxxhash-dev libconfig-dev libjansson-dev libseccomp-dev libcap-ng-dev \
        libcriterion-dev libsodium-dev xxhash python3 policycoreutils-python-utils libexpat1-dev libvirt-dev

# Clients of libvirt that tests run; the program needs none of them.
TEST_DEPS := socat python3 libvirt-clients python3-libvirt prometheus-libvirt-exporter collectd-core

CHECK_DEPS := clang-format clang-tidy cppcheck spin

BENCH_DEPS := gnuplot-nox python3

FUZZ_DEPS := clang libexpat1-dev libvirt-dev

build/.deps: PACKAGES = $(DEPS)
build/.test-deps: PACKAGES = $(TEST_DEPS)
build/.bench-deps: PACKAGES = $(BENCH_DEPS)
build/.fuzz-deps: PACKAGES = $(FUZZ_DEPS)
build/.check-deps: PACKAGES = $(CHECK_DEPS)
build/.deps build/.test-deps build/.check-deps build/.bench-deps build/.fuzz-deps: Makefile
	@mkdir -p build
	@missing=; for p in $(PACKAGES); do \
	  dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q '^install ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then run=; \
	  elif command -v apt-get >/dev/null && sudo -n true 2>/dev/null; then run=sudo; \
	  else echo "portcullis: missing packages; install them with: apt-get install$$missing" >&2; exit 1; fi; \
	  echo "  APT    $$missing"; \
	  $$run apt-get update -qq && DEBIAN_FRONTEND=noninteractive $$run apt-get install -y -qq --no-install-recommends $$missing >build/apt.log 2>&1 \
	    || { tail -n 5 build/apt.log >&2; echo "portcullis: could not install:$$missing" >&2; exit 1; }; \
	fi
	@touch $@

# ---- using it elsewhere ----------------------------------------------------------

PREFIX ?= /usr/local

# The program with its manual page and completion, its domain programs and base policy, and what a domain of one's own
# is built with.
install: all build/libdomain.a
	$(call say,INSTALL,$(DESTDIR)$(PREFIX))
	$(Q)install -D -m 755 $(BUILD)/portcullis $(DESTDIR)$(PREFIX)/bin/portcullis
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/portcullis/domains $(PROGRAMS)
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/portcullis build/libdomain.a guest/lib/domain.ld
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/include guest/lib/include/portcullis.h
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/portcullis policy/base.cil
	$(Q)$(BUILD)/portcullis help --manual >build/portcullis.1
	$(Q)install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 build/portcullis.1
	$(Q)$(BUILD)/portcullis help --completion >build/portcullis.bash
	$(Q)install -D -m 644 build/portcullis.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/portcullis

help:
	@echo "make            build build/portcullis and the domain programs (installs missing packages)"
	@echo "make demo       show the product in under a minute; INPUT=FILE streams that file"
	@echo "make test       build and run all tests"
	@echo "make check      formatting, headers, clang-tidy, cppcheck, models, and the tests under sanitizers"
	@echo "make bench      measure everything, with tables and plots in build/bench"
	@echo "make fuzz       fuzz what reads libvirt's clients, FUZZ_SECONDS=60 for each decoder"
	@echo "make install    to PREFIX (/usr/local), below DESTDIR"
	@echo "make clean      remove build/"
	@echo "V=1 shows commands."

clean:
	$(Q)rm -rf build

-include $(shell find build -name '*.d' 2>/dev/null)
.PHONY: all bench clean demo fuzz help install test check test-programs tsan-programs check-format check-headers check-size check-tidy \
        check-cppcheck check-model check-sanitize
.SECONDARY:
