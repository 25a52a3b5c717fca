/*
 * The audit trail: lines that tools can read (R16), that no terminal trips over
 * (H12), and that are there or counted (I9), whatever becomes of the file.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/audit_outlet.h"
#include "monitor/audit_ring.h"
#include "monitor/loop.h"

#define CONTEXT_A "system_u:system_r:a_t:s0"
#define CONTEXT_B "system_u:system_r:b_t:s0"

static const struct audit_avc denial = {
	.tclass = CLASS_CHANNEL,
	.permissions = CHANNEL_SEND,
	.guest = "g",
	.domain = "web",
	.channel = 7,
	.source_context = CONTEXT_A,
	.target_context = CONTEXT_B,
};

static struct audit *start(int file_fd, int log_fd)
{
	struct audit *audit;

	cr_assert_eq(audit_start(&(struct audit_options){.file_fd = file_fd, .log_fd = log_fd}, &audit), 0);
	return audit;
}

static char *read_all(int fd)
{
	char *text = calloc(1, 16u << 20);

	cr_assert_not_null(text);
	for (size_t used = 0;;) {
		ssize_t n = pread(fd, text + used, (16u << 20) - 1 - used, (off_t)used);

		if (n <= 0)
			return text;
		used += (size_t)n;
	}
}

static bool matches(const char *line, const char *pattern)
{
	regex_t regex;
	bool match;

	cr_assert_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
	match = regexec(&regex, line, 0, NULL, 0) == 0;
	regfree(&regex);
	return match;
}

#define AVC_LINE                                                                                             \
	"^type=AVC msg=audit\\([0-9]+\\.[0-9]{3}:[0-9]+\\): avc:  (denied|granted)  \\{( [a-z_]+)+ \\} for " \
	"( guest=\"[^\"]*\")?( domain=\"[^\"]*\")?( channel=[0-9]+)? scontext=[^ \"]+ tcontext=[^ \"]+ "     \
	"tclass=[a-z]+ permissive=[01]( reason=\"[^\"]*\")?$"
#define NOTICE_LINE "^type=PORTCULLIS_[A-Z_]+ msg=audit\\([0-9]+\\.[0-9]{3}:[0-9]+\\): .*$"

static void format(const struct audit_avc *avc, char line[static AUDIT_LINE_BYTES])
{
	char body[AUDIT_BODY_BYTES];

	audit_format_avc(avc, body);
	audit_format_line(&(struct audit_line){45, 1700000000123000000u, "AVC", body}, line);
}

Test(audit, an_avc_line_is_what_tools_read)
{
	char line[AUDIT_LINE_BYTES];

	format(&denial, line);
	cr_expect_str_eq(line,
	                 "type=AVC msg=audit(1700000000.123:45): avc:  denied  { send } for  guest=\"g\" "
	                 "domain=\"web\" channel=7 scontext=" CONTEXT_A " tcontext=" CONTEXT_B
	                 " tclass=channel permissive=0");
}

Test(audit, every_avc_line_keeps_the_grammar)
{
	static const char *const texts[] = {
		NULL, "plain", "with blank", "\"quoted\" x=1", "\033[31mred", "new\nline", ""};
	static const size_t n = sizeof(texts) / sizeof(texts[0]);
	char line[AUDIT_LINE_BYTES];

	for (size_t i = 0; i < n * n * n; i++) {
		struct audit_avc avc = denial;

		avc.granted = i % 2;
		avc.permissions = (uint32_t)(i % 127 + 1);
		avc.guest = texts[i % n];
		avc.domain = texts[i / n % n];
		avc.reason = texts[i / n / n];
		avc.channel = i % 3;
		avc.source_context = texts[i % n] ? texts[i % n] : CONTEXT_A;
		format(&avc, line);
		cr_expect(matches(line, AVC_LINE), "%s", line);
	}
}

Test(audit, what_is_too_long_is_cut_off_and_stays_one_line)
{
	char reason[4 * AUDIT_BODY_BYTES], line[AUDIT_LINE_BYTES];
	struct audit_avc avc = denial;

	memset(reason, 'x', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	avc.reason = reason;
	format(&avc, line);
	cr_expect_lt(strlen(line), AUDIT_LINE_BYTES);
	cr_expect(strstr(line, "tclass=channel permissive=0 reason=\"xxx"), "%s", line);
}

Test(audit, a_notice_is_no_denial)
{
	int file = memfd_create("audit", 0);
	struct audit *audit = start(dup(file), -1);
	char *text, *rest;

	audit_notice(audit, "PORTCULLIS_CUT", "avc:  denied  { send } %s", "avc: avc:");
	audit_notice(audit, "PORTCULLIS_CRASH", "\033]0;title\007 and\nmore");
	audit_stop(audit);
	text = read_all(file);
	cr_expect_null(strstr(text, "avc:"), "%s", text);
	cr_expect_null(strpbrk(text, "\033\007"), "%s", text);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		cr_expect(matches(line, NOTICE_LINE), "%s", line);
	free(text);
}

struct seen {
	unsigned n;
	char first[AUDIT_LINE_BYTES], last[AUDIT_LINE_BYTES];
};

static void see(void *opaque, const char *line)
{
	struct seen *seen = opaque;

	if (seen->n++ == 0)
		snprintf(seen->first, sizeof(seen->first), "%s", line);
	snprintf(seen->last, sizeof(seen->last), "%s", line);
}

Test(audit, a_refusal_cannot_forge_fields)
{
	char body[AUDIT_BODY_BYTES];

	audit_format_refusal(
		&(struct audit_refusal){"g", "web", "x\" domain=\"other avc: \033", "nobody offers it"},
		body);
	cr_expect_str_eq(
		body,
		"guest=\"g\" domain=\"web\" service=\"x' domain='other avc. ?\" reason=\"nobody offers it\"");
}

Test(audit, a_flood_of_refusals_is_counted_too)
{
	struct audit *audit = start(-1, -1);
	struct seen all = {0};

	for (unsigned i = 0; i < 10000; i++)
		audit_denied(audit, &(struct audit_refusal){"g", "web", "none", "nobody offers it"});
	audit_recent(audit, 0, SIZE_MAX, see, &all);
	cr_expect_lt(all.n, 5000);
	cr_expect_geq(all.n + audit_lost(audit), 10000);
	audit_stop(audit);
}

/* ---- where lines go ---- */

