/*
 * The audit trail and the log: a bounded queue and one writer thread (I9).
 *
 * Any thread puts lines in without ever blocking on a disk, a pipe or a
 * terminal; a line that finds the queue full is counted, and the count is
 * written as a line of its own as soon as there is room. Lines have a serial
 * number; the last ones are kept in memory for `portcullis audit`.
 *
 * AVC lines are in the form that audit2allow, ausearch and aureport read:
 * type=AVC msg=audit(SECONDS.MS:SERIAL): avc:  denied  { send } for  guest="g"
 * domain="web" channel=7 scontext=... tcontext=... tclass=channel permissive=0
 * Notices have other types and no `avc:` token (R16).
 */
#ifndef PORTCULLIS_MONITOR_AUDIT_H
#define PORTCULLIS_MONITOR_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/class.h"

struct audit;

/* Hears a domain's log line, cleaned; domain NULL: the guest's own. On the thread that logs: must not block.
 */
typedef void audit_listener_fn(void *opaque, const char *guest, const char *domain, const char *text);

struct audit_options {
	int file_fd;               /* audit lines; -1: memory only; taken */
	int log_fd;                /* domains' log lines and notices for people; -1: none; not taken */
	audit_listener_fn *on_log; /* also without log_fd; NULL: nobody */
	void *on_log_opaque;
};

/* -errno; starts the writer. */
int audit_start(const struct audit_options *options, struct audit **audit);

/* Writes what is queued (1 s at most), ends the writer, frees. NULL is allowed. */
void audit_stop(struct audit *audit);

struct audit_avc {
	bool granted; /* false: denied */
	enum policy_class tclass;
	uint32_t permissions;
	const char *guest;  /* NULL: left out */
	const char *domain; /* NULL: left out */
	uint64_t channel;   /* 0: left out */
	const char *source_context;
	const char *target_context;
	bool permissive;
	const char *reason; /* NULL: left out; else reason="..." */
};

void audit_avc(struct audit *audit, const struct audit_avc *avc);

/* A connect that was refused for a reason that is no rule of the policy. */
struct audit_refusal {
	const char *guest;
	const char *domain;
	const char *service; /* as the domain wrote it */
	const char *reason;
};

/*
 * type=PORTCULLIS_DENIED msg=audit(...): guest="G" domain="D" service="S" reason="...".
 * Throttled together with the domain's AVC lines (H12).
 */
void audit_denied(struct audit *audit, const struct audit_refusal *refusal);

/*
 * A notice: type=TYPE msg=audit(...): TEXT. Types: PORTCULLIS_START, _STOP,
 * _POLICY (a change came into force), _REFUSED (a change was not made), _CUT (one flow),
 * _CRASH, _KILL, _CONTROL. text is printf-formatted;
 * control characters are neutralised; must hold no "avc:".
 */
void audit_notice(struct audit *audit, const char *type, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* The same, brought about by this domain, or by whoever uses that port: held back when there are too many, as
 * denials are. */
void audit_notice_of(struct audit *audit, const char *guest, const char *domain, const char *type,
                     const char *format, ...) __attribute__((format(printf, 5, 6)));

/* "guest/domain: text" to log_fd (domain NULL: "guest: text"); n_lost > 0 is said first. */
void audit_log(struct audit *audit, const char *guest, const char *domain, const char *text, uint64_t n_lost);

/* Lines that were dropped because the queue was full. */
uint64_t audit_lost(const struct audit *audit);

/*
 * Calls line(opaque, text) for at most `most` of the newest audit lines with a
 * serial above `after`, oldest first. Returns the newest serial.
 */
uint64_t audit_recent(struct audit *audit, uint64_t after, size_t most,
                      void (*line)(void *opaque, const char *text), void *opaque);

#endif
