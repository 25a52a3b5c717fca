#include "monitor/audit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "monitor/audit_outlet.h"
#include "monitor/audit_ring.h"
#include "monitor/audit_throttle.h"
#include "monitor/confine.h"
#include "monitor/loop.h"

#define STOP_NS 1000000000ull

struct audit {
	/* Immutable after audit_start. */
	pthread_t writer;
	int kick_fd;
	int ended_fd; /* the writer raises it at its end */
	bool has_log;
	bool to_file;
	audit_listener_fn *on_log;
	void *on_log_opaque;

	/* lock; a leaf. Inherits priority: the loop may run SCHED_FIFO, the writer never does. */
	pthread_mutex_t lock;
	struct audit_ring ring;
	struct audit_log_queue log;
	struct audit_throttle throttle;
	bool kicked;
	bool stopping;
	bool log_broken;
	uint64_t stop_deadline_ns;

	/* Writer only. */
	struct outlet file_outlet;
	struct outlet log_outlet;
	uint64_t file_failed; /* lines that the file refused, not told yet */
};

static uint64_t unix_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool write_count(int fd)
{
	uint64_t one = 1;

	return write(fd, &one, sizeof(one)) == sizeof(one);
}

/* Under the lock. One write wakes the writer, however many lines follow before it looks. */
static void kick(struct audit *audit)
{
	if (!audit->kicked)
		audit->kicked = write_count(audit->kick_fd);
}

/* ---- putting lines in: any thread ---- */

static void add_line(struct audit *audit, const char *type, const char *body, size_t bytes)
{
	audit_ring_add(&audit->ring, type, unix_now(), body, bytes);
	if (audit->to_file)
		kick(audit);
}

static void add_log(struct audit *audit, const char *line, size_t bytes)
{
	if (audit->has_log && !audit->log_broken && audit_log_put(&audit->log, line, bytes))
		kick(audit);
}

/* Under the lock: says how many lines of whom were held back. */
static void tell_throttled(struct audit *audit, const struct audit_bucket *bucket)
{
	char body[AUDIT_BODY_BYTES];
	int n = snprintf(body, sizeof(body), "lost=%llu guest=\"%s\" domain=\"%s\" reason=\"too many lines\"",
	                 (unsigned long long)bucket->held_back, bucket->guest, bucket->domain);

	add_line(audit, "PORTCULLIS_LOST", body, (size_t)n);
}

/* Under the lock: a line that a domain brought about, if that has not brought about too many. */
static bool add_throttled(struct audit *audit, const char *guest, const char *domain, const char *type,
                          const char *body, size_t bytes)
{
	bool held = audit_throttle_holds(&audit->throttle);
	struct audit_bucket told;

	if (!audit_throttle_allows(&audit->throttle, guest, domain, loop_now(), &told)) {
		audit->ring.lost++;
		if (!held)
			kick(audit); /* the writer tells in a second, should nothing follow */
		return false;
	}
	if (told.held_back)
		tell_throttled(audit, &told);
	add_line(audit, type, body, bytes);
	return true;
}

void audit_avc(struct audit *audit, const struct audit_avc *avc)
{
	char body[AUDIT_BODY_BYTES];
	size_t bytes = audit_format_avc(avc, body);

	pthread_mutex_lock(&audit->lock);
	(void)add_throttled(audit, avc->guest, avc->domain, "AVC", body, bytes);
	pthread_mutex_unlock(&audit->lock);
}

void audit_denied(struct audit *audit, const struct audit_refusal *refusal)
{
	char body[AUDIT_BODY_BYTES];
	size_t bytes = audit_format_refusal(refusal, body);

	pthread_mutex_lock(&audit->lock);
	(void)add_throttled(audit, refusal->guest, refusal->domain, "PORTCULLIS_DENIED", body, bytes);
	pthread_mutex_unlock(&audit->lock);
}

/* Thousands of cuts are for the file; the report has them for people. */
static bool is_for_people(const char *type)
{
	return strcmp(type, "PORTCULLIS_CUT") != 0;
}

/* guest NULL: it comes from the host. */
__attribute__((format(printf, 5, 0))) static void add_notice(struct audit *audit, const char *guest,
                                                             const char *domain, const char *type,
                                                             const char *format, va_list arguments)
{
	char body[AUDIT_BODY_BYTES];
	char line[AUDIT_BODY_BYTES + AUDIT_TYPE_BYTES + 16];
	size_t bytes = audit_format_notice(body, format, arguments);
	size_t n = audit_format_people(type, body, line, sizeof(line));

	pthread_mutex_lock(&audit->lock);
	if (add_throttled(audit, guest, domain, type, body, bytes) && is_for_people(type))
		add_log(audit, line, n);
	pthread_mutex_unlock(&audit->lock);
}

void audit_notice(struct audit *audit, const char *type, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add_notice(audit, NULL, NULL, type, format, arguments);
	va_end(arguments);
}

void audit_notice_of(struct audit *audit, const char *guest, const char *domain, const char *type,
                     const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	add_notice(audit, guest, domain, type, format, arguments);
	va_end(arguments);
}

