/*
 * What `virsh version` prints, and the words for our security model.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_VERSION_H
#define PORTCULLIS_MONITOR_LIBVIRT_VERSION_H

/* CLI_VERSION as libvirt counts: 1,000,000 * major + 1,000 * minor + release. */
#define PORTCULLIS_VERSION_NUMBER 1000u

/* Guests' labels are contexts of a SELinux policy, though not of the host's. */
#define SECURITY_MODEL "selinux"
#define SECURITY_DOI "0"

#endif
