/*
 * What stood in an inbox window and was taken away, on its way out.
 *
 * Taking pages out of a mapping is the larger part of a cut: the host looks at
 * every entry and every page. Moving the mapping moves whole page tables, 2 MiB
 * at a step, and is as final for the guest: KVM's notifier covers the range, and
 * no memslot leads to where it went. The pages are freed there, when guests run
 * again. While the range is empty a guest that touched it would fail, so this is
 * for readers whose vCPUs all stand.
 *
 * The caller serialises (registry lock), as for window.h.
 */
#ifndef PORTCULLIS_VMM_ASIDE_H
#define PORTCULLIS_VMM_ASIDE_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/machine.h"

/* Room for a whole inbox window, or none: then everything is taken away in place. */
void aside_create(struct machine *machine);
void aside_destroy(struct machine *machine);

/* True: the range of the inbox window is empty, and a tombstone must be mapped there. */
bool aside_move(struct machine *machine, uint8_t *start, uint64_t bytes);

/* Frees what was moved. Whether guests run or not; some microseconds for each slot. */
void aside_discard(struct machine *machine);

#endif
