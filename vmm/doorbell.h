/*
 * A doorbell: the kernel of one guest makes that of another look at its domains, with no
 * exit to user space.
 *
 *	ringing guest			host kernel			hearing guest
 *	out DOORBELL_PORT, number	ioeventfd -> eventfd ->
 *					irqfd -> MSI route `line`	VECTOR_DOORBELL + line, on vCPU 0
 *
 * Two halves, bound one by one: the guest that rings must not notice whether anybody hears
 * it. A number whose half is not bound is an exit (machine_handlers.rang). When an unbind
 * has returned, no ring raises an interrupt any more. One that the hearing guest has not taken
 * yet stays pending; what its kernel does then stands in struct doorbell_page, which the host
 * writes. A machine without vCPUs hears a ring in its machine_wake_fd, and rings by
 * machine_wake alone.
 *
 * The caller serialises calls on one doorbell; both machines live until it is closed (registry
 * lock). Source: Linux Documentation/virt/kvm/api.rst, 4.52 KVM_SET_GSI_ROUTING, 4.59
 * KVM_IOEVENTFD, 4.75 KVM_IRQFD.
 */
#ifndef PORTCULLIS_VMM_DOORBELL_H
#define PORTCULLIS_VMM_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/machine.h"

struct doorbell {
	struct machine *from, *to;
	uint32_t number; /* that from's kernel writes to the port */
	uint32_t line;   /* below MAX_GUESTS: which of to's vectors */
	int fd;          /* eventfd; -1: neither half is bound */
	bool rings, heard;
};

/* Nothing is bound, nothing can fail. */
void doorbell_init(struct doorbell *doorbell, struct machine *from, uint32_t number, struct machine *to,
                   uint32_t line);

/* Binds a half; nothing if it is bound. -errno: it is not, and a ring is an exit, or is not heard. */
int doorbell_bind_ring(struct doorbell *doorbell);
int doorbell_bind_line(struct doorbell *doorbell);

/* Nothing if it is not bound. */
void doorbell_unbind_ring(struct doorbell *doorbell);
void doorbell_unbind_line(struct doorbell *doorbell);

/* The page in which to's kernel looks whom a line is for; NULL once the machine is retired. */
struct doorbell_page *doorbell_page(struct machine *machine);

#endif
