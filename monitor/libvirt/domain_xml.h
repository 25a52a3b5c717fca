/*
 * Guests and host as libvirt's XML. Loop thread only.
 */
#ifndef PORTCULLIS_MONITOR_LIBVIRT_DOMAIN_XML_H
#define PORTCULLIS_MONITOR_LIBVIRT_DOMAIN_XML_H

#include "monitor/libvirt/notes.h"
#include "monitor/libvirt/text.h"
#include "monitor/lifecycle.h"

/* Of our element in <metadata>. */
#define GUEST_NAMESPACE "urn:portcullis:guest"

/* note may be NULL. inactive: as it would be written to define it. The text is bad if memory is short. */
void domain_xml_put(struct text *text, struct monitor *monitor, const struct definition *definition,
                    const struct note *note, bool inactive);
/* <portcullis:guest> alone. */
void domain_xml_guest(struct text *text, struct monitor *monitor, const struct definition *definition);
void domain_xml_capabilities(struct text *text);

/* Processors that this process may use; memory of the host. */
int32_t domain_xml_n_cpus(void);
uint64_t domain_xml_host_kib(void);

/* Of its run, or what it will have. */
uint32_t definition_vcpus(const struct definition *definition);
uint64_t definition_memory_kib(const struct definition *definition);
uint32_t definition_domains(const struct definition *definition);
const char *definition_domain_name(const struct definition *definition, uint32_t domain);
/* As it is now: a domain may have been relabelled. */
const char *definition_context(struct monitor *monitor, const struct definition *definition, uint32_t domain);

#endif
