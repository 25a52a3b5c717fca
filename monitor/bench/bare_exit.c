#include "monitor/bench/bare_exit.h"

#include <elf.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "guest/abi/memory.h"
#include "vmm/machine.h"

#define WARM_UP 256u
#define PATIENCE_MS 60000
#define N_OUTS 64u
#define CODE_BYTES (5u + N_OUTS + 2u)

/* A static ELF of one segment: what both the kernel and its domain, which never runs, are made of. */
struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segment;
	uint8_t code[CODE_BYTES];
};

/* mov edx, HYPERCALL_PORT; N_OUTS times out dx, eax; jmp to the first of them. */
static void code_fill(uint8_t code[static CODE_BYTES])
{
	code[0] = 0xba;
	code[1] = HYPERCALL_PORT & 0xff;
	code[2] = HYPERCALL_PORT >> 8;
	code[3] = code[4] = 0;
	memset(code + 5, 0xef, N_OUTS);
	code[5 + N_OUTS] = 0xeb;
	code[5 + N_OUTS + 1] = (uint8_t)(256 - N_OUTS - 2);
}

static void image_fill(struct image *image, uint64_t va)
{
	*image = (struct image){
		.header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
	                               EV_CURRENT},
	                   .e_type = ET_EXEC,
	                   .e_machine = EM_X86_64,
	                   .e_version = EV_CURRENT,
	                   .e_entry = va + offsetof(struct image, code),
	                   .e_phoff = offsetof(struct image, segment),
	                   .e_ehsize = sizeof(Elf64_Ehdr),
	                   .e_phentsize = sizeof(Elf64_Phdr),
	                   .e_phnum = 1},
		.segment = {.p_type = PT_LOAD,
	                    .p_flags = PF_R | PF_X,
	                    .p_vaddr = va,
	                    .p_paddr = va,
	                    .p_filesz = sizeof(*image),
	                    .p_memsz = sizeof(*image),
	                    .p_align = ABI_PAGE_BYTES},
	};
	code_fill(image->code);
}

/* The vCPU's thread until done_fd is written, then the other. */
struct exits {
	double *us;
	uint32_t n, n_seen;
	uint64_t last_ns;
	int done_fd;
};

static void note(void *opaque, uint32_t raw_call, uint64_t begun_ns, uint64_t ended_ns)
{
	struct exits *exits = opaque;
	const uint64_t one = 1;

	(void)raw_call;
	(void)ended_ns;
	if (exits->n_seen > WARM_UP + exits->n)
		return;
	if (exits->n_seen > WARM_UP)
		exits->us[exits->n_seen - WARM_UP - 1] = (double)(begun_ns - exits->last_ns) / 1000.0;
	exits->last_ns = begun_ns;
	if (exits->n_seen++ == WARM_UP + exits->n && write(exits->done_fd, &one, sizeof(one)) < 0)
		exits->last_ns = 0; /* an eventfd takes a one; if not, the poll ends late */
}

static int run(struct machine *machine, struct exits *exits, char why[static WHY_BYTES])
{
	const struct call_watch watch = {.answered = note, .opaque = exits};
	struct pollfd done = {.fd = exits->done_fd, .events = POLLIN};
	int error;

	machine_watch_calls(machine, &watch);
	error = machine_start(machine, why);
	if (error == 0 && poll(&done, 1, PATIENCE_MS) != 1) {
		snprintf(why, WHY_BYTES, "a guest that only writes to a port made no %u exits in %d s",
		         exits->n, PATIENCE_MS / 1000);
		error = -ETIMEDOUT;
	}
	machine_destroy(machine); /* the watch is needed no more */
	return error;
}

static int measure(int kvm_fd, struct exits *exits, char why[static WHY_BYTES])
{
	static const struct machine_handlers handlers = {.request = NULL};
	struct image kernel, program;
	const struct domain_spec domain = {.name = "none",
	                                   .image_name = "none",
	                                   .image = &program,
	                                   .image_bytes = sizeof(program),
	                                   .n_slots = 1,
	                                   .heap_bytes = ABI_PAGE_BYTES,
	                                   .stack_bytes = ABI_PAGE_BYTES,
	                                   .data_fd = -1};
	const struct machine_spec spec = {.name = "exits",
	                                  .n_vcpus = 1,
	                                  .n_domains = 1,
	                                  .domains = &domain,
	                                  .kernel_image = &kernel,
	                                  .kernel_bytes = sizeof(kernel),
	                                  .kvm_fd = kvm_fd};
	struct machine *machine;
	int error;

	image_fill(&kernel, VA_KERNEL);
	image_fill(&program, VA_IMAGE);
	error = machine_create(&spec, &handlers, NULL, &machine, why);
	return error < 0 ? error : run(machine, exits, why);
}

int bare_exit_measure(double *us, uint32_t n, char why[static WHY_BYTES])
{
	struct exits exits = {.us = us, .n = n};
	int kvm_fd = machine_open_kvm(why), error;

	if (kvm_fd < 0)
		return kvm_fd;
	exits.done_fd = eventfd(0, EFD_CLOEXEC);
	if (exits.done_fd < 0) {
		error = -errno;
		snprintf(why, WHY_BYTES, "eventfd: %s", strerror(-error));
	} else {
		error = measure(kvm_fd, &exits, why);
		close(exits.done_fd);
	}
	close(kvm_fd);
	return error;
}
