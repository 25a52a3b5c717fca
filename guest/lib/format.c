/*
 * A small printf, and lines for the host's log.
 */
#include "guest/lib/domain.h"

struct output {
	char *text;
	size_t size;
	size_t n; /* may pass size: then the text was cut off */
};

/* One conversion: %[0][width][h|l|ll|z]letter. */
struct conversion {
	bool zero;
	int width;
	int longs; /* 0: int, 1: long, 2: long long; size_t counts as long */
	char letter;
};

static void put(struct output *output, char c)
{
	if (output->n + 1 < output->size)
		output->text[output->n] = c;
	output->n++;
}

static void put_padded(struct output *output, const struct conversion *conversion, const char *text, size_t n)
{
	bool zero = conversion->zero && conversion->letter != 's' && conversion->letter != 'c';
	int pad = conversion->width - (int)n;

	if (zero && n > 0 && *text == '-') {
		put(output, *text++);
		n--;
	}
	for (; pad > 0; pad--)
		put(output, zero ? '0' : ' ');
	while (n-- > 0)
		put(output, *text++);
}

static void put_number(struct output *output, const struct conversion *conversion, uint64_t value,
                       unsigned base, bool negative)
{
	char digits[24];
	size_t at = sizeof digits;

	do
		digits[--at] = "0123456789abcdef"[value % base];
	while ((value /= base) != 0);
	if (negative)
		digits[--at] = '-';
	put_padded(output, conversion, digits + at, sizeof digits - at);
}

static const char *parse(const char *format, struct conversion *conversion)
{
	*conversion = (struct conversion){0};
	if (*format == '0') {
		conversion->zero = true;
		format++;
	}
	for (; *format >= '0' && *format <= '9'; format++)
		conversion->width = conversion->width * 10 + (*format - '0');
	for (; *format == 'l' || *format == 'z' || *format == 'h'; format++)
		conversion->longs += *format != 'h';
	conversion->letter = *format;
	return *format != '\0' ? format + 1 : format;
}

static void put_conversion(struct output *output, const struct conversion *conversion, va_list *arguments)
{
	const char *text;
	int64_t number;
	char c;

	switch (conversion->letter) {
	case 'd':
	case 'i':
		number = conversion->longs ? va_arg(*arguments, long) : va_arg(*arguments, int);
		put_number(output, conversion, number < 0 ? -(uint64_t)number : (uint64_t)number, 10,
		           number < 0);
		break;
	case 'u':
	case 'x':
		put_number(output, conversion,
		           conversion->longs ? va_arg(*arguments, unsigned long)
		                             : va_arg(*arguments, unsigned),
		           conversion->letter == 'x' ? 16 : 10, false);
		break;
	case 'p':
		put_number(output, conversion, (uintptr_t)va_arg(*arguments, void *), 16, false);
		break;
	case 's':
		text = va_arg(*arguments, const char *);
		text = text != NULL ? text : "(null)";
		put_padded(output, conversion, text, strlen(text));
		break;
	case 'c':
		c = (char)va_arg(*arguments, int);
		put_padded(output, conversion, &c, 1);
		break;
	default:
		put(output, conversion->letter != '\0' ? conversion->letter : '%');
	}
}

_Static_assert(sizeof(long) == sizeof(long long) && sizeof(long) == sizeof(size_t), "l, ll and z are one");

size_t format_text_v(char *text, size_t size, const char *format, va_list arguments)
{
	struct output output = {.text = text, .size = size};
	struct conversion conversion;
	va_list rest;

	va_copy(rest, arguments);
	while (*format != '\0') {
		if (*format != '%') {
			put(&output, *format++);
			continue;
		}
		format = parse(format + 1, &conversion);
		put_conversion(&output, &conversion, &rest);
	}
	va_end(rest);
	if (size > 0)
		text[output.n < size ? output.n : size - 1] = '\0';
	return output.n;
}

size_t format_text(char *text, size_t size, const char *format, ...)
{
	va_list arguments;
	size_t n;

	va_start(arguments, format);
	n = format_text_v(text, size, format, arguments);
	va_end(arguments);
	return n;
}

void log_line(const char *format, ...)
{
	struct call_page *call = DOMAIN_CALL;
	va_list arguments;
	size_t n;

	va_start(arguments, format);
	n = format_text_v(call->text, sizeof call->text, format, arguments);
	va_end(arguments);
	(void)system_call(SYS_LOG, n < sizeof call->text ? n : sizeof call->text - 1, 0);
}
