#include "monitor/uuid.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static bool is_dash(size_t i)
{
	return i == 8 || i == 13 || i == 18 || i == 23;
}

static int digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, tolower((unsigned char)c)) : NULL;

	return at ? (int)(at - digits) : -1;
}

bool uuid_parse(const char *text, uint8_t uuid[static UUID_BYTES])
{
	size_t n = 0;

	if (strlen(text) != UUID_TEXT_BYTES - 1)
		return false;
	for (size_t i = 0; text[i]; i++) {
		if (is_dash(i) && text[i] == '-')
			continue;
		int high = digit(text[i]), low = digit(text[i + 1]);

		if (is_dash(i) || high < 0 || low < 0)
			return false;
		uuid[n++] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
		i++;
	}
	return n == UUID_BYTES;
}

const char *uuid_format(const uint8_t uuid[static UUID_BYTES], char text[static UUID_TEXT_BYTES])
{
	size_t at = 0;

	for (size_t i = 0; i < UUID_BYTES; i++) {
		if (is_dash(at))
			text[at++] = '-';
		snprintf(text + at, 3, "%02x", uuid[i]);
		at += 2;
	}
	return text;
}

void uuid_derive(const char *host, const char *name, uint8_t uuid[static UUID_BYTES])
{
	XXH128_canonical_t canonical;
	char text[512];
	int n = snprintf(text, sizeof(text), "portcullis\n%s\n%s", host, name);

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(text, (size_t)n));
	memcpy(uuid, canonical.digest, UUID_BYTES);
	uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80); /* version 8: made as its maker likes */
	uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80); /* the variant of RFC 9562 */
}

void uuid_host(char host[static HOST_ID_BYTES])
{
	static const char *const places[] = {"/etc/machine-id", "/var/lib/dbus/machine-id"};

	host[0] = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !host[0]; i++) {
		FILE *file = fopen(places[i], "re");

		if (file && !fgets(host, HOST_ID_BYTES, file))
			host[0] = '\0';
		if (file)
			fclose(file);
		host[strcspn(host, "\n")] = '\0';
	}
	if (!host[0] && gethostname(host, HOST_ID_BYTES - 1) < 0)
		host[0] = '\0';
	host[HOST_ID_BYTES - 1] = '\0';
}
