/*
 * What `portcullis bench` promises to scripts: one JSON document on standard output
 * and nothing else there, these names, and statuses 0, 1 and 2.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <sched.h>
#include <string.h>

#include "tests/monitor/cli_child.h"

#define PROGRAMS "--programs", "build/domains"

static json_t *document(struct child *child)
{
	json_error_t error;
	json_t *json;

	cr_assert_eq(child->status, 0, "status %d: %s", child->status, child->err);
	cr_assert_str_empty(child->err);
	json = json_loads(child->out, 0, &error); /* refuses anything behind the document */
	cr_assert_not_null(json, "line %d: %s", error.line, error.text);
	child_free(child);
	return json;
}

static double number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	cr_assert(json_is_number(value), "\"%s\" is missing", name);
	return json_number_value(value);
}

static void check_text(const json_t *object, const char *name, const char *text)
{
	const char *value = json_string_value(json_object_get(object, name));

	cr_assert(value && strcmp(value, text) == 0, "\"%s\" is \"%s\"", name, value ? value : "missing");
}

static void check_stats(const json_t *row, const char *name, bool p99)
{
	const json_t *stats = json_object_get(row, name);

	cr_assert_leq(number(stats, "median"), number(stats, "max"), "\"%s\"", name);
	cr_assert_eq(json_object_get(stats, "p99") != NULL, p99, "\"%s\"", name);
}

static void check_floor(const json_t *row)
{
	const json_t *floor = json_object_get(row, "floor");

	check_stats(floor, "stop_resume", false);
	check_stats(floor, "warm", false);
	cr_assert_gt(number(row, "floor_ratio"), 0);
}

static void check_revoke_row(const json_t *row, int connections, int runs)
{
	static const char *const parts[] = {"total", "stop", "patch", "resume", "stop_to_resumed"};

	cr_assert_eq(number(row, "connections"), connections);
	cr_assert_eq(number(row, "runs"), runs);
	for (int i = 0; i < 5; i++)
		check_stats(row, parts[i], false);
	check_floor(row);
	cr_assert_gt(number(json_object_get(row, "total"), "median"), 0);
}

/* Every run checks for itself that each link is dead at both ends; see monitor/bench/revoke_run.c. */
static void check_revoke(const char *shape, const char *stop)
{
	struct child child;
	const json_t *rows, *fit, *paper;
	json_t *json;

	need_kvm();
	child = RUN("bench", "revoke", "--shape", shape, "--stop", stop, "--connections", "1,2", "--runs",
	            "3", "--json", PROGRAMS);
	json = document(&child);
	check_text(json, "shape", shape);
	check_text(json, "stop", stop);
	cr_assert_eq(number(json, "vcpus"), 2);
	rows = json_object_get(json, "rows");
	cr_assert_eq(json_array_size(rows), 2);
	check_revoke_row(json_array_get(rows, 0), 1, 3);
	check_revoke_row(json_array_get(rows, 1), 2, 3);
	fit = json_object_get(json, "fit");
	number(fit, "base");
	number(fit, "per_connection");
	cr_assert_eq(number(fit, "r2"), 1); /* of two points */
	check_stats(json_object_get(json, "floor"), "stop_resume", false);
	check_stats(json_object_get(json, "floor"), "warm", false);
	paper = json_object_get(json, "paper");
	cr_assert_eq(json_array_size(json_object_get(paper, "connections")), 5);
	cr_assert_eq(json_integer_value(json_array_get(json_object_get(paper, "total"), 4)), 1650);
	json_decref(json);
}

Test(bench_form, revoke_chain)
{
	check_revoke("chain", "all");
}

Test(bench_form, revoke_pairs_affected)
{
	check_revoke("pairs", "affected");
}

Test(bench_form, revoke_fan_without_a_stop)
{
	check_revoke("fan", "none");
}

Test(bench_form, revoke_for_people)
{
	struct child child;

	need_kvm();
	child = RUN("bench", "revoke", "--connections", "1", "--runs", "1", PROGRAMS);
	cr_assert_eq(child.status, 0, "%s", child.err);
	cr_assert_not_null(strstr(child.out, "\nconnections "), "%s", child.out);
	cr_assert_null(strstr(child.out, "\nfit"), "a line through one point: %s", child.out);
	child_free(&child);
}

