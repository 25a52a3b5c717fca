/*
 * The verbs that change decisions without a new policy: bool, enforce, revoke,
 * grant, reset, relabel, quarantine, release, cut.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/cli.h"
#include "monitor/cli_output.h"
#include "monitor/cli_remote.h"
#include "monitor/cli_report.h"
#include "monitor/manifest.h"

/* Sends the change, shows its report. Takes the request. */
static int ask_change(const struct cli_call *call, json_t *request)
{
	json_t *report;
	int mode, status;

	if (!cli_stop_mode(call, &mode)) {
		json_decref(request);
		return CLI_USAGE;
	}
	if (mode >= 0)
		json_object_set_new(request, "stop", json_string(stop_mode_name((enum stop_mode)mode)));
	if (cli_has(call, "--force"))
		json_object_set_new(request, "force", json_true());
	if (cli_has(call, "--plan") || cli_has(call, "--try"))
		json_object_set_new(request, "plan", json_true());
	status = remote_ask(call, request, NULL, 0, &report);
	if (report && call->json)
		cli_print_json(json_incref(report));
	else if (report)
		cli_print_report(report);
	json_decref(report);
	return status;
}

static bool read_switch(const struct cli_call *call, const char *word, bool *value)
{
	*value = strcmp(word, "on") == 0;
	if (*value || strcmp(word, "off") == 0)
		return true;
	cli_usage(call, "\"%s\" is neither on nor off", word);
	return false;
}

/* ---- booleans and mode ---- */

static int list_booleans(const struct cli_call *call)
{
	json_t *list, *item;
	int status = remote_ask(call, json_pack("{s:s}", "verb", "policy bool list"), NULL, 0, &list);
	size_t i;

	if (status != CLI_DONE)
		return status;
	if (call->json)
		return cli_print_json(list);
	cli_each (list, i, item)
		printf("%-32s %s\n", cli_text(item, "name"),
		       json_is_true(json_object_get(item, "value")) ? "on" : "off");
	if (json_array_size(list) == 0)
		printf("the policy has no booleans\n");
	json_decref(list);
	return CLI_DONE;
}

int cli_policy_bool(const struct cli_call *call)
{
	bool value;

	if (call->n_operands == 0)
		return list_booleans(call);
	if (call->n_operands == 1)
		return cli_usage(call, "on or off?");
	if (!read_switch(call, call->operands[1], &value))
		return CLI_USAGE;
	return ask_change(call, json_pack("{s:s s:s s:b}", "verb", "policy bool", "name", call->operands[0],
	                                  "value", value));
}

int cli_policy_enforce(const struct cli_call *call)
{
	bool value;

	if (!read_switch(call, call->operands[0], &value))
		return CLI_USAGE;
	return ask_change(call, json_pack("{s:s s:b}", "verb", "policy enforce", "value", value));
}

/* ---- overlays ---- */

static int ask_overlay(const struct cli_call *call, const char *verb)
{
	return ask_change(call, json_pack("{s:s s:s s:s s:s s:s}", "verb", verb, "source", call->operands[0],
	                                  "target", call->operands[1], "class", call->operands[2],
	                                  "permission", call->operands[3]));
}

int cli_policy_revoke(const struct cli_call *call)
{
	return ask_overlay(call, "policy revoke");
}

int cli_policy_grant(const struct cli_call *call)
{
	return ask_overlay(call, "policy grant");
}

int cli_policy_reset(const struct cli_call *call)
{
	return ask_change(call, json_pack("{s:s}", "verb", "policy reset"));
}

/* ---- domains and channels ---- */

int cli_domain_relabel(const struct cli_call *call)
{
	return ask_change(call, json_pack("{s:s s:s s:s}", "verb", "domain relabel", "domain",
	                                  call->operands[0], "context", call->operands[1]));
}

int cli_domain_quarantine(const struct cli_call *call)
{
	return ask_change(call,
	                  json_pack("{s:s s:s}", "verb", "domain quarantine", "domain", call->operands[0]));
}

int cli_domain_release(const struct cli_call *call)
{
	return ask_change(call,
	                  json_pack("{s:s s:s}", "verb", "domain release", "domain", call->operands[0]));
}

int cli_channel_cut(const struct cli_call *call)
{
	char *end;
	unsigned long long number = strtoull(call->operands[0], &end, 10);

	if (*end || end == call->operands[0] || number > INT64_MAX)
		return cli_usage(call, "\"%s\" is no channel's number", call->operands[0]);
	return ask_change(call, json_pack("{s:s s:I}", "verb", "channel cut", "channel", (json_int_t)number));
}
