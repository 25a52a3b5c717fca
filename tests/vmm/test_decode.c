/* Exits, hypercalls, log lines, rates and CPUID, decoded without a VM. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "guest/abi/memory.h"
#include "vmm/bucket.h"
#include "vmm/cpuid.h"
#include "vmm/exit.h"
#include "vmm/hypercall.h"
#include "vmm/log_line.h"

#define RUN_BYTES 8192

static const struct exit_ranges ranges = {GPA_DATA + 4096, GPA_INBOX + (2 << 20), GPA_RECORD + (2 << 20)};

static struct kvm_run *run_new(uint32_t reason)
{
	struct kvm_run *run = calloc(1, RUN_BYTES);

	run->exit_reason = reason;
	return run;
}

static struct exit_event port(uint16_t number, uint8_t direction, uint8_t size, uint32_t count)
{
	struct kvm_run *run = run_new(KVM_EXIT_IO);
	struct exit_event event;

	run->io.port = number;
	run->io.direction = direction;
	run->io.size = size;
	run->io.count = count;
	run->io.data_offset = 4096;
	exit_decode(run, RUN_BYTES, &ranges, &event);
	free(run);
	return event;
}

static struct exit_event memory(uint64_t gpa, bool is_write)
{
	struct kvm_run *run = run_new(KVM_EXIT_MMIO);
	struct exit_event event;

	run->mmio.phys_addr = gpa;
	run->mmio.is_write = is_write;
	run->mmio.len = 8;
	exit_decode(run, RUN_BYTES, &ranges, &event);
	free(run);
	return event;
}

Test(exits, ports)
{
	cr_expect_eq(port(HYPERCALL_PORT, KVM_EXIT_IO_OUT, 4, 1).kind, EXIT_HYPERCALL);
	cr_expect_eq(port(HYPERCALL_PORT, KVM_EXIT_IO_OUT, 1, 1).kind, EXIT_HYPERCALL);
	cr_expect_eq(port(HYPERCALL_PORT, KVM_EXIT_IO_IN, 4, 1).kind, EXIT_COUNT_READ);
	cr_expect_eq(port(DOORBELL_PORT, KVM_EXIT_IO_OUT, 4, 1).kind, EXIT_DOORBELL);
	cr_expect_eq(port(DOORBELL_PORT, KVM_EXIT_IO_OUT, 4, 2).kind, EXIT_FATAL);
	cr_expect_eq(port(DOORBELL_PORT, KVM_EXIT_IO_OUT, 2, 1).kind, EXIT_FATAL);
	cr_expect_eq(port(DOORBELL_PORT, KVM_EXIT_IO_IN, 4, 1).kind, EXIT_FATAL);
	/* String I/O, other sizes and other ports end the guest. */
	cr_expect_eq(port(HYPERCALL_PORT, KVM_EXIT_IO_OUT, 4, 2).kind, EXIT_FATAL);
	cr_expect_eq(port(HYPERCALL_PORT, KVM_EXIT_IO_IN, 4, 1024).kind, EXIT_FATAL);
	cr_expect_eq(port(HYPERCALL_PORT, KVM_EXIT_IO_IN, 1, 1).kind, EXIT_FATAL);
	struct exit_event event = port(0x60, KVM_EXIT_IO_IN, 1, 1);
	cr_expect_eq(event.kind, EXIT_FATAL);
	cr_expect_str_eq(event.text, "used port 0x60 (in, 1 of 1 bytes), which is not there");
}

