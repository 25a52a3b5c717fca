/*
 * What clients ask of the connection and of the host.
 */
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "monitor/libvirt/domain_xml.h"
#include "monitor/libvirt/server.h"
#include "monitor/libvirt/version.h"

/* ---- the connection ---- */

void run_auth_list(struct rpc_call *call)
{
	struct xdr_writer *out = call_reply(call);

	xdr_put_u32(out, 1);
	xdr_put_i32(out, 0); /* none: the kernel has said who it is */
	call_end(call);
}

void run_supports_feature(struct rpc_call *call)
{
	uint32_t feature = call->arguments.number[0];
	struct xdr_writer *out = call_reply(call);

	xdr_put_i32(out, feature == FEATURE_KEEPALIVE || feature == FEATURE_EVENT_CALLBACK ||
	                         feature == FEATURE_CLOSE_CALLBACK);
	call_end(call);
}

/* portcullis:///system in each of its forms; what leads here has been said by the socket. */
static bool is_ours(struct xdr_text uri)
{
	static const char scheme[] = "portcullis";
	size_t n = sizeof(scheme) - 1;

	return !uri.bytes || uri.n == 0 ||
	       (uri.n > n && memcmp(uri.bytes, scheme, n) == 0 &&
	        (uri.bytes[n] == ':' || uri.bytes[n] == '+'));
}

void run_open(struct rpc_call *call)
{
	struct rpc_client *client = call->client;

	if (client->opened) {
		call_fail(call, VIR_ERR_OPERATION_INVALID, "the connection is open already");
		return;
	}
	if (!is_ours(call->arguments.text[0])) {
		call_fail(call, VIR_ERR_NO_CONNECT, "this is Portcullis: the URI is portcullis:///system");
		return;
	}
	client->opened = true;
	client->read_only = client->read_only || call->arguments.number[0] & VIR_CONNECT_RO;
	loop_disarm(call->monitor->loop, &client->patience);
	call_done(call);
}

void run_close(struct rpc_call *call)
{
	call->client->closing = true;
	call_done(call);
}

void run_nothing(struct rpc_call *call)
{
	call_done(call);
}

static void reply_text(struct rpc_call *call, const char *text)
{
	xdr_put_text(call_reply(call), text);
	call_end(call);
}

void run_get_type(struct rpc_call *call)
{
	reply_text(call, "Portcullis");
}

void run_get_uri(struct rpc_call *call)
{
	reply_text(call, "portcullis:///system");
}

/* Nobody on the way reads it: it does not leave this kernel. */
void run_is_secure(struct rpc_call *call)
{
	xdr_put_i32(call_reply(call), 1);
	call_end(call);
}

/* ---- the host ---- */

void run_get_version(struct rpc_call *call)
{
	/* Of libvirt: the one whose numbers we were built with. Of us: ours. */
	xdr_put_u64(call_reply(call), call->entry->number == PROC_GET_LIB_VERSION
	                                      ? LIBVIR_VERSION_NUMBER
	                                      : PORTCULLIS_VERSION_NUMBER);
	call_end(call);
}

void run_get_hostname(struct rpc_call *call)
{
	struct utsname host;

	reply_text(call, uname(&host) == 0 ? host.nodename : "localhost");
}

void run_get_max_vcpus(struct rpc_call *call)
{
	xdr_put_i32(call_reply(call), MAX_VCPUS);
	call_end(call);
}

/* The processors that this process may use: that is what guests are spread over. */
void run_node_info(struct rpc_call *call)
{
	int32_t n = domain_xml_n_cpus();
	struct xdr_writer *out = call_reply(call);

	xdr_put_chars(out, "x86_64", 32);
	xdr_put_u64(out, domain_xml_host_kib());
	xdr_put_i32(out, n);
	xdr_put_i32(out, 0); /* MHz: not known without opening files */
	xdr_put_i32(out, 1); /* NUMA nodes, sockets, cores, threads: as one socket of n cores */
	xdr_put_i32(out, 1);
	xdr_put_i32(out, n);
	xdr_put_i32(out, 1);
	call_end(call);
}

void run_cpu_map(struct rpc_call *call)
{
	uint32_t n = (uint32_t)domain_xml_n_cpus(), bytes = (n + 7) / 8;
	bool wants_map = call->arguments.number[0], wants_count = call->arguments.number[1];
	uint8_t map[CPU_SETSIZE / 8] = {0};
	struct xdr_writer *out = call_reply(call);

	for (uint32_t cpu = 0; cpu < n; cpu++)
		map[cpu / 8] |= (uint8_t)(1u << cpu % 8);
	xdr_put_bytes(out, map, wants_map ? bytes : 0);
	xdr_put_u32(out, wants_count ? n : 0);
	xdr_put_i32(out, (int32_t)n);
	call_end(call);
}

void run_capabilities(struct rpc_call *call)
{
	struct text xml = {0};

	domain_xml_capabilities(&xml);
	if (xml.bad)
		call_fail(call, VIR_ERR_NO_MEMORY, "out of memory");
	else
		reply_text(call, xml.string);
	free(xml.string);
}

void run_security_model(struct rpc_call *call)
{
	struct xdr_writer *out = call_reply(call);

	xdr_put_char_list(out, SECURITY_MODEL);
	xdr_put_char_list(out, SECURITY_DOI);
	call_end(call);
}
