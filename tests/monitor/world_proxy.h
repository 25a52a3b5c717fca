/*
 * Between the monitor and its security servers: a proxy that counts packets and
 * does harm at a chosen one. It stands in for the launcher's answer (the suite is
 * linked with --wrap=launcher_spawn), so the product knows nothing of it.
 *
 * Unarmed, servers are handed over as they are.
 */
#ifndef PORTCULLIS_TESTS_MONITOR_WORLD_PROXY_H
#define PORTCULLIS_TESTS_MONITOR_WORLD_PROXY_H

#include <stdbool.h>

enum proxy_harm {
	PROXY_NONE,     /* passes everything on, and counts */
	PROXY_KILL,     /* the server is killed instead of hearing question n */
	PROXY_STOP,     /* the server is stopped before question n, which it never answers */
	PROXY_GARBAGE,  /* answer n is random bytes */
	PROXY_TRUNCATE, /* answer n is cut short */
	PROXY_REPEAT,   /* answer n comes twice */
	PROXY_CLOSE,    /* the connection ends instead of answer n */
	PROXY_HOLD,     /* answer n comes only after proxy_let_go */
	PROXY_NO_SPAWN, /* the server cannot be started at all; n is not looked at */
};

#define N_PROXY_HARMS (PROXY_NO_SPAWN + 1)

/* For the next server that is started, and only that one. n counts from 1. */
void proxy_arm(enum proxy_harm harm, unsigned n);
/* The same at the first answer for which now() holds; it is called from a thread of the proxy's own. */
void proxy_arm_when(enum proxy_harm harm, bool (*now)(void));
void proxy_disarm(void);

/* Whether the harm was done (an answer is being held), and how many answers have been passed on. */
bool proxy_fired(void);
unsigned proxy_answers(void);
/* Waits until the harm of what was armed last is done; any thread. False: not within a minute. */
bool proxy_await_harm(void);
void proxy_let_go(void);

/* Servers that were started so far; SIGKILL or SIGSTOP to the latest. */
unsigned proxy_n_servers(void);
void proxy_signal_latest(int signal);

#endif
