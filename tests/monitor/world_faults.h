/*
 * What a test makes go wrong around the monitor, by linking the suite with
 * --wrap: allocations and mappings that fail, handlers that do not return, a kernel
 * that is not ours. Each is off until it is armed, and nothing of it is in the product.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_WORLD_FAULTS_H
#define PORTCULLIS_TESTS_MONITOR_WORLD_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

/* The nth allocation of this thread from now on fails (n from 1), jansson's included. 0: none. */
void fault_allocation(uint64_t n);
/* Whether it has failed; disarms. */
bool fault_allocation_fired(void);

/* From now on every mapping that replaces another (MAP_FIXED) fails with ENOMEM, as at vm.max_map_count. */
void fault_mappings(bool fail);

/* From now on nothing that was written to an outbox can be given back. */
void fault_holes(bool fail);

/* The next INFO hypercall of a guest stays in its handler until fault_let_handler_go. */
void fault_hold_handler(void);
bool fault_handler_is_held(void);
void fault_let_handler_go(void);

/* Machines that are made from now on get this kernel; NULL: the built-in one. */
void fault_kernel(const char *path);

/*
 * The machine of the guest of this name, when it is built: meanwhile() is called by the thread that builds,
 * then it fails with FAULT_BUILD_TEXT, or goes on. Until fault_build(NULL, ...); the name must stay.
 */
#define FAULT_BUILD_TEXT "the test does not let it be built"
void fault_build(const char *guest, void (*meanwhile)(void), bool fail);

#endif