Test(audit, lines_reach_the_file_in_order)
{
	int file = memfd_create("audit", 0);
	struct audit *audit = start(dup(file), -1);
	unsigned n = 0;
	char *text, *rest;

	for (unsigned i = 1; i <= 2000; i++)
		audit_notice(audit, "PORTCULLIS_CUT", "number=%u.", i);
	audit_stop(audit);
	text = read_all(file);
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char number[32];

		n++;
		snprintf(number, sizeof(number), ":%u): number=%u.", n, n);
		cr_expect(strstr(line, number), "expected %s: %s", number, line);
	}
	cr_expect_eq(n, 2000);
	free(text);
}

Test(audit, log_lines_say_whose_they_are)
{
	int log = memfd_create("log", 0);
	struct audit *audit = start(-1, log);
	char *text;

	audit_log(audit, "g", "web", "one", 0);
	audit_log(audit, "g", "web", "two\nother/domain: three", 3);
	audit_log(audit, "g", NULL, "\033[2J", 0);
	audit_stop(audit);
	text = read_all(log);
	cr_expect_str_eq(
		text, "g/web: one\ng/web: (3 lines lost)\ng/web: two\ng/web: other/domain: three\ng: ?[2J\n");
	free(text);
}

Test(audit, the_newest_lines_stay_in_memory)
{
	struct audit *audit = start(-1, -1);
	struct seen all = {0}, some = {0}, none = {0}, gap = {0};

	for (unsigned i = 1; i <= 3 * AUDIT_RING_LINES; i++)
		audit_notice(audit, "PORTCULLIS_CUT", "number=%u.", i);
	cr_expect_eq(audit_recent(audit, 0, SIZE_MAX, see, &all), 3 * AUDIT_RING_LINES);
	cr_expect_geq(all.n, AUDIT_RING_LINES - 1);
	cr_expect(strstr(all.last, "number=12288."), "%s", all.last);
	audit_recent(audit, 0, 10, see, &some);
	cr_expect_eq(some.n, 10);
	cr_expect(strstr(some.first, "number=12279."), "%s", some.first);
	audit_recent(audit, 3 * AUDIT_RING_LINES, SIZE_MAX, see, &none);
	cr_expect_eq(none.n, 0);
	audit_recent(audit, 1, SIZE_MAX, see, &gap);
	cr_expect(strstr(gap.first, "type=PORTCULLIS_LOST") && strstr(gap.first, "lost="), "%s", gap.first);
	cr_expect_eq(audit_lost(audit), 0, "no file: nothing can be lost to it");
	audit_stop(audit);
}