/* One line: whose it is stands before it, whatever is in it. */
static void log_line(struct audit *audit, const char *guest, const char *domain, const char *text)
{
	char line[MAX_LOG_BYTES + 2 * MAX_NAME_BYTES + 8];
	int n;

	if (audit->on_log)
		audit->on_log(audit->on_log_opaque, guest, domain, text);
	if (!audit->has_log)
		return;
	n = snprintf(line, sizeof(line), "%s%s%s: %s\n", guest, domain ? "/" : "", domain ? domain : "",
	             text);
	pthread_mutex_lock(&audit->lock);
	add_log(audit, line, (size_t)n);
	pthread_mutex_unlock(&audit->lock);
}

void audit_log(struct audit *audit, const char *guest, const char *domain, const char *text, uint64_t n_lost)
{
	char clean[MAX_LOG_BYTES];

	if (n_lost) {
		snprintf(clean, sizeof(clean), "(%llu lines lost)", (unsigned long long)n_lost);
		log_line(audit, guest, domain, clean);
	}
	do {
		size_t length = strcspn(text, "\n");

		snprintf(clean, sizeof(clean), "%.*s", (int)length, text);
		audit_clean(clean);
		log_line(audit, guest, domain, clean);
		text += length + (text[length] == '\n');
	} while (*text);
}

/* ---- the writer ---- */

/* Lines that the file has not got: refused by it, or pushed out of the ring before it took them. */
static void put_gap(struct audit *audit)
{
	struct audit_ring *ring = &audit->ring;
	uint64_t n = audit->file_failed;
	char text[AUDIT_LINE_BYTES];
	size_t bytes;

	if (ring->next < ring->oldest) {
		n += ring->oldest - ring->next;
		ring->next = ring->oldest;
	}
	if (n == 0 || ring->next > ring->newest)
		return;
	bytes = audit_ring_gap(ring->next - 1, unix_now(), n, text);
	outlet_put_gap(&audit->file_outlet, text, bytes, n);
	audit->file_failed = 0;
}

/* Under the lock. */
static void fill_file(struct audit *audit)
{
	struct audit_ring *ring = &audit->ring;
	struct outlet *outlet = &audit->file_outlet;

	if (outlet->fd < 0 || outlet->used)
		return;
	put_gap(audit);
	while (ring->next <= ring->newest && outlet_has_room(outlet)) {
		char text[AUDIT_LINE_BYTES];
		size_t bytes = audit_ring_line(ring, ring->next++, text);

		outlet_put(outlet, text, bytes);
	}
}

/* Under the lock. */
static void fill_log(struct audit *audit)
{
	struct outlet *outlet = &audit->log_outlet;

	if (outlet->fd >= 0 && !outlet->used)
		outlet->used = audit_log_take(&audit->log, outlet->bytes, OUTLET_WRITE_BYTES);
}

/* A full disk may have room again, so the file stays open and the loss is told then. */
static void write_file(struct audit *audit)
{
	uint64_t n_lines, untold;

	if (outlet_write(&audit->file_outlet) == 0)
		return;
	n_lines = outlet_discard(&audit->file_outlet, &untold);
	audit->file_failed += n_lines + untold;
	pthread_mutex_lock(&audit->lock);
	audit->ring.lost += n_lines;
	pthread_mutex_unlock(&audit->lock);
}

static void write_log(struct audit *audit)
{
	if (outlet_write(&audit->log_outlet) == 0)
		return;
	audit->log_outlet.fd = -1; /* whoever read it has gone */
	audit->log_outlet.used = 0;
	pthread_mutex_lock(&audit->lock);
	audit->log_broken = true;
	pthread_mutex_unlock(&audit->lock);
}

/* Under the lock. How long the writer may sleep in poll, ms. */
static int writer_patience(struct audit *audit)
{
	uint64_t now = loop_now();

	if (audit->stopping)
		return audit->stop_deadline_ns <= now ? 0
		                                      : (int)((audit->stop_deadline_ns - now) / 1000000 + 1);
	return audit_throttle_holds(&audit->throttle) ? 1000 : -1;
}

/* Takes what is queued. False: the writer is done. */
static bool writer_fill(struct audit *audit, int *patience)
{
	struct audit_bucket told;
	bool more;

	pthread_mutex_lock(&audit->lock);
	audit->kicked = false;
	while (audit_throttle_next(&audit->throttle, audit->stopping ? UINT64_MAX : loop_now(), &told))
		tell_throttled(audit, &told);
	fill_file(audit);
	fill_log(audit);
	*patience = writer_patience(audit);
	more = !audit->stopping ||
	       ((audit->file_outlet.used || audit->log_outlet.used) && loop_now() < audit->stop_deadline_ns);
	pthread_mutex_unlock(&audit->lock);
	return more;
}

