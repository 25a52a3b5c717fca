/*
 * Lets a test program be its own security server.
 *
 * The launcher executes /proc/self/exe, which in a test is the test program:
 * under the security server's name it must become one before Criterion starts.
 */
#include <string.h>
#include <unistd.h>

#include "policy/security_server.h"

__attribute__((constructor)) static void become_security_server(int argc, char **argv)
{
	if (argc == 1 && strcmp(argv[0], SECURITY_SERVER_ARGV0) == 0)
		_exit(security_server_main(SECURITY_SERVER_FD));
}
