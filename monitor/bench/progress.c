#include "monitor/bench/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "monitor/loop.h"

#define FIRST_NS 1000000000ull /* what is done by then needs no line */
#define AGAIN_NS 100000000ull

void progress_begin(struct progress *progress, uint64_t total)
{
	*progress = (struct progress){
		.total = total, .begun_ns = loop_now(), .terminal = isatty(STDERR_FILENO) == 1};
}

void progress_step(struct progress *progress, const char *format, ...)
{
	uint64_t now = loop_now();
	char text[100];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	progress->done++;
	if (!progress->terminal || now - progress->begun_ns < FIRST_NS || now - progress->shown_ns < AGAIN_NS)
		return;
	progress->shown_ns = now;
	progress->shown = true;
	fprintf(stderr, "\r\033[K%3u %%  %s",
	        (unsigned)(progress->total ? 100 * progress->done / progress->total : 0), text);
	fflush(stderr);
}

void progress_end(struct progress *progress)
{
	if (progress->shown)
		fputs("\r\033[K", stderr);
	progress->shown = false;
}