/* A descriptor that is not ready (a pipe that nobody reads) does not hold up the other one. */
static void *writer_main(void *opaque)
{
	struct audit *audit = opaque;
	int patience;

	while (writer_fill(audit, &patience)) {
		struct pollfd fds[3] = {
			{.fd = audit->kick_fd, .events = POLLIN},
			{.fd = audit->file_outlet.used ? audit->file_outlet.fd : -1, .events = POLLOUT},
			{.fd = audit->log_outlet.used ? audit->log_outlet.fd : -1, .events = POLLOUT},
		};
		uint64_t count;

		confine_thread(); /* it began before there was anything to be confined to */
		if (poll(fds, 3, patience) <= 0)
			continue;
		if (fds[0].revents && read(audit->kick_fd, &count, sizeof(count)) < 0)
			continue;
		if (fds[1].revents)
			write_file(audit);
		if (fds[2].revents)
			write_log(audit);
	}
	write_count(audit->ended_fd);
	return NULL;
}

/* ---- life ---- */

static int writer_start(struct audit *audit)
{
	struct sched_param normal = {0};
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
	pthread_attr_setschedparam(&attributes, &normal);
	sigfillset(
		&all); /* signals are the loop's; and a pipe without reader is an error here, not SIGPIPE */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&audit->writer, &attributes, writer_main, audit);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}

static void audit_free(struct audit *audit)
{
	if (audit->kick_fd >= 0)
		close(audit->kick_fd);
	if (audit->ended_fd >= 0)
		close(audit->ended_fd);
	if (audit->file_outlet.fd >= 0)
		close(audit->file_outlet.fd);
	pthread_mutex_destroy(&audit->lock);
	free(audit);
}

static void lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
}

int audit_start(const struct audit_options *options, struct audit **out)
{
	struct audit *audit = calloc(1, sizeof(*audit));
	int error = -ENOMEM;

	if (!audit) {
		if (options->file_fd >= 0)
			close(options->file_fd);
		return -ENOMEM;
	}
	lock_init(&audit->lock);
	audit->to_file = options->file_fd >= 0;
	audit->has_log = options->log_fd >= 0;
	audit->on_log = options->on_log;
	audit->on_log_opaque = options->on_log_opaque;
	audit->file_outlet.fd = options->file_fd;
	audit->log_outlet.fd = options->log_fd;
	audit_ring_init(&audit->ring, audit->to_file);
	audit->kick_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	audit->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (audit->kick_fd < 0 || audit->ended_fd < 0)
		error = -errno;
	else
		error = writer_start(audit);
	if (error < 0) {
		audit_free(audit);
		return error;
	}
	*out = audit;
	return 0;
}

void audit_stop(struct audit *audit)
{
	struct pollfd wait;
	int ended;

	if (!audit)
		return;
	pthread_mutex_lock(&audit->lock);
	audit->stopping = true;
	audit->stop_deadline_ns = loop_now() + STOP_NS;
	audit->kicked = false;
	kick(audit);
	pthread_mutex_unlock(&audit->lock);
	wait = (struct pollfd){.fd = audit->ended_fd, .events = POLLIN};
	do
		ended = poll(&wait, 1, (int)(STOP_NS * 5 / 4 / 1000000));
	while (ended < 0 && errno == EINTR);
	if (ended == 1) {
		pthread_join(audit->writer, NULL);
		audit_free(audit);
		return;
	}
	pthread_detach(audit->writer); /* stuck in a write: it keeps its memory */
}

uint64_t audit_lost(const struct audit *audit)
{
	pthread_mutex_t *lock = (pthread_mutex_t *)&audit->lock;
	uint64_t lost;

	pthread_mutex_lock(lock);
	lost = audit->ring.lost;
	pthread_mutex_unlock(lock);
	return lost;
}

/* The line of the first serial not below *next, and *next behind it. False: there is none. */
static bool recent_line(struct audit *audit, uint64_t *next, uint64_t newest,
                        char text[static AUDIT_LINE_BYTES])
{
	struct audit_ring *ring = &audit->ring;
	bool found;

	pthread_mutex_lock(&audit->lock);
	found = *next <= newest;
	if (found && *next < ring->oldest) {
		audit_ring_gap(ring->oldest - 1, unix_now(), ring->oldest - *next, text);
		*next = ring->oldest;
	} else if (found) {
		audit_ring_line(ring, (*next)++, text);
	}
	pthread_mutex_unlock(&audit->lock);
	return found;
}

uint64_t audit_recent(struct audit *audit, uint64_t after, size_t most,
                      void (*line)(void *opaque, const char *text), void *opaque)
{
	char text[AUDIT_LINE_BYTES];
	uint64_t newest, oldest, next;

	pthread_mutex_lock(&audit->lock);
	newest = audit->ring.newest;
	oldest = audit->ring.oldest;
	pthread_mutex_unlock(&audit->lock);
	next = after < newest ? after + 1 : newest + 1;
	if (after == 0 && next < oldest)
		next = oldest; /* nothing was asked for that is missing */
	if (newest + 1 - next > most)
		next = newest + 1 - most;
	while (recent_line(audit, &next, newest, text))
		line(opaque, text);
	return newest;
}
