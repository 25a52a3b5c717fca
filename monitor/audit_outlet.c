#include "monitor/audit_outlet.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

bool outlet_has_room(const struct outlet *outlet)
{
	return outlet->used + AUDIT_LINE_BYTES + 2 <= sizeof(outlet->bytes);
}

void outlet_put(struct outlet *outlet, const char *text, size_t bytes)
{
	if (outlet->broken)
		outlet->bytes[outlet->used++] = '\n';
	outlet->broken = false;
	memcpy(outlet->bytes + outlet->used, text, bytes);
	outlet->bytes[outlet->used + bytes] = '\n';
	outlet->used += bytes + 1;
}

void outlet_put_gap(struct outlet *outlet, const char *text, size_t bytes, uint64_t n)
{
	outlet_put(outlet, text, bytes);
	outlet->gap_bytes = outlet->used;
	outlet->gap = n;
}

int outlet_write(struct outlet *outlet)
{
	size_t left = outlet->used - outlet->done;
	ssize_t n = write(outlet->fd, outlet->bytes + outlet->done,
	                  left < OUTLET_WRITE_BYTES ? left : OUTLET_WRITE_BYTES);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	outlet->done += (size_t)n;
	if (outlet->done == outlet->used)
		outlet->done = outlet->used = outlet->gap_bytes = 0;
	return 0;
}

uint64_t outlet_discard(struct outlet *outlet, uint64_t *untold)
{
	bool gap_is_out = outlet->done >= outlet->gap_bytes;
	size_t from = gap_is_out ? outlet->done : outlet->gap_bytes;
	uint64_t n = 0;

	*untold = gap_is_out ? 0 : outlet->gap;
	if (outlet->done)
		outlet->broken = outlet->bytes[outlet->done - 1] != '\n';
	for (size_t i = from; i < outlet->used; i++)
		n += outlet->bytes[i] == '\n';
	outlet->done = outlet->used = outlet->gap_bytes = 0;
	return n;
}