Test(audit, long_lines_push_out_more_than_one)
{
	struct audit *audit = start(-1, -1);
	struct seen all = {0};
	char body[AUDIT_BODY_BYTES];

	memset(body, 'x', sizeof(body) - 1);
	body[sizeof(body) - 1] = '\0';
	for (unsigned i = 0; i < 2 * AUDIT_RING_LINES; i++)
		audit_notice(audit, "PORTCULLIS_CUT", "%.*s", (int)(i * 7 % sizeof(body)), body);
	audit_recent(audit, 0, SIZE_MAX, see, &all);
	cr_expect_gt(all.n, AUDIT_RING_BYTES / AUDIT_BODY_BYTES - 2);
	cr_expect(matches(all.first, NOTICE_LINE), "%s", all.first);
	audit_stop(audit);
}

/* ---- nobody is held up ---- */

/* A pipe that is full and never read. */
static int blocked_pipe(int *reader)
{
	char page[4096] = {0};
	int ends[2];

	cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
	while (write(ends[1], page, sizeof(page)) > 0)
		;
	fcntl(ends[1], F_SETFL, 0);
	*reader = ends[0];
	return ends[1];
}

/* "lost=N" of all PORTCULLIS_LOST lines that say "queue full", and the number of other lines. */
static void count_lines(const char *text, uint64_t *lost, uint64_t *whole)
{
	*lost = *whole = 0;
	for (const char *line = text; *line;) {
		size_t length = strcspn(line, "\n");
		unsigned long long n;
		const char *said = memmem(line, length, "lost=", 5);

		if (memmem(line, length, "PORTCULLIS_LOST", 15) && said && sscanf(said, "lost=%llu", &n) == 1)
			*lost += n;
		else
			(*whole)++;
		line += length + (line[length] == '\n');
	}
}

Test(audit, a_blocked_file_loses_and_counts)
{
	const uint64_t n = 3 * AUDIT_RING_LINES;
	uint64_t begun = loop_now(), lost, whole;
	struct pollfd wait;
	static char text[8u << 20];
	size_t used = 0;
	int reader, file = blocked_pipe(&reader);
	struct audit *audit = start(file, -1);

	for (uint64_t i = 1; i <= n; i++)
		audit_notice(audit, "PORTCULLIS_CUT", "number=%llu.", (unsigned long long)i);
	cr_expect_lt(loop_now() - begun, 10000000000u, "nobody waited for the reader");
	cr_expect_gt(audit_lost(audit), 0);

	/* Now somebody reads: first what filled the pipe, then the rest, with its gap. */
	wait = (struct pollfd){.fd = reader, .events = POLLIN};
	while (!memmem(text, used, "number=12288.\n", 14) && poll(&wait, 1, 10000) == 1) {
		ssize_t got = read(reader, text + used, sizeof(text) - 1 - used);

		cr_assert_gt(got, 0);
		for (size_t i = used, end = used + (size_t)got; i < end; i++)
			if (text[i]) /* what filled the pipe */
				text[used++] = text[i];
	}
	text[used] = '\0';
	audit_stop(audit);
	count_lines(text, &lost, &whole);
	cr_expect_eq(lost + whole, n, "%llu lost, %llu there", (unsigned long long)lost,
	             (unsigned long long)whole);
	cr_expect_gt(lost, 0);
}

Test(audit, a_blocked_log_does_not_hold_up_the_file)
{
	int file = memfd_create("audit", 0);
	int reader, log = blocked_pipe(&reader);
	struct audit *audit = start(dup(file), log);
	uint64_t begun = loop_now(), deadline = begun + 10000000000u;
	struct pollfd nothing = {.fd = -1};
	bool there = false;

	for (unsigned i = 0; i < 20000; i++)
		audit_log(audit, "g", "web", "a line that nobody will read", 0);
	audit_notice(audit, "PORTCULLIS_KILL", "important");
	while (!there && loop_now() < deadline) {
		char *text = read_all(file);

		there = strstr(text, "important") != NULL;
		free(text);
		poll(&nothing, 1, 5);
	}
	cr_expect(there, "the file waited for the log");
	begun = loop_now();
	audit_stop(audit);
	cr_expect_lt(loop_now() - begun, 10000000000u, "the end does not wait for the log");
}

