/*
 * The security server's process: libsepol behind a socket (design: 6, F1).
 *
 * One process serves exactly one policy, single-threaded, without privileges:
 * resource limits, no new privileges, an empty capability set, a seccomp
 * filter that leaves memory and its socket. A policy that crashes, hangs or
 * exhausts it is a failed push and nothing more.
 */
#ifndef PORTCULLIS_POLICY_SECURITY_SERVER_H
#define PORTCULLIS_POLICY_SECURITY_SERVER_H

#define SECURITY_SERVER_ARGV0 "portcullis-security-server"
#define SECURITY_SERVER_FD 3

/* Serves the socket until its peer closes. Returns the process's exit status. */
int security_server_main(int socket_fd);

#endif
