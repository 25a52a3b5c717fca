/*
 * The verb audit: the newest lines, or those up to one that is waited for.
 */
#include <stdio.h>
#include <string.h>

#include "monitor/cli_output.h"
#include "monitor/cli_remote.h"
#include "monitor/loop.h"

#define KEPT_LINES 4096u

/* What --until has seen so far. */
struct follow {
	const char *text;
	uint64_t after;
	bool json;
	json_t *lines; /* with --json */
	json_t *request;
};

static json_t *audit_request(uint64_t lines, uint64_t after)
{
	return json_pack("{s:s s:I s:I}", "verb", "audit", "lines", (json_int_t)lines, "after",
	                 (json_int_t)after);
}

static void print_lines(const json_t *lines)
{
	const json_t *line;
	size_t i;

	cli_each (lines, i, line)
		printf("%s\n", json_string_value(line) ? json_string_value(line) : "");
}

/* The serial number in "... msg=audit(SECONDS.MS:SERIAL): ..."; 0: there is none. */
static uint64_t line_serial(const char *line)
{
	unsigned long long serial;
	const char *start = strstr(line, "msg=audit(");

	return start && sscanf(start, "msg=audit(%*[0-9.]:%llu)", &serial) == 1 ? serial : 0;
}

/* Hands on the lines up to the one with the text; true if it is there. */
static bool follow_lines(void *opaque, const json_t *body)
{
	struct follow *follow = opaque;
	const json_t *line;
	size_t i;

	cli_each (json_object_get(body, "lines"), i, line) {
		const char *text = json_string_value(line);

		if (!text)
			continue;
		follow->after = line_serial(text);
		if (follow->json)
			json_array_append(follow->lines, (json_t *)line);
		else
			printf("%s\n", text);
		if (strstr(text, follow->text))
			return true;
	}
	fflush(stdout);
	follow->after = (uint64_t)cli_integer(body, "newest");
	json_object_set_new(follow->request, "after", json_integer((json_int_t)follow->after));
	return false;
}

static int run_follow(const struct cli_call *call, uint64_t lines, uint64_t after)
{
	struct follow follow = {.text = cli_value(call, "--until"), .after = after, .json = call->json};
	char what[128];
	double seconds;
	json_t *body;
	int status;

	if (!cli_seconds(call, "--deadline", 3600, 10, &seconds))
		return CLI_USAGE;
	follow.request = audit_request(lines, after);
	follow.lines = json_array();
	snprintf(what, sizeof(what), "no audit line holds \"%.80s\"", follow.text);
	status = remote_ask_until(call, follow.request, loop_now() + (uint64_t)(seconds * 1e9), follow_lines,
	                          &follow, what, &body);
	json_decref(body);
	json_decref(follow.request);
	if (call->json)
		cli_print_json(
			json_pack("{s:I s:o}", "newest", (json_int_t)follow.after, "lines", follow.lines));
	else
		json_decref(follow.lines);
	return status;
}

int cli_audit(const struct cli_call *call)
{
	uint64_t lines, after;
	json_t *body;
	int status;

	if (!cli_number(call, "--after", INT64_MAX, 0, &after) ||
	    !cli_number(call, "--lines", KEPT_LINES,
	                cli_has(call, "--until") || cli_has(call, "--after") ? KEPT_LINES : 100, &lines))
		return CLI_USAGE;
	if (cli_has(call, "--until"))
		return run_follow(call, lines, after);
	status = remote_ask(call, audit_request(lines, after), NULL, 0, &body);
	if (status == CLI_DONE && call->json)
		return cli_print_json(body);
	print_lines(json_object_get(body, "lines"));
	json_decref(body);
	return status;
}
