/*
 * The launcher: a small process, forked before the monitor opens anything,
 * that starts security servers and readers of XML by exec (design: 6).
 *
 * So none of them inherits a descriptor or memory of the monitor. Loop thread
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

/*
 * Orders a security server ahead of the first launcher_spawn, which gets this one: so the process starts
 * while its user does other things. Does not wait; what fails is told by that launcher_spawn. A second call
 * before it does nothing. If none follows, the server ends with the launcher.
 */
void launcher_prepare(struct launcher *launcher);

/* The same as launcher_spawn for a process that reads one document of XML (monitor/libvirt/xml_reader.h). */
#define XML_READER_ARGV0 "portcullis-xml-reader"
int launcher_spawn_xml_reader(struct launcher *launcher, int *socket_fd, int *pidfd,
                              char why[static WHY_BYTES]);

/* Ends the launcher and reaps it. NULL is allowed. */
void launcher_stop(struct launcher *launcher);

#endif
