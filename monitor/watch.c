#include "monitor/watch.h"

#include <sys/epoll.h>

static void on_ready(void *opaque, uint32_t events)
{
	struct server_watch *watch = opaque;

	(void)events;
	server_dispatch(watch->server);
	watch_rearm(watch);
	watch->after(watch->opaque);
}

static void on_timer(void *opaque)
{
	struct server_watch *watch = opaque;

	server_expire(watch->server, loop_now());
	watch_rearm(watch);
	watch->after(watch->opaque);
}

int watch_begin(struct server_watch *watch, struct loop *loop, struct server *server,
                void (*after)(void *opaque), void *opaque)
{
	int error = loop_add(loop, server_fd(server), EPOLLIN, on_ready, watch);

	if (error < 0)
		return error;
	watch->loop = loop;
	watch->server = server;
	watch->timer.fn = on_timer;
	watch->timer.opaque = watch;
	watch->after = after;
	watch->opaque = opaque;
	watch_rearm(watch);
	return 0;
}

void watch_end(struct server_watch *watch)
{
	if (!watch->server)
		return;
	loop_disarm(watch->loop, &watch->timer);
	loop_remove(watch->loop, server_fd(watch->server));
	watch->server = NULL;
}

void watch_rearm(struct server_watch *watch)
{
	if (watch->server)
		loop_arm(watch->loop, &watch->timer, server_next_deadline(watch->server));
}
