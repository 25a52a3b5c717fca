#include "monitor/port_check.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum port_finding find(enum port_finding finding, char *why, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static enum port_finding find(enum port_finding finding, char *why, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, WHY_BYTES, format, arguments);
	va_end(arguments);
	return finding;
}

static bool may(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

/* The folder of the path; false: it is longer than a path can be. */
static bool folder_of(const char *path, char folder[static PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t length = !slash ? 0 : slash == path ? 1 : (size_t)(slash - path);

	if (length >= PATH_MAX)
		return false;
	snprintf(folder, PATH_MAX, "%.*s", slash ? (int)length : 1, slash ? path : ".");
	return true;
}

/* rights: of access(2). */
static enum port_finding check_folder(const char *path, int rights, char *why)
{
	char folder[PATH_MAX];
	struct stat status;

	if (!folder_of(path, folder))
		return find(PORT_WRONG, why, "%.200s: %s", path, strerror(ENAMETOOLONG));
	if (stat(folder, &status))
		return find(PORT_WRONG, why, "%s: its folder %s: %s", path, folder, strerror(errno));
	if (!S_ISDIR(status.st_mode))
		return find(PORT_WRONG, why, "%s: %s is no folder", path, folder);
	if (!may(folder, rights))
		return find(PORT_WRONG, why, "%s: its folder %s: %s", path, folder, strerror(errno));
	return PORT_FINE;
}

/* Only a connection would tell whether somebody serves a socket that is there, and that is not ours to make.
 */
static enum port_finding check_listen(const char *path, char *why)
{
	enum port_finding finding = check_folder(path, W_OK | X_OK, why);
	struct stat status;

	if (finding != PORT_FINE || lstat(path, &status))
		return finding;
	if (!S_ISSOCK(status.st_mode))
		return find(PORT_WRONG, why, "%s: exists and is no socket", path);
	return find(PORT_LATER, why,
	            "%s: exists: run takes its place if nobody serves it any more, else it does not start",
	            path);
}

static enum port_finding check_connect(const char *path, char *why)
{
	enum port_finding finding = check_folder(path, X_OK, why);
	struct stat status;

	if (finding != PORT_FINE)
		return finding;
	if (stat(path, &status))
		return find(PORT_LATER, why, "%s: %s: connects fail until somebody serves it", path,
		            strerror(errno));
	if (!S_ISSOCK(status.st_mode))
		return find(PORT_LATER, why, "%s: is no socket: connects fail", path);
	if (!may(path, W_OK))
		return find(PORT_LATER, why, "%s: %s: connects fail", path, strerror(errno));
	return PORT_FINE;
}

static enum port_finding check_file(const struct manifest_port *port, char *why)
{
	const char *path = port->path;
	struct stat status;

	if (lstat(path, &status)) {
		if (errno == ENOENT && port->writes)
			return check_folder(path, W_OK | X_OK, why);
		return find(PORT_WRONG, why, "%s: %s", path, strerror(errno));
	}
	if (!S_ISREG(status.st_mode))
		return find(PORT_WRONG, why, "%s: is no regular file; a port of kind file needs one", path);
	if (!may(path, port->reads ? R_OK : W_OK))
		return find(PORT_WRONG, why, "%s: %s", path, strerror(errno));
	return PORT_FINE;
}

enum port_finding port_check(const struct manifest_port *port, char why[static WHY_BYTES])
{
	switch (port->kind) {
	case PORT_LISTEN:
		return check_listen(port->path, why);
	case PORT_CONNECT:
		return check_connect(port->path, why);
	case PORT_FILE:
		return check_file(port, why);
	case PORT_STDIO:
		break; /* whose standard streams run will have, nobody knows yet */
	}
	return PORT_FINE;
}
