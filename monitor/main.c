#include <string.h>

#include "monitor/cli.h"
#include "monitor/libvirt/xml_reader.h"
#include "policy/launcher.h"
#include "policy/security_server.h"

int main(int argc, char **argv)
{
	if (argc > 0 && strcmp(argv[0], SECURITY_SERVER_ARGV0) == 0)
		return security_server_main(SECURITY_SERVER_FD);
	if (argc > 0 && strcmp(argv[0], XML_READER_ARGV0) == 0)
		return xml_reader_main(XML_READER_FD);
	return cli_main(argc, argv);
}
