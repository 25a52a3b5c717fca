/*
 * The launcher: a small process, forked before the monitor opens anything,
 * that starts security servers by exec (design: 6).
 *
 * So no server inherits a descriptor or memory of the monitor. Loop thread
 * only.
 */
#ifndef PORTCULLIS_POLICY_LAUNCHER_H
#define PORTCULLIS_POLICY_LAUNCHER_H

#include "guest/abi/limits.h"

struct launcher;

/*
 * Forks the launcher. Call it first in main, single-threaded, before any
 * descriptor beyond 0-2 is opened. It ends by itself when the monitor dies.
 */
int launcher_start(struct launcher **launcher, char why[static WHY_BYTES]);

/*
 * Starts one security server: /proc/self/exe with argv
 * {"portcullis-security-server"}, its socket as descriptor 3, standard error
 * kept, all else closed; main must hand this argv[0] to security_server_main
 * (security_server.h) before anything else.
 * Gives the monitor's end of a SOCK_SEQPACKET pair and a pidfd; both
 * close-on-exec. Blocks until the launcher answers, 2 s at most
 * (-ETIMEDOUT); -errno of fork or exec otherwise.
 */
int launcher_spawn(struct launcher *launcher, int *socket_fd, int *pidfd, char why[static WHY_BYTES]);

/* Ends the launcher and reaps it. NULL is allowed. */
void launcher_stop(struct launcher *launcher);

#endif
