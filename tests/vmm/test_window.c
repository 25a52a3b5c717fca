/* Windows from the host's side: what is shown, what is taken away, what a killed machine keeps. */
#include "tests/vmm/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest/abi/memory.h"
#include "vmm/window.h"

static void fill(struct rig *rig, uint32_t slot, uint8_t byte)
{
	memset(window_outbox(rig->machine, slot), byte, rig->machine->layout.slot_stride);
}

static uint8_t shown(struct rig *rig, uint32_t slot, uint64_t offset)
{
	return ((const volatile uint8_t *)window_inbox(rig->machine, slot))[offset];
}

static bool is_readable(const void *address)
{
	uint8_t byte;
	struct iovec to = {&byte, 1}, from = {(void *)(uintptr_t)address, 1};

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

static void two(struct rig *reader, struct rig *writer)
{
	rig_create(reader, &(struct rig_spec){.kernel = "enter", .n_vcpus = 1});
	rig_create(writer, &(struct rig_spec){.kernel = "enter", .n_vcpus = 1});
}

Test(window, parts_of_an_outbox)
{
	struct rig reader, writer;

	two(&reader, &writer);
	fill(&writer, 2, 0xaa);
	cr_expect_eq(shown(&reader, 1, 0), 0, "a tombstone is zero");
	cr_assert_eq(window_set(reader.machine, 1, writer.machine, 2, WINDOW_ALL), 0);
	cr_expect_eq(shown(&reader, 1, 0), 0xaa);
	cr_expect_eq(shown(&reader, 1, 131071), 0xaa);
	cr_expect_eq(shown(&reader, 0, 131071), 0);
	cr_expect_eq(shown(&reader, 2, 0), 0);
	/* The other way is another flow. */
	cr_expect_eq(shown(&writer, 2, 0), 0);
	cr_assert_eq(window_set(reader.machine, 1, writer.machine, 2, WINDOW_HEADER), 0);
	cr_expect_eq(shown(&reader, 1, 4095), 0xaa);
	cr_expect_eq(shown(&reader, 1, SLOT_CELLS_OFFSET), 0, "the cells were taken away");
	cr_expect_eq(shown(&reader, 1, 131071), 0);
	cr_assert_eq(window_set(reader.machine, 1, writer.machine, 2, WINDOW_NONE), 0);
	cr_expect_eq(shown(&reader, 1, 0), 0);
	rig_destroy(&reader);
	rig_destroy(&writer);
}

Test(window, neighbours_are_severed_at_once)
{
	struct rig reader, writer;

	two(&reader, &writer);
	for (uint32_t i = 0; i < 8; i++) {
		fill(&writer, i, (uint8_t)(i + 1));
		cr_assert_eq(window_set(reader.machine, i, writer.machine, i, WINDOW_ALL), 0);
	}
	cr_assert_eq(window_sever(reader.machine, 2, 4), 0);
	for (uint32_t i = 0; i < 8; i++)
		cr_expect_eq(shown(&reader, i, 100), i >= 2 && i < 6 ? 0 : i + 1);
	/* I8: the writer's memory is given back and reads zero, also where it is still shown. */
	cr_assert_eq(window_outbox_reset(writer.machine, 7), 0);
	cr_expect_eq(shown(&reader, 7, 100), 0);
	cr_expect_eq(*(const uint8_t *)window_outbox(writer.machine, 7), 0);
	cr_expect_eq(shown(&reader, 6, 100), 7);
	rig_destroy(&reader);
	rig_destroy(&writer);
}

Test(window, counters_are_read_as_they_stand)
{
	struct rig reader, writer;

	two(&reader, &writer);
	struct outbox_header *header = window_outbox(writer.machine, 3);
	header->written = 7;
	header->written_bytes = UINT64_MAX;
	header->read = 5;
	header->read_bytes = 6;
	struct outbox_counters counters = window_outbox_counters(writer.machine, 3);
	cr_expect_eq(counters.written, 7);
	cr_expect_eq(counters.written_bytes, UINT64_MAX);
	cr_expect_eq(counters.read, 5);
	cr_expect_eq(counters.read_bytes, 6);
	rig_destroy(&reader);
	rig_destroy(&writer);
}

static int n_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int n = 0;

	for (int c; (c = fgetc(maps)) != EOF;)
		n += c == '\n';
	fclose(maps);
	return n;
}

static void show_all(struct rig *reader, struct rig *writer, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		fill(writer, i, (uint8_t)(i + 1));
		cr_assert_eq(window_set(reader->machine, i, writer->machine, i, WINDOW_ALL), 0);
		cr_assert_eq(shown(reader, i, 100), (uint8_t)(i + 1));
	}
}

/* I1: many slots of a machine that stands are moved aside; nothing of them is seen, then or when they are
 * freed. */
