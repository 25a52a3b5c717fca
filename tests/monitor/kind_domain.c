/* Changes that name a domain or a channel: relabel, quarantine, release, cut. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guest/abi/call.h"
#include "monitor/view.h"
#include "tests/monitor/kind_support.h"

Test(kind, relabel_decides_by_the_new_context)
{
	struct world world;
	struct pair pair, other;
	json_t *report;

	world_open(&world, &(struct world_options){.policy = POLICY_NO_CONNECT});
	pair = pair_open(&world, "three", "two", "svc");
	other = pair_open(&world, "three", "four", "aux");
	report = change_planned(&world, to_relabel("three", SUBJECT("one_t")), 2);
	cr_assert_str_eq(report_text(report, "change"), "relabel");
	cr_assert_str_eq(report_text(report, "cuts.0.from"), "test/three");
	cr_assert_str_eq(report_text(report, "cuts.0.reason"), "no rule allows one_t two_t:channel connect");
	json_decref(report);
	assert_revoked(&world, &pair);
	assert_flowing(&world, &other);
	cr_assert_eq(connect_result(&world, "three", "svc"), CALL_DENIED);

	change_quietly(&world, to_relabel("three", SUBJECT("three_t")), 0);
	assert_revoked(&world, &pair);
	pair = pair_open(&world, "three", "two", "svc");
	assert_flowing(&world, &pair);
	world_close(&world);
}

/* A service without a context of its own has its domain's, also after a relabel. */
Test(kind, relabel_of_a_server)
{
	struct world world;
	struct pair one, three;

	world_open(&world,
	           &(struct world_options){.policy = policy_of("(call can_connect (one_t two_t))"
	                                                       "(call can_connect (three_t two_t))"
	                                                       "(call can_connect (three_t four_t))")});
	one = pair_open(&world, "one", "two", "svc");
	three = pair_open(&world, "three", "two", "svc");
	change_quietly(&world, to_relabel("two", SUBJECT("four_t")), 2);
	assert_revoked(&world, &one);
	assert_flowing(&world, &three);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	three = pair_open(&world, "three", "two", "svc");
	assert_flowing(&world, &three);
	world_close(&world);
}

Test(kind, relabel_refused)
{
	struct world world;

	world_open(&world, NULL);
	change_refused(&world, to_relabel("nobody", SUBJECT("one_t")), -ENOENT, "domain list");
	change_refused(&world, to_relabel("one", "no context"), -EINVAL, "user:role:type:level");
	change_refused(&world, to_relabel("one", ""), -EINVAL, "user:role:type:level");
	/* The text gets a handle on the way; what follows shows that nothing else has changed. */
	{
		json_t *report;
		char *why;

		cr_assert_eq(change_try(&world, to_relabel("one", SUBJECT("unheard_of_t")), &report, &why),
		             -EINVAL);
		cr_assert_str_eq(why, "the policy does not know that context");
		free(why);
	}
	change_refused(&world, to_relabel("one", SUBJECT("unheard_of_t")), -EINVAL, "does not know");
	cr_assert_eq(world.monitor->posture->policy_number, 1);
	world_close(&world);
}

/* A context that a push forgets is of no use until its domain is relabelled (F13). */
Test(kind, relabel_brings_back_who_was_forgotten)
{
	struct world world;
	struct pair pair;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	json_decref(push_planned(&world, POLICY_FORGET, STOP_ALL, 2));
	assert_revoked(&world, &pair);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	change_quietly(&world, to_relabel("one", SUBJECT("three_t")), 0);
	pair = pair_open(&world, "one", "two", "svc");
	assert_flowing(&world, &pair);
	world_close(&world);
}

static void assert_state(struct world *world, const char *domain, const char *state)
{
	json_t *domains = view_domains(world->monitor), *one;
	size_t i;
	bool found = false;

	json_array_foreach (domains, i, one) {
		if (strcmp(json_string_value(json_object_get(one, "name")), domain) != 0)
			continue;
		cr_assert_str_eq(json_string_value(json_object_get(one, "state")), state);
		found = true;
	}
	cr_assert(found);
	json_decref(domains);
}

Test(kind, quarantine_both_ways_until_release)
{
	struct world world;
	struct pair in, out, other;
	json_t *report;

	world_open(&world,
	           &(struct world_options){.policy = policy_of("(call can_connect (one_t two_t))"
	                                                       "(call can_connect (two_t four_t))"
	                                                       "(call can_connect (three_t four_t))")});
	in = pair_open(&world, "one", "two", "svc");
	out = pair_open(&world, "two", "four", "aux");
	other = pair_open(&world, "three", "four", "aux");
	report = change_planned(&world, to_quarantine("two"), 4);
	cr_assert_str_eq(report_text(report, "change"), "quarantine");
	cr_assert_str_eq(report_text(report, "cuts.0.reason"), "a domain is quarantined");
	cr_assert_eq(json_array_size(json_object_get(json_array_get(json_object_get(report, "cuts"), 0),
	                                             "permissions")),
	             0);
	json_decref(report);
	assert_state(&world, "two", "quarantined");
	assert_revoked(&world, &in);
	assert_revoked(&world, &out);
	assert_flowing(&world, &other);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	cr_assert_eq(connect_result(&world, "two", "aux"), CALL_QUARANTINED);
	/* Neither a push nor an overlay ends it, and twice is once. */
	json_decref(push_planned(&world, POLICY_OPEN, STOP_ALL, 0));
	change_quietly(&world, to_reset(), 0);
	change_quietly(&world, to_quarantine("two"), 0);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);

	report = change_planned(&world, to_release("two"), 0);
	cr_assert_str_eq(report_text(report, "change"), "release");
	cr_assert_eq(report_number(report, "flows.allowed"), 2);
	cr_assert_str_eq(report_text(report, "allowed.0.from"), "test/one");
	json_decref(report);
	assert_revoked(&world, &in);
	assert_revoked(&world, &out);
	in = pair_open(&world, "one", "two", "svc");
	assert_flowing(&world, &in);
	change_quietly(&world, to_release("two"), 0);
	assert_flowing(&world, &in);
	world_close(&world);
}

