/*
 * selftest library | clock | quiet | assertion
 *
 * No attack: the library tried from inside, where it runs. library: memory, text, numbers, random
 * bytes, heap. clock: waits with time-outs and says how long they took. quiet: waits half a second for
 * nothing, and says how often it woke. assertion: fails one.
 */
#include "tests/hostile/domains/hostile.h"

static void test_memory(void)
{
	uint8_t a[64], b[64];

	for (int i = 0; i < 64; i++)
		a[i] = (uint8_t)i;
	DOMAIN_ASSERT(memcpy(b, a, 64) == b && memcmp(a, b, 64) == 0);
	memmove(b + 3, b, 50);
	DOMAIN_ASSERT(memcmp(b + 3, a, 50) == 0);
	memmove(b, b + 3, 50);
	DOMAIN_ASSERT(memcmp(b, a, 50) == 0);
	memset(b, 0xee, 64);
	DOMAIN_ASSERT(b[0] == 0xee && b[63] == 0xee && memcmp(a, b, 64) < 0);
	DOMAIN_ASSERT(strlen("portcullis") == 10 && strcmp("a", "b") < 0 && strcmp("a", "a") == 0);
}

static void check_format(const char *expected, const char *format, ...)
{
	char text[64];
	va_list arguments;

	va_start(arguments, format);
	format_text_v(text, sizeof text, format, arguments);
	va_end(arguments);
	if (strcmp(text, expected) != 0) {
		log_line("\"%s\" instead of \"%s\"", text, expected);
		domain_exit(STATUS_FAILED);
	}
}

static void test_text(void)
{
	char small[8];
	uint64_t number;

	check_format("-5 7 ff (null) x", "%d %u %x %s %c", -5, 7u, 255u, (char *)NULL, 'x');
	check_format("-9223372036854775808 18446744073709551615", "%lld %llu", INT64_MIN, UINT64_MAX);
	check_format("00000000000000ab   12 -03 %", "%016llx %4zu %03d %%", 0xabull, (size_t)12, -3);
	check_format("abc    ", "%s%4s", "abc", "");
	DOMAIN_ASSERT(format_text(small, sizeof small, "%s", "much too long") == 13 &&
	              strcmp(small, "much to") == 0);
	DOMAIN_ASSERT(text_number("18446744073709551615", &number) && number == UINT64_MAX);
	DOMAIN_ASSERT(!text_number("18446744073709551616", &number) && !text_number("", &number));
	DOMAIN_ASSERT(!text_number("-1", &number) && !text_number("1x", &number));
}

static void test_random_and_heap(void)
{
	uint8_t a[100] = {0}, b[100] = {0};
	uint8_t *first = heap_alloc(1), *second = heap_alloc(100);

	random_bytes(a, sizeof a);
	random_bytes(b, sizeof b);
	DOMAIN_ASSERT(memcmp(a, b, sizeof a) != 0 && memcmp(a, a + 50, 50) != 0);
	DOMAIN_ASSERT(second == first + 16 && second[99] == 0);
	DOMAIN_ASSERT(heap_alloc(heap_left() + 1) == NULL && heap_alloc(SIZE_MAX) == NULL);
	DOMAIN_ASSERT(time_unix() > 1600000000u * 1000000000ull);
}

static void test_clock(void)
{
	static const uint64_t waits_ms[] = {1, 20, 60};

	for (size_t i = 0; i < sizeof waits_ms / sizeof *waits_ms; i++) {
		uint64_t begin = time_now();

		time_wait(MILLISECONDS(waits_ms[i]));
		DOMAIN_ASSERT(time_now() - begin >= MILLISECONDS(waits_ms[i]));
	}
}

int main(int argc, char **argv)
{
	const char *what = argument_or(argc, argv, 1, "library");
	uint64_t woken = 0, end;
	struct channel *channel;

	DOMAIN_ASSERT(strcmp(argv[0], DOMAIN_BOOT->name) == 0);
	if (strcmp(what, "assertion") == 0)
		DOMAIN_ASSERT(argc == 77);
	if (strcmp(what, "clock") == 0)
		test_clock();
	if (strcmp(what, "quiet") == 0) {
		for (end = time_now() + MILLISECONDS(500); wait_events(events_seen(), end);)
			woken++;
		log_line("woken %llu times", (unsigned long long)woken);
	}
	test_memory();
	test_text();
	test_random_and_heap();
	DOMAIN_ASSERT(channel_connect("nobody", SECONDS(5), &channel) == CALL_NO_SERVICE);
	DOMAIN_ASSERT(channel_connect("", SECONDS(5), &channel) == CALL_BAD_ARGUMENT);
	DOMAIN_ASSERT(channel_accept(MILLISECONDS(5), &channel) == CALL_TIMED_OUT);
	DOMAIN_ASSERT(channel_accept(0, &channel) == CALL_AGAIN);
	log_line("passed %s", what);
	return STATUS_OK;
}
