#include "monitor/libvirt/domain_xml.h"

#include <sched.h>
#include <sys/sysinfo.h>

#include "monitor/guest.h"
#include "monitor/libvirt/state.h"
#include "monitor/libvirt/version.h"
#include "monitor/posture.h"
#include "vmm/machine.h"

#define KIB 1024u

/* ---- what a definition has ---- */

static const struct manifest_guest *spec_of(const struct definition *definition)
{
	return definition->spec;
}

uint32_t definition_vcpus(const struct definition *definition)
{
	return spec_of(definition)->n_vcpus;
}

/* What the domains need; the machine adds its kernel and tables, and rounds up. */
static uint64_t estimate_bytes(const struct manifest_guest *spec)
{
	uint64_t bytes = 0;

	for (uint32_t d = 0; d < spec->n_domains; d++)
		bytes += spec->domains[d].image_bytes + spec->domains[d].heap_bytes +
		         spec->domains[d].stack_bytes;
	return bytes;
}

uint64_t definition_memory_kib(const struct definition *definition)
{
	if (state_is_active(definition) && definition->guest)
		return machine_ram_bytes(definition->guest->machine) / KIB;
	return (estimate_bytes(spec_of(definition)) + KIB - 1) / KIB;
}

uint32_t definition_domains(const struct definition *definition)
{
	return spec_of(definition)->n_domains;
}

const char *definition_domain_name(const struct definition *definition, uint32_t domain)
{
	return spec_of(definition)->domains[domain].name;
}

const char *definition_context(struct monitor *monitor, const struct definition *definition, uint32_t domain)
{
	const char *context = NULL;

	if (state_is_active(definition) && definition->guest) {
		struct registry *registry = registry_lock(monitor);

		context = sid_context(monitor->posture->sids, definition->guest->domains[domain].sid);
		registry_unlock(registry);
	}
	return context ? context : spec_of(definition)->domains[domain].context;
}

/* ---- a guest ---- */

/* "  <tag>text</tag>" */
static void put_element(struct text *text, const char *tag, const char *content)
{
	if (!content)
		return;
	text_put(text, "  <%s>", tag);
	text_put_escaped(text, content);
	text_put(text, "</%s>\n", tag);
}

void domain_xml_guest(struct text *text, struct monitor *monitor, const struct definition *definition)
{
	const struct manifest_guest *spec = spec_of(definition);

	text_put(text, "    <portcullis:guest xmlns:portcullis='" GUEST_NAMESPACE "' manifest='");
	text_put_escaped(text, spec->path);
	text_put(text, "'>\n");
	for (uint32_t d = 0; d < spec->n_domains; d++) {
		text_put(text, "      <portcullis:domain name='");
		text_put_escaped(text, spec->domains[d].name);
		text_put(text, "' context='");
		text_put_escaped(text, definition_context(monitor, definition, d));
		text_put(text, "' vcpu='%u' slots='%u'/>\n", spec->domains[d].vcpu, spec->domains[d].n_slots);
	}
	text_put(text, "    </portcullis:guest>\n");
}

/* The element stands in its namespace by a default of its own, put behind its name. */
static void put_note_element(struct text *text, const struct note_element *element)
{
	text_put(text, "    %.*s xmlns='", (int)element->name_end, element->xml);
	text_put_escaped(text, element->uri);
	text_put(text, "'%s\n", element->xml + element->name_end);
}

static void put_metadata(struct text *text, struct monitor *monitor, const struct definition *definition,
                         const struct note *note)
{
	text_put(text, "  <metadata>\n");
	domain_xml_guest(text, monitor, definition);
	for (uint32_t i = 0; note && i < note->n_elements; i++)
		put_note_element(text, &note->elements[i]);
	text_put(text, "  </metadata>\n");
}

static void put_labels(struct text *text, struct monitor *monitor, const struct definition *definition)
{
	text_put(text, "  <seclabel type='static' model='" SECURITY_MODEL "' relabel='no'>\n    <label>");
	text_put_escaped(text, definition_context(monitor, definition, 0));
	text_put(text, "</label>\n  </seclabel>\n");
}

void domain_xml_put(struct text *text, struct monitor *monitor, const struct definition *definition,
                    const struct note *note, bool inactive)
{
	unsigned long long kib = definition_memory_kib(definition);
	char uuid[UUID_TEXT_BYTES];

	text_uuid(definition->uuid, uuid);
	if (state_is_active(definition) && !inactive)
		text_put(text, "<domain type='portcullis' id='%d'>\n", definition->id);
	else
		text_put(text, "<domain type='portcullis'>\n");
	put_element(text, "name", definition->name);
	put_element(text, "uuid", uuid);
	put_element(text, "title", note ? note->title : NULL);
	put_element(text, "description", note ? note->description : NULL);
	put_metadata(text, monitor, definition, note);
	text_put(text, "  <memory unit='KiB'>%llu</memory>\n", kib);
	text_put(text, "  <currentMemory unit='KiB'>%llu</currentMemory>\n", kib);
	text_put(text, "  <vcpu placement='static'>%u</vcpu>\n", definition_vcpus(definition));
	text_put(text, "  <os>\n    <type arch='x86_64'>portcullis</type>\n  </os>\n");
	text_put(text, "  <on_poweroff>destroy</on_poweroff>\n  <on_reboot>restart</on_reboot>\n"
	               "  <on_crash>preserve</on_crash>\n");
	text_put(text, "  <devices>\n    <console type='pty'>\n      <target type='virtio' port='0'/>\n"
	               "    </console>\n  </devices>\n");
	if (definition_domains(definition) > 0)
		put_labels(text, monitor, definition);
	text_put(text, "</domain>\n");
}

/* ---- the host ---- */

int32_t domain_xml_n_cpus(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) < 0 ? 1 : CPU_COUNT(&allowed);
}

uint64_t domain_xml_host_kib(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 ? 0 : (uint64_t)info.totalram * info.mem_unit / KIB;
}

void domain_xml_capabilities(struct text *text)
{
	text_put(text,
	         "<capabilities>\n"
	         "  <host>\n"
	         "    <cpu>\n      <arch>x86_64</arch>\n"
	         "      <topology sockets='1' dies='1' cores='%d' threads='1'/>\n    </cpu>\n"
	         "    <secmodel>\n      <model>" SECURITY_MODEL "</model>\n      <doi>" SECURITY_DOI
	         "</doi>\n    </secmodel>\n"
	         "  </host>\n"
	         "  <guest>\n    <os_type>portcullis</os_type>\n"
	         "    <arch name='x86_64'>\n      <wordsize>64</wordsize>\n"
	         "      <domain type='portcullis'/>\n    </arch>\n  </guest>\n"
	         "</capabilities>\n",
	         domain_xml_n_cpus());
}
