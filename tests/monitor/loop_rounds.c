/*
 * The loop: sources that go away while their events are on the way (H10), timers
 * that are never early, signals of other kinds that do not matter.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "monitor/loop.h"

struct fixture {
	struct loop *loop;
	int fd[3];
	unsigned n_called[3];
	int victim; /* which source the first callback removes; -1: none */
	bool replace;
	struct loop_timer timer;
	unsigned n_timer;
};

static void on_second(void *opaque, uint32_t events)
{
	struct fixture *fixture = opaque;

	cr_expect(events & EPOLLIN);
	fixture->n_called[1]++;
}

static void on_replacement(void *opaque, uint32_t events)
{
	struct fixture *fixture = opaque;

	(void)events;
	fixture->n_called[2]++;
}

/* Removes itself or the other; closes it; another takes its number. */
static void on_first(void *opaque, uint32_t events)
{
	struct fixture *fixture = opaque;
	int victim = fixture->victim;

	(void)events;
	fixture->n_called[0]++;
	if (victim < 0)
		return;
	loop_remove(fixture->loop, fixture->fd[victim]);
	close(fixture->fd[victim]);
	if (fixture->replace) {
		int fd = eventfd(0, EFD_NONBLOCK);

		cr_assert_eq(fd, fixture->fd[victim], "the kernel gives the lowest number");
		cr_assert_eq(loop_add(fixture->loop, fd, EPOLLIN, on_replacement, fixture), 0);
	}
	fixture->fd[victim] = -1;
	fixture->victim = -1;
}

static struct fixture begin(void)
{
	struct fixture fixture = {.loop = loop_create(), .victim = -1};

	cr_assert_not_null(fixture.loop);
	for (int i = 0; i < 2; i++) {
		fixture.fd[i] = eventfd(1, EFD_NONBLOCK);
		cr_assert_geq(fixture.fd[i], 0);
	}
	return fixture;
}

/* The second source is the older one in epoll's list only if it was added first: so both orders. */
static void remove_other(bool first_added_first, bool replace)
{
	struct fixture fixture = begin();
	loop_ready_fn *fns[2] = {on_first, on_second};

	for (int i = 0; i < 2; i++) {
		int which = first_added_first ? i : 1 - i;

		cr_assert_eq(loop_add(fixture.loop, fixture.fd[which], EPOLLIN, fns[which], &fixture), 0);
	}
	fixture.victim = 1;
	fixture.replace = replace;
	cr_expect(loop_step(fixture.loop, loop_now() + 1000000000u));
	cr_expect_eq(fixture.n_called[0], 1);
	cr_expect_eq(fixture.n_called[2], 0, "an event of its predecessor");
	if (first_added_first)
		cr_expect_eq(fixture.n_called[1], 0, "called after its removal");
	loop_destroy(fixture.loop);
}

Test(loop, a_source_removed_in_anothers_callback_is_not_called)
{
	remove_other(true, false);
	remove_other(false, false);
}

Test(loop, a_replacement_does_not_get_its_predecessors_event)
{
	remove_other(true, true);
	remove_other(false, true);
}

Test(loop, a_source_removes_itself)
{
	struct fixture fixture = begin();

	cr_assert_eq(loop_add(fixture.loop, fixture.fd[0], EPOLLIN, on_first, &fixture), 0);
	fixture.victim = 0;
	cr_expect(loop_step(fixture.loop, loop_now() + 1000000000u));
	cr_expect_not(loop_step(fixture.loop, 0));
	cr_expect_eq(fixture.n_called[0], 1);
	loop_destroy(fixture.loop);
}

Test(loop, errors_are_returned)
{
	struct fixture fixture = begin();
	char path[] = "/tmp/portcullis-loop.XXXXXX";
	int file = mkstemp(path);

	unlink(path);
	cr_expect_eq(loop_add(fixture.loop, -1, EPOLLIN, on_first, &fixture), -EBADF);
	cr_expect_eq(loop_add(fixture.loop, file, EPOLLIN, on_first, &fixture), -EPERM,
	             "files are always ready");
	cr_expect_eq(loop_modify(fixture.loop, file, EPOLLIN), -ENOENT);
	loop_remove(fixture.loop, file);
	loop_destroy(fixture.loop);
}

/* ---- timers ---- */

static void on_timer(void *opaque)
{
	struct fixture *fixture = opaque;

	cr_expect_geq(loop_now(), fixture->timer.deadline_ns, "too early");
	fixture->n_timer++;
}

static void on_endless_timer(void *opaque)
{
	struct fixture *fixture = opaque;

	fixture->n_timer++;
	loop_arm(fixture->loop, &fixture->timer, 0);
}

Test(loop, a_timer_fires_once_and_not_early)
{
	struct fixture fixture = begin();

	fixture.timer = (struct loop_timer){.fn = on_timer, .opaque = &fixture};
	for (unsigned i = 1; i <= 20; i++) {
		loop_arm(fixture.loop, &fixture.timer, loop_now() + i * 100000);
		cr_expect(loop_step(fixture.loop, UINT64_MAX));
		cr_expect_eq(fixture.n_timer, i);
	}
	cr_expect_not(loop_step(fixture.loop, loop_now() + 1000000));
	loop_arm(fixture.loop, &fixture.timer, loop_now());
	loop_arm(fixture.loop, &fixture.timer, UINT64_MAX);
	cr_expect_not(loop_step(fixture.loop, loop_now() + 1000000), "disarmed");
	loop_destroy(fixture.loop);
}

Test(loop, a_timer_that_is_always_due_lets_sources_run)
{
	struct fixture fixture = begin();

	fixture.timer = (struct loop_timer){.fn = on_endless_timer, .opaque = &fixture};
	cr_assert_eq(loop_add(fixture.loop, fixture.fd[1], EPOLLIN, on_second, &fixture), 0);
	loop_arm(fixture.loop, &fixture.timer, 0);
	for (unsigned i = 1; i <= 10; i++) {
		cr_expect(loop_step(fixture.loop, loop_now() + 1000000000u));
		cr_expect_eq(fixture.n_timer, i);
		cr_expect_eq(fixture.n_called[1], i);
	}
	loop_destroy(fixture.loop);
}

static void quit(void *opaque)
{
	struct fixture *fixture = opaque;

	loop_quit(fixture->loop, 3);
}

Test(loop, quit_gives_run_its_status)
{
	struct fixture fixture = begin();

	fixture.timer = (struct loop_timer){.fn = quit, .opaque = &fixture};
	loop_arm(fixture.loop, &fixture.timer, loop_now() + 1000000);
	cr_expect_eq(loop_run(fixture.loop), 3);
	loop_destroy(fixture.loop);
}
