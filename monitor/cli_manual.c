#include "monitor/cli_manual.h"

#include <string.h>

#include "monitor/cli.h"
#include "monitor/cli_help.h"

/* Text for troff: no line may begin with a dot or a quote, a backslash and a minus are escaped. */
static void print_escaped(const char *text, FILE *to)
{
	bool at_start = true;

	for (; *text; text++) {
		if (at_start && (*text == '.' || *text == '\''))
			fputs("\\&", to);
		if (*text == '\\')
			fputs("\\e", to);
		else if (*text == '-')
			fputs("\\-", to);
		else
			fputc(*text, to);
		at_start = *text == '\n';
	}
}

static void print_line(const char *macro, const char *text, FILE *to)
{
	fprintf(to, "%s", macro);
	print_escaped(text, to);
	fputc('\n', to);
}

static void print_option(const struct cli_option *option, FILE *to)
{
	fputs(".TP\n\\fB", to);
	print_escaped(option->name, to);
	fputs("\\fR", to);
	if (option->value)
		fprintf(to, " \\fI%s\\fR", option->value);
	fputc('\n', to);
	print_line("", option->help, to);
}

static void print_verb(const struct cli_verb *verb, FILE *to)
{
	const struct cli_option *option;

	print_line(".SS ", verb->name, to);
	fprintf(to, "\\fBportcullis %s\\fR", verb->name);
	if (verb->operands) {
		fputs(" \\fI", to);
		print_escaped(verb->operands, to);
		fputs("\\fR", to);
	}
	fprintf(to, "\n.PP\n%c", verb->summary[0] - 'a' + 'A');
	print_escaped(verb->summary + 1, to);
	fputs(".\n", to);
	if (verb->help)
		print_line("", verb->help, to);
	for (size_t i = 0; (option = cli_option_at(verb, i)); i++)
		if (option->help && strcmp(option->name, "--help") != 0)
			print_option(option, to);
}

void cli_print_manual(FILE *to)
{
	fputs(".TH PORTCULLIS 1\n.SH NAME\nportcullis \\- KVM guests whose programs talk over channels that "
	      "a "
	      "policy allows\n"
	      ".SH SYNOPSIS\n.B portcullis\n.I VERB\n.RI [ options ]\n.SH DESCRIPTION\n"
	      "Runs small isolated programs in KVM guests. They talk over channels alone, each allowed by an "
	      "SELinux\npolicy; a change of the policy cuts what it no longer allows, completely, before the "
	      "verb returns.\n"
	      ".SH VERBS\n",
	      to);
	for (size_t i = 0; i < cli_n_verbs; i++)
		print_verb(&cli_verbs[i], to);
	fputs(".SS bench\n\\fBportcullis bench\\fR \\fIWHAT\\fR\n.PP\nMeasures; \\fBportcullis bench "
	      "\\-\\-help\\fR lists what.\n"
	      ".SH ENVIRONMENT\n.TP\n\\fBPORTCULLIS_SOCKET\\fR\nThe control socket that verbs use without "
	      "\\fB\\-\\-socket\\fR.\n"
	      ".SH EXIT STATUS\n0 done, 1 failed (standard error says why), 2 wrong usage.\n",
	      to);
}

/* ---- completion ---- */

/* Length of the word that groups the verb with others ("policy" of "policy push"), if it is the first of
 * them; else 0. */
static size_t group_begins(size_t verb)
{
	const char *name = cli_verbs[verb].name;
	size_t length = strcspn(name, " ");

	for (size_t i = 0; i < verb; i++)
		if (strncmp(cli_verbs[i].name, name, length + 1) == 0)
			return 0;
	return name[length] ? length : 0;
}

static void print_first_words(FILE *to)
{
	fputs("bench help version", to);
	for (size_t i = 0; i < cli_n_verbs; i++)
		if (!strchr(cli_verbs[i].name, ' ') || group_begins(i))
			fprintf(to, " %.*s", (int)strcspn(cli_verbs[i].name, " "), cli_verbs[i].name);
}

/* A case for each group, with the words that may follow its name. */
static void print_second_words(FILE *to)
{
	for (size_t group = 0; group < cli_n_verbs; group++) {
		size_t length = group_begins(group);

		if (!length)
			continue;
		fprintf(to, "\t%.*s) words=\"", (int)length, cli_verbs[group].name);
		for (size_t i = group; i < cli_n_verbs; i++)
			if (strncmp(cli_verbs[i].name, cli_verbs[group].name, length + 1) == 0)
				fprintf(to, "%s ", cli_verbs[i].name + length + 1);
		fputs("\" ;;\n", to);
	}
}

static void print_options_of(const struct cli_verb *verb, FILE *to)
{
	const struct cli_option *option;

	fprintf(to, "\t\t\"%s\") words=\"", verb->name);
	for (size_t i = 0; (option = cli_option_at(verb, i)); i++)
		if (option->help)
			fprintf(to, "%s ", option->name);
	fputs("\" ;;\n", to);
}

void cli_print_completion(FILE *to)
{
	fputs("# bash completion for portcullis\n_portcullis() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} at=$COMP_CWORD words=\n"
	      "\tcase $verb in\n",
	      to);
	print_second_words(to);
	fputs("\tesac\n\t[ \"$at\" = 1 ] && words=\"", to);
	print_first_words(to);
	fputs("\"\n\tif [ \"$at\" -gt 2 ] || [ -z \"$words\" ]; then\n"
	      "\t\t[ -n \"$words\" ] && verb=\"$verb ${COMP_WORDS[2]}\"\n\t\twords=\n\t\tcase $verb in\n",
	      to);
	for (size_t i = 0; i < cli_n_verbs; i++)
		print_options_of(&cli_verbs[i], to);
	fputs("\t\tesac\n\t\t[ \"${word:0:1}\" = - ] || words=\n\tfi\n"
	      "\tif [ -n \"$words\" ]; then\n\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- "
	      "\"$word\")\n"
	      "\telse\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n\tfi\n}\n"
	      "complete -o filenames -F _portcullis portcullis\n",
	      to);
}
