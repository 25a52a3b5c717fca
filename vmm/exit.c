#include "vmm/exit.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "guest/abi/call.h"
#include "guest/abi/memory.h"

#define fatal(event, ...)                                                                                    \
	((event)->kind = EXIT_FATAL, (void)snprintf((event)->text, sizeof((event)->text), __VA_ARGS__))

static void port_decode(struct kvm_run *run, uint64_t run_bytes, struct exit_event *event)
{
	bool out = run->io.direction == KVM_EXIT_IO_OUT;

	if (run->io.port == HYPERCALL_PORT && run->io.count == 1 && out) {
		event->kind = EXIT_HYPERCALL;
	} else if (run->io.port == HYPERCALL_PORT && run->io.count == 1 &&
	           run->io.size == sizeof(*event->count) &&
	           run->io.data_offset <= run_bytes - sizeof(*event->count)) {
		event->kind = EXIT_COUNT_READ;
		event->count = (uint32_t *)((uint8_t *)run + run->io.data_offset);
	} else if (run->io.port == DOORBELL_PORT && run->io.count == 1 && out &&
	           run->io.size == sizeof(event->number) &&
	           run->io.data_offset <= run_bytes - sizeof(event->number)) {
		event->kind = EXIT_DOORBELL;
		memcpy(&event->number, (const uint8_t *)run + run->io.data_offset, sizeof(event->number));
	} else {
		fatal(event, "used port 0x%x (%s, %u of %u bytes), which is not there", run->io.port,
		      out ? "out" : "in", run->io.count, run->io.size);
	}
}

static void memory_decode(const struct kvm_run *run, const struct exit_ranges *ranges,
                          struct exit_event *event)
{
	uint64_t gpa = run->mmio.phys_addr;
	bool read_only = (gpa >= GPA_DATA && gpa < ranges->data_end) ||
	                 (gpa >= GPA_INBOX && gpa < ranges->inbox_end) ||
	                 (gpa >= GPA_RECORD && gpa < ranges->record_end);

	if (run->mmio.is_write && read_only)
		event->kind = EXIT_WINDOW_WRITE;
	else
		fatal(event, "%s guest-physical 0x%" PRIx64 ", where no memory is",
		      run->mmio.is_write ? "wrote to" : "read", gpa);
}

/* Tells which instruction the emulator cannot do, where KVM says it. */
static void internal_error_decode(const struct kvm_run *run, struct exit_event *event)
{
	uint32_t n_bytes = 0;
	int used;

	fatal(event, "KVM internal error %u%s", run->internal.suberror,
	      run->internal.suberror == KVM_INTERNAL_ERROR_EMULATION ? " (cannot emulate an instruction)"
	                                                             : "");
	if (run->internal.suberror != KVM_INTERNAL_ERROR_EMULATION || run->emulation_failure.ndata < 3 ||
	    (run->emulation_failure.flags & KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES) == 0)
		return;
	n_bytes = run->emulation_failure.insn_size;
	if (n_bytes > sizeof(run->emulation_failure.insn_bytes))
		n_bytes = sizeof(run->emulation_failure.insn_bytes);
	used = snprintf(event->text, sizeof(event->text), "KVM cannot emulate the instruction");
	for (uint32_t i = 0; i < n_bytes; i++)
		used += snprintf(event->text + used, sizeof(event->text) - (size_t)used, " %02x",
		                 run->emulation_failure.insn_bytes[i]);
}

void exit_decode(struct kvm_run *run, uint64_t run_bytes, const struct exit_ranges *ranges,
                 struct exit_event *event)
{
	event->count = NULL;
	event->number = 0;
	event->text[0] = '\0';
	switch (run->exit_reason) {
	case KVM_EXIT_IO:
		return port_decode(run, run_bytes, event);
	case KVM_EXIT_MMIO:
		return memory_decode(run, ranges, event);
	case KVM_EXIT_INTR:
		event->kind = EXIT_INTERRUPTED;
		return;
	case KVM_EXIT_SHUTDOWN:
		return fatal(event, "triple fault");
	case KVM_EXIT_INTERNAL_ERROR:
		return internal_error_decode(run, event);
	case KVM_EXIT_FAIL_ENTRY:
		return fatal(event, "the processor refused to enter it, reason 0x%llx",
		             run->fail_entry.hardware_entry_failure_reason);
	default:
		return fatal(event, "unexpected KVM exit %u", run->exit_reason);
	}
}
