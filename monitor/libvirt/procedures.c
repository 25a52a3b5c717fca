/*
 * The procedures of libvirt's protocol that are served: what each needs, and what it does.
 */
#include "monitor/libvirt/server.h"

#define NOTHING                                                                                              \
	{                                                                                                    \
		{                                                                                            \
			0                                                                                    \
		}                                                                                            \
	}
#define MONITOR_READ                                                                                         \
	{                                                                                                    \
		{                                                                                            \
			CLASS_MONITOR, MONITOR_GETATTR                                                       \
		}                                                                                            \
	}
#define GUEST_READ                                                                                           \
	{                                                                                                    \
		{                                                                                            \
			CLASS_GUEST, GUEST_GETATTR                                                           \
		}                                                                                            \
	}
#define GUEST_CAN(permission)                                                                                \
	{                                                                                                    \
		{                                                                                            \
			CLASS_GUEST, permission                                                              \
		}                                                                                            \
	}
#define GUEST_CAN_BOTH(one, other)                                                                           \
	{                                                                                                    \
		{CLASS_GUEST, one},                                                                          \
		{                                                                                            \
			CLASS_GUEST, other                                                                   \
		}                                                                                            \
	}

/* Forms are explained in arguments.h. */
static const struct rpc_procedure_entry entries[] = {
	{PROC_AUTH_LIST, "", NOTHING, RPC_EARLY, run_auth_list},
	{PROC_SUPPORTS_FEATURE, "i", NOTHING, RPC_EARLY, run_supports_feature},
	{PROC_OPEN, "oi", NOTHING, RPC_EARLY, run_open},
	{PROC_CLOSE, "", NOTHING, RPC_EARLY, run_close},
	{PROC_GET_TYPE, "", NOTHING, 0, run_get_type},
	{PROC_GET_URI, "", NOTHING, 0, run_get_uri},
	{PROC_IS_SECURE, "", NOTHING, 0, run_is_secure},
	{PROC_REGISTER_CLOSE_CALLBACK, "", NOTHING, 0, run_nothing},
	{PROC_UNREGISTER_CLOSE_CALLBACK, "", NOTHING, 0, run_nothing},

	{PROC_GET_VERSION, "", MONITOR_READ, 0, run_get_version},
	{PROC_GET_LIB_VERSION, "", MONITOR_READ, 0, run_get_version},
	{PROC_GET_HOSTNAME, "", MONITOR_READ, 0, run_get_hostname},
	{PROC_GET_MAX_VCPUS, "o", MONITOR_READ, 0, run_get_max_vcpus},
	{PROC_NODE_GET_INFO, "", MONITOR_READ, 0, run_node_info},
	{PROC_NODE_GET_CPU_MAP, "iii", MONITOR_READ, 0, run_cpu_map},
	{PROC_GET_CAPABILITIES, "", MONITOR_READ, 0, run_capabilities},
	{PROC_NODE_GET_SECURITY_MODEL, "", MONITOR_READ, 0, run_security_model},

	{PROC_LIST_ALL_DOMAINS, "ii", GUEST_READ, 0, run_list_all},
	{PROC_LIST_DOMAINS, "i", GUEST_READ, 0, run_list_ids},
	{PROC_LIST_DEFINED_DOMAINS, "i", GUEST_READ, 0, run_list_defined},
	{PROC_NUM_OF_DOMAINS, "", GUEST_READ, 0, run_count_active},
	{PROC_NUM_OF_DEFINED_DOMAINS, "", GUEST_READ, 0, run_count_defined},
	{PROC_DOMAIN_LOOKUP_BY_ID, "i", GUEST_READ, 0, run_lookup_id},
	{PROC_DOMAIN_LOOKUP_BY_NAME, "s", GUEST_READ, 0, run_lookup_name},
	{PROC_DOMAIN_LOOKUP_BY_UUID, "u", GUEST_READ, 0, run_lookup_uuid},

	{PROC_DOMAIN_GET_INFO, "d", GUEST_READ, 0, run_info},
	{PROC_DOMAIN_GET_STATE, "di", GUEST_READ, 0, run_state},
	{PROC_DOMAIN_GET_CONTROL_INFO, "di", GUEST_READ, 0, run_control_info},
	{PROC_DOMAIN_GET_XML_DESC, "di", GUEST_READ, 0, run_xml},
	{PROC_DOMAIN_GET_OS_TYPE, "d", GUEST_READ, 0, run_os_type},
	{PROC_DOMAIN_GET_MAX_MEMORY, "d", GUEST_READ, 0, run_max_memory},
	{PROC_DOMAIN_GET_MAX_VCPUS, "d", GUEST_READ, 0, run_max_vcpus},
	{PROC_DOMAIN_GET_VCPUS_FLAGS, "di", GUEST_READ, 0, run_vcpus_flags},
	{PROC_DOMAIN_GET_VCPUS, "dii", GUEST_READ, 0, run_vcpus},
	{PROC_DOMAIN_GET_AUTOSTART, "d", GUEST_READ, 0, run_zero},
	{PROC_DOMAIN_HAS_MANAGED_SAVE_IMAGE, "di", GUEST_READ, 0, run_zero},
	{PROC_DOMAIN_IS_UPDATED, "d", GUEST_READ, 0, run_zero},
	{PROC_DOMAIN_IS_ACTIVE, "d", GUEST_READ, 0, run_is_active},
	{PROC_DOMAIN_IS_PERSISTENT, "d", GUEST_READ, 0, run_is_persistent},
	{PROC_DOMAIN_GET_SECURITY_LABEL, "d", GUEST_READ, 0, run_security_label},
	{PROC_DOMAIN_GET_SECURITY_LABEL_LIST, "d", GUEST_READ, 0, run_security_label_list},
	{PROC_DOMAIN_GET_MESSAGES, "di", GUEST_READ, 0, run_messages},
	{PROC_DOMAIN_MEMORY_STATS, "dii", GUEST_READ, 0, run_memory_stats},
	{PROC_GET_ALL_DOMAIN_STATS, "lii", GUEST_READ, 0, run_stats},
	{PROC_DOMAIN_GET_METADATA, "dioi", GUEST_READ, 0, run_get_metadata},
	{PROC_EVENT_REGISTER_ANY, "iD", GUEST_READ, 0, run_event_register},
	{PROC_EVENT_DEREGISTER_ANY, "i", NOTHING, 0, run_event_deregister},

	{PROC_DOMAIN_SUSPEND, "d", GUEST_CAN(GUEST_SUSPEND), RPC_WRITES, run_suspend},
	{PROC_DOMAIN_RESUME, "d", GUEST_CAN(GUEST_RESUME), RPC_WRITES, run_resume},
	{PROC_DOMAIN_SHUTDOWN, "d", GUEST_CAN(GUEST_STOP), RPC_WRITES, run_shutdown},
	{PROC_DOMAIN_SHUTDOWN_FLAGS, "di", GUEST_CAN(GUEST_STOP), RPC_WRITES, run_shutdown},
	{PROC_DOMAIN_DESTROY, "d", GUEST_CAN(GUEST_STOP), RPC_WRITES, run_destroy},
	{PROC_DOMAIN_DESTROY_FLAGS, "di", GUEST_CAN(GUEST_STOP), RPC_WRITES, run_destroy},
	{PROC_DOMAIN_CREATE, "d", GUEST_CAN(GUEST_START), RPC_WRITES, run_create},
	{PROC_DOMAIN_CREATE_WITH_FLAGS, "di", GUEST_CAN(GUEST_START), RPC_WRITES, run_create_flags},
	{PROC_DOMAIN_REBOOT, "di", GUEST_CAN_BOTH(GUEST_STOP, GUEST_START), RPC_WRITES, run_reboot},
	{PROC_DOMAIN_DEFINE_XML, "s", GUEST_CAN(GUEST_DEFINE), RPC_WRITES, run_define_xml},
	{PROC_DOMAIN_DEFINE_XML_FLAGS, "si", GUEST_CAN(GUEST_DEFINE), RPC_WRITES, run_define_xml},
	{PROC_DOMAIN_CREATE_XML, "si", GUEST_CAN_BOTH(GUEST_DEFINE, GUEST_START), RPC_WRITES, run_create_xml},
	{PROC_DOMAIN_UNDEFINE, "d", GUEST_CAN(GUEST_DEFINE), RPC_WRITES, run_undefine},
	{PROC_DOMAIN_UNDEFINE_FLAGS, "di", GUEST_CAN(GUEST_DEFINE), RPC_WRITES, run_undefine},
	{PROC_DOMAIN_SET_METADATA, "dioooi", GUEST_CAN(GUEST_DEFINE), RPC_WRITES, run_set_metadata},
	/* It asks about each of the guest's domains itself. */
	{PROC_DOMAIN_OPEN_CONSOLE, "doi", NOTHING, RPC_WRITES, run_console},
};

const struct rpc_procedure_entry *procedure_at(size_t i)
{
	return i < sizeof(entries) / sizeof(entries[0]) ? &entries[i] : NULL;
}

const struct rpc_procedure_entry *procedure_find(int32_t number)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if ((int32_t)entries[i].number == number)
			return &entries[i];
	return NULL;
}