Test(exits, h13_writes_into_read_only_memory)
{
	cr_expect_eq(memory(GPA_INBOX, true).kind, EXIT_WINDOW_WRITE);
	cr_expect_eq(memory(ranges.inbox_end - 1, true).kind, EXIT_WINDOW_WRITE);
	cr_expect_eq(memory(ranges.inbox_end, true).kind, EXIT_FATAL);
	cr_expect_eq(memory(GPA_RECORD, true).kind, EXIT_WINDOW_WRITE);
	cr_expect_eq(memory(ranges.record_end, true).kind, EXIT_FATAL);
	cr_expect_eq(memory(GPA_DATA, true).kind, EXIT_WINDOW_WRITE);
	cr_expect_eq(memory(GPA_DATA + 4096, true).kind, EXIT_FATAL);
	cr_expect_eq(memory(GPA_OUTBOX, true).kind, EXIT_FATAL);
	cr_expect_eq(memory(GPA_INBOX, false).kind, EXIT_FATAL);
	cr_expect_eq(memory(0xfee00000, true).kind, EXIT_FATAL);
	cr_expect_eq(memory(UINT64_MAX, true).kind, EXIT_FATAL);
}

Test(exits, ends_of_a_guest_are_told_apart)
{
	static const struct {
		uint32_t reason;
		const char *part;
	} ends[] = {
		{KVM_EXIT_SHUTDOWN, "triple fault"},         {KVM_EXIT_FAIL_ENTRY, "refused to enter"},
		{KVM_EXIT_INTERNAL_ERROR, "internal error"}, {KVM_EXIT_HLT, "unexpected KVM exit 5"},
		{0xffffffff, "unexpected KVM exit"},
	};
	struct exit_event event;

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		struct kvm_run *run = run_new(ends[i].reason);

		exit_decode(run, RUN_BYTES, &ranges, &event);
		cr_expect_eq(event.kind, EXIT_FATAL);
		cr_expect_not_null(strstr(event.text, ends[i].part), "%s", event.text);
		free(run);
	}
	struct kvm_run *run = run_new(KVM_EXIT_INTR);
	exit_decode(run, RUN_BYTES, &ranges, &event);
	cr_expect_eq(event.kind, EXIT_INTERRUPTED);
	free(run);
}

Test(exits, an_instruction_that_cannot_be_emulated_is_shown)
{
	struct kvm_run *run = run_new(KVM_EXIT_INTERNAL_ERROR);
	struct exit_event event;

	run->emulation_failure.suberror = KVM_INTERNAL_ERROR_EMULATION;
	run->emulation_failure.ndata = 4;
	run->emulation_failure.flags = KVM_INTERNAL_ERROR_EMULATION_FLAG_INSTRUCTION_BYTES;
	run->emulation_failure.insn_size = 255; /* more than there are: not believed */
	memcpy(run->emulation_failure.insn_bytes, "\x0f\x01\xca", 3);
	exit_decode(run, RUN_BYTES, &ranges, &event);
	cr_expect_not_null(strstr(event.text, "cannot emulate the instruction 0f 01 ca"), "%s", event.text);
	free(run);
}

static struct layout *two_domains(void)
{
	struct layout *layout = calloc(1, sizeof(*layout));

	layout->n_domains = 2;
	layout->domain[1].vcpu = 1;
	return layout;
}

static int64_t decode(uint32_t call, uint32_t domain)
{
	struct layout *layout = two_domains();
	struct hypercall_words words = {.raw_call = call, .raw_domain = domain};
	struct guest_request request;
	int64_t result = hypercall_decode(&words, layout, 0, &request);

	free(layout);
	return result;
}

Test(hypercalls, h8_ids)
{
	cr_expect_eq(decode(HYPERCALL_ACCEPT, 0), CALL_OK);
	cr_expect_eq(decode(HYPERCALL_ACCEPT, 1), CALL_BAD_ARGUMENT, "another vCPU's domain");
	cr_expect_eq(decode(HYPERCALL_ACCEPT, 2), CALL_BAD_ARGUMENT, "one past the last");
	cr_expect_eq(decode(HYPERCALL_ACCEPT, 1u << 31), CALL_BAD_ARGUMENT);
	cr_expect_eq(decode(HYPERCALL_ACCEPT, NO_DOMAIN), CALL_BAD_ARGUMENT);
	cr_expect_eq(decode(HYPERCALL_READY, NO_DOMAIN), CALL_OK);
	cr_expect_eq(decode(HYPERCALL_READY, 0), CALL_BAD_ARGUMENT);
	cr_expect_eq(decode(HYPERCALL_PANIC, 0), CALL_BAD_ARGUMENT);
	cr_expect_eq(decode(0, 0), CALL_NO_CALL);
	cr_expect_eq(decode(HYPERCALL_READY + 1, 0), CALL_NO_CALL);
	cr_expect_eq(decode(UINT32_MAX, 0), CALL_NO_CALL);
}