Test(window, what_stands_is_moved_aside)
{
	struct rig reader, writer;
	const struct rig_spec spec = {.kernel = "enter", .n_vcpus = 1, .n_domains = 7};
	const uint32_t n = 96;

	rig_create(&reader, &spec);
	rig_create(&writer, &spec);
	cr_assert_geq(machine_total_slots(reader.machine), n + 1);
	int before = n_mappings();
	cr_expect_not(machine_stands(reader.machine));
	rig_stop(&reader);
	cr_expect(machine_stands(reader.machine));
	for (int round = 0; round < 3; round++) {
		show_all(&reader, &writer, n + 1);
		cr_assert_eq(window_sever_run(reader.machine, 0, n, 1), 0);
		for (uint32_t i = 0; i < n; i++)
			cr_expect_eq(shown(&reader, i, 100), 0);
		cr_expect_eq(shown(&reader, n, 100), n + 1);
		cr_expect_leq(n_mappings(), before + 3 + (round == 1));
		if (round != 1) /* the second move replaces what the first one left */
			window_discard(reader.machine);
		cr_assert_eq(window_sever(reader.machine, n, 1), 0);
	}
	cr_expect_leq(n_mappings(), before + 1);
	rig_resume(&reader);
	show_all(&reader, &writer, n);
	cr_assert_eq(window_sever_run(reader.machine, 0, n, 1), 0); /* in place */
	cr_expect_eq(shown(&reader, n - 1, 100), 0);
	rig_destroy(&reader);
	rig_destroy(&writer);
}

/* Neighbours in window and file are one mapping of the host; the worst case is what the header says at most.
 */
Test(window, neighbours_merge)
{
	struct rig reader, writer;

	two(&reader, &writer);
	int before = n_mappings();
	uint32_t n_slots = machine_total_slots(reader.machine);
	for (uint32_t i = 0; i < n_slots; i++)
		cr_assert_eq(window_set(reader.machine, i, writer.machine, i, WINDOW_ALL), 0);
	cr_expect_leq(n_mappings(), before + 1);
	for (uint32_t i = 0; i < n_slots; i++)
		cr_assert_eq(window_set(reader.machine, i, writer.machine, n_slots - 1 - i, WINDOW_HEADER),
		             0);
	cr_expect_leq((uint64_t)(n_mappings() - before), window_worst_mappings(reader.machine));
	cr_expect_geq((uint64_t)(n_mappings() - before), 2 * n_slots - 2);
	cr_assert_eq(window_sever(reader.machine, 0, n_slots), 0);
	cr_expect_leq(n_mappings(), before + 1);
	rig_destroy(&reader);
	rig_destroy(&writer);
}

Test(window, records_of_a_slot_stand_where_its_domain_looks)
{
	struct rig rig;

	rig_create(&rig, &(struct rig_spec){.kernel = "enter", .n_vcpus = 1, .n_domains = 3});
	for (uint32_t d = 0; d < 3; d++) {
		uint32_t first = machine_first_slot(rig.machine, d), n = machine_n_slots(rig.machine, d);
		char *page = (char *)machine_domain_page(rig.machine, d);

		cr_expect_eq((char *)machine_record(rig.machine, first), page + RECORD_OFFSET(0));
		cr_expect_eq((char *)machine_record(rig.machine, first + n - 1), page + RECORD_OFFSET(n - 1));
	}
	rig_destroy(&rig);
}

/* movabs $VA_INBOX, %rax; 1: movq (%rax), %rcx; jmp 1b */
static const uint8_t read_inbox[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0x50, 0, 0, 0x48, 0x8b, 0x08, 0xeb, 0xfb};

/* Fail closed: the window is gone, the thread leaves by itself and quietly, nothing comes back. */
Test(window, a_killed_machine_loses_its_inbox, .timeout = 180)
{
	size_t bytes;
	void *image = image_make(read_inbox, sizeof(read_inbox), &bytes);
	struct rig rig;

	rig_create(&rig,
	           &(struct rig_spec){.kernel = "enter", .n_vcpus = 1, .image = image, .image_bytes = bytes});
	rig_start(&rig);
	cr_assert_eq(window_set(rig.machine, 0, rig.machine, 1, WINDOW_ALL), 0);
	cr_expect(is_readable(window_inbox(rig.machine, 0)));
	UNTIL(rig_state(&rig, 0) == STOP_RUNNING);
	machine_kill(rig.machine);
	cr_expect(!is_readable(window_inbox(rig.machine, 0)));
	UNTIL(rig_state(&rig, 0) == STOP_GONE);
	cr_expect_eq(machine_state(rig.machine), MACHINE_KILLED);
	cr_expect_eq(rig_load(&rig.n_crashes), 0);
	cr_expect_eq(window_set(rig.machine, 0, rig.machine, 1, WINDOW_ALL), 0);
	cr_expect_eq(window_sever(rig.machine, 0, 4), 0);
	cr_expect(!is_readable(window_inbox(rig.machine, 0)), "a killed machine got a mapping");
	rig_destroy(&rig);
	free(image);
}

/* The vCPU that meets the lost window before the kick reaches it ends without a word as well. */
Test(window, a_lost_window_ends_the_thread_quietly, .timeout = 180)
{
	size_t bytes;
	void *image = image_make(read_inbox, sizeof(read_inbox), &bytes);

	for (int round = 0; round < 50; round++) {
		struct rig rig;

		rig_create(&rig,
		           &(struct rig_spec){
				   .kernel = "enter", .n_vcpus = 1, .image = image, .image_bytes = bytes});
		rig_start(&rig);
		for (int i = 0; i < round; i++)
			rig_pause();
		machine_kill(rig.machine);
		rig_destroy(&rig);
		cr_assert_eq(rig.n_crashes, 0);
	}
	free(image);
}
