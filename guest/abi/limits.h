/*
 * Every maximum of Portcullis, each with its unit and who enforces it.
 *
 * Compiled by the host, the guest kernel and domains. A number here is a
 * promise to users (a manifest beyond it is refused with a message) and a
 * bound that makes copies and loops safe: nothing outside may raise it.
 */
#ifndef PORTCULLIS_ABI_LIMITS_H
#define PORTCULLIS_ABI_LIMITS_H

#define ABI_PAGE_BYTES 4096u
#define ABI_HUGE_PAGE_BYTES 0x200000u

/* Per guest; enforced by monitor/manifest.c and again by vmm/layout.c. */
#define MAX_VCPUS 16u
#define MAX_DOMAINS 64u
#define MAX_SLOTS 65536u /* channel ends in one guest */
#define MAX_BULK_BYTES (1u << 20)
#define DEFAULT_BULK_BYTES (64u << 10)
#define DEFAULT_SLOTS 16u
#define MAX_HEAP_BYTES (256u << 20)
#define DEFAULT_HEAP_BYTES (1u << 20)
#define MAX_STACK_BYTES (8u << 20)
#define DEFAULT_STACK_BYTES (64u << 10)
#define MAX_DATA_BYTES (1u << 30)
#define MAX_IMAGE_BYTES (64u << 20)
#define MAX_RAM_BYTES (2ull << 30)
#define MAX_ARGUMENTS 32u
#define MAX_ARGUMENT_BYTES 2048u /* all arguments of a domain, with their NULs */
#define MAX_SERVICES 16u         /* offered by one domain */
#define MAX_BACKLOG 64u          /* connects that wait for accept, per service */

/* Per host; enforced by monitor/. */
#define MAX_GUESTS 64u
#define MAX_DEFINITIONS 256u /* guests that can be started; monitor/lifecycle.c */
#define MAX_MANIFEST_BYTES (1u << 20)
#define MAX_CONTROL_CLIENTS 64u
#define MAX_CONTROL_REQUEST_BYTES (64u << 10)
#define MAX_CONTROL_FILES 240u /* descriptors with one request; the kernel's most are 253 */
#define MAX_POLICY_FILES 32u
#define MAX_POLICY_BYTES (64u << 20) /* one source or binary policy */

/* Text, with the terminating NUL. */
#define MAX_NAME_BYTES 32u     /* guest, domain, service */
#define MAX_PATH_BYTES 64u     /* "guest/service", "guest/domain" */
#define MAX_CONTEXT_BYTES 160u /* a security context */
#define MAX_LOG_BYTES 1024u    /* one log call of a domain */

/* Classes of policy; a permission is a bit of 32. */
#define MAX_PERMISSIONS 32u

/* A buffer for one line that says why something failed; see policy/ and vmm/. */
#define WHY_BYTES 512u

#endif