Test(hypercalls, h8_text_lengths)
{
	struct call_page *page = malloc(sizeof(*page));
	static struct guest_request request;

	memset(page, 'a', sizeof(*page));
	request.argument[0] = MAX_LOG_BYTES;
	cr_expect_eq(hypercall_text(page, &request), CALL_OK);
	cr_expect_eq(strlen(request.text), MAX_LOG_BYTES);
	request.argument[0] = 0;
	cr_expect_eq(hypercall_text(page, &request), CALL_OK);
	cr_expect_str_eq(request.text, "");
	static const uint64_t bad[] = {MAX_LOG_BYTES + 1, 1ull << 31, 1ull << 32, UINT64_MAX};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		request.argument[0] = bad[i];
		cr_expect_eq(hypercall_text(page, &request), CALL_BAD_ARGUMENT);
	}
	free(page);
}

Test(hypercalls, names)
{
	cr_expect(hypercall_is_name("echo", 4));
	cr_expect(hypercall_is_name("a", 1));
	cr_expect(!hypercall_is_name("", 0));
	cr_expect(!hypercall_is_name("a\nb", 3));
	cr_expect(!hypercall_is_name("a\0b", 3));
	cr_expect(!hypercall_is_name("a b", 3));
	cr_expect(!hypercall_is_name("\x7f", 1));
	cr_expect(!hypercall_is_name("\xc3\xa9", 2));
	cr_expect(hypercall_is_name("0123456789012345678901234567890", MAX_NAME_BYTES - 1));
	cr_expect(!hypercall_is_name("01234567890123456789012345678901", MAX_NAME_BYTES));
	cr_expect(hypercall_is_name("other/echo", 10));
	cr_expect(hypercall_is_name("0123456789012345678901234567890/0123456789012345678901234567890",
	                            MAX_PATH_BYTES - 1));
	cr_expect(!hypercall_is_name("/echo", 5));
	cr_expect(!hypercall_is_name("other/", 6));
	cr_expect(!hypercall_is_name("a/b/c", 5));
	cr_expect(!hypercall_is_name("/", 1));
}

static void assert_line(const char *raw, const char *clean)
{
	char line[MAX_LOG_BYTES + 1];

	log_line_clean(raw, strlen(raw), line);
	cr_expect_str_eq(line, clean, "'%s' became '%s'", raw, line);
}

Test(log, h12_control_characters_are_neutralised)
{
	assert_line("plain text", "plain text");
	assert_line("gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac \xf0\x9f\x98\x80",
	            "gr\xc3\xbc\xc3\x9f dich \xe2\x82\xac \xf0\x9f\x98\x80");
	assert_line("end\r\n\n", "end");
	assert_line("two\nlines", "two?lines");
	assert_line("a\tb", "a b");
	assert_line("\033[2Jgone\a\b\x7f", "?[2Jgone???");
	assert_line("\xc2\x9b"
	            "31m",
	            "?31m"); /* C1 CSI */
	assert_line("\xe2\x80\xae"
	            "evil\xe2\x81\xa6",
	            "?evil?");                   /* text direction */
	assert_line("\xc0\xaf\xff\xfe", "????"); /* overlong, not UTF-8 */
	assert_line("\xed\xa0\x80", "???");      /* a surrogate */
	assert_line("\xf4\x90\x80\x80", "????"); /* past U+10FFFF */
	assert_line("cut \xe2\x82", "cut ??");
	assert_line("", "");
}

