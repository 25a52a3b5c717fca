#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "monitor/cli.h"
#include "monitor/libvirt/xml_reader.h"
#include "policy/launcher.h"
#include "policy/security_server.h"

/*
 * A closed standard descriptor would be the next one that is opened: a socket of the monitor's own, into
 * which then goes what is printed or what a port writes. In its place stands one that can be used for
 * nothing: standard input cannot be read, the others cannot be written, so whoever needs them is told. False:
 * that failed too.
 */
static bool hold_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			return false;
	return true;
}

int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], SECURITY_SERVER_ARGV0) == 0)
		return security_server_main(SECURITY_SERVER_FD);
	if (argc > 0 && strcmp(argv[0], XML_READER_ARGV0) == 0)
		return xml_reader_main(XML_READER_FD);
	if (!hold_standard_descriptors()) {
		fprintf(stderr,
		        "portcullis: /dev/null: %s; it stands in for standard descriptors that are closed\n",
		        strerror(errno));
		return CLI_FAILED;
	}
	return cli_main(argc, argv);
}
