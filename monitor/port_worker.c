#include "monitor/port_worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "monitor/confine.h"
#include "vmm/check.h"

#define BUFFER_BYTES (64u << 10)

enum work {
	WORK_NONE,
	WORK_GIVEN,
	WORK_BUSY, /* in a system call */
	WORK_DONE,
};

struct port_worker {
	/* Never changes. */
	int fd, event_fd;
	bool reads;

	/* Under the lock; while BUSY the buffer is the worker's. */
	pthread_mutex_t lock;
	pthread_cond_t told;
	enum work work;
	bool quit;
	unsigned n_users;
	size_t bytes, at; /* in the buffer; of a read: taken from it */
	ssize_t result;   /* -errno; of a read: 0 at the end */
	int64_t offset;
	uint8_t buffer[BUFFER_BYTES];
};

/* With the lock, which is gone then. */
static void release(struct port_worker *worker)
{
	bool last = --worker->n_users == 0;

	pthread_mutex_unlock(&worker->lock);
	if (!last)
		return;
	close(worker->fd);
	close(worker->event_fd);
	pthread_cond_destroy(&worker->told);
	pthread_mutex_destroy(&worker->lock);
	free(worker);
}

/* ---- the worker's thread ---- */

static ssize_t read_some(struct port_worker *worker)
{
	ssize_t n;

	do
		n = worker->offset >= 0
		            ? pread(worker->fd, worker->buffer, BUFFER_BYTES, (off_t)worker->offset)
		            : read(worker->fd, worker->buffer, BUFFER_BYTES);
	while (n < 0 && errno == EINTR);
	if (n > 0 && worker->offset >= 0)
		worker->offset += n;
	return n < 0 ? -errno : n;
}

static ssize_t write_some(struct port_worker *worker)
{
	ssize_t n;

	do
		n = write(worker->fd, worker->buffer + worker->at, worker->bytes - worker->at);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* One system call, without the lock. */
static void work(struct port_worker *worker)
{
	const uint64_t one = 1;
	ssize_t n;

	worker->work = WORK_BUSY;
	pthread_mutex_unlock(&worker->lock);
	n = worker->reads ? read_some(worker) : write_some(worker);
	pthread_mutex_lock(&worker->lock);
	worker->result = n;
	if (worker->reads) {
		worker->bytes = n > 0 ? (size_t)n : 0;
		worker->at = 0;
	} else if (n > 0) {
		worker->at += (size_t)n;
	}
	worker->work = !worker->reads && n >= 0 && worker->at < worker->bytes ? WORK_GIVEN : WORK_DONE;
	if (worker->work == WORK_DONE)
		CHECK(write(worker->event_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
}

static void *run(void *opaque)
{
	struct port_worker *worker = opaque;

	pthread_mutex_lock(&worker->lock);
	while (!worker->quit) {
		if (worker->work != WORK_GIVEN) {
			pthread_cond_wait(&worker->told, &worker->lock);
			continue;
		}
		confine_thread();
		work(worker);
	}
	release(worker);
	return NULL;
}

/* ---- the loop's ---- */

int port_worker_start(int fd, bool reads, int64_t from, struct port_worker **out)
{
	struct port_worker *worker = calloc(1, sizeof(*worker));
	pthread_t thread;
	int error;

	if (!worker)
		return -ENOMEM;
	worker->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->event_fd < 0) {
		error = -errno;
		free(worker);
		return error;
	}
	worker->fd = fd;
	worker->reads = reads;
	worker->offset = from;
	worker->n_users = 2;
	worker->work = reads ? WORK_GIVEN : WORK_NONE;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->told, NULL);
	error = pthread_create(&thread, NULL, run, worker);
	if (error) {
		close(worker->event_fd);
		free(worker);
		return -error;
	}
	pthread_detach(thread);
	*out = worker;
	return 0;
}

void port_worker_leave(struct port_worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	worker->quit = true;
	pthread_cond_signal(&worker->told);
	release(worker);
}

int port_worker_event(const struct port_worker *worker)
{
	return worker->event_fd;
}

ssize_t port_worker_read(struct port_worker *worker, void *buffer, size_t bytes)
{
	ssize_t result = -EAGAIN;

	pthread_mutex_lock(&worker->lock);
	if (worker->work == WORK_DONE && worker->result <= 0)
		result = worker->result; /* stays: the end is the end */
	if (worker->work == WORK_DONE && worker->result > 0) {
		size_t left = worker->bytes - worker->at;

		bytes = bytes < left ? bytes : left;
		memcpy(buffer, worker->buffer + worker->at, bytes);
		worker->at += bytes;
		result = (ssize_t)bytes;
		if (worker->at == worker->bytes) {
			worker->work = WORK_GIVEN;
			pthread_cond_signal(&worker->told);
		}
	}
	pthread_mutex_unlock(&worker->lock);
	return result;
}

ssize_t port_worker_write(struct port_worker *worker, const void *bytes, size_t n)
{
	ssize_t result = -EAGAIN;

	pthread_mutex_lock(&worker->lock);
	if (worker->work == WORK_DONE && worker->result < 0) {
		result = worker->result;
	} else if (worker->work == WORK_DONE || worker->work == WORK_NONE) {
		n = n < BUFFER_BYTES ? n : BUFFER_BYTES;
		memcpy(worker->buffer, bytes, n);
		worker->bytes = n;
		worker->at = 0;
		worker->work = WORK_GIVEN;
		pthread_cond_signal(&worker->told);
		result = (ssize_t)n;
	}
	pthread_mutex_unlock(&worker->lock);
	return result;
}

bool port_worker_is_idle(struct port_worker *worker)
{
	bool idle;

	pthread_mutex_lock(&worker->lock);
	idle = worker->work == WORK_NONE || worker->work == WORK_DONE;
	pthread_mutex_unlock(&worker->lock);
	return idle;
}

int port_worker_error(struct port_worker *worker)
{
	ssize_t error;

	pthread_mutex_lock(&worker->lock);
	error = !worker->reads && worker->work == WORK_DONE && worker->result < 0 ? worker->result : 0;
	pthread_mutex_unlock(&worker->lock);
	return (int)error;
}
