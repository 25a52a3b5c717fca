#include "monitor/cli_help.h"

#include <string.h>

static void print_call(const struct cli_verb *verb, FILE *to)
{
	const struct cli_option *option;

	fprintf(to, "usage: portcullis %s", verb->name);
	if (verb->operands)
		fprintf(to, " %s", verb->operands);
	for (size_t i = 0; (option = cli_option_at(verb, i)); i++)
		if (option->help && strcmp(option->name, "--help") != 0)
			fprintf(to, " [%s%s%s]", option->name, option->value ? " " : "",
			        option->value ? option->value : "");
	fprintf(to, "\n");
}

void cli_print_usage(const struct cli_verb *verb, FILE *to)
{
	print_call(verb, to);
	fprintf(to, "portcullis %s --help says more\n", verb->name);
}

static void print_options(const struct cli_verb *verb, FILE *to)
{
	const struct cli_option *option;

	fprintf(to, "\n");
	for (size_t i = 0; (option = cli_option_at(verb, i)); i++) {
		char name[64];

		if (!option->help)
			continue;
		snprintf(name, sizeof(name), "%s%s%s", option->name, option->value ? " " : "",
		         option->value ? option->value : "");
		fprintf(to, "  %-22s  %s\n", name, option->help);
	}
}

void cli_print_help(const struct cli_verb *verb, FILE *to)
{
	print_call(verb, to);
	fprintf(to, "\n%c%s.\n", verb->summary[0] - 'a' + 'A', verb->summary + 1);
	if (verb->help)
		fprintf(to, "%s\n", verb->help);
	print_options(verb, to);
}

static void print_line(const char *name, const char *operands, const char *summary, FILE *to)
{
	char call[96];

	snprintf(call, sizeof(call), "%s%s%s", name, operands ? " " : "", operands ? operands : "");
	if (strlen(call) > 26)
		fprintf(to, "  %s\n  %-26s  %s\n", call, "", summary);
	else
		fprintf(to, "  %-26s  %s\n", call, summary);
}

void cli_print_group(const char *word, FILE *to)
{
	size_t length = strlen(word);

	fprintf(to, "usage: portcullis %s VERB ...\n\n", word);
	for (size_t i = 0; i < cli_n_verbs; i++)
		if (strncmp(cli_verbs[i].name, word, length) == 0 && cli_verbs[i].name[length] == ' ')
			print_line(cli_verbs[i].name, cli_verbs[i].operands, cli_verbs[i].summary, to);
	fprintf(to, "\nportcullis %s VERB --help says more\n", word);
}

void cli_print_all(FILE *to)
{
	fprintf(to,
	        "usage: portcullis VERB ...\n\n"
	        "Runs small isolated programs in KVM guests. They talk over channels alone, each\n"
	        "allowed by an SELinux policy; a change of the policy cuts what it no longer allows.\n\n");
	for (size_t i = 0; i < cli_n_verbs; i++)
		print_line(cli_verbs[i].name, cli_verbs[i].operands, cli_verbs[i].summary, to);
	print_line("bench", "...", "measure; bench --help lists what", to);
	print_line("version", NULL, "print the version", to);
	fprintf(to, "\nportcullis VERB --help says more. Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}
