/*
 * What the files of the libvirt front end share: the server, its clients, their calls.
 *
 * A client that is to go is *doomed*: its descriptor is closed at once, and it is freed by a timer of the
 * loop's, so no callback finds the ground gone under its feet. A call whose client has gone is an orphan,
 * freed by the answer that it waits for. Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_SERVER_H
#define PORTCULLIS_MONITOR_LIBVIRT_SERVER_H

#include <sys/types.h>

#include "monitor/control_socket.h"
#include "monitor/libvirt/arguments.h"
#include "monitor/libvirt/libvirt.h"
#include "monitor/libvirt/notes.h"
#include "monitor/lifecycle.h"
#include "monitor/loop.h"
#include "policy/class.h"
#include "policy/sid.h"

#define MAX_RPC_CLIENTS 256u
#define MAX_RPC_CLIENTS_PER_UID 64u    /* of one that is no operator */
#define RPC_KEPT_FOR_OPERATORS 32u     /* of MAX_RPC_CLIENTS */
#define MAX_RPC_CALLS 16u              /* of a client, without an answer: it is not read meanwhile */
#define MAX_RPC_QUEUE_BYTES (2u << 20) /* to a client that does not read: it is dropped beyond */
#define RPC_PAUSE_QUEUE_BYTES                                                                                \
	(256u << 10)                   /* beyond it no more calls are read, and console lines are lost       \
	                                */
#define MAX_RPC_HELD_BYTES (64u << 20) /* for all clients together */
#define MAX_RPC_SUBSCRIPTIONS 64u      /* of a client */
#define MAX_RPC_CONSOLES 16u           /* of a client */

struct rpc_client;
struct rpc_call;
struct peers;
struct define_job;
struct workers;

/* What the policy is asked. */
struct rpc_permission {
	enum policy_class tclass;
	uint32_t permission; /* 0: nothing */
};

#define RPC_MAX_PERMISSIONS 2

/* One procedure: its form, what it needs, what it does. */
struct rpc_procedure_entry {
	enum rpc_procedure number;
	const char *form;
	struct rpc_permission needs[RPC_MAX_PERMISSIONS];
	unsigned flags;
	/* Ends in exactly one call_... that answers; at once, or from a callback. */
	void (*run)(struct rpc_call *call);
};

#define RPC_EARLY (1u << 0)  /* also before OPEN */
#define RPC_WRITES (1u << 1) /* not for read-only connections */

/* NULL: not served. */
const struct rpc_procedure_entry *procedure_find(int32_t number);
/* Every entry, for tests: NULL behind the last. */
const struct rpc_procedure_entry *procedure_at(size_t i);

struct rpc_door {
	struct libvirt *server;
	struct control_socket socket;
	bool read_only;
};

struct libvirt {
	struct monitor *monitor;
	struct peers *peers;
	struct rpc_door doors[2];
	struct rpc_client *first;
	uint32_t n_clients;
	size_t held_bytes; /* of all clients, in and out */
	int32_t last_callback;
	struct loop_timer sweep, accept_again;
	uint64_t last_notice_ns;
	struct lifecycle_listener listener;
	struct notes *notes;
	int images_fd; /* -1: none */
	struct tap *tap;
	struct workers *workers; /* they read files */
	struct define_job *job;  /* a definition that is being read; NULL: none */
};

/* Who wants to hear of what; events.c. */
struct subscription {
	struct subscription *next;
	int32_t callback;
	int32_t event;
	bool of_one;
	uint8_t uuid[RPC_UUID_BYTES];
};

/* A message on its way to those who may see it, in order; events.c. */
struct delivery {
	struct delivery *next;
	struct rpc_client *client; /* NULL: it has gone */
	int32_t callback;
	bool answered, allowed;
	struct xdr_writer frame;
};

struct console; /* console.c */

struct rpc_client {
	struct libvirt *server;
	struct rpc_client *next;
	int fd; /* -1: doomed */
	uid_t uid;
	policy_sid sid; /* SID_NONE: the operator */
	bool read_only, opened, closing;
	struct loop_timer patience; /* until it has opened */

	/* In: one frame at a time. */
	uint8_t head[RPC_HEADER_BYTES];
	struct rpc_header header;
	uint8_t *frame; /* its payload */
	size_t n_read;

	/* Out. */
	struct xdr_writer out;
	size_t n_sent;
	size_t held_bytes;

	struct rpc_call *calls;
	uint32_t n_calls;
	size_t call_bytes; /* arguments of calls without an answer */
	struct subscription *subscriptions;
	struct delivery *deliveries; /* oldest first */
	struct console *consoles;
};

struct rpc_call {
	struct libvirt *server; /* NULL once it is an orphan */
	struct monitor *monitor;
	struct rpc_client *client; /* NULL: orphan */
	struct rpc_call *next;
	const struct rpc_procedure_entry *entry;
	struct rpc_header header;
	policy_sid subject;
	unsigned n_granted; /* permissions */
	uint8_t *payload;   /* the arguments' texts point into it */
	size_t payload_bytes;
	struct rpc_arguments arguments;
	size_t reply_at;
	bool starting; /* lifecycle_forget has to be told when the client goes */
	void *scratch; /* of the procedure; freed with the call */
};

/* ---- client.c ---- */

