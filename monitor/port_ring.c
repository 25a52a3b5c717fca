/*
 * The domain library's rings, for ports: the host trusts no more of a peer's memory than a domain does, and
 * by the same code (guest/lib/ring.h).
 */
#include "guest/lib/ring.c" /* NOLINT(bugprone-suspicious-include): the guest's build of it is another object */
