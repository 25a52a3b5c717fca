/*
 * The audit trail under the race detector (I9, H12): several threads put in
 * denials, notices and log lines while one reads the newest and the writer writes, to
 * a file and to a pipe that is read slowly. Nothing is torn, and what is not there is counted.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "monitor/audit.h"
#include "monitor/loop.h"

#define THREADS 4
#define ROUNDS 3000

static struct audit *audit;
static unsigned n_failed;

static void check(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "failed: %s\n", what);
		n_failed++;
	}
}

static void *put_lines(void *opaque)
{
	const char *domain = opaque;
	struct audit_avc avc = {
		.tclass = CLASS_CHANNEL,
		.permissions = CHANNEL_SEND,
		.guest = "g",
		.domain = domain,
		.source_context = "u:r:a_t:s0",
		.target_context = "u:r:b_t:s0",
	};

	for (unsigned i = 0; i < ROUNDS; i++) {
		audit_avc(audit, &avc);
		audit_notice(audit, "PORTCULLIS_CUT", "from=\"%s\" number=%u.", domain, i);
		audit_log(audit, "g", domain, "a line of a domain", i % 100 == 0);
	}
	return NULL;
}

static void see_line(void *opaque, const char *line)
{
	unsigned *n_torn = opaque;
	size_t length = strlen(line);

	if (strncmp(line, "type=", 5) != 0 || length < 40 ||
	    (strstr(line, "PORTCULLIS_CUT") && line[length - 1] != '.'))
		(*n_torn)++;
}

static void *read_lines(void *opaque)
{
	unsigned n_torn = 0;

	for (unsigned i = 0; i < 50; i++) {
		audit_recent(audit, 0, 200, see_line, &n_torn);
		audit_lost(audit);
	}
	check(n_torn == 0, "a line was torn");
	return opaque;
}

/* Takes what comes until the other end is closed. */
static void *drain(void *opaque)
{
	const int *fd = opaque;
	char page[512];

	while (read(*fd, page, sizeof(page)) > 0)
		;
	return NULL;
}

/* Lines of the file, and the sum of what it says is lost. */
static uint64_t count_file(int fd)
{
	FILE *file = fdopen(fd, "r");
	char line[4096];
	uint64_t n = 0;

	rewind(file);
	while (fgets(line, sizeof(line), file)) {
		const char *lost = strstr(line, "lost=");
		unsigned long long held;

		if (lost && strstr(line, "PORTCULLIS_LOST") && sscanf(lost, "lost=%llu", &held) == 1)
			n += held;
		else
			n++;
	}
	fclose(file);
	return n;
}

int main(void)
{
	static char *const domains[THREADS] = {"one", "two", "three", "four"};
	pthread_t threads[THREADS], reader, drainer;
	int file = memfd_create("audit", MFD_CLOEXEC), ends[2];

	if (file < 0 || pipe2(ends, O_CLOEXEC))
		return 1;
	if (audit_start(&(struct audit_options){.file_fd = dup(file), .log_fd = ends[1]}, &audit) < 0)
		return 1;
	pthread_create(&drainer, NULL, drain, &ends[0]);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, put_lines, domains[i]);
	pthread_create(&reader, NULL, read_lines, NULL);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(reader, NULL);
	audit_stop(audit);
	close(ends[1]);
	pthread_join(drainer, NULL);
	check(count_file(file) == 2ull * THREADS * ROUNDS, "each denial and each notice is there or counted");
	printf("%d passed, %u failed\n", n_failed == 0, n_failed);
	return n_failed != 0;
}