Test(log, a_nul_and_the_longest_line)
{
	char raw[MAX_LOG_BYTES + 64], line[MAX_LOG_BYTES + 1];

	log_line_clean("a\0b", 3, line);
	cr_expect_str_eq(line, "a?b");
	memset(raw, 'x', sizeof(raw));
	log_line_clean(raw, sizeof(raw), line);
	cr_expect_eq(strlen(line), MAX_LOG_BYTES);
}

Test(bucket, burst_then_the_sustained_rate)
{
	struct bucket bucket = {0};
	uint64_t now_ns = 1000000000000;
	int taken = 0;

	while (bucket_take(&bucket, now_ns, 100, 50))
		taken++;
	cr_expect_eq(taken, 50);
	cr_expect(!bucket_take(&bucket, now_ns + 9999999, 100, 50));
	cr_expect(bucket_take(&bucket, now_ns + 10000000, 100, 50));
	cr_expect(!bucket_take(&bucket, now_ns + 10000000, 100, 50));
	taken = 0;
	while (bucket_take(&bucket, now_ns + 60000000000, 100, 50))
		taken++;
	cr_expect_eq(taken, 50, "a long pause fills it, and not more");
}

static const struct kvm_cpuid_entry2 *leaf(const struct cpuid_table *table, uint32_t function, uint32_t index)
{
	for (uint32_t i = 0; i < table->n_entries; i++)
		if (table->entry[i].function == function && table->entry[i].index == index)
			return &table->entry[i];
	return NULL;
}

/* Everything that a host could offer, offered. */
Test(cpuid, only_what_is_on_the_list)
{
	static struct cpuid_table all, allowed;
	static const uint32_t functions[] = {0,          1,          2,          4,          6,
	                                     7,          0xa,        0xb,        0xd,        0x14,
	                                     0x1f,       0x40000000, 0x40000001, 0x80000000, 0x80000001,
	                                     0x80000008, 0x8000000a, 0x8000001f};

	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		all.entry[all.n_entries++] =
			(struct kvm_cpuid_entry2){functions[i], 0, 0, ~0u, ~0u, ~0u, ~0u, {0}};
	cpuid_allow(&all, 3, 4, &allowed);
	cr_expect_eq(leaf(&allowed, 1, 0)->ecx & (1u << 5), 0, "VMX");
	cr_expect_eq(leaf(&allowed, 1, 0)->ecx & (1u << 26 | 1u << 27 | 1u << 28), 0, "XSAVE, OSXSAVE, AVX");
	cr_expect_eq(leaf(&allowed, 1, 0)->ecx & (1u << 3), 0, "MONITOR");
	cr_expect_neq(leaf(&allowed, 1, 0)->ecx & (1u << 21), 0, "x2APIC");
	cr_expect_eq(leaf(&allowed, 1, 0)->ebx >> 24, 3);
	cr_expect_eq(leaf(&allowed, 7, 0)->ebx & 1, 0, "FSGSBASE");
	cr_expect_eq(leaf(&allowed, 7, 0)->ebx & (1u << 5), 0, "AVX2");
	cr_expect_eq(leaf(&allowed, 0x80000001, 0)->ecx & (1u << 2), 0, "SVM");
	cr_expect_null(leaf(&allowed, 0xa, 0), "the PMU");
	cr_expect_null(leaf(&allowed, 0xd, 0), "XSAVE");
	cr_expect_null(leaf(&allowed, 0x40000000, 0), "paravirtual leaves");
	cr_expect_null(leaf(&allowed, 0x8000000a, 0), "SVM");
	cr_expect_eq(leaf(&allowed, 0xb, 0)->edx, 3);
	cr_expect_eq(leaf(&allowed, 0xb, 1)->ebx, 4);
	cr_expect_eq(leaf(&allowed, 0, 0)->eax, 0xb);
	cr_expect_eq(cpuid_cr4(&allowed), 1ull << 20 | 1ull << 21 | 1ull << 11);
}
