#include "monitor/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "monitor/bench/bench.h"
#include "monitor/cli_help.h"
#include "monitor/cli_manual.h"
#include "monitor/manifest.h"
#include "monitor/suggest.h"
#include "policy/launcher.h"

/* ---- what was given ---- */

bool cli_has(const struct cli_call *call, const char *option)
{
	for (size_t i = 0; i < call->n_given; i++)
		if (strcmp(call->given[i].name, option) == 0)
			return true;
	return false;
}

const char *cli_value(const struct cli_call *call, const char *option)
{
	const char *value = NULL;

	for (size_t i = 0; i < call->n_given; i++)
		if (strcmp(call->given[i].name, option) == 0)
			value = call->given[i].value;
	return value;
}

size_t cli_values(const struct cli_call *call, const char *option, const char **values)
{
	size_t n = 0;

	for (size_t i = 0; i < call->n_given; i++)
		if (strcmp(call->given[i].name, option) == 0)
			values[n++] = call->given[i].value;
	return n;
}

int cli_usage(const struct cli_call *call, const char *format, ...)
{
	va_list arguments;

	fprintf(stderr, "portcullis %s: ", call->verb->name);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fprintf(stderr, "\n");
	cli_print_usage(call->verb, stderr);
	return CLI_USAGE;
}

bool cli_number(const struct cli_call *call, const char *option, uint64_t most, uint64_t otherwise,
                uint64_t *number)
{
	const char *text = cli_value(call, option);
	unsigned long long value;
	char *end;

	*number = otherwise;
	if (!text)
		return true;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || text[strspn(text, "0123456789")] || value > most) {
		cli_usage(call, "%s %s: expected a whole number up to %llu", option, text,
		          (unsigned long long)most);
		return false;
	}
	*number = value;
	return true;
}

bool cli_seconds(const struct cli_call *call, const char *option, double most, double otherwise,
                 double *seconds)
{
	const char *text = cli_value(call, option);
	char *end;

	*seconds = otherwise;
	if (!text)
		return true;
	*seconds = strtod(text, &end);
	if (end == text || *end || !(*seconds > 0 && *seconds <= most)) {
		cli_usage(call, "%s %s: expected seconds, above 0 and up to %g", option, text, most);
		return false;
	}
	return true;
}

bool cli_stop_mode(const struct cli_call *call, int *mode)
{
	const char *name = cli_value(call, "--stop");

	*mode = name ? stop_mode_find(name) : -1;
	if (name && *mode < 0) {
		cli_usage(call, "--stop %s: expected all, affected or none", name);
		return false;
	}
	return true;
}

/* ---- reading the command line ---- */

static const struct cli_option shared_options[] = {
	{"--json", NULL, "prints JSON"},
	{"--socket", "PATH", "of the monitor (default: $PORTCULLIS_SOCKET, or one in the runtime folder)"},
	{"--help", NULL, "prints this"},
};

const struct cli_option *cli_option_at(const struct cli_verb *verb, size_t i)
{
	for (size_t k = 0; k < CLI_OWN_OPTIONS && verb->options[k].name; k++)
		if (i-- == 0)
			return &verb->options[k];
	if (verb->shared & CLI_JSON && i-- == 0)
		return &shared_options[0];
	if (verb->shared & CLI_SOCKET && i-- == 0)
		return &shared_options[1];
	return i == 0 ? &shared_options[2] : NULL;
}

static const struct cli_option *find_option(const struct cli_verb *verb, const char *name, size_t length)
{
	const struct cli_option *option;

	for (size_t i = 0; (option = cli_option_at(verb, i)); i++)
		if (strlen(option->name) == length && strncmp(option->name, name, length) == 0)
			return option;
	return NULL;
}

static int unknown_option(const struct cli_call *call, const char *name)
{
	const char *names[CLI_OWN_OPTIONS + 4];
	char suggestion[SUGGESTION_BYTES];
	const struct cli_option *option;
	size_t n = 0;

	for (size_t i = 0; (option = cli_option_at(call->verb, i)); i++)
		if (option->help)
			names[n++] = option->name;
	return cli_usage(call, "there is no option %s%s", name, suggest_phrase(name, names, n, suggestion));
}

/* One option with its value: "--name value" or "--name=value". 0, or CLI_USAGE. */
static int read_option(struct cli_call *call, int argc, char **argv, int *i)
{
	const char *text = argv[*i];
	const struct cli_option *option;
	const char *value;
	size_t length;

	if (strcmp(text, "-h") == 0)
		text = "--help";
	length = strcspn(text, "=");
	option = find_option(call->verb, text, length);
	value = text[length] ? text + length + 1 : NULL;
	if (!option)
		return unknown_option(call, text);
	if (!option->value && value)
		return cli_usage(call, "%s takes no value", option->name);
	if (option->value && !value) {
		if (*i + 1 >= argc)
			return cli_usage(call, "%s needs a value: %s %s", option->name, option->name,
			                 option->value);
		value = argv[++*i];
	}
	if (value && !*value)
		return cli_usage(call, "%s needs a value: %s %s", option->name, option->name, option->value);
	if (call->n_given == CLI_MAX_GIVEN)
		return cli_usage(call, "too many options");
	call->given[call->n_given++] = (struct cli_given){option->name, value};
	return 0;
}

