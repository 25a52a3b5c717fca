/*
 * faulter null | heap | stack | text | rodata | kernel | entry | port | privileged | divide | illegal |
 * canonical
 *
 * Breaks one rule of ring 3: reads at 0, executes its heap or stack, writes its text or rodata, reads
 * the kernel, jumps to the kernel's entry with a return address that is none, touches a port,
 * executes HLT, divides by 0, executes UD2, reads a non-canonical address.
 *
 * Survival: this domain ends with a fault and its vector is reported; every other goes on. I6.
 */
#include "tests/hostile/domains/hostile.h"

static const char constant[] = "constant";

static void read_at(uint64_t address)
{
	asm volatile("movb (%0), %%al" : : "r"(address) : "al");
}

/* Where syscall_entry is; should it move, a jump into the kernel is as good a fault. */
static void jump_to_entry(void)
{
	asm volatile("movq %0, %%rcx; movq $-1, %%r11; movl $0x1007, %%eax; movq $0xffffffff80000009, %%rdx; "
	             "jmp *%%rdx"
	             :
	             : "r"(UINT64_C(1) << 47)
	             : "rcx", "r11", "rax", "rdx");
}

static void execute(void *address)
{
	*(volatile uint8_t *)address = 0xc3; /* RET */
	((void (*)(void))address)();
}

static void fault(const char *how)
{
	uint8_t on_stack[16];

	if (strcmp(how, "null") == 0)
		read_at(8);
	else if (strcmp(how, "heap") == 0)
		execute(heap_alloc(16));
	else if (strcmp(how, "stack") == 0)
		execute(on_stack);
	else if (strcmp(how, "text") == 0)
		*(volatile uint8_t *)(uintptr_t)main = 0xc3;
	else if (strcmp(how, "rodata") == 0)
		*(volatile char *)(uintptr_t)constant = 0;
	else if (strcmp(how, "kernel") == 0)
		read_at(VA_KERNEL_CPU);
	else if (strcmp(how, "entry") == 0)
		jump_to_entry();
	else if (strcmp(how, "port") == 0)
		asm volatile("outl %%eax, %%dx" : : "a"(0), "d"(HYPERCALL_PORT));
	else if (strcmp(how, "privileged") == 0)
		asm volatile("hlt");
	else if (strcmp(how, "divide") == 0)
		asm volatile("divl %0" : : "r"(0), "a"(1), "d"(0));
	else if (strcmp(how, "illegal") == 0)
		asm volatile("ud2");
	else if (strcmp(how, "canonical") == 0)
		read_at(UINT64_C(1) << 47);
}

int main(int argc, char **argv)
{
	const char *how = argument_or(argc, argv, 1, "null");

	log_line("faulting: %s", how);
	fault(how);
	log_line("still here after %s", how);
	return STATUS_FAILED;
}
