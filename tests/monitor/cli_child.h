/*
 * The command line as a child process: what it printed and how it ended.
 *
 * Every wait has a deadline, and a child that misses it is killed by its own
 * pid. Each test has a folder of its own that goes with it.
 */
#ifndef PORTCULLIS_TESTS_CLI_CHILD_H
#define PORTCULLIS_TESTS_CLI_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CHILD_TEXT_BYTES (256u << 10)

struct child {
	pid_t pid;
	int pidfd;
	int out_fd, err_fd; /* memfds */
	char *out, *err;    /* after child_finish; freed by child_free */
	int status;         /* exit status, or 128 + signal */
};

/* The test's folder: made at the first call, removed with all in it at the end of the test. */
const char *test_folder(void);

/* A file in it; returns its path, which stays valid. */
const char *test_file(const char *name, const char *text);

/* A path in it, printf-formatted; stays valid. */
const char *test_path(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Starts portcullis with these arguments, ended by NULL; or another program, found in PATH. */
struct child child_start(const char *const *arguments);
struct child child_start_program(const char *program, const char *const *arguments);

/* Waits for its end, 60 s at most, and reads what it printed. */
void child_finish(struct child *child);

/* Waits until it has printed the text on standard error, 30 s at most. */
void child_await(struct child *child, const char *text);

void child_signal(const struct child *child, int signal);
void child_free(struct child *child);

/* Start and finish. */
struct child child_run(const char *const *arguments);
#define RUN(...) child_run((const char *const[]){__VA_ARGS__, NULL})
#define START(...) child_start((const char *const[]){__VA_ARGS__, NULL})

/* The exit status, and a text that standard error must hold. Frees the child. */
void child_expect(struct child *child, int status, const char *err_holds, const char *file, int line);
#define EXPECT(child, status, err_holds) child_expect(&(child), status, err_holds, __FILE__, __LINE__)

/* Skips the test where there is no KVM, or fails it if CI says that there has to be. */
void need_kvm(void);

#endif
