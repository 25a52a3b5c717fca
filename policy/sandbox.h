/*
 * The walls around a security server.
 *
 * Two stages. Loading a policy needs to read the sources and to make the
 * image; answering needs nothing but memory and the socket. Entering a stage is
 * one-way. Single-threaded processes only: the filters cover the calling thread.
 */
#ifndef PORTCULLIS_POLICY_SANDBOX_H
#define PORTCULLIS_POLICY_SANDBOX_H

/* All resources of the process, fixed by the first stage. */
#define SANDBOX_MEMORY_BYTES (1ull << 30)
#define SANDBOX_LOAD_SECONDS 120u /* of processor time, while loading */

/*
 * Resource limits, no new privileges, no capabilities, and a filter: memory,
 * reading descriptors, making and sealing a memfd, the socket, writing to
 * standard error. Anything else kills the process. 0 or -errno.
 */
int sandbox_enter_load(int socket_fd);

/* Memory, the socket, and standard error. Lifts the limit on processor time. 0 or -errno. */
int sandbox_enter_serve(int socket_fd);

#endif
