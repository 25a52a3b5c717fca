#include "tests/policy/harness.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

const char harness_base[] =
	"(mls true)\n"
	"(class channel (connect accept send recv flowctl specify_client cut))\n"
	"(class domain (start stop getattr relabelfrom relabelto quarantine release console))\n"
	"(class guest (define start stop suspend resume getattr))\n"
	"(class monitor (load_policy setenforce setbool overlay compute read_audit getattr shutdown))\n"
	"(classorder (channel domain guest monitor))\n"
	"(sid kernel) (sid security) (sid unlabeled) (sid operator)\n"
	"(sidorder (kernel security unlabeled operator))\n"
	"(sensitivity s0) (sensitivity s1) (sensitivityorder (s0 s1))\n"
	"(category c0) (category c1) (categoryorder (c0 c1))\n"
	"(sensitivitycategory s0 (c0 c1)) (sensitivitycategory s1 (c0 c1))\n"
	"(role r) (user u) (userrole u r)\n"
	"(userlevel u (s0)) (userrange u ((s0) (s1 (c0 c1))))\n"
	"(typeattribute any) (type a_t) (type b_t) (type c_t) (type operator_t)\n"
	"(typeattributeset any (a_t b_t c_t))\n"
	"(roletype r a_t) (roletype r b_t) (roletype r c_t) (roletype r operator_t)\n"
	"(sidcontext kernel (u r operator_t ((s0) (s0))))\n"
	"(sidcontext security (u r operator_t ((s0) (s0))))\n"
	"(sidcontext unlabeled (u r c_t ((s0) (s0))))\n"
	"(sidcontext operator (u r operator_t ((s0) (s0))))\n"
	"(allow operator_t any (channel (cut)))\n";

uint64_t harness_deadline(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint64_t)now.tv_sec + 120) * 1000000000u;
}

static void spawn(struct harness *harness)
{
	char why[WHY_BYTES];
	int socket_fd;
	int pidfd;

	cr_assert_eq(launcher_spawn(harness->launcher, &socket_fd, &pidfd, why), 0, "%s", why);
	harness->pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	cr_assert_geq(harness->pidfd, 0);
	harness->server = server_open(socket_fd, pidfd);
	cr_assert_not_null(harness->server);
}

struct harness *harness_open(void)
{
	struct harness *harness = calloc(1, sizeof(*harness));
	char why[WHY_BYTES];

	cr_assert_not_null(harness);
	harness->policy.image_fd = -1;
	cr_assert_eq(launcher_start(&harness->launcher, why), 0, "%s", why);
	spawn(harness);
	return harness;
}

static void close_server(struct harness *harness)
{
	server_close(harness->server);
	close(harness->pidfd);
}

static void close_image(struct harness *harness)
{
	if (harness->policy.image_fd >= 0)
		close(harness->policy.image_fd);
	harness->policy.image_fd = -1;
}

void harness_renew(struct harness *harness)
{
	close_server(harness);
	spawn(harness);
}

void harness_close(struct harness *harness)
{
	close_server(harness);
	close_image(harness);
	launcher_stop(harness->launcher);
	free(harness->decisions);
	free(harness);
}

int harness_memfd(const void *bytes, size_t n_bytes)
{
	int fd = memfd_create("source", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, bytes, n_bytes), (ssize_t)n_bytes);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK), 0);
	return fd;
}

char *harness_read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = calloc(1, HARNESS_TEXT_BYTES);

	cr_assert_not_null(file, "%s: run the tests from the repository's root", path);
	cr_assert_not_null(text);
	cr_assert_lt(fread(text, 1, HARNESS_TEXT_BYTES - 1, file), HARNESS_TEXT_BYTES - 1);
	fclose(file);
	return text;
}

static void begin(struct harness *harness)
{
	harness->status = 1;
	harness->text[0] = '\0';
}

static void end(struct harness *harness, int status)
{
	harness->status = status;
	harness->n_answers++;
}

static void take_policy(void *opaque, int status, const struct server_policy *policy, const char *why)
{
	struct harness *harness = opaque;

	end(harness, status);
	cr_assert_eq(policy == NULL, status != 0);
	snprintf(harness->text, sizeof(harness->text), "%s", policy ? policy->warnings : why);
	if (!policy)
		return;
	close_image(harness);
	harness->policy = *policy;
	snprintf(harness->operator_context, sizeof(harness->operator_context), "%s",
	         policy->operator_context);
}

int harness_load_booleans(struct harness *harness, const struct harness_file *files,
                          const struct policy_boolean *booleans, size_t n_booleans)
{
	struct policy_source sources[MAX_POLICY_FILES];
	size_t n = 0;
	int error;

	for (; files[n].name; n++) {
		size_t bytes = files[n].bytes ? files[n].bytes : strlen(files[n].text);

		sources[n] =
			(struct policy_source){files[n].name, harness_memfd(files[n].text, bytes), bytes};
	}
	begin(harness);
	error = server_load(harness->server, sources, n, booleans, n_booleans, harness_deadline(),
	                    take_policy, harness);
	for (size_t i = 0; i < n; i++)
		close(sources[i].fd);
	if (error)
		return error;
	server_wait(harness->server);
	return harness->status;
}

int harness_load(struct harness *harness, const struct harness_file *files)
{
	return harness_load_booleans(harness, files, NULL, 0);
}

static void take_decisions(void *opaque, int status, const struct server_decision *decisions,
                           size_t n_decisions)
{
	struct harness *harness = opaque;

	end(harness, status);
	harness->n = n_decisions;
	free(harness->decisions);
	harness->decisions = calloc(n_decisions + 1, sizeof(*decisions));
	if (n_decisions)
		memcpy(harness->decisions, decisions, n_decisions * sizeof(*decisions));
}

int harness_decide(struct harness *harness, const char *const *contexts, size_t n_contexts,
                   const struct server_question *questions, size_t n_questions)
{
	int error;

	begin(harness);
	error = server_decide(harness->server, contexts, n_contexts, questions, n_questions,
	                      harness_deadline(), take_decisions, harness);
	if (error)
		return error;
	server_wait(harness->server);
	return harness->status;
}

struct server_decision harness_ask(struct harness *harness, const char *source, const char *target,
                                   enum policy_class tclass)
{
	const char *contexts[] = {source, target};
	struct server_question question = {0, 1, tclass};

	cr_assert_eq(harness_decide(harness, contexts, 2, &question, 1), 0);
	cr_assert_eq(harness->n, 1);
	return harness->decisions[0];
}

static void take_text(void *opaque, int status, const char *text)
{
	struct harness *harness = opaque;

	end(harness, status);
	snprintf(harness->text, sizeof(harness->text), "%s", text ? text : "");
}

const char *harness_explain(struct harness *harness, const char *source, const char *target,
                            enum policy_class tclass, uint32_t permission)
{
	begin(harness);
	cr_assert_eq(server_explain(harness->server, source, target, tclass, permission, harness_deadline(),
	                            take_text, harness),
	             0);
	server_wait(harness->server);
	cr_assert_eq(harness->status, 0);
	return harness->text;
}