Test(kind, quarantine_holds_in_permissive_mode)
{
	struct world world;
	struct pair pair;

	world_open(&world, NULL);
	change_quietly(&world, to_enforcing(false), 0);
	pair = pair_open(&world, "one", "two", "svc");
	change_quietly(&world, to_quarantine("one"), 2);
	assert_revoked(&world, &pair);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_QUARANTINED);
	change_refused(&world, to_quarantine("nobody"), -ENOENT, "domain list");
	change_refused(&world, to_release("nobody"), -ENOENT, "domain list");
	world_close(&world);
}

/* I9: a denial that no rule explains is in the audit trail too. */
Test(kind, i9_quarantine_denials_are_audited)
{
	struct world world;
	char *line;

	world_open(&world, NULL);
	change_quietly(&world, to_quarantine("two"), 0);
	cr_assert_eq(connect_result(&world, "one", "svc"), CALL_DENIED);
	line = audit_find(&world, "domain=\"one\" service=\"svc\"");
	cr_assert(line && strstr(line, "quarantine"), "no line for a connect to a quarantined domain");
	cr_assert_null(strstr(line, "avc:"), "not a decision of the policy: %s", line);
	free(line);
	cr_assert_eq(connect_result(&world, "two", "aux"), CALL_QUARANTINED);
	line = audit_find(&world, "domain=\"two\" service=\"aux\"");
	cr_assert(line && strstr(line, "quarantine"), "no line for a connect of a quarantined domain");
	free(line);
	world_close(&world);
}

Test(kind, cut_takes_one_channel)
{
	struct world world;
	struct pair pair, other;
	json_t *report;

	world_open(&world, NULL);
	pair = pair_open(&world, "one", "two", "svc");
	other = pair_open(&world, "one", "two", "svc");
	report = change_planned(&world, to_cut(pair.channel->number), 2);
	cr_assert_str_eq(report_text(report, "change"), "cut");
	cr_assert_str_eq(report_text(report, "cuts.1.from"), "test/two");
	cr_assert_str_eq(report_text(report, "cuts.1.reason"), "cut by an operator");
	json_decref(report);
	assert_revoked(&world, &pair);
	assert_flowing(&world, &other);
	/* It is not forbidden: a new connect gets a channel at once. */
	change_quietly(&world, to_cut(pair.channel->number), 0);
	change_refused(&world, to_cut(other.channel->number + 1), -ENOENT, "channel list");
	change_refused(&world, to_cut(0), -ENOENT, "channel list");
	{
		uint64_t number = pair.channel->number;

		pair_close(&world, &pair);
		change_refused(&world, to_cut(number), -ENOENT, "channel list");
	}
	pair = pair_open(&world, "one", "two", "svc");
	assert_flowing(&world, &pair);
	world_close(&world);
}

/* A connect that waits for accept is cut like a channel, and its call counts as cancelled. */
Test(kind, cut_of_a_connect_that_waits_for_accept)
{
	struct world world;
	json_t *report;

	world_open(&world, NULL);
	for (unsigned i = 0; i < 3; i++) {
		const struct change_request requests[] = {to_revoke("one_t", "two_t", "connect"),
		                                          to_quarantine("two"),
		                                          to_relabel("one", SUBJECT("two_t"))};

		actor_begin(&world, "one", (struct command){ACTOR_CONNECT, {NO_TIMEOUT}, "svc"});
		actor_until_awaiting(&world, "one");
		report = change_planned(&world, requests[i], 2);
		cr_assert_eq(report_number(report, "cuts.0.cancelled_calls"), 1);
		cr_assert_eq(report_number(report, "cuts.1.cancelled_calls"), 0);
		json_decref(report);
		cr_assert_eq(actor_finish(&world, "one"), CALL_REVOKED);
		cr_assert_eq(world.monitor->registry->n_channels, 0);
		cr_assert_eq(machine_domain_page(world_guest(&world)->machine, 1)->accepts_waiting, 0);
		if (i == 0)
			change_quietly(&world, to_reset(), 0);
		if (i == 1)
			change_quietly(&world, to_release("two"), 0);
	}
	world_close(&world);
}