/* Channels that the monitor planted: what was kept is kept, and no domain sees what was cut. */
static void check_layout(const char *layout)
{
	struct child child;
	json_t *json;

	need_kvm();
	child = RUN("bench", "revoke", "--layout", layout, "--connections", "2,100", "--runs", "2", "--json",
	            PROGRAMS);
	json = document(&child);
	check_text(json, "layout", layout);
	cr_assert_eq(json_array_size(json_object_get(json, "rows")), 2);
	check_revoke_row(json_array_get(json_object_get(json, "rows"), 1), 100, 2);
	number(json_object_get(json_object_get(json, "fit"), "patch"), "per_connection");
	cr_assert_eq(json_array_size(json_object_get(json, "skipped")), 0);
	json_decref(json);
}

Test(bench_form, layout_adjacent)
{
	check_layout("adjacent");
}

Test(bench_form, layout_mapping_per_slot)
{
	check_layout("mapping-per-slot");
}

Test(bench_form, layout_scattered)
{
	check_layout("scattered");
}

Test(bench_form, layout_interleaved)
{
	check_layout("interleaved");
}

/* Every vCPU has something else to do; each run checks what was cut. */
Test(bench_form, revoke_under_load)
{
	static const char *const loads[] = {"halted", "spin", "storm"};
	struct child child;
	const json_t *rows, *row;
	json_t *json;

	need_kvm();
	child = RUN("bench", "revoke", "--load", "all", "--vcpus", "1,2", "--runs", "2", "--stop", "affected",
	            "--json", PROGRAMS);
	json = document(&child);
	check_text(json, "stop", "affected");
	rows = json_object_get(json, "rows");
	cr_assert_eq(json_array_size(rows), 6);
	for (int i = 0; i < 6; i++) {
		row = json_array_get(rows, (size_t)i);
		check_text(row, "load", loads[i / 2]);
		cr_assert_eq(number(row, "vcpus"), 1 + i % 2);
		check_revoke_row(row, 1, 2);
		/* QEMU's guest is halted. */
		cr_assert_eq(json_object_get(row, "qemu_ratio") != NULL,
		             i < 2 && !json_object_get(json, "no_qemu"));
	}
	json_decref(json);
}

Test(bench_form, revoke_beside_a_bystander)
{
	static const char *const modes[] = {"planned", "none", "affected", "all"};
	static const char *const figures[] = {"mapping_calls", "stop_requests", "lost", "lost_before",
	                                      "total"};
	struct child child;
	const json_t *rows;
	json_t *json;

	need_kvm();
	child = RUN("bench", "revoke", "--bystander", "--connections", "2", "--runs", "2", "--json",
	            PROGRAMS);
	json = document(&child);
	check_text(json, "layout", "scattered");
	cr_assert_gt(number(json, "reading_ns"), 0);
	rows = json_object_get(json, "rows");
	cr_assert_eq(json_array_size(rows), 4);
	for (size_t i = 0; i < 4; i++) {
		const json_t *row = json_array_get(rows, i);

		check_text(row, "stop", modes[i]);
		cr_assert_eq(number(row, "connections"), 2);
		for (int f = 0; f < 5; f++)
			check_stats(row, figures[f], false);
		if (!json_object_get(json, "no_exits"))
			number(row, "forced_exits_per_mapping_call");
	}
	json_decref(json);
}

Test(bench_form, push)
{
	static const char *const parts[] = {"compile", "load",    "questions", "decide",
	                                    "plan",    "cutting", "prepare",   "stopped"};
	struct child child;
	const json_t *row;
	json_t *json;

	need_kvm();
	child = RUN("bench", "push", "--channels", "100", "--pairs", "10,1000", "--runs", "1", "--json",
	            PROGRAMS);
	json = document(&child);
	cr_assert_eq(json_array_size(json_object_get(json, "rows")), 1, "a channel has one pair of labels");
	row = json_array_get(json_object_get(json, "rows"), 0);
	cr_assert_eq(number(row, "channels"), 100);
	cr_assert_eq(number(row, "pairs"), 10);
	for (int i = 0; i < 7; i++)
		check_stats(row, parts[i], false);
	json_decref(json);
}

Test(bench_form, stop)
{
	struct child child;
	const json_t *rows;
	json_t *json;

	need_kvm();
	child = RUN("bench", "stop", "--runs", "2", "--json", PROGRAMS);
	json = document(&child);
	rows = json_object_get(json, "rows");
	cr_assert_eq(json_array_size(rows), 12);
	check_stats(json_array_get(rows, 11), "stop_resume", false);
	cr_assert_eq(number(json_array_get(rows, 11), "vcpus"), 8);
	json_decref(json);
}

