#include "monitor/libvirt/tap.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define LINES 256u

struct tap {
	int fd;
	bool on; /* atomic */

	pthread_mutex_t lock;
	/* Under it. */
	uint64_t n_in, n_out, n_lost;
	struct tap_line lines[LINES];
};

struct tap *tap_create(void)
{
	struct tap *tap = calloc(1, sizeof(*tap));

	if (!tap)
		return NULL;
	tap->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (tap->fd < 0) {
		free(tap);
		return NULL;
	}
	pthread_mutex_init(&tap->lock, NULL);
	return tap;
}

void tap_destroy(struct tap *tap)
{
	if (!tap)
		return;
	close(tap->fd);
	pthread_mutex_destroy(&tap->lock);
	free(tap);
}

/* True: the loop has to be told. */
static bool put(struct tap *tap, const char *guest, const char *domain, const char *text)
{
	struct tap_line *line = &tap->lines[tap->n_in % LINES];

	if (tap->n_in - tap->n_out == LINES) {
		tap->n_lost++;
		return false;
	}
	snprintf(line->guest, sizeof(line->guest), "%s", guest);
	snprintf(line->domain, sizeof(line->domain), "%s", domain ? domain : "");
	snprintf(line->text, sizeof(line->text), "%s", text);
	line->n_lost = tap->n_lost;
	tap->n_lost = 0;
	return tap->n_in++ == tap->n_out;
}

void tap_heard(void *opaque, const char *guest, const char *domain, const char *text)
{
	struct tap *tap = opaque;
	uint64_t one = 1;
	ssize_t ignored;
	bool first;

	if (!__atomic_load_n(&tap->on, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&tap->lock);
	first = put(tap, guest, domain, text);
	pthread_mutex_unlock(&tap->lock);
	if (!first)
		return;
	ignored = write(tap->fd, &one, sizeof(one));
	(void)ignored;
}

void tap_listen(struct tap *tap, bool on)
{
	struct tap_line line;

	if (on && !tap->on)
		while (tap_next(tap, &line)) /* of those who listened before */
			;
	__atomic_store_n(&tap->on, on, __ATOMIC_RELAXED);
}

int tap_fd(const struct tap *tap)
{
	return tap->fd;
}

/*
 * The descriptor is read before the ring, so a line that comes after the ring was found empty has written it
 * again.
 */
bool tap_next(struct tap *tap, struct tap_line *line)
{
	uint64_t count;
	ssize_t ignored = read(tap->fd, &count, sizeof(count));
	bool found;

	(void)ignored;
	pthread_mutex_lock(&tap->lock);
	found = tap->n_in != tap->n_out;
	if (found)
		*line = tap->lines[tap->n_out++ % LINES];
	pthread_mutex_unlock(&tap->lock);
	return found;
}