void client_admit(struct rpc_door *door, int fd, uid_t uid, policy_sid sid);
void client_doom(struct rpc_client *client);
/* Sends what it takes, sets what is waited for; dooms it if it takes too long. After every change of out or
 * n_calls. */
void client_update(struct rpc_client *client);
/* Bytes that it has not read yet. */
size_t client_backlog(const struct rpc_client *client);
policy_sid client_subject(const struct rpc_client *client);
/* Frees the doomed. */
void server_sweep(void *opaque);

/* ---- call.c ---- */

/* A whole frame has come; payload is taken. */
void call_received(struct rpc_client *client, const struct rpc_header *header, uint8_t *payload,
                   size_t bytes);
/* Its client goes. */
void call_abandon(struct rpc_call *call);
/* True if nobody waits for the answer; the call is then gone. Call it first in every callback. */
bool call_orphaned(struct rpc_call *call);

/* Answers: begin, put results, end. */
struct xdr_writer *call_reply(struct rpc_call *call);
void call_end(struct rpc_call *call);
void call_done(struct rpc_call *call); /* without results */
/* code VIR_ERR_... */
void call_fail(struct rpc_call *call, int32_t code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void call_fail_access(struct rpc_call *call, int32_t code, const char *text);
/* From the numbers of lifecycle.h. */
void call_fail_lifecycle(struct rpc_call *call, int error, const char *why);

/* Starts the guest and answers when it runs, or does not. */
void call_start(struct rpc_call *call, struct definition *definition, uint32_t flags);

/* The guest that the call names; NULL: it has failed. */
struct definition *call_definition(struct rpc_call *call);
struct definition *definition_of(struct monitor *monitor, const uint8_t *uuid);
struct rpc_domain domain_of(const struct definition *definition);

/* ---- events.c, console.c, define.c ---- */

void events_heard(void *opaque, const struct definition *definition, enum lifecycle_event event,
                  enum lifecycle_reason reason);
/* A guest was rebooted: not among the events of lifecycle.h. */
void events_rebooted(struct libvirt *server, const struct definition *definition);
void events_forget(struct rpc_client *client);
int consoles_open(struct libvirt *server);
void consoles_close(struct libvirt *server);
void consoles_forget(struct rpc_client *client);
/* Lines that waited for a client to read. */
void consoles_send(struct libvirt *server);
/* A packet of a stream that the client sent. */
void console_packet(struct rpc_client *client, const struct rpc_header *header);
/* The run of that guest has ended: so do its consoles. */
void consoles_ended(struct libvirt *server, const struct definition *definition);
void define_close(struct libvirt *server);

/* ---- what procedures do, each in the file of its group ---- */

void run_auth_list(struct rpc_call *call);
void run_supports_feature(struct rpc_call *call);
void run_open(struct rpc_call *call);
void run_close(struct rpc_call *call);
void run_nothing(struct rpc_call *call);
void run_get_type(struct rpc_call *call);
void run_get_version(struct rpc_call *call);
void run_get_uri(struct rpc_call *call);
void run_is_secure(struct rpc_call *call);
void run_get_hostname(struct rpc_call *call);
void run_get_max_vcpus(struct rpc_call *call);
void run_node_info(struct rpc_call *call);
void run_cpu_map(struct rpc_call *call);
void run_capabilities(struct rpc_call *call);
void run_security_model(struct rpc_call *call);

void run_list_all(struct rpc_call *call);
void run_list_ids(struct rpc_call *call);
void run_list_defined(struct rpc_call *call);
void run_count_active(struct rpc_call *call);
void run_count_defined(struct rpc_call *call);
void run_lookup_id(struct rpc_call *call);
void run_lookup_name(struct rpc_call *call);
void run_lookup_uuid(struct rpc_call *call);

void run_info(struct rpc_call *call);
void run_state(struct rpc_call *call);
void run_control_info(struct rpc_call *call);
void run_xml(struct rpc_call *call);
void run_os_type(struct rpc_call *call);
void run_max_memory(struct rpc_call *call);
void run_max_vcpus(struct rpc_call *call);
void run_vcpus_flags(struct rpc_call *call);
void run_vcpus(struct rpc_call *call);
void run_zero(struct rpc_call *call); /* autostart, managed save, updated: there is none */
void run_is_active(struct rpc_call *call);
void run_is_persistent(struct rpc_call *call);
void run_security_label(struct rpc_call *call);
void run_security_label_list(struct rpc_call *call);
void run_messages(struct rpc_call *call);
void run_memory_stats(struct rpc_call *call);
void run_stats(struct rpc_call *call);

void run_suspend(struct rpc_call *call);
void run_resume(struct rpc_call *call);
void run_shutdown(struct rpc_call *call);
void run_destroy(struct rpc_call *call);
void run_create(struct rpc_call *call);
void run_create_flags(struct rpc_call *call);
void run_reboot(struct rpc_call *call);
void run_define_xml(struct rpc_call *call);
void run_create_xml(struct rpc_call *call);
void run_undefine(struct rpc_call *call);
void run_get_metadata(struct rpc_call *call);
void run_set_metadata(struct rpc_call *call);

void run_event_register(struct rpc_call *call);
void run_event_deregister(struct rpc_call *call);
void run_console(struct rpc_call *call);

#endif