/* All-to-one traffic between six guests, half of it cut. The measurement checks each run. */
Test(bench_form, guests)
{
	static const char *const parts[] = {"total", "prepare", "stop", "patch", "resume"};
	struct child child;
	const json_t *row;
	json_t *json;

	need_kvm();
	child = RUN("bench", "guests", "--guests", "2,6", "--domains", "2", "--runs", "2", "--stop",
	            "affected", "--json", PROGRAMS);
	json = document(&child);
	check_text(json, "stop", "affected");
	cr_assert_eq(json_array_size(json_object_get(json, "rows")), 2);
	row = json_array_get(json_object_get(json, "rows"), 1);
	cr_assert_eq(number(row, "guests"), 6);
	cr_assert_eq(number(row, "channels"), 11);
	cr_assert_eq(number(row, "cut"), 6);
	cr_assert_eq(number(row, "vcpus_stopped"), 4,
	             "the server's guest, and those of clients that were cut");
	cr_assert_gt(number(row, "calls_per_second"), 0);
	for (int i = 0; i < 5; i++)
		check_stats(row, parts[i], false);
	json_decref(json);
}

static void check_ipc_rows(const json_t *rows)
{
	static const char *const transports[] = {"raw-shared-memory",
	                                         "channel",
	                                         "channel-unmediated",
	                                         "channel-identified",
	                                         "channel-on-behalf",
	                                         "channel-same-vcpu",
	                                         "pipe",
	                                         "unix-seqpacket",
	                                         "channel-two-guests",
	                                         "two-guests-sleeping"};
	static const int sizes[] = {8, 16, 128, 1024, 4096, 8192, 65536};

	for (size_t t = 0; t < sizeof(transports) / sizeof(transports[0]); t++)
		for (int s = 0; s < 7; s++) {
			const json_t *row;
			size_t i, n = 0;

			json_array_foreach ((json_t *)rows, i, row) {
				if (strcmp(json_string_value(json_object_get(row, "transport")),
				           transports[t]) != 0 ||
				    (int)number(row, "bytes") != sizes[s])
					continue;
				n++;
				cr_assert_gt(number(json_object_get(row, "round_trip"), "median"), 0);
				cr_assert_gt(number(row, "bytes_per_second"), 0);
			}
			cr_assert_eq(n, 1, "%s of %d bytes", transports[t], sizes[s]);
		}
}

Test(bench_form, ipc)
{
	struct child child;
	cpu_set_t set;
	json_t *json, *copies;

	need_kvm();
	cr_assert_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	if (CPU_COUNT(&set) < 2)
		cr_skip_test("one core: bench ipc refuses it");
	child = RUN("bench", "ipc", "--rounds", "1", "--round-trips", "40", "--json", PROGRAMS);
	json = document(&child);
	check_ipc_rows(json_object_get(json, "rows"));
	copies = json_object_get(json, "memcpy");
	cr_assert_eq(json_array_size(copies), 7);
	for (size_t i = 0; i < 7; i++)
		cr_assert_gt(number(json_array_get(copies, i), "bytes_per_second"), 0);
	cr_assert_lt(number(json, "exits_per_message"), 0.001);
	json_decref(json);
}

/* Rows of these names in this order, and none else. One that begins with '?' stands there where QEMU is. */
static void check_rows(const json_t *json, const char *const *names)
{
	const json_t *rows = json_object_get(json, "rows");
	bool no_qemu = json_object_get(json, "no_qemu");
	size_t n = 0;

	for (; *names; names++) {
		bool may_miss = **names == '?';
		const char *name = *names + may_miss;
		const json_t *row = json_array_get(rows, n);

		if (may_miss && no_qemu)
			continue;
		check_text(row, "name", name);
		cr_assert_gt(number(row, "median"), 0, "%s", name);
		cr_assert_eq(json_object_get(row, "p99") != NULL, true, "%s", name);
		n++;
	}
	cr_assert_eq(json_array_size(rows), n);
}

static void check_figures(struct child *child, const char *const *names)
{
	json_t *json = document(child);

	check_rows(json, names);
	json_decref(json);
}

Test(bench_form, avc)
{
	static const char *const names[] = {"lookup-hit", "lookup-miss",  "insert",         "libsepol",
	                                    "decide",     "decide-of-64", "unix-seqpacket", NULL};
	struct child child = RUN("bench", "avc", "--runs", "30", "--json");

	check_figures(&child, names);
}

