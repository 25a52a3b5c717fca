/* One line about why a guest or a domain ended, for a person who has the ELF at hand. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "guest/abi/memory.h"
#include "vmm/machine_state.h"

#define PAGE_FAULT 14

struct line {
	char *text;
	size_t used;
};

static void line_advance(struct line *line, int n)
{
	size_t room = WHY_BYTES - line->used;

	if (n > 0)
		line->used += (size_t)n < room ? (size_t)n : room - 1;
}

#define add(line, ...)                                                                                       \
	line_advance(line, snprintf((line)->text + (line)->used, WHY_BYTES - (line)->used, __VA_ARGS__))

static const char *vector_name(uint64_t vector)
{
	static const char *const names[32] = {
		[0] = "division error", [1] = "debug trap",     [3] = "breakpoint",
		[4] = "overflow",       [5] = "bound exceeded", [6] = "undefined instruction",
		[7] = "no x87 or SSE",  [8] = "double fault",   [10] = "bad TSS",
		[11] = "no segment",    [12] = "stack fault",   [13] = "protection fault",
		[14] = "page fault",    [16] = "x87 error",     [17] = "unaligned access",
		[18] = "machine check", [19] = "SSE error",     [21] = "control protection",
	};

	return vector < 32 && names[vector] != NULL ? names[vector] : NULL;
}

static void add_address(struct line *line, const struct elf *elf, uint64_t address)
{
	uint64_t offset;
	const char *symbol = elf == NULL ? NULL : elf_symbol_at(elf, address, &offset);

	add(line, " at 0x%" PRIx64, address);
	if (symbol != NULL)
		add(line, " (%.60s+0x%" PRIx64 ")", symbol, offset);
}

/* SDM vol. 3A, 4.7. */
static void add_page_fault(struct line *line, uint64_t error, uint64_t address)
{
	const char *access = (error & 16) != 0 ? "jump to" : (error & 2) != 0 ? "write to" : "read of";

	add(line, ", %s 0x%" PRIx64 " (%s)", access, address,
	    (error & 1) != 0 ? "not allowed there" : "nothing is mapped there");
}

static void add_fault(struct line *line, const struct elf *elf, const struct machine_crash *crash)
{
	const char *name = vector_name(crash->vector);

	if (name != NULL)
		add(line, "%s", name);
	else
		add(line, "vector %" PRIu64, crash->vector);
	add_address(line, elf, crash->rip);
	if (crash->vector == PAGE_FAULT)
		add_page_fault(line, crash->error, crash->cr2);
	add(line, ", error 0x%" PRIx64 ", rsp 0x%" PRIx64, crash->error, crash->rsp);
}

/* Whose code is rip: the kernel's, or that of the domain whose address space is loaded. */
static const struct elf *elf_for(const struct machine *machine, uint64_t rip, uint64_t cr3)
{
	if (rip >= VA_KERNEL)
		return &machine->layout.kernel;
	for (uint32_t i = 0; i < machine->layout.n_domains; i++)
		if (machine->layout.domain[i].cr3 == (cr3 & ~0xfffull))
			return &machine->layout.domain[i].elf;
	return NULL;
}

static void add_registers(struct line *line, const struct kvm_regs *regs, const struct kvm_sregs *sregs)
{
	add(line,
	    ", rsp 0x%llx rflags 0x%llx cs 0x%x cr2 0x%llx cr3 0x%llx rax 0x%llx rbx 0x%llx rcx 0x%llx rdx "
	    "0x%llx "
	    "rsi 0x%llx rdi 0x%llx rbp 0x%llx",
	    regs->rsp, regs->rflags, sregs->cs.selector, sregs->cr2, sregs->cr3, regs->rax, regs->rbx,
	    regs->rcx, regs->rdx, regs->rsi, regs->rdi, regs->rbp);
}

void crash_describe_guest(struct vcpu *vcpu, const char *what, struct machine_crash *crash)
{
	struct line line = {crash->text, 0};
	struct kvm_regs regs;
	struct kvm_sregs sregs;

	*crash = (struct machine_crash){.vcpu = vcpu->index, .domain = NO_DOMAIN};
	add(&line, "vCPU %u: %s", vcpu->index, what);
	if (ioctl(vcpu->fd, KVM_GET_REGS, &regs) < 0 || ioctl(vcpu->fd, KVM_GET_SREGS, &sregs) < 0) {
		add(&line, " (registers cannot be read: %s)", strerror(errno));
		return;
	}
	crash->rip = regs.rip;
	crash->rsp = regs.rsp;
	crash->cr2 = sregs.cr2;
	add_address(&line, elf_for(vcpu->machine, regs.rip, sregs.cr3), regs.rip);
	add_registers(&line, &regs, &sregs);
}

void crash_describe_fault(const struct machine *machine, const struct guest_request *request,
                          struct machine_crash *crash)
{
	struct line line = {crash->text, 0};
	const struct elf *elf = &machine->layout.kernel;

	*crash = (struct machine_crash){
		.vcpu = request->vcpu,
		.domain = request->domain,
		.vector = request->argument[0],
		.error = request->argument[1],
		.rip = request->argument[2],
		.cr2 = request->argument[3],
		.rsp = request->argument[4],
	};
	if (request->domain == NO_DOMAIN)
		add(&line, "vCPU %u: kernel panic: ", request->vcpu);
	else
		elf = &machine->layout.domain[request->domain].elf;
	add_fault(&line, elf, crash);
}