static int read_arguments(struct cli_call *call, int argc, char **argv, int first)
{
	bool operands_only = false;

	for (int i = first; i < argc; i++) {
		if (!operands_only && strcmp(argv[i], "--") == 0) {
			operands_only = true;
		} else if (!operands_only && argv[i][0] == '-' && argv[i][1]) {
			if (read_option(call, argc, argv, &i))
				return CLI_USAGE;
		} else if (call->n_operands == CLI_MAX_GIVEN) {
			return cli_usage(call, "too many arguments");
		} else {
			call->operands[call->n_operands++] = argv[i];
		}
	}
	call->json = cli_has(call, "--json");
	if (cli_has(call, "--help"))
		return 0;
	if (call->n_operands < call->verb->least)
		return cli_usage(call, "%s is missing", call->verb->operands);
	if (call->n_operands > call->verb->most)
		return cli_usage(call, "\"%s\" is one argument too many", call->operands[call->verb->most]);
	return 0;
}

/* ---- dispatch ---- */

/* The verb in the first one or two words; *words says how many. */
static const struct cli_verb *find_verb(int argc, char **argv, int *words)
{
	for (size_t i = 0; i < cli_n_verbs; i++) {
		const char *name = cli_verbs[i].name;
		const char *second = strchr(name, ' ');
		size_t first = second ? (size_t)(second - name) : strlen(name);

		if (strlen(argv[1]) != first || strncmp(argv[1], name, first) != 0)
			continue;
		*words = second ? 2 : 1;
		if (!second || (argc > 2 && strcmp(argv[2], second + 1) == 0))
			return &cli_verbs[i];
	}
	return NULL;
}

/* Words that make a verb only with a second one: what stands behind them is help, or wrong. */
static bool is_group(const char *word)
{
	size_t length = strlen(word);

	for (size_t i = 0; i < cli_n_verbs; i++)
		if (strncmp(cli_verbs[i].name, word, length) == 0 && cli_verbs[i].name[length] == ' ')
			return true;
	return false;
}

static int unknown_verb(int argc, char **argv)
{
	static const char *const group_names[] = {"policy", "guest", "domain", "channel"};
	const char *names[70];
	char suggestion[SUGGESTION_BYTES], given[128];
	bool group = is_group(argv[1]);
	size_t n = 0;

	if (group && argc < 3) {
		cli_print_group(argv[1], stderr);
		return CLI_USAGE;
	}
	for (size_t i = 0; i < cli_n_verbs && n < 60; i++)
		names[n++] = cli_verbs[i].name;
	for (size_t i = 0; i < sizeof(group_names) / sizeof(group_names[0]) && !group; i++)
		names[n++] = group_names[i];
	names[n++] = "bench";
	names[n++] = "version";
	names[n++] = "help";
	snprintf(given, sizeof(given), "%.60s%s%.60s", argv[1], group ? " " : "", group ? argv[2] : "");
	fprintf(stderr, "portcullis: there is no verb \"%s\"%s\nportcullis --help lists them\n", given,
	        suggest_phrase(given, names, n, suggestion));
	return CLI_USAGE;
}

static int call_verb(const struct cli_verb *verb, int argc, char **argv, int first)
{
	static struct cli_call call; /* zero; large */
	char why[WHY_BYTES];
	int status;

	call.verb = verb;
	if (read_arguments(&call, argc, argv, first))
		return CLI_USAGE;
	if (cli_has(&call, "--help")) {
		cli_print_help(verb, stdout);
		return CLI_DONE;
	}
	/* Before anything is opened, so that no security server can inherit it. */
	if (verb->launches && launcher_start(&call.launcher, why) < 0) {
		fprintf(stderr, "portcullis: %s\n", why);
		return CLI_FAILED;
	}
	status = verb->run(&call);
	launcher_stop(call.launcher);
	/* A full disk or a closed pipe under standard output is a failure of the verb. */
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "portcullis: standard output: %s\n", strerror(errno));
		return CLI_FAILED;
	}
	return status;
}

static int help(int argc, char **argv)
{
	const struct cli_verb *verb;
	int words;

	if (argc < 3) {
		cli_print_all(stdout);
		return CLI_DONE;
	}
	if (strcmp(argv[2], "--manual") == 0) {
		cli_print_manual(stdout);
		return CLI_DONE;
	}
	if (strcmp(argv[2], "--completion") == 0) {
		cli_print_completion(stdout);
		return CLI_DONE;
	}
	verb = find_verb(argc - 1, argv + 1, &words);
	if (verb) {
		cli_print_help(verb, stdout);
		return CLI_DONE;
	}
	if (is_group(argv[2])) {
		cli_print_group(argv[2], stdout);
		return CLI_DONE;
	}
	return unknown_verb(argc - 1, argv + 1);
}

int cli_main(int argc, char **argv)
{
	const struct cli_verb *verb;
	int words;

	if (argc < 2) {
		cli_print_all(stderr);
		return CLI_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
		return help(argc, argv);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		printf("portcullis %s\n", CLI_VERSION);
		return CLI_DONE;
	}
	if (strcmp(argv[1], "bench") == 0)
		return bench_main(argc - 1, argv + 1);
	if (is_group(argv[1]) && argc > 2 && strcmp(argv[2], "--help") == 0) {
		cli_print_group(argv[1], stdout);
		return CLI_DONE;
	}
	verb = find_verb(argc, argv, &words);
	if (!verb)
		return unknown_verb(argc, argv);
	return call_verb(verb, argc, argv, 1 + words);
}