Test(audit, a_full_disk_is_counted)
{
	struct audit *audit = start(open("/dev/full", O_WRONLY | O_CLOEXEC), -1);
	uint64_t deadline = loop_now() + 10000000000u;
	struct pollfd nothing = {.fd = -1};

	for (unsigned i = 0; i < 10; i++)
		audit_notice(audit, "PORTCULLIS_CUT", "number=%u", i);
	while (audit_lost(audit) < 10 && loop_now() < deadline)
		poll(&nothing, 1, 5);
	cr_expect_eq(audit_lost(audit), 10);
	audit_stop(audit);
}

/* The line that says what is missing may be refused too: then it is told later, and is no lost line itself.
 */
Test(audit, a_gap_that_is_refused_is_told_later)
{
	static struct outlet outlet;
	uint64_t untold;

	outlet.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	outlet_put_gap(&outlet, "lost=5", 6, 5);
	outlet_put(&outlet, "one", 3);
	outlet_put(&outlet, "two", 3);
	cr_expect_eq(outlet_write(&outlet), -ENOSPC);
	cr_expect_eq(outlet_discard(&outlet, &untold), 2);
	cr_expect_eq(untold, 5);
	outlet_put(&outlet, "three", 5);
	cr_expect_eq(outlet_discard(&outlet, &untold), 1);
	cr_expect_eq(untold, 0);
}

Test(audit, a_log_whose_reader_has_gone)
{
	struct audit *audit;
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	close(ends[0]);
	audit = start(-1, ends[1]);
	for (unsigned i = 0; i < 1000; i++)
		audit_log(audit, "g", "web", "nobody", 0);
	audit_stop(audit);
}

/* ---- floods ---- */

Test(audit, a_flood_of_one_domain_leaves_room_for_others)
{
	int file = memfd_create("audit", 0);
	struct audit *audit = start(dup(file), -1);
	const unsigned n = 100000;
	struct audit_avc other = denial;
	uint64_t lost, whole;
	char *text;

	for (unsigned i = 0; i < n; i++)
		audit_avc(audit, &denial);
	other.domain = "other";
	audit_avc(audit, &other);
	cr_expect_gt(audit_lost(audit), n / 2);
	audit_stop(audit);
	text = read_all(file);
	count_lines(text, &lost, &whole);
	cr_expect_eq(lost + whole, n + 1, "%llu held back, %llu there", (unsigned long long)lost,
	             (unsigned long long)whole);
	cr_expect(strstr(text, "domain=\"other\""));
	cr_expect(strstr(text, "guest=\"g\" domain=\"web\" reason=\"too many lines\""));
	free(text);
}

/* What the clients of a port bring about is as little to push other lines out, of the log too. */
Test(audit, a_flood_of_notices_of_one_port)
{
	int file = memfd_create("audit", 0), log = memfd_create("log", 0);
	struct audit *audit = start(dup(file), dup(log));
	const unsigned n = 10000;
	uint64_t lost, whole;
	char *text;

	for (unsigned i = 0; i < n; i++)
		audit_notice_of(audit, "host", "web", "PORTCULLIS_PORT", "guest=\"host\" domain=\"web\" %u",
		                i);
	audit_notice(audit, "PORTCULLIS_STOP", "orderly");
	audit_stop(audit);
	text = read_all(file);
	count_lines(text, &lost, &whole);
	cr_expect_eq(lost + whole, n + 1);
	cr_expect_gt(lost, n / 2);
	cr_expect(strstr(text, "PORTCULLIS_STOP"));
	cr_expect(strstr(text, "guest=\"host\" domain=\"web\" reason=\"too many lines\""));
	free(text);
	text = read_all(log);
	cr_expect(strstr(text, "portcullis: stop: orderly"), "%.200s", text);
	cr_expect_lt(strlen(text), n * 10);
	free(text);
}
