/* I3: a security server that fails in whatever way fails one push, or is restarted, and nothing more. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/policy/harness.h"

#define A "u:r:a_t:s0"

static const struct harness_file base[] = {{"base.cil", harness_base, 0}, {0}};

static void send_signal(struct harness *harness, int number)
{
	cr_assert_eq(syscall(SYS_pidfd_send_signal, harness->pidfd, number, NULL, 0), 0);
}

static void expect_end(struct harness *harness)
{
	struct pollfd poll_fd = {.fd = harness->pidfd, .events = POLLIN};

	cr_assert_eq(poll(&poll_fd, 1, 120000), 1, "the process must have been killed");
}

static void count_answer(void *opaque, int status, const char *text)
{
	struct harness *harness = opaque;

	cr_assert_null(text);
	harness->status = status;
	harness->n_answers++;
}

static void ask_text(struct harness *harness, uint64_t deadline_ns)
{
	cr_assert_eq(server_explain(harness->server, A, A, CLASS_CHANNEL, CHANNEL_SEND, deadline_ns,
	                            count_answer, harness),
	             0);
}

Test(server, killed_while_loading)
{
	struct harness *harness = harness_open();

	send_signal(harness, SIGKILL);
	expect_end(harness);
	cr_assert_eq(harness_load(harness, base), -ECONNRESET);
	cr_assert_not(server_alive(harness->server));
	harness_close(harness);
}

Test(server, killed_with_questions_pending)
{
	struct harness *harness = harness_open();
	const char *contexts[] = {A};

	cr_assert_eq(harness_load(harness, base), 0);
	send_signal(harness, SIGSTOP);
	harness->n_answers = 0;
	for (unsigned i = 0; i < 5; i++)
		ask_text(harness, harness_deadline());
	send_signal(harness, SIGKILL);
	server_wait(harness->server);
	cr_assert_eq(harness->n_answers, 5, "every one is told");
	cr_assert_eq(harness->status, -ECONNRESET);
	cr_assert_not(server_alive(harness->server));
	cr_assert_eq(server_next_deadline(harness->server), UINT64_MAX);
	cr_assert_eq(harness_decide(harness, contexts, 1, NULL, 0), -ECONNRESET);
	cr_assert_eq(harness->n_answers, 5);
	harness_close(harness);
}

/* I2: a server that hangs is over at the deadline, not later and not earlier. */
Test(server, hanging_until_the_deadline)
{
	struct harness *harness = harness_open();
	uint64_t deadline = harness_deadline();

	cr_assert_eq(harness_load(harness, base), 0);
	send_signal(harness, SIGSTOP);
	harness->n_answers = 0;
	ask_text(harness, deadline + 5);
	ask_text(harness, deadline);
	cr_assert_eq(server_next_deadline(harness->server), deadline);
	server_dispatch(harness->server);
	server_expire(harness->server, deadline - 1);
	cr_assert_eq(harness->n_answers, 0);
	cr_assert(server_alive(harness->server));
	server_expire(harness->server, deadline);
	cr_assert_eq(harness->n_answers, 2);
	cr_assert_eq(harness->status, -ETIMEDOUT);
	cr_assert_not(server_alive(harness->server));
	expect_end(harness);
	harness_close(harness);
}

Test(server, wait_ends_at_the_deadline)
{
	struct harness *harness = harness_open();

	cr_assert_eq(harness_load(harness, base), 0);
	send_signal(harness, SIGSTOP);
	ask_text(harness, harness_deadline() - UINT64_C(119990000000));
	server_wait(harness->server);
	cr_assert_eq(harness->status, -ETIMEDOUT);
	harness_close(harness);
}

Test(server, close_reports_to_everyone)
{
	struct harness *harness = harness_open();
	int pidfd = harness->pidfd;

	cr_assert_eq(harness_load(harness, base), 0);
	send_signal(harness, SIGSTOP);
	harness->n_answers = 0;
	ask_text(harness, harness_deadline());
	ask_text(harness, harness_deadline());
	server_close(harness->server);
	cr_assert_eq(harness->n_answers, 2);
	cr_assert_eq(harness->status, -ECANCELED);
	expect_end(harness);
	harness->server = NULL;
	cr_assert_eq(harness->pidfd, pidfd);
	harness_close(harness);
}

/* H10: the server is closed, and asked, from within its own callbacks. */
static void close_from_inside(void *opaque, int status, const char *text)
{
	struct harness *harness = opaque;

	(void)text;
	harness->n_answers++;
	harness->status = status;
	server_close(harness->server);
	harness->server = NULL;
}

Test(server, closed_from_its_callback)
{
	struct harness *harness = harness_open();

	cr_assert_eq(harness_load(harness, base), 0);
	harness->n_answers = 0;
	for (unsigned i = 0; i < 3; i++)
		server_explain(harness->server, A, A, CLASS_CHANNEL, CHANNEL_SEND, harness_deadline(),
		               i ? count_answer : close_from_inside, harness);
	server_wait(harness->server);
	cr_assert_null(harness->server);
	cr_assert_eq(harness->n_answers, 3);
	cr_assert_eq(harness->status, -ECANCELED);
	harness_close(harness);
}

static void ask_again(void *opaque, int status, const char *text)
{
	struct harness *harness = opaque;

	cr_assert_eq(status, 0);
	cr_assert_not_null(text);
	if (++harness->n_answers < 100)
		cr_assert_eq(server_explain(harness->server, A, A, CLASS_CHANNEL, CHANNEL_SEND,
		                            harness_deadline(), ask_again, harness),
		             0);
}

Test(server, asked_from_its_callback)
{
	struct harness *harness = harness_open();

	cr_assert_eq(harness_load(harness, base), 0);
	harness->n_answers = 0;
	for (unsigned i = 0; i < 3; i++)
		server_explain(harness->server, A, A, CLASS_CHANNEL, CHANNEL_SEND, harness_deadline(),
		               ask_again, harness);
	server_wait(harness->server);
	cr_assert_geq(harness->n_answers, 100);
	harness_close(harness);
}
