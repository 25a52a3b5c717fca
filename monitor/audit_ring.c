#include "monitor/audit_ring.h"

#include <stdio.h>
#include <string.h>

_Static_assert(AUDIT_RING_BYTES >= 2 * AUDIT_BODY_BYTES, "a body fits, also where the ring wraps");

void audit_ring_init(struct audit_ring *ring, bool to_file)
{
	ring->head = 0;
	ring->newest = 0;
	ring->oldest = ring->next = 1;
	ring->to_file = to_file;
	ring->lost = 0;
}

static struct audit_entry *entry_at(struct audit_ring *ring, uint64_t serial)
{
	return &ring->entries[serial % AUDIT_RING_LINES];
}

static void drop_oldest(struct audit_ring *ring)
{
	if (ring->to_file && ring->oldest >= ring->next)
		ring->lost++;
	ring->oldest++;
}

void audit_ring_add(struct audit_ring *ring, const char *type, uint64_t unix_ns, const char *body,
                    size_t bytes)
{
	size_t offset = ring->head % AUDIT_RING_BYTES;
	struct audit_entry *entry;

	if (bytes >= AUDIT_BODY_BYTES)
		bytes = AUDIT_BODY_BYTES - 1;
	if (offset + bytes + 1 > AUDIT_RING_BYTES) /* a body does not wrap */
		ring->head += AUDIT_RING_BYTES - offset;
	while (ring->oldest <= ring->newest &&
	       (ring->newest + 1 - ring->oldest >= AUDIT_RING_LINES ||
	        ring->head + bytes + 1 - entry_at(ring, ring->oldest)->start > AUDIT_RING_BYTES))
		drop_oldest(ring);
	entry = entry_at(ring, ++ring->newest);
	snprintf(entry->type, sizeof(entry->type), "%s", type);
	entry->unix_ns = unix_ns;
	entry->start = ring->head;
	memcpy(ring->bytes + ring->head % AUDIT_RING_BYTES, body, bytes);
	ring->bytes[(ring->head + bytes) % AUDIT_RING_BYTES] = '\0';
	ring->head += bytes + 1;
}

size_t audit_ring_line(const struct audit_ring *ring, uint64_t serial, char text[static AUDIT_LINE_BYTES])
{
	const struct audit_entry *entry = &ring->entries[serial % AUDIT_RING_LINES];
	struct audit_line line = {
		.serial = serial,
		.unix_ns = entry->unix_ns,
		.type = entry->type,
		.body = ring->bytes + entry->start % AUDIT_RING_BYTES,
	};

	return audit_format_line(&line, text);
}

size_t audit_ring_gap(uint64_t serial, uint64_t unix_ns, uint64_t n, char text[static AUDIT_LINE_BYTES])
{
	char body[64];
	struct audit_line line = {serial, unix_ns, "PORTCULLIS_LOST", body};

	snprintf(body, sizeof(body), "lost=%llu reason=\"queue full\"", (unsigned long long)n);
	return audit_format_line(&line, text);
}

/* ---- log lines ---- */

static void log_append(struct audit_log_queue *queue, const char *text, size_t bytes)
{
	size_t offset = queue->head % AUDIT_LOG_BYTES;
	size_t first = bytes < AUDIT_LOG_BYTES - offset ? bytes : AUDIT_LOG_BYTES - offset;

	memcpy(queue->bytes + offset, text, first);
	memcpy(queue->bytes, text + first, bytes - first);
	queue->head += bytes;
}

bool audit_log_put(struct audit_log_queue *queue, const char *line, size_t bytes)
{
	char notice[80] = "";
	size_t notice_bytes = 0;

	if (queue->lost)
		notice_bytes = (size_t)snprintf(notice, sizeof(notice), "portcullis: %llu log lines lost\n",
		                                (unsigned long long)queue->lost);
	if (queue->head - queue->tail + notice_bytes + bytes > AUDIT_LOG_BYTES) {
		queue->lost++;
		return false;
	}
	log_append(queue, notice, notice_bytes);
	log_append(queue, line, bytes);
	queue->lost = 0;
	return true;
}

size_t audit_log_take(struct audit_log_queue *queue, char *out, size_t out_bytes)
{
	size_t n = queue->head - queue->tail < out_bytes ? (size_t)(queue->head - queue->tail) : out_bytes;

	for (size_t i = 0; i < n; i++)
		out[i] = queue->bytes[(queue->tail + i) % AUDIT_LOG_BYTES];
	while (n && out[n - 1] != '\n')
		n--;
	queue->tail += n;
	return n;
}
