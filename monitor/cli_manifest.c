#include "monitor/cli_manifest.h"

#include <string.h>

int cli_load_manifests(const struct cli_call *call, struct manifest *manifests[static CLI_MAX_GIVEN],
                       size_t *n_manifests, char why[static WHY_BYTES])
{
	const char *policies[CLI_MAX_GIVEN], *data[CLI_MAX_GIVEN];
	struct manifest_options options = {
		.n_policies = cli_values(call, "--policy", policies),
		.n_data = cli_values(call, "--data", data),
		.data = data,
		.program_dir = cli_value(call, "--programs"),
	};
	int error;

	*n_manifests = 0;
	options.policies = options.n_policies ? policies : NULL;
	for (size_t i = 0; i < options.n_data; i++)
		if (!strchr(data[i], '='))
			return cli_usage(call, "--data %s: expected DOMAIN=FILE", data[i]);
	if (!call->n_operands && !options.policies)
		return cli_usage(call, "of what? A manifest, or a policy alone: --policy FILE");
	if (call->n_operands)
		error = manifest_load_all(call->operands, call->n_operands, &options, manifests, why);
	else
		error = manifest_without_guest(&options, manifests, why);
	if (error < 0)
		return CLI_FAILED;
	*n_manifests = call->n_operands ? call->n_operands : 1;
	return CLI_DONE;
}
