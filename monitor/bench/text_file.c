#include "monitor/bench/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const char base_cil[]; /* terminated: base_cil.S */

static int text_fd(const char *name, const char *text, size_t bytes)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return -errno;
	if (write(fd, text, bytes) == (ssize_t)bytes &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK) == 0)
		return fd;
	close(fd);
	return -EIO;
}

void text_sources_close(struct policy_source sources[N_TEXT_SOURCES])
{
	for (int i = 0; i < N_TEXT_SOURCES; i++)
		if (sources[i].fd >= 0)
			close(sources[i].fd);
}

int text_sources_open(const char *policy, struct policy_source sources[N_TEXT_SOURCES])
{
	sources[0] = (struct policy_source){"base.cil", -1, strlen(base_cil)};
	sources[1] = (struct policy_source){"bench.cil", -1, strlen(policy)};
	sources[0].fd = text_fd(sources[0].name, base_cil, sources[0].bytes);
	sources[1].fd = text_fd(sources[1].name, policy, sources[1].bytes);
	if (sources[0].fd >= 0 && sources[1].fd >= 0)
		return 0;
	text_sources_close(sources);
	return -EIO;
}
