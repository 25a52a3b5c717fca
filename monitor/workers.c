#include "monitor/workers.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "monitor/loop.h"

struct work {
	struct work *next;
	struct workers *workers;
	work_fn *run, *done;
	void *opaque;
	pthread_t thread;
	bool finished; /* atomic: nothing is left but the thread's own end */
};

struct workers {
	struct loop *loop;
	int finished_fd;
	struct work *first;
};

static void *work_thread(void *argument)
{
	struct work *work = argument;
	int fd = work->workers->finished_fd;
	const uint64_t one = 1;
	ssize_t n;

	pthread_setname_np(pthread_self(), "worker");
	work->run(work->opaque);
	__atomic_store_n(&work->finished, true, __ATOMIC_RELEASE);
	n = write(fd, &one, sizeof(one)); /* full: it reads as written */
	(void)n;
	return NULL;
}

static struct work *take(struct workers *workers, bool all)
{
	for (struct work **link = &workers->first; *link; link = &(*link)->next) {
		struct work *work = *link;

		if (!all && !__atomic_load_n(&work->finished, __ATOMIC_ACQUIRE))
			continue;
		*link = work->next;
		return work;
	}
	return NULL;
}

/* done may begin other work. */
static void collect(struct workers *workers, bool all)
{
	struct work *work;

	while ((work = take(workers, all))) {
		pthread_join(work->thread, NULL);
		work->done(work->opaque);
		free(work);
	}
}

static void on_finished(void *opaque, uint32_t events)
{
	struct workers *workers = opaque;
	uint64_t count;
	ssize_t n = read(workers->finished_fd, &count, sizeof(count));

	(void)n;
	(void)events;
	collect(workers, false);
}

struct workers *workers_create(struct loop *loop)
{
	struct workers *workers = calloc(1, sizeof(*workers));

	if (!workers)
		return NULL;
	workers->loop = loop;
	workers->finished_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (workers->finished_fd >= 0 &&
	    loop_add(loop, workers->finished_fd, EPOLLIN, on_finished, workers) == 0)
		return workers;
	if (workers->finished_fd >= 0)
		close(workers->finished_fd);
	free(workers);
	return NULL;
}

int workers_run(struct workers *workers, work_fn *run, work_fn *done, void *opaque)
{
	struct work *work = malloc(sizeof(*work));
	int error;

	if (!work)
		return -ENOMEM;
	*work = (struct work){.workers = workers, .run = run, .done = done, .opaque = opaque};
	error = pthread_create(&work->thread, NULL, work_thread, work);
	if (error) {
		free(work);
		return -error;
	}
	work->next = workers->first;
	workers->first = work;
	return 0;
}

void workers_wait(struct workers *workers)
{
	collect(workers, true);
}

void workers_destroy(struct workers *workers)
{
	if (!workers)
		return;
	collect(workers, true);
	loop_remove(workers->loop, workers->finished_fd);
	close(workers->finished_fd);
	free(workers);
}
