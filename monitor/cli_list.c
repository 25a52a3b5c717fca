/*
 * The verbs that show what runs: guests, domains, channels, status; and the one that ends it.
 */
#include <stdio.h>
#include <string.h>

#include "monitor/cli_output.h"
#include "monitor/cli_remote.h"
#include "monitor/loop.h"

static json_t *verb_request(const char *verb)
{
	return json_pack("{s:s}", "verb", verb);
}

/* Asks for a document and prints it: as it is with --json, by `print` otherwise. */
static int show(const struct cli_call *call, const char *verb, void (*print)(const json_t *body))
{
	json_t *body;
	int status;

	if (cli_has(call, "--deadline"))
		return cli_usage(call, "--deadline says how long --until may wait; there is no --until");
	status = remote_ask(call, verb_request(verb), NULL, 0, &body);
	if (status == CLI_DONE && call->json)
		return cli_print_json(body);
	if (status == CLI_DONE)
		print(body);
	json_decref(body);
	return status;
}

/* ---- guests and domains ---- */

static enum cli_colour state_colour(const char *state)
{
	static const char *const bad[] = {"crashed", "killed", "failed", "quarantined", "cut"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (strcmp(state, bad[i]) == 0)
			return COLOUR_RED;
	return strcmp(state, "running") == 0 || strcmp(state, "open") == 0 ? COLOUR_GREEN : COLOUR_NONE;
}

static void state_cell(struct cli_table *table, const char *state)
{
	table->colour = state_colour(state);
	cli_cell(table, "%s", state);
	table->colour = COLOUR_NONE;
}

static void print_guests(const json_t *guests)
{
	static const char *const heading[] = {"GUEST", "STATE", "VCPUS", "DOMAINS", "EXITS", "STOPS", NULL};
	struct cli_table table;
	const json_t *guest;
	size_t i;

	cli_table_begin(&table, 0x3c, heading);
	cli_each (guests, i, guest) {
		cli_cell(&table, "%s", cli_text(guest, "name"));
		state_cell(&table, cli_text(guest, "state"));
		cli_cell(&table, "%lld", cli_integer(guest, "vcpus"));
		cli_cell(&table, "%zu", json_array_size(json_object_get(guest, "domains")));
		cli_cell(&table, "%lld", cli_integer(guest, "exits"));
		cli_cell(&table, "%lld", cli_integer(guest, "stop_requests"));
	}
	cli_table_end(&table, "no guest");
	cli_each (guests, i, guest)
		if (json_object_get(guest, "crash"))
			printf("%s: %s\n", cli_text(guest, "name"), cli_text(guest, "crash"));
}

int cli_guest_list(const struct cli_call *call)
{
	return show(call, "guest list", print_guests);
}

/* "echo, relay", or "-". */
static void services_cell(struct cli_table *table, const json_t *services)
{
	char text[1024] = "-";
	const json_t *service;
	size_t i, used = 0;

	cli_each (services, i, service)
		if (used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : "",
			                         cli_text(service, "name"));
	cli_cell(table, "%s", text);
}

static void print_domains(const json_t *domains)
{
	static const char *const heading[] = {"DOMAIN", "STATE",  "VCPU",    "SLOTS",
	                                      "USED",   "OFFERS", "CONTEXT", NULL};
	struct cli_table table;
	const json_t *domain;
	size_t i;

	cli_table_begin(&table, 0x1c, heading);
	cli_each (domains, i, domain) {
		cli_cell(&table, "%s/%s", cli_text(domain, "guest"), cli_text(domain, "domain"));
		state_cell(&table, cli_text(domain, "state"));
		cli_cell(&table, "%lld", cli_integer(domain, "vcpu"));
		cli_cell(&table, "%lld", cli_integer(domain, "slots"));
		cli_cell(&table, "%lld", cli_integer(domain, "slots_used"));
		services_cell(&table, json_object_get(domain, "services"));
		cli_cell(&table, "%s", cli_text(domain, "context"));
	}
	cli_table_end(&table, "no domain");
}

int cli_domain_list(const struct cli_call *call)
{
	return show(call, "domain list", print_domains);
}

/* ---- channels ---- */

static const char *arrow(const char *state, bool pending)
{
	static const char *const arrows[][2] = {
		{"cut", "-x>"}, {"denied", "-/>"}, {"closed", "-.>"}, {"pending", "..."}};

	if (pending && strcmp(state, "open") == 0)
		return "...";
	for (size_t i = 0; i < sizeof(arrows) / sizeof(arrows[0]); i++)
		if (strcmp(state, arrows[i][0]) == 0)
			return arrows[i][1];
	return "-->";
}

static bool is_pending(const json_t *flow)
{
	return json_is_false(json_object_get(flow, "accepted"));
}

static void flow_row(struct cli_table *table, const json_t *channel, size_t i)
{
	const json_t *flow = json_array_get(json_object_get(channel, "flows"), i);
	const json_t *from = json_object_get(channel, i == 0 ? "client" : "server");
	const json_t *to = json_object_get(channel, i == 0 ? "server" : "client");
	const char *state = cli_text(flow, "state");

	if (i == 0)
		cli_cell(table, "%lld", cli_integer(channel, "channel"));
	else
		cli_cell(table, "%s", "");
	cli_cell(table, "%s", i == 0 ? cli_text(channel, "service") : "");
	cli_cell(table, "%s/%s", cli_text(from, "guest"), cli_text(from, "domain"));
	table->colour = state_colour(state);
	cli_cell(table, "%s", arrow(state, is_pending(flow)));
	table->colour = COLOUR_NONE;
	cli_cell(table, "%s/%s", cli_text(to, "guest"), cli_text(to, "domain"));
	state_cell(table, is_pending(flow) && strcmp(state, "open") == 0 ? "connecting" : state);
	cli_cell(table, "%lld", cli_integer(flow, "messages"));
	cli_cell(table, "%lld", cli_integer(flow, "bytes"));
	cli_cell(table, "%lld", cli_integer(flow, "unread_bytes"));
}

static void print_channels(const json_t *channels)
{
	static const char *const heading[] = {"CHANNEL", "SERVICE",  "FROM",  "",       "TO",
	                                      "STATE",   "MESSAGES", "BYTES", "UNREAD", NULL};
	struct cli_table table;
	const json_t *channel;
	size_t i;

	cli_table_begin(&table, 0x1c1, heading);
	cli_each (channels, i, channel) {
		flow_row(&table, channel, 0);
		flow_row(&table, channel, 1);
	}
	cli_table_end(&table, "no channel");
}

static bool is_open(const json_t *channel)
{
	const json_t *flow;
	size_t i;

	cli_each (json_object_get(channel, "flows"), i, flow)
		if (strcmp(cli_text(flow, "state"), "open") == 0 && !is_pending(flow))
			return true;
	return false;
}

static bool enough_channels(void *opaque, const json_t *channels)
{
	const uint64_t *wanted = opaque;
	const json_t *channel;
	uint64_t n_open = 0;
	size_t i;

	cli_each (channels, i, channel)
		n_open += is_open(channel);
	return n_open >= *wanted;
}

/* A verb with --until: prints what held at last, also when that was not what was waited for. */
static int show_until(const struct cli_call *call, const char *verb, const char *what,
                      bool (*enough)(void *opaque, const json_t *body), void *opaque,
                      void (*print)(const json_t *body))
{
	json_t *request, *body;
	double seconds;
	int status;

	if (!cli_seconds(call, "--deadline", 3600, 10, &seconds))
		return CLI_USAGE;
	request = verb_request(verb);
	status = remote_ask_until(call, request, loop_now() + (uint64_t)(seconds * 1e9), enough, opaque, what,
	                          &body);
	json_decref(request);
	if (body && call->json)
		cli_print_json(json_incref(body));
	else if (body)
		print(body);
	json_decref(body);
	return status;
}

int cli_channel_list(const struct cli_call *call)
{
	char what[64];
	uint64_t wanted;

	if (!cli_has(call, "--until"))
		return show(call, "channel list", print_channels);
	if (!cli_number(call, "--until", 1u << 20, 0, &wanted))
		return CLI_USAGE;
	snprintf(what, sizeof(what), "%llu open channels", (unsigned long long)wanted);
	return show_until(call, "channel list", what, enough_channels, &wanted, print_channels);
}

/* ---- status ---- */

static void print_status(const json_t *body)
{
	const json_t *counters = json_object_get(body, "counters");
	long long seconds = (long long)(cli_real(body, "uptime") / 1e6);

	printf("policy %lld (%s), %s, up %lld:%02lld:%02lld\n", cli_integer(body, "policy_number"),
	       cli_text(body, "fingerprint"),
	       json_is_true(json_object_get(body, "enforcing")) ? "enforcing" : "permissive", seconds / 3600,
	       seconds / 60 % 60, seconds % 60);
	printf("%lld connects, %lld denials, %lld cuts; AVC %lld hits, %lld misses; %lld audit lines "
	       "lost\n\n",
	       cli_integer(counters, "connects"), cli_integer(counters, "denials"),
	       cli_integer(counters, "cuts"), cli_integer(counters, "avc_hits"),
	       cli_integer(counters, "avc_misses"), cli_integer(counters, "audit_lost"));
	print_guests(json_object_get(body, "guests"));
}

static bool all_running(void *opaque, const json_t *body)
{
	const json_t *guest;
	size_t i;

	(void)opaque;
	cli_each (json_object_get(body, "guests"), i, guest)
		if (strcmp(cli_text(guest, "state"), "running") != 0)
			return false;
	return true;
}

int cli_status(const struct cli_call *call)
{
	const char *until = cli_value(call, "--until");

	if (!until)
		return show(call, "status", print_status);
	if (strcmp(until, "running") != 0)
		return cli_usage(call, "--until %s: expected running", until);
	return show_until(call, "status", "a guest is not running", all_running, NULL, print_status);
}

static void print_nothing(const json_t *body)
{
	(void)body;
}

int cli_shutdown(const struct cli_call *call)
{
	return show(call, "shutdown", print_nothing);
}
