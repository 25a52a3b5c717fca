/*
 * A world for the guest's tests: the real machine and the real kernel, and in the
 * place of a monitor one that allows everything. It opens channels with windows and
 * records as the ABI demands, and cuts and kills on request.
 *
 * The test's thread calls; the machine's handlers run on vCPU threads; one lock. Every
 * wait has a deadline of WORLD_DEADLINE_S seconds and fails the test with what is missing.
 */
#ifndef PORTCULLIS_TESTS_GUEST_WORLD_H
#define PORTCULLIS_TESTS_GUEST_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/machine.h"

#define WORLD_DEADLINE_S 30
#define WORLD_ARGUMENTS 8

struct world;

struct world_domain {
	const char *name;
	const char *program; /* "domains/echo", "tests/domains/probe": under build/, no ".elf" */
	const char *arguments[WORLD_ARGUMENTS]; /* ends with NULL */
	const char *service;                    /* that it offers; NULL: none */
	uint32_t vcpu;
	int data_fd; /* 0: none */
	uint64_t data_bytes;
};

/* How flows of new channels are opened. */
enum world_flows {
	WORLD_LOSSLESS, /* both ways, flowctl */
	WORLD_DIODE,    /* client to server alone, without flowctl */
};

/* True, and the test is to return, if it cannot run here: no /dev/kvm, and not CI. */
bool world_skipped(void);

/* What the machine is told of a domain; its image is mapped for good. */
void world_spec_fill(const struct world_domain *domain, struct domain_spec *spec);

struct world *world_start(const struct world_domain *domains, uint32_t n_domains, uint32_t n_vcpus,
                          enum world_flows flows);
void world_end(struct world *world);

struct machine *world_machine(struct world *world);

/* Waits for a log line of the domain that contains text, after those that earlier calls found. The line. */
const char *world_wait_log(struct world *world, uint32_t domain, const char *text);

/* Waits until it has exited: its status, or -1 if it faulted. */
int world_wait_exit(struct world *world, uint32_t domain);

/* Waits for its end for a moment (2 ms): has it ended? */
bool world_ended_soon(struct world *world, uint32_t domain);

/* Has it exited or faulted? */
bool world_has_ended(struct world *world, uint32_t domain);

/* Vector of the domain's fault, -1: none yet. */
int world_fault_vector(struct world *world, uint32_t domain);

/*
 * Cuts flows of n channels, counted from 0 as they were opened: record, sever, events, wake. No
 * request of a guest comes between two of them; an end that was closed before stays closed.
 */
void world_cut(struct world *world, uint32_t first, uint32_t n, bool client_to_server, bool server_to_client);

/* Waits until the n-th channel has been accepted. */
void world_wait_link(struct world *world, uint32_t channel);

/* Raises the domain's host_events and wakes its vCPU: a wake-up for nothing. */
void world_wake(struct world *world, uint32_t domain);

#endif
