#include "monitor/run_libvirt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "monitor/libvirt/libvirt.h"

/* The path of the sockets; NULL: there are none. *asked: it was said by the user. */
static const char *find_path(const struct cli_call *call, bool for_ever, bool *asked)
{
	const char *given = cli_value(call, "--libvirt-socket");

	*asked = given != NULL;
	if (given && strcmp(given, "none") == 0)
		return NULL;
	if (given)
		return strcmp(given, "system") == 0 ? LIBVIRT_SYSTEM_SOCKET : given;
	return for_ever && geteuid() == 0 && !cli_value(call, "--socket") ? LIBVIRT_SYSTEM_SOCKET : NULL;
}

int run_libvirt_open(const struct cli_call *call, struct monitor *monitor, struct tap *tap, bool for_ever)
{
	struct libvirt_options options = {.images = cli_value(call, "--images"), .tap = tap};
	char why[WHY_BYTES];
	bool asked;
	int error;

	options.path = find_path(call, for_ever, &asked);
	if (!options.path && options.images)
		return cli_usage(call, "--images is for guests that come through --libvirt-socket PATH");
	if (!options.path)
		return CLI_DONE;
	error = libvirt_open(monitor, &options, why);
	if (error == 0)
		return CLI_DONE;
	if (!asked && !options.images && (error == -EADDRINUSE || error == -EACCES || error == -EROFS)) {
		fprintf(stderr, "portcullis: no libvirt socket: %s\n", why);
		return CLI_DONE;
	}
	fprintf(stderr, "portcullis: %s%s\n", why,
	        error == -EADDRINUSE ? "; --libvirt-socket PATH gives this one another" : "");
	return CLI_FAILED;
}

int run_libvirt_images(const struct monitor *monitor)
{
	return monitor->libvirt ? libvirt_images(monitor) : -1;
}
