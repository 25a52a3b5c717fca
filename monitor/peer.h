/*
 * Who a client of a socket is: the kernel's word for its uid, and the context that the manifest gives to
 * that.
 *
 * Without an entry only root and the uid that started the monitor are known, as the operator. For the control
 * socket and the libvirt sockets alike. Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_PEER_H
#define PORTCULLIS_MONITOR_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#include "guest/abi/limits.h"
#include "monitor/monitor.h"
#include "policy/sid.h"

struct peers;

/* -EINVAL: the policy does not know a client's context; -ENOMEM. A line in why. */
int peers_create(struct monitor *monitor, struct peers **peers, char why[static WHY_BYTES]);
void peers_destroy(struct peers *peers);

/* False: nobody that is known. SID_NONE: the operator, whose SID may change with the policy. */
bool peers_identify(const struct peers *peers, uid_t uid, policy_sid *sid);

/* Whether the manifest names any: then others than the operator may find the socket. */
bool peers_any(const struct peers *peers);

/* What a stranger is told. */
void peers_refuse(uid_t uid, char why[static WHY_BYTES]);

#endif
