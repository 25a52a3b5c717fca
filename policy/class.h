/*
 * The object classes and permissions that the monitor enforces (design: 6).
 *
 * Numbers here are ours alone: the security server translates names, so a
 * policy may number its classes and permissions as it likes, and one that
 * lacks a name of ours simply never grants it (unless it says
 * (handleunknown allow), which grants what it does not know to all).
 * Immutable tables; any thread.
 */
#ifndef PORTCULLIS_POLICY_CLASS_H
#define PORTCULLIS_POLICY_CLASS_H

#include <stddef.h>
#include <stdint.h>

enum policy_class {
	CLASS_CHANNEL,
	CLASS_DOMAIN,
	CLASS_GUEST,
	CLASS_MONITOR,
	N_CLASSES
};

enum channel_permission {
	CHANNEL_CONNECT = 1u << 0,
	CHANNEL_ACCEPT = 1u << 1,
	CHANNEL_SEND = 1u << 2,
	CHANNEL_RECV = 1u << 3,
	CHANNEL_FLOWCTL = 1u << 4,
	CHANNEL_SPECIFY_CLIENT = 1u << 5,
	CHANNEL_CUT = 1u << 6,
};

enum domain_permission {
	DOMAIN_START = 1u << 0,
	DOMAIN_STOP = 1u << 1,
	DOMAIN_GETATTR = 1u << 2,
	DOMAIN_RELABELFROM = 1u << 3,
	DOMAIN_RELABELTO = 1u << 4,
	DOMAIN_QUARANTINE = 1u << 5,
	DOMAIN_RELEASE = 1u << 6,
	DOMAIN_CONSOLE = 1u << 7,
};

enum guest_permission {
	GUEST_DEFINE = 1u << 0,
	GUEST_START = 1u << 1,
	GUEST_STOP = 1u << 2,
	GUEST_SUSPEND = 1u << 3,
	GUEST_RESUME = 1u << 4,
	GUEST_GETATTR = 1u << 5,
};

enum monitor_permission {
	MONITOR_LOAD_POLICY = 1u << 0,
	MONITOR_SETENFORCE = 1u << 1,
	MONITOR_SETBOOL = 1u << 2,
	MONITOR_OVERLAY = 1u << 3,
	MONITOR_COMPUTE = 1u << 4,
	MONITOR_READ_AUDIT = 1u << 5,
	MONITOR_GETATTR = 1u << 6,
	MONITOR_SHUTDOWN = 1u << 7,
};

/* "channel", ...; NULL for a number that is no class. */
const char *class_name(enum policy_class tclass);

/* The name of one permission bit; NULL if the class has no such bit. */
const char *class_permission_name(enum policy_class tclass, uint32_t bit);

/* The class of that name, or -1. */
int class_find(const char *name);

/* The bit of that name in the class, or 0. */
uint32_t class_permission_find(enum policy_class tclass, const char *name);

/* All bits that the class has. */
uint32_t class_all_permissions(enum policy_class tclass);

/*
 * Writes "{ send recv }" for the bits of av, in the order of their numbers,
 * always terminated. Returns the length, like snprintf.
 */
int class_format(enum policy_class tclass, uint32_t av, char *text, size_t text_bytes);

#endif
