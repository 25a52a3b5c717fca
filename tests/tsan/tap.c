/*
 * The consoles' ring under the race detector (H7): threads that log while another takes lines. No line is
 * torn or comes twice, and what is not there is counted.
 */
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/libvirt/tap.h"

#define THREADS 3u
#define LINES 5000u

static struct tap *tap;
static unsigned n_running = THREADS; /* atomic */

static void *put_lines(void *opaque)
{
	const char *domain = opaque;
	char text[64];

	for (unsigned i = 0; i < LINES; i++) {
		snprintf(text, sizeof(text), "%s %u.", domain, i);
		tap_heard(tap, "g", domain, text);
	}
	__atomic_fetch_sub(&n_running, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

struct seen {
	unsigned next[THREADS]; /* at least */
	unsigned long n_lines, n_lost, n_wrong;
};

static void see(struct seen *seen, const struct tap_line *line)
{
	unsigned who = (unsigned)(line->domain[0] - 'a'), number;

	seen->n_lines++;
	seen->n_lost += line->n_lost;
	if (who >= THREADS || sscanf(line->text + 1, " %u.", &number) != 1 ||
	    line->text[0] != line->domain[0] || number < seen->next[who]) {
		seen->n_wrong++;
		return;
	}
	seen->next[who] = number + 1;
}

static void take_lines(struct seen *seen)
{
	struct pollfd poll_fd = {.fd = tap_fd(tap), .events = POLLIN};
	struct tap_line line;
	bool over;

	do {
		over = __atomic_load_n(&n_running, __ATOMIC_SEQ_CST) == 0;
		while (tap_next(tap, &line))
			see(seen, &line);
		if (!over && poll(&poll_fd, 1, 10) < 0)
			return;
	} while (!over);
}

int main(void)
{
	static char names[THREADS][2] = {"a", "b", "c"};
	pthread_t threads[THREADS];
	struct seen seen = {0};
	bool good;

	tap = tap_create();
	if (!tap)
		return 1;
	tap_listen(tap, true);
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, put_lines, names[i]))
			return 1;
	take_lines(&seen);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	tap_listen(tap, false);
	/* What was lost behind the last line is said by nobody. */
	good = seen.n_wrong == 0 && seen.n_lines > 0 &&
	       seen.n_lines + seen.n_lost <= (unsigned long)THREADS * LINES;
	tap_destroy(tap);
	printf("%d passed, %d failed\n", good, !good);
	return !good;
}
