#include "monitor/cli_report.h"

#include <stdio.h>
#include <string.h>

#include "monitor/cli_output.h"

#define SHOWN_FLOWS 50u /* of thousands nobody reads more; --json has all */

static const char *plural(long long n)
{
	return n == 1 ? "" : "s";
}

/* How each kind of change is spoken of: before it is made, and after. */
static const struct wording {
	const char *change, *planned, *done;
} wordings[] = {
	{"policy", "A push", "The policy is in force"},
	{"boolean", "Setting the boolean", "The boolean is set"},
	{"enforcing", "Changing the mode", "The mode is set"},
	{"overlay", "The overlay", "The overlay is in force"},
	{"relabel", "The relabel", "The domain is relabelled"},
	{"quarantine", "The quarantine", "The domain is quarantined"},
	{"release", "The release", "The domain is released"},
	{"cut", "The cut", "The channel is cut"},
};

static const struct wording *wording_of(const json_t *report)
{
	static const struct wording any = {"", "The change", "The change is made"};
	const char *change = cli_text(report, "change");

	for (size_t i = 0; i < sizeof(wordings) / sizeof(wordings[0]); i++)
		if (strcmp(wordings[i].change, change) == 0)
			return &wordings[i];
	return &any;
}

static void print_headline(const json_t *report, bool planned)
{
	const struct wording *wording = wording_of(report);
	const json_t *flows = json_object_get(report, "flows");
	long long cut = cli_integer(flows, "cut"), kept = cli_integer(flows, "kept");
	long long allowed = cli_integer(flows, "allowed");
	const char *colour = cli_colour(cut ? COLOUR_RED : COLOUR_GREEN);

	if (planned)
		printf("%s%s would cut %lld flow%s%s and keep %lld", colour, wording->planned, cut,
		       plural(cut), cli_plain(), kept);
	else
		printf("%s: number %lld (before: %lld). %s%lld flow%s cut%s, %lld kept", wording->done,
		       cli_integer(report, "policy_number"), cli_integer(report, "previous"), colour, cut,
		       plural(cut), cli_plain(), kept);
	if (allowed)
		printf(planned ? "; %lld more would be allowed to a new connect"
		               : "; %lld more are allowed to a new connect",
		       allowed);
	printf(".\n");
}

static void print_flow(const json_t *flow, const char *what, enum cli_colour colour)
{
	const json_t *permissions = json_object_get(flow, "permissions"), *permission;
	size_t i;

	printf("  %s%s%s  channel %lld  %s --> %s ", cli_colour(colour), what, cli_plain(),
	       cli_integer(flow, "channel"), cli_text(flow, "from"), cli_text(flow, "to"));
	cli_each (permissions, i, permission)
		printf(" %s", json_string_value(permission) ? json_string_value(permission) : "");
	printf("\n        %s\n", cli_text(flow, "reason"));
}

static void print_cut(const json_t *cut, bool planned)
{
	long long messages = cli_integer(cut, "discarded_messages");
	long long calls = cli_integer(cut, "cancelled_calls");

	print_flow(cut, planned ? "cuts" : "cut ", COLOUR_RED);
	if (planned)
		return;
	if (messages)
		printf("        %lld message%s discarded (%lld bytes)\n", messages, plural(messages),
		       cli_integer(cut, "discarded_bytes"));
	if (calls)
		printf("        %lld blocked call%s cancelled\n", calls, plural(calls));
}

static void print_rest(size_t n)
{
	if (n > SHOWN_FLOWS)
		printf("  ... and %zu more; --json lists all\n", n - SHOWN_FLOWS);
}

static void print_flows(const json_t *report, bool planned)
{
	const json_t *list = json_object_get(report, "cuts"), *flow;
	size_t i;

	cli_each (list, i, flow)
		if (i < SHOWN_FLOWS)
			print_cut(flow, planned);
	print_rest(json_array_size(list));
	list = json_object_get(report, "allowed");
	cli_each (list, i, flow)
		if (i < SHOWN_FLOWS)
			print_flow(flow, "new ", COLOUR_GREEN);
	print_rest(json_array_size(list));
	list = json_object_get(report, "kept_with_flowctl");
	cli_each (list, i, flow)
		if (i < SHOWN_FLOWS)
			printf("  %skept%s  channel %lld  %s --> %s  its back-pressure still tells something "
			       "the "
			       "other way\n",
			       cli_colour(COLOUR_YELLOW), cli_plain(), cli_integer(flow, "channel"),
			       cli_text(flow, "from"), cli_text(flow, "to"));
	print_rest(json_array_size(list));
}

static void print_times(const json_t *report)
{
	static const char *const parts[] = {"prepare", "stop", "patch", "resume", "total"};
	const json_t *times = json_object_get(report, "times");
	const json_t *vcpus = json_object_get(report, "vcpus");

	printf("Times, us: ");
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		printf("  %s %.1f", parts[i], cli_real(times, parts[i]));
	printf("\nvCPUs:       %lld stopped, %lld gone (--stop %s)\n", cli_integer(vcpus, "stopped"),
	       cli_integer(vcpus, "gone"), cli_text(report, "stop"));
}

void cli_print_report(const json_t *report)
{
	bool planned = json_is_true(json_object_get(report, "planned"));
	const json_t *guest;
	size_t i;

	print_headline(report, planned);
	print_flows(report, planned);
	if (!planned)
		print_times(report);
	cli_each (json_object_get(report, "killed"), i, guest)
		printf("%sKilled:%s guest %s did not stop in time\n", cli_colour(COLOUR_RED), cli_plain(),
		       json_string_value(guest) ? json_string_value(guest) : "?");
}
