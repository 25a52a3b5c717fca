/* I9: every denial is in the audit trail, also when the security server hangs and when the monitor ends. */
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/monitor/world.h"
#include "tests/monitor/world_proxy.h"

/* Denials whose explanation is under way, or not even asked for, are written when the monitor ends. */
Test(promise, i9_denials_are_written_at_the_end)
{
	char path[] = "/tmp/portcullis-test-XXXXXX", *manifest, line[1024];
	int fd = mkstemp(path), n = 0;
	struct world world;
	FILE *trail;

	cr_assert_geq(fd, 0);
	cr_assert_gt(asprintf(&manifest, "audit = \"%s\";\n%s", path, MANIFEST_USUAL), 0);
	world_open(&world, &(struct world_options){.manifest = manifest, .policy = POLICY_NO_CONNECT});
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"}),
	             CALL_DENIED);
	proxy_signal_latest(SIGSTOP);
	for (int i = 0; i < 5; i++) /* from the cache; nobody explains them any more */
		cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"}),
		             CALL_DENIED);
	world_close(&world);
	trail = fdopen(fd, "r");
	while (fgets(line, sizeof(line), trail))
		n += strstr(line, "avc:  denied  { connect } for  guest=\"test\" domain=\"one\"") != NULL;
	fclose(trail);
	unlink(path);
	free(manifest);
	cr_assert_eq(n, 6);
}

static bool has_refused(struct world *world, void *opaque)
{
	(void)opaque;
	return actor_is_done(world, "one");
}

/* H7: a flood of denials while the server hangs does not pile up questions. */
Test(promise, i9_h7_questions_do_not_pile_up)
{
	const struct world_options options = {
		.policy = POLICY_NO_CONNECT, .deadline_seconds = 60, .quiet = true};
	struct world world;
	size_t before;

	world_open(&world, &options);
	cr_assert_eq(actor_do(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"}),
	             CALL_DENIED);
	proxy_signal_latest(SIGSTOP);
	before = mallinfo2().uordblks;
	actor_begin(&world, "one", (struct command){ACTOR_STORM, {3000, NO_TIMEOUT}, "svc"});
	world_until(&world, has_refused, NULL, "all are denied");
	cr_assert_eq(world_mailbox(&world, "one")->value[1], 3000);
#ifndef __SANITIZE_ADDRESS__
	cr_assert_lt(mallinfo2().uordblks, before + (400u << 10));
#endif
	(void)before;
	world_close(&world);
}