/* Each is what it claims to be: the domain asserts the result of every single one. */
Test(bench_form, connect)
{
	static const char *const names[] = {"connect",     "accepted",   "denied",    "hypercall",
	                                    "system-call", "host-fresh", "host-used", "host-accept",
	                                    "host-denied", "exit",       NULL};
	struct child child;

	need_kvm();
	child = RUN("bench", "connect", "--runs", "30", "--json", PROGRAMS);
	check_figures(&child, names);
}

static const char *const boot_rows[] = {"first-instruction",
                                        "?qemu-first-instruction",
                                        "boot",
                                        "build",
                                        "run",
                                        "end",
                                        "kvm-vm",
                                        "process",
                                        NULL};

Test(bench_form, boot)
{
	struct child child;
	json_t *json;

	need_kvm();
	child = RUN("bench", "boot", "--runs", "30", "--json", PROGRAMS);
	json = document(&child);
	check_rows(json, boot_rows);
	if (!json_object_get(json, "no_qemu"))
		cr_assert_gt(number(json_object_get(json, "first_instruction_to_qemu"), "median"), 0);
	json_decref(json);
}

Test(bench_form, boot_without_qemu)
{
	struct child child;
	json_t *json;

	need_kvm();
	setenv("PATH", "/nonexistent", 1);
	child = RUN("bench", "boot", "--runs", "2", "--json", PROGRAMS);
	json = document(&child);
	check_text(json, "no_qemu", "qemu-system-x86_64 is not installed");
	cr_assert_eq(json_array_size(json_object_get(json, "rows")), 7);
	json_decref(json);
}

Test(bench_form, help_teaches)
{
	struct child child = RUN("bench", "--help");

	cr_assert_eq(child.status, 0);
	cr_assert_not_null(strstr(child.out, "portcullis bench revoke --shape fan"));
	child_free(&child);
	child = RUN("bench", "revoke", "--help");
	cr_assert_eq(child.status, 0);
	cr_assert_not_null(strstr(child.out, "--connections"));
	child_free(&child);
	child = RUN("bench", "boot", "--help");
	cr_assert_eq(child.status, 0);
	cr_assert_not_null(strstr(child.out, "kvm-vm"));
	child_free(&child);
	child = RUN("bench", "ipc", "--help");
	cr_assert_eq(child.status, 0);
	cr_assert_not_null(strstr(child.out, "raw-shared-memory"));
	child_free(&child);
}

Test(bench_form, wrong_usage)
{
	static const char *const wrong[][6] = {
		{"bench"},
		{"bench", "speed"},
		{"bench", "revoke", "--shape", "star"},
		{"bench", "revoke", "--stop", "some"},
		{"bench", "revoke", "--connections", "1,,2"},
		{"bench", "revoke", "--connections", "0"},
		{"bench", "revoke", "--connections", "64"}, /* a chain of 65 domains */
		{"bench", "revoke", "--runs"},
		{"bench", "revoke", "--runs", "-1"},
		{"bench", "revoke", "--slow"},
		{"bench", "revoke", "chain"},
		{"bench", "revoke", "--layout", "heap"},
		{"bench", "revoke", "--layout", "adjacent", "--connections", "16385"},
		{"bench", "revoke", "--load", "sleep"},
		{"bench", "revoke", "--load", "spin", "--connections", "2"},
		{"bench", "revoke", "--vcpus", "1,2"},
		{"bench", "revoke", "--bystander", "--stop", "none"},
		{"bench", "push", "--pairs", "1025"},
		{"bench", "push", "--channels", "0"},
		{"bench", "stop", "now"},
		{"bench", "--all", "fast"},
		{"bench", "ipc", "--rounds", "0"},
		{"bench", "ipc", "--cores", "one"},
		{"bench", "ipc", "8"},
		{"bench", "avc", "--runs", "0"},
		{"bench", "connect", "--runs", "100000"}, /* more than the domain can tell */
		{"bench", "boot", "now"},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct child child = child_run(wrong[i]);

		cr_assert_eq(child.status, 2, "case %zu ended with %d", i, child.status);
		cr_assert_str_empty(child.out);
		cr_assert(strncmp(child.err, "portcullis bench", 16) == 0 && strchr(child.err, '\n') &&
		                  !strchr(child.err, '\n')[1],
		          "case %zu: one line, please: %s", i, child.err);
		child_free(&child);
	}
}

Test(bench_form, a_core_that_may_not_be_used)
{
	struct child child = RUN("bench", "ipc", "--cores", "0,4000", PROGRAMS);

	EXPECT(child, 1, "--cores: expected two different cores");
}
